//! Small snapshots for tests: files as data, raw trees in a bare store.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Git mode and bytes of each file below a root.
pub(crate) type Files = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub(crate) fn plain(bytes: &[u8]) -> (u32, Vec<u8>) {
    (0o100_644, bytes.to_vec())
}

pub(crate) fn script(bytes: &[u8]) -> (u32, Vec<u8>) {
    (0o100_755, bytes.to_vec())
}

pub(crate) fn link(target: &str) -> (u32, Vec<u8>) {
    (0o120_000, target.as_bytes().to_vec())
}

pub(crate) fn store(path: &Path) -> git2::Repository {
    git2::Repository::init_bare(path).unwrap()
}

/// Writes the files as raw trees and returns the id of the root.
pub(crate) fn snapshot(repo: &git2::Repository, files: &Files) -> String {
    tree(repo, files, Path::new(""), &[]).to_string()
}

pub(crate) fn snapshot_with_empty_folder(
    repo: &git2::Repository,
    files: &Files,
    name: &str,
) -> String {
    tree(repo, files, Path::new(""), &[name]).to_string()
}

fn tree(repo: &git2::Repository, files: &Files, at: &Path, empty: &[&str]) -> git2::Oid {
    let odb = repo.odb().unwrap();
    // Sorted as git sorts: a folder as if its name ended in a slash.
    let mut entries: BTreeMap<Vec<u8>, (u32, Vec<u8>, git2::Oid)> = BTreeMap::new();
    for name in empty {
        let oid = odb.write(git2::ObjectType::Tree, b"").unwrap();
        entries.insert(format!("{name}/").into_bytes(), (0o40_000, name.as_bytes().to_vec(), oid));
    }
    let below = files.range(at.to_owned()..).take_while(|(path, _)| path.starts_with(at));
    for (path, (mode, bytes)) in below {
        let Ok(rest) = path.strip_prefix(at) else { continue };
        let name = rest.iter().next().unwrap().as_bytes().to_vec();
        if rest.iter().count() == 1 {
            let oid = odb.write(git2::ObjectType::Blob, bytes).unwrap();
            entries.insert(name.clone(), (*mode, name, oid));
        } else {
            let key = [&name[..], b"/"].concat();
            let below = at.join(std::ffi::OsStr::from_bytes(&name));
            let entry = || (0o40_000, name, tree(repo, files, &below, &[]));
            entries.entry(key).or_insert_with(entry);
        }
    }
    let mut raw = Vec::new();
    for (mode, name, oid) in entries.values() {
        raw.extend(format!("{mode:o} ").into_bytes());
        raw.extend(name);
        raw.push(0);
        raw.extend(oid.as_bytes());
    }
    odb.write(git2::ObjectType::Tree, &raw).unwrap()
}

pub(crate) fn write_files(root: &Path, files: &Files) {
    for (path, (mode, bytes)) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if *mode == 0o120_000 {
            symlink(std::ffi::OsString::from_vec(bytes.clone()), &path).unwrap();
        } else {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode & 0o777)).unwrap();
        }
    }
}

/// Reads every file and symlink below a root; modes as git sees them.
pub(crate) fn read_files(root: &Path) -> Files {
    let mut files = Files::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let short = path.strip_prefix(root).unwrap().to_owned();
            if metadata.is_dir() {
                open.push(path);
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap().into_os_string().into_vec();
                files.insert(short, (0o120_000, target));
            } else {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                let mode = if executable { 0o100_755 } else { 0o100_644 };
                files.insert(short, (mode, fs::read(&path).unwrap()));
            }
        }
    }
    files
}
