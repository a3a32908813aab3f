//! One walk over a tree: what is there, what changed since the last walk, and the ids of all of it.
//!
//! A file is read again when its size, times, inode or mode differ from the last walk's, or when it
//! was so young then that a later write could carry the same times. Reading and hashing go to
//! `hash`; what a walk is for is the matter of `snapshot` and `restore`.

use crate::error::{Error, Kind, Result};
use crate::workspace::at::{Descent, Sort, kind_of};
use crate::workspace::gitcmd::interrupted;
use crate::workspace::hash::{Hasher, Hashing};
use crate::workspace::ignored::{Content, Ignored, Listed, Standing};
use crate::workspace::known::{Entry, Folder, Known, Mark};
use crate::workspace::scan::OUTSIDE;
use crate::workspace::store::Store;
use crate::workspace::{Stop, paths, tree};
use nix::fcntl::readlinkat;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is done with FIFOs, sockets and devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// They are removed and reported.
    Remove,
    /// They are reported: the tree is the caller's own.
    Keep,
}

/// Bytes of the longest path of a tree: half of what the system takes, as every copy has a path of its own before it.
const LONGEST_PATH: usize = 2048;

/// What a walk came across.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) hashed: u64,
    pub(super) specials: Vec<(String, &'static str)>,
    pub(super) nested_git: Vec<String>,
    /// Objects that were written where they were missing.
    pub(super) written: Vec<git2::Oid>,
}

struct Frame {
    names: std::vec::IntoIter<CString>,
    index: usize,
    old: Option<usize>,
    cursor: usize,
    matched: usize,
    standing: Standing,
    content: Option<Content>,
    recorded: bool,
}

/// The settings and the state of a walk.
pub(super) struct Walk<'a> {
    pub(super) ignored: &'a Ignored,
    pub(super) specials: Specials,
    pub(super) hashing: Hashing,
    pub(super) store: &'a Store,
    pub(super) stop: Stop<'a>,
}

impl Walk<'_> {
    /// Walks the tree; `old` is what the last walk knew.
    pub(super) fn read(&self, root: &Path, old: Known) -> Result<(Known, Found)> {
        let odb = self.store.odb()?;
        let mut found = Found::default();
        let mut known = Known::default();
        let pending = Hasher::scope(&odb, self.hashing, self.store.path(), self.stop, |hasher| {
            self.read_folders(root, old, &mut known, &mut found, hasher)
        })?;
        found.hashed = pending.len() as u64;
        found.written.extend(pending.iter().map(|(_, id)| *id));
        for ((folder, place), id) in pending {
            let folder = &mut known.folders[folder];
            if let Entry::File { id: old, mark } = &mut folder.entries[place].1 {
                folder.changed |= *old != id;
                *old = id;
                if self.hashing == Hashing::Only {
                    // Its content need not be in the store: a walk that writes reads it again.
                    *mark = mark.unsettled();
                }
            }
        }
        self.write_trees(&odb, &mut known, &mut found)?;
        Ok((known, found))
    }

    fn read_folders(
        &self,
        root: &Path,
        mut old: Known,
        known: &mut Known,
        found: &mut Found,
        hasher: &Hasher<'_>,
    ) -> Result<()> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let started = i128::try_from(started).unwrap_or(0);
        let mut descent = Descent::open(root)?;
        let first = if old.folders.is_empty() { None } else { Some(0) };
        let mut frames = vec![open_frame(&descent, known, &old, first, 0, Standing::Recorded)?];
        while let Some(frame) = frames.last_mut() {
            let Some(name) = frame.names.next() else {
                self.close_frame(&mut frames, known, &old, &mut descent)?;
                continue;
            };
            if (self.stop)() {
                return Err(interrupted());
            }
            let bytes = name.to_bytes();
            if descent.depth() == 0 && OUTSIDE.contains(&bytes) {
                continue;
            }
            let before = take_old(frame, &mut old, bytes);
            if name.as_c_str() == c".git" {
                if frame.standing == Standing::Recorded {
                    found.nested_git.push(paths::escape(&paths::join(descent.path(), bytes)));
                }
                push(known, frame, before, &name, Entry::NestedGit);
                frame.content.get_or_insert(Content::IgnoredAlone);
                continue;
            }
            let stat = descent.read_stat(&name)?;
            let length = descent.path().len() + 1 + bytes.len();
            // No copy could hold it, whatever it is.
            let sort = match length <= LONGEST_PATH {
                true => kind_of(&stat),
                false => Sort::Special("path of over 2048 bytes"),
            };
            let is = if sort == Sort::Folder { Listed::Folder } else { Listed::File };
            let standing = self.standing(&descent, &name, is, frame.standing, before.as_ref());
            if standing == Standing::Ignored {
                push(known, frame, before, &name, Entry::Ignored(is));
                frame.content.get_or_insert(Content::IgnoredAlone);
                continue;
            }
            let mark = Mark::of(&stat, started);
            match sort {
                Sort::Special(kind) => {
                    found.specials.push((paths::shown(&paths::join(descent.path(), bytes)), kind));
                    if self.specials == Specials::Remove {
                        descent.remove_all(&name)?;
                        known.folders[frame.index].changed = true;
                    } else {
                        push(known, frame, before, &name, Entry::Special);
                        frame.content.get_or_insert(Content::IgnoredAlone);
                    }
                }
                Sort::Link => {
                    let (id, mark) = match before {
                        Some((_, Entry::Link { mark: was, id })) if was.still(&mark) => (id, mark),
                        _ => {
                            let id = self.hash_link(&descent, &name, hasher)?;
                            found.written.push(id);
                            let only = self.hashing == Hashing::Only;
                            (id, if only { mark.unsettled() } else { mark })
                        }
                    };
                    found.files += 1;
                    frame.recorded = true;
                    push(known, frame, before, &name, Entry::Link { mark, id });
                }
                Sort::File => {
                    found.files += 1;
                    found.bytes += u64::try_from(stat.st_size).unwrap_or(0);
                    frame.recorded = true;
                    let (id, fresh) = match &before {
                        Some((_, Entry::File { mark: was, id })) => (*id, was.still(&mark)),
                        _ => (zero()?, false),
                    };
                    push(known, frame, before, &name, Entry::File { mark, id });
                    if !fresh {
                        let place = known.folders[frame.index].entries.len() - 1;
                        let file = descent.open_own_file(&name, stat.st_mode)?;
                        let path = paths::join(descent.path(), bytes);
                        hasher.send((frame.index, place), file, path)?;
                    }
                }
                Sort::Folder => {
                    let below = match &before {
                        Some((_, Entry::Folder(index))) => Some(*index),
                        _ => None,
                    };
                    let index = known.folders.len();
                    let above = frame.index;
                    push(known, frame, before, &name, Entry::Folder(index));
                    descent.enter_own(&name, stat.st_mode)?;
                    frames.push(open_frame(&descent, known, &old, below, above, standing)?);
                }
            }
        }
        Ok(())
    }

    fn standing(
        &self,
        descent: &Descent,
        name: &CStr,
        is: Listed,
        above: Standing,
        before: Option<&(Box<[u8]>, Entry)>,
    ) -> Standing {
        // The rules never change in a run: an equal name of an equal sort stands as it stood.
        match (before, is) {
            (Some((_, Entry::Ignored(was))), _) if *was == is => Standing::Ignored,
            (Some((_, Entry::File { .. } | Entry::Link { .. })), Listed::File) => {
                Standing::Recorded
            }
            _ => self.ignored.standing(&paths::join(descent.path(), name.to_bytes()), is, above),
        }
    }

    fn hash_link(&self, descent: &Descent, name: &CStr, hasher: &Hasher<'_>) -> Result<git2::Oid> {
        let target = readlinkat(descent.folder(), name)
            .map_err(|e| descent.failure(name.to_bytes(), "cannot read the link", e))?;
        hasher.hash_bytes(git2::ObjectType::Blob, target.as_bytes())
    }

    fn close_frame(
        &self,
        frames: &mut Vec<Frame>,
        known: &mut Known,
        old: &Known,
        descent: &mut Descent,
    ) -> Result<()> {
        let Some(frame) = frames.pop() else { return Ok(()) };
        let content = frame.content.unwrap_or(Content::Nothing);
        let recorded = frame.recorded
            || frame.standing == Standing::Recorded
                && self.ignored.records_folder(descent.path(), content);
        let folder = &mut known.folders[frame.index];
        folder.recorded = recorded;
        match frame.old.map(|index| &old.folders[index]) {
            Some(was) => {
                folder.changed |= was.entries.len() != frame.matched || was.recorded != recorded;
            }
            None => folder.changed = true,
        }
        if let Some(above) = frames.last_mut() {
            above.recorded |= recorded;
            above.content.get_or_insert(Content::IgnoredAlone);
        }
        descent.leave()
    }

    /// Writes the trees of folders that changed, the deepest first.
    fn write_trees(&self, odb: &git2::Odb<'_>, known: &mut Known, found: &mut Found) -> Result<()> {
        for index in (0..known.folders.len()).rev() {
            let folder = &known.folders[index];
            if !folder.changed && (folder.stored || self.hashing == Hashing::Only) {
                continue;
            }
            let mut entries = Vec::new();
            for (name, entry) in &known.folders[index].entries {
                let (mode, id) = match entry {
                    Entry::File { mark, id } => (mark.file_mode(), *id),
                    Entry::Link { id, .. } => (tree::LINK, *id),
                    Entry::Folder(below) if known.folders[*below].recorded => {
                        (tree::FOLDER, known.folders[*below].id)
                    }
                    _ => continue,
                };
                entries.push(tree::Entry { name: name.to_vec(), mode, id });
            }
            let bytes = tree::encode(&mut entries);
            let id = self.hashing.object(odb, git2::ObjectType::Tree, &bytes, self.store.path())?;
            found.written.push(id);
            known.folders[index].id = id;
            known.folders[index].stored = self.hashing == Hashing::Store;
            let above = known.folders[index].above;
            known.folders[above].changed = true;
        }
        Ok(())
    }
}

fn open_frame(
    descent: &Descent,
    known: &mut Known,
    old: &Known,
    old_index: Option<usize>,
    above: usize,
    standing: Standing,
) -> Result<Frame> {
    let index = known.folders.len();
    let names = descent.read_names()?;
    let (id, stored) = match old_index.map(|index| &old.folders[index]) {
        Some(was) => (was.id, was.stored),
        None => (zero()?, false),
    };
    let entries = Vec::with_capacity(names.len());
    known.folders.push(Folder { entries, id, recorded: true, above, changed: false, stored });
    Ok(Frame {
        names: names.into_iter(),
        index,
        old: old_index,
        cursor: 0,
        matched: 0,
        standing,
        content: None,
        recorded: false,
    })
}

/// Takes the last walk's entry of a name out of the sorted list.
fn take_old(frame: &mut Frame, old: &mut Known, name: &[u8]) -> Option<(Box<[u8]>, Entry)> {
    let entries = &mut old.folders[frame.old?].entries;
    while let Some((other, _)) = entries.get(frame.cursor)
        && other.as_ref() < name
    {
        frame.cursor += 1;
    }
    let (other, entry) = entries.get_mut(frame.cursor)?;
    if other.as_ref() != name {
        return None;
    }
    frame.cursor += 1;
    frame.matched += 1;
    Some((std::mem::take(other), *entry))
}

/// Adds an entry to the folder at hand, and notes whether its tree can still be the last walk's.
fn push(
    known: &mut Known,
    frame: &Frame,
    before: Option<(Box<[u8]>, Entry)>,
    name: &CStr,
    entry: Entry,
) {
    let folder = &mut known.folders[frame.index];
    let same = match (&before, &entry) {
        (Some((_, Entry::File { mark: was, id: old })), Entry::File { mark, id }) => {
            was.file_mode() == mark.file_mode() && old == id
        }
        (Some((_, Entry::Link { id: old, .. })), Entry::Link { id, .. }) => old == id,
        (Some((_, Entry::Folder(_))), Entry::Folder(_))
        | (
            Some((_, Entry::Ignored(_) | Entry::NestedGit | Entry::Special)),
            Entry::Ignored(_) | Entry::NestedGit | Entry::Special,
        ) => true,
        _ => false,
    };
    folder.changed |= !same;
    let name = before.map_or_else(|| name.to_bytes().into(), |(name, _)| name);
    folder.entries.push((name, entry));
}

fn zero() -> Result<git2::Oid> {
    git2::Oid::from_bytes(&[0; 20])
        .map_err(|source| Error::new(Kind::Internal, "cannot make an object id").because(source))
}
