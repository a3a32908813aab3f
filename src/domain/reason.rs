//! The halt reasons: stable strings, in the order that is their precedence, each with its class.
//!
//! Strings and their classes are frozen. The numbers of the classes stand in `exit`.

use crate::exit::ExitClass;
use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $class:ident;)+) => {
        /// Why a loop stopped; the order of the variants is the precedence where two hold at once.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum HaltReason {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl HaltReason {
            /// Every reason, in order of precedence.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the stable string.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Returns the exit class.
            pub const fn class(self) -> ExitClass {
                match self { $(Self::$variant => ExitClass::$class,)+ }
            }

            /// Returns when the reason holds, as the README's table says it.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

reasons! {
    /// A defect of loopexec itself; the receipt up to it is kept.
    InternalError = "internal_error", Internal;
    /// A disk is full, or evidence could not be made durable.
    StorageExhausted = "storage_exhausted", Workspace;
    /// SIGINT, SIGTERM or SIGHUP asked the run to stop.
    Interrupted = "interrupted", Interrupted;
    /// The loop file, a flag or an override is not valid.
    ConfigInvalid = "config_invalid", Workspace;
    /// The caller's tree, the workspace, the lock or `setup` is not in order.
    WorkspaceInvalid = "workspace_invalid", Workspace;
    /// No place to run in that meets what the loop asks for.
    IsolationUnsatisfiable = "isolation_unsatisfiable", Workspace;
    /// An invariant of the recorded state does not hold.
    InvariantFailed = "invariant_failed", Invariant;
    /// A credential is wider than the loop allows.
    CredentialScopeInvalid = "credential_scope_invalid", Integrity;
    /// A blocked path or one of loopexec's control files was changed.
    BlockedPathModified = "blocked_path_modified", Integrity;
    /// What decides the tests is weaker than at t0, or results are forged or missing.
    MetricIntegrityViolation = "metric_integrity_violation", Integrity;
    /// Replay or resume does not reproduce a recorded verdict in an equal environment.
    ObjectiveUnverified = "objective_unverified", Integrity;
    /// A budget or pin needs usage that can no longer be known.
    MeteringLost = "metering_lost", Budget;
    /// More was spent than the loop may spend.
    BudgetExceeded = "budget_exceeded", Budget;
    /// One iteration cost far more than those before it.
    CostAnomaly = "cost_anomaly", Budget;
    /// Another model answered than the one that is pinned.
    ModelDriftDetected = "model_drift_detected", Liveness;
    /// The run showed no life for too long.
    HeartbeatStale = "heartbeat_stale", Liveness;
    /// The same key gave two verdicts in fresh copies.
    CheckFlaky = "check_flaky", OracleUntrusted;
    /// The check changes what its own next run sees.
    CheckHasSideEffects = "check_has_side_effects", OracleUntrusted;
    /// The verdict depends on something outside the snapshot; the dimension is named.
    CheckNotHermetic = "check_not_hermetic", OracleUntrusted;
    /// The check tried what its zone forbids.
    HermeticityViolation = "hermeticity_violation", OracleUntrusted;
    /// The check gave no answer on the baseline, or three times in a row later.
    CheckUnrunnable = "check_unrunnable", OracleUntrusted;
    /// The check cannot tell right from wrong, or was never red although it had to be.
    CheckInadequate = "check_inadequate", CheckInadequate;
    /// The exec step failed too many times in a row.
    ExecutionFailure = "execution_failure", Execution;
    /// The provider refuses more calls for now.
    RateLimited = "rate_limited", ResumableJudgment;
    /// Not even the goal and one failing test fit into the context budget.
    ContextBudgetUnsatisfiable = "context_budget_unsatisfiable", Liveness;
    /// More iterations were accepted than anyone has looked at.
    ComprehensionDebtExceeded = "comprehension_debt_exceeded", Liveness;
    /// A gate asks for a person, and the question was delivered.
    EscalationPending = "escalation_pending", ResumableJudgment;
    /// A gate asks for a person, and no channel delivered the question; or the person said no.
    HumanRequired = "human_required", TerminalBlocked;
    /// A judge found the green bought, not earned.
    RewardHackingDetected = "reward_hacking_detected", Integrity;
    /// A reviewer vetoed the green.
    ReviewerRejected = "reviewer_rejected", ResumableJudgment;
    /// The check passed, was confirmed, and every guard held.
    SuccessConditionMet = "success_condition_met", Converged;
    /// Fixing one of two tests broke the other, at least twice, and in no state seen did both pass.
    UnsatisfiableConstraints = "unsatisfiable_constraints", NoConvergence;
    /// The tree or the failing set returned to an earlier value, twice.
    OscillationDetected = "oscillation_detected", NoConvergence;
    /// A test of the accepted state fails and the ratchet may not revert any more.
    SameTestRegressed = "same_test_regressed", NoConvergence;
    /// The same tests failed with the same messages although the tree changed.
    SameFailureRepeated = "same_failure_repeated", NoConvergence;
    /// The failing set never left the baseline's although the tree kept changing.
    InfeasibleSuspected = "infeasible_suspected", NoConvergence;
    /// The failing set had no new smallest size for too many iterations.
    NoProgressDetected = "no_progress_detected", NoConvergence;
    /// There is no task left that could be worked on.
    NoActionableTasks = "no_actionable_tasks", TerminalBlocked;
    /// The last allowed iteration ended without success.
    MaxIterationsReached = "max_iterations_reached", Cap;
    /// The time limit passed without success.
    TimeLimitReached = "time_limit_reached", Cap;
}

impl HaltReason {
    /// Returns the reason of that stable string.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.as_str() == name)
    }
}

impl std::fmt::Display for HaltReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for reason in HaltReason::ALL {
            assert_eq!(HaltReason::from_name(reason.as_str()), Some(*reason));
        }
        let names: std::collections::BTreeSet<_> =
            HaltReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(names.len(), 40);
    }

    #[test]
    fn precedence_is_the_order_of_the_variants() {
        assert!(HaltReason::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(HaltReason::BlockedPathModified < HaltReason::SuccessConditionMet);
    }
}
