//! What hurts: the halt reason, breaches, failing tests; each with file and line where one is known.
//!
//! How many a platform shows, and how it is told, is the duty of the platforms' files.

use crate::domain::evidence::Breach;
use crate::domain::reason::HaltReason;
use crate::error::Error;
use crate::report::explain::explain;
use crate::report::model::{HaltView, IterationView, Report, Standing};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The slug of a failing test.
pub const TEST_FAILED: &str = "test_failed";
/// The slug of a red check that names no tests.
pub const CHECK_FAILED: &str = "check_failed";
/// The slug of a guard that does not hold.
pub const BREACH: &str = "breach";
/// The slug of a finding against the check.
pub const CHECK_UNTRUSTED: &str = "check_untrusted";
/// The slug of a run without an end on which nobody works.
pub const INCOMPLETE: &str = "incomplete";
/// The slug of a limit that ended a process.
pub const LIMIT_HIT: &str = "limit_hit";
/// The slug of what people should know.
pub const NOTE: &str = "note";
/// The slug of what stands for those left out.
pub const MORE: &str = "more";

/// Characters of a message; GitHub's runner cuts there, other platforms take more.
pub const MESSAGE_CHARS: usize = 4_096;
/// Characters of a title.
const TITLE_CHARS: usize = 200;
/// Failing tests that are findings of their own.
const TESTS: usize = 1_000;
/// Breaches and findings against the check, of all iterations.
const VETOES: usize = 100;
/// Notes and limits.
const NOTES: usize = 5;
/// Bytes of a path; Linux takes no longer one.
const PATH_BYTES: usize = 4_096;

/// How bad a finding is; worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It fails the job.
    Error,
    /// It should be looked at.
    Warning,
    /// It is good to know.
    Notice,
}

/// One thing that hurts. Texts are as they were recorded: hostile until a platform's file escapes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// A stable slug of what it is: a halt reason, `test_failed`, `breach`, `check_untrusted`.
    pub rule: String,
    /// A few words.
    pub title: String,
    /// What is wrong; may have several lines.
    pub message: String,
    /// The file: relative to the repository's root, `/` between parts, without `./`.
    pub file: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u32>,
}

impl Finding {
    /// Makes a finding about no file, its texts bounded.
    pub fn new(level: Level, rule: &str, title: &str, message: &str) -> Self {
        Self {
            level,
            rule: rule.to_owned(),
            title: bounded(title, TITLE_CHARS),
            message: bounded(message, MESSAGE_CHARS),
            file: None,
            line: None,
        }
    }

    /// Adds where it is; a line without a file says nothing.
    pub fn at(mut self, file: Option<String>, line: Option<u32>) -> Self {
        self.line = line.filter(|line| *line > 0 && file.is_some());
        self.file = file;
        self
    }
}

/// Returns what hurts in a run: the halt reason, breaches, findings against the check, failing
/// tests, then a few notes.
///
/// `prefix` is the folder that paths of the report start from, relative to the repository's root;
/// empty where it is the root.
pub fn of_report(report: &Report, prefix: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(halt(report));
    vetoes(&mut findings, report, prefix);
    tests(&mut findings, report, prefix);
    notes(&mut findings, report);
    findings
}

/// Returns what hurts where a run was refused: the one error, at the place it is about.
pub fn of_error(error: &Error, prefix: &str) -> Vec<Finding> {
    let name = error.kind.name();
    let mut message = error.to_string();
    for hint in &error.hints {
        message.push('\n');
        message.push_str(hint);
    }
    let place = error.place.as_deref();
    let file = place.and_then(|place| repository_path(prefix, &place.file));
    let line = place.and_then(|place| u32::try_from(place.line).ok());
    let title = match error.detail {
        Some(detail) => format!("loopexec: {name} ({detail})"),
        None => format!("loopexec: {name}"),
    };
    vec![Finding::new(Level::Error, name, &title, &message).at(file, line)]
}

/// Returns a path relative to the repository's root, `/` between parts and nothing to resolve in
/// it; none for one that lies outside, is absolute, or could not name a file of a repository.
///
/// `\` separates too, as runners on Windows print it and platforms read it.
pub fn repository_path(prefix: &str, file: &str) -> Option<String> {
    let slashed = file.replace('\\', "/");
    let has_drive =
        matches!(slashed.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let foreign = slashed.starts_with('/') || has_drive || slashed.contains("://");
    if foreign || slashed.len() > PATH_BYTES || slashed.chars().any(char::is_control) {
        return None;
    }
    let prefix = prefix.replace('\\', "/");
    let mut parts: Vec<&str> = Vec::new();
    for part in prefix.split('/').chain(slashed.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    // A path that ends by going up, or stays where it is, names a folder at best.
    let last = slashed.split('/').rfind(|part| !matches!(*part, "" | "."));
    let named = last.is_some_and(|last| last != "..");
    // What git keeps for itself is no file of the repository.
    (named && !parts.contains(&".git")).then(|| parts.join("/"))
}

/// Returns the text, its end replaced by `…` where it has more than so many characters.
///
/// Characters are counted as UTF-16 does, because the platforms do.
pub fn bounded(text: &str, most: usize) -> String {
    // No character takes more units than bytes.
    if text.len() <= most {
        return text.to_owned();
    }
    let mut units = 0;
    let mut room = 0;
    for (at, character) in text.char_indices() {
        units += character.len_utf16();
        if units < most {
            room = at + character.len_utf8();
        }
        if units > most {
            return format!("{}…", &text[..room]);
        }
    }
    text.to_owned()
}

fn halt(report: &Report) -> Option<Finding> {
    let name = if report.name.is_empty() { "loopexec" } else { &report.name };
    let Some(halt) = &report.halt else {
        let message = format!("The run has no end and nobody works on it: {}", report.resume);
        let title = format!("{name}: incomplete");
        return (report.standing == Standing::Incomplete)
            .then(|| Finding::new(Level::Warning, INCOMPLETE, &title, &message));
    };
    let reason = halt.reason;
    let (level, title) = match reason {
        HaltReason::SuccessConditionMet => (Level::Notice, format!("{name}: converged")),
        _ => (
            Level::Error,
            format!("{name}: halted, {reason} (exit {}, {})", halt.exit_code, halt.exit_class),
        ),
    };
    Some(Finding::new(level, reason.as_str(), &title, &told(halt)))
}

/// Returns why a run halted and what to do about it, one thing a line.
fn told(halt: &HaltView) -> String {
    let mut message = halt.why.clone();
    if halt.reason == HaltReason::SuccessConditionMet {
        return message;
    }
    let general = [explain(halt.reason).mend.to_owned()];
    let next = if halt.next.is_empty() { &general[..] } else { &halt.next[..] };
    for line in next {
        message.push('\n');
        message.push_str(line);
    }
    message
}

/// Says what vetoed: in the last iteration of a halted run it is why, before that it was mended.
fn vetoes(findings: &mut Vec<Finding>, report: &Report, prefix: &str) {
    let halted =
        report.halt.as_ref().is_some_and(|halt| halt.reason != HaltReason::SuccessConditionMet);
    let last = report.iterations.last().map(|iteration| iteration.iteration);
    let level = |iteration: &IterationView| match halted && Some(iteration.iteration) == last {
        true => Level::Error,
        false => Level::Warning,
    };
    let mut seen = BTreeSet::new();
    let mut breaches = Vec::new();
    let mut checks = Vec::new();
    // The last iteration first: it is the one that decided.
    for iteration in report.iterations.iter().rev() {
        for breach in &iteration.breaches {
            if seen.insert((breach.guard.as_str(), breach.what.as_str())) {
                breaches.push(breached(breach, level(iteration), prefix));
            }
        }
        if let Some(found) = &iteration.oracle
            && seen.insert((CHECK_UNTRUSTED, found.what.as_str()))
        {
            let title = format!("the check: {}", found.reason);
            let message = std::iter::once(&found.what).chain(&found.hints);
            let message = message.map(String::as_str).collect::<Vec<_>>().join("\n");
            checks.push(Finding::new(level(iteration), CHECK_UNTRUSTED, &title, &message));
        }
        if breaches.len() + checks.len() >= VETOES {
            break;
        }
    }
    findings.append(&mut breaches);
    findings.append(&mut checks);
}

fn breached(breach: &Breach, level: Level, prefix: &str) -> Finding {
    let title = format!("guard does not hold: {}", breach.guard);
    // Recorded paths are escaped: one with a backslash has bytes that no platform can be told.
    let file = match breach.path.contains('\\') {
        true => None,
        false => repository_path(prefix, &breach.path),
    };
    Finding::new(level, BREACH, &title, &breach.what).at(file, breach.line)
}

/// Says which tests fail in the last state that was measured.
fn tests(findings: &mut Vec<Finding>, report: &Report, prefix: &str) {
    let level = match &report.halt {
        // They do not decide: the green is one of `check.targets`, or they are quarantined.
        Some(halt) if halt.reason == HaltReason::SuccessConditionMet => Level::Notice,
        Some(_) => Level::Error,
        None => Level::Warning,
    };
    let known: BTreeMap<&str, _> =
        report.failures.iter().rev().map(|failure| (failure.id.as_ref(), failure)).collect();
    let mut seen = BTreeSet::new();
    let with_message = report.failures.iter().map(|failure| failure.id.as_ref());
    let ids = with_message.chain(failing(report).iter().map(String::as_str));
    let ids: Vec<&str> = ids.filter(|id| seen.insert(*id)).collect();
    let has_tests = has_tests(report);
    for id in ids.iter().take(TESTS) {
        let (rule, title) = match has_tests {
            true => (TEST_FAILED, format!("test failed: {id}")),
            false => (CHECK_FAILED, "the check is red".to_owned()),
        };
        let failure = known.get(id);
        let message = failure.map(|failure| failure.message.trim()).unwrap_or_default();
        let message = match (message.is_empty(), has_tests) {
            (false, true) => format!("{id}\n{message}"),
            (false, false) => message.to_owned(),
            (true, _) => format!("{id} fails in the last state that was measured."),
        };
        let file = failure.and_then(|failure| failure.file.as_deref());
        let file = file.and_then(|file| repository_path(prefix, file));
        let line = failure.and_then(|failure| failure.line);
        findings.push(Finding::new(level, rule, &title, &message).at(file, line));
    }
    if ids.len() > TESTS {
        let message = format!("{} more tests fail; the receipt names them.", ids.len() - TESTS);
        findings.push(Finding::new(level, MORE, "more failing tests", &message));
    }
}

/// Returns the ids that fail in the last state that was measured.
pub(super) fn failing(report: &Report) -> &[String] {
    let measured = report.iterations.iter().rev().find(|iteration| iteration.measured);
    let baseline = report.baseline.as_ref().filter(|baseline| baseline.measured);
    match (measured, baseline) {
        (Some(iteration), _) => &iteration.failing,
        (None, Some(baseline)) => &baseline.failing,
        (None, None) => &[],
    }
}

/// Tells whether the results of the check name tests.
pub(super) fn has_tests(report: &Report) -> bool {
    let later = report.iterations.iter().rev().find_map(|iteration| iteration.check.as_ref());
    let first = report.baseline.as_ref().and_then(|baseline| baseline.runs.last());
    later.or(first).is_none_or(|run| run.has_tests)
}

fn notes(findings: &mut Vec<Finding>, report: &Report) {
    let of_baseline = report.baseline.iter().flat_map(|baseline| &baseline.notes);
    let of_last = report.iterations.last().into_iter().flat_map(|iteration| &iteration.notes);
    let notes =
        of_last.chain(of_baseline).map(|note| Finding::new(Level::Notice, NOTE, "note", note));
    let mut seen = BTreeSet::new();
    let limits = report.limits_hit.iter().rev().filter_map(|hit| {
        let word = |key: &str| hit.get(key).and_then(Value::as_str).unwrap_or("?");
        let message = match word("limit") {
            // It ends nobody: no further process could be started.
            "pids" => format!("The limit `pids` was reached in {}.", word("step")),
            limit => format!("The limit `{limit}` ended {}.", word("step")),
        };
        seen.insert(message.clone())
            .then(|| Finding::new(Level::Notice, LIMIT_HIT, "limit hit", &message))
    });
    findings.extend(limits.chain(notes).take(NOTES));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use proptest::prelude::*;

    #[test]
    fn paths_start_at_the_root_of_the_repository() {
        let path = |prefix, file| repository_path(prefix, file).unwrap_or_default();
        assert_eq!(path("", "./src/a.rs"), "src/a.rs");
        assert_eq!(path("", "src\\b\\a.rs"), "src/b/a.rs");
        assert_eq!(path("sub", "a.rs"), "sub/a.rs");
        assert_eq!(path("./sub/", "../a.rs"), "a.rs");
        assert_eq!(path("", "a//b/./c"), "a/b/c");
        for outside in [
            "",
            ".",
            "..",
            "a/..",
            "/etc/passwd",
            "../a.rs",
            "C:\\a.rs",
            "c:/a",
            "\\\\?\\C:\\a",
            "a\nb",
            "https://x/y",
            ".git/config",
            "sub/.git/hooks/x",
        ] {
            assert_eq!(repository_path("", outside), None, "{outside:?}");
        }
        assert_eq!(repository_path("sub", ".."), None);
        assert_eq!(repository_path("", &"a/".repeat(3_000)), None);
    }

    #[test]
    fn an_error_is_told_at_its_place() {
        let error = Error::new(Kind::ConfigInvalid, "loop.yml:3:5: unknown key")
            .at("./loop.yml", 3, 5)
            .hint("Did you mean `check`?");
        let findings = of_error(&error, "app");
        assert_eq!(findings.len(), 1);
        let found = &findings[0];
        assert_eq!((found.level, found.rule.as_str()), (Level::Error, "config_invalid"));
        assert_eq!((found.file.as_deref(), found.line), (Some("app/loop.yml"), Some(3)));
        assert_eq!(found.message, "loop.yml:3:5: unknown key\nDid you mean `check`?");
        let nowhere = of_error(&Error::new(Kind::WorkspaceInvalid, "no").at("/x.yml", 1, 1), "");
        assert_eq!((nowhere[0].file.as_deref(), nowhere[0].line), (None, None));
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_repository(prefix in "[a./\\\\]{0,6}", file in "[a-c./\\\\:~ ]{0,16}") {
            if let Some(path) = repository_path(&prefix, &file) {
                prop_assert!(!path.contains('\\') && !path.is_empty());
                prop_assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")));
            }
        }

        #[test]
        fn a_bounded_text_is_the_whole_or_its_beginning(text in ".{0,40}", most in 1usize..40) {
            let short = bounded(&text, most);
            prop_assert!(short.encode_utf16().count() <= most);
            match text.encode_utf16().count() <= most {
                true => prop_assert_eq!(short, text),
                false => prop_assert!(text.starts_with(short.strip_suffix('…').unwrap())),
            }
        }
    }
}
