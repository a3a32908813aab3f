//! Snapshots: the git tree of a working tree after a step, written into the supervisor's store.
//!
//! The walk is the duty of `walk`, going back to a snapshot that of `restore`.

use crate::error::{Error, Kind, Result};
use crate::workspace::hash::Hashing;
use crate::workspace::ignored::{Ignored, Listed};
use crate::workspace::known::{Entry, Known};
use crate::workspace::store::{Store, TreeId};
use crate::workspace::times::Moment;
use crate::workspace::walk::{Found, Specials, Walk};
use crate::workspace::{Stop, paths};
use std::path::Path;

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its tree in the store.
    pub tree: TreeId,
    /// Files and links in it.
    pub files: u64,
    /// The sizes of its files, summed up.
    pub bytes: u64,
    /// Files that had to be read, the others being unchanged since the last walk.
    pub hashed: u64,
    /// FIFOs, sockets and devices found outside ignored paths (and removed, where that is asked).
    pub specials_removed: Vec<(String, &'static str)>,
    /// Nested `.git` folders and files outside ignored paths; they are not in the tree.
    pub nested_git: Vec<String>,
    /// What it may have added to the store, for [`Store::make_durable`].
    pub written: Vec<git2::Oid>,
}

/// Takes snapshots of one tree, and remembers what it saw.
#[derive(Debug)]
pub struct Snapshotter {
    pub(super) ignored: Ignored,
    pub(super) specials: Specials,
    pub(super) known: Known,
}

impl Snapshotter {
    /// Makes one that has seen nothing yet; special files are removed.
    pub fn new(ignored: Ignored) -> Self {
        Self { ignored, specials: Specials::Remove, known: Known::default() }
    }

    /// Decides what is done with special files: in the caller's own tree they are kept.
    pub fn with_specials(mut self, specials: Specials) -> Self {
        self.specials = specials;
        self
    }

    /// Returns what is ignored.
    pub fn ignored(&self) -> &Ignored {
        &self.ignored
    }

    /// Takes a snapshot. No process may write to the tree meanwhile.
    pub fn take(&mut self, root: &Path, store: &Store, stop: Stop<'_>) -> Result<Snapshot> {
        let started = std::time::Instant::now();
        let found = self.walk(root, store, Hashing::Store, stop)?;
        tracing::trace!(
            files = found.files,
            hashed = found.hashed,
            took = ?started.elapsed(),
            "a snapshot was taken"
        );
        Ok(Snapshot {
            tree: self.root_tree()?.to_string(),
            files: found.files,
            bytes: found.bytes,
            hashed: found.hashed,
            specials_removed: found.specials,
            nested_git: found.nested_git,
            written: found.written,
        })
    }

    /// Returns the ignored files and folders that the last walk came upon, and whether each is a
    /// folder; what ignored folders hold was not looked at.
    pub fn ignored_paths(&self) -> Vec<(Vec<u8>, Listed)> {
        self.collect(|entry| match entry {
            Entry::Ignored(is) => Some(*is),
            _ => None,
        })
    }

    /// Returns the nested `.git` folders and files outside ignored paths that the last walk saw.
    pub fn nested_git(&self) -> Vec<Vec<u8>> {
        let found = self.collect(|entry| match entry {
            Entry::NestedGit => Some(Listed::Folder),
            _ => None,
        });
        found.into_iter().map(|(path, _)| path).collect()
    }

    /// Returns the files that the last walk saw touched since a moment without their own time telling
    /// so.
    pub(super) fn touched_with_another_time(&self, since: Moment) -> Vec<Vec<u8>> {
        let found = self.collect(|entry| match entry {
            Entry::File { mark, .. } if mark.is_touched_with_another_time(since) => Some(()),
            _ => None,
        });
        found.into_iter().map(|(path, ())| path).collect()
    }

    fn collect<T>(&self, wanted: impl Fn(&Entry) -> Option<T>) -> Vec<(Vec<u8>, T)> {
        let mut found = Vec::new();
        let mut pending = vec![(0, Vec::new())];
        while let Some((index, path)) = pending.pop() {
            let Some(folder) = self.known.folders.get(index) else { continue };
            for (name, entry) in &folder.entries {
                if let Some(is) = wanted(entry) {
                    found.push((paths::join(&path, name), is));
                } else if let Entry::Folder(below) = entry {
                    pending.push((*below, paths::join(&path, name)));
                }
            }
        }
        found
    }

    pub(super) fn walk(
        &mut self,
        root: &Path,
        store: &Store,
        hashing: Hashing,
        stop: Stop<'_>,
    ) -> Result<Found> {
        // A walk that fails leaves nothing known, and the next one reads everything.
        let old = std::mem::take(&mut self.known);
        let walk = Walk { ignored: &self.ignored, specials: self.specials, hashing, store, stop };
        let (known, found) = walk.read(root, old)?;
        self.known = known;
        Ok(found)
    }

    pub(super) fn root_tree(&self) -> Result<git2::Oid> {
        self.known
            .folders
            .first()
            .map(|folder| folder.id)
            .ok_or_else(|| Error::new(Kind::Internal, "no walk was made yet"))
    }
}
