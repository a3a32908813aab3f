//! The homes of the tools a command needs that lie outside of the system's folders: below the caller's
//! HOME, in a CI's tool cache, in a folder of a container. They are shown at their own place, read-only.

use super::kind::shows_too_much;
use super::system;
use crate::process::toolchains::{Toolchains, find_program, is_trees};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Most programs of one folder whose links are followed.
const MOST_PROGRAMS: usize = 2000;

/// Folders that hold programs and no more than programs.
const PROGRAMS: [&str; 3] = ["bin", "sbin", "shims"];

/// Folders below a HOME that hold much beside tools.
const SHARED: [&str; 6] =
    [".local", ".config", ".cache", ".local/share", ".local/lib", ".local/state"];

/// What is shown of the host beside the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Homes {
    /// Shown as it is.
    pub read: Vec<PathBuf>,
    /// Shown with changes that go when the command ends: tools write locks and indexes there.
    pub scratch: Vec<PathBuf>,
}

/// Variables of tools whose folders are written to while they are only used.
const CACHES: [&str; 2] = ["CARGO_HOME", "GOMODCACHE"];

/// Finds the homes of the caller's tools; `tree` is the caller's tree, whose own folders need no showing.
pub fn find(tools: &Toolchains, home: Option<&Path>, tree: &Path) -> Homes {
    let mut wanted = BTreeSet::new();
    // What lies in the tree is the tree's: where links of it lead is nothing to show.
    let outside: Vec<PathBuf> =
        tools.path.iter().filter(|folder| !is_trees(folder, tree, home)).cloned().collect();
    for folder in &outside {
        wanted.extend(of_folder(folder, home));
        let Ok(entries) = fs::read_dir(folder) else { continue };
        if system::is_shown(folder) {
            continue;
        }
        for entry in entries.flatten().take(MOST_PROGRAMS) {
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                wanted.extend(
                    fs::canonicalize(entry.path()).ok().and_then(|real| of_program(&real, home)),
                );
            }
        }
    }
    for (name, _) in &tools.found {
        let real = find_program(&outside, name).and_then(|program| fs::canonicalize(program).ok());
        wanted.extend(real.and_then(|real| of_program(&real, home)));
    }
    let mut scratch = BTreeSet::new();
    for (name, value) in &tools.env {
        let path = PathBuf::from(value);
        if !path.is_absolute() || !path.exists() {
            continue;
        }
        if CACHES.contains(&name.as_str()) {
            scratch.insert(path);
        } else {
            wanted.insert(path);
        }
    }
    let ours = |path: &PathBuf| {
        !system::is_shown(path) && !path.starts_with(tree) && !shows_too_much(path, home)
    };
    let scratch: Vec<PathBuf> = scratch.into_iter().filter(|path| ours(path)).collect();
    let read: Vec<PathBuf> = wanted.into_iter().filter(|path| ours(path)).collect();
    // What lies in another one is shown with it.
    let outermost =
        |path: &&PathBuf| !read.iter().any(|other| *path != other && path.starts_with(other));
    Homes { read: read.iter().filter(outermost).cloned().collect(), scratch }
}

/// Returns what a folder of the path needs: with `X/bin` comes `X`, where that is a tool's own.
fn of_folder(folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let real = fs::canonicalize(folder).ok()?;
    let is_programs =
        real.file_name().is_some_and(|name| PROGRAMS.iter().any(|known| name == *known));
    let parent = real.parent().filter(|parent| is_programs && is_own(parent, home));
    Some(parent.map_or_else(|| real.clone(), Path::to_owned))
}

/// Returns what a program needs: the folder above its `bin`, the package it is in, or its own folder.
fn of_program(real: &Path, home: Option<&Path>) -> Option<PathBuf> {
    if let Some(package) =
        real.ancestors().find(|above| above.parent().is_some_and(|p| p.ends_with("node_modules")))
    {
        return Some(package.to_owned());
    }
    let folder = real.parent()?;
    let whole = of_folder(folder, home)?;
    // A folder below a HOME that is no folder of programs may hold anything beside this one.
    let beside = whole == folder && home.is_some_and(|home| folder.starts_with(home));
    Some(if is_own(&whole, home) && !beside { whole } else { real.to_owned() })
}

/// Says whether a folder is a tool's own and not one that a whole home shares.
fn is_own(folder: &Path, home: Option<&Path>) -> bool {
    let shared = home.is_some_and(|home| SHARED.iter().any(|name| folder == home.join(name)));
    !shared && !shows_too_much(folder, home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_brings_its_home_and_never_the_callers() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap();
        let at = |name: &str| home.join(name);
        for made in [
            "tool/bin",
            "tool/lib",
            ".local/bin",
            "bin",
            ".local/share/uv/py/bin",
            "lib/node_modules/x/out",
        ] {
            fs::create_dir_all(at(made)).unwrap();
        }
        fs::write(at(".local/share/uv/py/bin/python3"), "").unwrap();
        fs::write(at("lib/node_modules/x/out/cli.js"), "").unwrap();
        std::os::unix::fs::symlink(at(".local/share/uv/py/bin/python3"), at(".local/bin/python3"))
            .unwrap();
        std::os::unix::fs::symlink(at("lib/node_modules/x/out/cli.js"), at("bin/x")).unwrap();
        let tools = Toolchains {
            path: vec![at("tool/bin"), at(".local/bin"), at("bin"), "/usr/bin".into()],
            env: vec![
                ("CARGO_HOME".into(), at("tool").display().to_string()),
                ("X".into(), home.display().to_string()),
            ],
            ..Default::default()
        };
        let found = find(&tools, Some(&home), Path::new("/no/tree"));
        let expected = [
            at(".local/bin"),
            at(".local/share/uv/py"),
            at("bin"),
            at("lib/node_modules/x"),
            at("tool"),
        ];
        assert_eq!(found.read, expected);
        assert_eq!(found.scratch, [at("tool")]);

        // A tree that is on the path brings nothing along, whatever its links say.
        let tree = home.join("tree");
        fs::create_dir_all(tree.join(".venv/bin")).unwrap();
        fs::create_dir_all(at(".ssh")).unwrap();
        fs::write(at(".ssh/id"), "secret").unwrap();
        fs::write(tree.join(".venv/pyvenv.cfg"), format!("home = {}\n", at(".ssh").display()))
            .unwrap();
        std::os::unix::fs::symlink(at(".ssh/id"), tree.join(".venv/bin/python3")).unwrap();
        std::os::unix::fs::symlink(at(".ssh"), tree.join("bin")).unwrap();
        let tools = Toolchains {
            path: vec![tree.join(".venv/bin"), tree.join("bin"), "/usr/bin".into()],
            found: vec![("python3".into(), at(".ssh/id"))],
            ..Default::default()
        };
        assert_eq!(find(&tools, Some(&home), &tree), Homes::default());
    }
}
