//! `loopexec escalate`: puts the question of a run that waits for a person again.
//!
//! It is made from the receipt, not from the file in the run's folder, which anyone may have changed.

use super::Global;
use super::outcome::Outcome;
use super::recorded::{self, Which};
use crate::domain::observation::PathChange;
use crate::error::{Error, Kind, Result};
use crate::receipt::question::{MOST_CHANGES, PatchFile, QuestionFile};
use crate::receipt::record::{Folded, Step};
use crate::report::text::clean;
use serde_json::{Map, Value};

/// Options of `escalate`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Which run.
    #[command(flatten)]
    pub which: Which,
}

/// Shows what a run waits with.
///
/// # Errors
/// `workspace_invalid` with the detail `not_asked` when it waits for nobody, `objective_unverified`
/// when its receipt does not hold.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let run = recorded::open_waiting(&args.which, global)?;
    let mut changes = Vec::new();
    let folded = recorded::verify(&run, &mut |step| {
        if let Step::Observed(observation) = step {
            changes.clone_from(&observation.changes);
        }
    })?
    .folded;
    let question = question_of(&folded, changes).ok_or_else(|| {
        Error::new(Kind::WorkspaceInvalid, format!("run {} waits for nobody", run.id()))
            .detail("not_asked")
            .hint(format!("loopexec explain-halt --run-id {} says how it ended", run.id()))
    })?;
    let text: Vec<String> = question.markdown().lines().map(clean).collect();
    Ok(Outcome::text("escalate", format!("{}\n", text.join("\n")))
        .with("run_id", run.id())
        .with("question", &question)
        .with("markdown", question.markdown())
        .with("next", question.answer.first()))
}

/// Returns the question that a run waits with, as its receipt has it.
pub fn question_of(folded: &Folded, changes: Vec<PathChange>) -> Option<QuestionFile> {
    let question = &folded.waiting.as_ref()?.question;
    let protected = folded.start.plan.as_ref().and_then(|plan| plan.protected.as_ref());
    let mut file = QuestionFile::of(
        &folded.run_id,
        &folded.start.name,
        question,
        protected,
        &folded.start.caller,
    );
    file.patch = folded.delivery.as_ref().and_then(patch_of);
    file.more_changes = changes.len().saturating_sub(MOST_CHANGES);
    file.changes = changes;
    file.changes.truncate(MOST_CHANGES);
    Some(file)
}

fn patch_of(delivery: &Map<String, Value>) -> Option<PatchFile> {
    serde_json::from_value(delivery.get("patch")?.clone()).ok()
}
