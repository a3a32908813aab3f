//! A check run with its annotations, opt-in.
//!
//! GitHub shows check runs made with a job's token in whichever workflow's suite it likes; that is
//! why it is opt-in and named after the job. A commit status is here for tokens that may not make
//! check runs (those of people).

use super::api::{Api, Need, Trouble};
use super::event::Repository;
use crate::ci::finding::{Finding, Level};
use crate::ci::http::Effect;
use crate::ci::subject::{Key, Subject};
use crate::domain::reason::HaltReason;
use serde_json::{Map, Value, json};

/// The most annotations of one request.
pub const BATCH: usize = 50;

/// The most annotations of a run; the summary has them all.
pub const MAX_ANNOTATIONS: usize = 250;

/// The most characters of a summary and of a text (65,535 are the platform's limit).
const MAX_TEXT: usize = 65_000;

/// The most bytes of an annotation's message (64 KB are the platform's limit).
const MAX_MESSAGE: usize = 64_000;

/// The most characters of a title.
const MAX_TITLE: usize = 255;

/// What a check run takes.
pub const NEED: Need = Need { doing: "write the check run", permission: "checks: write" };

/// What a check run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The loop converged.
    Success,
    /// It halted, and the job fails by it.
    Failure,
    /// It was interrupted.
    Cancelled,
    /// A person is asked for.
    ActionRequired,
    /// It halted, and the job does not fail by it.
    Neutral,
}

impl Conclusion {
    /// Returns the platform's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
            Self::ActionRequired => "action_required",
            Self::Neutral => "neutral",
        }
    }

    /// Returns what a run comes to; none while it runs.
    pub fn of(subject: &Subject) -> Option<Self> {
        let reason = subject.halt.as_ref()?.reason;
        Some(match (subject.fails, reason) {
            (false, HaltReason::SuccessConditionMet) => Self::Success,
            (false, _) => Self::Neutral,
            (true, HaltReason::Interrupted) => Self::Cancelled,
            (true, HaltReason::HumanRequired | HaltReason::EscalationPending) => {
                Self::ActionRequired
            }
            (true, _) => Self::Failure,
        })
    }
}

/// Returns the name of a key's check run: `loopexec / JOB`, with the loop's name and the values of
/// the matrix in brackets where there are any.
pub fn name_of(key: &Key) -> String {
    let matrix = serde_json::from_str::<Map<String, Value>>(&key.matrix).unwrap_or_default();
    let values = matrix.values().filter_map(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    });
    let parts: Vec<_> =
        std::iter::once(key.name.clone()).chain(values).filter(|part| !part.is_empty()).collect();
    let brackets =
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
    one_line(&format!("loopexec / {}{brackets}", key.job), 120)
}

/// A check run as it shall be.
#[derive(Debug, Clone, Copy)]
pub struct CheckRun<'a> {
    /// Its name, see [`name_of`].
    pub name: &'a str,
    /// The commit it belongs to: the head of the pull request, not the merge commit.
    pub head_sha: &'a str,
    /// The run's id.
    pub external_id: &'a str,
    /// The page of the job.
    pub details_url: Option<&'a str>,
    /// What it says; none while the loop runs.
    pub conclusion: Option<Conclusion>,
    /// A few words.
    pub title: &'a str,
    /// Markdown, safe already.
    pub summary: &'a str,
    /// What hurts; those with a file become annotations.
    pub findings: &'a [Finding],
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The check run's id.
    pub id: u64,
    /// How many annotations it shows.
    pub annotations: usize,
    /// Why not all of them, where a later request went wrong.
    pub trouble: Option<Trouble>,
}

/// Makes a check run; annotations go in batches of [`BATCH`].
///
/// The first request has the conclusion, so that nothing is left running where a later one fails.
/// No request that adds something is sent again after its answer was lost.
pub async fn publish(
    api: &Api,
    repository: &Repository,
    run: &CheckRun<'_>,
) -> Result<Written, Trouble> {
    let annotations = annotations_of(run.findings);
    let mut batches = annotations.chunks(BATCH);
    let first = batches.next().unwrap_or_default();
    let runs = format!("/repos/{repository}/check-runs");
    let mut body = json!({
        "name": run.name,
        "external_id": run.external_id,
        "status": if run.conclusion.is_some() { "completed" } else { "in_progress" },
        "output": output(run, first),
    });
    if let Some(url) = run.details_url.filter(|url| is_page(url)) {
        body["details_url"] = url.into();
    }
    if let Some(conclusion) = run.conclusion {
        body["conclusion"] = conclusion.name().into();
    }
    body["head_sha"] = run.head_sha.into();
    let made = api.post(NEED, Effect::Creates, &runs, &body).await?;
    let Some(id) = made["id"].as_u64() else {
        return Err(NEED.failed("the answer names no check run"));
    };
    let mut written = Written { id, annotations: first.len(), trouble: None };
    for batch in batches {
        let body = json!({ "output": output(run, batch) });
        match api.patch(NEED, Effect::Creates, &format!("{runs}/{id}"), &body).await {
            Ok(_) => written.annotations += batch.len(),
            Err(trouble) => {
                written.trouble = Some(trouble);
                break;
            }
        }
    }
    Ok(written)
}

/// How a commit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The job does not fail by it.
    Success,
    /// The job fails by it.
    Failure,
}

/// A commit status as it shall be.
#[derive(Debug, Clone, Copy)]
pub struct Status<'a> {
    /// The commit.
    pub sha: &'a str,
    /// How it stands.
    pub standing: Standing,
    /// Its name, see [`name_of`]; a later one of the same name takes its place.
    pub context: &'a str,
    /// One line, cut at 140 characters.
    pub description: &'a str,
    /// The page of the job.
    pub page: Option<&'a str>,
}

/// Sets a commit status.
pub async fn post_status(
    api: &Api,
    repository: &Repository,
    status: &Status<'_>,
) -> Result<(), Trouble> {
    let need = Need { doing: "set the commit status", permission: "statuses: write" };
    let state = match status.standing {
        Standing::Success => "success",
        Standing::Failure => "failure",
    };
    let mut body = json!({
        "state": state,
        "context": one_line(status.context, 120),
        "description": one_line(status.description, 140),
    });
    if let Some(page) = status.page.filter(|page| is_page(page)) {
        body["target_url"] = page.into();
    }
    let path = format!("/repos/{repository}/statuses/{}", status.sha);
    // Set twice it is the same status.
    api.post(need, Effect::Repeatable, &path, &body).await.map(drop)
}

fn output(run: &CheckRun<'_>, annotations: &[Value]) -> Value {
    let mut output = json!({
        "title": one_line(run.title, MAX_TITLE),
        "summary": cut(run.summary, MAX_TEXT),
    });
    if !annotations.is_empty() {
        output["annotations"] = annotations.into();
    }
    output
}

/// Returns the annotations of the findings that have a file in the repository.
fn annotations_of(findings: &[Finding]) -> Vec<Value> {
    findings.iter().filter_map(annotation).take(MAX_ANNOTATIONS).collect()
}

fn annotation(finding: &Finding) -> Option<Value> {
    let path = finding.file.as_deref().filter(|path| is_inside(path))?;
    let line = finding.line.unwrap_or(1).max(1);
    let level = match finding.level {
        Level::Error => "failure",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let said = if finding.message.trim().is_empty() { &finding.title } else { &finding.message };
    let message: String =
        said.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    let message = cut_bytes(&message, MAX_MESSAGE);
    let message = if message.trim().is_empty() { &finding.rule } else { message };
    Some(json!({
        "path": path,
        "start_line": line,
        "end_line": line,
        "annotation_level": level,
        "title": one_line(&finding.title, MAX_TITLE),
        "message": message,
    }))
}

/// Tells whether a path is one of the repository: relative, `/` between plain parts.
fn is_inside(path: &str) -> bool {
    path.len() <= 4096
        && !path.chars().any(|c| c.is_control() || c == '\\')
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn is_page(url: &str) -> bool {
    (url.starts_with("https://") || url.starts_with("http://"))
        && url.len() <= 2000
        && url.bytes().all(|b| b.is_ascii_graphic())
}

/// Puts a text on one line and cuts it after so many characters; never empty.
fn one_line(text: &str, most: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.is_empty() { "loopexec".to_owned() } else { cut(line, most) }
}

/// Cuts a text after so many characters, the last of them an ellipsis.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn cut_bytes(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::HaltView;

    fn subject(reason: HaltReason, fails: bool) -> Subject {
        let class = reason.class();
        let halt = HaltView {
            reason,
            exit_class: class.name(),
            exit_code: class.code(),
            detail: None,
            why: String::new(),
            next: Vec::new(),
        };
        Subject {
            key: Key::default(),
            turn: Default::default(),
            run_id: String::new(),
            halt: Some(halt),
            fails,
            process_exit: 0,
            report: None,
            findings: Vec::new(),
            links: Default::default(),
            run_dir: None,
            root: Default::default(),
        }
    }

    fn finding(title: &str, message: &str, file: &str) -> Finding {
        Finding {
            level: Level::Error,
            rule: "test_failed".to_owned(),
            title: title.to_owned(),
            message: message.to_owned(),
            file: Some(file.to_owned()),
            line: Some(3),
        }
    }

    #[test]
    fn every_reason_has_the_platforms_word() {
        use Conclusion as C;
        for reason in HaltReason::ALL {
            let failing = match reason {
                HaltReason::Interrupted => C::Cancelled,
                HaltReason::HumanRequired | HaltReason::EscalationPending => C::ActionRequired,
                _ => C::Failure,
            };
            assert_eq!(C::of(&subject(*reason, true)), Some(failing), "{reason:?}");
            let passing = match reason {
                HaltReason::SuccessConditionMet => C::Success,
                _ => C::Neutral,
            };
            assert_eq!(C::of(&subject(*reason, false)), Some(passing), "{reason:?}");
        }
        let running = Subject { halt: None, ..subject(HaltReason::Interrupted, false) };
        assert_eq!(C::of(&running), None);
    }

    #[test]
    fn names_tell_jobs_loops_and_matrices_apart() {
        let name = |name: &str, matrix: &str| {
            let (job, name, matrix) = ("test".to_owned(), name.to_owned(), matrix.to_owned());
            name_of(&Key { job, name, matrix, ..Key::default() })
        };
        assert_eq!(name("", ""), "loopexec / test");
        assert_eq!(name("fix", "null"), "loopexec / test (fix)");
        assert_eq!(name("fix", r#"{"os":"linux","n":2}"#), "loopexec / test (fix, linux, 2)");
        assert_eq!(name("a\nb", ""), "loopexec / test (a b)");
        assert!(name(&"x".repeat(999), "").chars().count() <= 120);
    }

    #[test]
    fn texts_stay_within_the_limits() {
        let long = "é\u{1b}".repeat(70_000);
        let one = annotation(&finding(&long, &long, "src/a.rs")).unwrap();
        assert!(one["message"].as_str().unwrap().len() <= 65_536);
        assert!(!one["message"].as_str().unwrap().contains('\u{1b}'));
        assert_eq!(one["title"].as_str().unwrap().chars().count(), 255);
        assert_eq!(annotation(&finding("", "", "a")).unwrap()["message"], "test_failed");
    }

    #[test]
    fn only_paths_of_the_repository_are_annotated() {
        for bad in ["/etc/passwd", "../a", "a/../b", "./a", "a\\b", "a\nb", ""] {
            assert_eq!(annotation(&finding("t", "m", bad)), None, "{bad:?}");
        }
        assert_eq!(annotation(&finding("t", "m", "a b/ü.rs")).unwrap()["path"], "a b/ü.rs");
        let many = vec![finding("t", "m", "a"); 1000];
        assert_eq!(annotations_of(&many).len(), MAX_ANNOTATIONS);
    }
}
