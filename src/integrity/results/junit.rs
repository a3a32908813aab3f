//! Reads JUnit XML as its many producers write it: any `testcase` at any depth.
//!
//! There is no binding schema. Losing a case silently is the one thing that must not happen, so
//! counts that a suite states are held against what was found.

use super::tally::{Detail, INCOMPLETE, MAX_IDS, Outcome, Tally};
use crate::domain::results::{Results, Runner};
use crate::domain::weakening::UNREAD;
use crate::integrity::xml::excess;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;

/// The largest report that is read.
pub(super) const MAX_REPORT: usize = 16 << 20;
/// The deepest element that is read.
const MAX_DEPTH: usize = 64;
/// The most elements, attributes and texts of one report.
const MAX_NODES: u32 = 1_000_000;

#[derive(Default, Clone, Copy)]
struct Counts {
    tests: u64,
    failed: u64,
}

/// Hands a well-formed report to `each`; otherwise returns why it is not one, as a sentence.
pub(super) fn with_document<T>(
    bytes: &[u8],
    name: &str,
    each: impl FnOnce(&Document<'_>) -> T,
) -> Result<T, String> {
    if bytes.len() > MAX_REPORT {
        return Err(format!("{UNREAD}the report {name} is larger than {} MiB.", MAX_REPORT >> 20));
    }
    let text = legal(bytes);
    if let Some(what) = excess(&text, MAX_DEPTH) {
        return Err(format!("The report {name} {what}."));
    }
    // A document type could define entities that grow without bound; no producer needs one.
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    match Document::parse_with_options(&text, options) {
        Ok(document) => Ok(each(&document)),
        // What a runner that left has written ends anywhere.
        Err(error) => Err(format!("{INCOMPLETE}the report {name} is not well-formed: {error}.")),
    }
}

/// Reads one report into the ledger; `name` says which in problems.
pub(super) fn read(bytes: &[u8], name: &str, tally: &mut Tally) {
    let read = with_document(bytes, name, |document| {
        let mut walk = Walk { tally: &mut *tally, name, any: false };
        walk.suite(document.root(), "", 0);
        let root = document.root_element().tag_name().name();
        if !walk.any && root != "testsuites" && root != "testsuite" {
            tally.problem(format!("The report {name} is not JUnit XML."));
        }
    });
    if let Err(problem) = read {
        tally.problem(problem);
    }
}

/// Returns how many assertions each case of a report of PHPUnit executed, by `class::name`.
pub(super) fn assertions(bytes: &[u8]) -> BTreeMap<String, u32> {
    let read = with_document(bytes, "", |document| {
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        let counted = cases.filter_map(|case| {
            let id = format!("{}::{}", case.attribute("class")?, case.attribute("name")?);
            Some((id, case.attribute("assertions")?.parse().ok()?))
        });
        counted.take(MAX_IDS).collect()
    });
    read.unwrap_or_default()
}

/// Reads one report.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut tally = Tally::new(Runner::Junit, roots);
    read(bytes, "report", &mut tally);
    tally.finish()
}

struct Walk<'a> {
    tally: &'a mut Tally,
    name: &'a str,
    any: bool,
}

impl Walk<'_> {
    fn suite(&mut self, node: Node<'_, '_>, suite: &str, depth: usize) -> Counts {
        let mut counts = Counts::default();
        for child in node.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "testcase" => {
                    self.any = true;
                    counts.tests += 1;
                    if self.case(child, suite) == Outcome::Failed {
                        counts.failed += 1;
                    }
                }
                _ if depth < MAX_DEPTH => {
                    let own =
                        child.attribute("name").filter(|_| child.tag_name().name() == "testsuite");
                    let inner = self.suite(child, own.unwrap_or(suite), depth + 1);
                    self.check(child, inner);
                    counts.tests += inner.tests;
                    counts.failed += inner.failed;
                }
                _ => {}
            }
        }
        counts
    }

    fn check(&mut self, suite: Node<'_, '_>, found: Counts) {
        let number = |name: &str| suite.attribute(name).and_then(|v| v.trim().parse::<u64>().ok());
        if let Some(tests) = number("tests")
            && tests != found.tests
        {
            let missing = if found.tests < tests { INCOMPLETE } else { "" };
            self.tally.problem(format!(
                "{missing}The report {} counts {tests} tests and holds {}.",
                self.name, found.tests
            ));
        }
        let stated = match (number("failures"), number("errors")) {
            (None, None) => return,
            (failures, errors) => {
                failures.unwrap_or_default().saturating_add(errors.unwrap_or_default())
            }
        };
        // A test may fail and its teardown err: more stated than failed cases is no contradiction
        // as long as there is one failed case.
        if (stated == 0) != (found.failed == 0) || stated < found.failed {
            self.tally.problem(format!(
                "The report {} counts {stated} failures and errors and holds {}.",
                self.name, found.failed
            ));
        }
    }

    fn case(&mut self, case: Node<'_, '_>, suite: &str) -> Outcome {
        let (outcome, message) = outcome(case);
        let name = case.attribute("name").unwrap_or_default();
        // Node writes the word `test` for every case; the suite tells more.
        let class = case.attribute("classname").filter(|class| !matches!(*class, "" | "test"));
        let id = match class.or(Some(suite).filter(|suite| !suite.is_empty())) {
            Some(owner) => format!("{owner}::{name}"),
            None => name.to_owned(),
        };
        let file = case.attribute("file").map(str::to_owned);
        let number = |name: &str| case.attribute(name).and_then(|n| n.trim().parse().ok());
        // PHPUnit counts what a test executed.
        let executed = number("assertions");
        let detail = Detail { message, file, line: number("line").filter(|n| *n > 0), executed };
        let id = if id.trim().is_empty() { "(unnamed)".to_owned() } else { id };
        self.tally.result(&id, outcome, Some(detail));
        outcome
    }
}

/// Returns the outcome of a case and its message.
pub(super) fn outcome(case: Node<'_, '_>) -> (Outcome, String) {
    let child = |names: &[&str]| {
        case.children().find(|n| n.is_element() && names.contains(&n.tag_name().name()))
    };
    let flaky = child(&["flakyFailure", "flakyError"]).is_some();
    if let Some(failure) = child(&["failure", "error"]) {
        return (Outcome::Failed, message(failure));
    }
    // Surefire: a rerun that failed too stands beside `failure`; flaky ones passed in the end.
    if !flaky && let Some(rerun) = child(&["rerunFailure", "rerunError"]) {
        return (Outcome::Failed, message(rerun));
    }
    if child(&["skipped"]).is_some() {
        return (Outcome::Skipped, String::new());
    }
    let said = |name: &str| case.attribute(name).unwrap_or_default().to_ascii_lowercase();
    match (said("status").as_str(), said("result").as_str()) {
        ("fail" | "failed" | "failure" | "error", _) | (_, "failed" | "failure" | "error") => {
            (Outcome::Failed, child(&["system-out"]).map(message).unwrap_or_default())
        }
        ("notrun" | "disabled" | "skipped" | "pending" | "ignored", _)
        | (_, "skipped" | "suppressed") => (Outcome::Skipped, String::new()),
        _ => (Outcome::Passed, String::new()),
    }
}

fn message(node: Node<'_, '_>) -> String {
    let short = node.attribute("message").unwrap_or_default();
    let long: String =
        node.descendants().filter(|n| n.is_text()).filter_map(|n| n.text()).take(64).collect();
    if short.is_empty() || long.contains(short) { long } else { format!("{short}\n{long}") }
}

/// Returns the text with what XML 1.0 forbids replaced: producers copy control characters.
fn legal(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '&' || is_forbidden(c)) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some((length, true)) = reference(rest) {
            out.push('\u{fffd}');
            rest = &rest[length..];
        } else if let Some(c) = rest.chars().next() {
            out.push(if c == '&' { '&' } else { '\u{fffd}' });
            rest = &rest[c.len_utf8()..];
        }
    }
    out.push_str(rest);
    out
}

/// Returns the length of a numeric character reference and whether XML forbids what it names.
fn reference(text: &str) -> Option<(usize, bool)> {
    let body = text.strip_prefix("&#")?;
    let end = body.bytes().take(10).position(|b| b == b';')?;
    let digits = &body[..end];
    let value = match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some((end + 3, char::from_u32(value).is_none_or(is_forbidden)))
}

fn is_forbidden(c: char) -> bool {
    (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}')
}
