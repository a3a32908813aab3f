//! SARIF 2.1.0, as code scanners and IDEs read it.
//!
//! Format: OASIS sarif-v2.1.0; limits: GitHub's page on SARIF support (5,000 results a run, 10 MB
//! packed). Every result has a place, since GitHub refuses those without.

use super::{identity, legal};
use crate::ci::finding::{self, Finding, Level};
use crate::ci::subject::Subject;
use crate::domain::reason::HaltReason;
use crate::report::explain::explain;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

/// The most results of a run.
pub const MAX_RESULTS: usize = 5_000;
/// The most bytes of all results as text; under the limit on the packed file whatever they hold.
const MAX_BYTES: usize = 8 << 20;
/// The most characters of a message.
const MAX_MESSAGE: usize = 4_096;

/// Returns the log. That a loop converged is no result.
pub fn sarif(subject: &Subject) -> Value {
    let fallback = identity::fallback_file(subject);
    let mut rules: Vec<(String, Level)> = Vec::new();
    let mut results = Vec::new();
    let mut bytes = 0;
    for (finding, print) in subject.findings.iter().zip(identity::fingerprints(subject)) {
        if finding.rule == HaltReason::SuccessConditionMet.as_str() {
            continue;
        }
        let rule = identity::rule(finding);
        let index = rules.iter().position(|(known, _)| *known == rule).unwrap_or_else(|| {
            rules.push((rule.clone(), finding.level));
            rules.len() - 1
        });
        let result = result(finding, &rule, index, &fallback, &print);
        bytes += result.to_string().len();
        if results.len() >= MAX_RESULTS || bytes > MAX_BYTES {
            break;
        }
        results.push(result);
    }
    let mut run = Map::new();
    run.insert("tool".into(), json!({"driver": driver(&rules)}));
    run.insert("automationDetails".into(), json!({"id": automation_id(subject)}));
    run.insert("invocations".into(), json!([invocation(subject)]));
    run.insert(
        "originalUriBaseIds".into(),
        json!({"%SRCROOT%": {"description": {"text": "The root of the repository."}}}),
    );
    run.insert("columnKind".into(), json!("unicodeCodePoints"));
    run.insert("results".into(), Value::Array(results));
    run.insert("properties".into(), properties(subject));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    })
}

/// Returns the category under which GitHub keeps results apart, one for each key.
fn automation_id(subject: &Subject) -> String {
    let name = uri_path(&legal::line(&subject.key.name, 60)).replace('/', "-");
    format!("loopexec/{name}/{}/", identity::key_digest(&subject.key))
}

fn driver(rules: &[(String, Level)]) -> Value {
    let described: Vec<Value> = rules.iter().map(|(rule, level)| describe(rule, *level)).collect();
    json!({
        "name": "loopexec",
        "version": env!("CARGO_PKG_VERSION"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": described,
    })
}

fn describe(rule: &str, level: Level) -> Value {
    let (short, full, help) = match HaltReason::from_name(rule) {
        Some(reason) => {
            let explained = explain(reason);
            (reason.meaning().trim(), explained.what, explained.mend)
        }
        None => {
            let (short, help) = match rule {
                finding::TEST_FAILED => ("A test of the check fails.", "Read its message."),
                finding::CHECK_FAILED => ("The check is red.", "Read what it printed."),
                finding::BREACH => ("A guard does not hold.", "Read the change that it names."),
                finding::CHECK_UNTRUSTED => {
                    ("The check cannot be trusted.", "Run `loopexec doctor`.")
                }
                finding::INCOMPLETE => ("A run has no end.", "Take it up, or start another."),
                finding::LIMIT_HIT => ("A limit ended a process.", "See whether it is too low."),
                _ => ("What a run of loopexec found.", "Read the report."),
            };
            (short, short, help)
        }
    };
    json!({
        "id": rule,
        "shortDescription": {"text": short},
        "fullDescription": {"text": full},
        "help": {"text": help},
        "defaultConfiguration": {"level": level_name(level)},
    })
}

fn result(finding: &Finding, rule: &str, index: usize, fallback: &str, print: &str) -> Value {
    let own = identity::file(finding.file.as_deref());
    let line = if own.is_some() { finding.line.unwrap_or(1).max(1) } else { 1 };
    let uri = uri_path(own.as_deref().unwrap_or(fallback));
    json!({
        "ruleId": rule,
        "ruleIndex": index,
        "level": level_name(finding.level),
        "message": {"text": message(finding)},
        "locations": [{
            "physicalLocation": {
                "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": line},
            },
        }],
        "partialFingerprints": {"loopexec/v1": print},
    })
}

/// Returns the text of a finding; an embedded link of SARIF (3.11.6) cannot stand in it.
fn message(finding: &Finding) -> String {
    let text = legal::both(&finding.title, &finding.message, MAX_MESSAGE).replace("](", "] (");
    if text.trim().is_empty() { identity::rule(finding) } else { text }
}

const fn level_name(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "note",
    }
}

fn invocation(subject: &Subject) -> Value {
    // Whether the tool could do its work, not what it found.
    let worked = subject.halt.as_ref().is_some_and(|halt| halt.exit_code < 30);
    let mut invocation = Map::new();
    invocation.insert("executionSuccessful".into(), json!(worked));
    invocation.insert("exitCode".into(), json!(subject.process_exit));
    invocation.insert(
        "exitCodeDescription".into(),
        json!(subject.halt.as_ref().map_or("incomplete", |halt| halt.reason.as_str())),
    );
    Value::Object(invocation)
}

fn properties(subject: &Subject) -> Value {
    let mut properties = Map::new();
    properties.insert("runId".into(), json!(legal::line(&subject.run_id, 64)));
    if let Some(halt) = &subject.halt {
        properties.insert("haltReason".into(), json!(halt.reason));
        properties.insert("exitClass".into(), json!(halt.exit_class));
        properties.insert("exitCode".into(), json!(halt.exit_code));
    }
    if let Some(report) = &subject.report {
        properties.insert("loopDigest".into(), json!(legal::line(&report.loop_digest, 200)));
        properties.insert("receiptHead".into(), json!(legal::line(&report.head, 200)));
        properties.insert("iterations".into(), json!(report.iterations.len()));
    }
    Value::Object(properties)
}

/// Writes a path as a relative URI reference (RFC 3986): all but unreserved characters and `/`
/// percent-encoded, so that no part of it is a scheme, a query or a fragment.
pub fn uri_path(path: &str) -> String {
    const KEPT: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
    utf8_percent_encode(path, KEPT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Decodes as RFC 3986 says.
    fn decode(uri: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = uri.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let hex = [rest.next().unwrap(), rest.next().unwrap()];
                let hex = std::str::from_utf8(&hex).unwrap();
                bytes.push(u8::from_str_radix(hex, 16).unwrap());
            } else {
                bytes.push(byte);
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn a_path_comes_back_out_of_its_uri(path in any::<String>()) {
            let uri = uri_path(&path);
            prop_assert!(!uri.contains([':', '?', '#', ' ', '\\', '"', '\n']));
            prop_assert_eq!(decode(&uri), path.as_bytes());
        }
    }

    #[test]
    fn no_link_hides_in_a_message() {
        let finding = Finding {
            level: Level::Error,
            rule: "test_failed".into(),
            title: "[click](https://evil.example)".into(),
            message: String::new(),
            file: None,
            line: None,
        };
        assert_eq!(message(&finding), "[click] (https://evil.example)");
    }
}
