//! `same_test_regressed` and `unsatisfiable_constraints`: what worked and works no more.

use super::{agent, halts, tap_check, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;
use serde_json::Value;

fn a_and_b(v: &str, more: &str) -> Bench {
    let bench = Bench::new();
    tap_check(&bench, &[("a", "grep -q a v"), ("b", "grep -q b v")]);
    bench.write("v", v);
    bench.loop_file(&format!(
        "exec: ./agent.sh\ncheck: {{run: ./check.sh, runner: tap}}\nlimits: {{no_progress: 20, same_failure: 20}}\n{more}"
    ));
    bench
}

#[test]
fn two_tests_that_break_each_other_twice_are_unsatisfiable_constraints_and_both_are_named() {
    let bench = a_and_b("a\n", "ratchet: {max_regressions: 9}\n");
    agent(&bench, &["echo b1 > v", "echo b2 > v", "echo b3 > v"], "echo ab > v");
    bench.commit();
    let ran = halts(&bench, HaltReason::UnsatisfiableConstraints);
    let why = text(&ran.json()["why"]).to_owned();
    assert!(why.contains("in no state seen did both pass"), "{why}");
    for name in ["a", "b"] {
        assert!(why.split([' ', '`']).any(|word| word.trim_matches(':') == name), "{why}");
    }
}

#[test]
fn two_tests_that_broke_each_other_once_go_on() {
    let bench = a_and_b("a\n", "ratchet: {max_regressions: 9}\n");
    agent(&bench, &["echo b1 > v"], "echo ab > v");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 2);
    assert_eq!(std::fs::read(bench.path("v")).unwrap(), b"ab\n");
}

#[test]
fn a_third_regression_after_two_reverts_is_same_test_regressed() {
    let bench = a_and_b("a\n", "");
    agent(&bench, &["echo x1 > v", "echo x2 > v", "echo x3 > v"], "echo ab > v");
    bench.commit();
    let ran = halts(&bench, HaltReason::SameTestRegressed);
    assert_eq!(ran.json()["iterations"], 3);
    assert!(text(&ran.json()["why"]).contains("after 2 reverts"));
}

#[test]
fn two_regressions_are_reverted_and_the_loop_goes_on_from_the_accepted_state() {
    let bench = a_and_b("a\n", "");
    // The third step only adds to what it finds: it converges only from the accepted tree.
    agent(&bench, &["echo x1 > v", "echo x2 > v"], "cat v; echo b >> v");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 3);
    assert_eq!(std::fs::read(bench.path("v")).unwrap(), b"a\nb\n");
    let reverted = |event: &Value| {
        event["type"] == "iteration" && event["decision"].to_string().contains("accepted")
    };
    assert_eq!(bench.events(&ran).iter().filter(|event| reverted(event)).count(), 2);
}

#[test]
fn the_first_regression_is_same_test_regressed_where_the_ratchet_may_not_revert() {
    let bench = a_and_b("a\n", "ratchet: {on_regression: halt}\n");
    agent(&bench, &["echo x1 > v"], "echo ab > v");
    bench.commit();
    let ran = halts(&bench, HaltReason::SameTestRegressed);
    assert_eq!(ran.json()["iterations"], 1);
}

#[test]
fn a_test_that_was_not_reached_has_not_regressed() {
    let bench = a_and_b("a\n", "ratchet: {on_regression: halt}\n");
    // The check stops at its first failure: what stands behind it is unknown.
    bench.script(
        "check.sh",
        "echo 1..2\ngrep -q b v && echo 'ok 1 - b' || { echo 'not ok 1 - b'; grep -q stop v && exit 1; }\n\
         grep -q a v && echo 'ok 2 - a'\ngrep -q a v && grep -q b v",
    );
    agent(&bench, &["echo stop > v"], "echo ab > v");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 2);
}
