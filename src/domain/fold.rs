//! One step of a run as a pure function: judge, fold into the history, decide.
//!
//! The engine takes these steps live; `verify` and resume take the same ones over a receipt.

use crate::domain::decide::{decide, from};
use crate::domain::evidence::{Decision, Evidence, Halt};
use crate::domain::history::History;
use crate::domain::judge::judge;
use crate::domain::judge_baseline::judge_baseline;
use crate::domain::observation::{BaselineObservation, Observation};
use crate::domain::plan::Plan;

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
