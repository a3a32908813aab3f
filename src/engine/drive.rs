//! The one loop: observe, append, judge, decide, append, act.

use crate::domain::evidence::{Decision, From, Halt};
use crate::domain::fold::{Position, step, step_baseline};
use crate::domain::gate::Answer;
use crate::domain::history::History;
use crate::domain::observation::BaselineObservation;
use crate::domain::plan::Plan;
use crate::engine::ports::{Event, Sink, World};
use crate::engine::{baseline, iterate};
use crate::error::Result;

/// How a loop ended.
#[derive(Debug)]
pub struct End {
    /// Everything it showed.
    pub history: History,
    /// Why it stopped.
    pub halt: Halt,
}

/// Drives a loop from where it stands to a halt.
///
/// # Errors
///
/// Only when an event could not be made durable, or the accepted snapshot could not be restored;
/// all else is a halt.
pub fn drive(
    plan: &Plan,
    position: Position,
    world: &mut impl World,
    sink: &mut impl Sink,
) -> Result<End> {
    let (mut history, mut observed) = match position {
        Position::Halted(history, halt) => return Ok(End { history: *history, halt }),
        Position::Decided(history) => (*history, None),
        Position::Observed(history, observation) => (*history, Some(*observation)),
        Position::BaselineObserved(answers, observation) => {
            match start(plan, answers, &observation, sink)? {
                (history, Decision::Halt(halt)) => return Ok(End { history, halt }),
                (history, Decision::Continue { .. }) => (history, None),
            }
        }
        Position::Start(answers) => {
            let observation = baseline::measure(plan, &answers, world);
            sink.append(&Event::Baseline(&observation))?;
            match start(plan, answers, &observation, sink)? {
                (history, Decision::Halt(halt)) => return Ok(End { history, halt }),
                (history, Decision::Continue { .. }) => (history, None),
            }
        }
    };
    loop {
        let observation = match observed.take() {
            Some(observation) => observation,
            None => {
                let observation = iterate::iterate(plan, &history, world);
                sink.append(&Event::Observed(&observation))?;
                observation
            }
        };
        let (evidence, decision) = step(plan, &mut history, &observation);
        sink.append(&Event::Decided(&observation, &evidence, &decision, &history))?;
        match decision {
            Decision::Halt(halt) => return Ok(End { history, halt }),
            Decision::Continue { from: From::Accepted } => {
                world.restore_workspace(&history.next.tree)?;
            }
            Decision::Continue { from: From::Tip } => {}
        }
    }
}

fn start(
    plan: &Plan,
    answers: Vec<Answer>,
    observation: &BaselineObservation,
    sink: &mut impl Sink,
) -> Result<(History, Decision)> {
    let (history, evidence, decision) = step_baseline(plan, answers, observation);
    sink.append(&Event::BaselineDecided(&evidence, &decision, &history))?;
    Ok((history, decision))
}
