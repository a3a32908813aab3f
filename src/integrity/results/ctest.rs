//! Reads the text of CTest.
//!
//! Format: `Start 1: name`, `1/2 Test #1: name .....   Passed    0.01 sec` or `***Failed`, and at the
//! end `50% tests passed, 1 tests failed out of 2`; as of CTest 3.10 to 4.1. It has no specification.

use super::lines::each_line;
use super::tally::{
    Detail, MAX_FAILURES, MAX_ID_BYTES, MAX_IDS, MAX_MESSAGE, Outcome, Tally, bound,
};
use crate::domain::results::{Results, Runner};
use std::collections::BTreeMap;

/// The most bytes of a test's name.
const MAX_NAME: usize = 1024;

/// A streaming reader of CTest.
#[derive(Debug)]
pub(super) struct Ctest {
    seen: bool,
    // By number, so that repeated attempts of a test overwrite it.
    tests: BTreeMap<u64, Test>,
    // The last test with a result: what it printed follows.
    current: Option<u64>,
    bytes: usize,
    messages: usize,
    summary: Option<u64>,
    none: bool,
    tally: Tally,
}

#[derive(Debug)]
struct Test {
    name: String,
    outcome: Option<Outcome>,
    message: String,
}

impl Ctest {
    /// Starts a reader.
    pub(super) fn new(roots: &[String]) -> Self {
        Self {
            seen: false,
            tests: BTreeMap::new(),
            current: None,
            bytes: 0,
            messages: 0,
            summary: None,
            none: false,
            tally: Tally::new(Runner::Ctest, roots),
        }
    }

    /// Takes one line.
    pub(super) fn line(&mut self, line: &str) {
        if let Some(folder) = line.strip_prefix("Test project ") {
            // A second run of ctest in the same check.
            self.end_run();
            self.seen |= folder.starts_with('/');
            return;
        }
        if !self.seen {
            return;
        }
        if let Some((number, name)) = start(line) {
            self.current = None;
            self.keep(number, name);
        } else if let Some((number, name, status)) = result(line) {
            self.result(number, name, status);
        } else if let Some(failed) = summary(line) {
            self.summary = Some(failed);
            self.current = None;
        } else if line.starts_with("No tests were found") {
            self.none = true;
        } else if let Some(test) = self.current.and_then(|number| self.tests.get_mut(&number))
            && test.message.len() + line.len() < MAX_MESSAGE
        {
            test.message.push_str(line);
            test.message.push('\n');
        }
    }

    /// Tells whether ctest ran here.
    pub(super) fn is_seen(&self) -> bool {
        self.seen
    }

    fn keep(&mut self, number: u64, name: &str) -> Option<&mut Test> {
        let name = bound(name, MAX_NAME);
        if !self.tests.contains_key(&number) {
            if self.tests.len() >= MAX_IDS || self.bytes + name.len() > MAX_ID_BYTES {
                self.tally.unread();
                return None;
            }
            self.bytes += name.len();
        }
        let test = self.tests.entry(number);
        Some(test.or_insert(Test { name, outcome: None, message: String::new() }))
    }

    fn result(&mut self, number: u64, name: &str, status: &str) {
        let outcome = match status {
            "Passed" => Outcome::Passed,
            _ if status.starts_with("Skipped") || status.starts_with("Not Run (Disabled)") => {
                Outcome::Skipped
            }
            _ => Outcome::Failed,
        };
        let status = bound(status, 256);
        if let Some(test) = self.keep(number, name) {
            test.outcome = Some(outcome);
            test.message.clear();
            if outcome == Outcome::Failed {
                test.message = format!("{status}\n");
            }
        }
        self.messages += usize::from(outcome == Outcome::Failed);
        let said = outcome == Outcome::Failed && self.messages <= MAX_FAILURES;
        self.current = said.then_some(number);
    }

    fn end_run(&mut self) {
        let tests = std::mem::take(&mut self.tests);
        let mut failed = 0;
        let any = !tests.is_empty();
        for test in tests.into_values() {
            let Some(outcome) = test.outcome else {
                self.tally.collect(&test.name);
                continue;
            };
            failed += u64::from(outcome == Outcome::Failed);
            let detail = Detail { message: test.message, ..Detail::default() };
            self.tally.result(&test.name, outcome, Some(detail));
        }
        match self.summary.take() {
            None if any => self.tally.incomplete("ctest ended without a summary."),
            Some(said) if said != failed => self
                .tally
                .problem(format!("ctest counts {said} failed tests; its lines say {failed}.")),
            _ => {}
        }
        if std::mem::take(&mut self.none) && !any {
            self.tally.broken("ctest found no tests.");
        }
        self.current = None;
        self.bytes = 0;
    }

    /// Returns what was read.
    pub(super) fn finish(mut self) -> Results {
        self.end_run();
        self.tally.finish()
    }
}

/// Reads `    Start 12: name`.
fn start(line: &str) -> Option<(u64, &str)> {
    let rest = line.trim_start().strip_prefix("Start ")?;
    let (number, name) = rest.trim_start().split_once(": ")?;
    (line.starts_with(' ') && !name.trim().is_empty())
        .then_some((number.parse().ok()?, name.trim()))
}

/// Reads number, name and status of ` 1/12 Test  #1: name .....***Failed    0.01 sec`.
fn result(line: &str) -> Option<(u64, &str, &str)> {
    let (counter, rest) = line.split_once(" Test ")?;
    // Repeated attempts have no counter.
    let counted = counter.trim().split_once('/').is_some_and(|(at, of)| {
        [at, of].iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    });
    if !counted && !counter.trim().is_empty() {
        return None;
    }
    let (number, rest) = rest.trim_start().strip_prefix('#')?.split_once(": ")?;
    let number = number.parse().ok()?;
    // What ctest adds about an expression that a test was held to stands behind the time.
    let at = rest.rfind(" sec").filter(|at| {
        let after = &rest[at + 4..];
        after.trim().is_empty() || after.starts_with([' ', '\t'])
    })?;
    let rest = rest[..at].trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').trim_end();
    if let Some(rest) = rest.strip_suffix("Passed") {
        return Some((number, name(rest)?, "Passed"));
    }
    let (named, status) = rest.rsplit_once("***")?;
    Some((number, name(named)?, status.trim()))
}

/// Returns a name without the dots that fill its column.
fn name(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let name = text.trim_end_matches('.');
    let filled = text.len() > name.len();
    let name = name.trim_end();
    (filled && !name.is_empty()).then_some(name)
}

/// Reads how many tests failed from `50% tests passed, 1 tests failed out of 2`.
fn summary(line: &str) -> Option<u64> {
    let (percent, rest) = line.trim().split_once("% tests passed, ")?;
    percent.parse::<u64>().ok()?;
    rest.split_once(" tests failed out of ")?.0.parse().ok()
}

/// Reads one text.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut reader = Ctest::new(roots);
    each_line(bytes, &mut |line| reader.line(line));
    reader.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Test project /w/build
      Start  1: adds one
 1/12 Test  #1: adds one .........................   Passed    0.00 sec
      Start  2: bad
 2/12 Test  #2: bad ..............................***Failed    0.01 sec
expected 1 got 2
      Start  3: off
 3/12 Test  #3: off ..............................***Not Run (Disabled)   0.00 sec
      Start  4: later
 4/12 Test  #4: later ............................***Skipped   0.00 sec
      Start  5: dies
 5/12 Test  #5: dies .............................***Exception: SegFault  0.10 sec
      Start  6: words
 6/12 Test  #6: words ............................***Failed  Error regular expression found in output. Regex=[x]  0.00 sec
      Start  7: slow
 7/12 Test  #7: slow .............................***Timeout   1.01 sec
";

    #[test]
    fn every_status_has_its_meaning() {
        let end = "\n33% tests passed, 4 tests failed out of 6\n\nThe following tests FAILED:\n\t  2 - bad (Failed)\n";
        let r = parse(format!("{TEXT}{end}").as_bytes(), &[]);
        let ids = |set: &crate::domain::results::IdSet| {
            set.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
        };
        assert_eq!(ids(&r.passed), "adds one");
        assert_eq!(ids(&r.failed), "bad,dies,slow,words");
        assert_eq!(ids(&r.skipped), "later,off");
        assert!(r.problems.is_empty(), "{r:#?}");
        assert!(r.failures[0].message.contains("expected 1 got 2"), "{r:#?}");
    }

    #[test]
    fn a_run_that_was_cut_off_is_incomplete() {
        let r = parse(TEXT.as_bytes(), &[]);
        assert_eq!(r.problems, ["incomplete: ctest ended without a summary."]);
        let r = parse(b"Test project /w\n    Start 1: a\n", &[]);
        assert_eq!(r.unknown().len(), 1);
        let r = parse(b"Test project /w\nNo tests were found!!!\n", &[]);
        assert!(r.broken.is_some(), "{r:#?}");
        let r = parse(b"Test project /w\n1/1 Test #1: a ...   Passed  0.0 sec\n9% tests passed, 3 tests failed out of 4\n", &[]);
        assert!(r.problems[0].contains("counts 3 failed"), "{r:#?}");
    }
}
