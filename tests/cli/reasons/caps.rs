//! `max_iterations_reached` and `time_limit_reached`.

use super::{agent, execs, halts, halts_with, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn the_last_allowed_iteration_without_success_is_max_iterations_reached() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\nlimits: {iterations: 2}\n");
    agent(&bench, &["echo 1 > note", "echo 2 > note"], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::MaxIterationsReached);
    assert_eq!(ran.json()["iterations"], 2);
    assert_eq!(execs(&bench, &ran), 2);
    assert!(text(&ran.json()["next"]).contains("limits.iterations"));
}

#[test]
fn one_iteration_more_would_have_converged() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\nlimits: {iterations: 2}\n");
    agent(&bench, &["echo 1 > note", "echo 2 > note"], "touch done");
    bench.commit();
    let ran = halts_with(&bench, &["--max-iterations", "3"], HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 3);
}

#[test]
fn once_allows_a_single_iteration() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
    agent(&bench, &["echo 1 > note"], "touch done");
    bench.commit();
    let ran = halts_with(&bench, &["--once"], HaltReason::MaxIterationsReached);
    assert_eq!(ran.json()["iterations"], 1);
}

#[test]
fn an_exec_that_outlasts_the_time_of_the_run_is_time_limit_reached() {
    let bench = Bench::new();
    bench.loop_file("exec: sleep 300\ncheck: test -f done\nlimits: {time: 8s}\n");
    bench.commit();
    let begun = std::time::Instant::now();
    let ran = halts(&bench, HaltReason::TimeLimitReached);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    assert!(text(&ran.json()["next"]).contains("limits.time"));
}

#[test]
fn an_exec_that_ends_within_the_time_of_the_run_converges() {
    let bench = Bench::new();
    bench.loop_file("exec: sleep 1; touch done\ncheck: test -f done\nlimits: {time: 120s}\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn an_exec_that_outlasts_its_own_timeout_is_one_failed_iteration() {
    let bench = Bench::new();
    bench.loop_file("exec: {run: ./agent.sh, timeout: 1s}\ncheck: test -f done\n");
    agent(&bench, &["sleep 300"], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 2);
}
