//! The files of a step: outputs, state, summary.
//!
//! The runner reads them when the step has ended. A block without its delimiter, or a line that is
//! none of its forms, fails the step (`FileCommandManager.cs` of actions/runner), so each write is
//! whole and ends its last line.

use super::commands::token;
use crate::ci::markdown::{SUMMARY_BYTES, cut};
use crate::error::{Error, Kind, Result};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes that one write of values may have: a job's outputs may have 1 MiB, counted in UTF-16.
const VALUES_BYTES: usize = 512 << 10;
/// Characters of a key.
const KEY_CHARS: usize = 100;
/// What ends a summary that was cut.
const CUT: &str = "*The summary ends here: a step may show no more. The rest is in the receipt.*";

/// What became of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// All of it is in the file.
    Whole,
    /// Its beginning is in the file.
    Cut,
    /// The file has no room, nothing was written.
    Nothing,
}

/// Appends values to the file of outputs or of state (`GITHUB_OUTPUT`, `GITHUB_STATE`).
///
/// # Errors
/// `internal_error` for a key that is none; `workspace_invalid` or `storage_exhausted` where the
/// file cannot be written. Nothing is written then.
pub fn append_values(path: &Path, values: &[(String, String)]) -> Result<()> {
    let mut text = String::new();
    for (key, value) in values {
        text.push_str(&block(key, value, &format!("ghadelimiter_{}", token()))?);
    }
    if text.len() > VALUES_BYTES {
        return Err(defect(format!("values of {} bytes are more than a step may set", text.len())));
    }
    append(path, &text, |last| if last == Some(b'\n') { "" } else { "\n" })
}

/// Returns a value as the runner reads it back, byte for byte.
fn block(key: &str, value: &str, delimiter: &str) -> Result<String> {
    let is_key = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && key.len() <= KEY_CHARS
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !is_key {
        return Err(defect(format!("{key:?} is no name of an output")));
    }
    if key.contains(delimiter) || value.contains(delimiter) {
        return Err(defect(format!("the value of {key} holds the delimiter that ends it")));
    }
    Ok(format!("{key}<<{delimiter}\n{value}\n{delimiter}\n"))
}

/// Appends Markdown to the summary of the step (`GITHUB_STEP_SUMMARY`), as much of it as fits.
///
/// The platform drops a file that is too large as a whole. What is in it already stays.
///
/// # Errors
/// `workspace_invalid` or `storage_exhausted` where the file cannot be written.
pub fn append_summary(path: &Path, markdown: &str) -> Result<Appended> {
    /// Bytes that part this summary from what stands before it.
    const GAP: usize = 2;
    let taken = std::fs::metadata(path).map_or(0, |meta| meta.len());
    let taken = usize::try_from(taken).unwrap_or(usize::MAX);
    let room = SUMMARY_BYTES.saturating_sub(taken).saturating_sub(GAP + 1);
    let text = cut(markdown, room, CUT);
    if text.is_empty() {
        return Ok(Appended::Nothing);
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    append(path, &format!("{text}{end}"), |last| if last == Some(b'\n') { "\n" } else { "\n\n" })?;
    Ok(if markdown.len() <= room { Appended::Whole } else { Appended::Cut })
}

/// Appends text with one write; `gap` says what parts it from a last byte that is there already.
fn append(path: &Path, text: &str, gap: fn(Option<u8>) -> &'static str) -> Result<()> {
    let failed = |source| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot append to {}", path.display()), source)
    };
    if text.is_empty() {
        return Ok(());
    }
    let before = read_last(path);
    let gap = if before.is_some() { gap(before) } else { "" };
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    file.write_all(format!("{gap}{text}").as_bytes()).map_err(failed)
}

/// Reads the last byte of a file; none where it is empty or cannot be read.
fn read_last(path: &Path) -> Option<u8> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::End(-1)).ok()?;
    let mut last = [0];
    file.read_exact(&mut last).ok()?;
    Some(last[0])
}

fn defect(what: String) -> Error {
    Error::new(Kind::Internal, what)
}
