//! Per-test results of one run of the check.
//!
//! Reading them from what a runner leaves is the duty of `integrity`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The stable name of a test: what the runner calls it, without roots, addresses and line numbers.
pub type TestId = Arc<str>;

/// A set of test ids.
pub type IdSet = BTreeSet<TestId>;

/// Where per-test results come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// pytest, through a plugin.
    Pytest,
    /// Python's unittest, through a start-up hook.
    Unittest,
    /// `cargo test`, from libtest's text.
    Cargo,
    /// cargo-nextest, from its text.
    Nextest,
    /// `go test`, from its JSON stream.
    Go,
    /// `node --test`, through a reporter.
    Node,
    /// JUnit XML files.
    Junit,
    /// A TAP stream on standard output.
    Tap,
    /// Any other command: the check itself is the only test.
    Command,
}

/// What is known about one failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The failed test.
    pub id: TestId,
    /// What the runner said, bounded to 4 KiB.
    pub message: String,
    /// The file it points at, relative to the workspace where it lies inside.
    pub file: Option<String>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
}

/// Per-test results of one run of the check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// Where they come from.
    pub runner: Runner,
    /// Ids that the runner collected; those in none of the other sets were not reached.
    pub collected: IdSet,
    /// Ids reported passed.
    pub passed: IdSet,
    /// Ids reported failed or in error.
    pub failed: IdSet,
    /// Ids reported skipped, ignored or expected to fail.
    pub skipped: IdSet,
    /// Messages of the failed ids, at most 200.
    pub failures: Vec<Failure>,
    /// A build or a collection that failed before tests could run: its message.
    pub broken: Option<String>,
    /// What does not fit together (counts that disagree, unreadable reports), one sentence each.
    pub problems: Vec<String>,
}

impl Results {
    /// Makes an empty set of results of a runner.
    pub fn new(runner: Runner) -> Self {
        Self {
            runner,
            collected: IdSet::new(),
            passed: IdSet::new(),
            failed: IdSet::new(),
            skipped: IdSet::new(),
            failures: Vec::new(),
            broken: None,
            problems: Vec::new(),
        }
    }

    /// Returns the ids of tests that were collected; the check itself is none.
    pub fn tests(&self) -> IdSet {
        match self.runner {
            Runner::Command => IdSet::new(),
            _ => self.collected.clone(),
        }
    }

    /// Returns the collected ids that have no result: not reached, neither failed nor regressed.
    pub fn unknown(&self) -> IdSet {
        self.collected
            .iter()
            .filter(|id| {
                !self.passed.contains(*id)
                    && !self.failed.contains(*id)
                    && !self.skipped.contains(*id)
            })
            .cloned()
            .collect()
    }
}
