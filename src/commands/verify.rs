//! `loopexec verify`: holds a receipt to its own chain, to its end, and to the fold of `judge` and
//! `decide` over what it observed.
//!
//! What is checked stands in `recorded`, how a receipt is folded in `receipt::record`.

use super::Global;
use super::outcome::Outcome;
use super::recorded::{self, Verified, Which};
use crate::domain::fold::Position;
use crate::domain::gate::Answer;
use crate::error::{Error, Kind, Result};
use crate::receipt::manifest::LeftOut;
use crate::receipt::record::End;
use crate::report::text::{clean, one_line};

/// Options of `verify`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Which run.
    #[command(flatten)]
    pub which: Which,
}

/// Verifies a run.
///
/// # Errors
/// `objective_unverified` names the line that is altered or does not follow; `workspace_invalid`
/// with the detail `incomplete` when there is no final event.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let run = recorded::open(&args.which, global)?;
    let verified = recorded::verify(&run, &mut |_| {})?;
    recorded::require_end(&verified.folded)?;
    let Verified { folded, blobs, patch, left_out } = &verified;
    let end = folded
        .end
        .as_ref()
        .ok_or_else(|| Error::new(Kind::Internal, "a receipt with an end has no end"))?;
    let answers = match &folded.position {
        Position::Start(answers) | Position::BaselineObserved(answers, _) => answers.as_slice(),
        Position::Decided(history)
        | Position::Observed(history, _)
        | Position::Halted(history, _) => history.answers.as_slice(),
    };
    let text = format!(
        "verified: {} events of run {}\n  halt     {} (exit {}) after {} iteration{}\n  head     {} {}\n  checked  chain, judge and decide, {blobs} blob{}{}\n{}{}  receipt  {}\n",
        folded.events,
        folded.run_id,
        end.halt.reason,
        end.halt.reason.class().code(),
        end.iterations,
        if end.iterations == 1 { "" } else { "s" },
        folded.head.seq,
        folded.head.sha256,
        if *blobs == 1 { "" } else { "s" },
        if *patch { ", the patch" } else { "" },
        said_left_out(left_out),
        answers.iter().map(said).collect::<String>(),
        clean(&run.receipt().to_string_lossy()),
    );
    Ok(Outcome::text("verify", text)
        .with("run_id", &folded.run_id)
        .with("verified", true)
        .with("events", folded.events)
        .with("head", &folded.head)
        .with("loop_digest", &folded.start.loop_digest)
        .with("blobs", blobs)
        .with("patch", patch)
        .with("left_out", left_out)
        .with("answers", answers)
        .with("recorded", recorded_end(end)))
}

/// Says what a bundle does not hold, so that nobody takes it for checked.
fn said_left_out(left_out: &[LeftOut]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    let outputs = left_out.iter().filter(|left| left.path.starts_with("blobs/")).count();
    let parts = [
        (outputs, "output of a command", "outputs of commands"),
        (left_out.iter().filter(|left| left.path == "patch.diff").count(), "patch", "patches"),
        (
            left_out.iter().filter(|left| left.path.starts_with("snapshots.git/")).count(),
            "object of the snapshots",
            "objects of the snapshots",
        ),
    ];
    let named: Vec<String> = parts
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
        .collect();
    let named = if named.is_empty() { "other files".to_owned() } else { named.join(", ") };
    format!("  left out {named} (not in the bundle, not checked)\n")
}

/// Says what a person answered, on one line.
fn said(answer: &Answer) -> String {
    let by = if answer.by.is_empty() { "nobody named" } else { &answer.by };
    let note = if answer.note.is_empty() { String::new() } else { format!(": {}", answer.note) };
    let text = format!("{} to {} by {by}{note}", answer.reply.word(), answer.gate.word());
    format!("  answer   {} ({})\n", one_line(&text, 300), answer.time)
}

/// Returns what a recorded run came to; it is no halt of the command that reads it.
pub fn recorded_end(end: &End) -> serde_json::Value {
    serde_json::json!({
        "halt_reason": end.halt.reason,
        "detail": end.halt.detail,
        "exit_class": end.halt.reason.class().name(),
        "exit_code": end.halt.reason.class().code(),
        "iterations": end.iterations,
        "changed": end.changed,
    })
}
