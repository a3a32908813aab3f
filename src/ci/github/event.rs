//! What started the workflow, from the environment and the event file.
//!
//! Everything is checked before it is kept: what is not shaped as it must be is as good as absent,
//! and where that matters a warning says so. Which pull request it is about is `pull`'s to say,
//! whether the run may go on `trust`'s.

use crate::ci::subject::Turn;
use serde_json::Value;
use std::fmt;
use std::io::Read;
use std::path::Path;

/// The most bytes of an event file that are read; GitHub caps payloads at 25 MB.
pub const MAX_EVENT: usize = 32 * 1024 * 1024;

/// A repository, `owner/name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    owner: String,
    name: String,
}

impl Repository {
    /// Reads `owner/name`; none unless both are made of `A-Z a-z 0-9 . _ -` and are not dots alone.
    pub fn parse(text: &str) -> Option<Self> {
        let (owner, name) = text.split_once('/')?;
        let fits = |part: &str| {
            (1..=100).contains(&part.len())
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
                && !matches!(part, "." | "..")
        };
        (fits(owner) && fits(name)).then(|| Self { owner: owner.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// Whether a pull request's head lies in the repository that runs the workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// In the same repository.
    Same,
    /// In another one, or in one that is gone.
    Fork,
    /// The event does not say.
    Unknown,
}

/// What started the workflow.
#[derive(Debug, Clone, Default)]
pub struct Event {
    /// The event's name, as `GITHUB_EVENT_NAME` gives it; empty where it is not known.
    pub name: String,
    /// The repository that runs the workflow.
    pub repository: Option<Repository>,
    /// `GITHUB_SHA`: for a pull request the merge commit, which exists nowhere else.
    pub sha: Option<String>,
    /// `GITHUB_REF`.
    pub reference: Option<String>,
    /// `GITHUB_RUN_ID`.
    pub run_id: Option<u64>,
    /// `GITHUB_RUN_NUMBER`.
    pub run_number: Option<u64>,
    /// `GITHUB_RUN_ATTEMPT`, from 1.
    pub run_attempt: Option<u64>,
    /// The workflow's path in its repository, else its name.
    pub workflow: Option<String>,
    /// The job's id.
    pub job: Option<String>,
    /// The page of the server, without a slash at its end.
    pub server_url: String,
    /// The API of the server, without a slash at its end.
    pub api_url: String,
    /// What could not be read, one sentence each.
    pub warnings: Vec<String>,
    payload: Value,
}

impl Event {
    /// Reads the event from the environment and the file it names.
    ///
    /// `read_file` is [`read_event_file`] but in tests.
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        read_file: impl FnOnce(&Path) -> std::io::Result<Vec<u8>>,
    ) -> Self {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        let number = |name: &str| get(name)?.parse::<u64>().ok().filter(|n| is_number(*n));
        let mut event = Self {
            name: get("GITHUB_EVENT_NAME").filter(|name| is_word(name)).unwrap_or_default(),
            repository: get("GITHUB_REPOSITORY").and_then(|text| Repository::parse(&text)),
            sha: get("GITHUB_SHA").filter(|text| is_sha(text)),
            reference: get("GITHUB_REF").filter(|text| is_reference(text)),
            run_id: number("GITHUB_RUN_ID"),
            run_number: number("GITHUB_RUN_NUMBER"),
            run_attempt: number("GITHUB_RUN_ATTEMPT"),
            workflow: get("GITHUB_WORKFLOW_REF")
                .and_then(|text| workflow_path(&text))
                .or_else(|| get("GITHUB_WORKFLOW").filter(|text| is_plain(text, 500))),
            job: get("GITHUB_JOB").filter(|text| is_plain(text, 200)),
            server_url: get("GITHUB_SERVER_URL")
                .and_then(|text| base_url(&text))
                .unwrap_or_else(|| "https://github.com".to_owned()),
            api_url: get("GITHUB_API_URL")
                .and_then(|text| base_url(&text))
                .unwrap_or_else(|| "https://api.github.com".to_owned()),
            warnings: Vec::new(),
            payload: Value::Null,
        };
        if event.repository.is_none() {
            let what = "GITHUB_REPOSITORY names no repository: nothing is told to GitHub's API";
            event.warnings.push(what.to_owned());
        }
        if let Some(path) = get("GITHUB_EVENT_PATH") {
            match read_payload(Path::new(&path), read_file) {
                Ok(payload) => event.payload = payload,
                Err(why) => event.warnings.push(format!(
                    "the event file is left aside: {why}; the pull request is looked for without it"
                )),
            }
        }
        event
    }

    /// Makes an event from its name and payload alone, for what comes from another source.
    pub fn of(name: &str, payload: Value) -> Self {
        let name = if is_word(name) { name.to_owned() } else { String::new() };
        Self { name, payload, ..Self::default() }
    }

    /// Returns the payload: JSON, `null` where there is none.
    pub const fn payload(&self) -> &Value {
        &self.payload
    }

    /// Returns a text of the payload by JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.payload.pointer(pointer)?.as_str()
    }

    /// Returns a sha of the payload by JSON pointer; none unless it is one and not all zeros.
    pub fn sha_at(&self, pointer: &str) -> Option<&str> {
        self.text(pointer).filter(|text| is_sha(text) && text.bytes().any(|b| b != b'0'))
    }

    /// Returns a number of the payload by JSON pointer; none unless it is a usable id.
    pub fn number_at(&self, pointer: &str) -> Option<u64> {
        self.payload.pointer(pointer)?.as_u64().filter(|n| is_number(*n))
    }

    /// Returns the commit that checks and statuses belong to: the head of the pull request, not
    /// the merge commit. None for a comment, whose `GITHUB_SHA` is the default branch: there
    /// `pull` asks the API.
    pub fn head_sha(&self) -> Option<&str> {
        let about_pull = self.payload.get("pull_request").is_some_and(Value::is_object);
        if about_pull {
            return self.sha_at("/pull_request/head/sha");
        }
        match self.name.as_str() {
            "issue_comment" => None,
            "merge_group" => self.sha_at("/merge_group/head_sha"),
            "workflow_run" => self.sha_at("/workflow_run/head_sha"),
            "check_run" => self.sha_at("/check_run/head_sha"),
            "check_suite" => self.sha_at("/check_suite/head_sha"),
            "push" => self.sha_at("/after"),
            _ => None,
        }
        .or(if self.name == "issue_comment" { None } else { self.sha.as_deref() })
    }

    /// Returns the commit the change is measured from: the tip of the base branch for a pull
    /// request or a merge group, the commit before for a push.
    pub fn base_sha(&self) -> Option<&str> {
        self.sha_at("/pull_request/base/sha")
            .or_else(|| self.sha_at("/merge_group/base_sha"))
            .or_else(|| self.sha_at("/before").filter(|_| self.name == "push"))
    }

    /// Tells where the head of the pull request lies. `head.repo.fork` says that the *repository*
    /// is a fork, which says nothing about the pull request; the full names do.
    pub fn origin(&self) -> Origin {
        let (head, base) = match self.name.as_str() {
            "workflow_run" => ("/workflow_run/head_repository", "/workflow_run/repository"),
            _ => ("/pull_request/head/repo", "/pull_request/base/repo"),
        };
        let Some(base) = self.text(&format!("{base}/full_name")) else { return Origin::Unknown };
        match self.text(&format!("{head}/full_name")) {
            Some(head) if head.eq_ignore_ascii_case(base) => Origin::Same,
            // No repository at all: the fork was deleted.
            _ => Origin::Fork,
        }
    }

    /// Returns which run this is: ids grow over all workflows of a server, so a renamed workflow
    /// does not start from 1 again.
    pub fn turn(&self) -> Turn {
        Turn { run: self.run_id.unwrap_or(0), attempt: self.run_attempt.unwrap_or(1) }
    }

    /// Returns the page of the run.
    pub fn run_page(&self) -> Option<String> {
        let (repository, run) = (self.repository.as_ref()?, self.run_id?);
        let attempt = self.run_attempt.map_or_else(String::new, |n| format!("/attempts/{n}"));
        Some(format!("{}/{repository}/actions/runs/{run}{attempt}", self.server_url))
    }
}

/// Reads an event file, a little more than [`MAX_EVENT`] bytes at most.
pub fn read_event_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let cap = u64::try_from(MAX_EVENT).unwrap_or(u64::MAX).saturating_add(1);
    open_regular(std::fs::OpenOptions::new().read(true), path)?
        .take(cap)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file; a pipe that somebody put in its place is not waited for.
pub(super) fn open_regular(
    options: &mut std::fs::OpenOptions,
    path: &Path,
) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => {
            Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file"))
        }
    }
}

fn read_payload(
    path: &Path,
    read_file: impl FnOnce(&Path) -> std::io::Result<Vec<u8>>,
) -> Result<Value, String> {
    let bytes = read_file(path).map_err(|error| format!("it cannot be read ({})", error.kind()))?;
    if bytes.len() > MAX_EVENT {
        return Err(format!("it is larger than {MAX_EVENT} bytes"));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    match serde_json::from_slice::<Value>(bytes) {
        Ok(payload) if payload.is_object() => Ok(payload),
        Ok(_) => Err("it holds no JSON object".to_owned()),
        Err(error) => Err(format!("it is not JSON (line {})", error.line())),
    }
}

/// Tells whether a text is a commit's sha in full: 40 or 64 hexadecimal digits.
pub fn is_sha(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Tells whether a text can be a login: letters, digits, `-`, `_`, and `[bot]` at its end.
pub fn is_login(text: &str) -> bool {
    let name = text.strip_suffix("[bot]").unwrap_or(text);
    (1..=100).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Ids are JSON numbers: those that a double holds exactly, without 0.
const fn is_number(number: u64) -> bool {
    number > 0 && number <= 1 << 53
}

fn is_word(text: &str) -> bool {
    text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn is_plain(text: &str, most: usize) -> bool {
    text.len() <= most && !text.chars().any(char::is_control)
}

fn is_reference(text: &str) -> bool {
    text.starts_with("refs/") && is_plain(text, 1024) && !text.contains(' ')
}

/// Takes the path out of `owner/name/.github/workflows/ci.yml@refs/heads/main`.
fn workflow_path(text: &str) -> Option<String> {
    let (place, _) = text.split_once("@refs/").or_else(|| text.rsplit_once('@'))?;
    let path = place.splitn(3, '/').nth(2)?;
    (!path.is_empty() && is_plain(path, 500)).then(|| path.to_owned())
}

/// Checks a base URL and takes the slashes from its end.
fn base_url(text: &str) -> Option<String> {
    let text = text.trim_end_matches('/');
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"))?;
    let fits = |b: u8| b.is_ascii_alphanumeric() || b".-_:/[]~%".contains(&b);
    (!rest.is_empty() && text.len() <= 500 && rest.bytes().all(fits)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

    fn read(variables: &[(&str, &str)], file: &[u8]) -> Event {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Event::read(get, |_| Ok(file.to_vec()))
    }

    #[test]
    fn an_environment_of_actions_is_read() {
        let event = read(
            &[
                ("GITHUB_EVENT_NAME", "push"),
                ("GITHUB_REPOSITORY", "octo/hello.world"),
                ("GITHUB_SHA", SHA),
                ("GITHUB_REF", "refs/heads/main"),
                ("GITHUB_RUN_ID", "9007199254740991"),
                ("GITHUB_RUN_ATTEMPT", "2"),
                ("GITHUB_RUN_NUMBER", "7"),
                ("GITHUB_WORKFLOW_REF", "octo/hello/.github/workflows/a@b.yml@refs/heads/x@y"),
                ("GITHUB_JOB", "loop"),
                ("GITHUB_SERVER_URL", "https://ghe.example/"),
                ("GITHUB_API_URL", "https://ghe.example/api/v3"),
                ("GITHUB_EVENT_PATH", "/event.json"),
            ],
            json!({"after": SHA, "before": "0".repeat(40)}).to_string().as_bytes(),
        );
        assert_eq!(event.workflow.as_deref(), Some(".github/workflows/a@b.yml"));
        assert_eq!(event.turn(), Turn { run: 9_007_199_254_740_991, attempt: 2 });
        assert_eq!(event.head_sha(), Some(SHA));
        assert_eq!(event.base_sha(), None, "a new branch has no commit before");
        assert_eq!(event.api_url, "https://ghe.example/api/v3");
        let page = "https://ghe.example/octo/hello.world/actions/runs/9007199254740991/attempts/2";
        assert_eq!(event.run_page().as_deref(), Some(page));
        assert_eq!(event.warnings, Vec::<String>::new());
    }

    #[test]
    fn what_is_not_shaped_right_is_absent() {
        let event = read(
            &[
                ("GITHUB_EVENT_NAME", "push\n::error::x"),
                ("GITHUB_REPOSITORY", "octo/../hello"),
                ("GITHUB_SHA", "HEAD"),
                ("GITHUB_REF", "refs/heads/a b"),
                ("GITHUB_RUN_ID", "-1"),
                ("GITHUB_API_URL", "https://user:pass@host"),
                ("GITHUB_SERVER_URL", "javascript:alert(1)"),
                ("GITHUB_EVENT_PATH", "/event.json"),
            ],
            b"{\"a\": 1",
        );
        assert_eq!((event.name.as_str(), event.sha, event.reference), ("", None, None));
        assert_eq!((event.repository, event.run_id), (None, None));
        assert_eq!(event.api_url, "https://api.github.com");
        assert_eq!(event.server_url, "https://github.com");
        assert_eq!(event.warnings.len(), 2, "{:?}", event.warnings);
        assert!(event.warnings[1].contains("not JSON"), "{:?}", event.warnings);
    }

    #[test]
    fn an_event_file_too_large_or_absent_is_left_aside() {
        let variable = |name: &str| (name == "GITHUB_EVENT_PATH").then(|| "/e".to_owned());
        let large = Event::read(variable, |_| Ok(vec![b' '; MAX_EVENT + 1]));
        assert!(large.warnings.iter().any(|text| text.contains("larger")));
        let absent = Event::read(variable, |_| Err(std::io::ErrorKind::NotFound.into()));
        assert!(absent.warnings.iter().any(|text| text.contains("cannot be read")));
        assert!(absent.payload().is_null());
    }

    #[test]
    fn repositories_are_two_plain_names() {
        for good in ["a/b", "octo-org/hello.world_1", "a/.github"] {
            assert_eq!(Repository::parse(good).unwrap().to_string(), good);
        }
        for bad in ["", "a", "a/", "/b", "a/b/c", "a/..", "../b", "a b/c", "a/b?x", "a/b%2f", "é/b"]
        {
            assert_eq!(Repository::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_fork_is_told_by_names_not_by_the_flag_of_the_repository() {
        let pull = |head: Value| {
            let base = json!({"repo": {"full_name": "octo/hello"}, "sha": SHA});
            Event::of("pull_request", json!({"pull_request": {"head": head, "base": base}}))
        };
        let same = json!({"sha": SHA, "repo": {"full_name": "Octo/Hello", "fork": true}});
        assert_eq!(pull(same).origin(), Origin::Same);
        let fork = json!({"sha": SHA, "repo": {"full_name": "eve/hello", "fork": false}});
        assert_eq!(pull(fork).origin(), Origin::Fork);
        assert_eq!(pull(json!({"sha": SHA, "repo": null})).origin(), Origin::Fork);
        assert_eq!(Event::of("push", json!({})).origin(), Origin::Unknown);
    }

    #[test]
    fn a_comment_comes_without_a_head() {
        let payload = json!({
            "issue": {"number": 4, "pull_request": {}},
            "comment": {"id": 9, "body": "/loopexec ack", "user": {"login": "octo"}},
        });
        let mut event = Event::of("issue_comment", payload);
        event.sha = Some(SHA.to_owned());
        assert_eq!(event.head_sha(), None);
    }
}
