//! `budget_exceeded` and `metering_lost`: what was spent, and when nobody can know it any more.

use super::{agent, halts, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

fn metered(limits: &str) -> Bench {
    let bench = Bench::new();
    bench.whole_loop_file(&format!(
        "version: 1\nmodel: {{provider: openai, id: some-model, metering: file, sampling: {{seed: 1}}}}\n\
         exec: ./agent.sh\ncheck: test -f done\nlimits: {{{limits}}}\n"
    ));
    bench
}

/// Returns a shell line that reports money spent.
fn spend(usd: &str) -> String {
    format!(
        "echo '{{\"usd\": \"{usd}\", \"tokens\": 10, \"calls\": 1}}' > \"$LOOPEXEC_USAGE_FILE\""
    )
}

#[test]
fn more_than_the_cap_is_budget_exceeded_even_with_a_green_check() {
    let bench = metered("usd: 1.5");
    agent(&bench, &[], &format!("touch done; {}", spend("1.500001")));
    bench.commit();
    let ran = halts(&bench, HaltReason::BudgetExceeded);
    assert_eq!(ran.json()["iterations"], 1);
    assert_eq!(ran.json()["spend"]["usd"], "1.500001");
    assert_eq!(ran.json()["spend"]["known"], true);
    assert!(text(&ran.json()["next"]).contains("limits.usd"));
}

#[test]
fn a_green_that_spent_the_cap_to_the_last_unit_converges() {
    let bench = metered("usd: 1.5");
    agent(&bench, &[&spend("0.75")], &format!("touch done; {}", spend("0.75")));
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["spend"]["usd"], "1.5");
    assert_eq!(ran.json()["spend"]["tokens"], 20);
}

#[test]
fn a_red_that_spent_the_cap_to_the_last_unit_is_budget_exceeded() {
    let bench = metered("usd: 1.5");
    agent(&bench, &[&spend("0.75")], &spend("0.75"));
    bench.commit();
    let ran = halts(&bench, HaltReason::BudgetExceeded);
    assert_eq!(ran.json()["iterations"], 2);
    assert_eq!(ran.json()["detail"], "spent");
}

#[test]
fn tokens_and_calls_have_caps_too() {
    for limits in ["tokens: 19", "calls: 1"] {
        let bench = metered(limits);
        agent(&bench, &[], &spend("0"));
        bench.commit();
        let ran = bench.run_loop(&["--max-iterations", "2"]);
        assert_eq!(ran.reason(), "budget_exceeded", "{ran:#?}");
    }
}

#[test]
fn an_exec_that_leaves_no_usage_file_is_metering_lost() {
    let bench = metered("usd: 1.5");
    agent(&bench, &[], "touch done");
    bench.commit();
    let ran = halts(&bench, HaltReason::MeteringLost);
    assert_eq!(ran.json()["spend"]["known"], false);
    assert!(ran.json()["spend"]["usd"].is_null(), "unknown is never zero");
    assert!(text(&ran.json()["next"]).contains("LOOPEXEC_USAGE_FILE"));
}

#[test]
fn an_exec_that_leaves_a_usage_file_nobody_can_read_is_metering_lost() {
    let bench = metered("usd: 1.5");
    agent(&bench, &[], "touch done; echo '{\"usd\": \"a lot\"}' > \"$LOOPEXEC_USAGE_FILE\"");
    bench.commit();
    halts(&bench, HaltReason::MeteringLost);
}

#[test]
fn an_exec_that_writes_what_it_used_converges() {
    let bench = metered("usd: 1.5");
    agent(&bench, &[], &format!("touch done; {}", spend("0.25")));
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["spend"]["usd"], "0.25");
}
