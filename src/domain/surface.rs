//! Facts about the test surface: what decides the tests, and how it differs from t0.
//!
//! Measuring them is the duty of `integrity` and of whoever reads the snapshots; what they mean is
//! decided in `weakening`.

use crate::domain::observation::{CheckRun, RunFact, TreeId};
use serde::{Deserialize, Serialize};

/// A setting or a fixture that is not as at t0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The file, from the root.
    pub path: String,
    /// Which part of it, such as `scripts.test`; `content` for the whole.
    pub key: String,
    /// What stood there, bounded; `absent` where nothing did.
    pub before: String,
    /// What stands there now, bounded.
    pub after: String,
}

/// A test as the source text has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TestAt {
    /// The file, from the root.
    pub file: String,
    /// Its own name, without file and container.
    pub name: String,
    /// The line it begins at, from 1; 0 where that is of no interest.
    pub line: u32,
}

/// A test that stands elsewhere now, or under another name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Where it stood at t0.
    pub from: TestAt,
    /// Where it stands now.
    pub to: TestAt,
}

/// How a test that is still there says less than at t0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weaker {
    /// It is skipped, inverted or expected to fail.
    Marker,
    /// It asserts less.
    Assertions,
    /// What its assertions raise is swallowed.
    Swallowed,
}

/// A test that says less than at t0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weakened {
    /// Where it stood at t0.
    pub was: TestAt,
    /// Where it stands now.
    pub at: TestAt,
    /// How it says less.
    pub how: Weaker,
    /// What was seen at t0, in a few words.
    pub before: String,
    /// What is seen now, in a few words.
    pub after: String,
}

/// How the test surface of one snapshot differs from t0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurfaceFact {
    /// Settings and fixtures that weaken what decides the tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingChange>,
    /// Settings that differ and may: added dependencies, what `guards.mutable` names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<SettingChange>,
    /// Files with tests, or with what tests need, that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Tests found elsewhere, or under another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
    /// Tests that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<TestAt>,
    /// Tests that say less.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakened: Vec<Weakened>,
    /// Files of t0 that the task is meant to change and that differ: nothing in them is missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freed: Vec<String>,
    /// The tests that these held at t0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freed_tests: Vec<TestAt>,
    /// Files whose tests cannot be read: nothing is known of them, and nothing is held against them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<String>,
}

impl SurfaceFact {
    /// Says whether nothing differs that could decide a test.
    pub fn is_unchanged(&self) -> bool {
        self.settings.is_empty() && self.files.is_empty()
    }
}

/// The candidate's files with the t0 test surface laid over them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OverlayFact {
    /// Its snapshot; the candidate's own where nothing had to be laid over.
    pub tree: TreeId,
    /// Files put back to t0, wholly or in their tests.
    pub restored: Vec<String>,
    /// Files of the test surface that were added since and are left out.
    pub dropped: Vec<String>,
    /// Those of both that hold no tests and that tests may share: helpers, fixtures, set-up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared: Vec<String>,
    /// Added files that are kept, because without them no test failed and the check was red.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Programs of a test runner below ignored folders that are not as they were frozen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runner_files: Vec<String>,
    /// What the advisory scans saw on added lines of sources, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<String>,
}

/// An overlay in which the check has to go red.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Its snapshot.
    pub tree: TreeId,
    /// The planted test that asserts a falsehood.
    pub sentinel: Option<TestAt>,
    /// Tests whose expected values were changed.
    pub changed: Vec<TestAt>,
}

/// A canary and what the check said to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryFact {
    /// What was done.
    pub canary: Canary,
    /// The run on it.
    pub run: CheckRun,
    /// The same sentinel in the files of t0, where the first run did not report it as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_start: Option<CheckRun>,
}

/// What a command that may veto a green said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Veto {
    /// The command, as it ran.
    pub run: RunFact,
    /// Why it objects; nothing where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
    /// Whether it calls the green bought rather than wrong.
    #[serde(default)]
    pub hacking: bool,
}

/// Covered lines on t0's denominators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageFact {
    /// Parts per million at t0.
    pub before_ppm: u32,
    /// Parts per million now.
    pub after_ppm: u32,
    /// Files of which more is excluded, or that left the report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excluded: Vec<String>,
}
