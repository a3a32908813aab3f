//! What loopexec does to GitHub's API, against a server that remembers and misbehaves.

#[path = "support/github.rs"]
mod github;

use github::{Fake, JOB, Mishap, PERSON, denied};
use loopexec::ci::finding::{Finding, Level};
use loopexec::ci::github::api::{Api, Cause, Named, Permission, Trouble};
use loopexec::ci::github::api::{artifacts_named, download_artifact, permission_of};
use loopexec::ci::github::check_run::{self, CheckRun, Conclusion};
use loopexec::ci::github::comment::{self, Note, Outcome, Published, State};
use loopexec::ci::github::event::{Event, Repository};
use loopexec::ci::github::pull;
use loopexec::ci::http::Policy;
use loopexec::ci::subject::{Key, Turn};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use wiremock::matchers::{any, method, path, query_param};
use wiremock::{Mock, MockServer, ResponseTemplate};

const BOT: &str = "github-actions[bot]";
const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

fn policy() -> Policy {
    Policy { first_wait: Duration::from_millis(5), ..Policy::default() }
}

async fn api(server: &MockServer, token: &str) -> Api {
    Api::connect(&server.uri(), token, policy()).await.unwrap()
}

fn repository() -> Repository {
    Repository::parse("octo/hello").unwrap()
}

fn key() -> Key {
    Key { workflow: ".github/workflows/ci.yml".to_owned(), job: "fix".to_owned(), ..Key::default() }
}

async fn say(api: &Api, turn: (u64, u64), state: State, body: &str) -> Result<Published, Trouble> {
    say_of("", api, turn, state, body).await
}

/// The same for a loop of the job that has a name.
async fn say_of(
    name: &str,
    api: &Api,
    turn: (u64, u64),
    state: State,
    body: &str,
) -> Result<Published, Trouble> {
    let (key, turn) =
        (Key { name: name.to_owned(), ..key() }, Turn { run: turn.0, attempt: turn.1 });
    let note = Note { key: &key, turn, head_sha: Some(SHA), state, body };
    comment::publish(api, &repository(), 7, &note).await
}

fn marker(run: u64, state: &str) -> String {
    let hash = comment::hash_of(&key());
    format!("<!-- loopexec:{hash} run={run} attempt=1 head={SHA} state={state} -->")
}

/// The one comment of the job, without its marker.
fn the_comment(fake: &Fake) -> String {
    let bodies = fake.world(|world| world.bodies(BOT));
    assert_eq!(bodies.len(), 1, "{bodies:#?}");
    bodies[0].split_once('\n').unwrap().1.to_owned()
}

#[tokio::test]
async fn three_runs_on_one_pull_request_leave_one_comment() {
    let fake = Fake::start().await;
    fake.world(|world| {
        for n in 0..130 {
            world.add("someone", "User", &format!("comment {n}"));
        }
    });
    for run in 1..=3 {
        let api = api(&fake.server, JOB).await;
        let first = say(&api, (run, 1), State::Running, "works").await.unwrap();
        let expected = if run == 1 { Outcome::Created } else { Outcome::Updated };
        assert_eq!((first.outcome, first.id), (expected, 131));
        let last = say(&api, (run, 1), State::Final, &format!("run {run} halted")).await.unwrap();
        assert_eq!(last.outcome, Outcome::Updated);
        assert_eq!(last.url.as_deref(), Some("https://github.example/c/131"));
        assert_eq!(the_comment(&fake), format!("run {run} halted"));
    }
    assert_eq!(fake.world(|world| world.comments.len()), 131);
}

#[tokio::test]
async fn what_an_older_run_was_refused_for_goes_when_its_loop_speaks() {
    let fake = Fake::start().await;
    let api = api(&fake.server, JOB).await;
    say(&api, (1, 1), State::Final, "config_invalid").await.unwrap();
    // A second loop of the job may be the one that was refused in this very run.
    say_of("mend", &api, (1, 1), State::Final, "halted").await.unwrap();
    assert_eq!(fake.world(|world| world.bodies(BOT)).len(), 2);
    say_of("mend", &api, (2, 1), State::Final, "converged").await.unwrap();
    assert_eq!(the_comment(&fake), "converged");
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    let fake = Fake::start().await;
    let api = api(&fake.server, JOB).await;
    say(&api, (1, 1), State::Final, "done\r\n\n").await.unwrap();
    let before = fake.world(|world| world.writes());
    let again = say(&api, (1, 1), State::Final, "done").await.unwrap();
    assert_eq!(again.outcome, Outcome::Unchanged);
    assert_eq!(fake.world(|world| world.writes()), before);
}

#[tokio::test]
async fn racing_jobs_leave_one_comment_with_the_newest_text() {
    for seed in 0..12 {
        let fake = Fake::start().await;
        fake.shuffle(seed);
        let (one, two) = (api(&fake.server, JOB).await, api(&fake.server, JOB).await);
        let three = api(&fake.server, JOB).await;
        let (a, b, c) = tokio::join!(
            say(&one, (6, 1), State::Final, "six"),
            say(&two, (7, 1), State::Final, "seven"),
            say(&three, (7, 1), State::Running, "seven works"),
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok(), "{seed}: {a:?} {b:?} {c:?}");
        assert_eq!(the_comment(&fake), "seven", "seed {seed}");
    }
}

#[tokio::test]
async fn racing_jobs_of_one_run_leave_one_comment() {
    for seed in 0..10 {
        let fake = Fake::start().await;
        fake.shuffle(seed);
        let (one, two) = (api(&fake.server, JOB).await, api(&fake.server, JOB).await);
        let (a, b) = tokio::join!(
            say(&one, (6, 1), State::Final, "one"),
            say(&two, (6, 1), State::Final, "two"),
        );
        assert!(a.is_ok() && b.is_ok(), "{seed}: {a:?} {b:?}");
        assert!(["one", "two"].contains(&the_comment(&fake).as_str()), "seed {seed}");
    }
}

#[tokio::test]
async fn an_older_run_does_not_overwrite() {
    let fake = Fake::start().await;
    let api = api(&fake.server, JOB).await;
    say(&api, (7, 2), State::Final, "newer").await.unwrap();
    let before = fake.world(|world| world.writes());
    for (turn, state) in [((6, 9), State::Final), ((7, 1), State::Final), ((7, 2), State::Running)]
    {
        let published = say(&api, turn, state, "older").await.unwrap();
        assert_eq!(published.outcome, Outcome::Stale, "{turn:?}");
    }
    assert_eq!(fake.world(|world| world.writes()), before);
    assert_eq!(the_comment(&fake), "newer");
}

#[tokio::test]
async fn a_write_of_an_older_run_that_lands_late_is_mended() {
    let fake = Fake::start().await;
    let id = fake.world(|world| world.add(BOT, "Bot", &format!("{}\nworks", marker(6, "running"))));
    let policy = Policy { first_wait: Duration::from_millis(150), ..policy() };
    let api = Api::connect(&fake.server.uri(), JOB, policy).await.unwrap();
    // Run 6 read the list before run 7 wrote; its own last word lands a little afterwards.
    let late = async {
        while !fake.world(|world| world.log.iter().any(|line| line.starts_with("PATCH"))) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(Duration::from_millis(80)).await;
        fake.world(|world| {
            let one = world.comments.iter_mut().find(|one| one["id"] == id).unwrap();
            one["body"] = format!("{}\nsix", marker(6, "final")).into();
        });
    };
    let (published, ()) = tokio::join!(say(&api, (7, 1), State::Final, "seven"), late);
    let published = published.unwrap();
    assert_eq!((published.outcome, published.id), (Outcome::Updated, id));
    assert_eq!(the_comment(&fake), "seven");
}

#[tokio::test]
async fn a_comment_lost_on_its_way_back_does_not_double() {
    let fake = Fake::start().await;
    let mut lost = false;
    fake.hook(move |_, request| {
        let first = request.method.as_str() == "POST" && !std::mem::replace(&mut lost, true);
        first.then(|| Mishap::Afterwards(ResponseTemplate::new(502)))
    });
    let api = api(&fake.server, JOB).await;
    say(&api, (1, 1), State::Final, "done").await.unwrap();
    assert_eq!(the_comment(&fake), "done");
}

#[tokio::test]
async fn a_list_that_lags_behind_does_not_double() {
    let fake = Fake::start().await;
    fake.hook(|_, request| {
        let list = request.method.as_str() == "GET" && request.url.path().ends_with("7/comments");
        list.then(|| Mishap::Instead(ResponseTemplate::new(200).set_body_json(json!([]))))
    });
    let api = api(&fake.server, JOB).await;
    let published = say(&api, (1, 1), State::Final, "done").await.unwrap();
    assert_eq!(published.outcome, Outcome::Created);
    assert_eq!(the_comment(&fake), "done");
}

#[tokio::test]
async fn a_person_cannot_forge_the_comment() {
    let fake = Fake::start().await;
    let forged = format!("{}\nall is well", marker(999, "final"));
    fake.world(|world| {
        world.add("eve", "User", &forged);
        world.add("github-actions", "User", &forged);
        world.add("gitea-actions", "User", &forged);
        world.add(BOT, "Bot", &format!("quoting:\n{forged}"));
    });
    let api = api(&fake.server, JOB).await;
    let published = say(&api, (1, 1), State::Final, "it halted").await.unwrap();
    assert_eq!((published.outcome, published.id), (Outcome::Created, 5));
    assert_eq!(fake.world(|world| world.bodies("eve")), [forged]);
}

#[tokio::test]
async fn a_persons_token_keeps_to_the_persons_comments() {
    let fake = Fake::start().await;
    fake.world(|world| world.add(BOT, "Bot", &format!("{}\nthe bot's", marker(9, "final"))));
    let api = api(&fake.server, PERSON).await;
    assert_eq!(say(&api, (1, 1), State::Final, "a").await.unwrap().outcome, Outcome::Created);
    assert_eq!(say(&api, (2, 1), State::Final, "b").await.unwrap().outcome, Outcome::Updated);
    assert_eq!(fake.world(|world| world.bodies("octo").len()), 1);
    assert_eq!(the_comment(&fake), "the bot's");
}

#[tokio::test]
async fn a_read_only_token_is_one_warning_that_names_the_permission() {
    let fake = Fake::start().await;
    fake.hook(|_, request| (request.method.as_str() != "GET").then(|| Mishap::Instead(denied())));
    let api = api(&fake.server, JOB).await;
    let trouble = say(&api, (1, 1), State::Final, "done").await.unwrap_err();
    assert!(matches!(trouble.cause, Cause::Denied(_)));
    let text = trouble.to_string();
    assert!(text.contains("`pull-requests: write`") && text.contains("forks"), "{text}");
    assert!(!text.contains('\n') && !text.contains(JOB), "{text}");
    assert_eq!(fake.world(|world| world.log.len()), 2, "asked once, not again");
}

#[tokio::test]
async fn retry_after_is_kept() {
    let fake = Fake::start().await;
    let mut refused = false;
    fake.hook(move |_, request| {
        let first = request.method.as_str() == "POST" && !std::mem::replace(&mut refused, true);
        let answer = ResponseTemplate::new(429).insert_header("retry-after", "1");
        first.then(|| Mishap::Instead(answer))
    });
    let (api, start) = (api(&fake.server, JOB).await, Instant::now());
    say(&api, (1, 1), State::Final, "done").await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(the_comment(&fake), "done");
}

#[tokio::test]
async fn a_secondary_limit_gives_up_within_the_cap() {
    let fake = Fake::start().await;
    let text = "You have exceeded a secondary rate limit. Please wait a few minutes.";
    fake.hook(move |_, request| {
        let answer = ResponseTemplate::new(403).set_body_json(json!({"message": text}));
        (request.method.as_str() == "POST").then(|| Mishap::Instead(answer))
    });
    let (api, start) = (api(&fake.server, JOB).await, Instant::now());
    let trouble = say(&api, (1, 1), State::Final, "done").await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(matches!(trouble.cause, Cause::Failed(_)), "no permission is missing: {trouble}");
    assert!(trouble.to_string().contains("too many requests"), "{trouble}");
    assert_eq!(fake.world(|world| world.writes()), 1);
}

#[tokio::test]
async fn all_calls_together_keep_to_the_total() {
    let server = MockServer::start().await;
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    Mock::given(any()).respond_with(slow).mount(&server).await;
    let policy = Policy { total: Duration::from_millis(1500), ..policy() };
    let api = Api::connect(&server.uri(), JOB, policy).await.unwrap();
    let start = Instant::now();
    for _ in 0..20 {
        say(&api, (1, 1), State::Final, "done").await.unwrap_err();
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let sent = server.received_requests().await.unwrap().len();
    assert!(sent < 20, "{sent} requests");
}

#[tokio::test]
async fn a_body_too_long_is_refused_before_anything_is_asked() {
    let fake = Fake::start().await;
    let api = api(&fake.server, JOB).await;
    let trouble = say(&api, (1, 1), State::Final, &"é".repeat(30_001)).await.unwrap_err();
    assert!(trouble.to_string().contains("60000"), "{trouble}");
    assert_eq!(fake.world(|world| world.log.len()), 0);
}

#[tokio::test]
async fn enterprise_servers_keep_their_prefix() {
    let server = MockServer::start().await;
    Mock::given(method("GET"))
        .and(path("/api/v3/repos/octo/hello/collaborators/octo/permission"))
        .respond_with(ResponseTemplate::new(200).set_body_json(json!({"permission": "admin"})))
        .mount(&server)
        .await;
    let url = format!("{}/api/v3/", server.uri());
    let api = Api::connect(&url, JOB, policy()).await.unwrap();
    let permission = permission_of(&api, &repository(), "octo").await.unwrap();
    assert_eq!(permission, Permission::Admin);
    let seen = server.received_requests().await.unwrap();
    let agents: Vec<_> = seen[0].headers.get_all("user-agent").iter().collect();
    assert_eq!(agents, ["octocrab"], "GitHub refuses requests without one; two are one too many");
}

fn findings(count: usize) -> Vec<Finding> {
    let finding = |n: usize| Finding {
        level: Level::Error,
        rule: "test_failed".to_owned(),
        title: format!("test {n} fails"),
        message: "expected 1, got 2".to_owned(),
        file: Some("src/lib.rs".to_owned()),
        line: u32::try_from(n).ok(),
    };
    (1..=count).map(finding).collect()
}

fn check(findings: &[Finding]) -> CheckRun<'_> {
    CheckRun {
        name: "loopexec / fix",
        head_sha: SHA,
        external_id: "01RUN",
        details_url: Some("https://github.example/run"),
        conclusion: Some(Conclusion::Failure),
        title: "oscillation_detected",
        summary: "It went in circles.",
        findings,
    }
}

async fn bodies(server: &MockServer) -> Vec<(String, Value)> {
    let seen = server.received_requests().await.unwrap();
    let read = |request: &wiremock::Request| {
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        (format!("{} {}", request.method, request.url.path()), body)
    };
    seen.iter().map(read).collect()
}

#[tokio::test]
async fn annotations_go_in_batches_of_fifty() {
    let server = MockServer::start().await;
    let made = ResponseTemplate::new(201).set_body_json(json!({"id": 4}));
    Mock::given(any()).respond_with(made).mount(&server).await;
    let api = api(&server, JOB).await;
    let findings = findings(120);
    let written = check_run::publish(&api, &repository(), &check(&findings)).await.unwrap();
    assert_eq!((written.id, written.annotations, written.trouble), (4, 120, None));
    let sent = bodies(&server).await;
    let sizes: Vec<_> = sent
        .iter()
        .map(|(_, body)| body["output"]["annotations"].as_array().unwrap().len())
        .collect();
    assert_eq!(sizes, [50, 50, 20]);
    let lines: Vec<_> = sent.iter().map(|(line, _)| line.as_str()).collect();
    let one = "PATCH /repos/octo/hello/check-runs/4";
    assert_eq!(lines, ["POST /repos/octo/hello/check-runs", one, one]);
    assert_eq!(sent[0].1["conclusion"], "failure");
    assert_eq!(sent[2].1["output"]["annotations"][19]["start_line"], 120);
}

#[tokio::test]
async fn annotations_are_never_sent_twice() {
    let server = MockServer::start().await;
    let made = ResponseTemplate::new(201).set_body_json(json!({"id": 4}));
    Mock::given(method("POST")).respond_with(made).mount(&server).await;
    Mock::given(method("PATCH")).respond_with(ResponseTemplate::new(502)).mount(&server).await;
    let api = api(&server, JOB).await;
    let findings = findings(120);
    let written = check_run::publish(&api, &repository(), &check(&findings)).await.unwrap();
    assert_eq!((written.annotations, written.trouble.is_some()), (50, true));
    assert_eq!(bodies(&server).await.len(), 2);
}

#[tokio::test]
async fn a_check_run_without_the_permission_says_so() {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(denied()).mount(&server).await;
    let api = api(&server, JOB).await;
    let trouble = check_run::publish(&api, &repository(), &check(&[])).await.unwrap_err();
    assert!(trouble.to_string().contains("`checks: write`"), "{trouble}");
}

#[tokio::test]
async fn a_commit_leads_to_the_open_pull_request_with_that_head() {
    let server = MockServer::start().await;
    let pull = |number: u64, state: &str, sha: &str, base: &str| {
        let base = json!({"repo": {"full_name": base}});
        json!({"number": number, "state": state, "head": {"sha": sha}, "base": base})
    };
    let other = "f".repeat(40);
    let pulls = json!([
        pull(9, "open", SHA, "octo/hello"),
        pull(8, "open", SHA, "Octo/Hello"),
        pull(3, "closed", SHA, "octo/hello"),
        pull(2, "open", &other, "octo/hello"),
        pull(1, "open", SHA, "upstream/hello"),
    ]);
    let there = path(format!("/repos/octo/hello/commits/{SHA}/pulls"));
    let found = ResponseTemplate::new(200).set_body_json(pulls);
    Mock::given(method("GET")).and(there).respond_with(found).mount(&server).await;
    let no_commit = ResponseTemplate::new(422).set_body_json(json!({"message": "No commit found"}));
    Mock::given(path(format!("/repos/octo/hello/commits/{other}/pulls")))
        .respond_with(no_commit)
        .mount(&server)
        .await;
    let api = api(&server, JOB).await;
    let push = |sha: &str| {
        let mut event = Event::of("push", json!({"after": sha}));
        event.repository = Some(repository());
        event
    };
    let found = pull::find(None, &push(SHA), Some(&api)).await.unwrap().unwrap();
    assert_eq!((found.number, found.source), (8, pull::Source::Commit));
    assert_eq!(pull::find(None, &push(&other), Some(&api)).await.unwrap(), None);
    assert_eq!(pull::find(None, &push(&"a".repeat(40)), Some(&api)).await.unwrap(), None);
    assert_eq!(pull::find(None, &push(SHA), None).await.unwrap(), None);

    let refusing = MockServer::start().await;
    Mock::given(any()).respond_with(denied()).mount(&refusing).await;
    let api = Api::connect(&refusing.uri(), JOB, policy()).await.unwrap();
    let trouble = pull::find(None, &push(SHA), Some(&api)).await.unwrap_err();
    assert!(trouble.to_string().contains("`pull-requests: read`"), "{trouble}");
}

#[tokio::test]
async fn permissions_are_read_by_what_decides() {
    let server = MockServer::start().await;
    let person = |login: &str, permission: &str, role: &str| {
        let there = path(format!("/repos/octo/hello/collaborators/{login}/permission"));
        let answer = json!({"permission": permission, "role_name": role, "user": {"login": login}});
        Mock::given(there).respond_with(ResponseTemplate::new(200).set_body_json(answer))
    };
    for (login, permission, role) in [
        ("ada", "admin", "admin"),
        ("max", "write", "maintain"),
        ("wil", "write", "our-writers"),
        ("tri", "read", "triage"),
        ("eve", "read", "admin"),
        ("non", "none", "none"),
    ] {
        person(login, permission, role).mount(&server).await;
    }
    let (api, here) = (api(&server, JOB).await, repository());
    for (login, expected) in [
        ("ada", Permission::Admin),
        ("max", Permission::Maintain),
        ("wil", Permission::Write),
        ("tri", Permission::Triage),
        ("eve", Permission::Read),
        ("non", Permission::None),
        ("stranger", Permission::None),
        ("../../user", Permission::None),
        ("dependabot[bot]", Permission::None),
    ] {
        assert_eq!(permission_of(&api, &here, login).await.unwrap(), expected, "{login}");
    }
    assert_eq!(server.received_requests().await.unwrap().len(), 7, "two were never asked for");
}

#[tokio::test]
async fn artifacts_are_listed_newest_first_and_forks_are_told_apart() {
    let server = MockServer::start().await;
    let artifact = |id: u64, name: &str, head: u64, expired: bool| {
        let run =
            json!({"id": 70 + id, "repository_id": 1, "head_repository_id": head, "head_sha": SHA});
        json!({"id": id, "name": name, "size_in_bytes": 9, "expired": expired,
               "created_at": "2026-11-29T08:00:00Z",
               "digest": "sha256:00", "workflow_run": run})
    };
    let mut first: Vec<_> = (0..98).map(|id| artifact(1000 + id, "other", 1, false)).collect();
    first.extend([artifact(5, "a b-attempt-1", 1, false), artifact(6, "a b-attempt-1", 1, true)]);
    let second = [artifact(7, "a b-attempt-2", 2, false)];
    for (page, list) in [("1", first.as_slice()), ("2", &second)] {
        let answer = ResponseTemplate::new(200).set_body_json(json!({"artifacts": list}));
        Mock::given(path("/repos/octo/hello/actions/artifacts"))
            .and(query_param("page", page))
            .respond_with(answer)
            .mount(&server)
            .await;
    }
    let (api, here) = (api(&server, JOB).await, repository());
    let found = artifacts_named(&api, &here, Named::From("a b-")).await.unwrap();
    let seen: Vec<_> = found.iter().map(|one| (one.id, one.head_repository)).collect();
    assert_eq!(seen, [(7, Some(2)), (5, Some(1))]);
    let exact = artifacts_named(&api, &here, Named::Exactly("a b-attempt-1")).await.unwrap();
    assert_eq!(exact.len(), 1);
    let last = server.received_requests().await.unwrap().pop().unwrap();
    assert!(last.url.query().unwrap().contains("name=a%20b-attempt-1"), "{}", last.url);
}

#[tokio::test]
async fn a_download_goes_to_the_store_without_the_token() {
    let (server, store) = (MockServer::start().await, MockServer::start().await);
    let there = format!("{}/blob?sig=SECRET", store.uri());
    let redirect = ResponseTemplate::new(302).insert_header("location", there.as_str());
    Mock::given(path("/repos/octo/hello/actions/artifacts/5/zip"))
        .respond_with(redirect)
        .mount(&server)
        .await;
    let busy = ResponseTemplate::new(503);
    Mock::given(any()).respond_with(busy).up_to_n_times(1).mount(&store).await;
    let bytes = ResponseTemplate::new(200).set_body_bytes(b"zip".repeat(1000));
    Mock::given(path("/blob")).respond_with(bytes).mount(&store).await;

    let (api, here) = (api(&server, JOB).await, repository());
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("a.zip");
    let download = download_artifact(&api, &here, 5, &into, 3000).await.unwrap();
    let written = std::fs::read(&into).unwrap();
    assert_eq!((download.bytes, written.len()), (3000, 3000));
    assert_eq!(download.sha256, loopexec::domain::hex::sha256(&written));
    for request in store.received_requests().await.unwrap() {
        assert!(!request.headers.contains_key("authorization"));
    }
    for request in server.received_requests().await.unwrap() {
        assert_eq!(request.headers["authorization"], format!("Bearer {JOB}"));
    }

    let trouble = download_artifact(&api, &here, 5, &into, 3000).await.unwrap_err();
    assert!(trouble.to_string().contains("cannot be written"), "{trouble}");
    assert_eq!(std::fs::read(&into).unwrap(), written, "what stood there is as it was");

    let large = folder.path().join("b.zip");
    let trouble = download_artifact(&api, &here, 5, &large, 2999).await.unwrap_err();
    assert!(trouble.to_string().contains("2999") && !trouble.to_string().contains("SECRET"));
    assert!(!large.exists());
    let gone = download_artifact(&api, &here, 6, &large, 2999).await.unwrap_err();
    assert!(matches!(gone.cause, Cause::Missing) && !large.exists());
}
