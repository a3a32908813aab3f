//! The files of a step: outputs, state, summary.
//!
//! The runner reads them when the step has ended. A block without its delimiter, or a line that is
//! none of its forms, fails the step (`FileCommandManager.cs` of actions/runner), so each write is
//! whole and ends its last line.

use super::commands::token;
use super::event::open_regular;
use crate::ci::markdown::{SUMMARY_BYTES, cut};
use crate::error::{Error, Kind, Result};
use std::fs::OpenOptions;
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
    let mut file =
        open_regular(OpenOptions::new().append(true).create(true), path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    file.write_all(format!("{gap}{text}").as_bytes()).map_err(|source| {
        // Half a block would fail the step.
        let _ = file.set_len(length);
        failed(source)
    })
}

/// Reads the last byte of a file; none where it is empty or cannot be read.
fn read_last(path: &Path) -> Option<u8> {
    let mut file = open_regular(OpenOptions::new().read(true), path).ok()?;
    file.seek(SeekFrom::End(-1)).ok()?;
    let mut last = [0];
    file.read_exact(&mut last).ok()?;
    Some(last[0])
}

fn defect(what: String) -> Error {
    Error::new(Kind::Internal, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads the file as the runner does on Linux; an error fails the step.
    fn runner(text: &str) -> std::result::Result<Vec<(String, String)>, String> {
        let mut found = Vec::new();
        let mut rest = text;
        let next = |rest: &mut &str| -> Option<(String, bool)> {
            if rest.is_empty() {
                return None;
            }
            let (line, ended, after) = match rest.split_once('\n') {
                Some((line, after)) => (line, true, after),
                None => (*rest, false, ""),
            };
            let line = line.to_owned();
            *rest = after;
            Some((line, ended))
        };
        while let Some((line, _)) = next(&mut rest) {
            if line.is_empty() {
                continue;
            }
            let equals = line.find('=');
            let heredoc = line.find("<<");
            match (equals, heredoc) {
                (Some(at), heredoc) if heredoc.is_none_or(|heredoc| at < heredoc) => {
                    found.push((line[..at].to_owned(), line[at + 1..].to_owned()));
                }
                (_, Some(at)) => {
                    let (key, delimiter) = (&line[..at], &line[at + 2..]);
                    if key.is_empty() || delimiter.is_empty() {
                        return Err(format!("no name or delimiter: {line}"));
                    }
                    let mut lines = Vec::new();
                    loop {
                        match next(&mut rest) {
                            Some((line, _)) if line == delimiter => break,
                            Some((line, true)) => lines.push(line),
                            _ => return Err(format!("no delimiter {delimiter}")),
                        }
                    }
                    found.push((key.to_owned(), lines.join("\n")));
                }
                _ => return Err(format!("neither form: {line}")),
            }
        }
        Ok(found)
    }

    fn values(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    proptest! {
        #[test]
        fn values_come_back_as_they_were(
            wanted in proptest::collection::vec(("[a-z_][a-z0-9_-]{0,8}", "(<<|=|EOF|ghadelimiter_|\\PC|[\\r\\n]){0,20}"), 0..5),
            before in proptest::sample::select(vec!["", "a=b\n", "a=b", "a<<E\nx\nE\n", "a<<E\nx\nE", "\n"]),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("output");
            std::fs::write(&path, before).unwrap();
            append_values(&path, &wanted).unwrap();
            append_values(&path, &values(&[("last", "x")])).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            prop_assert!(text.starts_with(before) && text.ends_with('\n'));
            let mut found = runner(&text).unwrap();
            if before.len() > 1 {
                found.remove(0);
            }
            prop_assert_eq!(found.pop(), Some(("last".to_owned(), "x".to_owned())));
            prop_assert_eq!(found, wanted);
        }

        #[test]
        fn a_summary_never_gets_too_large_and_keeps_what_was_there(
            taken in prop_oneof![0usize..100, SUMMARY_BYTES - 3_000..SUMMARY_BYTES + 10],
            blocks in 0usize..40,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("summary");
            let before = "x".repeat(taken);
            std::fs::write(&path, &before).unwrap();
            let markdown = "A block of some text.\n\n```text\n# hostile\n```\n\n".repeat(blocks);
            let appended = append_summary(&path, &markdown).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            prop_assert!(text.len() <= SUMMARY_BYTES.max(taken));
            let added = text.strip_prefix(&before).unwrap();
            prop_assert_eq!(added.matches("```").count() % 2, 0);
            match appended {
                Appended::Whole => prop_assert_eq!(added.trim(), markdown.trim()),
                Appended::Cut => prop_assert!(added.trim_end().ends_with(CUT)),
                Appended::Nothing => prop_assert_eq!(added, ""),
            }
        }
    }

    #[test]
    fn the_reader_of_these_tests_refuses_what_the_runner_refuses() {
        assert!(runner("a<<E\nx\n").is_err());
        assert!(runner("a<<E\nx\nE").is_ok());
        assert!(runner("a<<E\nx").is_err());
        assert!(runner("nothing\n").is_err());
        assert!(runner("<<E\nE\n").is_err());
    }

    #[test]
    fn a_bad_key_or_a_guessed_delimiter_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("output");
        for key in ["", "a=b", "a<<b", "a\nb", "1a", "ä", " a", &"a".repeat(101)] {
            let error = append_values(&path, &values(&[("good", "1"), (key, "2")])).unwrap_err();
            assert_eq!(error.kind, Kind::Internal, "{key:?}");
        }
        assert!(append_values(&path, &values(&[("a", &"x".repeat(VALUES_BYTES))])).is_err());
        assert!(!path.exists());
        assert!(block("a", "x\nghadelimiter_1\ny", "ghadelimiter_1").is_err());
        append_values(&path, &[]).unwrap();
        assert!(!path.exists());
    }
}
