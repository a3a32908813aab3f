//! Raw facts: what one step of a run showed, before anything judges it.

use crate::domain::command::Exit;
use crate::domain::gate::Asked;
use crate::domain::reason::HaltReason;
use crate::domain::results::Results;
use crate::domain::surface::{CanaryFact, CoverageFact, OverlayFact, SurfaceFact, Veto};
use serde::{Deserialize, Serialize};

/// A git tree id of a snapshot, 40 hexadecimal digits.
pub type TreeId = String;

/// Where a run of the check took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The workspace: feedback, never a sample.
    Workspace,
    /// A fresh copy.
    Copy,
    /// A fresh copy made byte by byte, without a view of the layer.
    RealCopy,
    /// A fresh copy of what the check has to go red on.
    Canary,
    /// A fresh copy with the caller's network, where a zone has none.
    CallerNetwork,
    /// A fresh copy with the caller's environment, the private HOME kept.
    CallerEnvironment,
    /// A fresh copy with the caller's environment and HOME.
    CallerHome,
}

/// Size and digest of one whole output stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamFact {
    /// Bytes written.
    pub bytes: u64,
    /// sha256 of all of them.
    pub sha256: String,
    /// The blob with what was kept of them, redacted.
    pub kept: Option<String>,
}

/// A process that outlived its step and was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivorFact {
    /// Its process id.
    pub pid: i32,
    /// Its name.
    pub name: String,
    /// Its command line, bounded.
    pub command: String,
}

/// What is common to every command that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFact {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output.
    pub stdout: StreamFact,
    /// Its standard error.
    pub stderr: StreamFact,
    /// The end of what it printed, redacted and bounded, for people and for the next context.
    pub tail: String,
    /// Wall-clock time in milliseconds.
    pub wall_ms: u64,
    /// Processes that outlived it.
    pub survivors: Vec<SurvivorFact>,
    /// How often something was sent to a network that its zone does not have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u64,
    /// Whether it had as many processes as its zone allows, or wanted more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub crowded: bool,
}

/// Says whether there is nothing to tell.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One run of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRun {
    /// Where it ran.
    pub place: Place,
    /// The snapshot it ran on.
    pub tree: TreeId,
    /// How the process went.
    pub run: RunFact,
    /// Per-test results.
    pub results: Results,
    /// Digest of failing ids with their normalised messages.
    pub class: String,
    /// Digest of verdict and results, without times.
    pub fingerprint: String,
}

/// What was used of the model in one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Micro-dollars.
    pub usd_micro: i64,
    /// Tokens, of all kinds.
    pub tokens: u64,
    /// Calls.
    pub calls: u64,
}

/// One piece of the context that exec saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextItem {
    /// What it is: a path, or a heading.
    pub path: String,
    /// sha256 of its bytes.
    pub sha256: String,
    /// Tokens it takes, by our estimate.
    pub tokens: u64,
}

/// One run of the exec step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecRun {
    /// How the process went.
    pub run: RunFact,
    /// What it used, where that is known.
    pub usage: Option<Usage>,
    /// What it was shown.
    pub context: Vec<ContextItem>,
    /// What it tried to reach, where its zone has a way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<Attempts>,
}

/// What exec tried to reach outside of its zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    /// In the order of their requests.
    pub attempts: Vec<Attempt>,
    /// Attempts beyond those that are kept.
    pub more: u64,
}

/// One attempt of exec to leave its zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// What was asked for, at most 300 characters.
    pub target: String,
    /// Whether it was let through.
    pub allowed: bool,
    /// Why not, or what ended it early.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The address that was dialled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// Bytes that left.
    pub up: u64,
    /// Bytes that came.
    pub down: u64,
    /// Milliseconds from the request to the end.
    pub ms: u64,
}

/// One path that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PathChange {
    /// The path from the root, escaped without loss.
    pub path: String,
    /// `added`, `modified`, `deleted`, `mode` or `type`.
    pub kind: String,
}

/// How large the patch is that would be handed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchSize {
    /// Files and links that differ from what was carried.
    pub files: u64,
    /// Lines added and lines removed; a binary file has none.
    pub lines: u64,
}

/// A failure of the surroundings that ends the run, named by the reason it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The reason.
    pub reason: HaltReason,
    /// The code of the closed list of details, or empty.
    pub detail: String,
    /// One sentence.
    pub what: String,
    /// What to do, one line each.
    pub hints: Vec<String>,
}

/// What the frozen layer is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFact {
    /// Digest over what the snapshot does not hold.
    pub digest: String,
    /// Files in it.
    pub files: u64,
    /// Bytes in it.
    pub bytes: u64,
}

/// Everything measured before the first exec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineObservation {
    /// The snapshot of what was carried, before `setup` and the check added to it.
    pub carried: TreeId,
    /// The run of `setup`, where the loop has one.
    pub setup: Option<RunFact>,
    /// The snapshot at t0.
    pub tree: TreeId,
    /// The frozen layer.
    pub layer: LayerFact,
    /// The first run in the workspace, then those in fresh copies.
    pub runs: Vec<CheckRun>,
    /// More runs in fresh copies after a green.
    pub confirmations: Vec<CheckRun>,
    /// Runs with denials lifted.
    pub diagnosis: Vec<CheckRun>,
    /// Names of the caller's variables that the check's environment leaves out and that its
    /// text or output names.
    pub missing_variables: Vec<String>,
    /// Paths that the check itself wrote.
    pub check_writes: Vec<String>,
    /// Digests of what snapshots do not hold, by key.
    pub control: std::collections::BTreeMap<String, String>,
    /// Milliseconds since the run started.
    pub elapsed_ms: u64,
    /// What went wrong around it.
    pub fault: Option<Fault>,
    /// How a person was asked, where a gate is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

/// Raw facts of one iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The number of the iteration, from 1.
    pub iteration: u32,
    /// The snapshot that exec started from.
    pub base: TreeId,
    /// The exec step.
    pub exec: Option<ExecRun>,
    /// The snapshot after exec.
    pub tree: TreeId,
    /// What differs from t0.
    pub changes: Vec<PathChange>,
    /// Control keys whose value differs from t0 after exec or after the check.
    pub control_changes: Vec<PathChange>,
    /// How large the patch is, where the loop caps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchSize>,
    /// What the check changed in the snapshot.
    pub check_changes: Vec<PathChange>,
    /// The one run of the check that gives feedback.
    pub check: Option<CheckRun>,
    /// Runs in fresh copies after a green.
    pub confirmations: Vec<CheckRun>,
    /// Red runs in views of the layer that a copy made byte by byte did not bear out.
    pub set_aside: Vec<CheckRun>,
    /// A second run in the workspace, where copies were red.
    pub rerun: Option<CheckRun>,
    /// How the test surface differs from t0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<SurfaceFact>,
    /// What the fresh copies after a green hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<OverlayFact>,
    /// Runs in fresh copies of overlays that left out added tests, and were red for that alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bare: Vec<CheckRun>,
    /// The run in a fresh copy with the candidate's own tests, where the overlay differs from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<CheckRun>,
    /// Overlays in which the check had to go red.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<CanaryFact>,
    /// The sealed check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<RunFact>,
    /// The advisory command that may veto a green.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Veto>,
    /// Coverage, where it is declared and was readable at t0 and now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<CoverageFact>,
    /// Milliseconds since the run started.
    pub elapsed_ms: u64,
    /// What went wrong around it.
    pub fault: Option<Fault>,
    /// How a person was asked, where a gate is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// What exec left that no snapshot holds, in a sentence each; some of it where there is much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}
