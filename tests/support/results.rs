//! A results server as GitHub has one: artifacts of version 4, their blocks, and faults on demand.

use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

use serde_json::{Value, json};

const SERVICE: &str = "/twirp/github.actions.results.api.v1.ArtifactService/";

/// The query of a signed address, with everything in it that a careless client encodes anew.
pub(crate) const SIGNED: &str = "sv=2026&sr=b&sig=a%2Bb%2Fc%3D&se=2026-12-31T00%3A00%3A00Z";

/// How names of keys are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    Snake,
    Camel,
}

/// What goes wrong once, at the next request of this sort.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    /// `CreateArtifact`, `block`, `blocklist`, …
    pub(crate) at: &'static str,
    pub(crate) how: How,
}

#[derive(Debug, Clone)]
pub(crate) enum How {
    Answer(u16, &'static str),
    Stall,
}

/// One request that came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// `CreateArtifact`, `block`, `blocklist`, …
    pub(crate) what: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Debug, Default)]
struct Artifact {
    name: String,
    blocks: BTreeMap<String, Vec<u8>>,
    content: Option<Vec<u8>>,
    finalized: bool,
    digest: String,
}

#[derive(Debug, Default)]
struct State {
    artifacts: Vec<Artifact>,
    seen: Vec<Seen>,
    faults: VecDeque<Fault>,
    uri: String,
    camel: bool,
    wrong: Vec<String>,
}

/// A running server.
pub(crate) struct Results {
    server: MockServer,
    state: Arc<Mutex<State>>,
}

struct Answerer(Arc<Mutex<State>>);

impl Results {
    pub(crate) async fn start(spelling: Spelling, faults: &[Fault]) -> Self {
        let server = MockServer::start().await;
        let state = State {
            uri: server.uri(),
            camel: spelling == Spelling::Camel,
            faults: faults.iter().cloned().collect(),
            ..State::default()
        };
        let state = Arc::new(Mutex::new(state));
        Mock::given(any()).respond_with(Answerer(state.clone())).mount(&server).await;
        Self { server, state }
    }

    pub(crate) fn uri(&self) -> String {
        self.server.uri()
    }

    /// Returns a token that allows artifacts of this run and job.
    pub(crate) fn token() -> &'static str {
        // {"scp":"Actions.GenericRead:0 Actions.Results:run-1:job-2"}
        "e30.eyJzY3AiOiJBY3Rpb25zLkdlbmVyaWNSZWFkOjAgQWN0aW9ucy5SZXN1bHRzOnJ1bi0xOmpvYi0yIn0.c2VjcmV0"
    }

    /// Returns what came, in order.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// Returns the requests of one sort.
    pub(crate) fn seen_of(&self, what: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.what == what).collect()
    }

    /// Returns the content of a finalized artifact.
    pub(crate) fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock().unwrap();
        let found = state.artifacts.iter().find(|one| one.name == name && one.finalized)?;
        found.content.clone()
    }

    /// Fails when a request was not as the protocol wants it.
    pub(crate) fn assert_in_order(&self) {
        let state = self.state.lock().unwrap();
        assert!(state.wrong.is_empty(), "{:?}", state.wrong);
    }
}

impl Respond for Answerer {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.0.lock().unwrap().answer(request)
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> ResponseTemplate {
        let path = request.url.path().to_owned();
        let query = request.url.query().unwrap_or_default().to_owned();
        let what = match path.strip_prefix(SERVICE) {
            Some(method) => method.to_owned(),
            None if query.contains("comp=blocklist") => "blocklist".to_owned(),
            None if query.contains("comp=block&") => "block".to_owned(),
            None => "blob".to_owned(),
        };
        let headers = request.headers.iter().map(|(name, value)| {
            (name.as_str().to_owned(), value.to_str().unwrap_or_default().to_owned())
        });
        self.seen.push(Seen {
            method: request.method.to_string(),
            what: what.clone(),
            path: path.clone(),
            headers: headers.collect(),
            body: request.body.clone(),
        });
        if self.faults.front().is_some_and(|fault| fault.at == what)
            && let Some(fault) = self.faults.pop_front()
        {
            return match fault.how {
                How::Answer(status, body) => ResponseTemplate::new(status).set_body_string(body),
                How::Stall => ResponseTemplate::new(200).set_delay(Duration::from_secs(60)),
            };
        }
        match path.starts_with(SERVICE) {
            true => self.call(&what, request),
            false => self.blob(&what, &path, &query, request),
        }
    }

    fn call(&mut self, method: &str, request: &Request) -> ResponseTemplate {
        let authorized = request.headers.get("authorization").and_then(|value| value.to_str().ok());
        if authorized != Some(&format!("Bearer {}", Results::token())) {
            self.wrong.push(format!("{method} without the token"));
            return ResponseTemplate::new(401);
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        // Clients of protobuf's JSON may spell keys either way.
        let get = |snake: &str, camel: &str| {
            let value = body.get(snake).or_else(|| body.get(camel));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let ids = [
            get("workflow_run_backend_id", "workflowRunBackendId"),
            get("workflow_job_run_backend_id", "workflowJobRunBackendId"),
        ];
        if ids != ["run-1", "job-2"] {
            self.wrong.push(format!("{method} for {ids:?}"));
        }
        let name = get("name", "name");
        let at = self.artifacts.iter().position(|one| one.name == name);
        match method {
            "CreateArtifact" => {
                if at.is_some() {
                    let said = json!({"code": "already_exists", "msg": "an artifact with this name already exists on the workflow run"});
                    return ResponseTemplate::new(409).set_body_string(said.to_string());
                }
                self.artifacts.push(Artifact { name, ..Artifact::default() });
                let url =
                    format!("{}/store/container/{}?{SIGNED}", self.uri, self.artifacts.len() - 1);
                self.say(json!({"ok": true, "signed_upload_url": url}))
            }
            "FinalizeArtifact" => {
                let Some(found) = at.and_then(|at| self.artifacts.get_mut(at)) else {
                    return ResponseTemplate::new(404);
                };
                let content = found.content.clone().unwrap_or_default();
                found.digest = format!("sha256:{}", hex(&Sha256::digest(&content)));
                found.finalized = true;
                let wanted = (content.len().to_string(), found.digest.clone());
                let told = (get("size", "size"), get("hash", "hash"));
                if told != wanted {
                    self.wrong.push(format!("finalized as {told:?}, and it is {wanted:?}"));
                }
                let id = at.unwrap_or_default() + 77;
                self.say(json!({"ok": true, "artifact_id": id.to_string()}))
            }
            "ListArtifacts" => {
                let filter = get("name_filter", "nameFilter");
                let all = self.artifacts.iter().enumerate();
                let all = all
                    .filter(|(_, one)| one.finalized && (filter.is_empty() || one.name == filter));
                let all: Vec<Value> = all
                    .map(|(at, one)| {
                        json!({
                            "workflow_run_backend_id": "run-1", "workflow_job_run_backend_id": "job-2",
                            "database_id": (at + 77).to_string(), "name": one.name,
                            "size": one.content.as_ref().map_or(0, Vec::len).to_string(),
                            "created_at": "2026-12-01T00:00:00Z", "digest": one.digest,
                        })
                    })
                    .collect();
                self.say(json!({"artifacts": all}))
            }
            "GetSignedArtifactURL" => match at {
                Some(at) => {
                    let url = format!("{}/store/container/{at}?{SIGNED}", self.uri);
                    self.say(json!({"name": name, "signed_url": url}))
                }
                None => ResponseTemplate::new(404),
            },
            _ => ResponseTemplate::new(404),
        }
    }

    fn say(&self, value: Value) -> ResponseTemplate {
        let text = value.to_string();
        let text = match self.camel {
            true => text
                .replace("signed_upload_url", "signedUploadUrl")
                .replace("artifact_id", "artifactId"),
            false => text,
        };
        ResponseTemplate::new(200).set_body_raw(text, "application/json")
    }

    fn blob(&mut self, what: &str, path: &str, query: &str, request: &Request) -> ResponseTemplate {
        // The official client encodes the address anew, which GitHub's storage forgives.
        let ours = request
            .headers
            .get("user-agent")
            .is_some_and(|agent| agent.to_str().is_ok_and(|agent| agent.starts_with("loopexec/")));
        if ours && query != SIGNED && !query.starts_with(&format!("{SIGNED}&")) {
            self.wrong.push(format!("the signed query became {query}"));
            return ResponseTemplate::new(403);
        }
        if request.headers.contains_key("authorization") {
            self.wrong.push("the storage was shown a token".to_owned());
        }
        let at = path.rsplit('/').next().and_then(|at| at.parse::<usize>().ok());
        let Some(found) = at.and_then(|at| self.artifacts.get_mut(at)) else {
            return ResponseTemplate::new(404);
        };
        let pairs: BTreeMap<_, _> = request.url.query_pairs().into_owned().collect();
        match (request.method.as_str(), what) {
            ("PUT", "block") => {
                found.blocks.insert(pairs["blockid"].clone(), request.body.clone());
                ResponseTemplate::new(201)
            }
            ("PUT", "blocklist") => {
                let text = String::from_utf8_lossy(&request.body).into_owned();
                let ids =
                    text.split("<Latest>").skip(1).map(|rest| rest.split('<').next().unwrap());
                let mut content = Vec::new();
                for id in ids {
                    match found.blocks.get(id) {
                        Some(block) => content.extend_from_slice(block),
                        None => return ResponseTemplate::new(400),
                    }
                }
                found.content = Some(content);
                ResponseTemplate::new(201)
            }
            ("PUT", _) if request.headers.contains_key("x-ms-blob-type") => {
                found.content = Some(request.body.clone());
                ResponseTemplate::new(201)
            }
            ("GET", _) => match &found.content {
                Some(content) => {
                    ResponseTemplate::new(200).set_body_raw(content.clone(), "application/zip")
                }
                None => ResponseTemplate::new(404),
            },
            _ => ResponseTemplate::new(400),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
