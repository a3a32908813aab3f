//! From raw facts to evidence: verdict, breaches, ratchet, confirmation. Pure, and the same when
//! a receipt is folded again.
//!
//! The baseline is judged in `judge_baseline`; what follows from evidence is `decide`.

use crate::domain::canaries;
use crate::domain::command::{Exit, signal_name};
use crate::domain::evidence::{
    Confirmation, Evidence, OracleFinding, Ratchet, Verdict, digest_of, name_some,
};
use crate::domain::guard;
use crate::domain::hermetic;
use crate::domain::history::History;
use crate::domain::observation::{CheckRun, Observation, Usage};
use crate::domain::plan::{Metering, Plan};
use crate::domain::reason::HaltReason;
use crate::domain::results::{IdSet, Runner, TestId};
use crate::domain::weakening;
use std::sync::Arc;

/// The id of the check itself, where it has no tests or none of them says why it is red.
pub const CHECK_ID: &str = "check";

/// How many verdicts `error` in a row make the check unrunnable.
const ERRORS_IN_ROW: u32 = 3;

/// Characters of a first line that are quoted.
const FIRST_LINE: usize = 300;

/// Which exit codes count as no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// 126 and 127 are no answer: the command cannot be run.
    Baseline,
    /// 126 and 127 are red: the agent may have broken it.
    Loop,
}

/// What one run of the check says.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The verdict.
    pub verdict: Verdict,
    /// The failing set.
    pub failing: IdSet,
    /// The passing set.
    pub passing: IdSet,
    /// Every id that was reported failed, whatever decides green.
    pub failed: IdSet,
    /// Failing ids and known ids that were not reached.
    pub remaining: u64,
    /// Whether the failing set can be compared with others.
    pub measured: bool,
    /// Whether build or collection failed.
    pub broken: bool,
}

/// Reads one run of the check.
pub fn read(
    plan: &Plan,
    known: &IdSet,
    unstable: &IdSet,
    phase: Phase,
    check: &CheckRun,
) -> Reading {
    let results = &check.results;
    let out = |id: &TestId| Plan::names(&plan.quarantine, id) || unstable.contains(id);
    let failed: IdSet = results.failed.iter().filter(|id| !out(id)).cloned().collect();
    let passing: IdSet = results.passed.iter().filter(|id| !out(id)).cloned().collect();
    let tests = results.tests();
    let unreached: IdSet = known
        .union(&tests)
        .filter(|id| !out(id))
        .filter(|id| !results.passed.contains(*id) && !results.skipped.contains(*id))
        .filter(|id| !failed.contains(*id))
        .cloned()
        .collect();
    let broken = results.broken.is_some();
    let code = match check.run.exit {
        Exit::Code { code } => code,
        _ => return no_answer(passing),
    };
    if phase == Phase::Baseline && (code == 126 || code == 127) {
        return no_answer(passing);
    }
    let exit_green = code == plan.success_exit_code;
    let only_quarantined = !results.failed.is_empty()
        && failed.is_empty()
        && !broken
        && results.collected.iter().all(|id| !unreached.contains(id));
    let (green, mut failing) = if plan.targets.is_empty() {
        let green =
            (exit_green && failed.is_empty() && !broken) || (!exit_green && only_quarantined);
        (green, failed.clone())
    } else {
        let failing = failing_targets(plan, &failed, &passing);
        (failing.is_empty() && !broken, failing)
    };
    if !green && failing.is_empty() {
        failing.insert(CHECK_ID.into());
    }
    if green {
        failing.clear();
    }
    // A red run that lost its per-test results says nothing about how many tests still fail.
    let lost = !green && results.runner == Runner::Command && !known.is_empty();
    let remaining = if !plan.targets.is_empty() || results.runner == Runner::Command {
        failing.len()
    } else {
        failing.union(&unreached).count()
    };
    Reading {
        verdict: if green { Verdict::Pass } else { Verdict::Fail },
        remaining: if green { 0 } else { remaining as u64 },
        failing,
        passing,
        failed,
        measured: !broken && !lost,
        broken,
    }
}

fn no_answer(passing: IdSet) -> Reading {
    Reading {
        verdict: Verdict::Error,
        failing: IdSet::new(),
        failed: IdSet::new(),
        passing,
        remaining: 0,
        measured: false,
        broken: false,
    }
}

/// A target is open while no id that it names passed, or one of them failed.
fn failing_targets(plan: &Plan, failed: &IdSet, passing: &IdSet) -> IdSet {
    let mut failing = IdSet::new();
    for target in &plan.targets {
        let list = std::slice::from_ref(target);
        let red: Vec<_> = failed.iter().filter(|id| Plan::names(list, id)).cloned().collect();
        let seen = passing.iter().any(|id| Plan::names(list, id));
        match (red.is_empty(), seen) {
            (false, _) => failing.extend(red),
            (true, false) => {
                failing.insert(target.as_str().into());
            }
            (true, true) => {}
        }
    }
    failing
}

/// Says whether this iteration's green has to be confirmed in fresh copies.
///
/// It is asked before the confirmations are run, with the same rules that judge them.
pub fn wants_confirmation(plan: &Plan, history: &History, observation: &Observation) -> bool {
    let evidence = assess(plan, history, observation);
    evidence.verdict == Some(Verdict::Pass)
        && evidence.breaches.is_empty()
        && evidence.fault.is_none()
        && !evidence.metering_lost
        && !matches!(evidence.ratchet, Ratchet::Regressed { .. })
}

/// Judges one iteration.
pub fn judge(plan: &Plan, history: &History, observation: &Observation) -> Evidence {
    let mut evidence = assess(plan, history, observation);
    guard_green(plan, history, observation, &mut evidence);
    evidence.failing_digest = digest_of(&evidence.failing);
    if evidence.verdict == Some(Verdict::Error) && evidence.oracle.is_none() {
        error_in_loop(history, observation, &mut evidence);
    }
    let beside = [&observation.check, &observation.rerun, &observation.own].into_iter().flatten();
    hermetic::judge(plan, beside.chain(&observation.confirmations), &mut evidence);
    feed_back(plan, observation, &mut evidence);
    evidence
}

/// Reads the facts of one iteration, before its green is held to the tests of t0.
fn assess(plan: &Plan, history: &History, observation: &Observation) -> Evidence {
    let exec = observation.exec.as_ref();
    let exec_failed = exec.is_some_and(|exec| exec.run.exit != Exit::Code { code: 0 });
    let (spent, metering_lost) = spend(plan, history, observation);
    let reading = observation
        .check
        .as_ref()
        .map(|check| read(plan, &history.known, &history.unstable, Phase::Loop, check));
    let ratchet = ratchet(history, reading.as_ref());
    let mut evidence = Evidence {
        iteration: observation.iteration,
        base: observation.base.clone(),
        tree: observation.tree.clone(),
        verdict: reading.as_ref().map(|reading| reading.verdict),
        failing_digest: String::new(),
        class: observation.check.as_ref().map(|check| check.class.clone()).unwrap_or_default(),
        remaining: reading.as_ref().map_or(0, |reading| reading.remaining),
        measured: reading.as_ref().is_some_and(|reading| reading.measured),
        broken: reading.as_ref().is_some_and(|reading| reading.broken),
        exec_failed,
        breaches: guard::judge(plan, &history.check_writes, observation),
        vetoes: Vec::new(),
        objection: None,
        oracle: None,
        confirmation: Confirmation::NotTried,
        ratchet,
        spent,
        metering_lost,
        reruns: history.reruns,
        flips: history.flips,
        elapsed_ms: observation.elapsed_ms,
        fault: observation.fault.clone(),
        notes: observation.left_out.clone(),
        feedback: Vec::new(),
        passing: Arc::new(reading.as_ref().map(|r| r.passing.clone()).unwrap_or_default()),
        collected: Arc::new(
            observation.check.as_ref().map(|c| c.results.tests()).unwrap_or_default(),
        ),
        failing: Arc::new(reading.map(|reading| reading.failing).unwrap_or_default()),
        first_red: None,
        trouble: observation.check.as_ref().map(trouble).unwrap_or_default(),
        unstable: IdSet::new(),
        copies: None,
        copied: String::new(),
        patch: observation.patch,
        asked: observation.asked.clone(),
    };
    confirm(plan, history, observation, &mut evidence);
    evidence
}

/// Says in a few words why a check is broken or gave no answer; empty where neither holds.
fn trouble(check: &CheckRun) -> String {
    let broken = check.results.broken.as_deref();
    match (&check.run.exit, broken) {
        (Exit::Code { .. }, None) => String::new(),
        (Exit::Code { .. }, Some(text)) => first_line(text).to_owned(),
        (Exit::TimedOut, _) => format!("timed out after {} s", check.run.wall_ms.div_ceil(1000)),
        (exit, _) => describe_exit(exit),
    }
}

/// Returns the first line that says anything, bounded.
pub fn first_line(text: &str) -> &str {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let end = line.char_indices().nth(FIRST_LINE).map_or(line.len(), |(at, _)| at);
    &line[..end]
}

fn spend(plan: &Plan, history: &History, observation: &Observation) -> (Usage, bool) {
    let mut spent = history.spent;
    let Some(exec) = &observation.exec else { return (spent, false) };
    if let Some(usage) = &exec.usage {
        spent.usd_micro = spent.usd_micro.saturating_add(usage.usd_micro);
        spent.tokens = spent.tokens.saturating_add(usage.tokens);
        spent.calls = spent.calls.saturating_add(usage.calls);
    }
    let started = !matches!(exec.run.exit, Exit::NotStarted { .. });
    (spent, plan.metering == Metering::File && started && exec.usage.is_none())
}

fn ratchet(history: &History, reading: Option<&Reading>) -> Ratchet {
    let Some(reading) = reading else { return Ratchet::Unmeasured };
    if reading.verdict == Verdict::Error {
        return Ratchet::Unmeasured;
    }
    if reading.broken {
        return if history.broken_in_row >= 1 { Ratchet::BrokenTwice } else { Ratchet::Kept };
    }
    let lost: IdSet = history
        .accepted
        .passing
        .iter()
        .filter(|id| !reading.passing.contains(*id))
        .cloned()
        .collect();
    if lost.is_empty() {
        return Ratchet::Accepted;
    }
    let ids: IdSet = lost.intersection(&reading.failed).cloned().collect();
    if ids.is_empty() { Ratchet::Kept } else { Ratchet::Regressed { ids } }
}

/// Judges the runs in fresh copies that follow a green, by the contract's table for greens.
fn confirm(plan: &Plan, history: &History, observation: &Observation, evidence: &mut Evidence) {
    let read_copy = |check: &CheckRun| {
        read(plan, &history.known, &history.unstable, Phase::Loop, check).verdict
    };
    let verdicts: Vec<Verdict> = observation.confirmations.iter().map(read_copy).collect();
    let passes = verdicts.iter().filter(|v| **v == Verdict::Pass).count();
    let fails = verdicts.iter().filter(|v| **v == Verdict::Fail).count();
    if passes + fails == 0 {
        return;
    }
    let copied = observation.overlay.as_ref().map_or(&observation.tree, |overlay| &overlay.tree);
    if *copied != observation.tree {
        evidence.copied.clone_from(copied);
    }
    let before = history.copies.get(copied).copied();
    let reference = before.unwrap_or(if verdicts.contains(&Verdict::Fail) && fails >= passes {
        Verdict::Fail
    } else {
        Verdict::Pass
    });
    let samples = passes + fails - usize::from(before.is_none());
    let flips = if reference == Verdict::Pass { fails } else { passes };
    evidence.reruns += samples as u64;
    evidence.flips += flips as u64;
    evidence.copies = Some(reference);
    if flips > 0 {
        evidence.confirmation = Confirmation::Refuted;
        evidence.oracle = Some(finding(
            HaltReason::CheckFlaky,
            format!(
                "the same tree gave {passes} green and {fails} red runs in fresh copies{}.",
                if before.is_some() { " beside an earlier verdict" } else { "" }
            ),
            "Find what differs between two runs (time, order, randomness, ports), or name the test in check.quarantine.",
        ));
    } else if fails > 0 {
        evidence.confirmation = Confirmation::Refuted;
        evidence.oracle = Some(red_copies(observation, read_copy));
    } else if passes >= plan.confirm as usize {
        evidence.confirmation = Confirmation::Confirmed;
    }
}

/// Holds a green to the tests of t0: what is found is told the first time and a breach the second.
fn guard_green(plan: &Plan, history: &History, observation: &Observation, evidence: &mut Evidence) {
    let vetoes = weakening::vetoes(plan, history, observation);
    if let Some(overlay) = &observation.overlay {
        evidence.notes.extend(overlay.advice.iter().map(|text| format!("advisory: {text}")));
        evidence.notes.extend(weakening::unguarded(plan, history, observation));
    }
    if vetoes.is_empty() {
        seal(plan, history, observation, evidence);
        return;
    }
    // Flips say that the check cannot be trusted, and then nobody is accused; unless what it runs was changed
    // outside of the tree.
    let explained = observation.control_changes.iter().any(|c| guard::is_outside(&c.path));
    if !explained
        && evidence.oracle.as_ref().is_some_and(|found| found.reason == HaltReason::CheckFlaky)
    {
        return;
    }
    evidence.oracle = None;
    evidence.confirmation = Confirmation::Refuted;
    if history.vetoed > 0 {
        evidence.breaches.extend(vetoes);
        return;
    }
    let red = observation.confirmations.last();
    let red = red.map(|run| read(plan, &history.known, &history.unstable, Phase::Loop, run));
    let mut failing: IdSet = red
        .filter(|reading| reading.verdict == Verdict::Fail && !reading.broken)
        .map(|reading| reading.failing)
        .unwrap_or_default();
    failing.extend(evidence.failing.iter().cloned());
    if failing.is_empty() {
        failing.insert(CHECK_ID.into());
    }
    evidence.verdict = Some(Verdict::Fail);
    evidence.remaining = evidence.remaining.max(failing.len() as u64);
    evidence.failing = Arc::new(failing);
    // A state whose tests say less is never what later ones are held to.
    evidence.ratchet = Ratchet::Kept;
    evidence.feedback.push(weakening::feedback(&vetoes));
    evidence.vetoes = vetoes;
}

/// Judges what runs only once a green is confirmed: canaries, the sealed check, the advisory command.
fn seal(plan: &Plan, history: &History, observation: &Observation, evidence: &mut Evidence) {
    let canaries = canaries::judge(plan, history, observation);
    evidence.notes.extend(canaries.notes);
    if let Some(forged) = canaries.forged {
        evidence.breaches.push(forged);
    }
    if evidence.oracle.is_none() {
        evidence.oracle = canaries.inadequate;
    }
    // What a candidate's own tests say in a fresh copy is part of the green.
    if let Some(own) = &observation.own
        && evidence.confirmation == Confirmation::Confirmed
    {
        let reading = read(plan, &history.known, &history.unstable, Phase::Loop, own);
        if reading.verdict != Verdict::Pass {
            evidence.confirmation = Confirmation::Refuted;
            if evidence.oracle.is_none() {
                evidence.oracle = Some(red_own(&reading));
            }
        }
    }
    if let Some(sealed) = &observation.held_out
        && sealed.exit != (Exit::Code { code: 0 })
    {
        evidence.confirmation = Confirmation::Refuted;
        evidence.verdict = Some(Verdict::Fail);
        evidence.ratchet = Ratchet::Kept;
        evidence.failing = Arc::new(IdSet::from(["sealed check".into()]));
        evidence.remaining = evidence.remaining.max(1);
        evidence.feedback.push("A sealed check is red.".to_owned());
    }
    if let Some(judged) = &observation.judged {
        match &judged.objection {
            Some(why) => {
                evidence.objection = Some(OracleFinding {
                    reason: match judged.hacking {
                        true => HaltReason::RewardHackingDetected,
                        false => HaltReason::ReviewerRejected,
                    },
                    detail: "judge".to_owned(),
                    what: format!("guards.judge objects: {why}"),
                    hints: vec![
                        "Read the patch; take the objection up in the goal, or change guards.judge.".to_owned(),
                    ],
                });
            }
            None if judged.run.exit != (Exit::Code { code: 0 }) => evidence.notes.push(format!(
                "guards.judge gave no answer: it {}",
                describe_exit(&judged.run.exit)
            )),
            None => {}
        }
    }
}

fn red_own(reading: &Reading) -> OracleFinding {
    let named = match reading.failing.is_empty() {
        true => CHECK_ID.to_owned(),
        false => name_some(&reading.failing),
    };
    finding(
        HaltReason::CheckNotHermetic,
        format!(
            "the check is green in the workspace and red in a fresh copy of it ({named}): something outside the snapshot decides."
        ),
        "A file that git ignores, or a state that exec left behind, makes the difference: build it in `setup` or in the check itself.",
    )
}

fn red_copies(
    observation: &Observation,
    read_copy: impl Fn(&CheckRun) -> Verdict,
) -> OracleFinding {
    let failing: IdSet = observation
        .confirmations
        .iter()
        .flat_map(|run| run.results.failed.iter().cloned())
        .collect();
    let named = if failing.is_empty() { CHECK_ID.to_owned() } else { name_some(&failing) };
    match &observation.rerun {
        Some(rerun) if read_copy(rerun) != Verdict::Pass => finding(
            HaltReason::CheckHasSideEffects,
            format!(
                "the check passed once in the workspace and fails when it runs there again ({named})."
            ),
            "Let the check clean up after itself, or write what it leaves behind into a fresh temporary folder ($TMPDIR).",
        ),
        _ => finding(
            HaltReason::CheckNotHermetic,
            format!(
                "the check is green in the workspace and red in every fresh copy ({named}): something outside the snapshot decides."
            ),
            "A file that git ignores, or a state that exec left behind, makes the difference: build it in `setup` or in the check itself.",
        ),
    }
}

fn error_in_loop(history: &History, observation: &Observation, evidence: &mut Evidence) {
    if history.errors_in_row + 1 >= ERRORS_IN_ROW {
        let how =
            observation.check.as_ref().map(|c| describe_exit(&c.run.exit)).unwrap_or_default();
        evidence.oracle = Some(finding(
            HaltReason::CheckUnrunnable,
            format!(
                "the check gave no answer {ERRORS_IN_ROW} times in a row; the last time it {how}."
            ),
            "Raise check.timeout if it needs more time; see the end of its output in the report.",
        ));
    }
}

fn finding(reason: HaltReason, what: String, hint: &str) -> OracleFinding {
    OracleFinding { reason, detail: String::new(), what, hints: vec![hint.to_owned()] }
}

/// Says how a command ended, as the end of a sentence.
pub fn describe_exit(exit: &Exit) -> String {
    match exit {
        Exit::Code { code } => format!("ended with exit code {code}"),
        Exit::Signal { signal } => format!("was ended by {}", signal_name(*signal)),
        Exit::TimedOut => "ran into its time limit".to_owned(),
        Exit::Idle => "did nothing for its idle limit".to_owned(),
        Exit::Interrupted => "was interrupted".to_owned(),
        Exit::OutOfMemory => "ran out of memory".to_owned(),
        Exit::OutOfDisk => "wrote more than it may".to_owned(),
        Exit::NotStarted { why } => format!("could not be started ({why})"),
    }
}

fn feed_back(plan: &Plan, observation: &Observation, evidence: &mut Evidence) {
    if evidence.exec_failed
        && let Some(exec) = &observation.exec
    {
        evidence.feedback.push(format!("The last exec {}.", describe_exit(&exec.run.exit)));
    }
    if evidence.verdict == Some(Verdict::Error)
        && let Some(check) = &observation.check
    {
        evidence
            .feedback
            .push(format!("The check gave no answer: it {}.", describe_exit(&check.run.exit)));
    }
    if let Some(broken) = observation.check.as_ref().and_then(|check| check.results.broken.as_ref())
    {
        evidence.feedback.push(format!("Build or collection failed:\n{broken}"));
    }
    match &evidence.ratchet {
        Ratchet::Regressed { ids } => evidence.feedback.push(format!(
            "The last change broke what worked ({}); {}.",
            name_some(ids),
            match plan.on_regression {
                crate::domain::plan::OnRegression::Revert => "it was taken back to the accepted state",
                crate::domain::plan::OnRegression::Halt => "the run ends",
            }
        )),
        Ratchet::BrokenTwice => evidence.feedback.push(
            "Build or collection failed twice in a row; the tree was taken back to the accepted state.".to_owned(),
        ),
        _ => {}
    }
    let check = observation.check.as_ref();
    evidence
        .notes
        .extend(check.into_iter().flat_map(|check| check.results.problems.iter().cloned()));
}
