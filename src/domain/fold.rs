//! One step of a run as a pure function: judge, fold into the history, decide.
//!
//! The engine takes these steps live; `verify` and resume take the same ones over a receipt.

use crate::domain::decide::{decide, from};
use crate::domain::evidence::{Decision, Evidence, Halt};
use crate::domain::history::History;
use crate::domain::judge::judge;
use crate::domain::judge_baseline::judge_baseline;
use crate::domain::observation::{BaselineObservation, Fault, Observation};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;

/// Where a run stands: at its beginning, or where a killed one left off.
#[derive(Debug)]
pub enum Position {
    /// Nothing was observed yet.
    Start,
    /// The baseline was observed and not decided.
    BaselineObserved(Box<BaselineObservation>),
    /// The last decision was to continue.
    Decided(Box<History>),
    /// An iteration was observed and not decided.
    Observed(Box<History>, Box<Observation>),
    /// The last decision was to halt.
    Halted(Box<History>, Halt),
}

impl Position {
    /// Returns the history so far, once there is a baseline.
    pub fn history(&self) -> Option<&History> {
        match self {
            Self::Start | Self::BaselineObserved(_) => None,
            Self::Decided(history) | Self::Observed(history, _) | Self::Halted(history, _) => {
                Some(history)
            }
        }
    }
}

/// Judges and decides one observed iteration, and folds it into the history.
pub fn step(plan: &Plan, history: &mut History, observation: &Observation) -> (Evidence, Decision) {
    let evidence = judge(plan, history, observation);
    history.after(&evidence, &from(&evidence));
    let decision = decide(plan, history, &evidence);
    (evidence, decision)
}

/// Judges and decides the observed baseline.
pub fn step_baseline(
    plan: &Plan,
    observation: &BaselineObservation,
) -> (History, Evidence, Decision) {
    let evidence = judge_baseline(plan, observation);
    let history = History::after_baseline(&evidence, observation);
    let decision = decide(plan, &history, &evidence);
    (history, evidence, decision)
}

/// Says whether a run that ended so may be taken up again: it was stopped from outside, and nothing
/// was decided about the loop.
pub fn is_resumable(reason: HaltReason) -> bool {
    matches!(reason, HaltReason::Interrupted | HaltReason::StorageExhausted)
}

/// Says whether what was observed was cut short from outside, so that it is observed again.
pub fn is_cut_short(fault: Option<&Fault>) -> bool {
    fault.is_some_and(|fault| is_resumable(fault.reason))
}

/// Returns where a run goes on that is taken up again.
///
/// An observation that was cut short does not count, nor what was decided on it; `before` is where
/// the run stood before it. What it cost stays spent.
pub fn reopen(plan: &Plan, position: Position, before: Option<Position>) -> Position {
    match (position, before) {
        (Position::Halted(_, halt), Some(before)) if is_resumable(halt.reason) => before,
        (Position::BaselineObserved(observation), _)
            if is_cut_short(observation.fault.as_ref()) =>
        {
            Position::Start
        }
        (Position::Observed(history, observation), _)
            if is_cut_short(observation.fault.as_ref()) =>
        {
            let evidence = judge(plan, &history, &observation);
            Position::Decided(Box::new(spent(*history, &evidence)))
        }
        (position, _) => position,
    }
}

/// Returns a history that has paid for what was cut short, and knows nothing else of it.
pub fn spent(mut history: History, evidence: &Evidence) -> History {
    history.spent = evidence.spent;
    history.elapsed_ms = evidence.elapsed_ms;
    history
}
