//! The programs that loopexec itself starts on the host, outside of any zone: looked up here and nowhere else,
//! by an absolute path, and never in a tree.
//!
//! A tree is what an agent writes to, and `PATH` may name folders of it (`PATH=$PWD/bin:…`, `PATH=bin:…`).
//! What runs in zones is found by `process::toolchains`.

use crate::error::{Error, Kind, Result};
use crate::process::toolchains::{find_program, outside_of};
use crate::workspace::places::Surroundings;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where programs are looked for when the caller's path holds no folder outside of the tree. Never empty: an
/// empty path is the current folder.
const STANDARD: &str = "/usr/local/bin:/usr/bin:/bin";

/// Returns the path on which programs are found that are run for a tree and outside of a zone: nothing of what
/// the tree itself holds. Each folder above that looks like the top of a tree counts as one, for git is not asked yet.
pub fn search_path(start: &Path, surroundings: &Surroundings) -> OsString {
    let home = surroundings.home.as_deref();
    let tops = start.ancestors().filter(|folder| {
        // No path would be left outside of the root.
        *folder == start || folder.parent().is_some() && folder.join(".git").exists()
    });
    let path = tops.fold(surroundings.path.clone(), |path, top| outside_of(&path, top, home));
    if path.is_empty() { STANDARD.into() } else { path }
}

/// Returns the absolute file of a program.
///
/// # Errors
/// `workspace_invalid` where no absolute folder of the path holds it.
pub fn find(name: &str, path: &OsStr) -> Result<PathBuf> {
    let folders: Vec<PathBuf> =
        std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect();
    find_program(&folders, name).ok_or_else(|| {
        let what = format!(
            "cannot run the {name} program: no folder on PATH outside of the tree holds it"
        );
        Error::new(Kind::WorkspaceInvalid, what)
    })
}

/// Returns a command for a program that is found on this path, which its children get too.
///
/// # Errors
/// As [`find`].
pub fn command(name: &str, path: &OsStr) -> Result<Command> {
    let mut command = Command::new(find(name, path)?);
    command.env("PATH", path);
    Ok(command)
}

/// As [`command`], with the path of this process, for a tree that `start` lies in.
///
/// # Errors
/// As [`find`].
pub fn command_for(name: &str, start: &Path) -> Result<Command> {
    // An empty path is where this process stands.
    let start =
        std::fs::canonicalize(Path::new(".").join(start)).unwrap_or_else(|_| start.to_owned());
    let surroundings = Surroundings::read(|name| std::env::var_os(name));
    command(name, &search_path(&start, &surroundings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_tree_and_nothing_relative_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let tool = |below: &str| {
            let file = root.join(below).join("tool");
            std::fs::create_dir_all(root.join(below)).unwrap();
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&file, mode).unwrap();
            file
        };
        std::fs::create_dir_all(root.join("tree/.git")).unwrap();
        // A `.git` that is none does not hide the tree above it.
        std::fs::create_dir_all(root.join("tree/sub/.git")).unwrap();
        tool("tree/bin");
        let outside = tool("outside");
        let path = |folders: &[PathBuf]| Surroundings {
            path: std::env::join_paths(folders).unwrap(),
            ..Surroundings::default()
        };
        let around = path(&[root.join("tree/bin"), "bin".into(), "".into(), root.join("outside")]);
        for start in ["tree", "tree/sub"] {
            let search = search_path(&root.join(start), &around);
            assert_eq!(find("tool", &search).unwrap(), outside, "{start}");
        }
        let inside = search_path(&root.join("tree"), &path(&[root.join("tree/bin"), "bin".into()]));
        assert_eq!(inside, STANDARD, "never empty");
        assert!(find("tool", &inside).is_err());
        assert!(find("sh", OsStr::new("usr/bin:bin")).is_err(), "relative");
    }
}
