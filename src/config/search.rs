//! Finding and reading the loop file.
//!
//! Reading its text is the duty of `tree`.

use super::diagnostic::printable;
use super::tree::{MAX_BYTES, text_of};
use crate::error::{Error, Kind, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where a loop file is looked for, relative to the folder a command was started in.
pub const NAMES: [&str; 4] = ["loop.yml", "loop.yaml", ".loopexec.yml", ".github/loop.yml"];

/// Finds the loop file of a folder; none is `None`.
///
/// # Errors
/// `config_invalid` when there are two.
pub(crate) fn find_file(start: &Path) -> Result<Option<PathBuf>> {
    let found: Vec<&str> =
        NAMES.into_iter().filter(|name| start.join(name).symlink_metadata().is_ok()).collect();
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(PathBuf::from(one))),
        [one, two, ..] => Err(Error::new(
            Kind::ConfigInvalid,
            format!("there are two loop files here: `{one}` and `{two}`"),
        )
        .hint("keep one of them, or name the one to run")),
    }
}

/// Makes the error of a folder without a loop file; one at the top of the tree is named, not taken.
pub(crate) fn no_file(start: &Path, top: Option<&Path>) -> Error {
    let folder = printable(&start.display().to_string());
    let error = Error::new(
        Kind::ConfigInvalid,
        format!("there is no loop file in {folder}: none of {} is there", NAMES.join(", ")),
    );
    let below = top.and_then(|top| Some((top, start.strip_prefix(top).ok()?)));
    if let Some((top, below)) = below.filter(|(_, below)| below.components().next().is_some())
        && let Some(name) = NAMES.iter().find(|name| top.join(name).is_file())
    {
        let up = vec![".."; below.components().count()].join("/");
        return error
            .hint(format!(
                "there is one at the top of the tree: `loopexec run --workdir {up}` runs it there"
            ))
            .hint(format!("`loopexec run {up}/{name}` runs it in this folder"));
    }
    error
        .hint("`loopexec init` writes one for the project it finds")
        .hint("or give `--exec`, `--check` and `--model`")
}

/// Reads a loop file or a workflow file, at most 1 MiB; `called` is which, in messages.
///
/// # Errors
/// `config_invalid` when it is missing, no regular file, unreadable, too large or not UTF-8.
pub(crate) fn read_file(start: &Path, file: &Path, called: &str) -> Result<String> {
    let path = start.join(file);
    let name = printable(&file.display().to_string());
    let failed = |what: &str, source| {
        Error::io(Kind::ConfigInvalid, format!("{name}: the {called} {what}"), source)
    };
    // Opening a FIFO waits for a writer, so the kind of file is asked first.
    let kind = std::fs::metadata(&path).map_err(|source| failed("cannot be found", source))?;
    if !kind.is_file() {
        let what = if kind.is_dir() { "a folder" } else { "not a regular file" };
        return Err(Error::new(Kind::ConfigInvalid, format!("{name}: the {called} is {what}")));
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    std::fs::File::open(&path)
        .and_then(|opened| opened.take(most).read_to_end(&mut bytes))
        .map_err(|source| failed("cannot be read", source))?;
    text_of(&name, &bytes).map(str::to_owned)
}
