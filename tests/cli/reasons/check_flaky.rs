//! `check_flaky`: the same key gave two verdicts in fresh copies.

use super::{agent, execs, halts, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

/// Returns a shell line that counts its runs in a file no copy holds: `$n` is the run's number.
fn counted(bench: &Bench) -> String {
    let counter = bench.beside("counter");
    std::fs::write(&counter, "0\n").unwrap();
    format!("n=$(($(cat '{0}') + 1)); echo $n > '{0}'", counter.display())
}

#[test]
fn an_untouched_tree_with_both_verdicts_in_fresh_copies_is_check_flaky_before_any_exec() {
    let bench = Bench::new();
    // Green in the workspace and in the first copy, red in the second one.
    bench.script("check.sh", &format!("{}\ntest $n -ne 3", counted(&bench)));
    bench.loop_file("exec: touch ran\ncheck: ./check.sh\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckFlaky);
    assert_eq!((ran.json()["iterations"].as_u64(), execs(&bench, &ran)), (Some(0), 0));
}

#[test]
fn a_green_that_one_of_two_copies_does_not_confirm_is_check_flaky() {
    let bench = Bench::new();
    // Runs 1 and 2 are the baseline, 3 and 4 the diagnosis, 5 the workspace, 6 and 7 the copies.
    bench.script("check.sh", &format!("{}\ntest -f done && test $n -ne 7", counted(&bench)));
    bench.loop_file("exec: touch done\ncheck: ./check.sh\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckFlaky);
    assert_eq!(ran.json()["iterations"], 1);
    assert!(text(&ran.json()["why"]).contains("1 green and 1 red"));
}

#[test]
fn a_red_in_the_workspace_alone_is_no_flip() {
    let bench = Bench::new();
    // The red fifth run is feedback; the next iteration has another tree.
    bench.script("check.sh", &format!("{}\ntest -f done && test $n -ne 5", counted(&bench)));
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    agent(&bench, &["touch done"], "echo again > done");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 2);
}

#[test]
fn a_flaky_test_that_is_in_quarantine_does_not_matter() {
    let bench = Bench::new();
    bench.script(
        "check.sh",
        &format!(
            "{}\necho 1..2; bad=0\nif test -f done; then echo 'ok 1 - wanted'; else echo 'not ok 1 - wanted'; bad=1; fi\n\
             if test $((n % 2)) -eq 0; then echo 'ok 2 - moody'; else echo 'not ok 2 - moody'; bad=1; fi\nexit $bad",
            counted(&bench)
        ),
    );
    bench.loop_file(
        "exec: touch done\ncheck: {run: ./check.sh, runner: tap, quarantine: [moody]}\n",
    );
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}
