//! Control facts: what snapshots do not hold and an agent may not change, as a map of digests.
//!
//! The map at t0 against the map now gives the breaches; judging them is the duty of the engine.

use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use crate::workspace::at::{Descent, Sort, kind_of};
use crate::workspace::ignored::Listed;
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::{gitconfig, paths};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nix::fcntl::readlinkat;
use sha2::Digest;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A larger configuration file counts as unreadable.
const CONFIG_MAX: u64 = 4 << 20;

/// What was seen: an escaped path, or `.git/config` and a key, to a digest.
pub type ControlFacts = BTreeMap<String, String>;

/// The paths a loop file blocks (gitignore syntax, from the root).
#[derive(Debug, Clone)]
pub struct BlockedPatterns {
    matcher: Gitignore,
    /// The literal beginnings of patterns that name a place: these can match in ignored folders.
    anchored: Vec<String>,
}

impl BlockedPatterns {
    /// Compiles patterns; later ones win, and `!` takes a path out again.
    pub fn new(patterns: &[String]) -> Result<Self> {
        let mut builder = GitignoreBuilder::new("");
        let mut anchored = Vec::new();
        for pattern in patterns {
            builder.add_line(None, pattern).map_err(|source| {
                let what = format!("guards.blocked_paths: no pattern: {pattern:?}");
                Error::new(Kind::ConfigInvalid, what).because(source)
            })?;
            let body = pattern.trim_end_matches('/');
            let literal = body.split(['*', '?', '[', '\\']).next().unwrap_or("");
            if body.contains('/') && !body.starts_with('!') && !body.starts_with("**") {
                anchored.push(literal.trim_start_matches('/').to_string());
            }
        }
        let matcher = builder.build().map_err(|source| {
            Error::new(Kind::ConfigInvalid, "guards.blocked_paths: bad patterns").because(source)
        })?;
        Ok(Self { matcher, anchored })
    }

    /// Tells whether a path, or a folder it lies in, is blocked.
    pub fn blocks(&self, path: &[u8], is: Listed) -> bool {
        // `ignore` panics on a path with a root or a prefix; ours are relative.
        let path = paths::as_path(path);
        path.is_relative()
            && self.matcher.matched_path_or_any_parents(path, is == Listed::Folder).is_ignore()
    }

    /// Returns where in an ignored folder a pattern can match: the folder itself or places below.
    fn places_in(&self, folder: &[u8]) -> Vec<Vec<u8>> {
        let mut inside = folder.to_vec();
        inside.push(b'/');
        let mut places: Vec<Vec<u8>> = self
            .anchored
            .iter()
            .map(String::as_bytes)
            .filter_map(|literal| {
                if inside.starts_with(literal) || literal == folder {
                    Some(folder.to_vec())
                } else if literal.starts_with(&inside) {
                    // The last part may be the beginning of a name only.
                    Some(paths::parent(literal).to_vec())
                } else {
                    None
                }
            })
            .collect();
        places.sort();
        places.dedup();
        if places.iter().any(|place| place == folder) { vec![folder.to_vec()] } else { places }
    }
}

/// A fact that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactChange {
    /// Its key.
    pub key: String,
    /// Its digest before, nothing where it was not there.
    pub before: Option<String>,
    /// Its digest now, nothing where it is gone.
    pub after: Option<String>,
}

/// Reads the facts of a workspace; the snapshotter has just walked it.
pub fn read_control_facts(
    root: &Path,
    patterns: &BlockedPatterns,
    snapshotter: &Snapshotter,
) -> Result<ControlFacts> {
    let mut facts = ControlFacts::new();
    read_git_folder(root, &mut facts)?;
    for path in snapshotter.nested_git() {
        facts.insert(paths::escape(&path), "nested".to_string());
    }
    for own in [".loopexec", ".loop_state.json"] {
        read_all(root, own.as_bytes(), &mut facts, &mut |_| true)?;
    }
    for (path, is) in snapshotter.ignored_paths() {
        match is {
            Listed::File if patterns.blocks(&path, is) => {
                read_all(root, &path, &mut facts, &mut |_| true)?;
            }
            Listed::File => {}
            Listed::Folder => {
                for place in patterns.places_in(&path) {
                    let mut wanted = |file: &[u8]| patterns.blocks(file, Listed::File);
                    read_all(root, &place, &mut facts, &mut wanted)?;
                }
            }
        }
    }
    Ok(facts)
}

/// Lists the facts that differ, sorted by key.
pub fn fact_changes(before: &ControlFacts, after: &ControlFacts) -> Vec<FactChange> {
    let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| FactChange {
            key: key.clone(),
            before: before.get(key).cloned(),
            after: after.get(key).cloned(),
        })
        .collect()
}

fn read_git_folder(root: &Path, facts: &mut ControlFacts) -> Result<()> {
    let git = root.join(".git");
    let Ok(found) = std::fs::symlink_metadata(&git) else {
        facts.insert(".git".into(), "absent".into());
        return Ok(());
    };
    if !found.is_dir() {
        // A pointer or a link: where it leads is not looked at.
        facts.insert(".git".into(), "folder expected".into());
        return read_all(root, b".git", facts, &mut |_| true);
    }
    let names = Descent::open(&git)?.read_names()?;
    if names.is_empty() {
        // Git takes an empty one for none, and it keeps the place where a zone shows it read-only.
        facts.insert(".git".into(), "absent".into());
        return Ok(());
    }
    facts.insert(".git".into(), "folder".into());
    let mut names: Vec<Vec<u8>> = names
        .into_iter()
        .map(|name| name.into_bytes())
        .filter(|name| name.starts_with(b"config") && !name.ends_with(b".lock"))
        .collect();
    names.sort();
    for name in names {
        read_config(root, &paths::join(b".git", &name), facts)?;
    }
    for place in [
        ".git/hooks",
        ".git/info",
        ".git/objects/info/alternates",
        ".git/objects/info/http-alternates",
        ".git/commondir",
    ] {
        // `git update-server-info` writes info/refs; samples of hooks, which a second `git init`
        // leaves, never run.
        let mut wanted = |path: &[u8]| path != b".git/info/refs" && !path.ends_with(b".sample");
        read_all(root, place.as_bytes(), facts, &mut wanted)?;
    }
    Ok(())
}

fn read_config(root: &Path, path: &[u8], facts: &mut ControlFacts) -> Result<()> {
    let shown = paths::escape(path);
    let Some((at, name)) = descend(root, path)? else { return Ok(()) };
    let stat = at.read_stat(&name)?;
    if kind_of(&stat) != Sort::File || stat.st_size > i64::try_from(CONFIG_MAX).unwrap_or(0) {
        facts.insert(shown, digest(&at, &name)?);
        return Ok(());
    }
    let mut text = Vec::new();
    at.open_own_file(&name, stat.st_mode)?.take(CONFIG_MAX).read_to_end(&mut text).map_err(
        |source| Error::io(Kind::WorkspaceInvalid, format!("cannot read {shown}"), source),
    )?;
    let Some(settings) = gitconfig::parse(&text) else {
        facts.insert(shown, format!("unreadable {}", hex::sha256(&text)));
        return Ok(());
    };
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for setting in settings.into_iter().filter(gitconfig::is_controlled) {
        let all = values.entry(setting.key).or_default();
        all.push_str(&format!("{:?}\n", setting.value));
    }
    for (key, all) in values {
        let key = format!("{shown}:{}", paths::escape(key.as_bytes()));
        facts.insert(key, hex::sha256(all.as_bytes()));
    }
    Ok(())
}

/// Adds a digest for every wanted file, link and special file at and below a path.
fn read_all(
    root: &Path,
    path: &[u8],
    facts: &mut ControlFacts,
    wanted: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<()> {
    let Some((mut at, name)) = descend(root, path)? else { return Ok(()) };
    let at_root = at.depth() == 0;
    let mut pending = vec![vec![name]];
    while let Some(names) = pending.last_mut() {
        let Some(name) = names.pop() else {
            pending.pop();
            if !pending.is_empty() {
                at.leave()?;
            }
            continue;
        };
        let stat = at.read_stat(&name)?;
        let path = paths::join(at.path(), name.to_bytes());
        if kind_of(&stat) == Sort::Folder {
            at.enter_own(&name, stat.st_mode)?;
            let names = at.read_names()?;
            if names.is_empty() && at_root && pending.len() == 1 && wanted(&path) {
                facts.insert(paths::escape(&path), "empty folder".into());
            }
            pending.push(names);
        } else if wanted(&path) {
            facts.insert(paths::escape(&path), digest(&at, &name)?);
        }
    }
    Ok(())
}

/// Goes to the folder of a path, following no link; nothing where the path is not there.
fn descend(root: &Path, path: &[u8]) -> Result<Option<(Descent, CString)>> {
    let mut at = Descent::open(root)?;
    let mut parts = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        let part = CString::new(part)
            .map_err(|e| Error::new(Kind::Internal, "a path holds a NUL byte").because(e))?;
        parts.push(part);
    }
    let Some(name) = parts.pop() else { return Ok(None) };
    for part in parts {
        match at.read_stat(&part) {
            Ok(stat) if kind_of(&stat) == Sort::Folder => at.enter_own(&part, stat.st_mode)?,
            _ => return Ok(None),
        }
    }
    Ok(at.read_stat(&name).is_ok().then_some((at, name)))
}

fn digest(at: &Descent, name: &CStr) -> Result<String> {
    let stat = at.read_stat(name)?;
    let content = match kind_of(&stat) {
        Sort::File => {
            let file = at.open_own_file(name, stat.st_mode)?;
            let x = if stat.st_mode & 0o111 == 0 { "file" } else { "program" };
            format!("{x} {}", digest_file(file, name)?)
        }
        Sort::Link => {
            let target = readlinkat(at.folder(), name)
                .map_err(|e| at.failure(name.to_bytes(), "cannot read the link", e))?;
            format!("link {}", hex::sha256(target.as_bytes()))
        }
        Sort::Folder => "folder".to_string(),
        Sort::Special(kind) => kind.to_string(),
    };
    Ok(content)
}

fn digest_file(mut file: File, name: &CStr) -> Result<String> {
    let mut hash = sha2::Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = file.read(&mut buffer).map_err(|source| {
            let what = format!("cannot read {}", paths::escape(name.to_bytes()));
            Error::io(Kind::WorkspaceInvalid, what, source)
        })?;
        if length == 0 {
            return Ok(hex::encode(&hash.finalize()));
        }
        hash.update(&buffer[..length]);
    }
}
