//! Reads the TeamCity log that PHPUnit writes while it runs, and what its JUnit log adds.
//!
//! Format: service messages, <https://www.jetbrains.com/help/teamcity/service-messages.html>; PHPUnit
//! names a test by `locationHint='php_qn://FILE::\Class::method with data set #0'`.

use super::lines::Lines;
use super::tally::{Detail, Outcome, Tally, relative};
use crate::domain::results::{Results, Runner};
use std::collections::BTreeMap;
use std::io::Read;

/// The longest message that is read.
const MAX_RECORD: usize = 64 << 10;
/// The most tests that are open at a time; PHPUnit has one.
const MAX_OPEN: usize = 64;

/// A reader of one log.
#[derive(Debug, Default)]
struct Log {
    begun: bool,
    suites: usize,
    open: BTreeMap<String, Test>,
}

#[derive(Debug, Default)]
struct Test {
    id: String,
    file: Option<String>,
    outcome: Option<Outcome>,
    message: String,
    line: Option<u32>,
}

/// Reads one log into the ledger; `assertions` tells how many each passed test executed.
pub(super) fn read(mut source: impl Read, assertions: &BTreeMap<String, u32>, tally: &mut Tally) {
    let mut log = Log::default();
    let mut lines = Lines::with_limit(MAX_RECORD);
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = source.read(&mut buffer) {
        lines.push(&buffer[..count], &mut |line| log.line(line, assertions, tally));
    }
    lines.finish(&mut |line| log.line(line, assertions, tally));
    for test in std::mem::take(&mut log.open).into_values() {
        tally.collect(&test.id);
        tally.incomplete(format_args!("{} began and has no end.", test.id));
    }
    if !log.begun || log.suites > 0 {
        tally.incomplete("the runner's process left before the runner had finished.");
    }
}

/// Reads one log.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut tally = Tally::new(Runner::Phpunit, roots);
    read(bytes, &BTreeMap::new(), &mut tally);
    tally.finish()
}

impl Log {
    fn line(&mut self, line: &str, assertions: &BTreeMap<String, u32>, tally: &mut Tally) {
        let Some((kind, fields)) = message(line) else { return };
        let get = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
        let name = get("name").to_owned();
        match kind {
            "testCount" => self.begun = true,
            "testSuiteStarted" => {
                self.begun = true;
                self.suites += 1;
            }
            "testSuiteFinished" => self.suites = self.suites.saturating_sub(1),
            "testStarted" => {
                self.begun = true;
                if self.open.len() < MAX_OPEN {
                    let (file, id) = place(get("locationHint"), &name);
                    self.open.insert(name, Test { id, file, ..Test::default() });
                }
            }
            "testFailed" | "testIgnored" => {
                let failed = kind == "testFailed";
                let found = Test { id: name.clone(), ..Test::default() };
                // Some tests that were not started are ignored all the same.
                let known = self.open.contains_key(&name);
                let mut test = self.open.remove(&name).unwrap_or(found);
                if failed || test.outcome != Some(Outcome::Failed) {
                    test.outcome = Some(if failed { Outcome::Failed } else { Outcome::Skipped });
                }
                if failed && test.message.is_empty() {
                    test.message = format!("{}\n{}", get("message"), get("details").trim());
                    test.line = line_of(get("details"), test.file.as_deref());
                }
                if known {
                    self.open.insert(name, test);
                } else {
                    finish(test, assertions, tally);
                }
            }
            "testFinished" => {
                if let Some(test) = self.open.remove(&name) {
                    finish(test, assertions, tally);
                }
            }
            _ => {}
        }
    }
}

fn finish(test: Test, assertions: &BTreeMap<String, u32>, tally: &mut Tally) {
    let outcome = test.outcome.unwrap_or(Outcome::Passed);
    let executed = assertions.get(&test.id).copied();
    let file = test.file.map(|file| relative(&file, tally.roots()));
    let detail = Detail { message: test.message, file, line: test.line, executed };
    tally.result(&test.id, outcome, Some(detail));
}

/// Returns file and id from a location hint; without one the name is the id.
fn place(hint: &str, name: &str) -> (Option<String>, String) {
    let parts = hint.strip_prefix("php_qn://").and_then(|rest| rest.split_once("::"));
    match parts {
        Some((file, id)) => (Some(file.to_owned()), id.trim_start_matches('\\').to_owned()),
        None => (None, name.to_owned()),
    }
}

/// Returns the line of the test's own file in a stack of `FILE:LINE`.
fn line_of(details: &str, file: Option<&str>) -> Option<u32> {
    let file = file?;
    details.lines().find_map(|line| {
        line.trim().strip_prefix(file)?.strip_prefix(':')?.parse().ok().filter(|n| *n > 0)
    })
}

/// Reads `##teamcity[kind key='value' …]`.
fn message(line: &str) -> Option<(&str, BTreeMap<&str, String>)> {
    let body = line.trim().strip_prefix("##teamcity[")?.strip_suffix(']')?;
    let (kind, mut rest) = body.split_once(' ').unwrap_or((body, ""));
    let mut fields = BTreeMap::new();
    while let Some((key, after)) = rest.split_once("='") {
        let (value, next) = value(after)?;
        fields.insert(key.trim(), value);
        rest = next;
    }
    Some((kind, fields))
}

/// Reads a value up to its quote; `|` escapes.
fn value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((value, &text[at + 1..])),
            '|' => match chars.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                '0' => {
                    // `|0x00E9`
                    let code = text.get(at + 3..at + 7)?;
                    let code = u32::from_str_radix(code, 16).ok()?;
                    value.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                    chars.nth(4)?;
                }
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Results {
        let mut tally = Tally::new(Runner::Phpunit, &["/w".to_owned()]);
        let assertions = BTreeMap::from([("App\\ATest::testGood".to_owned(), 2)]);
        read(text.as_bytes(), &assertions, &mut tally);
        tally.finish()
    }

    const HEAD: &str = "\n##teamcity[testCount count='3' flowId='1']\n
##teamcity[testSuiteStarted name='App\\ATest' flowId='1']
##teamcity[testStarted name='testGood' locationHint='php_qn:///w/ATest.php::\\App\\ATest::testGood' flowId='1']
##teamcity[testFinished name='testGood' duration='16' flowId='1']
";

    #[test]
    fn outcomes_places_and_assertions_are_read() {
        let r = parse(&format!(
            "{HEAD}##teamcity[testStarted name='testBad with data set \"|'|||]\"' locationHint='php_qn:///w/ATest.php::\\App\\ATest::testBad with data set \"|'|||]\"' flowId='1']
##teamcity[testFailed name='testBad with data set \"|'|||]\"' message='no |0x00e9' details=' /w/src/A.php:3|n /w/ATest.php:5|n ' duration='2' flowId='1']
##teamcity[testFinished name='testBad with data set \"|'|||]\"' duration='2' flowId='1']
##teamcity[testIgnored name='testSkip' message='later' flowId='1']
##teamcity[testSuiteFinished name='App\\ATest' flowId='1']\n"
        ));
        let bad = "App\\ATest::testBad with data set \"'|]\"";
        assert!(r.passed.contains("App\\ATest::testGood") && r.failed.contains(bad), "{r:#?}");
        assert!(r.skipped.contains("testSkip") && r.problems.is_empty(), "{r:#?}");
        assert_eq!(r.executed.get("App\\ATest::testGood"), Some(&2));
        let failure = &r.failures[0];
        assert!(failure.message.starts_with("no é"), "{failure:#?}");
        assert_eq!((failure.file.as_deref(), failure.line), (Some("ATest.php"), Some(5)));
    }

    #[test]
    fn a_log_without_its_end_is_incomplete() {
        let r = parse(&format!(
            "{HEAD}##teamcity[testStarted name='testQuit' locationHint='php_qn:///w/ATest.php::\\App\\ATest::testQuit' flowId='1']\n"
        ));
        assert!(r.unknown().contains("App\\ATest::testQuit"), "{r:#?}");
        assert!(r.problems.iter().all(|problem| problem.starts_with("incomplete: ")));
        assert_eq!(r.problems.len(), 2);
        assert_eq!(parse("").problems.len(), 1);
    }
}
