//! GitLab's Code Quality report: a JSON array of issues.
//!
//! Format: GitLab's page "Code Quality", "Code Quality report format". The widget of a merge request
//! compares the report with that of the target branch by fingerprint, so these stay what they are
//! while a test fails.

use super::{identity, legal};
use crate::ci::finding::{BREACH, Finding, Level};
use crate::ci::subject::Subject;
use crate::domain::reason::HaltReason;
use serde_json::{Value, json};

/// The most issues; most important first.
pub const MAX_ISSUES: usize = 1_000;
/// The most characters of a description.
const MAX_DESCRIPTION: usize = 1_000;

/// Returns the report. What is only good to know is no issue: the widget counts each as a loss of
/// quality.
pub fn code_quality(subject: &Subject) -> Value {
    let fallback = identity::fallback_file(subject);
    let issues = subject
        .findings
        .iter()
        .zip(identity::fingerprints(subject))
        .filter(|(finding, _)| finding.level != Level::Notice)
        .take(MAX_ISSUES)
        .map(|(finding, print)| issue(finding, &fallback, &print));
    Value::Array(issues.collect())
}

fn issue(finding: &Finding, fallback: &str, print: &str) -> Value {
    let own = identity::file(finding.file.as_deref());
    let line = if own.is_some() { finding.line.unwrap_or(1).max(1) } else { 1 };
    let rule = identity::rule(finding);
    let said = legal::both(&finding.title, &finding.message, MAX_DESCRIPTION);
    let said = said.replacen('\n', ": ", 1).replace('\n', " ");
    let description = if said.trim().is_empty() { rule.clone() } else { said };
    json!({
        "description": description,
        "check_name": rule,
        "fingerprint": print,
        "severity": severity(finding),
        "location": {
            "path": own.as_deref().unwrap_or(fallback),
            "lines": {"begin": line},
        },
    })
}

fn severity(finding: &Finding) -> &'static str {
    let reason = HaltReason::from_name(&finding.rule);
    let is_integrity = reason.is_some_and(|reason| reason.class().name() == "integrity");
    match finding.level {
        Level::Error if is_integrity || finding.rule == BREACH => "critical",
        Level::Error => "major",
        Level::Warning => "minor",
        Level::Notice => "info",
    }
}
