//! Takes up a run that was killed or interrupted, inside its original limits.

use super::again::make_again;
use super::memory::Memory;
use super::opening::{self, Opened, build_site, pins_of, prefix_of, redactor_of};
use super::recorder::Recorder;
use super::site::Site;
use super::{Args, closing, go_on, result};
use crate::commands::Global;
use crate::commands::outcome::Outcome;
use crate::commands::planning::plan_of;
use crate::domain::evidence::Verdict;
use crate::domain::fold::Position;
use crate::domain::history::History;
use crate::domain::judge::{Phase, read};
use crate::domain::observation::Place;
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;
use crate::engine::iterate::fault_of;
use crate::engine::ports::World;
use crate::error::{Error, Kind, Result};
use crate::receipt::record::{Compare, Folded, Start, fold, kind};
use crate::receipt::recover::recover;
use crate::receipt::rundir::{Home, RunDir};
use crate::receipt::state::{LoopState, read_state};
use crate::receipt::writer::Options;
use crate::workspace::copies;
use crate::workspace::snapshot::Snapshotter;
use serde_json::json;
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

/// Goes on with a run.
///
/// # Errors
/// `workspace_invalid` when there is no such run or it has ended, `objective_unverified` when its
/// receipt is altered, `config_invalid` when the loop is another one now.
pub fn run(which: &str, args: &Args, global: &Global) -> Result<Outcome> {
    let ready = opening::ready(global)?;
    let resolved = opening::resolve(args, &ready.caller)?;
    let root = ready.caller.root.clone();
    let dir = Path::new(&resolved.spec.receipt.dir);
    let home = Home::find(&root, dir)?.ok_or_else(|| no_run(&root))?;
    let run = open_run(&home, which)?;
    let lock = home.acquire_lock(run.id())?;
    let memory = Rc::new(RefCell::new(Memory::default()));
    let state = read_state(&root)?.filter(|state| state.run_id == run.id());
    let redactor = redactor_of(&resolved.spec, &ready)?;
    let durability = opening::durability_of(&resolved.spec);
    let options = Options { durability, redactor: Some(redactor.clone()), clock: SystemTime::now };
    // The fold comes first: a receipt that does not hold is not written to.
    let folded = fold(&run, Compare::Strict, &mut |step| {
        memory.borrow_mut().take(&step);
        Ok(())
    })?;
    if let Some(end) = &folded.end {
        return Err(Error::new(
            Kind::WorkspaceInvalid,
            format!("run {} has ended already: {}", run.id(), end.halt.reason),
        )
        .detail("ended")
        .hint("loopexec run starts a new one"));
    }
    let plan = plan_of(&resolved.spec, &prefix_of(&ready.caller));
    same_loop(&folded.start, &plan, &resolved.digest)?;
    let expected = state.as_ref().and_then(|state| state.receipt_head.clone());
    let recovered = recover(&run, &lock, expected.as_ref(), options)?;
    let state = state.unwrap_or_else(|| {
        LoopState::new(run.id(), &resolved.digest, opening::relative(&root, run.path()))
    });
    let earlier_ms = folded.elapsed_ms;
    let built =
        build_site(ready, &resolved, &run, redactor.clone(), global, earlier_ms, memory.clone())?;
    let pins = pins_of(&resolved.spec, &folded.start);
    let recorder = Recorder::new(recovered.writer, state, root, redactor, durability, pins, memory);
    let mut opened = Opened { site: built, recorder, plan, run, lock };
    opened.recorder.write(
        kind::RESUMED,
        json!({"earlier_ms": earlier_ms, "torn": recovered.torn.len(), "boot_id": boot_id()}),
    )?;
    let Folded { position, start, .. } = folded;
    match prepare(&mut opened, position) {
        Ok(position) => go_on(&mut opened, &start, position),
        Err(error) => {
            let fault = fault_of(&error);
            let halt = super::halt_of(&error);
            if fault.reason == HaltReason::Interrupted {
                return Err(error);
            }
            let (end, delivery) = closing::close(&mut opened, None, halt)?;
            closing::clean_up(&opened);
            Ok(result::ended(&opened, &start, None, &end, &delivery))
        }
    }
}

fn open_run(home: &Home, which: &str) -> Result<RunDir> {
    let path = Path::new(which);
    if which.contains('/') {
        return RunDir::open(path);
    }
    home.open_run(which)
}

fn no_run(root: &Path) -> Error {
    Error::new(Kind::WorkspaceInvalid, format!("there was no run in {} yet", root.display()))
        .hint("loopexec run starts one")
}

/// The limits and rules of a run are those it started with.
fn same_loop(start: &Start, plan: &Plan, digest: &str) -> Result<()> {
    if start.plan.as_ref() == Some(plan) && start.loop_digest == digest {
        return Ok(());
    }
    Err(Error::new(
        Kind::ConfigInvalid,
        format!(
            "the loop is another one than the run started with ({} then, {digest} now)",
            start.loop_digest
        ),
    )
    .hint("resume with the loop file and flags of the first start, or start a new run"))
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Brings the workspace to where the run stands, and checks that its verdict still holds.
fn prepare(opened: &mut Opened, position: Position) -> Result<Position> {
    let site = &mut opened.site;
    let history = match &position {
        // A baseline that was not recorded whole is measured again from the start.
        Position::Start => {
            copies::remove(&site.workspace_cache())?;
            return Ok(position);
        }
        Position::Halted(..) => {
            site.head = site.read_caller_head()?;
            return Ok(position);
        }
        Position::BaselineObserved(observation) => {
            let tree = observation.tree.clone();
            restore_site(site, &tree, &tree)?;
            return Ok(position);
        }
        Position::Decided(history) => history,
        Position::Observed(history, observation) => {
            let t0 = t0_of(history);
            let tree = observation.tree.clone();
            restore_site(site, &t0, &tree)?;
            revalidate(opened, history)?;
            return Ok(position);
        }
    };
    restore_site(site, &t0_of(history), &history.next.tree)?;
    revalidate(opened, history)?;
    Ok(position)
}

fn t0_of(history: &History) -> String {
    history.baseline.as_ref().map(|state| state.tree.clone()).unwrap_or_default()
}

/// Takes the killed run's workspace and layer up, or makes them again from the caller's tree.
fn restore_site(site: &mut Site, t0: &str, tree: &str) -> Result<()> {
    if let Some(facts) = site.read_cache_facts() {
        site.snapshotter = Snapshotter::new(facts.ignored.clone());
        site.ignored = facts.ignored;
        site.layer = Some(facts.layer);
        site.frozen_tree = facts.frozen_tree;
        site.baseline_check_ms = facts.baseline_check_ms;
        site.head = facts.head;
        site.clear_leftovers()?;
        return site.restore_workspace(tree);
    }
    copies::remove(&site.workspace_cache())?;
    make_again(site, t0)?;
    site.restore_workspace(tree)
}

/// Runs the check once on the accepted snapshot, before anything is spent.
fn revalidate(opened: &mut Opened, history: &History) -> Result<()> {
    let tree = history.accepted.tree.clone();
    let run = opened.site.run_check(Place::Copy, &tree, Phase::Loop)?;
    let reading = read(&opened.plan, &history.known, &history.unstable, Phase::Loop, &run);
    let green = history.accepted.failing.is_empty();
    let expected = if green { Verdict::Pass } else { Verdict::Fail };
    if reading.verdict == expected || reading.verdict == Verdict::Error {
        return Ok(());
    }
    Err(Error::new(
        Kind::ObjectiveUnverified,
        format!(
            "the accepted snapshot of iteration {} was {} and is {} now",
            history.accepted.iteration,
            expected.as_str(),
            reading.verdict.as_str()
        ),
    )
    .hint("the check depends on something outside the snapshot, or it is flaky: start a new run"))
}
