//! The ledger every reader writes into: clean ids, ordinals for duplicates, bounded memory.
//!
//! What a line of a runner means is the duty of the reader of that runner.

use crate::domain::normalise;
use crate::domain::results::{Failure, Results, Runner, TestId};
use crate::domain::weakening::UNREAD;
use std::collections::{BTreeMap, BTreeSet};

/// The name of a test whose own has no character that can be shown.
const UNNAMED: &str = "(unnamed)";

/// The most ids that one run of a check may leave.
pub(super) const MAX_IDS: usize = 100_000;
/// The most bytes of ids that one reader keeps.
pub(super) const MAX_ID_BYTES: usize = 8 << 20;
/// The most failures with a message.
pub(super) const MAX_FAILURES: usize = 200;
/// The most bytes of one message.
pub(super) const MAX_MESSAGE: usize = 4096;
/// The most problems that are kept.
const MAX_PROBLEMS: usize = 32;

/// How every sentence begins that says that results are missing.
pub(super) const INCOMPLETE: &str = "incomplete: ";

/// What a runner said about one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It passed.
    Passed,
    /// It failed or ended in error.
    Failed,
    /// It was skipped, ignored or expected to fail.
    Skipped,
}

/// What a runner said about a test besides its outcome.
#[derive(Debug, Clone, Default)]
pub(super) struct Detail {
    /// The message of a failed test, of any length.
    pub(super) message: String,
    /// The file it points at.
    pub(super) file: Option<String>,
    /// The line in that file, from 1.
    pub(super) line: Option<u32>,
    /// How many assertions it executed.
    pub(super) executed: Option<u32>,
}

/// Per-test results under construction.
#[derive(Debug)]
pub(super) struct Tally {
    results: Results,
    roots: Vec<String>,
    seen: BTreeMap<TestId, (u32, u32)>,
    bytes: usize,
    full: bool,
}

impl Tally {
    /// Starts the ledger of a runner; `roots` are absolute folders that ids and files lose.
    pub(super) fn new(runner: Runner, roots: &[String]) -> Self {
        Self {
            results: Results::new(runner),
            roots: roots.to_vec(),
            seen: BTreeMap::new(),
            bytes: 0,
            full: false,
        }
    }

    /// Adds a folder that ids and files lose.
    pub(super) fn add_root(&mut self, root: &str) {
        if root.len() > 1 && root.starts_with('/') && self.roots.len() < 16 {
            let root = root.trim_end_matches('/').to_owned();
            if !self.roots.contains(&root) {
                self.roots.push(root);
            }
        }
    }

    /// Returns the folders that ids and files lose.
    pub(super) fn roots(&self) -> &[String] {
        &self.roots
    }

    /// Tells whether nothing was recorded: no id, no broken build, no problem.
    pub(super) fn is_empty(&self) -> bool {
        self.results.collected.is_empty()
            && self.results.broken.is_none()
            && self.results.problems.is_empty()
    }

    /// Records that the runner collected a test; a repeated name gets an ordinal.
    pub(super) fn collect(&mut self, raw: &str) {
        self.number(raw, Mark::Collected);
    }

    /// Records the result of a test; a repeated name gets an ordinal.
    pub(super) fn result(&mut self, raw: &str, outcome: Outcome, detail: Option<Detail>) {
        let Some(id) = self.number(raw, Mark::Result) else { return };
        match outcome {
            Outcome::Passed => {
                if let Some(executed) = detail.and_then(|detail| detail.executed) {
                    self.results.executed.insert(id.clone(), executed);
                }
                self.results.passed.insert(id)
            }
            Outcome::Skipped => self.results.skipped.insert(id),
            Outcome::Failed => {
                if let Some(detail) = detail {
                    self.push_failure(id.clone(), detail);
                }
                self.results.failed.insert(id)
            }
        };
    }

    /// Records that a runner left before it had finished: results are missing, not wrong.
    pub(super) fn incomplete(&mut self, sentence: impl std::fmt::Display) {
        self.problem(format!("{INCOMPLETE}{sentence}"));
    }

    /// Records that there is more than is read, before all else that does not fit together.
    pub(super) fn unread(&mut self) {
        self.unread_because(format_args!(
            "the check reports more than {MAX_IDS} tests or {} MiB of names; the rest was not read.",
            MAX_ID_BYTES >> 20
        ));
    }

    /// The same, for another reason.
    pub(super) fn unread_because(&mut self, sentence: impl std::fmt::Display) {
        push_first(&mut self.results.problems, format!("{UNREAD}{sentence}"));
    }

    /// Records that a build or a collection failed; the first message stays.
    pub(super) fn broken(&mut self, message: &str) {
        if self.results.broken.is_none() {
            self.results.broken = Some(bound_message(message));
        }
    }

    /// Records a sentence about what does not fit together.
    pub(super) fn problem(&mut self, sentence: impl Into<String>) {
        let sentence = bound_message(&sentence.into());
        if self.results.problems.len() < MAX_PROBLEMS && !self.results.problems.contains(&sentence)
        {
            self.results.problems.push(sentence);
        }
    }

    /// Returns the results.
    pub(super) fn finish(self) -> Results {
        self.results
    }

    fn push_failure(&mut self, id: TestId, detail: Detail) {
        if self.results.failures.len() >= MAX_FAILURES {
            return;
        }
        let file = detail.file.map(|file| bound(&relative(&clean_text(&file), &self.roots), 512));
        let message = bound_message(&detail.message);
        self.results.failures.push(Failure { id, message, file, line: detail.line });
    }

    fn number(&mut self, raw: &str, mark: Mark) -> Option<TestId> {
        if raw.is_empty() {
            return None;
        }
        let id = match clean_id(raw, &self.roots) {
            // Control characters alone: a test all the same.
            id if id.is_empty() => UNNAMED.to_owned(),
            id => id,
        };
        // What is known already has its result read though there is no room for more names.
        let no_room = self.seen.len() >= MAX_IDS || self.bytes + id.len() > MAX_ID_BYTES;
        if (self.full || no_room) && !self.seen.contains_key(id.as_str()) {
            self.full = true;
            self.unread();
            return None;
        }
        let id: TestId = id.into();
        let before = self.bytes;
        let counts = self.seen.entry(id.clone()).or_insert_with(|| {
            self.bytes = before + id.len();
            (0, 0)
        });
        let nth = match mark {
            Mark::Collected => {
                counts.0 += 1;
                counts.0
            }
            Mark::Result => {
                counts.1 += 1;
                counts.1
            }
        };
        let id = if nth == 1 { id } else { format!("{id}#{nth}").into() };
        if self.results.collected.len() >= MAX_IDS && !self.results.collected.contains(&id) {
            self.unread();
            return None;
        }
        self.results.collected.insert(id.clone());
        Some(id)
    }
}

#[derive(Clone, Copy)]
enum Mark {
    Collected,
    Result,
}

/// Returns a name as a stable id: one line, no escapes, no roots, no addresses, at most 512 bytes.
pub(super) fn clean_id(raw: &str, roots: &[String]) -> String {
    let text = clean_text(raw);
    let mut text = text.trim().to_owned();
    for root in roots {
        let folder = format!("{root}/");
        if text.contains(&folder) {
            text = text.replace(&folder, "");
        }
    }
    if text.contains("0x") {
        text = normalise::mask_addresses(&text);
    }
    bound(&text, 512)
}

/// Returns text without terminal escapes; control characters become spaces.
pub(super) fn clean_text(raw: &str) -> String {
    let text = normalise::strip_ansi(raw);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns a path without the first root that it lies in.
pub(super) fn relative(path: &str, roots: &[String]) -> String {
    let path = path.strip_prefix("file://").unwrap_or(path);
    for root in roots {
        if let Some(rest) = path.strip_prefix(root.as_str()).and_then(|r| r.strip_prefix('/')) {
            return rest.to_owned();
        }
    }
    path.strip_prefix("./").unwrap_or(path).to_owned()
}

/// Returns at most `most` bytes of text; what is cut is replaced by a digest of the whole.
pub(super) fn bound(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let digest = crate::domain::hex::sha256(text.as_bytes());
    let mut end = most.saturating_sub(18);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{}", &text[..end], &digest[..16])
}

/// Returns a message of at most 4 KiB: its beginning and its end.
pub(super) fn bound_message(text: &str) -> String {
    let text = normalise::strip_ansi(text);
    let text: String =
        text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let text = text.trim_matches('\n');
    if text.len() <= MAX_MESSAGE {
        return text.to_owned();
    }
    let mut head = MAX_MESSAGE - 1100;
    while !text.is_char_boundary(head) {
        head -= 1;
    }
    let mut tail = text.len() - 1024;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    format!("{}\n[… {} bytes left out …]\n{}", &text[..head], tail - head, &text[tail..])
}

/// Adds a sentence that no other may push out.
fn push_first(problems: &mut Vec<String>, sentence: String) {
    if !problems.contains(&sentence) {
        problems.insert(0, sentence);
        problems.truncate(MAX_PROBLEMS);
    }
}

/// Joins two results of one run; ids that both have are told apart by the runner's name.
pub(super) fn union(mut all: Vec<Results>) -> Option<Results> {
    all.sort_by_key(|part| std::cmp::Reverse(part.collected.len()));
    let mut parts = all.into_iter();
    let mut whole = parts.next()?;
    for part in parts {
        let name = serde_json::to_value(part.runner)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default();
        let common: BTreeSet<TestId> =
            part.collected.intersection(&whole.collected).cloned().collect();
        let own = |id: TestId| -> TestId {
            if common.contains(&id) { format!("{name}: {id}").into() } else { id }
        };
        whole.collected.extend(part.collected.into_iter().map(own));
        whole.passed.extend(part.passed.into_iter().map(own));
        whole.failed.extend(part.failed.into_iter().map(own));
        whole.skipped.extend(part.skipped.into_iter().map(own));
        whole.executed.extend(part.executed.into_iter().map(|(id, count)| (own(id), count)));
        let room = MAX_FAILURES.saturating_sub(whole.failures.len());
        whole
            .failures
            .extend(part.failures.into_iter().map(|f| Failure { id: own(f.id), ..f }).take(room));
        whole.broken = whole.broken.or(part.broken);
        for problem in part.problems {
            if problem.starts_with(UNREAD) {
                push_first(&mut whole.problems, problem);
            } else if whole.problems.len() < MAX_PROBLEMS && !whole.problems.contains(&problem) {
                whole.problems.push(problem);
            }
        }
    }
    Some(whole)
}
