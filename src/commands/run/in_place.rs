//! The git folders of the caller's own tree while exec works in it (`workspace.mode: in_place`).
//!
//! Those that are there before the first exec are shown read-only in its zone; what came in their place, or where
//! there was none, is set aside before the run ends: the next git command of the caller's would obey it.

use crate::error::{Error, Kind, Result};
use crate::workspace::paths;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder in a run's own in which git folders are set aside.
pub const ASIDE: &str = "set-aside";

/// The git folders and files of a tree, by their place.
#[derive(Debug, Default)]
pub struct GitPlaces {
    known: Vec<(PathBuf, Identity)>,
}

/// What tells a file from another one in its place: numbers of inodes are used again.
type Identity = (u64, u64, Option<SystemTime>);

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino(), found.created().ok())
}

impl GitPlaces {
    /// Reads those of the tree; `nested` are the ones below its top.
    pub fn read(root: &Path, nested: &[Vec<u8>]) -> Self {
        let known = all(nested).filter_map(|place| {
            let found = root.join(&place).symlink_metadata().ok()?;
            (!is_empty_folder(&root.join(&place))).then(|| (place, identity(&found)))
        });
        Self { known: known.collect() }
    }

    /// Returns the places below the top.
    pub fn nested(&self) -> impl Iterator<Item = &Path> {
        self.known.iter().map(|(place, _)| place.as_path()).filter(|place| *place != ".git")
    }

    /// Moves what came since into the run's folder and returns where it was.
    ///
    /// # Errors
    /// `workspace_invalid` where it cannot be moved.
    pub fn set_aside(&self, root: &Path, nested: &[Vec<u8>], run: &Path) -> Result<Vec<String>> {
        let mut moved = Vec::new();
        for place in all(nested) {
            let full = root.join(&place);
            let Ok(found) = full.symlink_metadata() else { continue };
            let is_known = self.known.iter().any(|(_, known)| *known == identity(&found));
            // An empty one stood in the way of others, and git takes it for none.
            if is_known || is_empty_folder(&full) && std::fs::remove_dir(&full).is_ok() {
                continue;
            }
            let to = run.join(ASIDE).join(format!("git-{}", moved.len() + 1));
            std::fs::create_dir_all(run.join(ASIDE))
                .and_then(|()| std::fs::rename(&full, &to))
                .map_err(|source| {
                    let what = format!("cannot set {} aside, which exec made", full.display());
                    Error::io(Kind::WorkspaceInvalid, what, source)
                        .hint("remove it before you use git there: it may start programs")
                })?;
            moved.push(place.to_string_lossy().into_owned());
        }
        Ok(moved)
    }
}

/// Puts an empty folder where there is no `.git`: git takes it for none, and shown read-only no command can fill it.
///
/// # Errors
/// `workspace_invalid` where it cannot be made.
pub fn make_placeholder(root: &Path) -> Result<()> {
    let git = root.join(".git");
    match std::fs::create_dir(&git) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => {
            let what = format!("cannot keep a place for {}", git.display());
            Err(Error::io(Kind::WorkspaceInvalid, what, source))
        }
        _ => Ok(()),
    }
}

/// Removes the empty folder that kept the place of `.git`.
pub fn remove_placeholder(root: &Path) {
    // A folder that holds anything stays, and an empty one that does hurts nobody.
    let _ = std::fs::remove_dir(root.join(".git"));
}

fn all(nested: &[Vec<u8>]) -> impl Iterator<Item = PathBuf> {
    let nested = nested.iter().map(|place| paths::as_path(place).to_owned());
    std::iter::once(PathBuf::from(".git")).chain(nested)
}

fn is_empty_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
        && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_set_aside_and_what_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (root, run) = (folder.path().join("tree"), folder.path().join("run"));
        for made in ["sub/.git", "other/.git"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
            std::fs::write(root.join(made).join("config"), "t0").unwrap();
        }
        std::fs::create_dir(&run).unwrap();
        let nested = [b"sub/.git".to_vec(), b"other/.git".to_vec()];
        let places = GitPlaces::read(&root, &nested);
        assert_eq!(places.nested().count(), 2);
        assert!(places.set_aside(&root, &nested, &run).unwrap().is_empty());
        // A placeholder goes, a moved one stays, what is new in any place does not.
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::rename(root.join("sub"), root.join("moved")).unwrap();
        std::fs::create_dir_all(root.join("sub/.git/hooks")).unwrap();
        let now = [b"moved/.git".to_vec(), b"sub/.git".to_vec(), b"other/.git".to_vec()];
        assert_eq!(places.set_aside(&root, &now, &run).unwrap(), ["sub/.git"]);
        assert!(!root.join(".git").exists() && !root.join("sub/.git").exists());
        assert!(root.join("moved/.git/config").exists() && root.join("other/.git/config").exists());
        assert!(run.join("set-aside/git-1/hooks").exists());
    }
}
