//! Takes up a run that was killed or interrupted, inside its original limits.

use super::again::make_again;
use super::candidates::{choose_run, ended};
use super::memory::Memory;
use super::opening::{self, Opened, build_site, prefix_of, redactor_of};
use super::recorder::{Recorder, fold_into};
use super::site::Site;
use super::start::pins_of;
use super::{Args, Around, closing, go_on, result};
use crate::commands::Global;
use crate::commands::outcome::Outcome;
use crate::commands::planning::{plan_for, without_fractions};
use crate::commands::recorded::require_snapshots;
use crate::config::Resolved;
use crate::config::spec::Backend;
use crate::domain::evidence::Verdict;
use crate::domain::fold::{Position, is_cut_short, is_resumable, take_answer};
use crate::domain::history::{History, State};
use crate::domain::judge::{Phase, read};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;
use crate::engine::ports::World;
use crate::error::{Error, Kind, Result};
use crate::receipt::bundle::is_bundle_name;
use crate::receipt::question::{read_answer, resume_command};
use crate::receipt::record::{Compare, Start, Step, fold, kind, to_value};
use crate::receipt::recover::recover;
use crate::receipt::redact::Redactor;
use crate::receipt::rundir::{Home, RunDir};
use crate::receipt::state::{LoopState, read_state};
use crate::receipt::writer::Options;
use crate::workspace::copies;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

/// Goes on with a run.
///
/// A run that was killed goes on; so does one that was stopped from outside (a signal, a full
/// disk) and wrote its end: nothing was decided about the loop then. One that waits for a person goes
/// on with the answer; without one it ends as it did, and nothing is run or written. Any other end is
/// final.
///
/// # Errors
/// `workspace_invalid` when there is no such run or it has ended, `objective_unverified` when its
/// receipt is altered, `config_invalid` when the loop is another one now.
pub fn run(which: &str, args: &Args, global: &Global, around: &mut Around<'_>) -> Result<Outcome> {
    let (ready, resolved) = super::source::prepare(args, global)?;
    let mut resolved = resolved?;
    let root = ready.caller.root.clone();
    let dir = Path::new(&resolved.spec.receipt.dir);
    // A bundle from elsewhere may be taken up where there never was a run.
    let home = match which.contains('/') || is_bundle_name(which) {
        true => Home::create(&root, dir)?,
        false => Home::find(&root, dir)?.ok_or_else(|| no_run(&root))?,
    };
    let run = choose_run(&home, which)?;
    require_snapshots(&run)?;
    let lock = home.acquire_lock(run.id())?;
    around.open(&run, &ready.caller, Some(&resolved));
    let memory = Rc::new(RefCell::new(Memory::default()));
    let redactor = redactor_of(&resolved.spec, &ready)?;
    let durability = opening::durability_of(&resolved.spec);
    let options = Options { durability, redactor: Some(redactor.clone()), clock: SystemTime::now };
    // The receipt is right where the state file differs, but for an end that was cut off.
    let known = read_state(&root)?.filter(|state| state.run_id == run.id());
    // A bundle brings the state along; it is no more than a second word on where the run stood.
    let known = match known {
        Some(known) => Some(known),
        None => read_state(run.path())?.filter(|state| state.run_id == run.id()),
    };
    let expected = known.and_then(|state| state.receipt_head);
    let mut state =
        LoopState::new(run.id(), &resolved.digest, opening::relative(&root, run.path()));
    // The fold comes first: a receipt that does not hold is not written to.
    let folded = fold(&run, Compare::Strict, &mut |step| {
        memory.borrow_mut().take(&step);
        remember(&mut state, &step, resolved.spec.check.max_flake_rate);
        Ok(())
    })
    .map_err(|error| never_started(error, &run))?;
    let over = folded.end.as_ref().filter(|end| !is_resumable(end.halt.reason));
    if let Some(end) = over.filter(|_| folded.waiting.is_none()) {
        let what = format!("run {} has ended already: {}", run.id(), end.halt.reason);
        return Err(ended(what, &home));
    }
    let plan = plan_for(&resolved, &prefix_of(&ready.caller));
    if folded.start.plan.is_none() {
        return Err(ended(format!("run {} was refused before it could start", run.id()), &home));
    }
    same_loop(&folded.start, &plan, &resolved, &redactor)?;
    let answer = match &folded.waiting {
        None => None,
        Some(waiting) => match read_answer(run.path(), run.id(), waiting) {
            Ok(Some(answer)) => Some(redactor.redact_fact(answer)?),
            Ok(None) => return Ok(result::waits(&run, &root, &folded, None)),
            Err(why) => return Ok(result::waits(&run, &root, &folded, Some(&why))),
        },
    };
    let delivered = folded.delivery.is_some();
    let earlier_ms = folded.elapsed_ms;
    let (start, position) = folded.reopen();
    stay_in(&mut resolved, &start);
    let (position, answered) = match answer {
        None => (position, None),
        Some(answer) => {
            let (position, decision) = take_answer(&plan, &position, answer.clone())
                .ok_or_else(|| Error::new(Kind::Internal, "a fitting answer opened nothing"))?;
            (position, Some((answer, decision)))
        }
    };
    if matches!(position, Position::Start(_)) {
        // A store that a kill left half made holds nothing that counts yet.
        copies::remove(&run.snapshots())?;
    }
    let recovered = recover(&run, &lock, expected.as_ref(), options)?;
    let built =
        build_site(ready, &resolved, &run, redactor.clone(), global, earlier_ms, memory.clone())?;
    let pins = pins_of(&resolved.spec, &start);
    let recorder = Recorder::new(recovered.writer, state, root, redactor, durability, pins, memory);
    let mut opened = Opened { site: built, recorder, plan, run, lock };
    opened.recorder.write(
        kind::RESUMED,
        json!({
            "earlier_ms": earlier_ms, "torn": recovered.torn.len(), "boot_id": boot_id(),
            "delivered": delivered,
        }),
    )?;
    if let Some((answer, decision)) = &answered {
        opened.recorder.answered(answer, decision)?;
    }
    match prepare(&mut opened, position) {
        Ok(position) => go_on(&mut opened, &start, position),
        Err(error) => {
            let halt = super::halt_of(&error);
            let (end, delivery) = closing::close(&mut opened, None, halt)?;
            closing::clean_up(&opened);
            Ok(result::ended(&opened, &start, None, &end, &delivery))
        }
    }
}

/// Holds a run to where its processes were so far: nothing weaker takes over, and nothing else.
fn stay_in(resolved: &mut Resolved, start: &Start) {
    let recorded = start.isolation.get("backend").and_then(Value::as_str);
    if let (Backend::Auto, Some(backend)) =
        (resolved.spec.isolation.backend, recorded.and_then(Backend::from_word))
    {
        resolved.spec.isolation.backend = backend;
    }
}

fn remember(state: &mut LoopState, step: &Step<'_>, wanted_rate: Option<f64>) {
    match step {
        Step::BaselineDecided(evidence, decision, history) => {
            fold_into(state, evidence, decision, history, wanted_rate);
        }
        Step::Decided(observation, evidence, decision, history)
            if !is_cut_short(observation.fault.as_ref()) =>
        {
            fold_into(state, evidence, decision, history, wanted_rate);
        }
        _ => {}
    }
}

/// Says what to do about a run that was killed before its first event was whole.
fn never_started(error: Error, run: &RunDir) -> Error {
    if error.detail != Some("incomplete") && run.receipt().exists() {
        return error;
    }
    Error::new(
        Kind::WorkspaceInvalid,
        format!(
            "run {} was stopped before its first event was written; it did nothing yet",
            run.id()
        ),
    )
    .detail("incomplete")
    .hint("loopexec run starts a new one")
}

fn no_run(root: &Path) -> Error {
    Error::new(Kind::WorkspaceInvalid, format!("there was no run in {} yet", root.display()))
        .hint("loopexec run starts one")
}

/// The limits and rules of a run are those it started with.
fn same_loop(start: &Start, plan: &Plan, resolved: &Resolved, redactor: &Redactor) -> Result<()> {
    if start.plan.as_ref() == Some(plan) && start.loop_digest == resolved.digest {
        return Ok(());
    }
    let mut now = to_value(&resolved.spec)?;
    without_fractions(&mut now);
    // What was recorded was redacted too.
    let keys = differing_keys(&start.spec, &redactor.redact_fact(now)?);
    let protected = |plan: Option<&Plan>| plan.and_then(|plan| plan.protected.clone());
    let subject = match keys.as_slice() {
        [] if protected(start.plan.as_ref()) != protected(Some(plan)) => {
            "it is not held to the same base revision (--base)".to_owned()
        }
        // The plan also knows these.
        [] => "the folder it is started in, or its file's name, differs".to_owned(),
        [key] => format!("{key} differs"),
        keys => format!("{} differ", keys.join(", ")),
    };
    Err(Error::new(
        Kind::ConfigInvalid,
        format!(
            "the loop is another one than the run started with: {subject} ({} then, {} now)",
            start.loop_digest, resolved.digest
        ),
    )
    .hint(format!(
        "resume with the loop file and flags of the first start ({}), or start a new run",
        resume_command("ID", &start.caller)
    )))
}

/// Names the top-level keys of two resolved loops that differ; the name of a loop does nothing.
fn differing_keys(then: &Value, now: &Value) -> Vec<String> {
    let keys = |value: &Value| -> BTreeSet<String> {
        value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    let all = keys(then).into_iter().chain(keys(now)).collect::<BTreeSet<_>>();
    all.into_iter().filter(|key| key != "name" && then.get(key) != now.get(key)).collect()
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Brings the workspace to where the run stands, and checks that its verdict still holds.
fn prepare(opened: &mut Opened, position: Position) -> Result<Position> {
    let site = &mut opened.site;
    match &position {
        // A baseline that was not recorded whole is measured again from the start.
        Position::Start(_) => site.empty_cache()?,
        // A result that waited for a yes has to hold on the day it is handed over.
        Position::Halted(history, halt)
            if history.waiting.is_some() && halt.reason == HaltReason::SuccessConditionMet =>
        {
            restore_site(site, &t0_of(history), &history.next.tree)?;
            revalidate(opened, history, &history.next)?;
        }
        Position::Halted(..) => {
            site.head = match site.read_cache_facts() {
                Some(facts) => facts.head,
                None => site.read_caller_head()?,
            };
        }
        // What is missing decides by itself.
        Position::BaselineObserved(_, observation) if observation.fault.is_some() => {}
        Position::BaselineObserved(_, observation) => {
            let tree = observation.tree.clone();
            restore_site(site, &tree, &tree)?;
        }
        Position::Observed(_, observation) if observation.fault.is_some() => {}
        Position::Observed(history, observation) => {
            restore_site(site, &t0_of(history), &observation.tree)?;
            revalidate(opened, history, &history.accepted)?;
        }
        Position::Decided(history) => {
            restore_site(site, &t0_of(history), &history.next.tree)?;
            revalidate(opened, history, &history.accepted)?;
        }
    }
    Ok(position)
}

fn t0_of(history: &History) -> String {
    history.baseline.as_ref().map(|state| state.tree.clone()).unwrap_or_default()
}

/// Takes the killed run's workspace and layer up, or makes them again from the caller's tree.
fn restore_site(site: &mut Site, t0: &str, tree: &str) -> Result<()> {
    if let Some(facts) = site.read_cache_facts() {
        site.know(facts.ignored);
        site.layer = Some(facts.layer);
        site.frozen_tree = facts.frozen_tree;
        site.baseline_check_ms = facts.baseline_check_ms;
        site.head = facts.head;
        site.clear_leftovers()?;
        return site.restore_workspace(tree);
    }
    site.empty_cache()?;
    make_again(site, t0)?;
    site.restore_workspace(tree)
}

/// Runs the check once on a state that was accepted, before anything is spent or handed over.
fn revalidate(opened: &mut Opened, history: &History, state: &State) -> Result<()> {
    let run = opened.site.recheck(state.iteration, &state.tree)?;
    let reading = read(&opened.plan, &history.known, &history.unstable, Phase::Loop, &run);
    let expected = if state.failing.is_empty() { Verdict::Pass } else { Verdict::Fail };
    if reading.verdict == expected || reading.verdict == Verdict::Error && expected != Verdict::Pass
    {
        return Ok(());
    }
    Err(Error::new(
        Kind::ObjectiveUnverified,
        format!(
            "the accepted snapshot of iteration {} was {} and is {} now",
            state.iteration,
            expected.as_str(),
            reading.verdict.as_str()
        ),
    )
    .hint("the check depends on something outside the snapshot, or it is flaky: start a new run"))
}
