//! What a pull request's loop is held to: its base revision, read from the checkout or, where that is
//! shallow, from GitHub's API.

use super::inputs::Inputs;
use super::job::Job;
use crate::ci::github::trust::Trust;
use crate::commands::Global;
use crate::commands::run;
use crate::error::Result;
use crate::workspace::caller::{Caller, CallerKind};
use crate::workspace::places::Surroundings;
use std::path::PathBuf;

/// Reads the commit that is checked out; none in a plain folder and before the first commit.
///
/// # Errors
/// `workspace_invalid` when there is no such folder or no git program.
pub fn read_head(global: &Global) -> Result<Option<String>> {
    let caller = discover(global)?;
    if caller.kind == CallerKind::Plain {
        return Ok(None);
    }
    let arguments = ["rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}"];
    let found = caller.git().run(arguments, b"", &|| false)?;
    let head = String::from_utf8_lossy(found.line()).into_owned();
    Ok((found.code == 0 && !head.is_empty()).then_some(head))
}

/// Finds the tree that the loop runs in.
///
/// # Errors
/// `workspace_invalid` when there is no such folder or no git program.
pub fn discover(global: &Global) -> Result<Caller> {
    let start = global.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
    let surroundings = Surroundings::read(|name| std::env::var_os(name));
    Caller::discover(&start, &surroundings, &|| false)
}

/// Holds the options of a run to what the job may be trusted with.
pub fn hold(options: &mut run::Args, trust: Trust, _inputs: &Inputs, _job: &Job) {
    match trust {
        Trust::Own => {}
        Trust::HeldTo(bases) => options.base = bases,
        Trust::LoopFrom(base) => options.loop_from = Some(base),
    }
}
