//! Gathers the facts of one iteration: exec, snapshot, one check; `confirm` has what follows a green.

use crate::domain::fold;
use crate::domain::guard;
use crate::domain::history::History;
use crate::domain::judge::{self, Phase};
use crate::domain::observation::{CheckRun, Fault, Observation, PathChange, Place};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;
use crate::engine::confirm;
use crate::engine::ports::World;
use crate::error::{Error, Kind, Result};
use std::collections::{BTreeMap, HashSet};

/// Gathers the facts of one iteration; what goes wrong around it becomes a fault.
pub fn iterate(plan: &Plan, history: &History, world: &mut impl World) -> Observation {
    let mut observation = Observation {
        iteration: history.iterations + 1,
        base: history.next.tree.clone(),
        tree: history.next.tree.clone(),
        ..Observation::default()
    };
    if let Err(error) = try_iterate(plan, history, world, &mut observation) {
        observation.fault = Some(fault_of(&error));
    }
    observation.elapsed_ms = world.elapsed_ms();
    observation
}

fn try_iterate(
    plan: &Plan,
    history: &History,
    world: &mut impl World,
    observation: &mut Observation,
) -> Result<()> {
    observation.exec = Some(world.run_exec(observation.iteration, history)?);
    observation.tree = world.take_snapshot()?;
    observation.left_out = world.take_left_out()?;
    let t0 = history.baseline.as_ref().map(|state| state.tree.as_str()).unwrap_or_default();
    observation.changes = world.read_changes(t0, &observation.tree)?;
    observation.surface = Some(world.read_surface(t0, &observation.tree)?);
    observation.control_changes = differences(&history.control, &world.read_control()?);
    let breached = !guard::judge(plan, &history.check_writes, observation).is_empty();
    if breached || world.elapsed_ms() >= plan.limits.time_ms {
        return Ok(());
    }
    if plan.limits.caps_patch() {
        observation.patch = Some(world.measure_patch(&history.carried, t0, &observation.tree)?);
    }
    let tree = observation.tree.clone();
    observation.check = Some(run_in_workspace(world, &tree, observation)?);
    observation.control_changes = differences(&history.control, &world.read_control()?);
    observation.elapsed_ms = world.elapsed_ms();
    if judge::wants_confirmation(plan, history, observation)
        && world.elapsed_ms() < plan.limits.time_ms
    {
        confirm::confirm(plan, history, world, observation)?;
    }
    // The time of the question is the time of what it is about.
    observation.elapsed_ms = world.elapsed_ms();
    if let Some(question) = fold::question(plan, history, observation) {
        observation.asked = Some(world.ask(&question)?);
    }
    Ok(())
}

/// Runs the check in the workspace and puts back what it changed there.
pub(super) fn run_in_workspace(
    world: &mut impl World,
    tree: &str,
    observation: &mut Observation,
) -> Result<CheckRun> {
    let check = world.run_check(Place::Workspace, tree, Phase::Loop)?;
    let after = world.take_snapshot()?;
    if after != tree {
        // A check may leave thousands of files each time.
        let known = std::mem::take(&mut observation.check_changes);
        let seen: HashSet<&PathChange> = known.iter().collect();
        let mut new = world.read_changes(tree, &after)?;
        new.retain(|change| !seen.contains(change));
        observation.check_changes = [known, new].concat();
        world.restore_workspace(tree)?;
    }
    Ok(check)
}

fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<PathChange> {
    let change =
        |path: &String, kind: &str| PathChange { path: path.clone(), kind: kind.to_owned() };
    let gone =
        before.keys().filter(|key| !after.contains_key(*key)).map(|key| change(key, "deleted"));
    let new_or_other = after.iter().filter_map(|(key, value)| match before.get(key) {
        None => Some(change(key, "added")),
        Some(old) if old != value => Some(change(key, "modified")),
        Some(_) => None,
    });
    gone.chain(new_or_other).collect()
}

/// Turns a failure of the surroundings into a fact.
pub fn fault_of(error: &Error) -> Fault {
    let (reason, detail) = match (error.kind, error.detail) {
        (_, Some("context_budget")) => (HaltReason::ContextBudgetUnsatisfiable, ""),
        (Kind::Usage | Kind::ConfigInvalid, detail) => {
            (HaltReason::ConfigInvalid, detail.unwrap_or(""))
        }
        (Kind::WorkspaceInvalid, detail) => (HaltReason::WorkspaceInvalid, detail.unwrap_or("")),
        (Kind::IsolationUnsatisfiable, detail) => {
            (HaltReason::IsolationUnsatisfiable, detail.unwrap_or(""))
        }
        (Kind::CredentialScopeInvalid, detail) => {
            (HaltReason::CredentialScopeInvalid, detail.unwrap_or(""))
        }
        (Kind::StorageExhausted, detail) => {
            (HaltReason::StorageExhausted, detail.unwrap_or("disk_full"))
        }
        (Kind::ObjectiveUnverified, detail) => {
            (HaltReason::ObjectiveUnverified, detail.unwrap_or(""))
        }
        (Kind::Interrupted, detail) => (HaltReason::Interrupted, detail.unwrap_or("")),
        (Kind::Internal, detail) => (HaltReason::InternalError, detail.unwrap_or("")),
    };
    Fault { reason, detail: detail.to_owned(), what: error.to_string(), hints: error.hints.clone() }
}
