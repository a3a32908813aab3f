//! Per-test results of one run of the check.
//!
//! Reading them from what a runner leaves is the duty of `integrity`.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Jest, through a reporter.
    Jest,
    /// Vitest, through a reporter.
    Vitest,
    /// Mocha, through its runner's events.
    Mocha,
    /// RSpec, through a formatter.
    Rspec,
    /// PHPUnit, from its TeamCity log and its JUnit log.
    Phpunit,
    /// CTest, from its text.
    Ctest,
    /// bats, from its TAP stream.
    Bats,
    /// Maven, from the reports of Surefire and Failsafe.
    Maven,
    /// Gradle, from the reports of its test tasks.
    Gradle,
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
    /// How many assertions a passed test executed, for the tests of which the runner tells.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub executed: BTreeMap<TestId, u32>,
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
            executed: BTreeMap::new(),
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

/// Returns an id without what tells apart the cases of one test: the parameters of pytest (`[…]`), the
/// number of a repeated name (`#01`, `#2`) and the data set of PHPUnit (` with data set …`).
///
/// A name that is nothing but a key is left whole.
pub fn base_id(id: &str) -> &str {
    let mut base = id;
    if let Some((head, tail)) = base.rsplit_once('#')
        && !head.is_empty()
        && !tail.is_empty()
        && tail.bytes().all(|b| b.is_ascii_digit())
    {
        base = head;
    }
    if let Some(at) = base.find(" with data set ").filter(|at| *at > 0) {
        return &base[..at];
    }
    // A parameter may hold brackets and colons of its own: the key begins at the first bracket behind
    // the file or class. Names that people write as sentences end in brackets too, behind a space.
    let key = base.find("::").and_then(|at| Some(at + base[at..].find('[')?));
    match key {
        Some(at) if base.ends_with(']') && !base[..at].ends_with([' ', ':']) => &base[..at],
        _ => base,
    }
}

/// The name that stands for all tests of a program which does not name those that pass: `cargo test -q`.
pub const WHOLE: &str = "(all)";

/// Says whether a program that named only some of its tests was reported as a whole, this one with it.
pub fn is_told_as_a_whole(ids: &IdSet, id: &str) -> bool {
    if ids.contains(WHOLE) {
        return true;
    }
    let labels = id.match_indices("::").map(|(at, _)| &id[..at]);
    labels.take(8).any(|label| ids.contains(format!("{label}::{WHOLE}").as_str()))
}

/// Returns a test's own name: what stands after the last `::` or ` > `; for go what stands after the
/// package and before the first subtest.
pub fn last_part(id: &str) -> &str {
    // What stands inside a parameter separates nothing.
    let names = base_id(id).len();
    let inside = &id[..names];
    if let Some(at) = inside.rfind(" > ") {
        return &id[at + 3..];
    }
    if let Some(at) = inside.rfind("::") {
        return &id[at + 2..];
    }
    // `ex.org/shop/v2.TestA/sub`: names of go tests begin with one of four words.
    for word in [".Test", ".Example", ".Benchmark", ".Fuzz"] {
        if let Some(at) = id.find(word) {
            let name = id[at + 1..].split('/').next().unwrap_or_default();
            if !name.contains(['.', ' ']) {
                return name;
            }
        }
    }
    // `tests.test_u.TestA.test_good`: a dotted name without a space or a slash.
    match inside.rsplit_once('.') {
        Some((_, name)) if !inside.contains([' ', '/']) && !name.is_empty() => {
            &id[names - name.len()..]
        }
        _ => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_id_has_no_parameters() {
        for (id, base) in [
            ("t.py::test_a[1-2]", "t.py::test_a"),
            ("t.py::test_a[x[0]-a::b]", "t.py::test_a"),
            ("t.py::test_a", "t.py::test_a"),
            ("ex.org/p.TestA/b#01", "ex.org/p.TestA/b"),
            ("a > b#2", "a > b"),
            ("C::testA with data set \"one\"", "C::testA"),
            ("C::testA with data set #0", "C::testA"),
            ("a[1]/t.py::test_a[2]", "a[1]/t.py::test_a"),
            ("C::gives [1]", "C::gives [1]"),
            ("a.test.js > gives a[0]", "a.test.js > gives a[0]"),
            ("spec/a_spec.rb > [1:6]", "spec/a_spec.rb > [1:6]"),
            ("#1", "#1"),
            ("", ""),
        ] {
            assert_eq!(base_id(id), base, "{id}");
        }
    }

    #[test]
    fn a_last_part_is_the_tests_own_name() {
        for (id, name) in [
            ("t.py::TestA::test_a[a::b > c]", "test_a[a::b > c]"),
            ("a.test.js > suite > adds", "adds"),
            ("shop::tests::good", "good"),
            ("ex.org/shop/v2.TestGood/a_b", "TestGood"),
            ("tests.test_u.TestA.test_good", "test_good"),
            ("a b. c", "a b. c"),
            ("check", "check"),
        ] {
            assert_eq!(last_part(id), name, "{id}");
        }
    }
}
