//! `loopexec ratchet`: the accepted frontier of a run, and clearing what the state file keeps of it.
//!
//! Each run starts from its own baseline, so a reset changes no run: it only clears the summary
//! that stays between runs.

use super::Global;
use super::outcome::Outcome;
use super::recorded::{self, Which};
use crate::domain::history::History;
use crate::error::{Error, Kind, Result};
use crate::receipt::state::{read_state, write_state};
use serde_json::json;

/// Options of `ratchet`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// What to do.
    #[arg(value_enum, default_value = "show")]
    pub action: Action,
    /// Which run `show` is about.
    #[command(flatten)]
    pub which: Which,
}

/// What `ratchet` does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Action {
    /// Show the accepted frontier
    #[default]
    Show,
    /// Clear the last green state that .loop_state.json names
    Reset,
}

/// Shows or resets.
///
/// # Errors
/// `workspace_invalid` when there is no run, or one works on the tree now.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    match args.action {
        Action::Show => show(&args.which, global),
        Action::Reset => reset(args, global),
    }
}

fn show(which: &Which, global: &Global) -> Result<Outcome> {
    let run = recorded::open(which, global)?;
    let folded = recorded::verify(&run, &mut |_| {})?.folded;
    let Some(history) = folded.history() else {
        return Err(Error::new(
            Kind::WorkspaceInvalid,
            format!("run {} has accepted nothing: it has no baseline", folded.run_id),
        )
        .detail("no_baseline")
        .hint("loopexec explain-halt says why"));
    };
    let History { accepted, reverts, .. } = history;
    let best = (history.best != u64::MAX).then_some(history.best);
    let remaining = best.map_or_else(|| "unknown".to_owned(), |best| best.to_string());
    let text = format!(
        "accepted: {} of run {}\n  tree     {}\n  passing  {}\n  failing  {}\n  best     {remaining} remaining\n  reverts  {reverts}\n",
        match accepted.iteration {
            0 => "the baseline".to_owned(),
            n => format!("iteration {n}"),
        },
        folded.run_id,
        accepted.tree,
        accepted.passing.len(),
        accepted.failing.len(),
    );
    Ok(Outcome::text("ratchet", text).with("run_id", &folded.run_id).with(
        "accepted",
        json!({
            "tree": accepted.tree, "iteration": accepted.iteration,
            "passing": accepted.passing.len(), "failing": accepted.failing,
            "best_remaining": best, "reverts": reverts,
        }),
    ))
}

fn reset(args: &Args, global: &Global) -> Result<Outcome> {
    if args.which.run_id.is_some() {
        return Err(Error::new(Kind::Usage, "reset is about the tree, not about one run")
            .hint("loopexec ratchet reset"));
    }
    let root = recorded::find_root(global)?;
    let home = recorded::find_home(&root)?;
    let Some(state) = read_state(&root)? else {
        return Err(Error::new(Kind::WorkspaceInvalid, "there is no .loop_state.json to reset")
            .detail("no_state")
            .hint("loopexec run writes one"));
    };
    let _lock = home.acquire_lock(&state.run_id)?;
    // Read again: a run may have ended between the first look and the lock.
    let mut state = read_state(&root)?.unwrap_or(state);
    let cleared = state.last_green_commit.take();
    write_state(&root, &state, None)?;
    let text = match &cleared {
        Some(tree) => format!("cleared: the last green state was {tree}\n"),
        None => "nothing to clear: there was no green state\n".to_owned(),
    };
    Ok(Outcome::text("ratchet", text).with("run_id", &state.run_id).with("cleared", &cleared))
}
