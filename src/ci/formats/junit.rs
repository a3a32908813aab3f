//! JUnit XML: one suite for the loop, with a case for the verdict and one for each failing test.
//!
//! There is no binding schema; the elements and attributes are those that GitLab, Jenkins, CircleCI
//! and Azure read. No `system-out` is written: GitLab and Jenkins look for attachments in it, and
//! what a test printed must not become one.

use super::{identity, legal};
use crate::ci::finding;
use crate::ci::subject::Subject;
use crate::domain::reason::HaltReason;
use crate::domain::results::Failure;
use crate::report::model::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The most cases of failing tests; one more case says how many are left.
const MAX_CASES: usize = 1_000;
/// The most characters of a message in an attribute.
const MAX_LINE: usize = 500;
/// The most characters of a text.
const MAX_TEXT: usize = 4_096;

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Errored,
    Skipped,
}

struct Case {
    classname: String,
    name: String,
    file: Option<String>,
    line: Option<u32>,
    seconds: String,
    outcome: Outcome,
    kind: String,
    message: String,
    text: String,
}

/// Returns the report. A halt that does not fail the job, and its tests, are skipped and not
/// failed: a collector of reports would otherwise fail what loopexec does not.
pub fn junit(subject: &Subject) -> String {
    let suite = format!("loopexec: {}", legal::line(&subject.key.name, 200));
    let mut cases = vec![verdict(subject)];
    cases.extend(tests(subject));
    let time = seconds(subject.report.as_ref().map_or(0, |report| report.elapsed_ms));
    let count = |outcome| cases.iter().filter(|case| case.outcome == outcome).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{time}\"",
        cases.len(),
        count(Outcome::Failed),
        count(Outcome::Errored),
        count(Outcome::Skipped),
    );
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(xml, "<testsuites name=\"loopexec\" {counts}>");
    let _ = write!(xml, "  <testsuite name=\"{}\" {counts}", attribute(&suite));
    if let Some(started) = subject.report.as_ref().and_then(|report| report.started.as_deref()) {
        let _ = write!(xml, " timestamp=\"{}\"", attribute(&legal::line(started, 40)));
    }
    xml.push_str(">\n    <properties>\n");
    for (name, value) in properties(subject) {
        let value = attribute(&legal::line(&value, MAX_LINE));
        let _ = writeln!(xml, "      <property name=\"{name}\" value=\"{value}\"/>");
    }
    xml.push_str("    </properties>\n");
    for case in &cases {
        write_case(&mut xml, case);
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

fn properties(subject: &Subject) -> Vec<(&'static str, String)> {
    let mut listed = vec![("loopexec.run_id", subject.run_id.clone())];
    if let Some(halt) = &subject.halt {
        listed.push(("loopexec.halt_reason", halt.reason.to_string()));
        listed.push(("loopexec.exit_class", halt.exit_class.to_owned()));
        listed.push(("loopexec.exit_code", halt.exit_code.to_string()));
    }
    if let Some(report) = &subject.report {
        listed.push(("loopexec.loop_digest", report.loop_digest.clone()));
        listed.push(("loopexec.receipt", report.receipt.clone()));
        listed.push(("loopexec.head", report.head.clone()));
        listed.push(("loopexec.iterations", report.iterations.len().to_string()));
    }
    listed.extend(subject.links.job.clone().map(|url| ("loopexec.job", url)));
    listed
}

fn verdict(subject: &Subject) -> Case {
    let (outcome, kind, message, text) = match &subject.halt {
        None => {
            let text = "The run has no end: it was killed, or it still runs.";
            (Outcome::Errored, "incomplete".to_owned(), text.to_owned(), text.to_owned())
        }
        Some(halt) => {
            let text = std::iter::once(&halt.why).chain(&halt.next).fold(
                String::new(),
                |mut text, line| {
                    text.push_str(line);
                    text.push('\n');
                    text
                },
            );
            let outcome = match (halt.reason, subject.fails) {
                (HaltReason::SuccessConditionMet, false) => Outcome::Passed,
                (_, true) => Outcome::Failed,
                (_, false) => Outcome::Skipped,
            };
            let message = format!("{}: {}", halt.reason, halt.why);
            (outcome, halt.reason.to_string(), message, text)
        }
    };
    Case {
        classname: format!("loopexec.{}", subject.key.name),
        name: "verdict".to_owned(),
        file: None,
        line: None,
        seconds: seconds(subject.report.as_ref().map_or(0, |report| report.elapsed_ms)),
        outcome,
        kind,
        message,
        text,
    }
}

/// Returns a case for each test that fails in the last state that was measured.
fn tests(subject: &Subject) -> Vec<Case> {
    let Some(report) = &subject.report else { return Vec::new() };
    let converged = HaltReason::SuccessConditionMet;
    if subject.halt.as_ref().is_some_and(|halt| halt.reason == converged) {
        return Vec::new();
    }
    let outcome = if subject.fails { Outcome::Failed } else { Outcome::Skipped };
    let failing = failing(report);
    let case = |name: &str, known: Option<&Failure>| Case {
        classname: format!("loopexec.{}.check", subject.key.name),
        name: name.to_owned(),
        file: known.and_then(|failure| identity::file(failure.file.as_deref())),
        line: known.and_then(|failure| failure.line),
        seconds: seconds(0),
        outcome,
        kind: "test_failed".to_owned(),
        message: known
            .and_then(|failure| failure.message.lines().find(|line| !line.trim().is_empty()))
            .unwrap_or("failed")
            .to_owned(),
        text: known.map(|failure| failure.message.clone()).unwrap_or_default(),
    };
    let mut cases: Vec<Case> =
        failing.iter().take(MAX_CASES).map(|(id, known)| case(id, *known)).collect();
    if failing.len() > MAX_CASES {
        cases.push(case(&format!("{} more failing tests", failing.len() - MAX_CASES), None));
    }
    cases
}

/// Returns the ids that fail in the last state that was measured, with what is known of each.
fn failing(report: &Report) -> Vec<(&str, Option<&Failure>)> {
    let known: BTreeMap<&str, &Failure> =
        report.failures.iter().rev().map(|failure| (&*failure.id, failure)).collect();
    let told = report.failures.iter().map(|failure| &*failure.id);
    let ids = told.chain(finding::failing(report).iter().map(String::as_str));
    let mut seen = BTreeSet::new();
    ids.filter(|id| seen.insert(*id)).map(|id| (id, known.get(id).copied())).collect()
}

fn write_case(xml: &mut String, case: &Case) {
    let classname = attribute(&legal::line(&case.classname, MAX_LINE));
    let name = attribute(&legal::line(&case.name, MAX_LINE));
    let _ = write!(xml, "    <testcase classname=\"{classname}\" name=\"{name}\"");
    if let Some(file) = &case.file {
        let _ = write!(xml, " file=\"{}\"", attribute(file));
        if let Some(line) = case.line {
            let _ = write!(xml, " line=\"{line}\"");
        }
    }
    let _ = write!(xml, " time=\"{}\"", case.seconds);
    let message = attribute(&legal::line(&case.message, MAX_LINE));
    let element = match case.outcome {
        Outcome::Passed => {
            xml.push_str("/>\n");
            return;
        }
        Outcome::Skipped => {
            let _ = writeln!(xml, ">\n      <skipped message=\"{message}\"/>\n    </testcase>");
            return;
        }
        Outcome::Failed => "failure",
        Outcome::Errored => "error",
    };
    let kind = attribute(&legal::line(&case.kind, 100));
    let text = content(&legal::text(&case.text, MAX_TEXT));
    let _ = writeln!(
        xml,
        ">\n      <{element} type=\"{kind}\" message=\"{message}\">{text}</{element}>\n    </testcase>"
    );
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Escapes text of legal characters for an attribute in double quotes (XML 1.0, 2.3 and 3.3.3: what
/// is not written as a reference is normalised to spaces).
pub fn attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            c => push_content(&mut escaped, c),
        }
    }
    escaped
}

/// Escapes text of legal characters for the content of an element (XML 1.0, 2.4).
pub fn content(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    text.chars().for_each(|c| push_content(&mut escaped, c));
    escaped
}

fn push_content(escaped: &mut String, c: char) {
    match c {
        '&' => escaped.push_str("&amp;"),
        '<' => escaped.push_str("&lt;"),
        // `]]>` may not stand in content.
        '>' => escaped.push_str("&gt;"),
        '\r' => escaped.push_str("&#13;"),
        c => escaped.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_comes_back_out_of_the_xml(given in any::<String>()) {
            let given = legal::text(&given, usize::MAX);
            let xml = format!("<a b=\"{}\">{}</a>", attribute(&given), content(&given));
            let document = roxmltree::Document::parse(&xml).unwrap();
            let root = document.root_element();
            prop_assert_eq!(root.attribute("b"), Some(given.as_str()));
            prop_assert_eq!(root.text().unwrap_or(""), given.as_str());
            prop_assert_eq!(root.children().count(), usize::from(!given.is_empty()));
        }
    }
}
