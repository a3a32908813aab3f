//! One module per halt reason: the halt end to end, and a neighbour that just does not reach it.

use crate::bench::{Bench, Ran, assert_untouched};
use loopexec::domain::reason::HaltReason;
use serde_json::Value;

mod blocked_path_modified;
mod budget_exceeded;
mod caps;
mod check_flaky;
mod check_has_side_effects;
mod check_inadequate;
mod check_not_hermetic;
mod check_unrunnable;
mod config_invalid;
mod context_budget_unsatisfiable;
mod convergence;
mod coverage;
pub(crate) mod escalation_pending;
mod execution_failure;
mod human_required;
mod interrupted;
mod metric_integrity_violation;
mod objective_unverified;
mod ratchet;
mod success_condition_met;
mod vetoes;
mod workspace_invalid;

/// Runs the loop of a bench and holds its end to everything a halt has to show.
pub(crate) fn halts(bench: &Bench, reason: HaltReason) -> Ran {
    halts_with(bench, &[], reason)
}

/// The same with more arguments.
pub(crate) fn halts_with(bench: &Bench, more: &[&str], reason: HaltReason) -> Ran {
    let before = bench.tree_hash();
    let ran = bench.run_loop(more);
    holds(bench, &ran, reason);
    if reason != HaltReason::SuccessConditionMet {
        assert_untouched(&before, &bench.tree_hash());
    }
    ran
}

/// Holds the end of a run to its reason: exit code, object, receipt and state agree.
pub(crate) fn holds(bench: &Bench, ran: &Ran, reason: HaltReason) {
    let object = ran.json();
    let told = bench_report(bench, ran);
    assert_eq!(object["halt_reason"], reason.as_str(), "{told}");
    let code = reason.class().code();
    assert_eq!(ran.code, Some(i32::from(code)), "{told}");
    assert_eq!(object["exit_code"], code, "{told}");
    assert_eq!(object["process_exit"], code, "{told}");
    assert_eq!(object["exit_class"], reason.class().name(), "{told}");
    assert_eq!(object["tool"], "loopexec");
    assert_eq!(object["command"], "run");
    assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(object["format"], 1);
    let converged = reason == HaltReason::SuccessConditionMet;
    assert_eq!(object["converged"], converged, "{told}");
    if converged {
        assert_eq!(object["status"], "converged", "{told}");
    } else {
        assert!(["halted", "error"].contains(&text(&object["status"])), "{told}");
        assert!(!text(&object["why"]).is_empty(), "{told}");
    }
    let folded = bench.fold(ran);
    let end = folded.end.expect("the receipt has no final event");
    assert_eq!(end.halt.reason, reason, "{told}");
    assert_eq!(object["iterations"], end.iterations, "{told}");
    let events = bench.events(ran);
    let last = events.last().unwrap();
    assert_eq!((text(&last["type"]), text(&last["reason"])), ("run_end", reason.as_str()));
    assert_eq!(text(&events[0]["type"]), "run_start");
}

fn bench_report(bench: &Bench, ran: &Ran) -> String {
    format!("{ran:#?}\nin {}", bench.root().display())
}

/// Returns a text, or nothing.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Returns how often exec ran, by the receipt.
pub(crate) fn execs(bench: &Bench, ran: &Ran) -> usize {
    let observed = |event: &Value| event["observation"]["exec"].is_object();
    bench.events(ran).iter().filter(|event| observed(event)).count()
}

/// Writes a check that prints TAP: every pair is a test and the shell condition it asserts.
pub(crate) fn tap_check(bench: &Bench, tests: &[(&str, &str)]) {
    let mut body = format!("bad=0\necho 1..{}\n", tests.len());
    for (number, (name, condition)) in (1..).zip(tests) {
        body.push_str(&format!(
            "if {condition}; then echo 'ok {number} - {name}'; else echo 'not ok {number} - {name}'; bad=1; fi\n"
        ));
    }
    body.push_str("exit $bad");
    bench.script("check.sh", &body);
}

/// Writes an agent that does something else in each iteration; `rest` is for all later ones.
pub(crate) fn agent(bench: &Bench, steps: &[&str], rest: &str) {
    let mut body = "case $LOOPEXEC_ITERATION in\n".to_owned();
    for (number, step) in (1..).zip(steps) {
        body.push_str(&format!("{number}) {step} ;;\n"));
    }
    body.push_str(&format!("*) {rest} ;;\nesac"));
    bench.script("agent.sh", &body);
}
