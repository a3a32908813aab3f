//! A GitHub on 127.0.0.1: comments of one pull request, and a results service that keeps artifacts
//! and holds them to the size and the hash they are finalized with.
//!
//! Every answer takes a little time, so that there is a middle of an upload.

use loopexec::domain::hex::sha256;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A runtime token whose scope names the run 11 and the job 22.
pub const RUNTIME_TOKEN: &str =
    "eyJhbGciOiAibm9uZSJ9.eyJzY3AiOiAiR2VuZXJpYy5SZWFkOjEgQWN0aW9ucy5SZXN1bHRzOjExOjIyIn0.x";

const SERVICE: &str = "/twirp/github.actions.results.api.v1.ArtifactService/";

/// When every artifact was uploaded.
pub const UPLOADED: &str = "2026-11-29T08:00:00Z";

/// How long an answer takes as a rule, in milliseconds.
pub const QUICK_MS: u64 = 60;

/// One artifact.
#[derive(Debug, Clone, Default)]
pub struct Artifact {
    blocks: BTreeMap<String, Vec<u8>>,
    /// What was put together.
    pub zip: Vec<u8>,
    /// Whether it was finalized.
    pub is_final: bool,
    id: u64,
}

/// What is kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// Artifacts by name.
    pub artifacts: BTreeMap<String, Artifact>,
    /// Comments by id.
    pub comments: BTreeMap<u64, String>,
    /// What people said, as the API tells it; the login `ada` may write.
    pub said: Vec<Value>,
    /// Requests for artifacts so far.
    pub uploading: usize,
    /// What was asked that is not known here.
    pub unknown: Vec<String>,
    last_id: u64,
}

/// The server; it lives as long as the process.
#[derive(Clone)]
pub struct FakeGitHub {
    kept: Arc<Mutex<Kept>>,
    address: String,
    delay_ms: Arc<AtomicU64>,
    denies: Arc<AtomicBool>,
}

impl FakeGitHub {
    /// Starts one that takes some milliseconds for each answer.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let server = Self {
            kept: Arc::default(),
            address,
            delay_ms: Arc::new(AtomicU64::new(QUICK_MS)),
            denies: Arc::default(),
        };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                // A client that was killed leaves half a request; nobody waits for it.
                std::thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Takes so long for each answer from now on.
    pub fn answer_after(&self, delay_ms: u64) {
        self.delay_ms.store(delay_ms, Ordering::Relaxed);
    }

    /// Refuses whatever would change something, as a fork's token is refused.
    pub fn deny_writes(&self) {
        self.denies.store(true, Ordering::Relaxed);
    }

    /// Adds what a person said.
    pub fn tell(&self, comment: Value) {
        self.kept.lock().unwrap().said.push(comment);
    }

    /// Looks at what is kept.
    pub fn look<T>(&self, look: impl FnOnce(&Kept) -> T) -> T {
        look(&self.kept.lock().unwrap())
    }

    /// Forgets all.
    pub fn clear(&self) {
        *self.kept.lock().unwrap() = Kept::default();
    }

    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut stream = stream;
        loop {
            let (verb, path, body) = read_request(&mut reader)?;
            if path.starts_with("/twirp/") || path.starts_with("/blob/") {
                self.kept.lock().unwrap().uploading += 1;
            }
            std::thread::sleep(Duration::from_millis(self.delay_ms.load(Ordering::Relaxed)));
            let (status, answer) = match verb != "GET" && self.denies.load(Ordering::Relaxed) {
                true => (403, json!({"message": "Resource not accessible by integration"})),
                false => self.kept.lock().unwrap().answer(&self.address, &verb, &path, &body),
            };
            let text = match answer {
                Value::Null => Vec::new(),
                Value::String(zip) => self.look(|kept| kept.artifacts[&zip].zip.clone()),
                answer => answer.to_string().into_bytes(),
            };
            let head = format!(
                "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                text.len()
            );
            stream.write_all(&[head.as_bytes(), &text].concat()).ok()?;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (verb, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
        assert!(!name.eq_ignore_ascii_case("transfer-encoding"), "bodies here have a length");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((verb, path, body))
}

impl Kept {
    /// The answer to a request; a text stands for the zip of that artifact.
    fn answer(&mut self, address: &str, verb: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        if let Some(method) = path.strip_prefix(SERVICE) {
            let body = serde_json::from_slice(body).unwrap_or_default();
            return self.results(address, method, &body);
        }
        if let Some(name) = path.strip_prefix("/blob/") {
            return self.blob(name, query, body);
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let text = body["body"].as_str().unwrap_or_default().to_owned();
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match (verb, &parts[..]) {
            ("GET", ["repos", _, _, "issues", "7", "comments"]) => {
                let all = self.comments.iter().map(|(id, text)| comment(*id, text));
                (200, Value::Array(all.chain(self.said.iter().cloned()).collect()))
            }
            ("GET", ["repos", _, _, "collaborators", login, "permission"]) => {
                let level = if *login == "ada" { "write" } else { "read" };
                (200, json!({"permission": level, "role_name": level}))
            }
            ("GET", ["repos", _, _, "actions", "artifacts"]) => {
                let wanted = query.split('&').find_map(|pair| pair.strip_prefix("name="));
                let ours = self.artifacts.iter().filter(|(name, one)| {
                    one.is_final && wanted.is_none_or(|wanted| wanted == name.as_str())
                });
                let told = ours.map(|(name, one)| {
                    json!({"id": one.id, "name": name, "size_in_bytes": one.zip.len(), "expired": false,
                        "digest": format!("sha256:{}", sha256(&one.zip)), "created_at": UPLOADED,
                        "workflow_run": {"id": 11, "repository_id": 1, "head_repository_id": 1,
                            "head_branch": "topic"}})
                });
                (200, json!({"artifacts": told.collect::<Vec<_>>()}))
            }
            ("GET", ["repos", _, _, "actions", "artifacts", id, "zip"]) => {
                let mut all = self.artifacts.iter();
                match all.find(|(_, one)| one.is_final && one.id.to_string() == **id) {
                    Some((name, _)) => (200, Value::String(name.clone())),
                    None => (404, json!({"message": "Not Found"})),
                }
            }
            ("POST", ["repos", _, _, "issues", "7", "comments"]) => {
                self.last_id += 1;
                self.comments.insert(self.last_id, text.clone());
                (201, comment(self.last_id, &text))
            }
            (_, ["repos", _, _, "issues", "comments", id]) => {
                let id = id.parse().unwrap_or(0);
                match (verb, self.comments.contains_key(&id)) {
                    ("GET", true) => (200, comment(id, &self.comments[&id])),
                    ("PATCH", true) => {
                        self.comments.insert(id, text.clone());
                        (200, comment(id, &text))
                    }
                    ("DELETE", true) => {
                        self.comments.remove(&id);
                        (204, Value::Null)
                    }
                    _ => (404, json!({"message": "Not Found"})),
                }
            }
            ("POST", ["repos", _, _, "check-runs"]) => {
                self.last_id += 1;
                (201, json!({"id": self.last_id}))
            }
            ("PATCH", ["repos", _, _, "check-runs", id]) => {
                (200, json!({"id": id.parse().unwrap_or(0)}))
            }
            _ => {
                self.unknown.push(format!("{verb} {path}"));
                (404, json!({"message": "Not Found"}))
            }
        }
    }

    fn results(&mut self, address: &str, method: &str, body: &Value) -> (u16, Value) {
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        let ours =
            body["workflow_run_backend_id"] == "11" && body["workflow_job_run_backend_id"] == "22";
        match method {
            _ if !ours || name.is_empty() => (400, json!({"msg": "not this job"})),
            "CreateArtifact" if self.artifacts.contains_key(&name) => {
                (409, json!({"msg": "an artifact with this name already exists"}))
            }
            "CreateArtifact" => {
                self.artifacts.insert(name.clone(), Artifact::default());
                let url = format!("{address}/blob/{name}?sv=1&sig=a%2Bb%3D");
                (200, json!({"ok": true, "signed_upload_url": url}))
            }
            "FinalizeArtifact" => {
                let Some(artifact) = self.artifacts.get_mut(&name) else {
                    return (404, json!({"msg": "no such artifact"}));
                };
                let hash = format!("sha256:{}", sha256(&artifact.zip));
                let size = artifact.zip.len().to_string();
                if body["hash"] != hash || body["size"] != size || artifact.is_final {
                    return (400, json!({"msg": "it is not what was uploaded"}));
                }
                artifact.is_final = true;
                self.last_id += 1;
                artifact.id = self.last_id;
                (200, json!({"ok": true, "artifact_id": self.last_id.to_string()}))
            }
            _ => (404, json!({"msg": "no such method"})),
        }
    }

    fn blob(&mut self, name: &str, query: &str, body: &[u8]) -> (u16, Value) {
        let value =
            |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        let Some(artifact) = self.artifacts.get_mut(name) else { return (404, Value::Null) };
        if value("sig") != Some("a%2Bb%3D") || artifact.is_final {
            return (403, Value::Null);
        }
        match (value("comp"), value("blockid")) {
            (Some("block"), Some(id)) => {
                let id = id.replace("%3D", "=").replace("%2B", "+").replace("%2F", "/");
                artifact.blocks.insert(id, body.to_owned());
            }
            (Some("blocklist"), _) => {
                let list = String::from_utf8_lossy(body).into_owned();
                let ids = list.split("<Latest>").skip(1).filter_map(|rest| rest.split('<').next());
                let blocks: Option<Vec<&Vec<u8>>> = ids.map(|id| artifact.blocks.get(id)).collect();
                let Some(blocks) = blocks else { return (400, Value::Null) };
                artifact.zip = blocks.into_iter().flatten().copied().collect();
            }
            _ => return (400, Value::Null),
        }
        (201, Value::Null)
    }
}

fn comment(id: u64, text: &str) -> Value {
    json!({
        "id": id,
        "body": text,
        "html_url": format!("https://github.com/acme/project/pull/7#issuecomment-{id}"),
        "user": {"login": "github-actions[bot]", "type": "Bot", "id": 41898282},
    })
}
