//! Which GitHub event may run which checkout, and whose comment is an answer.
//!
//! Pure: events come in as the JSON of `GITHUB_EVENT_PATH`, commits as text. That the protected sections
//! of a pull request come from its base is `config`'s, reading the base `workspace::base`'s;
//! `docs/pull-requests.md` says why.

use crate::domain::gate::{Gate, Reply};
use crate::error::{Error, Kind, Result};
use serde_json::Value;

/// Events that only people with write access, or the platform by their leave, set off. Any other runs with
/// the repository's own secrets and a token that can write, whoever set it off: a comment is enough.
const OWN: [&str; 10] = [
    "push",
    "merge_group",
    "schedule",
    "workflow_dispatch",
    "repository_dispatch",
    "release",
    "create",
    "delete",
    "deployment",
    "branch_protection_rule",
];

/// Says whether an event runs with the repository's own secrets, whoever set it off.
///
/// Those of a pull request do not, but for `pull_request_target`; where no event is named, nothing is
/// known.
pub fn is_privileged(event: &str) -> bool {
    let event = event.to_ascii_lowercase();
    let of_a_pull_request = event.starts_with("pull_request") && event != "pull_request_target";
    !event.is_empty() && !of_a_pull_request && !OWN.contains(&event.as_str())
}

/// Whether the action's input `allow-pull-request-target` names what is refused otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeadCheckout {
    /// A head checkout under a privileged event is refused.
    #[default]
    Refuse,
    /// It is run with the loop file of the base revision.
    AllowWithBaseLoop,
}

/// What is known of the job.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// `GITHUB_EVENT_NAME`.
    pub event: &'a str,
    /// The payload in `GITHUB_EVENT_PATH`.
    pub payload: &'a Value,
    /// `GITHUB_SHA`: the commit that GitHub started the job for.
    pub sha: &'a str,
    /// The commit that is checked out (`git rev-parse HEAD`); none where nobody can tell.
    pub head: Option<&'a str>,
    /// Whether a head checkout was allowed by name.
    pub allow: HeadCheckout,
}

/// Under which rules the loop of a job may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// The repository's own code: the loop file counts as it stands.
    Own,
    /// A pull request: check, guards and isolation come from the first of these revisions that is
    /// there, or a person agrees.
    HeldTo(Vec<String>),
    /// A head checkout that was allowed by name: the whole loop file comes from this revision.
    LoopFrom(String),
}

/// Says whether the loop of a job may run, and under which rules; asked before the loop file is read.
///
/// # Errors
/// `config_invalid` with the detail `untrusted_checkout` for a privileged event with another checkout
/// than the commit the event itself stands for, and for an event that cannot be read.
pub fn may_run(facts: &Facts<'_>) -> Result<Trust> {
    if is_privileged(facts.event) {
        return privileged(facts);
    }
    let event = facts.event.to_ascii_lowercase();
    let Some(pull) = facts.payload.get("pull_request").filter(|pull| pull.is_object()) else {
        if event.is_empty() || event.starts_with("pull_request") {
            // What cannot be read is not trusted: an earlier step may have written over it.
            return Err(Error::new(
                Kind::ConfigInvalid,
                "the event that started this job cannot be read, so nobody can tell whose code this is",
            )
            .detail("untrusted_checkout")
            .hint("GITHUB_EVENT_NAME and GITHUB_EVENT_PATH are the runner's; nothing may change them")
            .hint("outside of GitHub: loopexec ci --platform none"));
        }
        return Ok(Trust::Own);
    };
    let mut bases = Vec::new();
    // GitHub made this commit: its first parent is the base as it was merged with. Of a checkout of the
    // head, the first parent would be the author's choice.
    if is_commit(facts.sha)
        && facts.head == Some(facts.sha)
        && facts.head != text(pull, &["head", "sha"])
    {
        bases.push(format!("{}^1", facts.sha));
    }
    if let Some(base) = text(pull, &["base", "sha"]).filter(|sha| is_commit(sha)) {
        bases.push(base.to_owned());
    }
    if bases.is_empty() {
        return Err(Error::new(
            Kind::ConfigInvalid,
            format!("the event {} tells no base revision of its pull request", shown(facts.event)),
        )
        .detail("untrusted_checkout"));
    }
    Ok(Trust::HeldTo(bases))
}

fn privileged(facts: &Facts<'_>) -> Result<Trust> {
    // These events stand for a commit of the base repository's own branch.
    if is_commit(facts.sha) && facts.head == Some(facts.sha) {
        return Ok(Trust::Own);
    }
    if facts.allow == HeadCheckout::AllowWithBaseLoop && is_commit(facts.sha) {
        return Ok(Trust::LoopFrom(facts.sha.to_owned()));
    }
    let what = match (facts.head, is_commit(facts.sha)) {
        (Some(_), true) => format!(
            "{} runs with this repository's secrets, and what is checked out is not the commit it stands for: the loop is not run",
            facts.event
        ),
        _ => format!(
            "{} runs with this repository's secrets, and nobody can tell which commit is checked out: the loop is not run",
            facts.event
        ),
    };
    Err(Error::new(Kind::ConfigInvalid, what)
        .detail("untrusted_checkout")
        .hint("run the loop under pull_request, and publish from a second workflow: see docs/pull-requests.md")
        .hint("allow-pull-request-target: true runs it all the same, with the loop file of the base revision"))
}

/// An answer in a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// The gate.
    pub gate: Gate,
    /// Yes or no.
    pub reply: Reply,
}

/// Reads `/loopexec ack GATE yes|no`: the first line of a comment, these words alone, one blank between
/// them.
pub fn parse_ack_comment(body: &str) -> Option<Ack> {
    let line = body.split('\n').next()?;
    let line = line.strip_suffix('\r').unwrap_or(line);
    let words: Vec<&str> = line.split(' ').collect();
    let ["/loopexec", "ack", gate, reply] = words.as_slice() else { return None };
    let reply = match *reply {
        "yes" => Reply::Yes,
        "no" => Reply::No,
        _ => return None,
    };
    Some(Ack { gate: Gate::from_word(gate)?, reply })
}

fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(value, |value, key| value.get(key))?.as_str()
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns a name of the event as a sentence can hold it.
fn shown(name: &str) -> String {
    name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_[]".contains(*c)).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MERGE: &str = "1111111111111111111111111111111111111111";
    const HEAD: &str = "2222222222222222222222222222222222222222";
    const BASE: &str = "3333333333333333333333333333333333333333";

    fn pull() -> Value {
        json!({"action": "opened", "pull_request": {
            "head": {"sha": HEAD, "repo": {"full_name": "someone/project", "fork": true}},
            "base": {"sha": BASE, "repo": {"full_name": "acme/project"}},
        }})
    }

    fn asked(event: &str, payload: &Value, sha: &str, head: Option<&str>) -> Result<Trust> {
        may_run(&Facts { event, payload, sha, head, allow: HeadCheckout::Refuse })
    }

    #[test]
    fn a_pull_request_is_held_to_its_base() {
        let merged = asked("pull_request", &pull(), MERGE, Some(MERGE)).unwrap();
        assert_eq!(merged, Trust::HeldTo(vec![format!("{MERGE}^1"), BASE.to_owned()]));
        // The author chooses the parents of the head.
        let head = asked("pull_request", &pull(), MERGE, Some(HEAD)).unwrap();
        assert_eq!(head, Trust::HeldTo(vec![BASE.to_owned()]));
        let head = asked("pull_request", &pull(), HEAD, Some(HEAD)).unwrap();
        assert_eq!(head, Trust::HeldTo(vec![BASE.to_owned()]));
        let review = asked("pull_request_review", &pull(), MERGE, None).unwrap();
        assert_eq!(review, Trust::HeldTo(vec![BASE.to_owned()]));
        let bare = json!({"pull_request": {"head": {"sha": HEAD}}});
        assert_eq!(
            asked("pull_request", &bare, MERGE, Some(HEAD)).unwrap_err().detail,
            Some("untrusted_checkout")
        );
    }

    #[test]
    fn a_base_that_is_no_commit_never_reaches_git() {
        let mut event = pull();
        event["pull_request"]["base"]["sha"] = json!("--upload-pack=x");
        assert!(asked("pull_request", &event, MERGE, Some(HEAD)).is_err());
    }

    #[test]
    fn events_of_people_with_write_access_run_as_they_stand() {
        for event in ["push", "workflow_dispatch", "schedule", "merge_group", "release"] {
            assert_eq!(asked(event, &json!({}), MERGE, Some(HEAD)).unwrap(), Trust::Own, "{event}");
        }
        for event in ["commit_comment", "status", "check_run", "gollum", "one_of_tomorrow"] {
            assert!(asked(event, &json!({}), BASE, Some(HEAD)).is_err(), "{event}");
            assert_eq!(asked(event, &json!({}), BASE, Some(BASE)).unwrap(), Trust::Own, "{event}");
        }
    }

    #[test]
    fn a_head_checkout_with_secrets_is_refused_and_the_events_own_commit_is_not() {
        let comment = json!({"issue": {"number": 7, "pull_request": {}}});
        let run = json!({"workflow_run": {"head_sha": HEAD, "event": "pull_request"}});
        for (event, payload) in
            [("pull_request_target", pull()), ("workflow_run", run), ("issue_comment", comment)]
        {
            assert_eq!(asked(event, &payload, BASE, Some(BASE)).unwrap(), Trust::Own, "{event}");
            for head in [Some(HEAD), Some(MERGE), None] {
                let error = asked(event, &payload, BASE, head).unwrap_err();
                assert_eq!(error.kind, Kind::ConfigInvalid);
                assert_eq!(error.detail, Some("untrusted_checkout"), "{event} {head:?}");
                assert!(error.what.contains(event), "{}", error.what);
            }
            assert!(asked(event, &payload, "", Some("")).is_err(), "{event}: two unknowns agree");
        }
    }

    #[test]
    fn what_is_allowed_by_name_takes_its_loop_from_the_base() {
        let payload = pull();
        let facts = Facts {
            event: "pull_request_target",
            payload: &payload,
            sha: BASE,
            head: Some(HEAD),
            allow: HeadCheckout::AllowWithBaseLoop,
        };
        assert_eq!(may_run(&facts).unwrap(), Trust::LoopFrom(BASE.to_owned()));
        assert_eq!(may_run(&Facts { head: Some(BASE), ..facts }).unwrap(), Trust::Own);
        assert!(may_run(&Facts { sha: "", ..facts }).is_err());
    }

    #[test]
    fn an_answer_is_the_first_line_and_these_words_alone() {
        let yes = Some(Ack { gate: Gate::Deliver, reply: Reply::Yes });
        for body in [
            "/loopexec ack deliver yes",
            "/loopexec ack deliver yes\r\n\r\nLooks right to me",
            "/loopexec ack deliver yes\n/loopexec ack deliver no",
        ] {
            assert_eq!(parse_ack_comment(body), yes, "{body:?}");
        }
        let no = Some(Ack { gate: Gate::ProtectedChange, reply: Reply::No });
        assert_eq!(parse_ack_comment("/loopexec ack protected_change no"), no);
        for body in [
            "",
            "> /loopexec ack deliver yes",
            " /loopexec ack deliver yes",
            "`/loopexec ack deliver yes`",
            "please\n/loopexec ack deliver yes",
            "/loopexec ack deliver yes please",
            "/loopexec ack deliver  yes",
            "/loopexec ack deliver yes ",
            "/loopexec ack deliver YES",
            "/loopexec ack huge_patch yes",
            "/loopexec ack deliver",
            "/Loopexec ack deliver yes",
            "/loopexec\tack deliver yes",
            "/loopexec ack deliver yes\u{200b}",
        ] {
            assert_eq!(parse_ack_comment(body), None, "{body:?}");
        }
    }
}
