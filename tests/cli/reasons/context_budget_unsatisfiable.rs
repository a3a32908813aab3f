//! `context_budget_unsatisfiable`: not even the goal and one failing test fit.

use super::{execs, halts, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

fn bench_with(tokens: u64) -> Bench {
    let bench = Bench::new();
    let goal = "make it work as the specification says ".repeat(60);
    bench.loop_file(&format!(
        "goal: {goal}\nexec: touch done\ncheck: test -f done\ncontext: {{tokens: {tokens}}}\n"
    ));
    bench.commit();
    bench
}

#[test]
fn a_goal_that_does_not_fit_is_context_budget_unsatisfiable_and_the_size_that_does_is_named() {
    let bench = bench_with(256);
    let ran = halts(&bench, HaltReason::ContextBudgetUnsatisfiable);
    assert_eq!(execs(&bench, &ran), 0);
    let object = ran.json();
    let next = text(&object["next"]);
    let needed: u64 = next
        .split("tokens: ")
        .nth(1)
        .and_then(|rest| rest.split('}').next())
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{next}"));
    assert!(needed > 256, "{next}");
    halts(&bench_with(needed), HaltReason::SuccessConditionMet);
    halts(&bench_with(needed - 1), HaltReason::ContextBudgetUnsatisfiable);
}
