//! Makes what a snapshot added to the store survive a power cut, before a receipt names it.
//!
//! Writing objects is left to `hash` and libgit2; when this has to happen is said at `Store`.

use crate::error::{Error, Kind, Result};
use crate::workspace::store::Store;
use git2::Oid;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// With more new files than this one sync of the file system is cheaper than one of each.
const FEW: usize = 64;
/// Syncs that are under way at once: a journal takes those that wait together in one go.
const AT_ONCE: usize = 8;
/// How much a file's time of birth may lag behind the clock.
const LAG: Duration = Duration::from_secs(2);

impl Store {
    /// Returns once the objects survive a power cut.
    ///
    /// Those that are not in a file of their own lie in packs, which the first call covers.
    ///
    /// # Errors
    /// `storage_exhausted` when the disk is full or fails.
    pub fn make_durable(&self, written: &[Oid]) -> Result<()> {
        let now = SystemTime::now();
        let failed = |e| {
            let what = format!("cannot make the snapshots in {} durable", self.path().display());
            Error::io(Kind::StorageExhausted, what, e)
        };
        match self.durable_until.get() {
            None => sync_all(self.path()).map_err(failed)?,
            Some(since) => {
                let files = self.new_files(written, since).map_err(failed)?;
                if files.len() > FEW {
                    sync_all(self.path()).map_err(failed)?;
                } else {
                    sync_each(&files).map_err(failed)?;
                    let folders: BTreeSet<&Path> =
                        files.iter().filter_map(|file| file.parent()).collect();
                    let mut folders: Vec<PathBuf> = folders.into_iter().map(Into::into).collect();
                    if !folders.is_empty() {
                        // A folder of objects may be new itself.
                        folders.push(self.path().join("objects"));
                    }
                    sync_each(&folders).map_err(failed)?;
                }
            }
        }
        self.durable_until.set(Some(now));
        Ok(())
    }

    /// Lists the files of objects that are younger than the last sync.
    fn new_files(&self, written: &[Oid], since: SystemTime) -> io::Result<Vec<PathBuf>> {
        let since = since.checked_sub(LAG).unwrap_or(SystemTime::UNIX_EPOCH);
        let ids: BTreeSet<&Oid> = written.iter().collect();
        let mut files = Vec::new();
        for id in ids {
            let id = id.to_string();
            let (folder, name) = id.split_at(2);
            let path = self.path().join("objects").join(folder).join(name);
            match std::fs::symlink_metadata(&path) {
                // The time of birth, as libgit2 touches a file that it finds; where there is none
                // the file counts as new.
                Ok(found) if found.created().is_ok_and(|born| born < since) => {}
                Ok(_) => files.push(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }
}

fn sync_each(paths: &[PathBuf]) -> io::Result<()> {
    let sync = |path: &PathBuf| match File::open(path)?.sync_all() {
        // Some network file systems cannot sync a folder, and keep its names anyway.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP)) => Ok(()),
        done => done,
    };
    let each = paths.len().div_ceil(AT_ONCE).max(1);
    std::thread::scope(|scope| {
        let parts = paths.chunks(each).map(|part| scope.spawn(|| part.iter().try_for_each(sync)));
        let parts: Vec<_> = parts.collect();
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")))
        })
    })
}

#[cfg(target_os = "linux")]
fn sync_all(path: &Path) -> io::Result<()> {
    nix::unistd::syncfs(File::open(path)?).map_err(Into::into)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(_: &Path) -> io::Result<()> {
    nix::unistd::sync();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_younger_than_the_last_time_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("store.git")).unwrap();
        let write = |text: &str| {
            store.odb().unwrap().write(git2::ObjectType::Blob, text.as_bytes()).unwrap()
        };
        let (first, second) = (write("first"), write("second"));
        let nowhere = Oid::hash_object(git2::ObjectType::Blob, b"in a pack").unwrap();
        assert!(store.durable_until.get().is_none());
        store.make_durable(&[first]).unwrap();
        let since = store.durable_until.get().unwrap();
        let files = store.new_files(&[first, second, second, nowhere], since).unwrap();
        assert_eq!(files.len(), 2, "twice is once, and what lies in a pack has no file");
        assert!(files.iter().all(|file| file.is_file()));
        assert!(store.new_files(&[first, second], since + LAG * 4).unwrap().is_empty());
        store.make_durable(&[first, second, nowhere]).unwrap();
        assert!(store.durable_until.get().unwrap() >= since);
        std::fs::remove_dir_all(dir.path().join("store.git")).unwrap();
        let open = Store::create(&dir.path().join("other.git")).unwrap();
        std::fs::remove_dir_all(dir.path().join("other.git")).unwrap();
        let error = open.make_durable(&[]).unwrap_err();
        assert_eq!(error.kind, Kind::StorageExhausted);
    }
}
