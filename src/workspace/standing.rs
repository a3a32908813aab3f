//! Where each path of the caller's tree is on its way from t0 to the delivered state.
//!
//! Reads only; what follows from it is the duty of `deliver`.

use super::beneath::Found;
use super::copying::failed;
use super::deliver::Delivery;
use super::delta::{Change, Form, Held, read_blob};
use crate::error::Result;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where a path of the caller's tree is on its way.
pub(super) enum State {
    /// It is t0's.
    T0,
    /// It is the delivered one.
    Wanted,
    /// It is something else, in a few words.
    Neither(String),
}

impl Delivery<'_> {
    /// Reads where every changed path is.
    pub(super) fn read_states(&self) -> Result<Vec<State>> {
        self.delta.changes.iter().map(|change| self.read_state(change)).collect()
    }

    /// Reads where one changed path is.
    pub(super) fn read_state(&self, change: &Change) -> Result<State> {
        let mut found = self.root.read_found(&change.path)?;
        match &found {
            Found::Folder if self.gone_folders.contains(&change.path) => {
                return Ok(match self.read_stranger(&change.path)? {
                    Some(path) => State::Neither(format!("{} is in its way", path.display())),
                    None => State::T0,
                });
            }
            Found::Folder if self.new_folders.contains(&change.path) => {
                found = Found::Absent;
            }
            // A folder takes the place of the file above, or that file the place of a folder.
            Found::Blocked(above)
                if self.gone.contains(above) || self.gone_folders.contains(above) =>
            {
                found = Found::Absent;
            }
            _ => {}
        }
        if self.is_held(&mut found, change.after, &change.path)? {
            return Ok(State::Wanted);
        }
        if let Found::File(_) = found {
            // Comparing has read it.
            found = self.root.read_found(&change.path)?;
        }
        Ok(if self.is_held(&mut found, change.before, &change.path)? {
            State::T0
        } else {
            State::Neither(match (found, change.before) {
                (Found::Absent, _) => "is gone".into(),
                (Found::Blocked(above), _) => format!("{} is no folder", above.display()),
                (_, None) => "is there already".into(),
                (_, Some(_)) => "has other content".into(),
            })
        })
    }

    fn is_held(&self, found: &mut Found, held: Option<Held>, path: &Path) -> Result<bool> {
        let Some(held) = held else { return Ok(matches!(found, Found::Absent)) };
        match found {
            Found::Link(target) if held.form == Form::Link => {
                Ok(read_blob(self.repo, held.blob, path)? == *target)
            }
            Found::File(file) if held.form != Form::Link => {
                let full = self.root.full(path);
                let metadata = file.metadata().map_err(|e| failed("read", &full, e))?;
                if (metadata.mode() & 0o100 != 0) != (held.form == Form::Executable) {
                    return Ok(false);
                }
                let bytes = read_blob(self.repo, held.blob, path)?;
                Ok(metadata.len() == bytes.len() as u64
                    && is_content(file, &bytes).map_err(|e| failed("read", &full, e))?)
            }
            _ => Ok(false),
        }
    }

    /// Looks for something in a folder that would have to go and is not ours to remove.
    fn read_stranger(&self, folder: &Path) -> Result<Option<PathBuf>> {
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            let full = self.root.full(&folder);
            for entry in fs::read_dir(&full).map_err(|e| failed("read", &full, e))? {
                let entry = entry.map_err(|e| failed("read", &full, e))?;
                let path = folder.join(entry.file_name());
                let is_folder = entry.file_type().map_err(|e| failed("read", &full, e))?.is_dir();
                if is_folder && self.gone_folders.contains(&path) {
                    open.push(path);
                } else if !self.gone.contains(&path) {
                    return Ok(Some(path));
                }
            }
        }
        Ok(None)
    }
}

fn is_content(file: &mut File, mut bytes: &[u8]) -> io::Result<bool> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(bytes.is_empty());
        }
        let Some(rest) = bytes.strip_prefix(&buffer[..count]) else { return Ok(false) };
        bytes = rest;
    }
}
