//! `execution_failure`: exec fails too many times in a row.

use super::{agent, halts};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn three_failed_execs_in_a_row_are_execution_failure() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
    agent(&bench, &[], "echo no >&2; exit 3");
    bench.commit();
    let ran = halts(&bench, HaltReason::ExecutionFailure);
    assert_eq!(ran.json()["iterations"], 3);
}

#[test]
fn two_failed_execs_and_then_a_good_one_converge() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
    agent(&bench, &["exit 3", "kill -9 $$"], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 3);
}

#[test]
fn a_failed_exec_whose_work_is_green_converges() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done; exit 1\ncheck: test -f done\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn an_exec_that_is_not_there_is_execution_failure() {
    let bench = Bench::new();
    bench
        .loop_file("exec: {run: [no-such-program-at-all], max_failures: 2}\ncheck: test -f done\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::ExecutionFailure);
    assert_eq!(ran.json()["iterations"], 2);
}

#[test]
fn what_exec_and_the_check_printed_last_is_in_the_log_of_the_run() {
    let bench = Bench::new();
    bench.loop_file(
        "exec: ./agent.sh\ncheck: 'echo ::error::forged; echo nothing there yet; test -f done'\n",
    );
    agent(&bench, &[], "seq 1 9; printf 'API key \\033[2Jmissing\\n' >&2; exit 3");
    bench.commit();
    let ran = bench.run(&["run"]);
    assert_eq!(ran.code, Some(40), "{ran:#?}");
    for part in [
        "  exec     ended with exit code 3; it printed last:\n",
        "           | API key \u{fffd}[2Jmissing\n",
        "           | 9\n",
        "  check    ended with exit code 1; it printed last:\n",
        "           | nothing there yet\n",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {ran:#?}");
    }
    assert!(!ran.stdout.contains("| 1\n"), "bounded: {ran:#?}");
    assert!(!ran.stdout.lines().any(|line| line.trim_start().starts_with("::")), "{ran:#?}");
}

#[test]
fn a_success_shows_no_output_of_its_own() {
    let bench = Bench::new();
    bench.loop_file("exec: echo hello; touch done; exit 1\ncheck: test -f done\n");
    bench.commit();
    let ran = bench.run(&["run"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert!(!ran.stdout.contains("printed last"), "{ran:#?}");
}

#[test]
fn what_failed_is_told_and_not_the_tests_that_passed_behind_it() {
    let bench = Bench::new();
    bench.loop_file("exec: exit 3\ncheck: {run: ./check.sh, runner: tap}\n");
    bench.script(
        "check.sh",
        "printf 'not ok 1 - adds\\n  ---\\n  message: one and one are three\\n  ...\\n'; for n in 2 3 4 5 6 7; do echo ok $n - passes; done; echo 1..7; exit 1",
    );
    bench.commit();
    let ran = bench.run(&["run"]);
    assert_eq!(ran.code, Some(40), "{ran:#?}");
    assert!(ran.stdout.contains("ended with exit code 1; what failed:\n"), "{ran:#?}");
    assert!(ran.stdout.contains("adds: message: one and one are three"), "{ran:#?}");
    assert!(!ran.stdout.contains("| ok"), "{ran:#?}");
}
