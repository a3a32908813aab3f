//! Going back to a snapshot, and writing one into an empty folder.
//!
//! Only what differs is written, under a new inode and with the present time: a recorded time over a
//! build cache would make a build tool take a changed file for unchanged. Ignored paths stay.

use crate::error::{Error, Kind, Result};
use crate::workspace::at::Descent;
use crate::workspace::changes::changes;
use crate::workspace::gitcmd::interrupted;
use crate::workspace::hash::Hashing;
use crate::workspace::known::{Entry, Known};
use crate::workspace::scan::OUTSIDE;
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::store::Store;
use crate::workspace::{Stop, paths, tree};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::symlinkat;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// What going back did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files and links written or changed in mode.
    pub written: u64,
    /// Files and links removed.
    pub removed: u64,
}

/// Brings the non-ignored files of a tree back to a snapshot.
pub fn restore(
    snapshotter: &mut Snapshotter,
    root: &Path,
    store: &Store,
    tree: &str,
    stop: Stop<'_>,
) -> Result<Restored> {
    let target = Store::parse(tree)?;
    snapshotter.walk(root, store, Hashing::Only, stop)?;
    if snapshotter.root_tree()? == target {
        return Ok(Restored::default());
    }
    let restored = apply(root, store, target, Some(&snapshotter.known), stop)?;
    let now = snapshotter.take(root, store, stop)?.tree;
    if now != tree {
        let left = changes(store, tree, &now)?;
        // An ignored file in a folder that was empty keeps the folder from being what it was.
        let folder = |side: &Option<crate::workspace::changes::Version>| {
            side.as_ref().is_none_or(|version| version.mode == tree::FOLDER)
        };
        if let Some(change) = left.iter().find(|c| !folder(&c.before) || !folder(&c.after)) {
            let what = format!("{} did not return to the snapshot", change.path);
            return Err(Error::new(Kind::WorkspaceInvalid, what)
                .hint("something else writes to the workspace, or its file system alters names"));
        }
    }
    Ok(restored)
}

/// Writes a snapshot into a folder that does not exist or is empty.
pub fn checkout(store: &Store, tree: &str, dest: &Path, stop: Stop<'_>) -> Result<Restored> {
    crate::workspace::places::create_folder(dest)?;
    apply(dest, store, Store::parse(tree)?, None, stop)
}

struct Frame {
    steps: std::vec::IntoIter<(Vec<u8>, Option<Entry>, Option<tree::Entry>)>,
    name: CString,
    /// Whether the folder goes once it is empty.
    goes: bool,
}

struct Apply<'a> {
    store: &'a Store,
    known: Option<&'a Known>,
    at: Descent,
    frames: Vec<Frame>,
    restored: Restored,
}

fn apply(
    root: &Path,
    store: &Store,
    target: git2::Oid,
    known: Option<&Known>,
    stop: Stop<'_>,
) -> Result<Restored> {
    let at = Descent::open(root)?;
    let mut apply = Apply { store, known, at, frames: Vec::new(), restored: Restored::default() };
    let top = known.filter(|known| !known.folders.is_empty()).map(|_| 0);
    apply.open(c".".to_owned(), top, Some(target), false)?;
    while let Some(frame) = apply.frames.last_mut() {
        if stop() {
            return Err(interrupted());
        }
        match frame.steps.next() {
            Some((name, now, wanted)) => apply.step(&name, now, wanted)?,
            None => apply.close()?,
        }
    }
    Ok(apply.restored)
}

impl Apply<'_> {
    /// Starts on the folder that `at` stands in: what is there, against what is wanted.
    fn open(
        &mut self,
        name: CString,
        now: Option<usize>,
        wanted: Option<git2::Oid>,
        goes: bool,
    ) -> Result<()> {
        let mut steps: BTreeMap<Vec<u8>, (Option<Entry>, Option<tree::Entry>)> = BTreeMap::new();
        if let (Some(known), Some(index)) = (self.known, now) {
            for (name, entry) in &known.folders[index].entries {
                steps.entry(name.to_vec()).or_default().0 = Some(*entry);
            }
        }
        let mut names = BTreeSet::new();
        for entry in wanted.map_or(Ok(Vec::new()), |id| self.store.read_tree(id))? {
            let outside = self.at.depth() == 0 && OUTSIDE.contains(&entry.name.as_slice());
            let bad = matches!(entry.name.as_slice(), b"" | b"." | b".." | b".git")
                || entry.name.contains(&b'/');
            if outside || bad || !names.insert(entry.name.clone()) {
                let what = format!("a snapshot names {:?}", paths::escape(&entry.name));
                return Err(Error::new(Kind::ObjectiveUnverified, what));
            }
            let name = entry.name.clone();
            steps.entry(name).or_default().1 = Some(entry);
        }
        let steps: Vec<_> =
            steps.into_iter().map(|(name, (now, wanted))| (name, now, wanted)).collect();
        self.frames.push(Frame { steps: steps.into_iter(), name, goes });
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        let Some(done) = self.frames.pop() else { return Ok(()) };
        if !self.frames.is_empty() {
            self.at.leave()?;
            if done.goes {
                self.at.remove_empty_folder(&done.name)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, name: &[u8], now: Option<Entry>, wanted: Option<tree::Entry>) -> Result<()> {
        let name = CString::new(name)
            .map_err(|e| Error::new(Kind::ObjectiveUnverified, "a NUL in a name").because(e))?;
        let Some(wanted) = wanted else { return self.remove(&name, now) };
        match now {
            Some(Entry::Folder(index)) if wanted.mode == tree::FOLDER => {
                let same = self.known.is_some_and(|known| known.folders[index].id == wanted.id);
                if same {
                    return Ok(());
                }
                self.at.enter(&name)?;
                return self.open(name, Some(index), Some(wanted.id), false);
            }
            Some(Entry::File { mark, id }) if wanted.id == id && is_file(wanted.mode) => {
                if mark.file_mode() == wanted.mode {
                    return Ok(());
                }
                let mode = self.at.read_stat(&name)?.st_mode;
                let bits = if wanted.mode == tree::PROGRAM {
                    mode | (mode & 0o444) >> 2 | libc::S_IXUSR
                } else {
                    mode & !0o111
                };
                self.restored.written += 1;
                return self
                    .at
                    .change_mode(&name, bits)
                    .map_err(|e| self.at.failure(name.to_bytes(), "cannot set the mode of", e));
            }
            Some(Entry::Link { id, .. }) if wanted.id == id && wanted.mode == tree::LINK => {
                return Ok(());
            }
            Some(_) => {
                self.at.remove_all(&name)?;
            }
            None => {}
        }
        self.write(&name, &wanted)
    }

    fn remove(&mut self, name: &CStr, now: Option<Entry>) -> Result<()> {
        match now {
            Some(Entry::File { .. } | Entry::Link { .. }) => {
                self.at.remove_file(name)?;
                self.restored.removed += 1;
                Ok(())
            }
            Some(Entry::Folder(index))
                if self.known.is_some_and(|known| known.folders[index].recorded) =>
            {
                self.at.enter(name)?;
                self.open(name.to_owned(), Some(index), None, true)
            }
            _ => Ok(()),
        }
    }

    fn write(&mut self, name: &CStr, wanted: &tree::Entry) -> Result<()> {
        let bytes = name.to_bytes();
        if wanted.mode == tree::FOLDER {
            mkdirat(self.at.folder(), name, Mode::from_bits_truncate(0o777))
                .map_err(|e| self.at.failure(bytes, "cannot make the folder", e))?;
            self.at.enter(name)?;
            return self.open(name.to_owned(), None, Some(wanted.id), false);
        }
        let content = self.store.read_blob(wanted.id)?;
        self.restored.written += 1;
        if wanted.mode == tree::LINK {
            return symlinkat(paths::as_path(&content), self.at.folder(), name)
                .map_err(|e| self.at.failure(bytes, "cannot make the link", e));
        }
        if !is_file(wanted.mode) {
            let what = format!("a snapshot holds a mode {:o}", wanted.mode);
            return Err(Error::new(Kind::ObjectiveUnverified, what));
        }
        let mode = if wanted.mode == tree::PROGRAM { 0o777 } else { 0o666 };
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let fd = openat(self.at.folder(), name, flags, Mode::from_bits_truncate(mode))
            .map_err(|e| self.at.failure(bytes, "cannot make the file", e))?;
        File::from(fd).write_all(&content).map_err(|source| {
            let path = paths::shown(&paths::join(self.at.path(), bytes));
            Error::io(Kind::WorkspaceInvalid, format!("cannot write {path}"), source)
        })
    }
}

fn is_file(mode: u32) -> bool {
    mode == tree::FILE || mode == tree::PROGRAM
}
