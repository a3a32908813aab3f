//! A run as data: what `report --json` prints and `render` turns into text.
//!
//! `collect` fills it from the fold of a receipt.

use crate::domain::evidence::{Breach, Confirmation, Decision, OracleFinding, Ratchet, Verdict};
use crate::domain::flake;
use crate::domain::observation::{PathChange, Place, SurvivorFact, Usage};
use crate::domain::reason::HaltReason;
use crate::domain::results::Failure;
use serde::Serialize;
use serde_json::Value;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// It ended with `success_condition_met`.
    Converged,
    /// It ended with any other reason.
    Halted,
    /// A process works on it.
    Running,
    /// It has no end and nobody works on it.
    Incomplete,
}

/// A run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Its id.
    pub run_id: String,
    /// The command that takes it up.
    pub resume: String,
    /// The loop's name.
    pub name: String,
    /// The loop's digest.
    pub loop_digest: String,
    /// The version of loopexec that ran it.
    pub tool_version: String,
    /// How it stands.
    pub standing: Standing,
    /// When it started, RFC 3339.
    pub started: Option<String>,
    /// Milliseconds used.
    pub elapsed_ms: u64,
    /// Why it halted.
    pub halt: Option<HaltView>,
    /// The setup command.
    pub setup: Option<Value>,
    /// What was measured before the first exec.
    pub baseline: Option<BaselineView>,
    /// Its iterations.
    pub iterations: Vec<IterationView>,
    /// The achieved bound on the check's flip rate.
    pub bound: BoundView,
    /// Ids that do not decide.
    pub quarantine: Vec<String>,
    /// Ids that alone decide green; empty: all.
    pub targets: Vec<String>,
    /// Where processes ran.
    pub isolation: Value,
    /// What the model is pinned by.
    pub pins: PinsView,
    /// What was spent.
    pub spend: SpendView,
    /// The base revision it was held to, where it was: `revision`, `held`, and the keys that `differs`.
    pub base: Option<Value>,
    /// What persons answered, as recorded.
    pub answers: Vec<Value>,
    /// Limits that ended a process.
    pub limits_hit: Vec<Value>,
    /// How often it was taken up after a kill.
    pub resumed: u64,
    /// What became of the result.
    pub delivery: Option<Value>,
    /// The receipt, from the root of the tree.
    pub receipt: String,
    /// sha256 of its last event.
    pub head: String,
    /// Its events.
    pub events: u64,
    /// What is known of the tests that fail in the last state that was checked.
    pub failures: Vec<Failure>,
    /// The end of what exec printed last.
    pub exec_output: String,
    /// The end of what the check printed last.
    pub check_output: String,
}

/// Why a run halted.
#[derive(Debug, Clone, Serialize)]
pub struct HaltView {
    /// The reason.
    pub reason: HaltReason,
    /// The name of its class.
    pub exit_class: &'static str,
    /// The number of its class.
    pub exit_code: u8,
    /// The code of the closed list of details.
    pub detail: Option<String>,
    /// One sentence with the evidence.
    pub why: String,
    /// What to do, one line each.
    pub next: Vec<String>,
}

/// What was measured before the first exec.
#[derive(Debug, Clone, Serialize)]
pub struct BaselineView {
    /// Its snapshot.
    pub tree: String,
    /// Its verdict.
    pub verdict: Option<Verdict>,
    /// The failing ids.
    pub failing: Vec<String>,
    /// Whether the failing set can be compared.
    pub measured: bool,
    /// Why build or collection failed; empty where neither did.
    pub broken: String,
    /// Ids that were collected; none where nothing was measured.
    pub collected: Option<usize>,
    /// Each run of the check.
    pub runs: Vec<CheckView>,
    /// Runs with denials lifted.
    pub diagnosis: Vec<CheckView>,
    /// Ids whose copies disagree.
    pub unstable: Vec<String>,
    /// What people should know.
    pub notes: Vec<String>,
}

/// One run of the check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckView {
    /// Where it ran.
    pub place: Place,
    /// How it ended, in words.
    pub ended: String,
    /// Failed ids.
    pub failed: usize,
    /// Collected ids.
    pub collected: usize,
    /// Whether the results name tests.
    pub has_tests: bool,
    /// Milliseconds.
    pub wall_ms: u64,
}

/// One iteration.
#[derive(Debug, Clone, Serialize)]
pub struct IterationView {
    /// Its number, from 1.
    pub iteration: u32,
    /// The snapshot it started from.
    pub base: String,
    /// The snapshot it left.
    pub tree: String,
    /// How exec ended, in words.
    pub exec: Option<String>,
    /// Milliseconds of exec.
    pub exec_ms: Option<u64>,
    /// Processes that outlived exec or the check and were killed.
    pub survivors: Vec<SurvivorFact>,
    /// Whether exec changed the snapshot it started from.
    pub moved: bool,
    /// What differs from t0 after it.
    pub changes: Vec<PathChange>,
    /// The run of the check that gives feedback.
    pub check: Option<CheckView>,
    /// The verdict that counts.
    pub verdict: Option<Verdict>,
    /// Ids that fail.
    pub failing: Vec<String>,
    /// Whether the failing set can be compared.
    pub measured: bool,
    /// Ids that failed before and do not now.
    pub fixed: Vec<String>,
    /// Ids that fail now and did not before.
    pub broke: Vec<String>,
    /// Runs in fresh copies.
    pub confirmations: Vec<CheckView>,
    /// What they say.
    pub confirmation: Confirmation,
    /// What the ratchet says.
    pub ratchet: Ratchet,
    /// Guards that do not hold, and what kept a would-be green from being one.
    pub breaches: Vec<Breach>,
    /// A finding against the check.
    pub oracle: Option<OracleFinding>,
    /// What happens next.
    pub decision: Decision,
    /// What people should know.
    pub notes: Vec<String>,
    /// All that was spent so far.
    pub spent: Usage,
    /// Milliseconds since the run started.
    pub elapsed_ms: u64,
}

/// The achieved bound on the flip rate.
#[derive(Debug, Clone, Serialize)]
pub struct BoundView {
    /// Same-key reruns in fresh copies.
    pub reruns: u64,
    /// How many of them flipped.
    pub flips: u64,
    /// The upper bound on the rate, anytime-valid at 95 %, as decimal text.
    pub flip_rate_upper95_anytime: String,
    /// The rate that was wanted, as decimal text.
    pub max_flake_rate: Option<String>,
    /// What that says.
    pub status: flake::Status,
}

/// What the model is pinned by.
#[derive(Debug, Clone, Serialize)]
pub struct PinsView {
    /// The model as the loop declares it.
    pub model: Value,
    /// The pins that the loop does without.
    pub unpinned: Vec<String>,
}

/// What was spent.
#[derive(Debug, Clone, Serialize)]
pub struct SpendView {
    /// Decimal dollars; none when not known.
    pub usd: Option<String>,
    /// Tokens; none when not known.
    pub tokens: Option<u64>,
    /// Calls; none when not known.
    pub calls: Option<u64>,
    /// Whether the figures are all there is.
    pub known: bool,
}

impl BaselineView {
    /// Says in a few words what it measured.
    pub fn summary(&self) -> String {
        let verdict = self.verdict.map_or("no verdict", |verdict| verdict.as_str());
        let has_tests = self.runs.iter().any(|run| run.has_tests);
        match (self.verdict, self.collected) {
            (Some(Verdict::Fail), _) if !self.broken.is_empty() => {
                format!("{verdict}, build or collection failed: {}", self.broken)
            }
            (_, None) => format!("{verdict}, ? failing of ? collected (not measured)"),
            (Some(Verdict::Fail), _) if !has_tests => {
                format!("{verdict}, the check is red (no per-test results)")
            }
            (Some(Verdict::Pass), _) if !has_tests => {
                format!("{verdict}, the check is green (no per-test results)")
            }
            (_, Some(collected)) => {
                format!("{verdict}, {} failing of {collected} collected", self.failing.len())
            }
        }
    }
}
