//! One file of a base revision, read with the `git` program from the caller's repository.
//!
//! Nothing is fetched and nothing is written; what the file means is the duty of `config`.

use crate::error::Result;
use crate::workspace::Stop;
use crate::workspace::caller::{Caller, CallerKind};
use crate::workspace::gitcmd::Git;
use crate::workspace::paths;

/// The largest file that is read, in bytes.
const MOST: u64 = 1024 * 1024;

/// Characters of a revision that a sentence shows.
const SHOWN: usize = 80;

/// A file of a base revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BaseFile {
    /// Its bytes.
    Bytes(Vec<u8>),
    /// The revision has no such file.
    Absent,
    /// It cannot be read here.
    Unavailable {
        /// Why, as the end of a sentence.
        why: String,
        /// What to do about it.
        hint: String,
    },
}

/// Reads a file of the first of these revisions that is in the repository; `path` is relative to the
/// root of the tree.
///
/// # Errors
/// `workspace_invalid` when the git program cannot be run.
pub fn read_base_file(
    caller: &Caller,
    revisions: &[String],
    path: &str,
    stop: Stop<'_>,
) -> Result<BaseFile> {
    if caller.kind == CallerKind::Plain {
        return Ok(unavailable(
            "the base revision cannot be read: this is no git repository".to_owned(),
            "check out the repository with git",
        ));
    }
    // Replaced objects are the repository's own idea of history.
    let git = caller.git().variable("GIT_NO_REPLACE_OBJECTS", "1");
    for revision in revisions {
        let asked = format!("{revision}^{{commit}}");
        let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", &asked];
        let found = git.run(arguments, b"", stop)?;
        let commit = String::from_utf8_lossy(found.line()).into_owned();
        if found.code == 0 && is_id(&commit) {
            return read_at(&git, &commit, path, stop);
        }
    }
    let shown: Vec<String> = revisions
        .iter()
        .map(|revision| paths::escape(revision.as_bytes()).chars().take(SHOWN).collect())
        .collect();
    Ok(unavailable(
        format!("the base revision {} is not in this checkout", shown.join(" or ")),
        "fetch it too (actions/checkout: `with: {fetch-depth: 2}`, or 0 where the head itself is checked out)",
    ))
}

fn read_at(git: &Git, commit: &str, path: &str, stop: Stop<'_>) -> Result<BaseFile> {
    let missing = || {
        unavailable(
            format!(
                "{} of the base revision is not in this checkout",
                paths::escape(path.as_bytes())
            ),
            "check out without a filter, or fetch the whole history (actions/checkout: `with: {fetch-depth: 0}`)",
        )
    };
    let listed = git.run(["ls-tree", "-z", "--full-tree", commit, "--", path], b"", stop)?;
    if listed.code != 0 {
        return Ok(missing());
    }
    let entry = listed.stdout.split(|byte| *byte == 0).find_map(|line| {
        let at = line.iter().position(|byte| *byte == b'\t')?;
        (&line[at + 1..] == path.as_bytes())
            .then(|| String::from_utf8_lossy(&line[..at]).into_owned())
    });
    let Some(entry) = entry else { return Ok(BaseFile::Absent) };
    let words: Vec<&str> = entry.split(' ').collect();
    // A link leads out of the revision; a folder is no file.
    let ["100644" | "100755", "blob", id] = words.as_slice() else { return Ok(BaseFile::Absent) };
    let size = git.run(["cat-file", "-s", id], b"", stop)?;
    let bytes = String::from_utf8_lossy(size.line()).parse::<u64>();
    let Ok(bytes) = bytes else { return Ok(missing()) };
    if size.code != 0 {
        return Ok(missing());
    }
    if bytes > MOST {
        return Ok(unavailable(
            "the loop file of the base revision is larger than 1 MiB".to_owned(),
            "make it smaller",
        ));
    }
    let blob = git.run(["cat-file", "blob", id], b"", stop)?;
    Ok(if blob.code == 0 { BaseFile::Bytes(blob.stdout) } else { missing() })
}

fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn unavailable(why: String, hint: &str) -> BaseFile {
    BaseFile::Unavailable { why, hint: hint.to_owned() }
}
