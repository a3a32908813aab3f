//! `check_unrunnable`: no answer on the baseline, or three times in a row later.

use super::{agent, execs, halts, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn a_command_that_is_not_there_is_check_unrunnable_before_any_exec() {
    let bench = Bench::new();
    bench.loop_file("exec: touch ran\ncheck: no-such-program-at-all --run\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckUnrunnable);
    assert_eq!((ran.json()["iterations"].as_u64(), execs(&bench, &ran)), (Some(0), 0));
    assert_eq!(ran.json()["detail"], "command_not_found");
    assert!(text(&ran.json()["why"]).contains("no-such-program-at-all"), "{ran:#?}");
}

#[test]
fn a_program_that_is_not_there_without_a_shell_is_told_the_same_way() {
    let bench = Bench::new();
    bench.loop_file("exec: touch ran\ncheck: [no-such-program-at-all, --run]\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckUnrunnable);
    assert_eq!(ran.json()["detail"], "command_not_found");
}

#[test]
fn a_script_that_may_not_be_executed_is_check_unrunnable() {
    let bench = Bench::new();
    bench.write("check.sh", "#!/bin/sh\nexit 0\n");
    bench.loop_file("exec: touch ran\ncheck: ./check.sh\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckUnrunnable);
    assert_eq!(ran.json()["detail"], "not_executable");
    assert!(text(&ran.json()["next"]).contains("chmod +x"));
}

#[test]
fn a_baseline_that_a_signal_ends_is_check_unrunnable() {
    let bench = Bench::new();
    bench.loop_file("exec: touch ran\ncheck: kill -SEGV $$\n");
    bench.commit();
    assert_eq!(halts(&bench, HaltReason::CheckUnrunnable).json()["detail"], "killed");
}

#[test]
fn an_exit_of_127_later_is_red_and_what_the_agent_broke_it_can_mend() {
    let bench = Bench::new();
    bench.script("tool", "test -f done");
    bench.loop_file("exec: ./agent.sh\ncheck: sh -c ./tool\n");
    agent(&bench, &["mv tool away"], "mv away tool; touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 2);
}

#[test]
fn three_timeouts_in_a_row_are_check_unrunnable() {
    let bench = Bench::new();
    bench.write("pace", "0\n");
    bench.loop_file(
        "exec: ./agent.sh\ncheck: {run: sleep $(cat pace); test -f done, timeout: 1s}\n",
    );
    agent(&bench, &["echo 301 > pace", "echo 302 > pace"], "echo 303 > pace");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckUnrunnable);
    assert_eq!(ran.json()["iterations"], 3);
    assert!(text(&ran.json()["next"]).contains("check.timeout"));
}

#[test]
fn two_timeouts_in_a_row_and_then_an_answer_go_on() {
    let bench = Bench::new();
    bench.write("pace", "0\n");
    bench.loop_file(
        "exec: ./agent.sh\ncheck: {run: sleep $(cat pace); test -f done, timeout: 4s}\n",
    );
    agent(&bench, &["echo 301 > pace", "echo 302 > pace"], "echo 0 > pace; touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 3);
}
