//! What was already told to the platform about a run, so that `--finish` tells only the rest.

use crate::ci::formats::write_whole;
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file in the run's folder.
pub const FILE: &str = "published.json";

/// The largest ledger that is read, in bytes.
const MAX: u64 = 64 * 1024;

/// The uploaded bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The platform's number for it.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its page.
    pub url: String,
    /// `sha256:` and the digest of the zip.
    pub digest: String,
}

/// What was told so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Outputs of the step.
    pub outputs: bool,
    /// Annotations.
    pub annotations: bool,
    /// The job summary.
    pub summary: bool,
    /// The bundle.
    pub artifact: Option<Artifact>,
    /// Whether the comment shows the end, or the token may not write it, which was told.
    pub comment: bool,
    /// Whether there is a check run that shows the end, or the token may not make one, which was told.
    pub check_run: bool,
    /// Files for other tools.
    pub files: bool,
}

impl Ledger {
    /// Reads the ledger of a run; one that is not there or not whole is an empty one.
    pub fn read(run_dir: &Path) -> Self {
        let path = path(run_dir);
        let fits = std::fs::symlink_metadata(&path)
            .is_ok_and(|found| found.is_file() && found.len() <= MAX);
        let text = fits.then(|| std::fs::read(&path).ok()).flatten();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Writes the ledger whole.
    ///
    /// # Errors
    /// `storage_exhausted` on a full disk, else `workspace_invalid`.
    pub fn write(&self, run_dir: &Path) -> Result<()> {
        let path = path(run_dir);
        let failed = |e| Error::io(Kind::WorkspaceInvalid, "cannot note what was published", e);
        let text = serde_json::to_vec_pretty(self).map_err(|e| failed(e.into()))?;
        write_whole(run_dir, &path, &text).map_err(failed)
    }
}

fn path(run_dir: &Path) -> PathBuf {
    run_dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_again_and_rubbish_is_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Ledger::read(folder.path()), Ledger::default());
        let ledger = Ledger { outputs: true, comment: true, ..Ledger::default() };
        ledger.write(folder.path()).unwrap();
        assert_eq!(Ledger::read(folder.path()), ledger);
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(Ledger::read(folder.path()), Ledger::default());
    }
}
