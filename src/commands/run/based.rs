//! Holds the loop of a command line to the base revision of a pull request.
//!
//! Which sections are protected and what follows from a difference is `config`'s, reading the revision
//! `workspace::base`'s.

use super::Args;
use crate::config::workflow::{self, Choice, Stands};
use crate::config::{self, Base, Inputs, Resolved};
use crate::error::{Error, Kind, Result};
use crate::workspace::base::{BaseFile, read_base_file};
use crate::workspace::caller::Caller;
use std::path::{Component, Path, PathBuf};

/// Holds a resolved loop to the base that the command line names; without one it stays as it is.
///
/// # Errors
/// As `read_base_file` and `hold_to_base`.
pub(super) fn hold(
    resolved: &mut Resolved,
    args: &Args,
    caller: &Caller,
    inputs: &Inputs,
) -> Result<()> {
    if args.base.is_empty() && args.base_file.is_none() {
        return Ok(());
    }
    let path = resolved.stands_in.as_deref().and_then(|file| from_root(caller, file));
    let found = match (&args.base_file, &path) {
        (Some(found), _) => found.clone(),
        (None, Some(path)) => read_base_file(caller, &args.base, path, &|| false)?,
        // A loop that stands on the command line is in no revision.
        (None, None) => BaseFile::Absent,
    };
    let base = match found {
        BaseFile::Absent => Base::Absent,
        BaseFile::Unavailable { why, hint } => Base::Unavailable { why, hint },
        BaseFile::Bytes(bytes) => {
            let name = path.as_deref().unwrap_or("loop.yml");
            let text = String::from_utf8_lossy(&bytes);
            match config::parse_base(&text, name, resolved.stands_in.as_deref(), inputs) {
                Ok(base) => Base::Loop(Box::new(base)),
                Err(error) => {
                    let first = error.what.lines().next().unwrap_or_default().to_owned();
                    Base::Unavailable {
                        why: format!("the loop file of the base revision is not valid ({first})"),
                        hint: "mend it there first".to_owned(),
                    }
                }
            }
        }
    };
    config::hold_to_base(resolved, &base, args.base.first().map_or("", String::as_str))?;
    Ok(())
}

/// Resolves the loop file of a revision, whatever the checkout holds: the one that is named, else the
/// one that is found among the usual names.
///
/// # Errors
/// `config_invalid` when the revision has none, several, or one that is not valid.
pub(super) fn load_from(revision: &str, caller: &Caller, inputs: &Inputs) -> Result<Resolved> {
    let names: Vec<PathBuf> = match &inputs.file {
        Some(name) => vec![name.clone()],
        None => config::NAMES.iter().map(PathBuf::from).collect(),
    };
    let mut found = Vec::new();
    let mut why = format!("{revision} has no loop file");
    let mut what_to_do =
        "the loop of this event comes from the base revision: add a loop file there".to_owned();
    for name in names {
        let Some(path) = from_root(caller, &name) else { continue };
        match read_base_file(caller, &[revision.to_owned()], &path, &|| false)? {
            BaseFile::Bytes(bytes) => found.push((name, path, bytes)),
            BaseFile::Absent => {}
            BaseFile::Unavailable { why: told, hint } => (why, what_to_do) = (told, hint),
        }
    }
    match found.as_slice() {
        [(name, path, bytes)] => {
            config::parse_base(&String::from_utf8_lossy(bytes), path, Some(name), inputs)
        }
        [] => Err(Error::new(Kind::ConfigInvalid, why).hint(what_to_do)),
        several => {
            let names: Vec<&str> = several.iter().map(|(_, path, _)| path.as_str()).collect();
            Err(Error::new(
                Kind::ConfigInvalid,
                format!("{revision} has several loop files: {}", names.join(", ")),
            )
            .hint("name one of them: config: PATH"))
        }
    }
}

/// Reads the loop that the same place of a workflow file holds in the base revision.
///
/// # Errors
/// As `read_base_file`.
pub(super) fn inline_of(file: &Path, args: &Args, caller: &Caller) -> Result<BaseFile> {
    let whole = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let Some(path) = whole.strip_prefix(&caller.root).ok().and_then(Path::to_str) else {
        return Ok(BaseFile::Absent);
    };
    let from = &args.from;
    let choice = Choice { job: from.job.clone(), step: from.step.clone(), sets: from.set.clone() };
    Ok(match read_base_file(caller, &args.base, path, &|| false)? {
        BaseFile::Bytes(bytes) => loop_in(path, &bytes, &choice),
        other => other,
    })
}

/// Finds the loop that a place of a base revision's workflow holds.
pub fn loop_in(path: &str, bytes: &[u8], choice: &Choice) -> BaseFile {
    match workflow::find(path, &String::from_utf8_lossy(bytes), choice, None) {
        Ok(taken) => match taken.stands {
            Stands::Here(inline) => BaseFile::Bytes(inline.text.into_bytes()),
            Stands::Whole(_) | Stands::Config(_) | Stands::Searched => BaseFile::Absent,
        },
        Err(error) => {
            let first = error.what.lines().next().unwrap_or_default().to_owned();
            BaseFile::Unavailable {
                why: format!(
                    "the loop is not found in the workflow of the base revision ({first})"
                ),
                hint: "merge the workflow first, or keep the loop in a file of its own".to_owned(),
            }
        }
    }
}

/// Returns the path from the root of the tree of a file that is named from the folder the run was started
/// in; none for one outside of the tree.
pub fn from_root(caller: &Caller, file: &Path) -> Option<String> {
    let mut whole = PathBuf::new();
    for part in caller.start().join(file).components() {
        match part {
            Component::ParentDir => drop(whole.pop()),
            part => whole.push(part),
        }
    }
    whole.strip_prefix(&caller.root).ok()?.to_str().map(str::to_owned)
}
