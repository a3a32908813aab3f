//! Signs that a loop does not converge, read off the history (class 17).
//!
//! Which of them wins is the order of the halt reasons; where they stand among all other reasons
//! is `decide`.

use crate::domain::evidence::{Evidence, Halt, Ratchet, name_some};
use crate::domain::history::History;
use crate::domain::plan::{OnRegression, Plan};
use crate::domain::reason::HaltReason;

/// What to do about a build that keeps failing.
const MEND_BUILD: &str = "Make it build first: see what the check printed in the report, and that exec can run the same build; a dependency may be missing.";

/// Returns the first sign that holds, judged on a history that already holds this evidence.
pub fn find(plan: &Plan, history: &History, evidence: &Evidence) -> Option<Halt> {
    unsatisfiable(history)
        .or_else(|| oscillation(history))
        .or_else(|| regression(plan, history, evidence))
        .or_else(|| repeated_failure(plan, history, evidence))
        .or_else(|| no_progress(plan, history))
}

/// Says whether the failing set never left the baseline's although the tree kept changing.
pub fn is_infeasible(plan: &Plan, history: &History) -> bool {
    history.baseline.is_some()
        && !history.left_baseline
        && history.changed >= plan.limits.no_progress
}

/// Returns the halt of a loop whose failing set never left the baseline's.
pub fn infeasible(history: &History, instead_of: HaltReason) -> Halt {
    halt(
        HaltReason::InfeasibleSuspected,
        format!(
            "{} of {} iterations changed the tree and were measured, yet the failing set never left \
             the baseline's (it would have been {instead_of}).",
            history.changed, history.iterations
        ),
        "Look at whether the failing tests can pass at all: the goal, the tests or the environment may rule it out.",
    )
}

fn halt(reason: HaltReason, why: String, hint: &str) -> Halt {
    Halt { reason, detail: String::new(), why, hints: vec![hint.to_owned()] }
}

/// Says why iterations could show no progress, where the last check gave no answer or at least
/// half of those since the best one did not build; and what to do about it.
pub fn trouble(history: &History) -> Option<(String, &'static str)> {
    let last = |text: &str| if text.is_empty() { String::new() } else { format!(": {text}") };
    if !history.last_unanswered.is_empty() {
        let s = if history.unanswered == 1 { "" } else { "s" };
        return Some((
            format!(
                "the check gave no answer (it {}) in {} iteration{s}",
                history.last_unanswered, history.unanswered
            ),
            "Find what makes the check hang or end it; if it only needs longer, raise check.timeout (and limits.time).",
        ));
    }
    let (broken, all) = (history.broken_since_best, history.since_best);
    (broken > 0 && broken * 2 >= all).then(|| {
        let iterations = if all == 1 { "the last iteration" } else { "the last" };
        let span = match all {
            1 => iterations.to_owned(),
            n => format!("{broken} of {iterations} {n} iterations"),
        };
        (format!("build or collection failed in {span}{}", last(&history.last_broken)), MEND_BUILD)
    })
}

fn unsatisfiable(history: &History) -> Option<Halt> {
    let ((a, b), times) = history.never_together()?;
    Some(halt(
        HaltReason::UnsatisfiableConstraints,
        format!(
            "in {times} attempts fixing {a} broke {b} (or the other way round), and in no state seen did both pass."
        ),
        "Read the two tests side by side: they may exclude each other, or no attempt found what satisfies both.",
    ))
}

fn oscillation(history: &History) -> Option<Halt> {
    let what = if history.tree_returns.count >= 2 {
        "the tree after exec"
    } else if history.failing_returns.count >= 2 {
        "the failing set"
    } else {
        return None;
    };
    Some(halt(
        HaltReason::OscillationDetected,
        format!("{what} returned to an earlier value twice."),
        "The same attempts come round again: change the goal, the context or the model before another run.",
    ))
}

fn regression(plan: &Plan, history: &History, evidence: &Evidence) -> Option<Halt> {
    let Ratchet::Regressed { ids } = &evidence.ratchet else { return None };
    // The fold counted the revert that this regression asks for.
    let reverted = history.reverts - 1;
    let spent = reverted >= plan.max_regressions;
    if plan.on_regression == OnRegression::Revert && !spent {
        return None;
    }
    let why = match plan.on_regression {
        OnRegression::Halt => "and ratchet.on_regression is halt".to_owned(),
        OnRegression::Revert => format!("after {reverted} reverts in this run"),
    };
    Some(halt(
        HaltReason::SameTestRegressed,
        format!("{} passed in the accepted state and fails now, {why}.", name_some(ids)),
        "See the last patch in the receipt: what fixes the goal breaks what worked.",
    ))
}

fn repeated_failure(plan: &Plan, history: &History, evidence: &Evidence) -> Option<Halt> {
    if history.same_failure < plan.limits.same_failure {
        return None;
    }
    if evidence.broken {
        return Some(halt(
            HaltReason::SameFailureRepeated,
            format!(
                "build or collection failed in the same way {} times in a row although the tree changed each time: {}.",
                history.same_failure, history.last_broken
            ),
            MEND_BUILD,
        ));
    }
    Some(halt(
        HaltReason::SameFailureRepeated,
        format!(
            "{} failed with the same messages {} times in a row although the tree changed each time.",
            name_some(&evidence.failing),
            history.same_failure
        ),
        "Give the agent what it does not see: a better goal, context.files, or a message in the test that says more.",
    ))
}

fn no_progress(plan: &Plan, history: &History) -> Option<Halt> {
    if history.since_best < plan.limits.no_progress {
        return None;
    }
    if is_infeasible(plan, history) {
        return Some(infeasible(history, HaltReason::NoProgressDetected));
    }
    if let Some((why, hint)) = trouble(history) {
        return Some(halt(HaltReason::NoProgressDetected, format!("{why}."), hint));
    }
    let best = match history.best {
        u64::MAX => "unknown".to_owned(),
        n => n.to_string(),
    };
    Some(halt(
        HaltReason::NoProgressDetected,
        format!(
            "the failing set had no new smallest size for {} iterations (smallest: {best}).",
            history.since_best
        ),
        "Raise limits.no_progress only if the attempts in the report still differ from each other.",
    ))
}
