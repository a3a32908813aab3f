//! The difference between two snapshots as a patch that `git apply` takes.
//!
//! Reads the snapshot store only; writing it where it belongs is the duty of the caller.

use crate::error::{Error, Kind, Result};
use git2::{Delta, DiffFormat, DiffLine, DiffOptions, Oid, Repository};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// What a patch changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchFacts {
    /// Number of files and symlinks that differ.
    pub files: u64,
    /// Lines added to text files.
    pub added: u64,
    /// Lines removed from text files.
    pub removed: u64,
}

/// A longer line is as many as fit into it; what is cut to lines differently is as much to read.
const LINE: usize = 1000;

/// Measures the patch from one tree to another as what somebody has to read: a file with a NUL byte is text as
/// well, and a line counts once for each 1000 bytes of it that are begun.
///
/// # Errors
/// As [`write_patch`].
pub fn measure_patch(repo: &Repository, from_tree: &str, to_tree: &str) -> Result<PatchFacts> {
    let mut options = DiffOptions::new();
    options.context_lines(0).ignore_submodules(false).force_text(true);
    let (mut added, mut removed) = (0, 0);
    let facts = count(repo, from_tree, to_tree, &mut options, &mut |line| {
        let lines = line.content().len().div_ceil(LINE).max(1) as u64;
        match line.origin() {
            '+' => added += lines,
            '-' => removed += lines,
            _ => {}
        }
        true
    })?;
    Ok(PatchFacts { added, removed, ..facts })
}

/// Writes the patch from one tree to another in git's format, binary files included.
///
/// Trees are hexadecimal object ids. Names are quoted as git quotes them, so that any bytes fit; a
/// change of type is a deletion and a creation; renames are not looked for; empty folders cannot be
/// said in a patch. Fails with `storage_exhausted` when `out` is on a full disk.
pub fn write_patch(
    repo: &Repository,
    from_tree: &str,
    to_tree: &str,
    out: &mut dyn Write,
) -> Result<PatchFacts> {
    let mut options = DiffOptions::new();
    options
        .show_binary(true)
        .id_abbrev(40)
        .context_lines(3)
        .indent_heuristic(true)
        .ignore_submodules(false)
        .old_prefix("a")
        .new_prefix("b");
    let mut written: io::Result<()> = Ok(());
    let counted = count(repo, from_tree, to_tree, &mut options, &mut |line| {
        let sign = [line.origin() as u8];
        let sign = if matches!(line.origin(), '+' | '-' | ' ') { &sign[..] } else { &[] };
        written = out.write_all(sign).and_then(|()| out.write_all(line.content()));
        written.is_ok()
    });
    written
        .and_then(|()| out.flush())
        .map_err(|e| Error::io(Kind::WorkspaceInvalid, "cannot write the patch", e))?;
    counted
}

/// Compares two trees, gives each line of the patch to `take` until it says to stop, and counts.
fn count(
    repo: &Repository,
    from_tree: &str,
    to_tree: &str,
    options: &mut DiffOptions,
    take: &mut dyn FnMut(DiffLine<'_>) -> bool,
) -> Result<PatchFacts> {
    let broken = |source: git2::Error| {
        Error::new(
            Kind::WorkspaceInvalid,
            format!("cannot compare the snapshots {from_tree} and {to_tree}"),
        )
        .because(source)
    };
    let tree = |id: &str| Oid::from_str(id).and_then(|id| repo.find_tree(id));
    let (from, to) = (tree(from_tree).map_err(broken)?, tree(to_tree).map_err(broken)?);
    let diff = repo.diff_tree_to_tree(Some(&from), Some(&to), Some(options)).map_err(broken)?;
    let mut facts = PatchFacts::default();
    for delta in diff.deltas() {
        facts.files += u64::from(delta.status() != Delta::Unmodified);
    }
    diff.print(DiffFormat::Patch, |_, _, line| {
        facts.added += u64::from(line.origin() == '+');
        facts.removed += u64::from(line.origin() == '-');
        take(line)
    })
    .map_err(broken)?;
    Ok(facts)
}
