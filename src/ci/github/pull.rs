//! Which pull request a run is about.
//!
//! In this order: the number that was asked for, the event, the merge queue's branch, `GITHUB_REF`,
//! the API by commit, none. Among several pull requests of one commit the lowest number is taken:
//! a pull request opened later does not move the comment.

use super::api::{Api, Cause, Need, Trouble};
use super::event::{Event, Origin, Repository, is_sha};
use serde_json::Value;

/// How a pull request was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// It was asked for by number.
    Asked,
    /// The event's payload names it.
    Event,
    /// The merge queue's branch names it.
    MergeGroup,
    /// `GITHUB_REF` is its own.
    Reference,
    /// The API knows one with this head.
    Commit,
}

/// A pull request that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub number: u64,
    /// How it was found.
    pub source: Source,
}

/// A pull request as the API tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pull {
    /// Its number.
    pub number: u64,
    /// The commit at its head.
    pub head_sha: String,
    /// The commit at the tip of its base branch, as GitHub knew it last.
    pub base_sha: String,
    /// Whether its head lies in the same repository.
    pub origin: Origin,
    /// Whether it is open.
    pub open: bool,
}

const READ: Need =
    Need { doing: "look up the pull request of this commit", permission: "pull-requests: read" };

/// Finds the pull request without asking anybody.
pub fn from_event(asked: Option<u64>, event: &Event) -> Option<Found> {
    let found = |source| move |number| Found { number, source };
    asked
        .map(found(Source::Asked))
        .or_else(|| named(event).map(found(Source::Event)))
        .or_else(|| queued(event).map(found(Source::MergeGroup)))
        .or_else(|| referenced(event).map(found(Source::Reference)))
}

/// Finds the pull request, by the API where nothing else names it.
///
/// A trouble with the API is the caller's to tell; the run goes on without a comment.
pub async fn find(
    asked: Option<u64>,
    event: &Event,
    api: Option<&Api>,
) -> Result<Option<Found>, Trouble> {
    if let Some(found) = from_event(asked, event) {
        return Ok(Some(found));
    }
    // A comment on an issue is about that issue, whatever the tip of the default branch is.
    if matches!(event.name.as_str(), "issue_comment" | "issues" | "schedule") {
        return Ok(None);
    }
    let (Some(api), Some(repository), Some(sha)) =
        (api, event.repository.as_ref(), event.head_sha())
    else {
        return Ok(None);
    };
    let number = of_commit(api, repository, sha).await?;
    Ok(number.map(|number| Found { number, source: Source::Commit }))
}

/// Asks which open pull request has a commit at its head; one whose head has moved on is another
/// run's to talk to.
pub async fn of_commit(
    api: &Api,
    repository: &Repository,
    sha: &str,
) -> Result<Option<u64>, Trouble> {
    let path = format!("/repos/{repository}/commits/{sha}/pulls?per_page=100");
    let pulls = match api.read(READ, &path).await {
        Ok(pulls) => pulls,
        // A commit that was never pushed is no reason to warn.
        Err(trouble) if matches!(trouble.cause, Cause::Missing) => return Ok(None),
        Err(Trouble { cause: Cause::Answered { status: 422, .. }, .. }) => return Ok(None),
        Err(trouble) => return Err(trouble),
    };
    let here = repository.to_string();
    let fits = |pull: &&Value| {
        let base = pull.pointer("/base/repo/full_name").and_then(Value::as_str);
        pull["state"] == "open"
            && pull.pointer("/head/sha").and_then(Value::as_str) == Some(sha)
            && base.is_none_or(|base| base.eq_ignore_ascii_case(&here))
    };
    let numbers = pulls.as_array().into_iter().flatten().filter(fits);
    Ok(numbers.filter_map(|pull| pull["number"].as_u64()).min())
}

/// Reads a pull request, for what a comment's event or a number alone does not tell: its head.
pub async fn read(api: &Api, repository: &Repository, number: u64) -> Result<Pull, Trouble> {
    let need = Need { doing: "read the pull request", permission: "pull-requests: read" };
    let pull = api.read(need, &format!("/repos/{repository}/pulls/{number}")).await?;
    let text = |pointer: &str| pull.pointer(pointer).and_then(Value::as_str);
    let sha = |pointer: &str| text(pointer).filter(|text| is_sha(text)).map(str::to_owned);
    let (Some(head_sha), Some(base_sha)) = (sha("/head/sha"), sha("/base/sha")) else {
        return Err(need.failed("the answer names no commits"));
    };
    let origin = match (text("/head/repo/full_name"), text("/base/repo/full_name")) {
        (Some(head), Some(base)) if head.eq_ignore_ascii_case(base) => Origin::Same,
        _ => Origin::Fork,
    };
    Ok(Pull { number, head_sha, base_sha, origin, open: text("/state") == Some("open") })
}

/// The pull request the payload names.
fn named(event: &Event) -> Option<u64> {
    let payload = event.payload();
    if payload.get("pull_request").is_some_and(Value::is_object) {
        return event.number_at("/pull_request/number").or_else(|| event.number_at("/number"));
    }
    if payload.pointer("/issue/pull_request").is_some_and(Value::is_object) {
        return event.number_at("/issue/number");
    }
    ["workflow_run", "check_run", "check_suite"].iter().find_map(|part| listed(event, part))
}

/// The pull request in the list of a run or check: of this repository and, where the list tells
/// it, with the run's own commit at its head. GitHub lists those of other repositories too, and
/// none for a fork.
fn listed(event: &Event, part: &str) -> Option<u64> {
    let payload = event.payload();
    let object = payload.get(part)?;
    let sha = object["head_sha"].as_str();
    let here = payload.pointer("/repository/id").and_then(Value::as_u64);
    let own = |pull: &&Value| {
        let base = pull.pointer("/base/repo/id").and_then(Value::as_u64);
        let head = pull.pointer("/head/sha").and_then(Value::as_str);
        (base.is_none() || here.is_none() || base == here)
            && (head.is_none() || sha.is_none() || head == sha)
    };
    let pulls = object["pull_requests"].as_array()?;
    pulls.iter().filter(own).filter_map(|pull| pull["number"].as_u64()).filter(|n| *n > 0).min()
}

/// The pull request of a merge queue's branch,
/// `refs/heads/gh-readonly-queue/BASE/pr-NUMBER-SHA`; the base may have slashes.
fn queued(event: &Event) -> Option<u64> {
    if event.name != "merge_group" {
        return None;
    }
    let head = event.text("/merge_group/head_ref").or(event.reference.as_deref())?;
    let branch = head.strip_prefix("refs/heads/").unwrap_or(head);
    let (_, last) = branch.strip_prefix("gh-readonly-queue/")?.rsplit_once('/')?;
    let (number, sha) = last.strip_prefix("pr-")?.split_once('-')?;
    is_sha(sha).then(|| plain_number(number)).flatten()
}

/// The pull request of `refs/pull/NUMBER/merge` or `…/head`.
fn referenced(event: &Event) -> Option<u64> {
    let (number, kind) = event.reference.as_deref()?.strip_prefix("refs/pull/")?.split_once('/')?;
    if matches!(kind, "merge" | "head") { plain_number(number) } else { None }
}

/// Reads a number of digits alone; `+7` and `007` are none.
pub fn plain_number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|number| plain && *number > 0 && *number <= 1 << 53)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

    fn number(name: &str, payload: Value) -> Option<u64> {
        from_event(None, &Event::of(name, payload)).map(|found| found.number)
    }

    #[test]
    fn what_was_asked_for_stands_before_the_event() {
        let event = Event::of("pull_request", json!({"number": 3, "pull_request": {"number": 3}}));
        let source = |asked| from_event(asked, &event).unwrap().source;
        assert_eq!((source(Some(8)), source(None)), (Source::Asked, Source::Event));
    }

    #[test]
    fn a_comment_counts_only_on_a_pull_request() {
        let on_pull = json!({"issue": {"number": 4, "pull_request": {"url": "x"}}});
        assert_eq!(number("issue_comment", on_pull), Some(4));
        assert_eq!(number("issue_comment", json!({"issue": {"number": 4}})), None);
    }

    #[test]
    fn a_list_is_taken_by_repository_and_head_and_the_lowest_number() {
        let pull = |number: u64, repo: u64, sha: &str| json!({"number": number, "head": {"sha": sha}, "base": {"repo": {"id": repo}}});
        let other = "f".repeat(40);
        let run = |pulls: Value| json!({"repository": {"id": 1}, "workflow_run": {"head_sha": SHA, "pull_requests": pulls}});
        let pulls = json!([pull(9, 1, SHA), pull(7, 1, SHA), pull(2, 5, SHA), pull(3, 1, &other)]);
        assert_eq!(number("workflow_run", run(pulls)), Some(7));
        assert_eq!(number("workflow_run", run(json!([]))), None);
        assert_eq!(number("workflow_run", run(json!([pull(2, 5, SHA)]))), None);
    }

    #[test]
    fn the_merge_queue_names_it_in_its_branch() {
        let group =
            |head: String| number("merge_group", json!({"merge_group": {"head_ref": head}}));
        let queue = "refs/heads/gh-readonly-queue";
        assert_eq!(group(format!("{queue}/main/pr-104-{SHA}")), Some(104));
        assert_eq!(group(format!("{queue}/release/1.x/pr-7-{SHA}")), Some(7));
        for bad in [
            format!("refs/heads/pr-104-{SHA}"),
            format!("{queue}/main/pr-104"),
            format!("{queue}/main/pr-0-{SHA}"),
            format!("{queue}/main/pr-+1-{SHA}"),
            format!("refs/heads/x/gh-readonly-queue/main/pr-1-{SHA}"),
        ] {
            assert_eq!(group(bad.clone()), None, "{bad}");
        }
        let named_like_one = json!({"ref": format!("{queue}/main/pr-104-{SHA}")});
        assert_eq!(number("push", named_like_one), None);
    }

    #[test]
    fn the_reference_names_it_last() {
        let mut event = Event::of("workflow_dispatch", json!({"ref": "refs/pull/5/merge"}));
        assert_eq!(from_event(None, &event), None);
        for (text, expected) in [
            ("refs/pull/12/merge", Some(12)),
            ("refs/pull/12/head", Some(12)),
            ("refs/pull/x/merge", None),
            ("refs/pull/012/merge", None),
            ("refs/heads/pull/12/merge", None),
        ] {
            event.reference = Some(text.to_owned());
            let found = from_event(None, &event);
            assert_eq!(found.map(|found| found.number), expected, "{text}");
        }
    }
}
