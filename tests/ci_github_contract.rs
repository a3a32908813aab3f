//! What loopexec sends to GitHub, held against GitHub's own description of its API and its own
//! examples of events. Needs node and npm; packages go below the build folder.

#[path = "support/github.rs"]
#[expect(dead_code, reason = "the tests of the API use the rest of it")]
mod github;

use github::{Fake, JOB, PERSON};
use loopexec::ci::finding::{Finding, Level};
use loopexec::ci::github::api::{Api, Named, artifacts_named, permission_of};
use loopexec::ci::github::check_run::{self, CheckRun, Conclusion, Standing, Status};
use loopexec::ci::github::comment::{self, Note, State};
use loopexec::ci::github::event::{Event, Origin, Repository};
use loopexec::ci::github::pull;
use loopexec::ci::http::{self, Policy};
use loopexec::ci::subject::{Key, Turn};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

const PACKAGES: [&str; 3] =
    ["@stoplight/prism-cli@5.14.2", "@octokit/openapi@23.0.2", "@octokit/webhooks-examples@7.6.1"];

const SHA: &str = "0123456789abcdef0123456789abcdef01234567";

/// The part of the description that loopexec uses; the whole takes prism half a minute.
///
/// GitHub takes `Accept: application/vnd.github+json` too, which the description does not list.
const CUT: &str = r#"
const fs = require('fs');
const all = JSON.parse(fs.readFileSync(process.argv[1]));
const repo = '/repos/{owner}/{repo}';
const used = ['/check-runs', '/check-runs/{check_run_id}', '/issues/{issue_number}/comments',
  '/issues/comments/{comment_id}', '/commits/{commit_sha}/pulls', '/pulls/{pull_number}',
  '/statuses/{sha}', '/collaborators/{username}/permission', '/actions/artifacts',
  '/actions/artifacts/{artifact_id}/{archive_format}'].map(path => repo + path).concat('/user');
const paths = {};
for (const path of used) {
  if (!all.paths[path]) throw new Error('not described: ' + path);
  paths[path] = all.paths[path];
}
const accept = 'application/vnd.github+json';
(function walk(part) {
  if (part === null || typeof part !== 'object') return;
  const json = part.content && part.content['application/json'];
  if (json) part.content[accept] = json;
  Object.values(part).forEach(walk);
})(paths);
const { openapi, info, servers } = all;
fs.writeFileSync(process.argv[2], JSON.stringify({ openapi, info, servers, paths }));
"#;

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// The folder with the packages and the cut description.
fn packages() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("github-contract");
        let done = folder.join("done");
        let wanted = format!("{PACKAGES:?}{CUT}");
        if fs::read_to_string(&done).is_ok_and(|have| have == wanted) {
            return folder;
        }
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("package.json"), r#"{"private": true}"#).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]).args(PACKAGES);
        run(npm.current_dir(&folder));
        let whole = "node_modules/@octokit/openapi/generated/api.github.com.deref.json";
        let mut node = Command::new("node");
        run(node.args(["-e", CUT, whole, "description.json"]).current_dir(&folder));
        fs::write(done, wanted).unwrap();
        folder
    })
}

/// A prism that answers what the description allows and refuses all else.
struct Prism {
    child: Child,
    url: String,
    log: PathBuf,
}

impl Prism {
    fn start(name: &str) -> Self {
        let folder = packages();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = folder.join(format!("{name}.log"));
        let out = File::create(&log).unwrap();
        let child = Command::new("node")
            .arg("node_modules/@stoplight/prism-cli/dist/index.js")
            .args(["mock", "--errors", "-h", "127.0.0.1", "-p", &port.to_string()])
            .arg("description.json")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stderr(out.try_clone().unwrap())
            .stdout(out)
            .spawn()
            .unwrap();
        let mut prism = Self { child, url: format!("http://127.0.0.1:{port}"), log };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = prism.child.try_wait().unwrap();
            let late = start.elapsed() > Duration::from_secs(180);
            assert!(ended.is_none() && !late, "prism does not start: {}", prism.said());
            std::thread::sleep(Duration::from_millis(100));
        }
        prism
    }

    fn said(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Sends a recorded request once more, and returns the status.
    async fn weigh(&self, client: &reqwest::Client, request: &Request) -> (u16, String) {
        let query = request.url.query().map_or_else(String::new, |query| format!("?{query}"));
        let url = format!("{}{}{query}", self.url, request.url.path());
        let sent = client
            .request(request.method.as_str().parse().unwrap(), url)
            .headers(request.headers.iter().filter(|(name, _)| *name != "host").map(own).collect())
            .body(request.body.clone())
            .send();
        let response = sent.await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        // The description's own example of an answer does not fit it everywhere: the request did.
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        let wrong = body["validation"].as_array().filter(|wrong| !wrong.is_empty());
        let theirs =
            wrong.is_some_and(|all| all.iter().all(|one| one["location"][0] == "response"));
        (if status == 500 && theirs { 200 } else { status }, text)
    }
}

fn own<N: Clone, V: Clone>((name, value): (&N, &V)) -> (N, V) {
    (name.clone(), value.clone())
}

impl Drop for Prism {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn repository() -> Repository {
    Repository::parse("octo/hello").unwrap()
}

fn findings(count: usize) -> Vec<Finding> {
    let level = |n: usize| [Level::Error, Level::Warning, Level::Notice][n % 3];
    let finding = |n: usize| Finding {
        level: level(n),
        rule: "test_failed".to_owned(),
        title: "t".repeat(n * 10),
        message: "m".repeat(n * 1000),
        file: Some(format!("src/a b/ü{n}.rs")),
        line: u32::try_from(n).ok().filter(|n| n % 7 != 0),
    };
    (1..=count).map(finding).collect()
}

/// All that loopexec asks of GitHub, as the requests it sends.
async fn everything() -> Vec<Request> {
    let policy = Policy { first_wait: Duration::from_millis(1), ..Policy::default() };
    let fake = Fake::start().await;
    let (here, key) = (repository(), Key::default());
    for token in [JOB, PERSON] {
        let api = Api::connect(&fake.server.uri(), token, policy).await.unwrap();
        for (run, state) in [(1, State::Running), (1, State::Final), (2, State::Final)] {
            // Two stand before the last one: one is changed, one deleted.
            if run == 2 {
                let first = fake.world(|world| world.comments[0]["body"].clone());
                let text = first.as_str().unwrap().to_owned();
                fake.world(|world| world.add("github-actions[bot]", "Bot", &text));
            }
            let turn = Turn { run, attempt: 1 };
            let body = "**halted** `x` <details>…</details>";
            let note = Note { key: &key, turn, head_sha: Some(SHA), state, body };
            comment::publish(&api, &here, 7, &note).await.unwrap();
        }
    }
    let server = MockServer::start().await;
    let made = json!({"id": 4, "artifacts": []});
    Mock::given(any())
        .respond_with(ResponseTemplate::new(200).set_body_json(made))
        .mount(&server)
        .await;
    let api = Api::connect(&server.uri(), JOB, policy).await.unwrap();
    let findings = findings(120);
    for conclusion in [
        None,
        Some(Conclusion::Failure),
        Some(Conclusion::Success),
        Some(Conclusion::Cancelled),
        Some(Conclusion::ActionRequired),
        Some(Conclusion::Neutral),
    ] {
        let run = CheckRun {
            name: "loopexec / fix",
            head_sha: SHA,
            external_id: "01RUN",
            details_url: Some("https://github.example/run"),
            conclusion,
            title: "oscillation_detected",
            summary: &"s".repeat(80_000),
            findings: &findings,
        };
        let written = check_run::publish(&api, &here, &run).await.unwrap();
        assert_eq!(written.annotations, 120);
    }
    for standing in [Standing::Success, Standing::Failure] {
        let page = Some("https://github.example/run");
        let (context, description) = ("loopexec / fix", "d".repeat(500));
        let status = Status { sha: SHA, standing, context, description: &description, page };
        check_run::post_status(&api, &here, &status).await.unwrap();
    }
    pull::of_commit(&api, &here, SHA).await.unwrap();
    drop(pull::read(&api, &here, 7).await);
    permission_of(&api, &here, "octo").await.unwrap();
    artifacts_named(&api, &here, Named::Exactly("a b")).await.unwrap();
    artifacts_named(&api, &here, Named::From("a b")).await.unwrap();
    let mut requests = fake.server.received_requests().await.unwrap();
    requests.extend(server.received_requests().await.unwrap());
    requests
}

#[tokio::test]
async fn every_request_is_one_of_the_description() {
    let requests = everything().await;
    let (prism, client) = (Prism::start("accepted"), http::client().unwrap());
    let mut seen = BTreeMap::<String, usize>::new();
    for request in &requests {
        let (status, text) = prism.weigh(&client, request).await;
        let line = format!("{} {}", request.method, request.url.path());
        assert!((200..300).contains(&status), "{line}: {status} {text}\n{}", prism.said());
        *seen.entry(line.replace(char::is_numeric, "")).or_default() += 1;
    }
    let kinds: Vec<_> = seen.keys().map(String::as_str).collect();
    for kind in [
        "POST /repos/octo/hello/check-runs",
        "PATCH /repos/octo/hello/check-runs/",
        "GET /repos/octo/hello/issues//comments",
        "POST /repos/octo/hello/issues//comments",
        "PATCH /repos/octo/hello/issues/comments/",
        "DELETE /repos/octo/hello/issues/comments/",
        "GET /repos/octo/hello/pulls/",
        "GET /repos/octo/hello/collaborators/octo/permission",
        "GET /repos/octo/hello/actions/artifacts",
        "GET /user",
    ] {
        assert!(kinds.contains(&kind), "{kind} was not sent: {kinds:#?}");
    }
    for part in ["/statuses/", "/commits/"] {
        assert!(kinds.iter().any(|kind| kind.contains(part)), "{part} was not sent: {kinds:#?}");
    }
}

#[tokio::test]
async fn the_client_itself_gets_along_with_the_description() {
    let prism = Prism::start("client");
    let api = Api::connect(&prism.url, JOB, Policy::default()).await.unwrap();
    let (here, findings) = (repository(), findings(120));
    let run = CheckRun {
        name: "loopexec / fix",
        head_sha: SHA,
        external_id: "01RUN",
        details_url: None,
        conclusion: Some(Conclusion::Failure),
        title: "halted",
        summary: "why",
        findings: &findings,
    };
    let written = check_run::publish(&api, &here, &run).await.unwrap();
    assert_eq!((written.annotations, written.trouble), (120, None), "{}", prism.said());
    let (context, description) = ("loopexec / fix", "halted");
    let (standing, page) = (Standing::Failure, None);
    let status = Status { sha: SHA, standing, context, description, page };
    check_run::post_status(&api, &here, &status).await.unwrap();
}

/// The description would have caught these; so it has caught none of ours above.
#[tokio::test]
async fn wrong_requests_are_refused_by_the_description() {
    let (prism, client) = (Prism::start("refused"), http::client().unwrap());
    let runs = "/repos/octo/hello/check-runs";
    let good =
        json!({"name": "n", "head_sha": SHA, "status": "completed", "conclusion": "failure"});
    let annotation = json!({"path": "a", "start_line": 1, "end_line": 1,
                            "annotation_level": "failure", "message": "m"});
    let with = |changes: Value| {
        let mut body = good.clone();
        for (name, value) in changes.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let output = |annotations: Value| {
        with(json!({"output": {"title": "t", "summary": "s", "annotations": annotations}}))
    };
    let many = |count: usize| Value::from(vec![annotation.clone(); count]);
    let mut level = annotation.clone();
    level["annotation_level"] = "error".into();
    let headless = json!({"name": "n", "status": "completed", "conclusion": "failure"});
    for (what, path, body, accepted) in [
        ("a good one", runs, good.clone(), true),
        ("fifty annotations", runs, output(many(50)), true),
        ("fifty-one annotations", runs, output(many(51)), false),
        ("an unknown conclusion", runs, with(json!({"conclusion": "halted"})), false),
        ("an unknown level", runs, output(json!([level])), false),
        ("no commit", runs, headless, false),
        ("no title", runs, with(json!({"output": {"summary": "s"}})), false),
        (
            "a summary too long",
            runs,
            with(json!({"output": {"title": "t", "summary": "s".repeat(65_536)}})),
            false,
        ),
        ("an unknown path", "/repos/octo/hello/check-run", good.clone(), false),
        ("a comment that says nothing", "/repos/octo/hello/issues/7/comments", json!({}), false),
        (
            "an unknown state",
            &format!("/repos/octo/hello/statuses/{SHA}"),
            json!({"state": "halted"}),
            false,
        ),
    ] {
        let request = client.post(format!("{}{path}", prism.url));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let status = request.send().await.unwrap().status().as_u16();
        assert_eq!((200..300).contains(&status), accepted, "{what}: {status}\n{}", prism.said());
    }
}

#[test]
fn every_example_of_an_event_resolves_to_its_pull_request_or_to_none() {
    let file = packages().join("node_modules/@octokit/webhooks-examples/api.github.com/index.json");
    let kinds: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let mut seen = BTreeMap::new();
    for kind in kinds.as_array().unwrap() {
        let name = kind["name"].as_str().unwrap();
        let mut numbers = BTreeMap::<Option<u64>, usize>::new();
        for payload in kind["examples"].as_array().unwrap() {
            let variables = |wanted: &str| match wanted {
                "GITHUB_EVENT_NAME" => Some(name.to_owned()),
                "GITHUB_EVENT_PATH" => Some("event.json".to_owned()),
                "GITHUB_REPOSITORY" => Some("octo/hello".to_owned()),
                _ => None,
            };
            let event = Event::read(variables, |_| Ok(payload.to_string().into_bytes()));
            assert_eq!(event.warnings, Vec::<String>::new(), "{name}");
            let found = pull::from_event(None, &event).map(|found| found.number);
            *numbers.entry(found).or_default() += 1;
            if let Some(head) = payload.pointer("/pull_request/head/sha") {
                assert_eq!(event.head_sha(), head.as_str(), "{name}");
                assert_eq!(event.origin(), Origin::Same, "{name}");
                assert!(event.base_sha().is_some(), "{name}");
            }
        }
        seen.insert(name.to_owned(), numbers);
    }
    assert_eq!(seen.len(), 58);
    // Counted by hand: how many examples of a kind are about which pull request. The list of one
    // workflow run names a pull request of another repository: that one is about none.
    let expected: BTreeMap<&str, &[(Option<u64>, usize)]> = BTreeMap::from([
        ("check_run", &[(None, 2), (Some(2), 6), (Some(26_764), 1)][..]),
        ("check_suite", &[(None, 4), (Some(2), 5)]),
        ("deployment_review", &[(Some(3), 1)]),
        ("issues", &[(None, 25), (Some(2), 4)]),
        ("merge_group", &[(Some(104), 2)]),
        ("pull_request", &[(Some(2), 29)]),
        ("pull_request_review", &[(Some(2), 4)]),
        ("pull_request_review_comment", &[(Some(2), 5)]),
        ("pull_request_review_thread", &[(Some(2), 2), (Some(118), 1)]),
    ]);
    for (name, numbers) in seen {
        let all: usize = numbers.values().sum();
        let numbers: Vec<_> = numbers.into_iter().collect();
        let none = [(None, all)];
        let wanted = expected.get(name.as_str()).copied().unwrap_or(&none);
        assert_eq!(numbers, wanted, "{name}");
    }
}
