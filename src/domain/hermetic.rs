//! Attempts of the check to reach what its zone does not have: noted, or an end of the run where the loop says so.

use crate::domain::evidence::{Evidence, OracleFinding};
use crate::domain::observation::CheckRun;
use crate::domain::plan::{Hermeticity, Plan};
use crate::domain::reason::HaltReason;

/// Returns how often these runs tried.
pub fn attempts<'a>(runs: impl IntoIterator<Item = &'a CheckRun>) -> u64 {
    runs.into_iter().map(|run| run.run.refused).fold(0, u64::saturating_add)
}

/// Judges these runs of the check; what was found against the check before stands.
pub fn judge<'a>(
    plan: &Plan,
    runs: impl IntoIterator<Item = &'a CheckRun>,
    evidence: &mut Evidence,
) {
    let tried = match attempts(runs) {
        0 => return,
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let what = format!("the check tried {tried} to reach a network that its zone does not have");
    if plan.guards.hermeticity == Hermeticity::Note {
        evidence.notes.push(format!("{what}; nothing answered"));
    } else if evidence.oracle.is_none() {
        evidence.oracle = Some(OracleFinding {
            reason: HaltReason::HermeticityViolation,
            detail: "network".to_owned(),
            what: format!("{what}, and guards.hermeticity is strict."),
            hints: vec![
                "Take the access out of the check, or set guards.hermeticity: note.".to_owned(),
            ],
        });
    }
}
