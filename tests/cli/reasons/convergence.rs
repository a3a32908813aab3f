//! `oscillation_detected`, `same_failure_repeated`, `no_progress_detected`, `infeasible_suspected`:
//! what a loop looks like that goes nowhere.

use super::{agent, halts, tap_check, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

const PATIENT: &str = "no_progress: 20, same_failure: 20";

#[test]
fn a_tree_that_returns_twice_to_an_earlier_value_is_oscillation_detected() {
    let bench = Bench::new();
    bench.loop_file(&format!("exec: ./agent.sh\ncheck: test -f done\nlimits: {{{PATIENT}}}\n"));
    agent(&bench, &["echo x > v", "echo y > v", "echo x > v", "echo y > v"], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::OscillationDetected);
    assert_eq!(ran.json()["iterations"], 4);
    assert!(text(&ran.json()["why"]).contains("tree"));
}

#[test]
fn a_tree_that_returns_once_goes_on() {
    let bench = Bench::new();
    bench.loop_file(&format!("exec: ./agent.sh\ncheck: test -f done\nlimits: {{{PATIENT}}}\n"));
    agent(&bench, &["echo x > v", "echo y > v", "echo x > v", "echo z > v"], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 5);
}

#[test]
fn a_failing_set_that_returns_twice_is_oscillation_detected() {
    let bench = Bench::new();
    tap_check(&bench, &[("a", "grep -q a v"), ("b", "grep -q b v"), ("c", "grep -q c v")]);
    bench.write("v", "ab\n");
    bench.loop_file(&format!(
        "exec: ./agent.sh\ncheck: {{run: ./check.sh, runner: tap}}\nratchet: {{max_regressions: 9}}\nlimits: {{{PATIENT}}}\n"
    ));
    // Only c fails at first; then a and c, b and c, and both again, always on another tree.
    agent(&bench, &["echo b1 > v", "echo a2 > v", "echo b3 > v", "echo a4 > v"], "exit 0");
    bench.commit();
    let ran = halts(&bench, HaltReason::OscillationDetected);
    assert!(text(&ran.json()["why"]).contains("failing set"), "{ran:#?}");
}

#[test]
fn the_same_message_three_times_although_the_tree_changed_is_same_failure_repeated() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done || { echo it is missing; exit 1; }\n");
    agent(&bench, &[], "echo $LOOPEXEC_ITERATION >> log");
    bench.commit();
    let ran = halts(&bench, HaltReason::SameFailureRepeated);
    assert_eq!(ran.json()["iterations"], 3);
}

#[test]
fn the_same_message_twice_and_then_success_converges() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done || { echo it is missing; exit 1; }\n");
    agent(&bench, &["echo 1 >> log", "echo 2 >> log"], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 3);
}

#[test]
fn three_iterations_without_a_smaller_failing_set_are_no_progress_detected() {
    let bench = Bench::new();
    tap_check(&bench, &[("a", "test -f a"), ("b", "test -f b")]);
    bench.loop_file("exec: ./agent.sh\ncheck: {run: ./check.sh, runner: tap}\n");
    agent(&bench, &["touch a"], "true");
    bench.commit();
    let ran = halts(&bench, HaltReason::NoProgressDetected);
    assert_eq!(ran.json()["iterations"], 4);
    assert_eq!(ran.json()["baseline"]["failing"], 2);
    assert_eq!(ran.json()["final"]["failing"], 1);
    // What was gained stays within reach: the patch holds the accepted state.
    let patch = std::fs::read_to_string(bench.path(text(&ran.json()["patch"]))).unwrap();
    assert!(patch.contains("+++ b/a") || patch.contains("b/a"), "{patch}");
    assert_eq!(ran.json()["delivery"]["of"], "accepted");
}

#[test]
fn a_smaller_failing_set_in_the_third_iteration_goes_on() {
    let bench = Bench::new();
    tap_check(&bench, &[("a", "test -f a"), ("b", "test -f b")]);
    bench.loop_file("exec: ./agent.sh\ncheck: {run: ./check.sh, runner: tap}\n");
    agent(&bench, &["true", "true", "touch a", "true", "true"], "touch b");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 6);
}

#[test]
fn a_failing_set_that_never_left_the_baseline_is_infeasible_suspected() {
    let bench = Bench::new();
    bench.write("v", "start\n");
    bench.loop_file("exec: ./agent.sh\ncheck: cat v; test -f done\n");
    agent(&bench, &["echo apple > v", "echo pear > v", "echo plum > v"], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::InfeasibleSuspected);
    assert_eq!(ran.json()["iterations"], 3);
    assert!(text(&ran.json()["why"]).contains("no_progress_detected"));
}

#[test]
fn it_replaces_a_cap_as_well() {
    let bench = Bench::new();
    bench.write("v", "start\n");
    bench.loop_file(
        "exec: ./agent.sh\ncheck: cat v; test -f done\nlimits: {iterations: 3, no_progress: 3}\n",
    );
    agent(&bench, &["echo apple > v", "echo pear > v", "echo plum > v"], "touch done");
    bench.commit();
    halts(&bench, HaltReason::InfeasibleSuspected);
}

#[test]
fn one_iteration_that_changed_nothing_makes_it_no_progress_detected() {
    let bench = Bench::new();
    bench.write("v", "start\n");
    bench.loop_file("exec: ./agent.sh\ncheck: cat v; test -f done\n");
    agent(&bench, &["echo apple > v", "true", "echo plum > v"], "touch done");
    bench.commit();
    halts(&bench, HaltReason::NoProgressDetected);
}
