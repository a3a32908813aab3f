//! Runs as data: converged, halted, refused, running.

use loopexec::ci::finding::{Finding, of_error, of_report};
use loopexec::ci::subject::{Key, Links, Subject, Turn};
use loopexec::domain::evidence::{Breach, Confirmation, Decision, From, Halt, Ratchet, Verdict};
use loopexec::domain::flake;
use loopexec::domain::observation::{PathChange, Place, Usage};
use loopexec::domain::reason::HaltReason;
use loopexec::domain::results::Failure;
use loopexec::error::{Error, Kind};
use loopexec::report::collect::halt_view;
use loopexec::report::model::{
    BaselineView, BoundView, CheckView, IterationView, PinsView, Report, SpendView, Standing,
};
use serde_json::json;

pub fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

pub fn check(failed: usize) -> CheckView {
    CheckView {
        place: Place::Workspace,
        ended: format!("exit {}", u8::from(failed > 0)),
        failed,
        collected: 12,
        has_tests: true,
        wall_ms: 2_400,
    }
}

pub fn iteration(number: u32, failing: &[&str]) -> IterationView {
    IterationView {
        iteration: number,
        base: "b".repeat(40),
        tree: "c".repeat(40),
        exec: Some("exit 0".to_owned()),
        exec_ms: Some(61_000),
        survivors: vec![],
        moved: true,
        changes: vec![PathChange { path: "src/sums.py".into(), kind: "modified".into() }],
        check: Some(check(failing.len())),
        verdict: Some(if failing.is_empty() { Verdict::Pass } else { Verdict::Fail }),
        failing: strings(failing),
        measured: true,
        fixed: vec![],
        broke: vec![],
        confirmations: vec![],
        confirmation: Confirmation::NotTried,
        ratchet: Ratchet::Kept,
        breaches: vec![],
        oracle: None,
        decision: Decision::Continue { from: From::Tip },
        notes: vec![],
        spent: Usage::default(),
        elapsed_ms: 0,
    }
}

pub const THREE: [&str; 3] =
    ["tests/test_a.py::test_one", "tests/test_a.py::test_two", "tests/test_b.py::test_c"];

pub fn report(standing: Standing, iterations: Vec<IterationView>) -> Report {
    Report {
        run_id: "01JE0000000000000000000000".into(),
        resume: "loopexec run --resume 01JE0000000000000000000000".into(),
        name: "mend-sums".into(),
        loop_digest: format!("sha256:{}", "d1".repeat(32)),
        tool_version: "0.1.0".into(),
        standing,
        started: Some("2026-11-29T10:00:00Z".into()),
        elapsed_ms: 187_000,
        halt: None,
        setup: None,
        baseline: Some(BaselineView {
            tree: "a".repeat(40),
            verdict: Some(Verdict::Fail),
            failing: strings(&THREE),
            measured: true,
            broken: String::new(),
            collected: Some(12),
            runs: vec![check(3)],
            diagnosis: vec![],
            unstable: vec![],
            notes: strings(&["2 files are not carried: they look like secrets"]),
        }),
        iterations,
        bound: BoundView {
            reruns: 4,
            flips: 0,
            flip_rate_upper95_anytime: "0.712000".into(),
            max_flake_rate: None,
            status: flake::Status::Unproven,
        },
        quarantine: vec![],
        targets: vec![],
        isolation: json!({"backend": "none", "degraded": true, "namespaces": true, "copies": "overlay"}),
        pins: PinsView { model: json!("none"), unpinned: vec![] },
        spend: SpendView { usd: Some("0".into()), tokens: Some(0), calls: Some(0), known: true },
        base: None,
        answers: Vec::new(),
        limits_hit: vec![],
        resumed: 0,
        delivery: None,
        receipt: ".loopexec/runs/01JE0000000000000000000000/receipt.jsonl".into(),
        head: "e2".repeat(32),
        events: 14,
        failures: vec![],
        exec_output: "SECRET LOG OF EXEC".into(),
        check_output: "SECRET LOG OF CHECK".into(),
    }
}

pub fn halted(mut report: Report, reason: HaltReason, why: &str, hints: &[&str]) -> Report {
    let halt = Halt { reason, detail: String::new(), why: why.to_owned(), hints: strings(hints) };
    if let Some(last) = report.iterations.last_mut() {
        last.decision = Decision::Halt(halt.clone());
    }
    report.halt = Some(halt_view(&halt));
    report
}

pub fn subject(report: Option<Report>, findings: Vec<Finding>) -> Subject {
    let halt = report.as_ref().and_then(|report| report.halt.clone());
    let fails = halt.as_ref().is_some_and(|halt| halt.reason != HaltReason::SuccessConditionMet);
    let code = halt.as_ref().map_or(0, |halt| halt.exit_code);
    Subject {
        key: Key {
            workflow: ".github/workflows/loop.yml".into(),
            job: "mend".into(),
            matrix: String::new(),
            name: "mend-sums".into(),
        },
        turn: Turn { run: 42, attempt: 1 },
        run_id: report.as_ref().map(|report| report.run_id.clone()).unwrap_or_default(),
        halt,
        fails,
        process_exit: if fails { code } else { 0 },
        findings,
        report,
        links: Links {
            job: Some("https://github.com/acme/sums/actions/runs/42/job/7".into()),
            artifact: Some("https://github.com/acme/sums/actions/runs/42/artifacts/77".into()),
        },
        run_dir: None,
        root: "/w".into(),
    }
}

pub fn told(report: Report) -> Subject {
    let findings = of_report(&report, "");
    subject(Some(report), findings)
}

pub fn converged() -> Report {
    let mut two = iteration(2, &[]);
    two.fixed = strings(&THREE[..2]);
    two.confirmation = Confirmation::Confirmed;
    two.ratchet = Ratchet::Accepted;
    let mut one = iteration(1, &THREE[..2]);
    one.fixed = strings(&THREE[2..]);
    one.ratchet = Ratchet::Accepted;
    let mut report = report(Standing::Converged, vec![one, two]);
    report.delivery = Some(json!({
        "mode": "apply", "state": "applied", "of": "final", "what": "", "conflicts": [], "command": "",
        "patch": {"path": ".loopexec/runs/R/patch.diff", "files": 1, "added": 10, "removed": 2},
    }));
    let why = "the check passed and 2 fresh copies confirmed it";
    halted(report, HaltReason::SuccessConditionMet, why, &[])
}

pub fn breached() -> Report {
    let mut last = iteration(2, &THREE[..1]);
    let what = "blocked path .github/workflows/ci.yml was modified by exec (pattern `.github/workflows/**`)";
    last.breaches = vec![Breach {
        guard: "blocked_paths".into(),
        reason: HaltReason::BlockedPathModified,
        path: ".github/workflows/ci.yml".into(),
        line: None,
        what: what.into(),
    }];
    let mut unmeasured = iteration(1, &[]);
    unmeasured.measured = false;
    unmeasured.verdict = Some(Verdict::Error);
    let mut report = report(Standing::Halted, vec![unmeasured, last]);
    report.failures = vec![Failure {
        id: THREE[0].into(),
        message: "AssertionError: assert 3 == 4\n  + where 3 = add(1, 1)".into(),
        file: Some("tests/test_a.py".into()),
        line: Some(17),
    }];
    let hint = "See the change with `git diff -- .github/workflows/ci.yml`; if it is wanted, make it yourself.";
    halted(report, HaltReason::BlockedPathModified, what, &[hint])
}

pub fn refused() -> Subject {
    let error = Error::new(
        Kind::ConfigInvalid,
        "loop.yml:3:1: unknown key `chekc`; did you mean `check`?\n  |\n3 | chekc: pytest\n  | ^^^^^",
    )
    .at("loop.yml", 3, 1)
    .hint("Write `check`.");
    let halt = Halt {
        reason: HaltReason::ConfigInvalid,
        detail: String::new(),
        why: error.what.clone(),
        hints: error.hints.clone(),
    };
    let mut subject = subject(None, of_error(&error, ""));
    subject.halt = Some(halt_view(&halt));
    (subject.fails, subject.process_exit) = (true, 30);
    subject
}

pub fn running() -> Subject {
    told(report(Standing::Running, vec![iteration(1, &THREE[..2])]))
}
