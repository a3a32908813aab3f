//! What differs between two snapshots.

use crate::error::{Error, Kind, Result};
use crate::workspace::store::{Store, empty_tree};
use crate::workspace::{paths, tree};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a path differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there.
    Added,
    /// Its content is another.
    Modified,
    /// It is gone.
    Deleted,
    /// Its content is the same, its executable bit is not.
    Mode,
    /// A file became a link, or the other way round.
    Type,
}

impl ChangeKind {
    /// Returns the word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Mode => "mode",
            Self::Type => "type",
        }
    }
}

/// What stands at a path in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// The object's id: a blob, or the empty tree for an empty folder.
    pub id: String,
    /// git's mode, one of the constants of `tree`.
    pub mode: u32,
}

/// A path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The path, escaped without loss (`paths::escape`).
    pub path: String,
    /// How it differs.
    pub kind: ChangeKind,
    /// What stood there; nothing for `Added`.
    pub before: Option<Version>,
    /// What stands there now; nothing for `Deleted`.
    pub after: Option<Version>,
}

impl Change {
    /// Returns the path's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        paths::unescape(&self.path).unwrap_or_default()
    }
}

/// Lists what differs between two trees, sorted by the paths' bytes. Folders appear where they are
/// empty only.
pub fn changes(store: &Store, from: &str, to: &str) -> Result<Vec<Change>> {
    let top = (Vec::new(), Some(Store::parse(from)?), Some(Store::parse(to)?));
    let mut pending: Vec<(Vec<u8>, Option<git2::Oid>, Option<git2::Oid>)> = vec![top];
    let mut found = BTreeMap::new();
    while let Some((folder, before, after)) = pending.pop() {
        if before == after {
            continue;
        }
        let read = |id: Option<git2::Oid>| id.map_or(Ok(Vec::new()), |id| store.read_tree(id));
        let mut names: BTreeMap<Vec<u8>, [Option<(u32, git2::Oid)>; 2]> = BTreeMap::new();
        for (side, id) in [before, after].into_iter().enumerate() {
            for entry in read(id)? {
                names.entry(entry.name).or_default()[side] = Some((entry.mode, entry.id));
            }
        }
        for (name, [before, after]) in names {
            if before == after {
                continue;
            }
            let path = paths::join(&folder, &name);
            let below = |side: Option<(u32, git2::Oid)>| {
                side.filter(|(mode, _)| *mode == tree::FOLDER).map(|(_, id)| id)
            };
            let (below_before, below_after) = (below(before), below(after));
            let leaf = |side: Option<(u32, git2::Oid)>| -> Result<Option<(u32, git2::Oid)>> {
                let empty = empty_tree()?;
                Ok(side.filter(|(mode, id)| *mode != tree::FOLDER || *id == empty))
            };
            let (mut before, mut after) = (leaf(before)?, leaf(after)?);
            // A folder that was empty and is not any more differs by what it holds, and back.
            if below_before.is_some() && below_after.is_some() {
                (before, after) = (None, None);
            }
            if let Some(change) = describe(&path, before, after) {
                found.insert(path.clone(), change);
            }
            if below_before.is_some() || below_after.is_some() {
                pending.push((path, below_before, below_after));
            }
        }
    }
    Ok(found.into_values().collect())
}

fn describe(
    path: &[u8],
    before: Option<(u32, git2::Oid)>,
    after: Option<(u32, git2::Oid)>,
) -> Option<Change> {
    let version = |(mode, id): (u32, git2::Oid)| Version { id: id.to_string(), mode };
    let kind = match (before, after) {
        (None, None) => return None,
        (None, Some(_)) => ChangeKind::Added,
        (Some(_), None) => ChangeKind::Deleted,
        (Some((was, old)), Some((is, new))) => {
            let family = |mode: u32| mode >> 12;
            if family(was) != family(is) {
                ChangeKind::Type
            } else if old != new {
                ChangeKind::Modified
            } else {
                ChangeKind::Mode
            }
        }
    };
    let (before, after) = (before.map(version), after.map(version));
    Some(Change { path: paths::escape(path), kind, before, after })
}

/// Returns the content of a change's version.
pub fn read_version(store: &Store, version: &Version) -> Result<Vec<u8>> {
    if version.mode == tree::FOLDER {
        return Err(Error::new(Kind::Internal, "a folder has no content"));
    }
    store.read_blob(Store::parse(&version.id)?)
}
