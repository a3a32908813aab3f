//! Reports and annotations of Bitbucket's Code Insights.
//!
//! Format: Bitbucket Cloud REST API 2.0, "Reports". Inside a pipeline a proxy on the loopback adds the
//! credentials, so that requests go by plain http to it and loopexec needs no token.

use super::super::formats::{annotations::web_url, identity, legal};
use super::headline;
use crate::ci::finding::{Finding, Level};
use crate::ci::http::{self, Answer, Failed, Policy};
use crate::ci::subject::Subject;
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The most annotations of a request.
pub const MAX_REQUEST: usize = 100;
/// The most annotations of a report.
pub const MAX_REPORT: usize = 1_000;
/// The most characters of an annotation's summary.
const MAX_SUMMARY: usize = 450;
/// The most characters of details.
const MAX_DETAILS: usize = 2_000;
/// Where the API is, by the proxy.
const API: &str = "http://api.bitbucket.org";
/// Where the proxy is.
const PROXY: &str = "http://localhost:29418";

/// The commit a report is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// `BITBUCKET_WORKSPACE`.
    pub workspace: String,
    /// `BITBUCKET_REPO_SLUG`.
    pub repository: String,
    /// `BITBUCKET_COMMIT`.
    pub commit: String,
}

impl Place {
    /// Reads it from the environment; none where a part is missing or is not what it should be.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let slug = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let read = |name: &str| {
            let value = variable(name)?;
            let dots = value.chars().all(|c| c == '.');
            (!dots && value.len() <= 128 && value.chars().all(slug)).then_some(value)
        };
        Some(Self {
            workspace: read("BITBUCKET_WORKSPACE")?,
            repository: read("BITBUCKET_REPO_SLUG")?,
            commit: read("BITBUCKET_COMMIT")?,
        })
    }

    fn path(&self, subject: &Subject) -> String {
        let Self { workspace, repository, commit } = self;
        let id = report_id(subject);
        format!("/2.0/repositories/{workspace}/{repository}/commit/{commit}/reports/{id}")
    }
}

/// Where requests go; tests put a server of their own there.
#[derive(Debug, Clone)]
pub struct Proxy {
    client: reqwest::Client,
    api: String,
}

impl Proxy {
    /// Makes the way through the pipeline's proxy.
    ///
    /// # Errors
    /// `workspace_invalid` when no client can be made.
    pub fn new() -> Result<Self> {
        Self::at(PROXY, API)
    }

    /// Makes the way through any proxy to any address.
    ///
    /// # Errors
    /// `workspace_invalid` when no client can be made.
    pub fn at(proxy: &str, api: &str) -> Result<Self> {
        // Makes sure that there is a provider of cryptography, without which no client is built.
        drop(http::client()?);
        let failed = |error: reqwest::Error| {
            Error::new(Kind::WorkspaceInvalid, "no HTTP client can be made on this machine")
                .because(error.without_url())
        };
        let client = reqwest::Client::builder()
            .user_agent(concat!("loopexec/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .proxy(reqwest::Proxy::http(proxy).map_err(failed)?)
            .build()
            .map_err(failed)?;
        Ok(Self { client, api: api.trim_end_matches('/').to_owned() })
    }
}

/// Returns the id of the report of this loop: at the same commit a later run takes its place.
pub fn report_id(subject: &Subject) -> String {
    format!("loopexec-{}", identity::key_digest(&subject.key))
}

/// Returns the report.
pub fn report(subject: &Subject) -> Value {
    let name = legal::line(&subject.key.name, 100);
    let title = if name.is_empty() { "loopexec".to_owned() } else { format!("loopexec: {name}") };
    let (result, details) = match &subject.halt {
        None => ("PENDING", "The run has no end yet.".to_owned()),
        Some(halt) => {
            let result = if subject.fails { "FAILED" } else { "PASSED" };
            (result, format!("{}: {}", halt.reason, halt.why))
        }
    };
    let mut report = Map::new();
    report.insert("title".into(), json!(title));
    report.insert("details".into(), json!(legal::text(&details, MAX_DETAILS)));
    report.insert("report_type".into(), json!("TEST"));
    report.insert("reporter".into(), json!("loopexec"));
    report.insert("result".into(), json!(result));
    let link = subject.links.artifact.as_deref().or(subject.links.job.as_deref());
    if let Some(link) = link.and_then(web_url) {
        report.insert("link".into(), json!(link));
    }
    report.insert("data".into(), data(subject));
    Value::Object(report)
}

/// Returns the figures of a report; there may be ten.
fn data(subject: &Subject) -> Value {
    let text = |title: &str, value: &str| json!({"title": title, "type": "TEXT", "value": value});
    let number =
        |title: &str, value: u64| json!({"title": title, "type": "NUMBER", "value": value});
    let mut data = Vec::new();
    if let Some(halt) = &subject.halt {
        data.push(text("Halt reason", halt.reason.as_str()));
        data.push(text("Exit class", halt.exit_class));
        data.push(number("Exit code", halt.exit_code.into()));
    }
    if let Some(report) = &subject.report {
        data.push(number("Iterations", report.iterations.len() as u64));
        let value = report.elapsed_ms;
        data.push(json!({"title": "Time", "type": "DURATION", "value": value}));
        let digest = legal::line(&report.loop_digest, 80);
        data.push(text("Loop", &digest));
    }
    data.push(text("Run", &legal::line(&subject.run_id, 64)));
    Value::Array(data)
}

/// Returns the annotations, in requests that are not too large.
pub fn annotations(subject: &Subject) -> Vec<Value> {
    let all: Vec<Value> = subject
        .findings
        .iter()
        .zip(identity::fingerprints(subject))
        .filter(|(finding, _)| finding.rule != HaltReason::SuccessConditionMet.as_str())
        .take(MAX_REPORT)
        .map(|(finding, print)| annotation(finding, &print))
        .collect();
    all.chunks(MAX_REQUEST).map(|chunk| Value::Array(chunk.to_vec())).collect()
}

fn annotation(finding: &Finding, print: &str) -> Value {
    let mut annotation = Map::new();
    annotation.insert("external_id".into(), json!(format!("loopexec-{print}")));
    annotation.insert("annotation_type".into(), json!("BUG"));
    let title = legal::line(&finding.title, MAX_SUMMARY);
    let summary = if title.is_empty() { identity::rule(finding) } else { title };
    annotation.insert("summary".into(), json!(summary));
    let details = legal::both(&headline(finding, 500), &finding.message, MAX_DETAILS);
    if !details.trim().is_empty() {
        annotation.insert("details".into(), json!(details));
    }
    let severity = match finding.level {
        Level::Error => "HIGH",
        Level::Warning => "MEDIUM",
        Level::Notice => "LOW",
    };
    annotation.insert("severity".into(), json!(severity));
    if let Some(file) = identity::file(finding.file.as_deref()) {
        annotation.insert("path".into(), json!(file));
        if let Some(line) = finding.line {
            annotation.insert("line".into(), json!(line.max(1)));
        }
    }
    Value::Object(annotation)
}

/// Sends the report and its annotations, in place of those of an earlier run at this commit.
///
/// # Errors
/// One sentence that says what was refused; what came before it is there.
pub async fn send(
    proxy: &Proxy,
    policy: &Policy,
    place: &Place,
    subject: &Subject,
) -> Result<(), String> {
    let url = format!("{}{}", proxy.api, place.path(subject));
    // Annotations of tests that pass now would stay otherwise; there may be none.
    let deleted = http::send(policy, || proxy.client.delete(&url)).await;
    told("the old report", deleted, &[404])?;
    let request = |method: reqwest::Method, url: &str, body: &Value| {
        let request = proxy.client.request(method, url);
        request.header(reqwest::header::CONTENT_TYPE, "application/json").body(body.to_string())
    };
    let body = report(subject);
    let put = http::send(policy, || request(reqwest::Method::PUT, &url, &body)).await;
    told("the report", put, &[])?;
    let url = format!("{url}/annotations");
    for batch in annotations(subject) {
        // The ids make a second one write over the first.
        let posted = http::send(policy, || request(reqwest::Method::POST, &url, &batch)).await;
        told("the annotations", posted, &[])?;
    }
    Ok(())
}

fn told(what: &str, answer: Result<Answer, Failed>, also: &[u16]) -> Result<(), String> {
    match answer {
        Ok(answer) if answer.is_ok() || also.contains(&answer.status) => Ok(()),
        Ok(answer) => Err(format!(
            "Bitbucket did not take {what} (status {}); the result stands in the log and in the files",
            answer.status
        )),
        Err(failed) => Err(format!("Bitbucket did not take {what}: {failed}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_three_plain_words() {
        let of = |workspace: &str| {
            Place::read(|name| {
                Some(if name == "BITBUCKET_WORKSPACE" { workspace } else { "x" }.to_owned())
            })
        };
        assert!(of("team-1").is_some());
        for hostile in ["..", "a/b", "a?b", "", "a b"] {
            assert_eq!(of(hostile), None, "{hostile:?}");
        }
    }
}
