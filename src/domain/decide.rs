//! The order of decisions: one table, read from top to bottom, the first row that holds decides.
//!
//! The README prints the same table. `judge` made the evidence; nothing here looks at raw facts.

use crate::domain::convergence;
use crate::domain::evidence::{Breach, Decision, Evidence, From, Halt, Ratchet};
use crate::domain::gate;
use crate::domain::history::History;
use crate::domain::judge_baseline::FIRST_RED;
use crate::domain::plan::{OnBreach, Plan};
use crate::domain::reason::HaltReason;
use crate::exit::ExitClass;

/// What a row may look at.
struct Case<'a> {
    plan: &'a Plan,
    /// The history with this evidence folded in.
    history: &'a History,
    evidence: &'a Evidence,
}

/// One row of the table.
struct Row {
    title: &'static str,
    /// The classes a halt of this row can have.
    classes: &'static [ExitClass],
    find: fn(&Case<'_>) -> Option<Halt>,
}

use ExitClass as C;

#[rustfmt::skip]
const TABLE: [Row; 11] = [
    Row { title: "receipt or storage failed", classes: &[C::Internal, C::Workspace], find: storage },
    Row { title: "interrupted", classes: &[C::Interrupted], find: interrupted },
    Row { title: "workspace or isolation broken", classes: &[C::Workspace, C::Invariant], find: broken },
    Row { title: "integrity breach", classes: &[C::Integrity], find: breached },
    Row { title: "spending breach, metering lost, drift", classes: &[C::Budget, C::Liveness], find: spending },
    Row { title: "oracle untrusted or inadequate", classes: &[C::OracleUntrusted, C::CheckInadequate], find: oracle },
    Row { title: "execs failed in a row", classes: &[C::Execution], find: execs_failed },
    Row { title: "human gates", classes: &[C::TerminalBlocked, C::ResumableJudgment, C::Liveness], find: human_gates },
    Row { title: "pass and confirmed", classes: &[C::Converged, C::Integrity, C::ResumableJudgment], find: success },
    Row { title: "no convergence", classes: &[C::NoConvergence], find: no_convergence },
    Row { title: "caps and budget spent", classes: &[C::Cap, C::Budget, C::NoConvergence], find: caps },
];

/// Returns the title of each row and the classes it can halt with, in order; the last row is to
/// continue and has none.
pub fn rows() -> Vec<(&'static str, &'static [ExitClass])> {
    TABLE.iter().map(|row| (row.title, row.classes)).chain([("continue", &[][..])]).collect()
}

/// Decides what happens after a step; the history already holds its evidence.
pub fn decide(plan: &Plan, history: &History, evidence: &Evidence) -> Decision {
    let case = Case { plan, history, evidence };
    let found = TABLE.iter().find_map(|row| Some((row, (row.find)(&case)?)));
    match found {
        Some((row, halt)) => {
            debug_assert!(row.classes.contains(&halt.reason.class()), "{}: {halt:?}", row.title);
            Decision::Halt(halt)
        }
        None => Decision::Continue { from: from(plan, evidence) },
    }
}

/// Returns where the next iteration starts, should there be one.
pub fn from(plan: &Plan, evidence: &Evidence) -> From {
    if plan.guards.on_breach == OnBreach::Revert && !evidence.breaches.is_empty() {
        return From::Accepted;
    }
    match evidence.ratchet {
        Ratchet::Regressed { .. } | Ratchet::BrokenTwice => From::Accepted,
        Ratchet::Accepted | Ratchet::Kept | Ratchet::Unmeasured => From::Tip,
    }
}

fn fault(case: &Case<'_>, reasons: &[HaltReason]) -> Option<Halt> {
    let fault = case.evidence.fault.as_ref()?;
    reasons.contains(&fault.reason).then(|| Halt {
        reason: fault.reason,
        detail: fault.detail.clone(),
        why: fault.what.clone(),
        hints: fault.hints.clone(),
    })
}

fn storage(case: &Case<'_>) -> Option<Halt> {
    fault(case, &[HaltReason::InternalError, HaltReason::StorageExhausted])
}

fn interrupted(case: &Case<'_>) -> Option<Halt> {
    fault(case, &[HaltReason::Interrupted])
}

fn broken(case: &Case<'_>) -> Option<Halt> {
    use HaltReason as R;
    fault(
        case,
        &[R::ConfigInvalid, R::WorkspaceInvalid, R::IsolationUnsatisfiable, R::InvariantFailed],
    )
}

fn breached(case: &Case<'_>) -> Option<Halt> {
    if let Some(halt) = fault(case, &[HaltReason::ObjectiveUnverified]) {
        return Some(halt);
    }
    let breach = case.evidence.breaches.iter().min_by_key(|breach| breach.reason)?;
    if is_reverted(case) {
        return None;
    }
    let more = match case.evidence.breaches.len() - 1 {
        0 => String::new(),
        n => format!(" ({n} more)"),
    };
    Some(Halt {
        reason: breach.reason,
        detail: breach.guard.clone(),
        why: format!("{}{more}.", breach.what),
        hints: vec![mend(breach)],
    })
}

/// Says whether a breach is undone instead of halting: what a snapshot holds can be put back.
fn is_reverted(case: &Case<'_>) -> bool {
    let rules = &case.plan.guards;
    rules.on_breach == OnBreach::Revert
        && case.history.breached <= rules.max_reverts
        && case.evidence.breaches.iter().all(|breach| {
            !matches!(breach.guard.as_str(), "control_files" | "sentinel" | "environment")
        })
}

/// Says how a change that is wanted is declared.
fn mend(breach: &Breach) -> String {
    let path = if breach.path.is_empty() { "PATH" } else { breach.path.as_str() };
    match breach.guard.as_str() {
        "blocked_paths" | "control_files" => "If this change is wanted, make it yourself, or take the path out with `guards: {blocked_paths: {remove: [PATTERN]}}`.".to_owned(),
        "results" | "sentinel" => "Look for what ends the test process early or rewrites its reports; nothing of this can be declared.".to_owned(),
        "environment" => "Install what the check needs in `setup`, or into an ignored folder of the tree; what lies outside of the workspace is put back by hand.".to_owned(),
        "coverage_floor" => "If less coverage is wanted, say by how much: `guards: {coverage_tolerance: POINTS}`.".to_owned(),
        "protected_manifest" => format!("If the task is meant to change this, declare it: `guards: {{mutable: [{path}]}}`; loopexec guards shows the whole surface. Another version of a test runner cannot be declared: change that yourself, before a run."),
        _ => format!("If the task is meant to change this, declare it: `guards: {{mutable: [{path}]}}`; loopexec guards shows the whole surface."),
    }
}

fn spending(case: &Case<'_>) -> Option<Halt> {
    use HaltReason as R;
    if case.evidence.metering_lost {
        return Some(Halt {
            reason: R::MeteringLost,
            detail: "usage_file_missing".to_owned(),
            why: "exec ran and left no readable usage file, so what was spent can no longer be known.".to_owned(),
            hints: vec![
                "Write one JSON object with `usd`, `tokens` and `calls` to $LOOPEXEC_USAGE_FILE before exec ends."
                    .to_owned(),
            ],
        });
    }
    over_budget(case, Over::Beyond)
        .or_else(|| fault(case, &[R::ModelDriftDetected, R::ContextBudgetUnsatisfiable]))
}

/// How far a budget has to be used up for a row to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    /// More than the cap.
    Beyond,
    /// To the last unit.
    Spent,
}

fn over_budget(case: &Case<'_>, over: Over) -> Option<Halt> {
    let limits = &case.plan.limits;
    let spent = &case.evidence.spent;
    let usd = u64::try_from(spent.usd_micro).unwrap_or(0);
    let caps = [
        (
            "limits.usd (micro-dollars)",
            limits.usd_micro.and_then(|cap| u64::try_from(cap).ok()),
            usd,
        ),
        ("limits.tokens", limits.tokens, spent.tokens),
        ("limits.calls", limits.calls, spent.calls),
    ];
    let (name, cap, used) = caps.into_iter().find_map(|(name, cap, used)| {
        let cap = cap?;
        let hit = match over {
            Over::Beyond => used > cap,
            Over::Spent => used >= cap,
        };
        hit.then_some((name, cap, used))
    })?;
    Some(Halt {
        reason: HaltReason::BudgetExceeded,
        detail: if over == Over::Spent { "spent".to_owned() } else { String::new() },
        why: format!("{used} of {cap} used: {name}."),
        hints: vec![format!(
            "Raise {} if the attempts are worth it.",
            name.split(' ').next().unwrap_or(name)
        )],
    })
}

fn oracle(case: &Case<'_>) -> Option<Halt> {
    let finding = case.evidence.oracle.as_ref()?;
    Some(Halt {
        reason: finding.reason,
        detail: finding.detail.clone(),
        why: finding.what.clone(),
        hints: finding.hints.clone(),
    })
}

fn execs_failed(case: &Case<'_>) -> Option<Halt> {
    (case.history.exec_failures_in_row >= case.plan.exec_max_failures).then(|| Halt {
        reason: HaltReason::ExecutionFailure,
        detail: String::new(),
        why: format!("exec failed {} times in a row.", case.history.exec_failures_in_row),
        hints: vec![
            "Read what exec printed in the report; run it by hand with `loopexec build-context` beside it."
                .to_owned(),
        ],
    })
}

fn human_gates(case: &Case<'_>) -> Option<Halt> {
    gate::halt(case.plan, case.history, case.evidence)
}

fn success(case: &Case<'_>) -> Option<Halt> {
    let evidence = case.evidence;
    if evidence.is_confirmed_green()
        && let Some(objection) = &evidence.objection
    {
        return Some(Halt {
            reason: objection.reason,
            detail: objection.detail.clone(),
            why: objection.what.clone(),
            hints: objection.hints.clone(),
        });
    }
    evidence.is_confirmed_green().then(|| Halt {
        reason: HaltReason::SuccessConditionMet,
        detail: String::new(),
        why: match evidence.iteration {
            0 if evidence.first_red.is_some() => format!("{FIRST_RED}."),
            0 => "the check was green before any exec, and stayed green in fresh copies.".to_owned(),
            n => format!("the check passed in iteration {n}, was confirmed in {} fresh copies, and every guard held: weakened tests were not detected.", case.plan.confirm),
        },
        hints: Vec::new(),
    })
}

fn no_convergence(case: &Case<'_>) -> Option<Halt> {
    if case.evidence.iteration == 0 {
        return None;
    }
    convergence::find(case.plan, case.history, case.evidence)
}

fn caps(case: &Case<'_>) -> Option<Halt> {
    let limits = &case.plan.limits;
    let (reason, why, hint) = if case.evidence.iteration >= limits.iterations {
        (
            HaltReason::MaxIterationsReached,
            format!(
                "{} of {} iterations ended without success.",
                case.evidence.iteration, limits.iterations
            ),
            "Raise limits.iterations (or --max-iterations) if the failing set was still shrinking.",
        )
    } else if case.evidence.elapsed_ms >= limits.time_ms {
        (
            HaltReason::TimeLimitReached,
            format!(
                "{} s of {} s passed without success.",
                case.evidence.elapsed_ms / 1000,
                limits.time_ms / 1000
            ),
            "Raise limits.time (or --timeout) if the failing set was still shrinking.",
        )
    } else {
        return over_budget(case, Over::Spent);
    };
    if case.evidence.iteration > 0 && convergence::is_infeasible(case.plan, case.history) {
        return Some(convergence::infeasible(case.history, reason));
    }
    let (why, hint) = match convergence::trouble(case.history) {
        Some((trouble, hint)) => (format!("{} {}.", why, sentence(&trouble)), hint),
        None => (why, hint),
    };
    // A green that was not believed is why there is none.
    if let Some(veto) = case.evidence.vetoes.first() {
        let told = veto.what.trim_end_matches('.');
        let why = format!("{why} The last green was not believed: {told}.");
        return Some(Halt { reason, detail: String::new(), why, hints: vec![mend(veto)] });
    }
    Some(Halt { reason, detail: String::new(), why, hints: vec![hint.to_owned()] })
}

/// Returns the text with a capital at its beginning.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
