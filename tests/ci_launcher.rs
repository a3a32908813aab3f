//! The action's launcher under Node 24, with a shell script in place of the binary: what it starts,
//! what reaches it, what it refuses to run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

#[path = "support/tools.rs"]
#[expect(dead_code, reason = "other targets use the rest of it")]
mod tools;

use loopexec::domain::hex::sha256;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Records its arguments, its environment and the state file as it is, then does what `$DO` says.
const FAKE: &str = r#"#!/bin/sh
printf '%s\n' "$0" "$@" > "$RECORD/argv"
cat "/proc/$$/environ" > "$RECORD/environ"
cat "$GITHUB_STATE" > "$RECORD/state" 2>/dev/null
pwd > "$RECORD/cwd"
got() { echo "$1" >> "$RECORD/signals"; exit 21; }
for name in INT TERM HUP; do trap "got $name" "$name"; done
: > "$RECORD/ready"
eval "$DO"
"#;

/// A runner's step: a folder with spaces in its path, and the variables a runner sets.
struct Step {
    folder: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Step {
    fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("a runner's “work” ")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap();
        let mut step = Self { folder, variables: BTreeMap::new() };
        for name in ["record", "checkout", "tool cache", "temp"] {
            fs::create_dir(step.path(name)).unwrap();
        }
        for (variable, name) in [
            ("RECORD", "record"),
            ("GITHUB_WORKSPACE", "checkout"),
            ("RUNNER_TOOL_CACHE", "tool cache"),
            ("RUNNER_TEMP", "temp"),
            ("GITHUB_STATE", "state"),
        ] {
            let path = step.path(name);
            step.set(variable, path.to_str().unwrap());
        }
        fs::write(step.path("state"), "").unwrap();
        step
    }

    /// A step whose `binary-path` is the fake.
    fn with_fake(does: &str) -> Self {
        let mut step = Self::new();
        let fake = step.path("my tools/loop exec");
        fs::create_dir(fake.parent().unwrap()).unwrap();
        write_executable(&fake, FAKE.as_bytes());
        step.set("INPUT_BINARY-PATH", fake.to_str().unwrap());
        step.set("DO", does);
        step
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn node(&self) -> Command {
        let mut node = Command::new(tools::node24().join("node"));
        node.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).envs(&self.variables);
        node.current_dir(self.path("checkout")).stdin(Stdio::null());
        node
    }

    fn run(&self, script: &Path) -> Output {
        self.node().arg(script).output().unwrap()
    }

    fn main(&self) -> Output {
        self.run(&dist("main.js"))
    }

    fn post(&self) -> Output {
        self.run(&dist("post.js"))
    }

    /// Calls a function of the launcher and prints what it gives, or the message of what it throws.
    fn call(&self, expression: &str, arguments: &[&str]) -> (bool, String) {
        let script = format!(
            "const l = require(process.argv[1]); const a = process.argv.slice(2);\
             (async () => {expression})().then((r) => console.log(String(r)), \
             (e) => {{ console.log(e.message); process.exitCode = 1; }});"
        );
        let mut node = self.node();
        node.arg("-e").arg(script).arg("--").arg(dist("launcher.js")).args(arguments);
        let output = node.output().unwrap();
        (output.status.success(), out(&output).trim_end().to_owned())
    }

    /// Starts the step and waits until the fake runs.
    fn start(&self) -> Child {
        let mut node = self.node();
        let child = node.arg(dist("main.js")).stdout(Stdio::piped()).spawn().unwrap();
        until(|| self.path("record/ready").exists());
        child
    }
}

fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dist").join(name)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn write_executable(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The one annotation that a refusal makes.
fn refusal(output: &Output) -> String {
    let text = out(output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(output.status.code(), Some(30), "{text}");
    text.strip_prefix("::error title=loopexec::").unwrap().trim_end().to_owned()
}

#[test]
fn the_binary_gets_its_arguments_the_folder_and_the_environment_as_it_is() {
    let step = Step::with_fake("exit 0");
    let output = step.main();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""));
    let fake = step.path("my tools/loop exec");
    assert_eq!(step.read("record/argv"), format!("{}\nci\n--action\n", fake.display()));
    assert_eq!(step.read("record/cwd").trim_end(), step.path("checkout").to_str().unwrap());
    let environment = step.read("record/environ");
    for (name, value) in &step.variables {
        assert!(environment.split('\0').any(|entry| entry == format!("{name}={value}")), "{name}");
    }
}

#[test]
fn the_path_of_the_binary_is_saved_before_it_starts() {
    let step = Step::with_fake("exit 0");
    step.main();
    let state = step.read("record/state");
    let lines: Vec<&str> = state.lines().collect();
    let [first, path, end, second, digest, _] = lines[..] else { panic!("{state}") };
    let delimiter = first.strip_prefix("loopexec_binary<<").unwrap();
    assert_eq!((path, end), (step.path("my tools/loop exec").to_str().unwrap(), delimiter));
    assert!(second.starts_with("loopexec_sha256<<"), "{state}");
    assert_eq!(digest, sha256(&fs::read(path).unwrap()));
    assert!(delimiter.len() > 32, "{delimiter} can be guessed");
    step.main();
    assert!(!step.read("record/state").replacen(delimiter, "", 2).contains(delimiter));
}

#[test]
fn inputs_reach_the_binary_unharmed_and_nothing_reads_them_as_shell() {
    let mut step = Step::with_fake("exit 0");
    let hostile =
        "a 'b' \"c\" $(touch pwned) `touch pwned`; touch pwned\n::error::x\n%0A é \\ \t$HOME";
    let names = ["LOOP", "CONFIG", "WORKING-DIRECTORY", "ARTIFACT-NAME", "FAIL-ON", "MATRIX"];
    for name in names {
        step.set(&format!("INPUT_{name}"), hostile);
    }
    let output = step.main();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""));
    let environment = step.read("record/environ");
    for name in names {
        let entry = format!("INPUT_{name}={hostile}");
        assert!(environment.split('\0').any(|found| found == entry), "{name}");
    }
    assert_eq!(fs::read_dir(step.path("checkout")).unwrap().count(), 0);
}

#[test]
fn exit_codes_come_through_and_signals_as_128_and_their_number() {
    for (does, code) in
        [("exit 13", 13), ("exit 50", 50), ("kill -9 $$", 137), ("trap - TERM; kill $$", 143)]
    {
        let output = Step::with_fake(does).main();
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(code), ""), "{does}");
    }
}

#[test]
fn signals_to_the_launcher_alone_reach_the_binary_at_once() {
    for (signal, name) in
        [(Signal::SIGINT, "INT"), (Signal::SIGTERM, "TERM"), (Signal::SIGHUP, "HUP")]
    {
        let step = Step::with_fake("while :; do sleep 0.02; done");
        let mut child = step.start();
        let sent = Instant::now();
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(21), "{name}");
        assert!(sent.elapsed() < Duration::from_secs(3), "{name}: {:?}", sent.elapsed());
        assert_eq!(step.read("record/signals").trim_end(), name);
    }
}

#[test]
fn every_signal_is_passed_on_until_the_binary_ends() {
    let ignoring = "trap 'echo INT >> \"$RECORD/signals\"' INT; touch \"$RECORD/trapped\"; while :; do sleep 0.02; done";
    let step = Step::with_fake(ignoring);
    let mut child = step.start();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let signals = || fs::read_to_string(step.path("record/signals")).unwrap_or_default();
    for count in 1..=2 {
        // The trap of the first moments ends the script; the one above stands a little later.
        until(|| step.path("record/trapped").exists());
        kill(pid, Signal::SIGINT).unwrap();
        until(|| signals().lines().count() == count);
    }
    kill(pid, Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(21));
    assert_eq!(signals(), "INT\nINT\nTERM\n");
}

#[test]
fn a_binary_that_is_not_there_or_cannot_be_run_is_refused_by_name() {
    let mut step = Step::new();
    step.set("INPUT_BINARY-PATH", "no\nsuch%0Abinary");
    let said = refusal(&step.main());
    assert!(said.contains("no%0Asuch%250Abinary cannot be run: ENOENT"), "{said}");

    fs::write(step.path("checkout/plain"), "x").unwrap();
    for (name, why) in [("plain", "EACCES"), (".", "not a file")] {
        step.set("INPUT_BINARY-PATH", name);
        let said = refusal(&step.main());
        assert!(said.contains("cannot be run") && said.contains(why), "{said}");
    }

    write_executable(&step.path("checkout/broken"), b"#!/no/such/interpreter\n");
    step.set("INPUT_BINARY-PATH", "broken");
    let said = refusal(&step.main());
    assert!(said.contains("broken cannot be started: "), "{said}");
}

#[test]
fn the_input_stands_before_the_variable_which_stands_before_a_release() {
    let mut step = Step::with_fake("exit 0");
    let other = step.path("other");
    write_executable(&other, b"#!/bin/sh\nexit 7\n");
    step.set("LOOPEXEC_BINARY", other.to_str().unwrap());
    assert_eq!(step.main().status.code(), Some(0));
    step.set("INPUT_BINARY-PATH", "");
    assert_eq!(step.main().status.code(), Some(7));
}

/// A copy of the action that holds a checksum for this machine.
fn action_with(step: &Step, sha256: &str) -> PathBuf {
    let folder = step.path("the action");
    fs::create_dir(&folder).unwrap();
    for name in ["main.js", "post.js", "launcher.js"] {
        fs::copy(dist(name), folder.join(name)).unwrap();
    }
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let version = env!("CARGO_PKG_VERSION");
    let known = format!(r#"{{"{version}": {{"{triple}": "{sha256}"}}}}"#);
    fs::write(folder.join("checksums.json"), known).unwrap();
    folder.join("main.js")
}

fn cached(step: &Step) -> PathBuf {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    step.path("tool cache/loopexec").join(env!("CARGO_PKG_VERSION")).join(arch).join("loopexec")
}

#[test]
fn a_release_in_the_tool_cache_runs_only_with_the_checksum() {
    let mut step = Step::new();
    step.set("DO", "exit 9");
    let main = action_with(&step, &sha256(FAKE.as_bytes()));
    fs::create_dir_all(cached(&step).parent().unwrap()).unwrap();
    write_executable(&cached(&step), FAKE.as_bytes());
    assert_eq!(step.run(&main).status.code(), Some(9));
    assert_eq!(step.read("record/argv"), format!("{}\nci\n--action\n", cached(&step).display()));

    // What another job put there instead is not run; a fresh one is wanted.
    fs::remove_file(step.path("record/argv")).unwrap();
    write_executable(&cached(&step), format!("{FAKE}# altered").as_bytes());
    let said = refusal(&step.run(&main));
    assert!(said.contains("used by its path has no releases"), "{said}");
    assert!(!step.path("record/argv").exists());
}

#[test]
fn without_a_checksum_nothing_is_downloaded_or_run() {
    let mut step = Step::new();
    step.set("GITHUB_ACTION_REPOSITORY", "acme/loopexec");
    fs::create_dir_all(cached(&step).parent().unwrap()).unwrap();
    write_executable(&cached(&step), FAKE.as_bytes());
    step.set("INPUT_VERSION", "v9.9.9");
    let said = refusal(&step.main());
    assert!(said.contains("holds no checksum for loopexec 9.9.9") && said.contains("binary-path"));
    for version in ["../../x", "1.0", "1.0.0-é", "__proto__", "latest"] {
        step.set("INPUT_VERSION", version);
        assert!(refusal(&step.main()).contains("is no version of loopexec"), "{version}");
    }
    assert!(!step.path("record/argv").exists());
}

#[test]
fn windows_is_refused_in_one_sentence_and_the_four_targets_are_known() {
    let step = Step::new();
    let target = |platform: &str, arch: &str| step.call("l.target(a[0], a[1])", &[platform, arch]);
    let (done, said) = target("win32", "x64");
    assert!(!done && said.contains("does not run on Windows"), "{said}");
    assert_eq!(target("linux", "x64"), (true, "x86_64-unknown-linux-musl".to_owned()));
    assert_eq!(target("linux", "arm64"), (true, "aarch64-unknown-linux-musl".to_owned()));
    assert_eq!(target("darwin", "x64"), (true, "x86_64-apple-darwin".to_owned()));
    assert_eq!(target("darwin", "arm64"), (true, "aarch64-apple-darwin".to_owned()));
    assert!(!target("linux", "riscv64").0);
    assert!(!target("freebsd", "x64").0);
}

#[test]
fn a_release_comes_from_the_actions_own_repository() {
    let mut step = Step::new();
    step.set("GITHUB_ACTION_REPOSITORY", "acme/loopexec");
    let (done, url) = step.call("l.address(a[0], a[1])", &["1.2.3", "x86_64-apple-darwin"]);
    assert!(done);
    assert_eq!(
        url,
        "https://github.com/acme/loopexec/releases/download/v1.2.3/loopexec-x86_64-apple-darwin"
    );
    for name in ["", "acme", "acme/loopexec/../../evil", "acme/loopexec?x"] {
        step.set("GITHUB_ACTION_REPOSITORY", name);
        assert!(!step.call("l.address(a[0], a[1])", &["1.2.3", "t"]).0, "{name}");
    }
}

/// Answers one request after the other with what it is given, and tells what was asked.
fn serve(answers: Vec<Vec<u8>>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let asked = answers.into_iter().map(|answer| {
            let (mut stream, _) = listener.accept().unwrap();
            let line = request_line(&mut stream);
            stream.write_all(&answer).unwrap();
            line
        });
        asked.collect()
    });
    (address, thread)
}

fn request_line(stream: &mut TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap().unwrap();
    while !lines.next().unwrap().unwrap().is_empty() {}
    first
}

fn answer(status: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n");
    [head.as_bytes(), more.as_bytes(), b"\r\n", body].concat()
}

fn download(step: &Step, url: &str, sha256: &str) -> (bool, String, PathBuf) {
    let to = step.path("tool cache/loopexec/x y/loopexec");
    let call = "l.download(a[0], a[1], a[2])";
    let (done, said) = step.call(call, &[url, sha256, to.to_str().unwrap()]);
    (done, said, to)
}

/// What lies in the folder of a download.
fn left(to: &Path) -> usize {
    fs::read_dir(to.parent().unwrap()).unwrap().count()
}

#[test]
fn a_download_follows_redirects_tries_again_and_is_executable() {
    let step = Step::new();
    let body: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    let (address, asked) = serve(vec![
        answer("302 Found", "Location: /elsewhere\r\n", b""),
        answer("503 Service Unavailable", "", b"busy"),
        answer("200 OK", "", &body),
    ]);
    let (done, said, to) = download(&step, &format!("{address}/a"), &sha256(&body));
    assert!(done, "{said}");
    assert_eq!(fs::read(&to).unwrap(), body);
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(left(&to), 1);
    let asked = asked.join().unwrap();
    assert_eq!(asked, ["GET /a HTTP/1.1", "GET /elsewhere HTTP/1.1", "GET /a HTTP/1.1"]);
}

#[test]
fn a_download_with_another_checksum_leaves_nothing() {
    let step = Step::new();
    let (address, asked) = serve(vec![answer("200 OK", "", b"altered")]);
    let (done, said, to) = download(&step, &address, &sha256(b"released"));
    assert!(!done && said.contains("not the") && said.contains("not run"), "{said}");
    assert_eq!(left(&to), 0);
    asked.join().unwrap();
}

#[test]
fn a_download_that_stays_away_or_breaks_off_leaves_nothing() {
    let step = Step::new();
    let hash = sha256(b"released");
    let (address, asked) = serve(vec![answer("404 Not Found", "", b"released")]);
    let (done, said, to) = download(&step, &address, &hash);
    assert!(!done && said.contains("status 404"), "{said}");
    assert_eq!(left(&to), 0);
    asked.join().unwrap();

    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nrele".to_vec();
    let (address, asked) = serve(vec![cut.clone(), cut.clone(), cut]);
    let (done, said, to) = download(&step, &address, &hash);
    assert!(!done && said.contains("cannot be downloaded"), "{said}");
    assert_eq!(left(&to), 0);
    asked.join().unwrap();
}

#[test]
fn a_download_goes_through_the_proxy() {
    let mut step = Step::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    step.set("HTTP_PROXY", &format!("http://{}", listener.local_addr().unwrap()));
    let proxy = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let first = request_line(&mut stream);
        if first.starts_with("CONNECT ") {
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
            request_line(&mut stream);
        }
        stream.write_all(&answer("200 OK", "", b"released")).unwrap();
        // What is still to be read would reset the connection when it is closed.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read(&mut [0; 64]);
        first
    });
    let hash = sha256(b"released");
    let (done, said, to) = download(&step, "http://releases.invalid/a", &hash);
    assert!(done, "{said}");
    assert_eq!(fs::read(to).unwrap(), b"released");
    assert!(proxy.join().unwrap().contains("releases.invalid"));
}

#[test]
fn post_has_the_binary_finish_and_never_fails_the_job() {
    let mut step = Step::with_fake("exit 0");
    let fake = step.path("my tools/loop exec");
    step.set("STATE_loopexec_binary", fake.to_str().unwrap());
    step.set("STATE_loopexec_run_dir", "/somewhere/a run");
    step.set("STATE_loopexec_sha256", &sha256(&fs::read(&fake).unwrap()));
    let output = step.post();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""));
    assert_eq!(step.read("record/argv"), format!("{}\nci\n--action\n--finish\n", fake.display()));
    let environment = step.read("record/environ");
    assert!(environment.split('\0').any(|e| e == "STATE_loopexec_run_dir=/somewhere/a run"));

    step.set("DO", "exit 30");
    let output = step.post();
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output).starts_with("::warning title=loopexec::"), "{}", out(&output));

    // With the token in its environment it runs nothing that came later.
    fs::remove_file(step.path("record/argv")).unwrap();
    write_executable(&fake, b"#!/bin/sh\ntouch \"$RECORD/argv\"\n");
    for _ in 0..2 {
        let output = step.post();
        assert_eq!(output.status.code(), Some(0));
        assert!(
            out(&output).contains("is not the program the step was run with"),
            "{}",
            out(&output)
        );
        assert!(!step.path("record/argv").exists());
        let _ = fs::remove_file(&fake);
    }
}

#[test]
fn post_does_nothing_when_nothing_was_begun() {
    let mut step = Step::with_fake("exit 0");
    assert_eq!(out(&step.post()), "");
    let fake = step.path("my tools/loop exec");
    step.set("STATE_loopexec_binary", fake.to_str().unwrap());
    let output = step.post();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), ""));
    assert!(!step.path("record/argv").exists());
}
