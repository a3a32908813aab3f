//! The note in a run's folder that a delivery is under way, and what it is to reach.
//!
//! It is on disk before the first file of the caller's tree changes and tells `deliver::finish`
//! what an interrupted delivery was to become. The contents themselves stand in the snapshot store.

use super::copying::failed;
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "delivery.json";
const DONE: &str = "delivered.json";
const VERSION: u32 = 1;

/// A delivery that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The format of this note, 1.
    pub version: u32,
    /// The tree that the caller's files are at before, hexadecimal.
    pub t0: String,
    /// The tree that they are to be at, hexadecimal.
    pub wanted: String,
    /// The paths that change, for people; bytes that are no UTF-8 are replaced.
    pub paths: Vec<String>,
}

impl Journal {
    /// Makes the note of a delivery.
    pub fn new<'a>(t0: &str, wanted: &str, paths: impl Iterator<Item = &'a Path>) -> Self {
        Self {
            version: VERSION,
            t0: t0.to_owned(),
            wanted: wanted.to_owned(),
            paths: paths.map(|path| path.to_string_lossy().into_owned()).collect(),
        }
    }

    /// Reads the note of a run's folder; `None` when no delivery is under way.
    pub fn read(run: &Path) -> Result<Option<Self>> {
        Self::read_from(run.join(NAME))
    }

    /// Reads the note of the delivery that was completed; `None` when there was none.
    pub fn read_done(run: &Path) -> Result<Option<Self>> {
        Self::read_from(run.join(DONE))
    }

    fn read_from(path: PathBuf) -> Result<Option<Self>> {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("read", &path, e)),
        };
        let broken = || {
            Error::new(
                Kind::WorkspaceInvalid,
                format!("{} does not tell what was to be delivered", path.display()),
            )
            .hint("The run's folder holds the patch; apply it by hand.")
        };
        let journal: Self = serde_json::from_slice(&text).map_err(|e| broken().because(e))?;
        if journal.version == VERSION { Ok(Some(journal)) } else { Err(broken()) }
    }

    /// Writes the note durably: whole or not at all.
    pub fn write(&self, run: &Path) -> Result<()> {
        let (path, fresh) = (run.join(NAME), run.join("delivery.json.new"));
        let text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::new(Kind::Internal, "cannot note the delivery").because(e))?;
        let write = || {
            let mut file = crate::foreign::create_anew(&fresh)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            File::open(run)?.sync_all()
        };
        write().map_err(|e| {
            // Only a half-written note can be left here.
            let _ = fs::remove_file(&fresh);
            failed("write", &path, e)
        })
    }

    /// Takes the note away: nothing was changed.
    pub fn remove(run: &Path) -> Result<()> {
        let path = run.join(NAME);
        fs::remove_file(&path).map_err(|e| failed("remove", &path, e))
    }

    /// Marks the delivery as done; the note stays beside under another name.
    pub fn close(run: &Path) -> Result<()> {
        let path = run.join(NAME);
        fs::rename(&path, run.join(DONE))
            .and_then(|()| File::open(run)?.sync_all())
            .map_err(|e| failed("close", &path, e))
    }

    /// Returns the folder in which new contents are staged.
    pub fn stage(run: &Path) -> PathBuf {
        run.join("stage")
    }
}
