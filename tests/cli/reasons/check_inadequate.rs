//! `check_inadequate`: a check that had to be red and never was.

use super::{execs, halts};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn a_green_start_is_check_inadequate_where_a_red_one_is_required() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: {run: test -f README.md, require_red: true}\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::CheckInadequate);
    assert_eq!((ran.json()["iterations"].as_u64(), execs(&bench, &ran)), (Some(0), 0));
}

#[test]
fn a_red_start_that_is_required_goes_on() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: {run: test -f done, require_red: true}\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}
