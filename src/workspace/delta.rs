//! What differs between two snapshots: files, symlinks and folders, by raw name.
//!
//! Reads trees through git2 only. What to do with a difference is the duty of `copies`, `patch` and
//! `deliver`.

use crate::error::{Error, Kind, Result};
use crate::workspace::paths;
use git2::{ObjectType, Oid, Repository};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of a path that the system's calls take, its end included.
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// What a snapshot holds at a path that is no folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// What sort of file it is.
    pub form: Form,
    /// The blob with its bytes, or with the target of a symlink.
    pub blob: Oid,
}

/// The sorts of files a snapshot can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A regular file, git mode 100644.
    Plain,
    /// A regular file that may be executed, git mode 100755.
    Executable,
    /// A symlink, git mode 120000.
    Link,
}

/// One path that two snapshots hold differently; at least one side is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path below the root, raw bytes.
    pub path: PathBuf,
    /// What the first snapshot holds.
    pub before: Option<Held>,
    /// What the second snapshot holds.
    pub after: Option<Held>,
}

/// The difference between two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    /// Changed files and symlinks by path.
    pub changes: Vec<Change>,
    /// Folders that only the second snapshot has, parents first.
    pub new_folders: Vec<PathBuf>,
    /// Folders that only the first snapshot has, children first.
    pub gone_folders: Vec<PathBuf>,
}

/// Reads the difference between two trees given as hexadecimal object ids.
///
/// Equal subtrees are not opened, so the cost follows the difference. Fails with
/// `workspace_invalid` when a tree is missing, holds a submodule, or a name no file can have.
pub fn read_delta(repo: &Repository, from: &str, to: &str) -> Result<Delta> {
    let (from, to) = (parse_tree_id(from)?, parse_tree_id(to)?);
    let mut delta = Delta::default();
    if from != to {
        compare(repo, Some(from), Some(to), &mut delta)?;
    }
    delta.gone_folders.reverse();
    Ok(delta)
}

/// Reads everything that a tree holds: what it has over an empty one.
pub fn read_all(repo: &Repository, tree: &str) -> Result<Delta> {
    let mut delta = Delta::default();
    compare(repo, None, Some(parse_tree_id(tree)?), &mut delta)?;
    Ok(delta)
}

/// Reads the bytes of a blob.
pub fn read_blob(repo: &Repository, blob: Oid, path: &Path) -> Result<Vec<u8>> {
    repo.find_blob(blob).map(|found| found.content().to_vec()).map_err(|source| {
        Error::new(
            Kind::WorkspaceInvalid,
            format!("the snapshot lacks the content of {}", paths::shown(paths::as_bytes(path))),
        )
        .because(source)
    })
}

fn parse_tree_id(text: &str) -> Result<Oid> {
    Oid::from_str(text).map_err(|source| {
        Error::new(Kind::WorkspaceInvalid, format!("{text:?} is not the id of a snapshot"))
            .because(source)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Folder(Oid),
    File(Held),
}

/// The names of one folder that are still to be compared.
struct Level {
    at: PathBuf,
    names: std::collections::btree_map::IntoIter<Vec<u8>, [Option<Entry>; 2]>,
}

impl Level {
    fn read(repo: &Repository, at: PathBuf, sides: [Option<Oid>; 2]) -> Result<Self> {
        let mut names: BTreeMap<Vec<u8>, [Option<Entry>; 2]> = BTreeMap::new();
        for (side, tree) in sides.into_iter().enumerate() {
            let Some(tree) = tree else { continue };
            for (name, entry) in read_entries(repo, &at, tree)? {
                names.entry(name).or_default()[side] = Some(entry);
            }
        }
        Ok(Self { at, names: names.into_iter() })
    }
}

/// Adds what differs, in the order of the names and a folder before what it holds; an agent decides
/// how deep a tree is, so nothing here calls itself.
fn compare(repo: &Repository, from: Option<Oid>, to: Option<Oid>, delta: &mut Delta) -> Result<()> {
    let mut levels = vec![Level::read(repo, PathBuf::new(), [from, to])?];
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { return Ok(()) };
        let Some((name, [before, after])) = level.names.next() else {
            levels.pop();
            continue;
        };
        if before == after {
            continue;
        }
        let path = level.at.join(OsStr::from_bytes(&name));
        if path.as_os_str().len() >= PATH_MAX {
            return Err(too_long(&path, depth));
        }
        let file = |entry| match entry {
            Some(Entry::File(held)) => Some(held),
            _ => None,
        };
        let folder = |entry| match entry {
            Some(Entry::Folder(oid)) => Some(oid),
            _ => None,
        };
        let (old, new) = (folder(before), folder(after));
        match (old, new) {
            (None, Some(_)) => delta.new_folders.push(path.clone()),
            (Some(_), None) => delta.gone_folders.push(path.clone()),
            _ => {}
        }
        if file(before).is_some() || file(after).is_some() {
            delta.changes.push(Change {
                path: path.clone(),
                before: file(before),
                after: file(after),
            });
        }
        if old.is_some() || new.is_some() {
            levels.push(Level::read(repo, path, [old, new])?);
        }
    }
}

fn too_long(path: &Path, depth: usize) -> Error {
    let shown = paths::shown(paths::as_bytes(path));
    let what = format!("{shown} is {depth} levels deep: no copy can hold a path that long");
    Error::new(Kind::WorkspaceInvalid, what)
        .hint(format!("a path must be shorter than {PATH_MAX} bytes"))
}

fn read_entries(repo: &Repository, at: &Path, tree: Oid) -> Result<Vec<(Vec<u8>, Entry)>> {
    let broken = |why: String| {
        Error::new(
            Kind::WorkspaceInvalid,
            format!("the snapshot's folder \"{}\" {why}", paths::shown(paths::as_bytes(at))),
        )
        .hint("The run's snapshot store is damaged or foreign; start a new run.")
    };
    let tree =
        repo.find_tree(tree).map_err(|source| broken("cannot be read".into()).because(source))?;
    let mut entries = Vec::with_capacity(tree.len());
    for entry in tree.iter() {
        let name = entry.name_bytes().to_vec();
        if matches!(&name[..], b"" | b"." | b"..") || name.contains(&b'/') || name.contains(&0) {
            return Err(broken(format!("names {:?}", String::from_utf8_lossy(&name))));
        }
        let form = match (entry.kind(), entry.filemode_raw()) {
            (Some(ObjectType::Tree), _) => {
                entries.push((name, Entry::Folder(entry.id())));
                continue;
            }
            (_, 0o120_000) => Form::Link,
            (Some(ObjectType::Blob), mode) if mode & 0o100 != 0 => Form::Executable,
            (Some(ObjectType::Blob), _) => Form::Plain,
            (_, mode) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                return Err(broken(format!("holds {name:?} with the mode {mode:o}")));
            }
        };
        entries.push((name, Entry::File(Held { form, blob: entry.id() })));
    }
    Ok(entries)
}
