//! One step of a run as a pure function: judge, fold into the history, decide.
//!
//! The engine takes these steps live; `verify` and resume take the same ones over a receipt.

use crate::domain::decide::{decide, from};
use crate::domain::evidence::{Decision, Evidence, From, Halt};
use crate::domain::gate::{self, Answer, Gate, Question, Reply};
use crate::domain::history::History;
use crate::domain::judge::judge;
use crate::domain::judge_baseline::judge_baseline;
use crate::domain::observation::{BaselineObservation, Fault, Observation};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;

/// Where a run stands: at its beginning, or where a killed one left off.
#[derive(Debug)]
pub enum Position {
    /// Nothing was observed yet; people may have answered already.
    Start(Vec<Answer>),
    /// The baseline was observed and not decided.
    BaselineObserved(Vec<Answer>, Box<BaselineObservation>),
    /// The last decision was to continue.
    Decided(Box<History>),
    /// An iteration was observed and not decided.
    Observed(Box<History>, Box<Observation>),
    /// The last decision was to halt.
    Halted(Box<History>, Halt),
}

impl Position {
    /// Returns the beginning of a run.
    pub const fn start() -> Self {
        Self::Start(Vec::new())
    }

    /// Returns the history so far, once there is a baseline.
    pub fn history(&self) -> Option<&History> {
        match self {
            Self::Start(_) | Self::BaselineObserved(..) => None,
            Self::Decided(history) | Self::Observed(history, _) | Self::Halted(history, _) => {
                Some(history)
            }
        }
    }
}

/// Judges and decides one observed iteration, and folds it into the history.
pub fn step(plan: &Plan, history: &mut History, observation: &Observation) -> (Evidence, Decision) {
    let evidence = judge(plan, history, observation);
    history.after(&evidence, &from(plan, &evidence));
    let decision = decide(plan, history, &evidence);
    (evidence, decision)
}

/// Judges and decides the observed baseline; `answers` are those that people gave before it.
pub fn step_baseline(
    plan: &Plan,
    answers: Vec<Answer>,
    observation: &BaselineObservation,
) -> (History, Evidence, Decision) {
    let evidence = judge_baseline(plan, observation);
    let history = History::after_baseline(&evidence, observation, answers);
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
        (Position::BaselineObserved(answers, observation), _)
            if is_cut_short(observation.fault.as_ref()) =>
        {
            Position::Start(answers)
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

/// Returns the question that a person has to be asked on these facts; the same rules decide on them
/// afterwards.
pub fn question(plan: &Plan, history: &History, observation: &Observation) -> Option<Question> {
    if !plan.may_ask() {
        return None;
    }
    let mut history = history.clone();
    let (evidence, decision) = step(plan, &mut history, observation);
    gate::question_of(plan, &history, &evidence, &decision)
}

/// Returns the question that a run waits with where it stands.
pub fn waits(plan: &Plan, position: &Position) -> Option<Question> {
    match position {
        Position::Halted(history, halt) => gate::waits(plan, history, halt),
        _ => None,
    }
}

/// Takes in the answer of a person: where the run stands then, and what was decided.
///
/// An answer to another question than the one the run waits with gives nothing; the caller holds
/// its head to the event that asked.
pub fn take_answer(
    plan: &Plan,
    position: &Position,
    answer: Answer,
) -> Option<(Position, Decision)> {
    let question = waits(plan, position)?;
    if answer.gate != question.gate || answer.subject != question.subject {
        return None;
    }
    let Position::Halted(history, _) = position else { return None };
    let mut history = (**history).clone();
    let opens = answer.gate == Gate::ProtectedChange && answer.reply == Reply::Yes;
    history.answers.push(answer);
    if opens {
        // Nothing was run yet: the baseline comes now.
        return Some((Position::Start(history.answers), Decision::Continue { from: From::Tip }));
    }
    let evidence = history.waiting.clone()?;
    let decision = decide(plan, &history, &evidence);
    let position = match &decision {
        Decision::Halt(halt) => Position::Halted(Box::new(history), halt.clone()),
        Decision::Continue { .. } => Position::Decided(Box::new(history)),
    };
    Some((position, decision))
}
