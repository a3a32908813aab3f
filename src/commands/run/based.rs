//! Holds the loop of a command line to the base revision of a pull request.
//!
//! Which sections are protected and what follows from a difference is `config`'s, reading the revision
//! `workspace::base`'s.

use super::Args;
use crate::config::{self, Base, Inputs, Resolved};
use crate::error::Result;
use crate::workspace::base::{BaseFile, read_base_file};
use crate::workspace::caller::Caller;
use std::path::Path;

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
    let own = resolved.file.as_deref().and_then(|file| from_start(caller, file));
    let found = match (&args.base_file, &own) {
        (Some(found), _) => found.clone(),
        (None, Some(own)) => {
            let prefix = caller.prefix.to_string_lossy();
            let path = if prefix.is_empty() { own.clone() } else { format!("{prefix}/{own}") };
            read_base_file(caller, &args.base, &path, &|| false)?
        }
        // A loop that stands on the command line is in no revision.
        (None, None) => BaseFile::Absent,
    };
    let base = match found {
        BaseFile::Absent => Base::Absent,
        BaseFile::Unavailable { why, hint } => Base::Unavailable { why, hint },
        BaseFile::Bytes(bytes) => {
            let name = own.as_deref().unwrap_or("loop.yml");
            let text = String::from_utf8_lossy(&bytes);
            match config::parse_base(&text, name, own.as_deref(), inputs) {
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

/// Returns a loop file as it is named from the folder that the run was started in.
fn from_start(caller: &Caller, file: &Path) -> Option<String> {
    let start = caller.start();
    let whole = std::path::absolute(start.join(file)).ok()?;
    let inside = whole.strip_prefix(&start).ok()?;
    inside.to_str().map(str::to_owned)
}
