//! One HTTP client: proxies, retries that honour what the server says, a total cap.
//!
//! What is asked, and what an answer means, is the duty of the platforms' files. Nothing in here
//! puts a URL, a header or a body into a message: signed URLs and tokens stand in them.

use crate::error::{Error, Kind, Result};
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The most bytes of an answer's body that are read into memory.
pub const MAX_BODY: usize = 16 * 1024 * 1024;

/// How long GitHub wants to be left alone after a secondary limit that names no time.
const SECONDARY_WAIT: Duration = Duration::from_secs(60);

/// How often and how long a request is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The most times a request is sent.
    pub attempts: u32,
    /// The wait before the second attempt; it doubles from attempt to attempt.
    pub first_wait: Duration,
    /// The most time all attempts and waits take together. One attempt gets at most a third of
    /// it, so that a server that stalls once leaves room for another try.
    pub total: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self { attempts: 5, first_wait: Duration::from_secs(1), total: Duration::from_secs(60) }
    }
}

/// What a request may do when it is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The second one changes nothing, or the caller mends what it does.
    Repeatable,
    /// Each one makes something: sent again only where the first was surely not carried out.
    Creates,
}

/// What a server answered, whatever the status; those worth a retry only come as [`Failed`].
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body, at most [`MAX_BODY`] bytes.
    pub body: Vec<u8>,
}

impl Answer {
    /// Tells whether the status is one of success.
    pub const fn is_ok(&self) -> bool {
        self.status >= 200 && self.status < 300
    }
}

/// Why no usable answer came; one clause without secrets and without a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What happened.
    pub what: String,
    /// The last status, where the server answered.
    pub status: Option<u16>,
}

impl Failed {
    /// Makes one that has no status.
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), status: None }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failed {}

/// One attempt that brought no answer.
#[derive(Debug)]
pub(super) struct Lost {
    what: String,
    reached: Reached,
}

/// Whether a request may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    No,
    Maybe,
}

impl Lost {
    /// Reads why a transport failed, from anything that has a [`reqwest::Error`] among its causes.
    pub(super) fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut reached = Reached::Maybe;
        let mut said = None;
        let mut deepest = None;
        let mut next = Some(error);
        while let Some(cause) = next {
            next = cause.source();
            if let Some(known) = cause.downcast_ref::<reqwest::Error>() {
                // Its text has the URL, so only its sort is told.
                said = Some(sort_of(known));
                if known.is_connect() || known.is_builder() {
                    reached = Reached::No;
                }
            } else if said.is_some() {
                deepest = Some(cause.to_string());
            }
        }
        let said = said.unwrap_or("it failed");
        let what = match deepest {
            Some(deepest) if !deepest.contains("://") => format!("{said}: {deepest}"),
            _ => said.to_owned(),
        };
        Self { what, reached }
    }

    /// Returns what happened, in one clause.
    pub(super) fn into_text(self) -> String {
        self.what
    }
}

const fn says(condition: bool, text: &'static str, otherwise: &'static str) -> &'static str {
    if condition { text } else { otherwise }
}

fn sort_of(error: &reqwest::Error) -> &'static str {
    let text = says(error.is_body() || error.is_decode(), "its answer broke off", "it broke off");
    let text = says(error.is_timeout(), "it did not answer in time", text);
    let text = says(error.is_redirect(), "it redirects to a place that is not followed", text);
    let text = says(error.is_builder(), "the request cannot be made", text);
    says(error.is_connect(), "no connection", text)
}

/// Makes the client everything in `ci` uses: rustls with ring and the system's certificates,
/// proxies from the environment, ten seconds to connect.
///
/// Redirects are followed five times at most, never from https to http; the `Authorization`
/// header does not go along to another host or port.
pub fn client() -> Result<reqwest::Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Losing the race against another thread is as good as winning it.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
    let redirects = reqwest::redirect::Policy::custom(|attempt| {
        let downgrade = attempt.url().scheme() != "https"
            && attempt.previous().last().is_some_and(|last| last.scheme() == "https");
        if attempt.previous().len() > 5 || downgrade {
            attempt.error("refused")
        } else {
            attempt.follow()
        }
    });
    reqwest::Client::builder()
        .user_agent(concat!("loopexec/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(10))
        .redirect(redirects)
        .referer(false)
        .build()
        .map_err(|error| {
            Error::new(Kind::WorkspaceInvalid, "no HTTPS client can be made on this machine")
                .hint("install the system's certificates (package ca-certificates)")
                .because(error.without_url())
        })
}

/// Sends a request, again where that can help; it must be one that may be carried out twice.
///
/// Transport errors, 429, 500, 502, 503, 504 and GitHub's secondary limit (a 403 that says so)
/// are tried again. `Retry-After` and `x-ratelimit-reset` are honoured; a wait that does not fit
/// into what is left of the total ends it at once. Any other status is an [`Answer`].
pub async fn send(
    policy: &Policy,
    build: impl Fn() -> reqwest::RequestBuilder,
) -> Result<Answer, Failed> {
    let attempt = async || build().send().await.map_err(|error| Lost::from_error(&error));
    repeat(policy, Effect::Repeatable, attempt, tokio::time::sleep).await
}

/// Sends a request that makes something new each time; it is repeated only where the server
/// refused it (429, 503, a limit) or was not reached, never where an answer was lost.
pub async fn send_once(
    policy: &Policy,
    build: impl Fn() -> reqwest::RequestBuilder,
) -> Result<Answer, Failed> {
    let attempt = async || build().send().await.map_err(|error| Lost::from_error(&error));
    repeat(policy, Effect::Creates, attempt, tokio::time::sleep).await
}

/// The one loop of attempts; the time is the callers', so that tests need not wait.
pub(super) async fn repeat(
    policy: &Policy,
    effect: Effect,
    attempt: impl AsyncFn() -> Result<reqwest::Response, Lost>,
    sleep: impl AsyncFn(Duration),
) -> Result<Answer, Failed> {
    let mut used = Duration::ZERO;
    let mut round = 0;
    loop {
        round += 1;
        let left = policy.total.saturating_sub(used);
        let slice = left.min(policy.total / 3);
        let started = Instant::now();
        let outcome =
            tokio::time::timeout(slice, async { read(attempt().await?, MAX_BODY).await }).await;
        used += started.elapsed();
        let outcome = outcome.unwrap_or_else(|_| {
            let what = format!("no answer within {} s", slice.as_secs_f32().ceil());
            Err(Lost { what, reached: Reached::Maybe })
        });
        let (failed, asked) = match outcome {
            Ok(answer) => match weigh(&answer, effect) {
                Worth::Usable => return Ok(answer),
                Worth::Final => return Err(refused(&answer)),
                Worth::Again(wait) => (refused(&answer), wait),
            },
            Err(lost) => {
                let failed = Failed::new(lost.what);
                if effect == Effect::Creates && lost.reached == Reached::Maybe {
                    return Err(failed);
                }
                (failed, None)
            }
        };
        if round >= policy.attempts {
            let what = format!("{} ({round} attempts)", failed.what);
            return Err(Failed { what, ..failed });
        }
        let wait = asked.unwrap_or_else(|| backoff(policy.first_wait, round));
        if used + wait >= policy.total {
            let what = format!(
                "{}; another attempt would be {} s from now, and {} s are all there is",
                failed.what,
                wait.as_secs_f32().ceil(),
                policy.total.as_secs()
            );
            return Err(Failed { what, ..failed });
        }
        sleep(wait).await;
        used += wait;
    }
}

/// Reads an answer's body up to a cap.
async fn read(response: reqwest::Response, cap: usize) -> Result<Answer, Lost> {
    let mut response = response;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| Lost::from_error(&error))? {
        if body.len() + chunk.len() > cap {
            let what = format!("its answer is larger than {cap} bytes");
            return Err(Lost { what, reached: Reached::Maybe });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, headers, body })
}

/// What becomes of an answer.
#[derive(Debug, PartialEq, Eq)]
enum Worth {
    /// It is what the caller asked for.
    Usable,
    /// It is a failure that must not be repeated.
    Final,
    /// Another one is asked for, after a wait that the server named or by our own backoff.
    Again(Option<Duration>),
}

fn weigh(answer: &Answer, effect: Effect) -> Worth {
    match answer.status {
        403 | 429 => match limit_of(answer, SystemTime::now()) {
            Some(wait) => Worth::Again(Some(wait)),
            None if answer.status == 429 => Worth::Again(None),
            None => Worth::Usable,
        },
        503 => Worth::Again(retry_after(answer, SystemTime::now())),
        // Behind these a gateway lost the answer of a server that may have done the work.
        500 | 502 | 504 if effect == Effect::Creates => Worth::Final,
        500 | 502 | 504 => Worth::Again(retry_after(answer, SystemTime::now())),
        _ => Worth::Usable,
    }
}

/// How long a refusal by a limit asks to wait; none where no limit is the cause or no time is named.
fn limit_of(answer: &Answer, now: SystemTime) -> Option<Duration> {
    if let Some(wait) = retry_after(answer, now) {
        return Some(wait);
    }
    let number = |name: &str| header(answer, name)?.parse::<u64>().ok();
    if number("x-ratelimit-remaining") == Some(0)
        && let Some(reset) = number("x-ratelimit-reset")
    {
        let reset = UNIX_EPOCH.checked_add(Duration::from_secs(reset))?;
        // A second more: the two clocks need not agree.
        return Some(reset.duration_since(now).unwrap_or_default() + Duration::from_secs(1));
    }
    let start = &answer.body[..answer.body.len().min(4096)];
    let says_so = String::from_utf8_lossy(start).to_lowercase().contains("secondary rate limit");
    says_so.then_some(SECONDARY_WAIT)
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.get(name)?.to_str().ok().map(str::trim)
}

/// Reads `Retry-After`: seconds, or a date as RFC 9110 (section 5.6.7) writes it.
fn retry_after(answer: &Answer, now: SystemTime) -> Option<Duration> {
    let text = header(answer, "retry-after")?;
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds.min(86_400)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

fn refused(answer: &Answer) -> Failed {
    let what = match answer.status {
        403 | 429 => format!("it answered {}: too many requests", answer.status),
        status => format!("it answered {status}"),
    };
    Failed { what, status: Some(answer.status) }
}

/// The wait after an attempt, from 1: doubled each time, with the upper half left to chance so
/// that jobs that failed together do not come back together.
fn backoff(first: Duration, round: u32) -> Duration {
    let whole = first.saturating_mul(2_u32.saturating_pow(round.saturating_sub(1).min(16)));
    let chance = RandomState::new().build_hasher().finish() % 1001;
    let half = whole / 2;
    half + half.mul_f64(f64::from(u32::try_from(chance).unwrap_or(0)) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use wiremock::matchers::any;
    use wiremock::{Mock, MockServer, ResponseTemplate};

    /// What a script of answers led to: the outcome, the waits, the requests that were sent.
    async fn play(
        policy: Policy,
        effect: Effect,
        script: Vec<ResponseTemplate>,
    ) -> (Result<Answer, Failed>, Vec<Duration>, usize) {
        let server = MockServer::start().await;
        let script = std::sync::Mutex::new(VecDeque::from(script));
        Mock::given(any())
            .respond_with(move |_: &wiremock::Request| {
                script.lock().unwrap().pop_front().unwrap_or_else(|| ResponseTemplate::new(200))
            })
            .mount(&server)
            .await;
        let (client, waits) = (client().unwrap(), RefCell::new(Vec::new()));
        let attempt = async || {
            client.post(server.uri()).send().await.map_err(|error| Lost::from_error(&error))
        };
        let sleep = async |wait| waits.borrow_mut().push(wait);
        let outcome = repeat(&policy, effect, attempt, sleep).await;
        let sent = server.received_requests().await.unwrap().len();
        (outcome, waits.into_inner(), sent)
    }

    fn answers(statuses: &[u16]) -> Vec<ResponseTemplate> {
        statuses.iter().map(|status| ResponseTemplate::new(*status)).collect()
    }

    #[tokio::test]
    async fn what_may_pass_is_tried_again_with_growing_waits() {
        let (outcome, waits, sent) =
            play(Policy::default(), Effect::Repeatable, answers(&[500, 502, 503, 504])).await;
        assert_eq!(outcome.unwrap().status, 200);
        assert_eq!((waits.len(), sent), (4, 5));
        for (round, wait) in waits.iter().enumerate() {
            let whole = Duration::from_secs(1 << round);
            assert!(*wait >= whole / 2 && *wait <= whole, "{waits:?}");
        }
    }

    #[tokio::test]
    async fn attempts_end_and_the_last_status_is_told() {
        let (outcome, _, sent) =
            play(Policy::default(), Effect::Repeatable, answers(&[503; 9])).await;
        let failed = outcome.unwrap_err();
        assert_eq!((failed.status, sent), (Some(503), 5));
        assert_eq!(failed.what, "it answered 503 (5 attempts)");
    }

    #[tokio::test]
    async fn what_cannot_pass_is_an_answer_at_once() {
        for status in [200, 201, 304, 400, 401, 403, 404, 409, 422, 501] {
            let (outcome, waits, sent) =
                play(Policy::default(), Effect::Repeatable, answers(&[status])).await;
            assert_eq!((outcome.unwrap().status, waits.len(), sent), (status, 0, 1));
        }
    }

    #[tokio::test]
    async fn the_time_the_server_names_is_kept() {
        let seconds = ResponseTemplate::new(429).insert_header("retry-after", "7");
        let (_, waits, _) = play(Policy::default(), Effect::Creates, vec![seconds]).await;
        assert_eq!(waits, [Duration::from_secs(7)]);

        let at = SystemTime::now() + Duration::from_secs(20);
        let epoch = at.duration_since(UNIX_EPOCH).unwrap().as_secs().to_string();
        let reset = ResponseTemplate::new(403)
            .insert_header("x-ratelimit-remaining", "0")
            .insert_header("x-ratelimit-reset", epoch.as_str());
        let (_, waits, _) = play(Policy::default(), Effect::Repeatable, vec![reset]).await;
        assert!(waits[0] >= Duration::from_secs(18) && waits[0] <= Duration::from_secs(21));
    }

    #[tokio::test]
    async fn a_wait_beyond_the_total_ends_it_at_once() {
        let hour = ResponseTemplate::new(403).insert_header("retry-after", "3600");
        let secondary = ResponseTemplate::new(403)
            .set_body_string(r#"{"message":"You have exceeded a secondary rate limit."}"#);
        for answer in [hour, secondary] {
            let (outcome, waits, sent) =
                play(Policy::default(), Effect::Repeatable, vec![answer]).await;
            let failed = outcome.unwrap_err();
            assert_eq!((failed.status, waits.len(), sent), (Some(403), 0, 1));
            assert!(failed.what.contains("too many requests"), "{failed}");
        }
    }

    #[tokio::test]
    async fn a_secondary_limit_is_waited_out_where_there_is_time() {
        let secondary = ResponseTemplate::new(403).set_body_string("a secondary rate limit");
        let policy = Policy { total: Duration::from_secs(200), ..Policy::default() };
        let (outcome, waits, _) = play(policy, Effect::Creates, vec![secondary]).await;
        assert_eq!((outcome.unwrap().status, waits), (200, vec![Duration::from_secs(60)]));
    }

    #[tokio::test]
    async fn what_creates_is_not_sent_again_after_a_lost_answer() {
        let (outcome, _, sent) = play(Policy::default(), Effect::Creates, answers(&[502])).await;
        assert_eq!((outcome.unwrap_err().status, sent), (Some(502), 1));

        let policy = Policy { total: Duration::from_millis(600), ..Policy::default() };
        let slow = ResponseTemplate::new(201).set_delay(Duration::from_secs(5));
        let (outcome, _, sent) = play(policy, Effect::Creates, vec![slow]).await;
        assert_eq!((outcome.unwrap_err().status, sent), (None, 1));
    }

    #[tokio::test]
    async fn a_stall_leaves_room_for_another_try() {
        let first_wait = Duration::from_millis(1);
        let policy = Policy { attempts: 3, first_wait, total: Duration::from_secs(3) };
        let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(30));
        let (outcome, _, sent) = play(policy, Effect::Repeatable, vec![slow]).await;
        assert_eq!((outcome.unwrap().status, sent), (200, 2));
    }

    #[tokio::test]
    async fn a_failure_names_neither_the_address_nor_its_signature() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let policy =
            Policy { attempts: 2, first_wait: Duration::from_millis(1), ..Policy::default() };
        let client = client().unwrap();
        let url = format!("http://127.0.0.1:{port}/blob?sig=SECRET");
        for effect in [Effect::Repeatable, Effect::Creates] {
            let attempt =
                async || client.get(&url).send().await.map_err(|error| Lost::from_error(&error));
            let failed = repeat(&policy, effect, attempt, tokio::time::sleep).await.unwrap_err();
            assert!(failed.what.starts_with("no connection"), "{failed}");
            assert!(failed.what.contains("2 attempts"), "{failed}");
            assert!(!failed.what.contains("SECRET") && !failed.what.contains("blob"), "{failed}");
        }
        let failed = send(&policy, || client.get("sig=SECRET")).await.unwrap_err();
        assert!(!failed.what.contains("SECRET"), "{failed}");
    }

    #[tokio::test]
    async fn a_token_does_not_follow_to_another_host() {
        let (api, blob) = (MockServer::start().await, MockServer::start().await);
        let there =
            ResponseTemplate::new(302).insert_header("location", format!("{}/x", blob.uri()));
        Mock::given(any()).respond_with(there).mount(&api).await;
        Mock::given(any()).respond_with(ResponseTemplate::new(200)).mount(&blob).await;
        let client = client().unwrap();
        let build = || client.get(api.uri()).header("authorization", "Bearer t");
        assert_eq!(send(&Policy::default(), build).await.unwrap().status, 200);
        let seen = blob.received_requests().await.unwrap();
        assert!(!seen[0].headers.contains_key("authorization"));
        assert!(!seen[0].headers.contains_key("referer"));
        assert!(seen[0].headers["user-agent"].to_str().unwrap().starts_with("loopexec/"));
    }
}
