//! What the caller's git configuration names in the tree: hooks (`core.hooksPath`), and files that git runs or
//! reads settings from (`filter.*`, `core.fsmonitor`, aliases of the shell, `include.path`).
//!
//! Whoever changes them decides what the caller's next git command runs.

use crate::error::Result;
use crate::workspace::caller::{Caller, CallerKind};
use crate::workspace::gitconfig::{self, Setting};
use crate::workspace::{Stop, paths};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Settings that redirect git and yet run nothing of the tree.
const HARMLESS: [&str; 4] =
    ["core.worktree", "core.bare", "core.excludesfile", "core.repositoryformatversion"];

/// Paths from the root of the tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// With all they hold.
    pub folders: BTreeSet<String>,
    /// Files, which need not be there.
    pub files: BTreeSet<String>,
}

/// Reads what git's configuration names in the tree, as the person who called has it.
///
/// # Errors
/// `workspace_invalid` when the git program cannot be run.
pub fn read_named(caller: &Caller, stop: Stop<'_>) -> Result<Named> {
    let mut named = Named::default();
    let CallerKind::Git { git_dir, common_dir, .. } = &caller.kind else { return Ok(named) };
    let listed = caller.personal_git().run(["config", "--list", "-z"], b"", stop)?;
    let home = caller.surroundings().home.as_deref();
    for entry in listed.stdout.split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(entry);
        let Some((key, value)) = text.split_once('\n') else { continue };
        let setting = Setting { key: key.to_owned(), value: Some(value.to_owned()) };
        // Our own words to git are among them.
        if !gitconfig::is_controlled(&setting) || HARMLESS.contains(&key) || value == "/dev/null" {
            continue;
        }
        if key == "core.hookspath" {
            named.add_hooks(caller, home, value);
        } else if key.starts_with("include") {
            // From the file that says so, which git does not tell: it is one of these mostly.
            for base in [git_dir, common_dir, &caller.root] {
                named.add_file(caller, home, base, value);
            }
        } else {
            for word in value.split(|c: char| c.is_whitespace() || "\"'`;|&()<>=!".contains(c)) {
                named.add_file(caller, home, &caller.root, word);
            }
        }
    }
    Ok(named)
}

impl Named {
    fn add_hooks(&mut self, caller: &Caller, home: Option<&Path>, value: &str) {
        for folder in below(&caller.root, home, &caller.root, value) {
            // husky's hooks stand in `_` and start what lies beside it.
            if let Some(above) = folder.strip_suffix("/_") {
                self.folders.insert(above.to_owned());
            }
            self.folders.insert(folder);
        }
    }

    /// Adds a word that names a file: one that is there, or a path with a folder.
    fn add_file(&mut self, caller: &Caller, home: Option<&Path>, base: &Path, word: &str) {
        if word.contains(['$', '*', '?', '{', '\\', '%']) {
            return;
        }
        for file in below(&caller.root, home, base, word) {
            let full = caller.root.join(&file);
            if full.is_file() || word.contains('/') && !full.is_dir() {
                self.files.insert(file);
            }
        }
    }
}

/// Returns a path of a setting from the root, as it is called and as it really is, where it is in the tree.
fn below(root: &Path, home: Option<&Path>, base: &Path, value: &str) -> Vec<String> {
    let path = match (value.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => base.join(value),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    let real = std::fs::canonicalize(&plain).unwrap_or_else(|_| plain.clone());
    let inside = |path: &Path| {
        let path = path.strip_prefix(root).ok()?.to_str()?;
        // What is in git's own folder is judged there.
        (!path.is_empty() && !path.starts_with(".git/")).then(|| path.to_owned())
    };
    [plain, real].iter().filter_map(|path| inside(path)).collect()
}

/// Returns the patterns that block what is named.
pub fn patterns(named: &Named) -> Vec<String> {
    let folders = named.folders.iter().map(|folder| format!("/{}/**", paths::pattern(folder)));
    let files = named.files.iter().map(|file| format!("/{}", paths::pattern(file)));
    folders.chain(files).collect()
}
