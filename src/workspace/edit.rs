//! Makes a snapshot of another one with some paths put in, replaced or taken out.
//!
//! Only objects are written, into the supervisor's own store; `copies` makes files of them.

use crate::error::{Error, Kind, Result};
use crate::workspace::store::{Store, TreeId, empty_tree, failure};
use crate::workspace::tree::{self, Entry};
use std::collections::BTreeMap;

/// What a path is to hold: git's mode and a blob, or nothing.
pub type Edits = BTreeMap<Vec<u8>, Option<(u32, git2::Oid)>>;

/// Deeper paths are left as they are: an agent decides how deep a tree is.
pub const MOST_FOLDERS: usize = 200;

/// Writes a snapshot that differs from `tree` in these paths; `/` separates folders.
///
/// A file in the way of a folder gives way, and so does a folder in the way of a file. A folder that
/// holds nothing any more is gone.
///
/// # Errors
/// A store that cannot be read or written; a path of more than [`MOST_FOLDERS`] folders.
pub fn edit(store: &Store, tree: &str, edits: &Edits) -> Result<TreeId> {
    if edits.is_empty() {
        return Ok(tree.to_owned());
    }
    let mut list = Vec::with_capacity(edits.len());
    for (path, held) in edits {
        if path.split(|byte| *byte == b'/').count() > MOST_FOLDERS {
            return Err(Error::new(Kind::WorkspaceInvalid, "a path is too deep to be laid over"));
        }
        list.push((path.as_slice(), *held));
    }
    let top = folder(store, Some(Store::parse(tree)?), &list)?;
    Ok(match top {
        Some(id) => id.to_string(),
        None => empty_tree()?.to_string(),
    })
}

type Edit<'a> = (&'a [u8], Option<(u32, git2::Oid)>);

/// Writes one folder; nothing where it would be empty. It calls itself no deeper than paths are.
fn folder(store: &Store, id: Option<git2::Oid>, edits: &[Edit<'_>]) -> Result<Option<git2::Oid>> {
    let mut entries: BTreeMap<Vec<u8>, Entry> = match id {
        Some(id) => store.read_tree(id)?.into_iter().map(|e| (e.name.clone(), e)).collect(),
        None => BTreeMap::new(),
    };
    let mut below: BTreeMap<&[u8], Vec<Edit<'_>>> = BTreeMap::new();
    for (path, held) in edits {
        match path.iter().position(|byte| *byte == b'/') {
            Some(slash) => {
                below.entry(&path[..slash]).or_default().push((&path[slash + 1..], *held))
            }
            None => match held {
                Some((mode, id)) => {
                    let entry = Entry { name: path.to_vec(), mode: *mode, id: *id };
                    entries.insert(path.to_vec(), entry);
                }
                None => {
                    if entries.get(*path).is_some_and(|found| found.mode != tree::FOLDER) {
                        entries.remove(*path);
                    }
                }
            },
        }
    }
    for (name, edits) in below {
        let found = entries.get(name).filter(|found| found.mode == tree::FOLDER).map(|e| e.id);
        let puts = edits.iter().any(|(_, held)| held.is_some());
        if found.is_none() && !puts {
            continue;
        }
        match folder(store, found, &edits)? {
            Some(id) => {
                let entry = Entry { name: name.to_vec(), mode: tree::FOLDER, id };
                entries.insert(name.to_vec(), entry);
            }
            None => drop(entries.remove(name)),
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let mut entries: Vec<Entry> = entries.into_values().collect();
    let bytes = tree::encode(&mut entries);
    let written = store.odb()?.write(git2::ObjectType::Tree, &bytes);
    written.map(Some).map_err(|e| failure(store.path(), "cannot write a folder of", e))
}

/// Writes bytes as a blob.
///
/// # Errors
/// A store that cannot be written.
pub fn write_blob(store: &Store, bytes: &[u8]) -> Result<git2::Oid> {
    let written = store.odb()?.write(git2::ObjectType::Blob, bytes);
    written.map_err(|e| failure(store.path(), "cannot write a file of", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::changes::changes;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("store")).unwrap();
        (dir, store)
    }

    fn made(store: &Store, files: &[(&str, Option<&str>)], on: &str) -> String {
        let edits = files.iter().map(|(path, text)| {
            let held = text.map(|text| (tree::FILE, write_blob(store, text.as_bytes()).unwrap()));
            (path.as_bytes().to_vec(), held)
        });
        edit(store, on, &edits.collect()).unwrap()
    }

    #[test]
    fn paths_come_go_and_give_way() {
        let (_dir, store) = store();
        let empty = empty_tree().unwrap().to_string();
        let one =
            made(&store, &[("a/b/c", Some("1")), ("a/d", Some("2")), ("e", Some("3"))], &empty);
        assert_eq!(made(&store, &[], &one), one);
        assert_eq!(made(&store, &[("a/d", Some("2"))], &one), one);
        // A folder that is empty is gone; a file where a folder was, and a folder where a file was.
        let two = made(&store, &[("a/b/c", None), ("e/f", Some("4")), ("x/y/z", None)], &one);
        let shown: Vec<String> =
            changes(&store, &one, &two).unwrap().into_iter().map(|c| c.path).collect();
        assert_eq!(shown, ["a/b/c", "e", "e/f"]);
        let three = made(&store, &[("a", Some("5"))], &two);
        let shown: Vec<String> =
            changes(&store, &two, &three).unwrap().into_iter().map(|c| c.path).collect();
        assert_eq!(shown, ["a", "a/d"]);
        let none = made(&store, &[("a", None), ("e/f", None)], &three);
        assert_eq!(none, empty);
    }

    #[test]
    fn a_path_that_is_too_deep_is_refused() {
        let (_dir, store) = store();
        let empty = empty_tree().unwrap().to_string();
        let edits = Edits::from([("a/".repeat(5_000).into_bytes(), None)]);
        assert!(edit(&store, &empty, &edits).is_err());
    }
}
