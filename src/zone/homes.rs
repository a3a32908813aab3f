//! The homes of the tools a command needs that lie outside of the system's folders: below the caller's
//! HOME, in a CI's tool cache, in a folder of a container. They are shown at their own place, read-only.

use super::kind::shows_too_much;
use super::system;
use crate::process::toolchains::{Toolchains, find_program, is_trees};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
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
    /// Files of theirs that are not shown: credentials by their name, and what is for its owner's eyes alone.
    pub private: Vec<PathBuf>,
}

/// Files of credentials in the homes of tools.
const CREDENTIALS: [&str; 5] =
    ["credentials", "credentials.toml", ".netrc", "etc/npmrc", "auth.json"];

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
    let read: Vec<PathBuf> = read.iter().filter(outermost).cloned().collect();
    let found: BTreeSet<PathBuf> =
        read.iter().chain(&scratch).flat_map(|home| private_of(home)).collect();
    // A link is covered where it leads, and is nothing to cover where that is not shown.
    let is_shown = |path: &PathBuf| {
        read.iter().chain(&scratch).any(|home| {
            path.starts_with(home)
                || fs::canonicalize(home).is_ok_and(|real| path.starts_with(real))
        })
    };
    let real = found.into_iter().filter_map(|path| match path.is_symlink() {
        true => fs::canonicalize(path).ok().filter(is_shown),
        false => Some(path),
    });
    let private: BTreeSet<PathBuf> = real.collect();
    Homes { read, scratch, private: private.into_iter().collect() }
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

/// Returns the files of a tool's home that no command may see.
fn private_of(home: &Path) -> Vec<PathBuf> {
    let named = CREDENTIALS.map(|name| home.join(name));
    named.into_iter().filter(|path| path.is_file()).chain(unreadable(home)).collect()
}

/// Entries of a tool's home that are looked at.
const MOST_LOOKED_AT: usize = 4000;

/// Returns the files of a tool's home, or of a folder in it, that nobody but their owner may read and nobody runs.
/// Where none is for others the owner keeps all that way, and it says nothing.
fn unreadable(home: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let listed = fs::read_dir(folder).into_iter().flatten().flatten();
        listed.take(MOST_LOOKED_AT).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut found = entries(home);
    let folders: Vec<PathBuf> =
        found.iter().filter(|path| path.is_dir() && !path.is_symlink()).cloned().collect();
    found.extend(folders.iter().flat_map(|folder| entries(folder)).take(MOST_LOOKED_AT));
    let modes = found.into_iter().filter_map(|path| {
        let seen = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some((path, seen.mode()))
    });
    let (private, open): (Vec<_>, Vec<_>) = modes.partition(|(_, mode)| mode & 0o177 == 0);
    if open.iter().all(|(_, mode)| mode & 0o077 == 0) {
        return Vec::new();
    }
    private.into_iter().map(|(path, _)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
        fs::write(at("tool/credentials.toml"), "").unwrap();
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
        assert_eq!(found.private, [at("tool/credentials.toml")]);
        // Where a credential is a link, what it leads to is covered, if it is there to be seen.
        for (leads, private) in [("lib/kept", vec![at("tool/lib/kept")]), ("../kept", vec![])] {
            fs::remove_file(at("tool/credentials.toml")).unwrap();
            fs::write(at("tool").join(leads), "").unwrap();
            std::os::unix::fs::symlink(leads, at("tool/credentials.toml")).unwrap();
            let found = find(&tools, Some(&home), Path::new("/no/tree"));
            assert_eq!(found.private, private);
        }

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

    #[test]
    fn what_is_for_its_owner_alone_is_told_in_a_home_that_is_not() {
        let home = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        make("bin/tool", 0o700);
        let secrets = [make("auth/token", 0o600), make("config.yml", 0o600)];
        assert_eq!(
            unreadable(home.path()),
            Vec::<PathBuf>::new(),
            "everything is the owner's alone"
        );
        make("lib/data", 0o644);
        let mut found = unreadable(home.path());
        found.sort();
        assert_eq!(found, secrets);
    }
}
