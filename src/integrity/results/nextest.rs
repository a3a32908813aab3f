//! Reads the human text of cargo-nextest.
//!
//! Format: `STATUS [ 0.005s] (1/3) binary-id name`, after each the captured output, at the end
//! `Summary [ … ] N tests run: …`; as of nextest 0.9.50 to 0.9.151. It has no specification.

use super::lines::each_line;
use super::tally::{Detail, MAX_FAILURES, MAX_ID_BYTES, MAX_IDS, MAX_MESSAGE, Outcome, Tally};
use super::{libtest_block, rustc};
use crate::domain::results::{Results, Runner};
use std::collections::BTreeMap;

/// A streaming reader of nextest.
#[derive(Debug)]
pub(super) struct Nextest {
    phase: Phase,
    // By binary id and name, so that retries of a test overwrite it.
    tests: BTreeMap<(String, String), Test>,
    current: Option<(String, String)>,
    bytes: usize,
    cut: bool,
    messages: usize,
    rustc: rustc::Errors,
    summary: Option<(u64, u64)>,
    roots: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    Running,
    After,
}

#[derive(Debug)]
struct Test {
    outcome: Outcome,
    message: String,
    proof: Proof,
}

/// Whether libtest itself said that the test passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// No output was shown.
    Unseen,
    /// Output was shown, without libtest's line so far.
    Missing,
    /// libtest said that it runs the test, and nothing more so far.
    Announced,
    /// libtest's line was there.
    Shown,
}

impl Nextest {
    /// Starts a reader.
    pub(super) fn new(roots: &[String]) -> Self {
        Self {
            phase: Phase::Before,
            tests: BTreeMap::new(),
            current: None,
            bytes: 0,
            cut: false,
            messages: 0,
            rustc: rustc::Errors::default(),
            summary: None,
            roots: roots.to_vec(),
        }
    }

    /// Takes one line.
    pub(super) fn line(&mut self, line: &str) {
        let text = line.trim_start();
        if text.starts_with("Nextest run ID ") {
            self.phase = Phase::Running;
            return;
        }
        match self.phase {
            Phase::Before => self.rustc.line(line),
            Phase::Running => self.running(line, text),
            Phase::After => {}
        }
    }

    /// Tells whether a run is under way: its captured output is not that of other runners.
    pub(super) fn is_running(&self) -> bool {
        self.phase == Phase::Running
    }

    /// Tells whether anything of nextest was seen.
    pub(super) fn is_seen(&self) -> bool {
        self.phase != Phase::Before
    }

    fn running(&mut self, line: &str, text: &str) {
        if let Some(counts) = summary(text) {
            self.summary = Some(counts);
            self.phase = Phase::After;
            self.current = None;
        } else if let Some((outcome, binary, name)) = status(line) {
            self.start(outcome, binary, name);
        } else if line.trim_matches('─').is_empty() && !line.is_empty() {
            self.current = None;
        } else if let Some(key) = &self.current
            && let Some(test) = self.tests.get_mut(key)
        {
            if test.proof == Proof::Unseen && is_stdout_heading(text) {
                test.proof = Proof::Missing;
            }
            if test.proof != Proof::Shown && text == "running 1 test" {
                test.proof = Proof::Announced;
            }
            // What the test prints may stand inside its own line.
            let own = text.strip_prefix("test ").is_some_and(|rest| {
                rest.strip_prefix(key.1.as_str()).is_some_and(|rest| rest.ends_with(" ok"))
            });
            if own || text.starts_with("test result: ok. 1 passed;") {
                test.proof = Proof::Shown;
            }
            if test.outcome == Outcome::Failed && test.message.len() < 2 * MAX_MESSAGE {
                test.message.push_str(line.strip_prefix("    ").unwrap_or(line));
                test.message.push('\n');
            }
        }
    }

    fn start(&mut self, outcome: Outcome, binary: &str, name: &str) {
        let key = (binary.to_owned(), name.to_owned());
        let size = binary.len() + name.len();
        let known = self.tests.contains_key(&key);
        if !known && (self.tests.len() >= MAX_IDS || self.bytes + size > MAX_ID_BYTES) {
            self.current = None;
            self.cut = true;
            return;
        }
        if !known {
            self.bytes += size;
        }
        if outcome == Outcome::Failed {
            self.messages += 1;
        }
        let test = Test { outcome, message: String::new(), proof: Proof::Unseen };
        self.tests.insert(key.clone(), test);
        let message = outcome != Outcome::Failed || self.messages <= MAX_FAILURES;
        self.current = message.then_some(key);
    }

    /// Returns what was read.
    pub(super) fn finish(self) -> Results {
        let mut tally = Tally::new(Runner::Nextest, &self.roots);
        if self.cut {
            tally.unread();
        }
        let (mut run, mut failed) = (0_u64, 0_u64);
        // A project whose harness prints no such lines proves nothing by their absence.
        let proofs = self.tests.values().any(|test| test.proof == Proof::Shown);
        for ((binary, name), test) in &self.tests {
            let id = format!("{binary}::{name}");
            if test.outcome != Outcome::Skipped {
                run += 1;
            }
            match test.outcome {
                Outcome::Passed
                    if test.proof == Proof::Announced || proofs && test.proof == Proof::Missing =>
                {
                    tally.collect(&id);
                    tally.incomplete(format_args!(
                        "{id} ended with exit 0 but its harness never said that it passed."
                    ));
                }
                Outcome::Failed => {
                    failed += 1;
                    let place = test.message.lines().find_map(libtest_block::panic_place);
                    let (file, line) = place.map_or((None, None), |(f, l)| (Some(f), Some(l)));
                    let detail =
                        Detail { message: test.message.clone(), file, line, ..Detail::default() };
                    tally.result(&id, Outcome::Failed, Some(detail));
                }
                outcome => tally.result(&id, outcome, None),
            }
        }
        match self.summary {
            Some((all, bad)) if all != run || bad != failed => tally.problem(format!(
                "nextest counts {all} tests run and {bad} failed; its lines say {run} and {failed}."
            )),
            None if self.phase == Phase::Running => {
                tally.incomplete("nextest ended without a summary.");
            }
            _ => {}
        }
        if self.tests.is_empty()
            && let Some(message) = self.rustc.message()
        {
            tally.broken(&message);
        }
        tally.finish()
    }
}

/// Returns outcome, binary id and test name of a status line.
fn status(line: &str) -> Option<(Outcome, &str, &str)> {
    let text = line.trim_start();
    // Status words are set flush right in twelve columns; captured output has other indents.
    if line.len() == text.len() {
        return None;
    }
    let (words, rest) = text.split_once(" [")?;
    let (time, rest) = rest.split_once("] ")?;
    if !time
        .trim_start_matches(['>', ' '])
        .trim_end_matches('s')
        .chars()
        .all(|c| c.is_ascii_digit() || c == '.')
    {
        return None;
    }
    let outcome = outcome(words)?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(counter) => counter.split_once(") ")?.1.trim_start(),
        None => rest,
    };
    let (binary, name) = rest.split_once(' ')?;
    Some((outcome, binary, name.trim()))
}

fn outcome(words: &str) -> Option<Outcome> {
    let mut words = words.split_whitespace();
    let mut first = words.next()?;
    // `TRY 2 PASS`: the last try counts, its lines come last.
    if first == "TRY" {
        words.next()?.parse::<u32>().ok()?;
        first = words.next()?;
    }
    match first {
        "PASS" | "LEAK" | "FLAKY" => Some(Outcome::Passed),
        "SKIP" => Some(Outcome::Skipped),
        "FAIL" | "TIMEOUT" | "ABORT" | "XFAIL" | "EXECFAIL" | "LEAK-FAIL" | "FL+LK" | "TMT" => {
            Some(Outcome::Failed)
        }
        word if word.starts_with("SIG") || word.starts_with("TRMNTG") => {
            word.starts_with("SIG").then_some(Outcome::Failed)
        }
        _ => None,
    }
}

fn is_stdout_heading(text: &str) -> bool {
    text.starts_with("stdout ─") || text.starts_with("--- STDOUT") || text.starts_with("output ─")
}

/// Returns how many tests ran and how many failed.
fn summary(text: &str) -> Option<(u64, u64)> {
    let rest = text.strip_prefix("Summary [")?;
    let (_, rest) = rest.split_once("] ")?;
    let (run, rest) = rest.trim_start().split_once(" run: ")?;
    // After a stop: `2/5 tests run: …`.
    let run: u64 = run.split([' ', '/']).next()?.parse().ok()?;
    let mut failed = 0_u64;
    for part in rest.split(['(', ',']) {
        let mut words = part.split_whitespace();
        let (Some(number), Some(word)) = (words.next(), words.next()) else { continue };
        if matches!(word.trim_end_matches(')'), "failed" | "timed" | "exec")
            && let Ok(number) = number.parse::<u64>()
        {
            failed = failed.saturating_add(number);
        }
    }
    Some((run, failed))
}

/// Reads one text.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut reader = Nextest::new(roots);
    each_line(bytes, &mut |line| reader.line(line));
    reader.finish()
}
