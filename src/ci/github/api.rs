//! The client of GitHub's API, with its limits.
//!
//! octocrab knows the requests' headers, the token and the base URL; attempts, waits and the time
//! of all calls together are `ci::http`'s. What comments and check runs look like is the duty of
//! `comment` and `check_run`. Nothing in here touches a verdict: each trouble is one sentence.

use super::event::{Repository, is_login};
use crate::ci::http::{self, Answer, Effect, Failed, Lost, Policy};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::fmt;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// What stays in a value of a query as it is (RFC 3986, section 2.3).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What is said once where there is no token.
pub const NO_TOKEN: &str = "no token: nothing is told to GitHub's API (no comment, no check run); \
                            the log, the summary and the files on disk have it all";

/// What a call is for, and the permission it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// What it does, after "cannot".
    pub doing: &'static str,
    /// The line under `permissions:` that allows it.
    pub permission: &'static str,
}

impl Need {
    /// Makes a trouble of this call from one clause.
    pub fn failed(self, what: impl Into<String>) -> Trouble {
        Trouble { need: self, cause: Cause::Failed(Failed::new(what)) }
    }
}

/// Why a call brought nothing; its text is the one warning to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What the call was for.
    pub need: Need,
    /// What went wrong.
    pub cause: Cause,
}

/// What went wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The token may not do it (403), with what GitHub said.
    Denied(String),
    /// The token is not, or no longer, one of GitHub's (401), with what GitHub said.
    BadToken(String),
    /// No such thing, or the token cannot see it (404, 410).
    Missing,
    /// Another status that is no success, with what GitHub said.
    Answered {
        /// The status.
        status: u16,
        /// What GitHub said.
        said: String,
    },
    /// No usable answer.
    Failed(Failed),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Need { doing, permission } = self.need;
        write!(f, "cannot {doing}: ")?;
        match &self.cause {
            Cause::Denied(said) => write!(
                f,
                "the token lacks `{permission}` ({said}); add it under `permissions:` of the job \
                 (on pull requests from forks and Dependabot the token is read-only whatever is \
                 asked for); the result of the run is not touched"
            ),
            Cause::BadToken(said) => write!(
                f,
                "GitHub does not take the token ({said}): a job's own ends with the job, any other may be \
                 mistyped or withdrawn; the result of the run is not touched"
            ),
            Cause::Missing => write!(
                f,
                "GitHub knows no such thing, or the token cannot see it (it takes `{permission}`)"
            ),
            Cause::Answered { status, said } => write!(f, "GitHub answered {status} ({said})"),
            Cause::Failed(failed) => write!(f, "GitHub's API: {failed}"),
        }
    }
}

impl std::error::Error for Trouble {}

/// Who the token writes as, as far as that can be known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Writer {
    /// A user, by login.
    User(String),
    /// An app: the job's own token does not tell which.
    App,
}

/// GitHub's API as one token sees it. All calls together take no longer than the policy's total.
pub struct Api {
    crab: octocrab::Octocrab,
    policy: Policy,
    spent: Mutex<Duration>,
    app_token: bool,
    writer: OnceCell<Writer>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
enum Verb {
    Get,
    Post,
    Patch,
    Delete,
}

impl Api {
    /// Makes the client for a base URL (`GITHUB_API_URL`, with `/api/v3` on Enterprise Server).
    ///
    /// It belongs to the runtime it is made in: octocrab starts a task there.
    #[expect(clippy::unused_async, reason = "octocrab needs a runtime around it from the start")]
    pub async fn connect(api_url: &str, token: &str, policy: Policy) -> Result<Self, Failed> {
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Failed::new("the token has characters that no token has"));
        }
        let client = http::client().map_err(|error| Failed::new(error.to_string()))?;
        let wrong = |_| Failed::new("the address of GitHub's API is not one");
        let crab = octocrab::Octocrab::builder()
            .base_uri(api_url.trim_end_matches('/'))
            .map_err(wrong)?
            .personal_token(token.to_owned())
            .build_with_reqwest(client)
            .map_err(wrong)?;
        // Tokens of apps, the job's own among them, start so; they may not ask who they are.
        let app_token = token.starts_with("ghs_");
        let (spent, writer) = (Mutex::new(Duration::ZERO), OnceCell::new());
        Ok(Self { crab, policy, spent, app_token, writer })
    }

    /// Reads JSON.
    pub async fn read(&self, need: Need, path: &str) -> Result<Value, Trouble> {
        json(need, self.ask(need, Verb::Get, Effect::Repeatable, path, None).await?)
    }

    /// Makes something by POST; `effect` says whether a lost answer may be asked for again.
    pub async fn post(
        &self,
        need: Need,
        effect: Effect,
        path: &str,
        body: &Value,
    ) -> Result<Value, Trouble> {
        json(need, self.ask(need, Verb::Post, effect, path, Some(body)).await?)
    }

    /// Changes something by PATCH.
    pub async fn patch(
        &self,
        need: Need,
        effect: Effect,
        path: &str,
        body: &Value,
    ) -> Result<Value, Trouble> {
        json(need, self.ask(need, Verb::Patch, effect, path, Some(body)).await?)
    }

    /// Deletes something; what is gone already is as good as deleted.
    pub async fn delete(&self, need: Need, path: &str) -> Result<(), Trouble> {
        let answer = self.ask(need, Verb::Delete, Effect::Repeatable, path, None).await?;
        match json(need, answer) {
            Ok(_) | Err(Trouble { cause: Cause::Missing, .. }) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    /// Waits; the time counts like that of a call. Returns at once where none is left.
    pub(super) async fn pause(&self, wait: Duration) {
        if self.left() > wait {
            tokio::time::sleep(wait).await;
            self.spend(wait);
        }
    }

    /// The policy the calls follow.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    fn left(&self) -> Duration {
        self.spent.lock().map_or(Duration::ZERO, |spent| self.policy.total.saturating_sub(*spent))
    }

    fn spend(&self, time: Duration) {
        if let Ok(mut spent) = self.spent.lock() {
            *spent += time;
        }
    }

    async fn ask(
        &self,
        need: Need,
        verb: Verb,
        effect: Effect,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Trouble> {
        let total = self.left();
        if total.is_zero() {
            let all = self.policy.total.as_secs();
            return Err(need.failed(format!("the {all} s there are for all calls are used up")));
        }
        let started = Instant::now();
        let attempt = async || self.send(verb, path, body).await;
        let policy = Policy { total, ..self.policy };
        let answer = http::repeat(&policy, effect, attempt, tokio::time::sleep).await;
        self.spend(started.elapsed());
        let answer = answer.map_err(|failed| Trouble { need, cause: Cause::Failed(failed) })?;
        match answer.status {
            401 => Err(Trouble { need, cause: Cause::BadToken(said(&answer)) }),
            403 => Err(Trouble { need, cause: Cause::Denied(said(&answer)) }),
            _ => Ok(answer),
        }
    }

    /// Sends one request through octocrab, which retries nothing itself here.
    async fn send(
        &self,
        verb: Verb,
        path: &str,
        body: Option<&Value>,
    ) -> Result<reqwest::Response, Lost> {
        let response = match verb {
            Verb::Get => self.crab._get(path).await,
            Verb::Post => self.crab._post(path, body).await,
            Verb::Patch => self.crab._patch(path, body).await,
            Verb::Delete => self.crab._delete(path, body).await,
        };
        let response = response.map_err(|error| Lost::from_error(&error))?;
        Ok(reqwest::Response::from(response.map(reqwest::Body::wrap)))
    }

    /// Tells whether this token could have written something by that user (a JSON user object).
    ///
    /// A user's token wrote what carries its login. An app's token may not ask who it is; there
    /// anything by a bot counts, never anything by a person.
    pub(super) async fn may_have_written(&self, user: &Value) -> Result<bool, Trouble> {
        let login = user["login"].as_str().unwrap_or_default();
        Ok(match self.writer.get_or_try_init(|| self.read_writer()).await? {
            Writer::User(own) => login.eq_ignore_ascii_case(own),
            // Gitea and Forgejo give their users no type; no person can have these logins there.
            Writer::App => {
                user["type"] == "Bot"
                    || (user.get("type").is_none()
                        && matches!(login, "gitea-actions" | "forgejo-actions"))
            }
        })
    }

    async fn read_writer(&self) -> Result<Writer, Trouble> {
        if self.app_token {
            return Ok(Writer::App);
        }
        let need = Need { doing: "ask whose the token is", permission: "metadata: read" };
        let user = match self.read(need, "/user").await {
            Ok(user) => user,
            // An app's token may not ask; one that nobody answered is still somebody's.
            Err(Trouble { cause: Cause::Denied(_) | Cause::Missing, .. }) => Value::Null,
            Err(trouble) => return Err(trouble),
        };
        Ok(match (user["login"].as_str(), user["type"].as_str()) {
            (Some(login), Some("User") | None) if is_login(login) => Writer::User(login.to_owned()),
            _ => Writer::App,
        })
    }
}

/// Reads an answer's JSON; `null` where it has no body.
fn json(need: Need, answer: Answer) -> Result<Value, Trouble> {
    if !answer.is_ok() {
        let cause = match answer.status {
            404 | 410 => Cause::Missing,
            status => Cause::Answered { status, said: said(&answer) },
        };
        return Err(Trouble { need, cause });
    }
    if answer.body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&answer.body).map_err(|_| need.failed("its answer is not JSON"))
}

/// What GitHub says about a refusal, short and on one line.
fn said(answer: &Answer) -> String {
    let body = serde_json::from_slice::<Value>(&answer.body).unwrap_or_default();
    let text = body["message"].as_str().unwrap_or("no reason given");
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    format!("{} {}", answer.status, line.trim())
}

/// What a user may do in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Nothing, or what everybody may.
    None,
    /// Read.
    Read,
    /// Read, and manage issues.
    Triage,
    /// Write.
    Write,
    /// Write, and manage the repository without its dangerous settings.
    Maintain,
    /// All.
    Admin,
}

impl Permission {
    /// Tells whether it is write access.
    pub fn may_write(self) -> bool {
        self >= Self::Write
    }
}

/// Asks what a user may do in a repository; a user unknown there may do nothing.
pub async fn permission_of(
    api: &Api,
    repository: &Repository,
    user: &str,
) -> Result<Permission, Trouble> {
    let need = Need { doing: "ask what a user may do here", permission: "metadata: read" };
    if !is_login(user) || user.ends_with("[bot]") {
        return Ok(Permission::None);
    }
    let path = format!("/repos/{repository}/collaborators/{user}/permission");
    let answer = match api.read(need, &path).await {
        Ok(answer) => answer,
        Err(Trouble { cause: Cause::Missing, .. }) => return Ok(Permission::None),
        Err(trouble) => return Err(trouble),
    };
    // The answer must be about the user that was asked for, not about one renamed since.
    let about = answer.pointer("/user/login").and_then(Value::as_str);
    if about.is_some_and(|login| !login.eq_ignore_ascii_case(user)) {
        return Ok(Permission::None);
    }
    // `permission` knows four levels and is what decides; roles of one's own have any name in
    // `role_name`, which therefore only tells apart what `permission` lumps together.
    let role = answer["role_name"].as_str().unwrap_or_default();
    Ok(match (answer["permission"].as_str().unwrap_or_default(), role) {
        ("admin", _) => Permission::Admin,
        ("write", "maintain") => Permission::Maintain,
        ("write", _) => Permission::Write,
        ("read", "triage") => Permission::Triage,
        ("read", _) => Permission::Read,
        _ => Permission::None,
    })
}

/// Which artifacts are meant.
#[derive(Debug, Clone, Copy)]
pub enum Named<'a> {
    /// Those of this very name.
    Exactly(&'a str),
    /// Those whose names start so.
    From(&'a str),
}

/// An artifact of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was uploaded, RFC 3339 as GitHub writes it.
    pub created_at: String,
    /// `sha256:…` of its zip, where the server tells it.
    pub digest: Option<String>,
    /// The branch of the run that made it.
    pub head_branch: Option<String>,
    /// The id of the repository that branch is in.
    pub head_repository: Option<u64>,
}

/// The pages of artifacts that are looked through: the newest thousand.
const ARTIFACT_PAGES: u32 = 10;

/// Lists artifacts that can still be downloaded, newest first.
pub async fn artifacts_named(
    api: &Api,
    repository: &Repository,
    named: Named<'_>,
) -> Result<Vec<Artifact>, Trouble> {
    let need = Need { doing: "list the artifacts", permission: "actions: read" };
    let filter = match named {
        Named::Exactly(name) => format!("&name={}", utf8_percent_encode(name, UNRESERVED)),
        Named::From(_) => String::new(),
    };
    let fits = |artifact: &Artifact| match named {
        Named::Exactly(name) => artifact.name == name,
        Named::From(start) => artifact.name.starts_with(start),
    };
    let mut found = Vec::new();
    for page in 1..=ARTIFACT_PAGES {
        let path =
            format!("/repos/{repository}/actions/artifacts?per_page=100&page={page}{filter}");
        let answer = api.read(need, &path).await?;
        let listed = answer["artifacts"].as_array().map_or(&[][..], Vec::as_slice);
        found.extend(listed.iter().filter_map(artifact_of).filter(fits));
        if listed.len() < 100 {
            break;
        }
    }
    found.sort_by_key(|artifact| std::cmp::Reverse(artifact.id));
    Ok(found)
}

fn artifact_of(value: &Value) -> Option<Artifact> {
    let run = &value["workflow_run"];
    if value["expired"] == true {
        return None;
    }
    Some(Artifact {
        id: value["id"].as_u64()?,
        name: value["name"].as_str()?.to_owned(),
        size: value["size_in_bytes"].as_u64().unwrap_or(0),
        created_at: value["created_at"].as_str()?.to_owned(),
        digest: value["digest"].as_str().map(str::to_owned),
        head_branch: run["head_branch"].as_str().map(str::to_owned),
        head_repository: run["head_repository_id"].as_u64(),
    })
}

/// What was downloaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// Its size in bytes.
    pub bytes: u64,
    /// sha256 of it, 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// The longest a download takes, and the longest it may stand still.
const DOWNLOAD_TOTAL: Duration = Duration::from_secs(300);
const DOWNLOAD_STALL: Duration = Duration::from_secs(30);

/// Downloads an artifact's zip into a file that does not exist yet, `cap` bytes at most.
///
/// GitHub redirects to a store at another host; the token does not go there. On any trouble the
/// file is removed. Its time does not count against that of the other calls.
pub async fn download_artifact(
    api: &Api,
    repository: &Repository,
    id: u64,
    into: &Path,
    cap: u64,
) -> Result<Download, Trouble> {
    let need = Need { doing: "download the artifact", permission: "actions: read" };
    let path = format!("/repos/{repository}/actions/artifacts/{id}/zip");
    let mut file = std::fs::File::create_new(into).map_err(|error| disk(need, &error))?;
    let all = async {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match fetch(api, need, &path, &mut file, cap).await {
                Err((_, Again::Yes)) if attempt < 3 => {
                    tokio::time::sleep(api.policy.first_wait * attempt).await;
                }
                outcome => return outcome.map_err(|(trouble, _)| trouble),
            }
        }
    };
    let outcome = tokio::time::timeout(DOWNLOAD_TOTAL, all).await;
    let outcome = outcome.unwrap_or_else(|_| Err(need.failed("it took too long")));
    if outcome.is_err() {
        drop(std::fs::remove_file(into));
    }
    outcome
}

/// Whether another attempt can help.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

fn disk(need: Need, error: &std::io::Error) -> Trouble {
    need.failed(format!("the file cannot be written ({})", error.kind()))
}

async fn fetch(
    api: &Api,
    need: Need,
    path: &str,
    file: &mut std::fs::File,
    cap: u64,
) -> Result<Download, (Trouble, Again)> {
    use sha2::Digest;
    let failed = |what: String, again| (need.failed(what), again);
    let lost = |lost: Lost| failed(lost.into_text(), Again::Yes);
    let stalled = |_| failed("it stood still".to_owned(), Again::Yes);
    let unwritable = |error: std::io::Error| (disk(need, &error), Again::No);
    let asked = tokio::time::timeout(DOWNLOAD_STALL, api.send(Verb::Get, path, None)).await;
    let mut response = asked.map_err(stalled)?.map_err(lost)?;
    match response.status().as_u16() {
        200 => {}
        401 => {
            let cause = Cause::BadToken("401".to_owned());
            return Err((Trouble { need, cause }, Again::No));
        }
        403 => {
            let cause = Cause::Denied("403".to_owned());
            return Err((Trouble { need, cause }, Again::No));
        }
        404 | 410 => return Err((Trouble { need, cause: Cause::Missing }, Again::No)),
        status @ (429 | 500..=599) => {
            return Err(failed(format!("it answered {status}"), Again::Yes));
        }
        status => return Err(failed(format!("it answered {status}"), Again::No)),
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(unwritable)?;
    let (mut bytes, mut hash) = (0, sha2::Sha256::new());
    loop {
        let chunk = tokio::time::timeout(DOWNLOAD_STALL, response.chunk()).await;
        let chunk = chunk.map_err(stalled)?.map_err(|error| lost(Lost::from_error(&error)))?;
        let Some(chunk) = chunk else { break };
        bytes += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        if bytes > cap {
            return Err(failed(format!("it is larger than {cap} bytes"), Again::No));
        }
        hash.update(&chunk);
        file.write_all(&chunk).map_err(unwritable)?;
    }
    Ok(Download { bytes, sha256: crate::domain::hex::encode(&hash.finalize()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_permission_on_one_line() {
        let body = br#"{"message":"Resource not accessible\nby integration"}"#.to_vec();
        let answer = Answer { status: 403, headers: reqwest::header::HeaderMap::new(), body };
        let need = Need { doing: "write the comment", permission: "pull-requests: write" };
        let text = Trouble { need, cause: Cause::Denied(said(&answer)) }.to_string();
        assert!(text.contains("`pull-requests: write`") && !text.contains('\n'), "{text}");
        let text = Trouble { need, cause: Cause::BadToken(said(&answer)) }.to_string();
        assert!(!text.contains("permissions") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn a_query_holds_one_value() {
        assert_eq!(
            utf8_percent_encode("a b&c=d/é", UNRESERVED).to_string(),
            "a%20b%26c%3Dd%2F%C3%A9"
        );
    }

    #[test]
    fn write_access_starts_at_write() {
        use Permission as P;
        let writers = [P::None, P::Read, P::Triage, P::Write, P::Maintain, P::Admin];
        assert_eq!(writers.map(P::may_write), [false, false, false, true, true, true]);
    }

    #[tokio::test]
    async fn a_token_that_is_none_is_an_error_and_stands_in_no_text() {
        for token in ["", "a b", "a\nb", "é"] {
            let failed = Api::connect("https://x", token, Policy::default()).await.unwrap_err();
            assert!(!failed.what.contains("a b"), "{failed}");
        }
        let api = Api::connect("https://x/api/v3/", "ghs_SECRET", Policy::default()).await.unwrap();
        assert!(!format!("{api:?}").contains("SECRET"));
    }
}
