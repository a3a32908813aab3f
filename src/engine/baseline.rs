//! Measures the baseline: everything before the first exec.

use crate::domain::command::Exit;
use crate::domain::gate::{self, Answer};
use crate::domain::judge::{Phase, describe_exit};
use crate::domain::judge_baseline;
use crate::domain::observation::{BaselineObservation, Place, RunFact};
use crate::domain::plan::Plan;
use crate::engine::iterate::fault_of;
use crate::engine::ports::World;
use crate::error::{Error, Kind, Result};

/// Measures the baseline; what goes wrong around it becomes a fault of the observation.
pub fn measure(plan: &Plan, answers: &[Answer], world: &mut impl World) -> BaselineObservation {
    let mut observation = BaselineObservation::default();
    if let Err(error) = try_measure(plan, answers, world, &mut observation) {
        observation.fault = Some(fault_of(&error));
    }
    observation.elapsed_ms = world.elapsed_ms();
    observation
}

fn try_measure(
    plan: &Plan,
    answers: &[Answer],
    world: &mut impl World,
    observation: &mut BaselineObservation,
) -> Result<()> {
    // Not even `setup` runs under rules that nobody has agreed to.
    if let Some(question) = gate::protected(plan, answers) {
        observation.asked = Some(world.ask(&question)?);
        return Ok(());
    }
    world.open_workspace()?;
    observation.carried = world.take_snapshot()?;
    observation.setup = world.run_setup()?;
    require_setup(observation.setup.as_ref())?;
    let before = world.take_snapshot()?;
    observation.tree.clone_from(&before);
    observation.runs.push(world.run_check(Place::Workspace, &before, Phase::Baseline)?);
    // t0 is what the first check leaves: a lock file that it made is no change of the agent's.
    let tree = world.take_snapshot()?;
    if tree != before {
        observation.check_writes =
            world.read_changes(&before, &tree)?.into_iter().map(|change| change.path).collect();
    }
    observation.tree.clone_from(&tree);
    observation.layer = world.freeze_layer(&tree)?;
    observation.control = world.read_control()?;
    for _ in 1..plan.baseline_runs {
        observation.runs.push(world.run_check(Place::Copy, &tree, Phase::Baseline)?);
    }
    if judge_baseline::wants_confirmation(plan, observation) {
        for _ in 0..plan.confirm {
            observation.confirmations.push(world.run_check(Place::Copy, &tree, Phase::Baseline)?);
        }
        return Ok(());
    }
    let places = world.diagnosis_places();
    if !places.is_empty() && judge_baseline::wants_diagnosis(plan, observation, &places) {
        observation.missing_variables = world.missing_variables(&observation.runs);
        for place in places {
            observation.diagnosis.push(world.run_check(place, &tree, Phase::Baseline)?);
        }
    }
    Ok(())
}

/// Lines of a failed `setup` that are told.
const SETUP_LINES: usize = 12;

/// Fails when `setup` ran and did not end well.
///
/// # Errors
/// `workspace_invalid` with the detail `setup_failed`.
pub fn require_setup(setup: Option<&RunFact>) -> Result<()> {
    let Some(fact) = setup.filter(|fact| fact.exit != Exit::Code { code: 0 }) else {
        return Ok(());
    };
    // The last line alone is often a farewell.
    let mut said: Vec<&str> =
        fact.tail.lines().rev().filter(|line| !line.trim().is_empty()).take(SETUP_LINES).collect();
    said.reverse();
    let said = said.join("\n");
    let what = format!("setup {}. It said: {said}", describe_exit(&fact.exit));
    Err(Error::new(Kind::WorkspaceInvalid, what).detail("setup_failed").hint(
        "run it by hand in a fresh clone; what it needs from your machine may be missing in its private HOME",
    ))
}
