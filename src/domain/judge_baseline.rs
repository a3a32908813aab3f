//! From the baseline's facts to evidence: unrunnable, flaky, red because of us, green or red.
//!
//! Later iterations are judged in `judge`.

use crate::domain::absent::{absent_lines, denied_lines};
use crate::domain::command::Exit;
use crate::domain::evidence::{
    Confirmation, Evidence, OracleFinding, Ratchet, Verdict, digest_of, name_some,
};
use crate::domain::hermetic;
use crate::domain::judge::{Phase, Reading, describe_exit, read};
use crate::domain::observation::{BaselineObservation, CheckRun, Place, Usage};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;
use crate::domain::results::IdSet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a red first run beside green copies shows.
pub const FIRST_RED: &str = "the first run of the check was red and every fresh copy after it green: the first run leaves something the later ones need";

fn read_run(plan: &Plan, unstable: &IdSet, check: &CheckRun) -> Reading {
    read(plan, &IdSet::new(), unstable, Phase::Baseline, check)
}

/// Says whether the baseline is green so far, and so has to be confirmed in more copies.
pub fn wants_confirmation(plan: &Plan, observation: &BaselineObservation) -> bool {
    let evidence = judge_baseline(plan, observation);
    evidence.verdict == Some(Verdict::Pass) && evidence.oracle.is_none() && evidence.fault.is_none()
}

/// Says whether the baseline may be red because of us: red, and no test was collected or a zone may have
/// refused something; `places` is where it could be run again.
pub fn wants_diagnosis(plan: &Plan, observation: &BaselineObservation, places: &[Place]) -> bool {
    let evidence = judge_baseline(plan, observation);
    let collected = observation
        .runs
        .iter()
        .any(|run| run.results.broken.is_none() && !run.results.tests().is_empty());
    let unanswered =
        evidence.oracle.as_ref().is_some_and(|found| found.detail == "command_not_found");
    let refused = hermetic::attempts(&observation.runs) > 0 || speaks_of_denials(observation);
    let suspect = !collected || places.contains(&Place::CallerNetwork) && refused;
    (evidence.verdict == Some(Verdict::Fail) && evidence.oracle.is_none() && suspect || unanswered)
        && evidence.fault.is_none()
}

/// Says whether a run of the check may be red for what its zone refused.
fn speaks_of_denials(observation: &BaselineObservation) -> bool {
    let speaks = |text: &str| !denied_lines(text).is_empty();
    observation.runs.iter().any(|run| {
        let results = &run.results;
        let messages = results.failures.iter().map(|failure| &*failure.message);
        speaks(&run.run.tail)
            || results.broken.as_deref().is_some_and(speaks)
            || messages.into_iter().any(speaks)
    })
}

/// Judges the baseline.
pub fn judge_baseline(plan: &Plan, observation: &BaselineObservation) -> Evidence {
    let copies = observation.runs.get(1..).unwrap_or_default();
    let unstable = disagreeing(copies);
    let counting = copies.first().or(observation.runs.first());
    let reading = counting.map(|check| read_run(plan, &unstable, check));
    let mut evidence = Evidence {
        iteration: 0,
        base: observation.tree.clone(),
        tree: observation.tree.clone(),
        verdict: reading.as_ref().map(|reading| reading.verdict),
        failing_digest: String::new(),
        class: counting.map(|check| check.class.clone()).unwrap_or_default(),
        remaining: reading.as_ref().map_or(0, |reading| reading.remaining),
        // What was cut short is no baseline, whatever its first run said.
        measured: observation.fault.is_none()
            && reading.as_ref().is_some_and(|reading| reading.measured),
        broken: reading.as_ref().is_some_and(|reading| reading.broken),
        exec_failed: false,
        breaches: Vec::new(),
        vetoes: Vec::new(),
        objection: None,
        oracle: None,
        confirmation: Confirmation::NotTried,
        ratchet: Ratchet::Accepted,
        spent: Usage::default(),
        metering_lost: false,
        reruns: 0,
        flips: 0,
        elapsed_ms: observation.elapsed_ms,
        fault: observation.fault.clone(),
        notes: Vec::new(),
        feedback: Vec::new(),
        passing: Arc::new(reading.as_ref().map(|r| r.passing.clone()).unwrap_or_default()),
        collected: Arc::new(counting.map(|check| check.results.tests()).unwrap_or_default()),
        failing: Arc::new(reading.map(|reading| reading.failing).unwrap_or_default()),
        first_red: None,
        trouble: String::new(),
        unstable,
        copies: None,
        copied: String::new(),
        patch: None,
        asked: observation.asked.clone(),
    };
    evidence.failing_digest = digest_of(&evidence.failing);
    evidence
        .notes
        .extend(counting.into_iter().flat_map(|run| run.results.problems.iter().cloned()));
    if evidence.fault.is_none() {
        find_against_the_check(plan, observation, &mut evidence);
        let counted = observation.runs.iter().chain(&observation.confirmations);
        hermetic::judge(plan, counted, &mut evidence);
    }
    evidence
}

/// Returns the ids that did not fare alike in all copies.
fn disagreeing(copies: &[CheckRun]) -> IdSet {
    let Some((first, rest)) = copies.split_first() else { return IdSet::new() };
    let mut ids = IdSet::new();
    for run in rest {
        for set in [
            first.results.failed.symmetric_difference(&run.results.failed),
            first.results.passed.symmetric_difference(&run.results.passed),
        ] {
            ids.extend(set.cloned());
        }
    }
    ids
}

fn find_against_the_check(plan: &Plan, observation: &BaselineObservation, evidence: &mut Evidence) {
    let none = IdSet::new();
    let verdicts: Vec<Verdict> =
        observation.runs.iter().map(|run| read_run(plan, &none, run).verdict).collect();
    let Some((first, copies)) = verdicts.split_first() else { return };
    if let Some(silent) = verdicts.iter().position(|v| *v == Verdict::Error) {
        evidence.verdict = Some(Verdict::Error);
        evidence.measured = false;
        let found = not_hermetic(plan, observation)
            .unwrap_or_else(|| unrunnable(plan, &observation.runs[silent]));
        evidence.oracle = Some(found);
        return;
    }
    let more: Vec<Verdict> =
        observation.confirmations.iter().map(|run| read_run(plan, &none, run).verdict).collect();
    let samples: Vec<Verdict> =
        copies.iter().chain(&more).copied().filter(|v| *v != Verdict::Error).collect();
    if let Some((reference, rest)) = samples.split_first() {
        evidence.copies = Some(*reference);
        evidence.reruns = rest.len() as u64;
        evidence.flips = rest.iter().filter(|v| *v != reference).count() as u64;
    }
    if evidence.flips > 0 {
        evidence.oracle = Some(finding(
            HaltReason::CheckFlaky,
            "",
            format!(
                "the untouched tree gave both verdicts in fresh copies ({} of {} reruns differ{}).",
                evidence.flips,
                evidence.reruns,
                if evidence.unstable.is_empty() { String::new() } else { format!(": {}", name_some(&evidence.unstable)) }
            ),
            vec!["Find what differs between two runs (time, order, randomness, ports), or name the test in check.quarantine.".to_owned()],
        ));
        return;
    }
    match (first, copies.first()) {
        (Verdict::Pass, Some(Verdict::Fail)) => {
            evidence.oracle = Some(finding(
                HaltReason::CheckHasSideEffects,
                "",
                format!("the check passed on its first run and fails on what that run left behind ({}).", name_some(&evidence.failing)),
                vec!["Let the check clean up after itself, or write what it leaves behind into a fresh temporary folder ($TMPDIR).".to_owned()],
            ));
            return;
        }
        (Verdict::Fail, Some(Verdict::Pass)) => {
            let failing = read_run(plan, &none, &observation.runs[0]).failing;
            evidence.first_red = Some(Arc::new(failing));
            evidence.notes.push(FIRST_RED.to_owned());
        }
        _ => {}
    }
    match evidence.verdict {
        Some(Verdict::Pass) => green(plan, &more, evidence),
        Some(Verdict::Fail) => {
            evidence.oracle = not_hermetic(plan, observation);
            let collected = observation.runs.iter().any(|run| !run.results.tests().is_empty());
            if !collected && !observation.diagnosis.is_empty() {
                evidence.notes.push(
                    "no test was collected; what the check needs may still be to be written"
                        .to_owned(),
                );
            }
        }
        _ => {}
    }
}

fn green(plan: &Plan, more: &[Verdict], evidence: &mut Evidence) {
    let passes = more.iter().filter(|v| **v == Verdict::Pass).count();
    if more.contains(&Verdict::Error) || passes < plan.confirm as usize {
        return;
    }
    if plan.require_red {
        evidence.oracle = Some(finding(
            HaltReason::CheckInadequate,
            "never_red",
            match evidence.first_red {
                None => "the check is green before any exec, and check.require_red asks for a red start.".to_owned(),
                Some(_) => format!("{FIRST_RED}; check.require_red asks for a red start."),
            },
            vec![
                "Write the test that shows what is missing first, or drop check.require_red."
                    .to_owned(),
            ],
        ));
    } else {
        evidence.confirmation = Confirmation::Confirmed;
    }
}

fn unrunnable(plan: &Plan, run: &CheckRun) -> OracleFinding {
    let (detail, hint) = match &run.run.exit {
        Exit::Code { code: 127 } | Exit::NotStarted { .. } => (
            "command_not_found",
            "Install what the check runs in `setup`, or put its folder on PATH before the run starts.".to_owned(),
        ),
        Exit::Code { code: 126 } => {
            ("not_executable", "Make the file executable (`chmod +x`), or start it through its interpreter.".to_owned())
        }
        Exit::TimedOut => (
            "timed_out",
            format!(
                "Raise limits.time (now {} s, the baseline may use half of it), or make the check faster.",
                plan.limits.time_ms / 1000
            ),
        ),
        _ => ("killed", "Run the check by hand and see what ends it.".to_owned()),
    };
    let said = run.run.tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    let said = if said.is_empty() { String::new() } else { format!(" It said: {said}") };
    finding(
        HaltReason::CheckUnrunnable,
        detail,
        format!("the check {} on the untouched tree.{said}", describe_exit(&run.run.exit)),
        vec![hint],
    )
}

/// Compares the runs with lifted denials with the one that counts.
fn not_hermetic(plan: &Plan, observation: &BaselineObservation) -> Option<OracleFinding> {
    let none = IdSet::new();
    let counting = observation.runs.get(1).or(observation.runs.first())?;
    let plain = read_run(plan, &none, counting);
    let (lifted, difference) = observation.diagnosis.iter().find_map(|run| {
        let reading = read_run(plan, &none, run);
        if reading.verdict != plain.verdict || reading.failing != plain.failing {
            return Some((
                run,
                match reading.verdict {
                    Verdict::Pass => "green".to_owned(),
                    _ => format!("red in another way: {}", name_some(&reading.failing)),
                },
            ));
        }
        (plain.verdict == Verdict::Fail)
            .then(|| other_red(&observation.runs, run))
            .flatten()
            .map(|difference| (run, difference))
    })?;
    let names = &observation.missing_variables;
    let zoned = observation.diagnosis.iter().any(|run| run.place == Place::CallerNetwork);
    let (dimension, hints) = match lifted.place {
        Place::CallerEnvironment if names.is_empty() => (
            "environment",
            vec!["check: {pass_env: [NAME]}   # the variable that the check reads".to_owned()],
        ),
        Place::CallerEnvironment => (
            "environment",
            vec![
                format!("check: {{pass_env: [{}]}}", names.join(", ")),
                format!("or a fixed value: check: {{env: {{{}: VALUE}}}}", names[0]),
            ],
        ),
        Place::CallerNetwork => ("network", network_hints(counting)),
        // In a zone the files of the system are hidden and kept as well.
        _ => (if zoned { "path" } else { "home" }, home_hints(zoned)),
    };
    let (cause, with) = match dimension {
        "home" => ("home", "HOME and environment"),
        "path" => ("zone's file system", "whole file system"),
        dimension => (dimension, dimension),
    };
    Some(finding(
        HaltReason::CheckNotHermetic,
        dimension,
        format!(
            "the check is red because of its {cause}: with the caller's {with} it is {difference}.",
        ),
        hints,
    ))
}

/// Returns the mends of a check that needs what is beside the tree.
fn home_hints(zoned: bool) -> Vec<String> {
    let shown = "isolation: {exec: {read: [PATH]}}   # show what the check needs beside the tree";
    let install = "setup: COMMAND   # install what the check finds in your HOME into the project or its own HOME";
    zoned.then_some(shown).into_iter().chain([install]).map(str::to_owned).collect()
}

/// Returns the mends of a check that needs a network, first that of what it most likely lacks.
fn network_hints(run: &CheckRun) -> Vec<String> {
    let mut hints = vec![
        "setup: COMMAND   # fetch what the check needs before the run: setup has your network".to_owned(),
        "check: {services: [{address: localhost:PORT}]}   # a service on this machine that it talks to".to_owned(),
    ];
    // Only the own machine answers at all, by a refusal.
    let messages = run.results.failures.iter().map(|failure| &*failure.message);
    let refused =
        |text: &str| denied_lines(text).iter().any(|line| line.to_lowercase().contains("refused"));
    if messages.chain([run.run.tail.as_str()]).any(refused) {
        hints.swap(0, 1);
    }
    hints
}

/// Says how a run without tests is red in another way than all runs before it: its exit code, or
/// that it no longer misses something.
///
/// A run with the caller's network has none of the machine's sockets: that it misses something else says nothing.
fn other_red(plain: &[CheckRun], lifted: &CheckRun) -> Option<String> {
    let (first, rest) = plain.split_first()?;
    if rest.iter().all(|run| run.run.exit == first.run.exit) && lifted.run.exit != first.run.exit {
        return Some(format!("red in another way: it {}", describe_exit(&lifted.run.exit)));
    }
    // Of an output that is longer than its end, nobody can say what it does not hold.
    let whole = lifted.run.stdout.bytes + lifted.run.stderr.bytes <= lifted.run.tail.len() as u64;
    let absent = |run: &CheckRun| match lifted.place {
        Place::CallerNetwork => BTreeSet::new(),
        _ => absent_lines(&run.run.tail),
    };
    let lines = |run: &CheckRun| -> BTreeSet<String> {
        absent(run).into_iter().chain(denied_lines(&run.run.tail)).collect()
    };
    let mut missing = lines(first);
    for run in rest {
        let again = lines(run);
        missing.retain(|line| again.contains(line));
    }
    let still = lines(lifted);
    let gone = missing.into_iter().find(|line| whole && !still.contains(line))?;
    Some(format!("red in another way, and no longer says `{gone}`"))
}

fn finding(reason: HaltReason, detail: &str, what: String, hints: Vec<String>) -> OracleFinding {
    OracleFinding { reason, detail: detail.to_owned(), what, hints }
}
