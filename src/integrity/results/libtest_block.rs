//! One block of libtest: from `running N tests` to `test result:`.
//!
//! Which binary a block belongs to is the duty of `libtest`.

use super::tally::{Detail, MAX_FAILURES, MAX_ID_BYTES, MAX_IDS, MAX_MESSAGE, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// How many tests ended how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Passed, benchmarks included.
    pub(super) passed: u64,
    /// Failed.
    pub(super) failed: u64,
    /// Ignored.
    pub(super) skipped: u64,
}

/// A block under way.
#[derive(Debug)]
pub(super) struct Block {
    /// How many tests its first line announces.
    pub(super) announced: u64,
    /// Names and outcomes in the order of the lines.
    pub(super) results: Vec<(String, Outcome)>,
    /// Whether there were more than that.
    pub(super) cut: bool,
    counts: Option<Counts>,
    started: Option<String>,
    section: Section,
    messages: BTreeMap<String, String>,
    listed: Vec<String>,
    plain: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Section {
    Lines,
    Failures,
    Message(String),
}

impl Block {
    /// Starts a block that announces a number of tests.
    pub(super) fn new(announced: u64) -> Self {
        Self {
            announced,
            results: Vec::new(),
            cut: false,
            counts: None,
            started: None,
            section: Section::Lines,
            messages: BTreeMap::new(),
            listed: Vec::new(),
            plain: 0,
        }
    }

    /// Tells whether the last line of the block was seen.
    pub(super) fn is_finished(&self) -> bool {
        self.counts.is_some()
    }

    /// Returns the counts that the block states at its end.
    pub(super) fn counts(&self) -> Option<Counts> {
        self.counts
    }

    /// Tells whether the block names only its failed tests (`-q`).
    pub(super) fn is_quiet(&self) -> bool {
        self.plain == 0 && self.counts.is_some_and(|c| c.passed + c.failed + c.skipped > 0)
    }

    /// Returns the counts of the lines that name a test.
    pub(super) fn named(&self) -> Counts {
        let count = |of: Outcome| self.results.iter().filter(|(_, o)| *o == of).count() as u64;
        Counts {
            passed: count(Outcome::Passed),
            failed: count(Outcome::Failed),
            skipped: count(Outcome::Skipped),
        }
    }

    /// Returns what the block says about a failed test.
    pub(super) fn detail(&self, test: &str) -> Detail {
        let message = self.messages.get(test).cloned().unwrap_or_default();
        let place = message.lines().find_map(panic_place);
        let (file, line) = place.map_or((None, None), |(f, l)| (Some(f), Some(l)));
        Detail { message: message.trim().to_owned(), file, line, ..Detail::default() }
    }

    /// Takes a line; `kept` counts the bytes that all blocks of a run hold.
    pub(super) fn line(&mut self, line: &str, kept: &mut usize) {
        if let Some(counts) = summary(line) {
            self.counts = Some(counts);
            self.settle(kept);
            return;
        }
        if line == "failures:" {
            self.section = Section::Failures;
            return;
        }
        if let Some(test) = message_heading(line) {
            self.section = if self.messages.len() < MAX_FAILURES {
                Section::Message(test.to_owned())
            } else {
                Section::Failures
            };
            return;
        }
        match self.section.clone() {
            Section::Message(test) => {
                let message = self.messages.entry(test).or_default();
                if message.len() + line.len() < 2 * MAX_MESSAGE && *kept + line.len() < MAX_ID_BYTES
                {
                    *kept += line.len();
                    message.push_str(line);
                    message.push('\n');
                }
            }
            Section::Failures => {
                if let Some(name) = line.strip_prefix("    ").filter(|n| !n.starts_with(' '))
                    && self.listed.len() < MAX_IDS
                    && *kept + name.len() < MAX_ID_BYTES
                {
                    *kept += name.len();
                    self.listed.push(name.to_owned());
                }
            }
            Section::Lines => self.test(line, kept),
        }
    }

    fn test(&mut self, line: &str, kept: &mut usize) {
        if let Some(name) = &self.started
            && let Some(outcome) = status(line)
        {
            let name = name.clone();
            self.started = None;
            self.push(&name, outcome, kept);
            return;
        }
        let Some((name, rest)) = line.strip_prefix("test ").and_then(|r| r.rsplit_once(" ... "))
        else {
            return;
        };
        // `--nocapture` prints the test's own output between the name and the status.
        match status(rest) {
            Some(outcome) => self.push(name, outcome, kept),
            None => self.started = Some(name.split(" ... ").next().unwrap_or(name).to_owned()),
        }
    }

    fn push(&mut self, name: &str, outcome: Outcome, kept: &mut usize) {
        if self.results.len() >= MAX_IDS || *kept + name.len() > MAX_ID_BYTES {
            self.cut = true;
            return;
        }
        *kept += name.len();
        self.plain += 1;
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        self.results.push((name.to_owned(), outcome));
    }

    /// Adds failed tests that only the list at the end names.
    fn settle(&mut self, kept: &mut usize) {
        let known: BTreeSet<String> = self
            .results
            .iter()
            .filter(|(_, outcome)| *outcome == Outcome::Failed)
            .map(|(name, _)| name.clone())
            .collect();
        for name in std::mem::take(&mut self.listed) {
            if !known.contains(&name) {
                let plain = self.plain;
                self.push(&name, Outcome::Failed, kept);
                self.plain = plain;
            }
        }
    }
}

/// Returns the outcome that stands after a test's name.
fn status(text: &str) -> Option<Outcome> {
    let word = text.split([' ', ',']).next()?;
    match word {
        "ok" => Some(Outcome::Passed),
        "FAILED" => Some(Outcome::Failed),
        "ignored" => Some(Outcome::Skipped),
        "bench:" => Some(Outcome::Passed),
        _ => None,
    }
}

/// Returns the name in `---- name stdout ----`.
fn message_heading(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    rest.strip_suffix(" stdout").or_else(|| rest.strip_suffix(" stderr")).or(Some(rest))
}

/// Returns the counts of a `test result:` line.
fn summary(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    let mut found = Counts::default();
    for part in counts.split(';') {
        let mut words = part.split_whitespace();
        let (Some(number), Some(word)) = (words.next(), words.next()) else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        match word {
            "passed" | "measured" => found.passed = found.passed.saturating_add(number),
            "failed" => found.failed = number,
            "ignored" => found.skipped = number,
            _ => {}
        }
    }
    Some(found)
}

/// Returns file and line of a panic: `… panicked at src/lib.rs:10:37:` or, before 1.73,
/// `… panicked at 'message', src/lib.rs:10:37`.
pub(super) fn panic_place(line: &str) -> Option<(String, u32)> {
    let (_, rest) = line.split_once(" panicked at ")?;
    let rest = rest.trim_end().trim_end_matches(':');
    let rest = rest.rsplit_once("', ").map_or(rest, |(_, place)| place);
    let mut parts = rest.rsplitn(3, ':');
    let (_column, row, file) = (parts.next()?, parts.next()?, parts.next()?);
    Some((file.to_owned(), row.parse().ok()?))
}
