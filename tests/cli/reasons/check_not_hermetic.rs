//! `check_not_hermetic` in the loop: green in the workspace, red in every copy. What is told apart
//! on the baseline stands in `diagnosis`.

use super::{halts, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn a_green_that_hangs_on_an_ignored_file_of_exec_is_check_not_hermetic() {
    let bench = Bench::new();
    bench.write(".gitignore", "build/\n");
    bench.loop_file("exec: mkdir -p build; touch build/done\ncheck: test -f build/done\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckNotHermetic);
    assert_eq!(ran.json()["iterations"], 1);
    assert!(text(&ran.json()["why"]).contains("red in every fresh copy"), "{ran:#?}");
    assert!(text(&ran.json()["next"]).contains("setup"), "{ran:#?}");
}

#[test]
fn a_green_that_hangs_on_what_the_check_builds_itself_converges() {
    let bench = Bench::new();
    bench.write(".gitignore", "build/\n");
    bench.script("check.sh", "mkdir -p build; cp source build/done && grep -q good build/done");
    bench.loop_file("exec: echo good > source; rm -rf build\ncheck: ./check.sh\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn a_green_that_hangs_on_what_setup_built_converges() {
    let bench = Bench::new();
    bench.write(".gitignore", "build/\n");
    bench.loop_file(
        "setup: mkdir -p build; touch build/tool\nexec: touch done\ncheck: test -f build/tool && test -f done\n",
    );
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}
