//! What is delivered: what was carried, with the loop's own changes laid on it.
//!
//! `setup` and the first check may add files of their own before t0 (a lock file, say). They are in
//! t0, so that they count as nobody's change, but they are not the loop's result either. Writing
//! the difference into the caller's tree is the duty of `deliver`, `branch` and `patch`.

use crate::error::Result;
use crate::workspace::store::{Store, TreeId, failure};
use crate::workspace::tree::{Entry, FOLDER, encode};
use git2::Oid;
use std::collections::BTreeMap;

/// Writes the tree that holds `carried` with everything that differs from `t0` to `last` laid on
/// it, and returns its id.
///
/// A path that `setup` or the check made and the loop changed afterwards is part of it; one that
/// only they made or changed is as it was carried.
///
/// # Errors
/// `objective_unverified` when a tree is not in the store, `storage_exhausted` on a full disk.
pub fn write_wanted(store: &Store, carried: &str, t0: &str, last: &str) -> Result<TreeId> {
    if carried == t0 {
        return Ok(last.to_owned());
    }
    let [carried, t0, last] = [Store::parse(carried)?, Store::parse(t0)?, Store::parse(last)?];
    Ok(write_laid(store, Some(carried), Some(t0), Some(last))?.to_string())
}

type Held = (u32, Oid);

/// Three states of one name: carried, at t0, last.
type Three = [Option<Held>; 3];

fn write_laid(
    store: &Store,
    carried: Option<Oid>,
    t0: Option<Oid>,
    last: Option<Oid>,
) -> Result<Oid> {
    let mut names: BTreeMap<Vec<u8>, Three> = BTreeMap::new();
    for (side, tree) in [carried, t0, last].into_iter().enumerate() {
        for entry in tree.map(|tree| store.read_tree(tree)).transpose()?.unwrap_or_default() {
            names.entry(entry.name).or_default()[side] = Some((entry.mode, entry.id));
        }
    }
    let mut entries = Vec::new();
    for (name, three) in names {
        if let Some((mode, id)) = write_one(store, three)? {
            entries.push(Entry { name, mode, id });
        }
    }
    let path = store.path();
    store
        .odb()?
        .write(git2::ObjectType::Tree, &encode(&mut entries))
        .map_err(|source| failure(path, "cannot write into the snapshot store", source))
}

fn write_one(store: &Store, [carried, t0, last]: Three) -> Result<Option<Held>> {
    let folder = |held: Option<Held>| held.filter(|(mode, _)| *mode == FOLDER).map(|(_, id)| id);
    if t0 == last {
        return Ok(carried);
    }
    match (folder(carried), folder(t0), folder(last)) {
        // A file that is new or other than at t0.
        (_, _, None) if last.is_some() => Ok(last),
        // A file went away; where none was carried, nothing does.
        (None, None, None) => Ok(None),
        (Some(_), None, None) => Ok(carried),
        // A folder went away that took the place of something carried.
        (None, Some(_), None) => Ok(carried),
        // A folder of the loop's own stays as it is, however deep: only what setup or the caller made
        // is gone into below.
        (None, None, Some(_)) => Ok(last),
        (kept, before, now) => {
            let laid = write_laid(store, kept, before, now)?;
            // Only a folder that was carried, or that the loop made, may be empty.
            let made = now.is_some() && (kept.is_some() || before.is_none());
            let empty = laid == crate::workspace::store::empty_tree()?;
            Ok((made || !empty).then_some((FOLDER, laid)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::tree::FILE;

    /// Writes a tree of `path=content` words; a path ending in `/` is an empty folder.
    fn tree(store: &Store, words: &str) -> String {
        let mut files: BTreeMap<&str, &str> = BTreeMap::new();
        for word in words.split_whitespace() {
            let (path, content) = word.split_once('=').unwrap_or((word, ""));
            files.insert(path, content);
        }
        let files: Vec<_> = files.into_iter().collect();
        write(store, &files).to_string()
    }

    fn write(store: &Store, files: &[(&str, &str)]) -> Oid {
        let odb = store.odb().unwrap();
        let mut entries = Vec::new();
        let mut folders: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for (path, content) in files {
            match path.split_once('/') {
                Some((folder, "")) => drop(folders.entry(folder).or_default()),
                Some((folder, rest)) => folders.entry(folder).or_default().push((rest, content)),
                None => {
                    let id = odb.write(git2::ObjectType::Blob, content.as_bytes()).unwrap();
                    entries.push(Entry { name: path.as_bytes().to_vec(), mode: FILE, id });
                }
            }
        }
        for (folder, files) in folders {
            let id = write(store, &files);
            entries.push(Entry { name: folder.as_bytes().to_vec(), mode: FOLDER, id });
        }
        odb.write(git2::ObjectType::Tree, &encode(&mut entries)).unwrap()
    }

    #[test]
    fn only_what_the_loop_changed_is_laid_on_what_was_carried() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("store")).unwrap();
        // carried, t0, last, wanted
        let cases = [
            ("a=1", "a=1", "a=2", "a=2"),
            ("a=1", "a=1 lock=1", "a=2 lock=1", "a=2"),
            ("a=1", "a=1 lock=1", "a=2 lock=2", "a=2 lock=2"),
            ("a=1", "a=1 lock=1", "a=2", "a=2"),
            ("a=1 b=1", "a=1 b=2", "a=2 b=2", "a=2 b=1"),
            ("a=1 b=1", "a=1 b=2", "a=1 b=3", "a=1 b=3"),
            ("a=1 b=1", "a=1 b=2", "a=1", "a=1"),
            ("a=1 b=1", "a=1", "a=2", "a=2 b=1"),
            ("a=1", "a=1 t/x=1 t/y=1", "a=1 t/x=1", "a=1"),
            ("a=1", "a=1 t/x=1 t/y=1", "a=1 t/x=2 t/y=1", "a=1 t/x=2"),
            ("a=1 t/z=1", "a=1 t/x=1 t/z=1", "a=1 t/z=2", "a=1 t/z=2"),
            ("a=1 t/z=1", "a=1 t/z=1", "a=1", "a=1"),
            ("a=1 t/z=1", "a=1 t/z=1 t/x=1", "a=1", "a=1"),
            ("a=1", "a=1 lock=1", "a=1 lock=1 e/", "a=1 e/"),
            ("a=1", "a=1 lock=1", "lock=1 a/b=1", "a/b=1"),
            ("a/b=1", "a/b=1 lock=1", "lock=1 a=2", "a=2"),
            ("a=1", "a/b=1", "a/b=2", "a/b=2"),
            ("a=1", "a/b=1", "c=1", "a=1 c=1"),
        ];
        for (carried, t0, last, wanted) in cases {
            let ids = [carried, t0, last, wanted].map(|words| tree(&store, words));
            let laid = write_wanted(&store, &ids[0], &ids[1], &ids[2]).unwrap();
            assert_eq!(laid, ids[3], "{carried} | {t0} | {last} -> {wanted}");
        }
    }
}
