//! Every reason that can occur today has its test; every other one is named as not yet possible.

use loopexec::domain::reason::HaltReason;
use std::collections::BTreeSet;
use std::path::Path;

/// The reasons that can occur today, and the file whose tests reach them.
const REACHED: [(&str, &str); 32] = [
    ("success_condition_met", "tests/cli/reasons/success_condition_met.rs"),
    ("max_iterations_reached", "tests/cli/reasons/caps.rs"),
    ("time_limit_reached", "tests/cli/reasons/caps.rs"),
    ("blocked_path_modified", "tests/cli/reasons/blocked_path_modified.rs"),
    ("metric_integrity_violation", "tests/cli/reasons/metric_integrity_violation.rs"),
    ("reward_hacking_detected", "tests/cli/reasons/vetoes.rs"),
    ("reviewer_rejected", "tests/cli/reasons/vetoes.rs"),
    ("objective_unverified", "tests/cli/reasons/objective_unverified.rs"),
    ("check_flaky", "tests/cli/reasons/check_flaky.rs"),
    ("check_has_side_effects", "tests/cli/reasons/check_has_side_effects.rs"),
    ("check_not_hermetic", "tests/cli/reasons/check_not_hermetic.rs"),
    ("check_unrunnable", "tests/cli/reasons/check_unrunnable.rs"),
    ("check_inadequate", "tests/cli/reasons/check_inadequate.rs"),
    ("unsatisfiable_constraints", "tests/cli/reasons/ratchet.rs"),
    ("oscillation_detected", "tests/cli/reasons/convergence.rs"),
    ("same_test_regressed", "tests/cli/reasons/ratchet.rs"),
    ("same_failure_repeated", "tests/cli/reasons/convergence.rs"),
    ("no_progress_detected", "tests/cli/reasons/convergence.rs"),
    ("infeasible_suspected", "tests/cli/reasons/convergence.rs"),
    ("metering_lost", "tests/cli/reasons/budget_exceeded.rs"),
    ("budget_exceeded", "tests/cli/reasons/budget_exceeded.rs"),
    ("context_budget_unsatisfiable", "tests/cli/reasons/context_budget_unsatisfiable.rs"),
    ("escalation_pending", "tests/cli/reasons/escalation_pending.rs"),
    ("human_required", "tests/cli/reasons/human_required.rs"),
    ("interrupted", "tests/cli/reasons/interrupted.rs"),
    ("workspace_invalid", "tests/cli/reasons/workspace_invalid.rs"),
    ("config_invalid", "tests/cli/reasons/config_invalid.rs"),
    ("storage_exhausted", "tests/receipt_disk.rs"),
    ("execution_failure", "tests/cli/reasons/execution_failure.rs"),
    ("isolation_unsatisfiable", "tests/process/ends.rs"),
    ("credential_scope_invalid", "tests/zones/run.rs"),
    ("hermeticity_violation", "tests/zones/run.rs"),
];

/// The reasons whose features come later; nothing may compute them yet.
const LATER: [&str; 8] = [
    "internal_error",
    "invariant_failed",
    "cost_anomaly",
    "model_drift_detected",
    "heartbeat_stale",
    "rate_limited",
    "comprehension_debt_exceeded",
    "no_actionable_tasks",
];

#[test]
fn every_reason_is_either_reached_by_a_test_or_named_as_later() {
    let known: BTreeSet<&str> = HaltReason::ALL.iter().map(|reason| reason.as_str()).collect();
    let listed: Vec<&str> = REACHED.iter().map(|(name, _)| *name).chain(LATER).collect();
    let once: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(listed.len(), once.len(), "a reason is listed twice");
    assert_eq!(known, once);
}

#[test]
fn the_file_that_is_said_to_reach_a_reason_names_it() {
    for (name, file) in REACHED {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let Ok(text) = std::fs::read_to_string(&path) else {
            panic!("{file}, which should reach {name}, is not there");
        };
        let variant: String =
            name.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        assert!(text.contains(name) || text.contains(&variant), "{file} never names {name}");
        assert!(text.contains("#[test]"), "{file} holds no test");
    }
}
