//! A GitHub that remembers: comments of one pull request, with authors by token, and what goes
//! wrong on request.

use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

/// The token of a job, and the one of a person.
pub const JOB: &str = "ghs_jobtoken";
pub const PERSON: &str = "ghp_persontoken";

/// What a script does to one request: an answer instead of the real one, before or after it.
pub enum Mishap {
    /// The request is not carried out.
    Instead(ResponseTemplate),
    /// The request is carried out, and its answer lost.
    Afterwards(ResponseTemplate),
}

type Hook = Box<dyn FnMut(&mut World, &Request) -> Option<Mishap> + Send>;

/// The pull request's comments, and all requests so far as `METHOD path`.
#[derive(Default)]
pub struct World {
    pub comments: Vec<Value>,
    pub log: Vec<String>,
    next: u64,
    hook: Option<Hook>,
    chance: Option<u64>,
}

impl World {
    /// Adds a comment as if its author had written it.
    pub fn add(&mut self, login: &str, kind: &str, body: &str) -> u64 {
        self.next += 1;
        let id = self.next;
        self.comments.push(json!({
            "id": id,
            "body": body,
            "html_url": format!("https://github.example/c/{id}"),
            "user": {"login": login, "type": kind},
        }));
        id
    }

    /// The bodies of the comments by an author.
    pub fn bodies(&self, login: &str) -> Vec<String> {
        let own = self.comments.iter().filter(|comment| comment["user"]["login"] == login);
        own.map(|comment| comment["body"].as_str().unwrap().to_owned()).collect()
    }

    /// How many requests changed something.
    pub fn writes(&self) -> usize {
        self.log.iter().filter(|line| !line.starts_with("GET ")).count()
    }

    fn find(&mut self, id: &str) -> Option<&mut Value> {
        self.comments.iter_mut().find(|comment| comment["id"].as_u64() == id.parse().ok())
    }

    fn delay(&mut self) -> Duration {
        let Some(chance) = self.chance.as_mut() else { return Duration::ZERO };
        *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Duration::from_millis((*chance >> 33) % 12)
    }

    fn answer(&mut self, request: &Request) -> ResponseTemplate {
        let token = request.headers["authorization"].to_str().unwrap();
        let (login, kind) = match token.trim_start_matches("Bearer ") {
            JOB => ("github-actions[bot]", "Bot"),
            PERSON => ("octo", "User"),
            _ => return ResponseTemplate::new(401).set_body_json(json!({"message": "Bad"})),
        };
        let path = request.url.path().to_owned();
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let text = body["body"].as_str().unwrap_or_default();
        let gone = || ResponseTemplate::new(404).set_body_json(json!({"message": "Not Found"}));
        let one = path.strip_prefix("/repos/octo/hello/issues/comments/");
        match (request.method.as_str(), path.as_str(), one) {
            ("GET", "/user", _) if kind == "User" => {
                ResponseTemplate::new(200).set_body_json(json!({"login": login, "type": kind}))
            }
            ("GET", "/user", _) => denied(),
            ("GET", "/repos/octo/hello/issues/7/comments", _) => {
                let ask = |name: &str| {
                    let pair = request.url.query_pairs().find(|(known, _)| known == name);
                    pair.map_or(30, |(_, value)| value.parse::<usize>().unwrap())
                };
                let (page, size) = (ask("page"), ask("per_page"));
                let start = self.comments.len().min((page - 1) * size);
                let end = self.comments.len().min(start + size);
                ResponseTemplate::new(200).set_body_json(&self.comments[start..end])
            }
            ("POST", "/repos/octo/hello/issues/7/comments", _) => {
                self.add(login, kind, text);
                ResponseTemplate::new(201).set_body_json(self.comments.last().unwrap())
            }
            (method, _, Some(id)) => match (method, self.find(id)) {
                ("GET", Some(comment)) => ResponseTemplate::new(200).set_body_json(&*comment),
                ("PATCH", Some(comment)) => {
                    comment["body"] = text.into();
                    ResponseTemplate::new(200).set_body_json(&*comment)
                }
                ("DELETE", Some(_)) => {
                    self.comments.retain(|comment| comment["id"].as_u64() != id.parse().ok());
                    ResponseTemplate::new(204)
                }
                _ => gone(),
            },
            _ => gone(),
        }
    }
}

/// The answer to a token that may not.
pub fn denied() -> ResponseTemplate {
    ResponseTemplate::new(403)
        .set_body_json(json!({"message": "Resource not accessible by integration"}))
}

#[derive(Clone)]
struct Shared(Arc<Mutex<World>>);

impl Respond for Shared {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut world = self.0.lock().unwrap();
        world.log.push(format!("{} {}", request.method, request.url.path()));
        let mut hook = world.hook.take();
        let mishap = hook.as_mut().and_then(|hook| hook(&mut world, request));
        world.hook = hook;
        let delay = world.delay();
        let answer = match mishap {
            Some(Mishap::Instead(answer)) => answer,
            Some(Mishap::Afterwards(answer)) => {
                world.answer(request);
                answer
            }
            None => world.answer(request),
        };
        answer.set_delay(delay)
    }
}

/// A running server and its world.
pub struct Fake {
    pub server: MockServer,
    world: Arc<Mutex<World>>,
}

impl Fake {
    pub async fn start() -> Self {
        let (server, world) = (MockServer::start().await, Arc::default());
        Mock::given(any()).respond_with(Shared(Arc::clone(&world))).mount(&server).await;
        Self { server, world }
    }

    /// Looks at the world, or changes it.
    pub fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.world.lock().unwrap())
    }

    /// Runs at each request, before it is answered.
    pub fn hook(&self, hook: impl FnMut(&mut World, &Request) -> Option<Mishap> + Send + 'static) {
        self.world(|world| world.hook = Some(Box::new(hook)));
    }

    /// Lets answers come after a few milliseconds, as many as a seed says.
    pub fn shuffle(&self, seed: u64) {
        self.world(|world| world.chance = Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
}
