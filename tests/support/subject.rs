//! A subject as the wiring makes it, for the tests of what platforms are told.

use loopexec::ci::finding::{Finding, Level};
use loopexec::ci::subject::{Key, Links, Subject, Turn};
use loopexec::domain::evidence::{Confirmation, Decision, Halt, Ratchet, Verdict};
use loopexec::domain::flake;
use loopexec::domain::observation::Usage;
use loopexec::domain::reason::HaltReason;
use loopexec::domain::results::Failure;
use loopexec::report::collect::halt_view;
use loopexec::report::model::{BoundView, IterationView, PinsView, Report, SpendView, Standing};
use serde_json::Value;
use std::path::Path;

/// Text that tries to be a command, markup or another line everywhere.
pub const HOSTILE: &str = "]]><x y=\"1\">&amp; ##vso[task.complete]a ##teamcity[x y='z'] ::error::b\r\n\u{1b}[31m\u{0}\u{ffff}\u{202e}@all `c` [d](https://e.example) ';%0A%25|n]\n/close\nB=\"c\" $D";

/// A run that halted for a reason, with a failing test for each message.
pub fn halted(root: &Path, reason: HaltReason, messages: &[&str]) -> Subject {
    let halt = halt_view(&Halt {
        reason,
        detail: String::new(),
        why: "3 iterations without a new smallest failing set".into(),
        hints: vec!["read the report".into()],
    });
    let fails = reason != HaltReason::SuccessConditionMet;
    let failures: Vec<Failure> = messages
        .iter()
        .enumerate()
        .map(|(number, message)| Failure {
            id: format!("suite::test_{number}").into(),
            message: (*message).to_owned(),
            file: Some(format!("tests/test_{number}.py")),
            line: Some(u32::try_from(number).unwrap() + 1),
        })
        .collect();
    let mut findings = vec![Finding {
        level: if fails { Level::Error } else { Level::Notice },
        rule: reason.to_string(),
        title: format!("halted: {reason}"),
        message: halt.why.clone(),
        file: None,
        line: None,
    }];
    findings.extend(failures.iter().map(|failure| Finding {
        level: Level::Error,
        rule: "test_failed".into(),
        title: failure.id.to_string(),
        message: failure.message.clone(),
        file: failure.file.clone(),
        line: failure.line,
    }));
    let process_exit = if fails { halt.exit_code } else { 0 };
    Subject {
        key: Key {
            workflow: ".gitlab-ci.yml".into(),
            job: "test".into(),
            matrix: String::new(),
            name: "mend".into(),
        },
        turn: Turn { run: 5, attempt: 1 },
        run_id: "01JABCDEF0123456789ABCDEFG".into(),
        report: Some(report(&failures)),
        halt: Some(halt),
        fails,
        process_exit,
        findings,
        links: Links {
            job: Some("https://gitlab.example/g/p/-/jobs/70".into()),
            artifact: Some("https://gitlab.example/g/p/-/jobs/70/artifacts/browse".into()),
        },
        run_dir: None,
        root: root.to_owned(),
    }
}

fn report(failures: &[Failure]) -> Report {
    Report {
        run_id: "01JABCDEF0123456789ABCDEFG".into(),
        resume: "loopexec run --resume 01JABCDEF0123456789ABCDEFG".into(),
        name: "mend".into(),
        loop_digest: "ab".repeat(32),
        tool_version: "0.1.0".into(),
        standing: Standing::Halted,
        started: Some("2026-11-29T20:00:00Z".into()),
        elapsed_ms: 61_234,
        halt: None,
        setup: None,
        baseline: None,
        iterations: vec![iteration(failures)],
        bound: BoundView {
            reruns: 0,
            flips: 0,
            flip_rate_upper95_anytime: "1.000000".into(),
            max_flake_rate: None,
            status: flake::Status::Unproven,
        },
        quarantine: Vec::new(),
        targets: Vec::new(),
        isolation: Value::Null,
        pins: PinsView { model: Value::Null, unpinned: Vec::new() },
        spend: SpendView {
            usd: Some("0.25".into()),
            tokens: Some(10),
            calls: Some(1),
            known: true,
        },
        base: None,
        answers: Vec::new(),
        limits_hit: Vec::new(),
        resumed: 0,
        delivery: None,
        receipt: ".loopexec/runs/01JABCDEF0123456789ABCDEFG/receipt.jsonl".into(),
        head: "cd".repeat(32),
        events: 9,
        failures: failures.to_vec(),
        exec_output: String::new(),
        check_output: String::new(),
    }
}

fn iteration(failures: &[Failure]) -> IterationView {
    IterationView {
        iteration: 1,
        base: "a".repeat(40),
        tree: "b".repeat(40),
        exec: Some("exit 0".into()),
        exec_ms: Some(10),
        survivors: Vec::new(),
        moved: true,
        changes: Vec::new(),
        check: None,
        verdict: Some(Verdict::Fail),
        failing: failures.iter().map(|failure| failure.id.to_string()).collect(),
        measured: true,
        fixed: Vec::new(),
        broke: Vec::new(),
        confirmations: Vec::new(),
        confirmation: Confirmation::NotTried,
        ratchet: Ratchet::Unmeasured,
        breaches: Vec::new(),
        oracle: None,
        decision: Decision::Halt(Halt {
            reason: HaltReason::NoProgressDetected,
            detail: String::new(),
            why: String::new(),
            hints: Vec::new(),
        }),
        notes: Vec::new(),
        spent: Usage::default(),
        elapsed_ms: 61_234,
    }
}
