//! Gathers the facts that a would-be green is judged by: the overlay, the candidate's own tests in a
//! fresh copy, canaries, the sealed check, the advisory command.
//!
//! What each of them means is decided in `domain`; here it is only asked whether the next one is worth a
//! run.

use crate::domain::evidence::Verdict;
use crate::domain::history::History;
use crate::domain::judge::{self, Phase, Reading};
use crate::domain::observation::{CheckRun, Observation, Place};
use crate::domain::overlaid;
use crate::domain::plan::Plan;
use crate::domain::results::{IdSet, Runner, is_told_as_a_whole};
use crate::domain::surface::{Canary, CanaryFact};
use crate::engine::iterate::run_in_workspace;
use crate::engine::ports::{Additions, Plant, World};
use crate::error::Result;

/// Confirms a green of the workspace.
pub fn confirm(
    plan: &Plan,
    history: &History,
    world: &mut impl World,
    observation: &mut Observation,
) -> Result<()> {
    let start = history.baseline.as_ref().map(|state| state.tree.clone()).unwrap_or_default();
    let tree = observation.tree.clone();
    observation.coverage = world.read_coverage(&start, &tree)?;
    let mut overlay = world.lay_over(&start, &tree, Additions::Drop)?;
    if !overlay.dropped.is_empty() || !overlay.restored.is_empty() {
        let bare = world.run_check(Place::Copy, &overlay.tree, Phase::Loop)?;
        let reading = read(plan, history, &bare);
        // Tests that came may be what the task is about, such as coverage: no test of t0 is red. Where
        // settings were changed as they may, the build may list them.
        let is_known = |id| history.start.tests.contains_key(id);
        let listed = observation
            .surface
            .as_ref()
            .is_some_and(|surface| !surface.allowed.is_empty() && !history.start.tests.is_empty());
        let unneeded = reading.failed.is_empty() && !reading.broken
            || listed && !reading.failed.iter().any(is_known);
        let kept = match reading.verdict == Verdict::Fail && unneeded {
            // Files of t0 that grew may stay where all of their tests were told without that.
            true if is_told(history, observation, &bare) => {
                Some(world.lay_over(&start, &tree, Additions::Grow)?)
            }
            true => Some(world.lay_over(&start, &tree, Additions::Keep)?),
            false => None,
        };
        match kept.filter(|kept| kept.tree != overlay.tree) {
            Some(kept) => {
                observation.bare.push(bare);
                overlay = kept;
            }
            None => observation.confirmations.push(bare),
        }
    }
    let laid = overlay.tree.clone();
    observation.overlay = Some(overlay);
    while observation.confirmations.len() < plan.confirm as usize {
        observation.confirmations.push(world.run_check(Place::Copy, &laid, Phase::Loop)?);
    }
    let verdict = |run: &CheckRun| read(plan, history, run).verdict;
    if observation.confirmations.iter().all(|run| verdict(run) == Verdict::Fail) {
        // A view of the layer may differ from a plain folder; only a real copy is held against a green.
        let real = world.run_check(Place::RealCopy, &laid, Phase::Loop)?;
        if verdict(&real) == Verdict::Pass {
            observation.set_aside = std::mem::replace(&mut observation.confirmations, vec![real]);
            for _ in 1..plan.confirm {
                observation.confirmations.push(world.run_check(
                    Place::RealCopy,
                    &laid,
                    Phase::Loop,
                )?);
            }
        } else {
            observation.confirmations.push(real);
            let runner_files = world.read_runner_files()?;
            if let Some(overlay) = &mut observation.overlay {
                overlay.runner_files = runner_files;
            }
            observation.rerun = Some(run_in_workspace(world, &tree, observation)?);
        }
    }
    if observation.confirmations.iter().any(|run| verdict(run) != Verdict::Pass) {
        return Ok(());
    }
    if laid != tree {
        observation.own = Some(world.run_check(Place::Copy, &tree, Phase::Loop)?);
    }
    if !is_green(plan, history, observation) {
        return Ok(());
    }
    try_canaries(plan, history, world, observation, &start, &laid)?;
    if !is_green(plan, history, observation) {
        return Ok(());
    }
    observation.held_out = world.run_held_out(&laid)?;
    if is_green(plan, history, observation) {
        observation.judged = world.run_judge(&tree, observation)?;
    }
    Ok(())
}

/// Says whether a run of the tests of t0 reported all of them, so that those that grew are not needed for it.
fn is_told(history: &History, observation: &Observation, bare: &CheckRun) -> bool {
    let surface = observation.surface.as_ref();
    surface.is_some_and(|surface| {
        overlaid::unreported(&history.start, surface, &bare.results).is_empty()
    })
}

fn read(plan: &Plan, history: &History, run: &CheckRun) -> Reading {
    judge::read(plan, &history.known, &history.unstable, Phase::Loop, run)
}

/// Says whether nothing so far speaks against the green, by the rules that decide on it afterwards.
fn is_green(plan: &Plan, history: &History, observation: &Observation) -> bool {
    let evidence = judge::judge(plan, history, observation);
    evidence.is_confirmed_green() && evidence.oracle.is_none() && evidence.fault.is_none()
}

/// Runs the check on overlays in which it has to go red.
fn try_canaries(
    plan: &Plan,
    history: &History,
    world: &mut impl World,
    observation: &mut Observation,
    start: &str,
    laid: &str,
) -> Result<()> {
    let Some(green) = observation.confirmations.last() else { return Ok(()) };
    if green.results.runner == Runner::Command {
        return Ok(());
    }
    let failed_first =
        history.baseline.as_ref().map(|state| state.failing.clone()).unwrap_or_default();
    // What was red and is green now; with none, whatever passes.
    let targets: IdSet = green.results.passed.intersection(&failed_first).cloned().collect();
    let told_as_a_whole =
        |ids: &IdSet| ids.iter().any(|id| is_told_as_a_whole(&green.results.passed, id));
    let targets = match targets.is_empty() {
        true if told_as_a_whole(&failed_first) => (*failed_first).clone(),
        true => green.results.passed.clone(),
        false => targets,
    };
    let Some(canary) = world.plant(laid, &targets, Plant::Both)? else { return Ok(()) };
    let changed = !canary.changed.is_empty();
    let fact = run_canary(world, canary)?;
    let reading = read(plan, history, &fact.run);
    let unbuilt = reading.broken || reading.verdict == Verdict::Error;
    observation.canaries.push(fact);
    if unbuilt && changed {
        // Another expected value may not compile; the sentinel alone does.
        if let Some(canary) = world.plant(laid, &targets, Plant::Sentinel)? {
            observation.canaries.push(run_canary(world, canary)?);
        }
    }
    let Some(last) = observation.canaries.last_mut() else { return Ok(()) };
    let Some(sentinel) = &last.canary.sentinel else { return Ok(()) };
    let told =
        |run: &CheckRun| run.results.failed.iter().any(|id| id.contains(sentinel.name.as_str()));
    if !told(&last.run)
        && let Some(tree) = world.plant_at_start(start, &last.canary)?
    {
        // Nobody is accused of what did not work before either.
        last.at_start = Some(world.run_check(Place::Canary, &tree, Phase::Loop)?);
    }
    Ok(())
}

fn run_canary(world: &mut impl World, canary: Canary) -> Result<CanaryFact> {
    let run = world.run_check(Place::Canary, &canary.tree, Phase::Loop)?;
    Ok(CanaryFact { canary, run, at_start: None })
}
