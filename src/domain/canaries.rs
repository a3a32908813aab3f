//! Judges the canaries of a confirmed green: a planted test that asserts a falsehood, and tests whose
//! expected values were changed. Both have to be red.

use crate::domain::evidence::{Breach, OracleFinding, Verdict};
use crate::domain::history::History;
use crate::domain::judge::{Phase, read};
use crate::domain::observation::{CheckRun, Observation};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;
use crate::domain::results::{IdSet, Results};
use crate::domain::surface::{CanaryFact, TestAt};
use crate::domain::weakening::{breach, names};

/// What the canaries say about a confirmed green.
#[derive(Debug, Default)]
pub struct Canaries {
    /// The results are forged.
    pub forged: Option<Breach>,
    /// The check cannot tell right from wrong.
    pub inadequate: Option<OracleFinding>,
    /// What could not be tried, one sentence each.
    pub notes: Vec<String>,
}

/// Judges the overlays in which the check had to go red.
pub fn judge(plan: &Plan, history: &History, observation: &Observation) -> Canaries {
    let mut judged = Canaries::default();
    let fate = |fact: &CanaryFact| sentinel_fate(plan, history, fact);
    // A later try counts: the first may not have built.
    if let Some((fact, fate)) =
        observation.canaries.iter().map(|fact| (fact, fate(fact))).next_back()
        && let Some(sentinel) = &fact.canary.sentinel
    {
        match fate {
            Fate::Red => {}
            Fate::Green => {
                let what = format!(
                    "{}: a planted test that asserts 1 = 2 was not reported as failed, and it was on the tree of the start: results are forged",
                    sentinel.file
                );
                judged.forged = Some(breach("sentinel", &sentinel.file, None, what));
            }
            Fate::Unknown => judged.notes.push(
                "sentinel canary: not applicable, a planted test is not reported by this check"
                    .to_owned(),
            ),
        }
    }
    for fact in &observation.canaries {
        if fate(fact) != Fate::Red && fact.canary.sentinel.is_some() {
            continue;
        }
        let green: Vec<&TestAt> = fact
            .canary
            .changed
            .iter()
            .filter(|test| stays_green(&fact.run.results, test))
            .collect();
        let Some(first) = green.first() else { continue };
        judged.inadequate = Some(OracleFinding {
            reason: HaltReason::CheckInadequate,
            detail: "expected_value".to_owned(),
            what: format!(
                "{}: test {} still passes when the value it expects is another{}: the check cannot tell right from wrong.",
                first.file,
                first.name,
                match green.len() - 1 {
                    0 => String::new(),
                    n => format!(" ({n} more)"),
                }
            ),
            hints: vec![
                "Look at what the tested code returns: it may equal anything, or read its answers from the tests.".to_owned(),
            ],
        });
    }
    judged
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Fate {
    Red,
    Green,
    Unknown,
}

/// Says whether the planted test was reported as failed; where not, the tree of t0 has to have done so.
fn sentinel_fate(plan: &Plan, history: &History, fact: &CanaryFact) -> Fate {
    let Some(sentinel) = &fact.canary.sentinel else { return Fate::Unknown };
    let red =
        |run: &CheckRun| run.results.failed.iter().any(|id| id.contains(sentinel.name.as_str()));
    if red(&fact.run) {
        return Fate::Red;
    }
    let reading = read(plan, &history.known, &history.unstable, Phase::Loop, &fact.run);
    let built = reading.verdict != Verdict::Error && !reading.broken;
    // Runners that stop at the first failure may not have come to it.
    let stopped = reading.verdict == Verdict::Fail
        && !fact.run.results.passed.iter().any(|id| id.contains(sentinel.name.as_str()));
    match &fact.at_start {
        Some(run) if red(run) && built && !stopped => Fate::Green,
        _ => Fate::Unknown,
    }
}

fn stays_green(results: &Results, test: &TestAt) -> bool {
    let of = |ids: &IdSet| ids.iter().any(|id| names(id, test));
    of(&results.passed) && !of(&results.failed) && !of(&results.skipped) && results.broken.is_none()
}
