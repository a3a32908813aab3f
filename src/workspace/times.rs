//! Times that say when a file was really changed.
//!
//! Build tools take a file for unchanged when its time is older than what they built from it. Exec
//! may leave such files behind, on purpose or by unpacking, copying with times or moving folders:
//! they get the present time before the check builds. What a return to a snapshot writes has it
//! anyway (`restore`).

use crate::error::Result;
use crate::workspace::beneath::{Beneath, Way};
use crate::workspace::copying::failed;
use crate::workspace::delta::read_delta;
use crate::workspace::paths;
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::store::Store;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{UtimensatFlags, fstatat, utimensat};
use nix::sys::time::TimeSpec;
use std::collections::BTreeMap;
use std::fs::FileTimes;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A moment by the clock of a file system, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub(super) i128);

/// Reads the present moment by the clock of the file system that holds a folder.
///
/// # Errors
/// `storage_exhausted` or `workspace_invalid` when no file can be made there.
pub fn read_moment(folder: &Path) -> Result<Moment> {
    let path = folder.join(".moment");
    let read = || {
        let file = crate::foreign::create_anew(&path)?;
        file.set_times(FileTimes::new().set_modified(SystemTime::now()))?;
        let found = file.metadata()?;
        std::fs::remove_file(&path)?;
        Ok(Moment(nanoseconds(found.ctime(), found.ctime_nsec())))
    };
    read().map_err(|e| failed("write", &path, e))
}

/// Gives the present time to files whose own does not tell that they changed after `since`; returns
/// how many.
///
/// These are all that were touched since then and show another time than that, and those that
/// differ from the snapshot `base` in `now` and show an older one. The snapshotter has just walked
/// the tree; no process may write to it meanwhile.
///
/// # Errors
/// `workspace_invalid` when a file cannot be changed or a snapshot is not in the store.
pub fn renew(
    snapshotter: &Snapshotter,
    root: &Path,
    store: &Store,
    base: &str,
    now: &str,
    since: Moment,
) -> Result<usize> {
    let mut stale: BTreeMap<PathBuf, Time> = BTreeMap::new();
    for change in read_delta(store.repository(), base, now)?.changes {
        stale.insert(change.path, Time::IfOlder);
    }
    for path in snapshotter.touched_with_another_time(since) {
        stale.insert(paths::as_path(&path).to_owned(), Time::Any);
    }
    if stale.is_empty() {
        return Ok(0);
    }
    let beneath = Beneath::open(root)?;
    let mut renewed = 0;
    for (path, time) in &stale {
        let (above, name) = beneath.split(path)?;
        let Way::Open(folder) = beneath.open_folder(above)? else { continue };
        let problem = |e: Errno| failed("change the time of", &beneath.full(path), e.into());
        let stat = match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => continue,
            Err(e) => return Err(problem(e)),
        };
        let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        let modified = nanoseconds(stat.st_mtime, stat.st_mtime_nsec);
        if is_file && (*time == Time::Any || modified < since.0) {
            let (now, flags) = (TimeSpec::UTIME_NOW, UtimensatFlags::NoFollowSymlink);
            utimensat(&folder, name, &now, &now, flags).map_err(problem)?;
            renewed += 1;
        }
    }
    Ok(renewed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    /// Whatever it shows, it is not the one of the last change.
    Any,
    /// It may tell of the change.
    IfOlder,
}

fn nanoseconds(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::ignored::Ignored;
    use std::fs;
    use std::time::Duration;

    #[test]
    fn what_changed_shows_it_and_the_rest_keeps_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        let store = Store::create(&dir.path().join("store")).unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let write = |name: &str, content: &str| {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), content).unwrap();
        };
        let set = |name: &str, time| {
            let file = fs::File::options().write(true).open(root.join(name)).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        };
        let modified = |name: &str| fs::metadata(root.join(name)).unwrap().modified().unwrap();
        for name in ["kept", "plain", "backdated", "same", "a/x", "b/x"] {
            write(name, name);
            set(name, old);
        }
        let mut snapshotter = Snapshotter::new(Ignored::default());
        let base = snapshotter.take(&root, &store, &|| false).unwrap().tree;
        std::thread::sleep(Duration::from_millis(30));
        let since = read_moment(dir.path()).unwrap();
        write("plain", "other");
        let written = modified("plain");
        write("backdated", "other");
        set("backdated", old);
        // Another content came and went, and a folder took the place of one with other content.
        write("same", "same");
        set("same", old);
        fs::rename(root.join("a"), root.join("c")).unwrap();
        fs::rename(root.join("b"), root.join("a")).unwrap();
        let now = snapshotter.take(&root, &store, &|| false).unwrap().tree;
        let renewed = renew(&snapshotter, &root, &store, &base, &now, since).unwrap();
        assert_eq!((modified("kept"), modified("plain")), (old, written));
        for name in ["backdated", "same", "a/x", "c/x"] {
            assert!(modified(name) >= written, "{name}");
        }
        assert_eq!(renewed, 4);
        assert_eq!(snapshotter.take(&root, &store, &|| false).unwrap().tree, now);
    }
}
