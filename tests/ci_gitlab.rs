//! The sticky note of a merge request, against a server that answers as GitLab's API does.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use loopexec::ci::gitlab::{Job, Note, Token, Told, keep_note};
use loopexec::ci::http::Policy;
use loopexec::ci::subject::{Key, Turn};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

const SECRET: &str = "glpat-0123456789abcdef";
const HEAD: &str = "0123456789abcdef0123456789abcdef01234567";
const NOTES: &str = "/api/v4/projects/5/merge_requests/7/notes";

/// What the server knows and was asked.
#[derive(Debug, Default)]
struct State {
    notes: Vec<Value>,
    last: u64,
    asked: Vec<String>,
    refuse: Option<(&'static str, u16)>,
}

impl State {
    fn writes(&self) -> Vec<&str> {
        let written = self.asked.iter().map(String::as_str);
        written.filter(|line| !line.starts_with("GET")).collect()
    }

    fn bodies(&self) -> Vec<&str> {
        self.notes.iter().filter_map(|note| note["body"].as_str()).collect()
    }

    fn add(&mut self, author: u64, body: &str) -> Value {
        self.last += 1;
        let note = json!({"id": self.last, "body": body, "system": false, "author": {"id": author, "username": "u"}});
        self.notes.push(note.clone());
        note
    }
}

/// GitLab, as far as notes need it.
#[derive(Clone)]
struct GitLab(Arc<Mutex<State>>);

impl Respond for GitLab {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut state = self.0.lock().unwrap();
        let (method, path) = (request.method.as_str(), request.url.path());
        state.asked.push(format!("{method} {path}"));
        let token = request.headers.get("PRIVATE-TOKEN").map(|value| value.to_str().unwrap());
        if token != Some(SECRET) {
            return ResponseTemplate::new(401);
        }
        if let Some((refused, status)) = state.refuse
            && refused == method
        {
            return ResponseTemplate::new(status).set_body_json(json!({"message": SECRET}));
        }
        if path == "/api/v4/user" {
            return ResponseTemplate::new(200).set_body_json(json!({"id": 42}));
        }
        let Some(rest) = path.strip_prefix(NOTES) else { return ResponseTemplate::new(404) };
        let text = || {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            body["body"].as_str().unwrap().to_owned()
        };
        // So that two jobs surely read before either of them writes.
        let slow = Duration::from_millis(30);
        let id = rest.strip_prefix('/').map(|id| id.parse::<u64>().unwrap());
        let at = id.and_then(|id| state.notes.iter().position(|note| note["id"] == id));
        match (method, id, at) {
            ("GET", None, _) => {
                let number = |name: &str| {
                    let mut pairs = request.url.query_pairs();
                    let found = pairs.find(|(key, _)| key == name).unwrap();
                    found.1.parse::<usize>().unwrap()
                };
                let (size, page) = (number("per_page"), number("page"));
                let notes: Vec<&Value> =
                    state.notes.iter().skip(size * (page - 1)).take(size).collect();
                ResponseTemplate::new(200).set_body_json(notes).set_delay(slow)
            }
            ("GET", Some(_), Some(at)) => {
                ResponseTemplate::new(200).set_body_json(&state.notes[at])
            }
            ("POST", None, _) => {
                let note = state.add(42, &text());
                ResponseTemplate::new(201).set_body_json(note).set_delay(slow)
            }
            ("PUT", Some(_), Some(at)) => {
                state.notes[at]["body"] = json!(text());
                ResponseTemplate::new(200).set_body_json(&state.notes[at])
            }
            ("DELETE", Some(_), Some(at)) => {
                state.notes.remove(at);
                ResponseTemplate::new(204)
            }
            _ => ResponseTemplate::new(404),
        }
    }
}

struct Bench {
    server: MockServer,
    state: Arc<Mutex<State>>,
}

impl Bench {
    async fn new() -> Self {
        let server = MockServer::start().await;
        let state = Arc::new(Mutex::new(State::default()));
        Mock::given(any()).respond_with(GitLab(state.clone())).mount(&server).await;
        Self { server, state }
    }

    fn job(&self) -> Job {
        let api = format!("{}/api/v4", self.server.uri());
        Job::read(|name| {
            Some(match name {
                "CI_API_V4_URL" => api.clone(),
                "CI_MERGE_REQUEST_IID" => "7".to_owned(),
                "CI_MERGE_REQUEST_PROJECT_ID" | "CI_MERGE_REQUEST_SOURCE_PROJECT_ID" => {
                    "5".to_owned()
                }
                _ => return None,
            })
        })
    }

    async fn tell(&self, run: u64, markdown: &str) -> Told {
        self.tell_for("loop", run, markdown).await
    }

    async fn tell_for(&self, name: &str, run: u64, markdown: &str) -> Told {
        let key = Key { name: name.to_owned(), job: "test".to_owned(), ..Key::default() };
        let turn = Turn { run, attempt: 1 };
        let note = Note { key: &key, turn, head: HEAD, markdown };
        keep_note(&self.job(), token(), policy(), &note).await
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn token() -> Option<Token> {
    Token::read(|_| Some(SECRET.to_owned()))
}

fn policy() -> Policy {
    Policy { attempts: 2, first_wait: Duration::from_millis(1), ..Policy::default() }
}

#[tokio::test]
async fn three_runs_leave_one_note_and_other_notes_are_left_alone() {
    let bench = Bench::new().await;
    bench.state().add(7, "a person's note");
    assert_eq!(bench.tell(1, "first").await, Told::Created);
    assert_eq!(bench.tell(2, "second").await, Told::Updated);
    assert_eq!(bench.tell(3, "third").await, Told::Updated);
    assert_eq!(bench.tell_for("another", 3, "its own").await, Told::Created);
    let state = bench.state();
    let bodies = state.bodies();
    assert_eq!(bodies.len(), 3, "{bodies:?}");
    assert_eq!(bodies[0], "a person's note");
    assert!(bodies[1].starts_with("<!-- loopexec:"), "{}", bodies[1]);
    assert!(bodies[1].contains(&format!(" run=3 attempt=1 head={HEAD} -->\nthird")));
    assert!(bodies[2].ends_with("its own"));
    assert_eq!(state.writes().len(), 4);
}

#[tokio::test]
async fn what_an_older_pipeline_was_refused_for_goes_when_its_loop_speaks() {
    let bench = Bench::new().await;
    bench.tell_for("", 1, "config_invalid").await;
    bench.tell_for("mend", 1, "halted").await;
    assert_eq!(bench.state().bodies().len(), 2);
    bench.tell_for("mend", 2, "converged").await;
    let state = bench.state();
    let bodies = state.bodies();
    assert!(bodies.len() == 1 && bodies[0].ends_with("converged"), "{bodies:?}");
}

#[tokio::test]
async fn a_forged_marker_of_someone_else_is_not_ours() {
    let bench = Bench::new().await;
    bench.tell(1, "ours").await;
    let copied = bench.state().bodies()[0].to_owned();
    bench.state().notes.clear();
    bench.state().add(7, &copied.replace("run=1", "run=999"));
    assert_eq!(bench.tell(2, "ours again").await, Told::Created);
    assert!(bench.state().bodies()[0].contains("run=999"), "a person's note is never changed");
}

#[tokio::test]
async fn a_note_on_a_later_page_is_found() {
    let bench = Bench::new().await;
    for number in 0..150 {
        bench.state().add(7, &format!("talk {number}"));
    }
    bench.tell(1, "first").await;
    for number in 0..120 {
        bench.state().add(7, &format!("more talk {number}"));
    }
    assert_eq!(bench.tell(2, "second").await, Told::Updated);
    assert_eq!(bench.state().notes.len(), 271);
}

#[tokio::test]
async fn nothing_is_sent_when_nothing_changed() {
    let bench = Bench::new().await;
    bench.tell(1, "text").await;
    let before = bench.state().writes().len();
    bench.state().notes[0]["body"] =
        json!(format!("{}\r\n", bench.state.lock().unwrap().bodies()[0].replace('\n', "\r\n")));
    assert_eq!(bench.tell(1, "text").await, Told::Unchanged);
    assert_eq!(bench.state().writes().len(), before);
}

#[tokio::test]
async fn an_older_run_does_not_overwrite_a_newer_one() {
    let bench = Bench::new().await;
    bench.tell(9, "newer").await;
    assert_eq!(bench.tell(8, "older").await, Told::Superseded);
    assert!(bench.state().bodies()[0].ends_with("newer"));
    assert_eq!(bench.state().writes().len(), 1);
}

#[tokio::test]
async fn two_jobs_that_race_leave_one_note_with_the_newer_text() {
    for (first, second) in [(1, 2), (2, 1), (5, 5)] {
        let bench = Bench::new().await;
        let (a, b) = tokio::join!(bench.tell(first, "one"), bench.tell(second, "two"));
        let state = bench.state();
        assert_eq!(state.writes().iter().filter(|line| line.starts_with("POST")).count(), 2);
        let bodies = state.bodies();
        assert_eq!(bodies.len(), 1, "{first}, {second}: {bodies:?} after {a:?} and {b:?}");
        let newest = first.max(second);
        assert!(bodies[0].contains(&format!("run={newest} ")), "{first}, {second}: {bodies:?}");
        for told in [a, b] {
            assert!(!matches!(told, Told::Warning(_) | Told::Notice(_)), "{told:?}");
        }
    }
}

#[tokio::test]
async fn a_duplicate_that_a_killed_job_left_goes_with_the_next_run() {
    let bench = Bench::new().await;
    bench.tell(1, "first").await;
    let copy = bench.state().bodies()[0].to_owned();
    bench.state().add(42, &copy);
    bench.tell(2, "second").await;
    let state = bench.state();
    assert_eq!((state.notes.len(), &state.notes[0]["id"]), (1, &json!(1)));
    assert!(state.bodies()[0].ends_with("second"));
}

#[tokio::test]
async fn a_refusal_is_one_warning_that_names_the_scope_and_not_the_token() {
    for (method, status) in [("POST", 403), ("GET", 401), ("POST", 404)] {
        let bench = Bench::new().await;
        bench.state().refuse = Some((method, status));
        let Told::Warning(text) = bench.tell(1, "text").await else { panic!("{status}") };
        assert!(text.contains(&status.to_string()), "{text}");
        assert!(text.contains("scope `api`") && text.contains("LOOPEXEC_GITLAB_TOKEN"), "{text}");
        assert!(!text.contains(SECRET) && !text.contains("http") && !text.contains('\n'), "{text}");
        assert!(bench.state().notes.is_empty());
    }
}

#[tokio::test]
async fn without_a_token_or_a_merge_request_there_is_one_notice() {
    let bench = Bench::new().await;
    let key = Key::default();
    let note = Note { key: &key, turn: Turn::default(), head: HEAD, markdown: "text" };
    let Told::Notice(text) = keep_note(&bench.job(), None, policy(), &note).await else {
        panic!("no notice")
    };
    assert!(text.contains("LOOPEXEC_GITLAB_TOKEN is not set"), "{text}");
    let nowhere = Job::read(|_| None);
    let told = keep_note(&nowhere, token(), policy(), &note).await;
    assert!(matches!(told, Told::Notice(_)), "{told:?}");
    assert!(bench.state().asked.is_empty());
}

#[tokio::test]
async fn the_token_does_not_follow_a_redirect() {
    let elsewhere = MockServer::start().await;
    let server = MockServer::start().await;
    let away = ResponseTemplate::new(307).insert_header("location", elsewhere.uri().as_str());
    Mock::given(any()).respond_with(away).mount(&server).await;
    let state = Arc::new(Mutex::new(State::default()));
    let bench = Bench { server, state };
    let told = bench.tell(1, "text").await;
    assert!(matches!(told, Told::Warning(_)), "{told:?}");
    assert!(elsewhere.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn no_line_of_a_note_is_a_quick_action() {
    let bench = Bench::new().await;
    bench.tell(1, "text\n/close\n\r/merge\n  /approve\n/usr/lib").await;
    let state = bench.state();
    let body = state.bodies()[0];
    assert!(body.ends_with("text\n\\/close\n\n\\/merge\n  \\/approve\n/usr/lib"), "{body:?}");
}
