//! Which run `--resume` takes up, and which one could be taken up instead.
//!
//! What is done with it is `resume`'s.

use crate::domain::fold::is_resumable;
use crate::error::{Error, Kind, Result};
use crate::receipt::bundle;
use crate::receipt::record::{Compare, fold};
use crate::receipt::rundir::{Home, LATEST, RunDir};
use std::path::Path;

/// Whether a run can be taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It was killed or stopped from outside, or waits for a person.
    Resumable,
    /// It was refused, or it died, before anything was run.
    NeverStarted,
    /// Its loop was decided.
    Ended,
}

/// Opens the run that is to be taken up; the latest is the latest that started. A bundle is taken
/// in among the tree's runs first.
///
/// # Errors
/// `workspace_invalid` when there is none, `usage` for a bad id; what [`bundle::import`] refuses.
pub fn choose_run(home: &Home, which: &str) -> Result<RunDir> {
    if bundle::is_bundle_name(which) {
        return bundle::import(Path::new(which), home);
    }
    if which.contains('/') {
        return RunDir::open(Path::new(which));
    }
    if which != LATEST {
        return home.open_run(which);
    }
    let runs = home.read_runs()?;
    if runs.is_empty() {
        return home.open_run(which);
    }
    // A receipt that does not hold is no reason to go on with another run: resuming says so.
    let started = runs
        .into_iter()
        .rev()
        .find(|run| !matches!(read_standing(run), Ok(Standing::NeverStarted)));
    started.ok_or_else(|| {
        Error::new(
            Kind::WorkspaceInvalid,
            "no run here can be resumed: each was stopped before it could start",
        )
        .detail("ended")
        .hint("loopexec run starts a new one")
    })
}

/// Says that a run is over, and which other one could be taken up.
pub fn ended(what: String, home: &Home) -> Error {
    let error = Error::new(Kind::WorkspaceInvalid, what).detail("ended");
    let runs = home.read_runs().unwrap_or_default();
    let other = runs.iter().rev().find(|run| matches!(read_standing(run), Ok(Standing::Resumable)));
    match other {
        Some(run) => error.hint(format!(
            "run {id} could be resumed: loopexec run --resume {id}; loopexec run starts a new one",
            id = run.id()
        )),
        None => error.hint("no run here can be resumed; loopexec run starts a new one"),
    }
}

fn read_standing(run: &RunDir) -> Result<Standing> {
    let folded = match fold(run, Compare::Strict, &mut |_| Ok(())) {
        Ok(folded) => folded,
        Err(error) if error.detail == Some("incomplete") || !run.receipt().exists() => {
            return Ok(Standing::NeverStarted);
        }
        Err(error) => return Err(error),
    };
    Ok(match folded.end {
        _ if folded.start.plan.is_none() => Standing::NeverStarted,
        Some(end) if !is_resumable(end.halt.reason) && folded.waiting.is_none() => Standing::Ended,
        _ => Standing::Resumable,
    })
}
