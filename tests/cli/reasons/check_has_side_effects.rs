//! `check_has_side_effects`: the check changes what its own next run sees.

use super::{execs, halts};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn a_first_run_that_spoils_every_later_one_is_check_has_side_effects() {
    let bench = Bench::new();
    bench.write(".gitignore", "build/\n");
    bench.script("check.sh", "test ! -e build/stamp || exit 1\nmkdir -p build; touch build/stamp");
    bench.loop_file("exec: touch ran\ncheck: ./check.sh\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckHasSideEffects);
    assert_eq!((ran.json()["iterations"].as_u64(), execs(&bench, &ran)), (Some(0), 0));
}

#[test]
fn a_first_run_that_leaves_something_harmless_converges() {
    let bench = Bench::new();
    bench.write(".gitignore", "build/\n");
    bench.script("check.sh", "mkdir -p build; date >> build/stamp");
    bench.loop_file("exec: touch ran\ncheck: ./check.sh\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn a_green_in_the_workspace_that_its_own_rerun_there_loses_is_check_has_side_effects() {
    let bench = Bench::new();
    bench.write(".gitignore", "once\n");
    // What exec left in an ignored path is used up by the first run.
    bench.script("check.sh", "test -f once || exit 1\nrm once");
    bench.loop_file("exec: touch once\ncheck: ./check.sh\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckHasSideEffects);
    assert_eq!(ran.json()["iterations"], 1);
}

#[test]
fn a_check_that_uses_up_a_tracked_file_finds_it_again() {
    let bench = Bench::new();
    bench.script("check.sh", "test -f once || exit 1\nrm once");
    bench.loop_file("exec: touch once\ncheck: ./check.sh\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}
