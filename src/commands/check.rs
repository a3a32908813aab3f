//! `loopexec check`: says whether state and receipt hold and agree; the check of the loop is never
//! run.
//!
//! What a SMALL plan beside them must look like is left to the mode that reads one.

use super::Global;
use super::outcome::Outcome;
use super::recorded::{self, Which};
use crate::domain::fold::Position;
use crate::error::{Error, Kind, Result};
use crate::receipt::format::Head;
use crate::receipt::lock::read_holder;
use crate::receipt::record::Folded;
use crate::receipt::state::{LoopState, Phase, read_state};
use crate::report::text::clean;
use std::path::Path;

/// Options of `check`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {}

/// Checks state and receipt.
///
/// # Errors
/// `workspace_invalid` when one is missing, unreadable, or they disagree; `objective_unverified`
/// when the receipt is altered.
pub fn run(_args: &Args, global: &Global) -> Result<Outcome> {
    let root = recorded::find_root(global)?;
    let small = std::fs::symlink_metadata(root.join(".small")).is_ok_and(|there| there.is_dir());
    let home = recorded::find_home(&root)?;
    let holder = read_holder(&home.lock_path())?;
    let state = read_state(&root)?;
    let which = Which { run_id: state.as_ref().map(|state| state.run_id.clone()) };
    let run = recorded::open(&which, global)?;
    let mut heads = Vec::new();
    let verified = recorded::verify(&run, &mut |_| {})?;
    collect_heads(&run.receipt(), &mut heads)?;
    let folded = &verified.folded;
    let running = holder.as_ref().is_some_and(|holder| holder.run_id == folded.run_id);
    let mut wrong = Vec::new();
    match &state {
        Some(state) => disagreements(state, folded, &heads, &mut wrong),
        // A run refused before it worked leaves a receipt of two events and no state.
        None if folded.start.plan.is_none() => {}
        None => wrong.push("the receipt has no .loop_state.json beside it".to_owned()),
    }
    if let Some(what) = wrong.first() {
        let mut error =
            Error::new(Kind::WorkspaceInvalid, format!("run {}: {what}", folded.run_id))
                .detail("state_differs");
        for more in &wrong[1..] {
            error = error.hint(format!("and {more}"));
        }
        return Err(error.hint("the receipt is right: remove .loop_state.json, or resume the run"));
    }
    let phase = match (&folded.end, running) {
        (Some(_), _) => "ended",
        (None, true) => "running",
        (None, false) => "interrupted",
    };
    if !running {
        recorded::require_end(folded)?;
    }
    let text = format!(
        "state and receipt hold and agree\n  run      {} ({phase})\n  events   {}\n  SMALL    {}\n",
        folded.run_id,
        folded.events,
        if small { ".small/ is there" } else { "no .small/ here" },
    );
    Ok(Outcome::text("check", clean(&text))
        .with("run_id", &folded.run_id)
        .with("phase", phase)
        .with("events", folded.events)
        .with("head", &folded.head)
        .with("state", state.is_some())
        .with("small", small))
}

/// Reads the head after each event: a state file names one of them.
fn collect_heads(receipt: &Path, heads: &mut Vec<Head>) -> Result<()> {
    for event in crate::receipt::reader::read(receipt)? {
        match event {
            Ok(event) => heads.push(event.head()),
            Err(_) => break,
        }
    }
    Ok(())
}

fn disagreements(state: &LoopState, folded: &Folded, heads: &[Head], wrong: &mut Vec<String>) {
    if state.loop_digest != folded.start.loop_digest {
        wrong.push("state and receipt name different loops".to_owned());
    }
    match &state.receipt_head {
        None if folded.events > 1 => wrong.push("the state knows no event".to_owned()),
        Some(head) if !heads.contains(head) => {
            wrong
                .push(format!("the event {} that the state knows is not in the receipt", head.seq));
        }
        _ => {}
    }
    let ended = folded.end.is_some();
    let says_ended = state.phase == Phase::Ended;
    if says_ended && !ended {
        wrong.push("the state says that the run ended, the receipt does not".to_owned());
    }
    if ended && !says_ended {
        wrong.push("the receipt has its final event, and the state is older".to_owned());
    }
    let halt = folded.end.as_ref().map(|end| end.halt.reason.as_str());
    if says_ended && ended && state.halt_reason.as_deref() != halt {
        wrong.push("state and receipt name different halt reasons".to_owned());
    }
    let judged = match &folded.position {
        Position::Start(_) | Position::BaselineObserved(..) => 0,
        Position::Decided(history)
        | Position::Observed(history, _)
        | Position::Halted(history, _) => history.iterations,
    };
    if state.iteration > u64::from(judged) {
        wrong
            .push(format!("the state counts {} iterations, the receipt {judged}", state.iteration));
    }
}
