//! `bundle.json`: what a bundle left out of the run's folder, and why.
//!
//! Only what the receipt can be judged without may be left out: outputs of commands, the patch, the
//! snapshots. The chain and the values that the fold reads are never among it, so a reader that
//! believes this file can be told less, never something else.

use super::{disk, format, strict};
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

/// The name of the file, beside the receipt.
pub const FILE: &str = "bundle.json";

/// What the file says it is.
pub const FORMAT: &str = "loopexec.bundle.v1";

/// The largest manifest that is read, in bytes.
const MAX_MANIFEST: u64 = 64 * 1024 * 1024;

/// What a bundle says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: String,
    /// The run it holds.
    pub run: String,
    /// What is not in it, by path.
    pub left_out: Vec<LeftOut>,
}

/// One file that is not in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Where it stood, from the run's folder.
    pub path: String,
    /// Why it is not there.
    pub why: Why,
    /// The variable whose value it holds, where that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// Why a file is not in a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Outputs of commands are only in it when they are asked for.
    NotAsked,
    /// It holds the value of a secret variable.
    Secret,
    /// It could not be read.
    Unreadable,
}

impl Manifest {
    /// Reads the manifest beside a receipt; none in a folder that is no bundle.
    ///
    /// # Errors
    /// `objective_unverified` when it is broken or another run's.
    pub fn read(folder: &Path, run: &str) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        let refuse = |why: String| {
            Error::new(Kind::ObjectiveUnverified, format!("the bundle's {FILE} {why}"))
                .hint("take the bundle anew from where it comes from")
        };
        let text = match disk::read_whole(&path, MAX_MANIFEST) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(refuse(format!("cannot be read: {e}"))),
        };
        let value = strict::parse(&text).map_err(|why| refuse(format!("is broken: {why}")))?;
        let manifest: Self =
            serde_json::from_value(value).map_err(|e| refuse(format!("is broken: {e}")))?;
        if manifest.format != FORMAT {
            return Err(refuse("is of another format".into()));
        }
        if manifest.run != run || !format::is_run_id(&manifest.run) {
            return Err(refuse("belongs to another run".into()));
        }
        Ok(Some(manifest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_of_another_run_or_form_is_refused_and_none_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(dir.path(), "R").unwrap(), None);
        let left = LeftOut { path: "patch.diff".into(), why: Why::NotAsked, variable: None };
        let mut manifest =
            Manifest { format: FORMAT.into(), run: "R".into(), left_out: vec![left] };
        let write = |manifest: &Manifest| {
            std::fs::write(dir.path().join(FILE), serde_json::to_vec(manifest).unwrap()).unwrap();
        };
        write(&manifest);
        assert_eq!(Manifest::read(dir.path(), "R").unwrap(), Some(manifest.clone()));
        assert_eq!(Manifest::read(dir.path(), "S").unwrap_err().kind, Kind::ObjectiveUnverified);
        manifest.format = "another".into();
        write(&manifest);
        assert!(Manifest::read(dir.path(), "R").is_err());
        std::fs::write(dir.path().join(FILE), "{}").unwrap();
        assert!(Manifest::read(dir.path(), "R").is_err());
    }
}
