//! `config_invalid`: a loop that does not start, with a receipt of two events that says so.

use super::{halts, halts_with, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn an_unknown_key_is_config_invalid_and_leaves_a_receipt_of_two_events() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: test -f done\nlimit: {iterations: 3}\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::ConfigInvalid);
    assert_eq!(bench.events(&ran).len(), 2);
    let object = ran.json();
    let why = text(&object["why"]);
    assert!(why.contains("limit") && why.contains("loop.yml"), "{why}");
    assert!(ran.stderr.contains("limits"), "the nearest key is named: {}", ran.stderr);
}

#[test]
fn the_same_key_spelled_right_converges() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: test -f done\nlimits: {iterations: 3}\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn a_loop_without_a_check_or_a_model_or_a_file_does_not_start() {
    for text in
        ["version: 1\nmodel: none\nexec: 'true'\n", "version: 1\nexec: 'true'\ncheck: 'true'\n"]
    {
        let bench = Bench::new();
        bench.whole_loop_file(text);
        bench.commit();
        halts(&bench, HaltReason::ConfigInvalid);
    }
    halts(&Bench::new(), HaltReason::ConfigInvalid);
}

#[test]
fn a_flag_with_a_value_that_is_none_is_config_invalid() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: test -f done\n");
    bench.commit();
    halts_with(&bench, &["--timeout", "soon"], HaltReason::ConfigInvalid);
}

#[test]
fn a_money_cap_without_metering_is_config_invalid() {
    let bench = Bench::new();
    bench.whole_loop_file(
        "version: 1\nmodel: {provider: openai, id: i, metering: none, sampling: {seed: 1}}\n\
         exec: touch done\ncheck: test -f done\nlimits: {usd: 1}\nreceipt: {unpinned: [cost]}\n",
    );
    bench.commit();
    halts(&bench, HaltReason::ConfigInvalid);
}
