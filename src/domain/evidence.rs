//! What the facts mean: the output of `judge` and the input of `decide`.

use crate::domain::gate::Asked;
use crate::domain::observation::{Fault, PatchSize, TreeId, Usage};
use crate::domain::reason::HaltReason;
use crate::domain::results::{IdSet, TestId};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The check's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Green.
    Pass,
    /// Red.
    Fail,
    /// No answer: not started, timed out, killed, out of memory.
    Error,
}

impl Verdict {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Error => "error",
        }
    }
}

/// A guard that does not hold, with the path or number that shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// The guard's name.
    pub guard: String,
    /// The reason it halts with.
    pub reason: HaltReason,
    /// The path that shows it, or nothing.
    pub path: String,
    /// The line in it, from 1, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// One sentence: file, before → after.
    pub what: String,
}

/// A finding against the check itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleFinding {
    /// The reason it halts with.
    pub reason: HaltReason,
    /// The code of the closed list of details.
    pub detail: String,
    /// One sentence.
    pub what: String,
    /// What to do, one line each.
    pub hints: Vec<String>,
}

/// What the ratchet says to the snapshot of this iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ratchet")]
pub enum Ratchet {
    /// Nothing was measured.
    Unmeasured,
    /// It is the new accepted snapshot.
    Accepted,
    /// Not accepted, and nothing regressed: go on from the tip.
    Kept,
    /// A test of the accepted state fails.
    Regressed {
        /// The regressed ids.
        ids: IdSet,
    },
    /// Build or collection failed twice in a row.
    BrokenTwice,
}

/// Whether a green of the workspace holds in fresh copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmation {
    /// There was no green to confirm, or there was no time.
    NotTried,
    /// Every fresh copy was green.
    Confirmed,
    /// Fresh copies were not all green; `oracle` says what that means.
    Refuted,
}

/// What the facts of one step mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The iteration, 0 for the baseline.
    pub iteration: u32,
    /// The snapshot exec started from.
    pub base: TreeId,
    /// The snapshot that was judged.
    pub tree: TreeId,
    /// The verdict that counts.
    pub verdict: Option<Verdict>,
    /// The failing set.
    pub failing: Arc<IdSet>,
    /// Digest of the failing set.
    pub failing_digest: String,
    /// Digest of the failing set with normalised messages.
    pub class: String,
    /// Failing ids and known ids that were not reached.
    pub remaining: u64,
    /// Whether the failing set can be compared with others.
    pub measured: bool,
    /// Whether build or collection failed.
    pub broken: bool,
    /// Whether exec failed.
    pub exec_failed: bool,
    /// Guards that do not hold.
    pub breaches: Vec<Breach>,
    /// What kept a would-be green from being one, told to the agent this time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vetoes: Vec<Breach>,
    /// The veto of the advisory command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<OracleFinding>,
    /// A finding against the check.
    pub oracle: Option<OracleFinding>,
    /// Whether the green holds in fresh copies.
    pub confirmation: Confirmation,
    /// What the ratchet says.
    pub ratchet: Ratchet,
    /// All that was spent so far.
    pub spent: Usage,
    /// Whether usage that a budget needs is unknown.
    pub metering_lost: bool,
    /// Same-key reruns in fresh copies so far.
    pub reruns: u64,
    /// How many of them flipped.
    pub flips: u64,
    /// Milliseconds since the run started.
    pub elapsed_ms: u64,
    /// What went wrong around it.
    pub fault: Option<Fault>,
    /// What people should know.
    pub notes: Vec<String>,
    /// What the next exec should know: each one sentence of ours, on lines after it data from the
    /// check.
    pub feedback: Vec<String>,
    /// The passing set; folded again, never written.
    #[serde(skip)]
    pub passing: Arc<IdSet>,
    /// Collected ids; folded again, never written.
    #[serde(skip)]
    pub collected: Arc<IdSet>,
    /// What failed in a red first run of which every fresh copy was green; folded again, never
    /// written.
    #[serde(skip)]
    pub first_red: Option<Arc<IdSet>>,
    /// The first line of why build or collection failed, or how a check without an answer ended;
    /// folded again, never written.
    #[serde(skip)]
    pub trouble: String,
    /// Ids that disagree between copies of the baseline.
    pub unstable: IdSet,
    /// The verdict of fresh copies.
    pub copies: Option<Verdict>,
    /// The snapshot that these held, where it is not the judged one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub copied: TreeId,
    /// How large the patch is, where the loop caps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchSize>,
    /// How a person was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
}

impl Evidence {
    /// Says whether the check passed, fresh copies confirmed it and nothing that worked was lost.
    pub fn is_confirmed_green(&self) -> bool {
        self.verdict == Some(Verdict::Pass)
            && self.confirmation == Confirmation::Confirmed
            && self.breaches.is_empty()
            && !matches!(self.ratchet, Ratchet::Regressed { .. })
    }
}

/// Where the next iteration starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// From the snapshot of this iteration.
    Tip,
    /// From the accepted snapshot.
    Accepted,
}

/// Why the loop stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    /// The reason.
    pub reason: HaltReason,
    /// The code of the closed list of details, or empty.
    pub detail: String,
    /// One sentence with the evidence.
    pub why: String,
    /// What to do, one line each.
    pub hints: Vec<String>,
}

/// What happens next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum Decision {
    /// Another iteration.
    Continue {
        /// Where it starts.
        from: From,
    },
    /// The loop stops.
    Halt(Halt),
}

/// Returns the digest of a set of ids.
pub fn digest_of(ids: &IdSet) -> String {
    let mut text = Vec::new();
    for id in ids {
        text.extend_from_slice(id.as_bytes());
        text.push(0);
    }
    crate::domain::hex::sha256(&text)
}

/// Returns a few ids for a sentence, with the number of those left out.
pub fn name_some(ids: &IdSet) -> String {
    let shown: Vec<&str> = ids.iter().take(3).map(TestId::as_ref).collect();
    match ids.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
