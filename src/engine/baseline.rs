//! Measures the baseline: everything before the first exec.

use crate::domain::judge::Phase;
use crate::domain::judge_baseline;
use crate::domain::observation::{BaselineObservation, Place};
use crate::domain::plan::Plan;
use crate::engine::iterate::fault_of;
use crate::engine::ports::World;
use crate::error::Result;

/// Measures the baseline; what goes wrong around it becomes a fault of the observation.
pub fn measure(plan: &Plan, world: &mut impl World) -> BaselineObservation {
    let mut observation = BaselineObservation::default();
    if let Err(error) = try_measure(plan, world, &mut observation) {
        observation.fault = Some(fault_of(&error));
    }
    observation.elapsed_ms = world.elapsed_ms();
    observation
}

fn try_measure(
    plan: &Plan,
    world: &mut impl World,
    observation: &mut BaselineObservation,
) -> Result<()> {
    world.open_workspace()?;
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
    } else if world.diagnoses() && judge_baseline::wants_diagnosis(plan, observation) {
        observation.missing_variables = world.missing_variables(&observation.runs);
        for place in [Place::CallerEnvironment, Place::CallerHome] {
            observation.diagnosis.push(world.run_check(place, &tree, Phase::Baseline)?);
        }
    }
    Ok(())
}
