//! Cancellation as a runner does it, through the launcher: SIGINT, 7.5 s, SIGTERM, 2.5 s, SIGKILL, all
//! to the launcher's process alone. Afterwards, and after `post`, everything is final.
//!
//! 10 cancellations, or 50 with `LOOPEXEC_TEST_LONG=1`, in every phase; the moments are random, the
//! seed is printed. Other tests kill launcher and loopexec at once, or the launcher alone.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

#[path = "cli/bench.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest of it")]
mod bench;
#[path = "support/fake_github.rs"]
#[expect(dead_code, reason = "other tests refuse writes")]
mod fake_github;
#[path = "support/tools.rs"]
#[expect(dead_code, reason = "other targets use the rest of it")]
mod tools;

use bench::Bench;
use fake_github::{FakeGitHub, QUICK_MS, RUNTIME_TOKEN};
use loopexec::receipt::record::{Compare, fold};
use loopexec::receipt::rundir::RunDir;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const PHASES: [&str; 8] =
    ["workspace", "setup", "baseline", "exec", "check", "confirmation", "delivery", "upload"];

/// How long a slow platform takes for each answer, in milliseconds.
const SLOW_MS: u64 = 4000;

/// Two tests; each iteration mends one, and rewrites enough files to make a delivery last.
const AGENT: &str = r#"
for name in a b; do
  if ! grep -q good "src/$name"; then
    sleep 0.15 & sleep 0.15
    for n in $(seq 300); do echo "$name $n" > "src/many/$n"; done
    echo good > "src/$name"
    wait
    exit 0
  fi
done"#;

const CHECK: &str = r#"
echo 1..2
status=0
n=0
for name in a b; do
  n=$((n + 1))
  if grep -q good "src/$name"; then echo "ok $n - $name"; else echo "not ok $n - $name"; status=1; fi
done
sleep 0.1
exit $status"#;

/// Pseudo-random numbers, enough to choose moments by.
struct Rng(u64);

impl Rng {
    fn from_time() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = since.as_nanos() as u64 % 1_000_000_007;
        println!("seed {seed}");
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}

struct Site {
    bench: Bench,
    server: FakeGitHub,
}

/// How a step is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// As a runner cancels it.
    Cancel,
    /// Launcher and loopexec at once.
    Kill,
    /// The launcher alone; post comes while loopexec still ends.
    Orphan,
}

impl Site {
    fn new() -> Self {
        let bench = Bench::new();
        for name in ["a", "b"] {
            bench.write(&format!("src/{name}"), "bad\n");
        }
        for n in 1..=300 {
            bench.write(&format!("src/many/{n}"), "t0\n");
        }
        bench.write("agent.sh", AGENT);
        bench.write("check.sh", CHECK);
        bench.loop_file(concat!(
            "setup: sleep 0.2\n",
            "exec: sh agent.sh\n",
            "check: { run: sh check.sh, runner: tap }\n",
        ));
        bench.commit();
        Self { bench, server: FakeGitHub::start() }
    }

    /// Puts the tree back, forgets the runs and what the server keeps.
    fn reset(&self) {
        self.bench.git(&["reset", "-q", "--hard"]);
        self.bench.git(&["clean", "-fdqx"]);
        let _ = fs::remove_dir_all(self.bench.path(".loopexec"));
        let _ = fs::remove_dir_all(self.bench.beside("step"));
        fs::create_dir(self.bench.beside("step")).unwrap();
        self.server.clear();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.bench.beside("step").join(name)
    }

    /// Returns the launcher's step with a session of its own and a runner's environment.
    fn step(&self, script: &str, more: &[(String, String)]) -> Command {
        let sha = self.bench.git(&["rev-parse", "HEAD"]);
        let repository = json!({"id": 1, "full_name": "acme/project", "default_branch": "main"});
        let side = |branch: &str| json!({"sha": sha, "ref": branch, "repo": repository});
        let event = json!({
            "action": "synchronize",
            "number": 7,
            "pull_request": {"number": 7, "draft": false, "head": side("topic"), "base": side("main")},
            "repository": repository,
        });
        fs::write(self.file("event.json"), event.to_string()).unwrap();
        // `setsid` becomes the launcher: the pid is its own.
        let mut step = Command::new("setsid");
        step.arg(tools::node24().join("node"));
        step.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("dist").join(script));
        step.env_clear().current_dir(self.bench.root()).stdin(Stdio::null());
        let plain = self.bench.loopexec();
        step.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        for (name, file) in [
            ("GITHUB_STATE", format!("{script}.state")),
            ("GITHUB_OUTPUT", format!("{script}.output")),
            ("GITHUB_STEP_SUMMARY", format!("{script}.summary")),
            ("GITHUB_EVENT_PATH", "event.json".to_owned()),
        ] {
            step.env(name, self.file(&file));
        }
        step.envs([
            ("CI", "true"),
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_EVENT_NAME", "pull_request"),
            ("GITHUB_REPOSITORY", "acme/project"),
            ("GITHUB_REPOSITORY_ID", "1"),
            ("GITHUB_RUN_ID", "101"),
            ("GITHUB_RUN_NUMBER", "5"),
            ("GITHUB_RUN_ATTEMPT", "1"),
            ("GITHUB_JOB", "mend"),
            ("GITHUB_WORKFLOW", "loop"),
            ("GITHUB_WORKFLOW_REF", "acme/project/.github/workflows/loop.yml@refs/pull/7/merge"),
            ("GITHUB_SHA", sha.as_str()),
            ("GITHUB_REF", "refs/pull/7/merge"),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_API_URL", self.server.address()),
            ("ACTIONS_RESULTS_URL", self.server.address()),
            ("ACTIONS_RUNTIME_TOKEN", RUNTIME_TOKEN),
            ("LOOPEXEC_BINARY", env!("CARGO_BIN_EXE_loopexec")),
            ("INPUT_CONFIG", "loop.yml"),
            ("INPUT_LOOP", ""),
            ("INPUT_GITHUB-TOKEN", "ghs_0123456789abcdefghijABCDEFGHIJ012345"),
            ("INPUT_ALLOW-PULL-REQUEST-TARGET", "false"),
            ("INPUT_MATRIX", "null"),
        ]);
        step.env("GITHUB_WORKSPACE", self.bench.root())
            .env("RUNNER_TEMP", self.bench.beside("tmp"));
        step.envs(more.iter().map(|(name, value)| (name, value)));
        step
    }

    fn run_dir(&self) -> Option<PathBuf> {
        let mut runs = fs::read_dir(self.bench.path(".loopexec/runs")).ok()?.flatten();
        Some(runs.next()?.path())
    }

    fn phase(&self) -> Option<String> {
        let uploading = self.server.look(|kept| {
            kept.uploading > 0 && !kept.artifacts.values().any(|artifact| artifact.is_final)
        });
        if uploading {
            return Some("upload".to_owned());
        }
        let text = fs::read(self.run_dir()?.join("live.json")).ok()?;
        let now: serde_json::Value = serde_json::from_slice(&text).ok()?;
        Some(now["phase"].as_str()?.to_owned())
    }

    /// Starts the step and stops it in a phase; returns the one it was in, none when it was faster.
    fn stop_in(&self, wanted: &str, how: How, rng: &mut Rng) -> Option<(String, ExitStatus)> {
        let log = fs::File::create(self.file("log")).unwrap();
        let mut step = self.step("main.js", &[]);
        let mut child = step.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut nth = match wanted {
            "exec" | "check" | "baseline" | "confirmation" => rng.below(2),
            _ => 0,
        };
        let mut last = String::new();
        let began = Instant::now();
        loop {
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "{}", self.log());
            let now = self.phase().unwrap_or_default();
            if now == wanted && now != last {
                if nth == 0 {
                    break;
                }
                nth -= 1;
            }
            last = now;
            std::thread::sleep(Duration::from_micros(300));
        }
        let most = if wanted == "delivery" { 10_000 } else { 150_000 };
        std::thread::sleep(Duration::from_micros(rng.below(most) as u64));
        let phase = self.phase().unwrap_or_default();
        // Every other platform that cancels is a slow one, so that the harder signals come as well.
        self.server.answer_after(if rng.below(2) == 0 { SLOW_MS } else { QUICK_MS });
        let status = match how {
            How::Cancel => cancel(&mut child),
            How::Kill => {
                send(-i32::try_from(child.id()).unwrap(), Signal::SIGKILL);
                child.wait().unwrap()
            }
            How::Orphan => {
                child.kill().unwrap();
                child.wait().unwrap()
            }
        };
        self.server.answer_after(QUICK_MS);
        PHASES.contains(&phase.as_str()).then_some((phase, status))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// Runs the post step with the state that the step left.
    fn post(&self) -> String {
        let state = fs::read_to_string(self.file("main.js.state")).unwrap();
        let state: Vec<(String, String)> = state_of(&state)
            .into_iter()
            .map(|(name, value)| (format!("STATE_{name}"), value))
            .collect();
        let output = self.step("post.js", &state).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("could not all be completed"), "{said}\n{}", self.log());
        said
    }

    /// Everything a run starts has this bench's folder in its environment or its arguments.
    fn assert_nothing_lives(&self, when: &str) {
        self.assert_nothing_lives_after(Duration::from_secs(2), when);
    }

    fn assert_nothing_lives_after(&self, most: Duration, when: &str) {
        let mark = self.bench.beside("").to_string_lossy().trim_end_matches('/').to_owned();
        let start = Instant::now();
        loop {
            let alive = processes_with(&mark);
            if alive.is_empty() {
                return;
            }
            assert!(start.elapsed() < most, "{when}: {alive:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Holds what is left after the post step, and returns why the run halted.
    fn assert_final(&self, when: &str, post: &str) -> String {
        let all = format!("{when}\n--- step\n{}\n--- post\n{post}", self.log());
        let run_dir = self.run_dir().unwrap();
        let run = RunDir::open(&run_dir).unwrap();
        let folded = fold(&run, Compare::Strict, &mut |_| Ok(())).unwrap();
        let reason = folded.end.unwrap_or_else(|| panic!("no final event: {all}")).halt.reason;
        let verified = self.bench.run(&["verify", "--json", "--run-id", run.id()]);
        assert_eq!(verified.code, Some(0), "{verified:#?}\n{all}");

        let receipt = fs::read(run_dir.join("receipt.jsonl")).unwrap();
        self.server.look(|kept| {
            let done: Vec<_> = kept.artifacts.iter().filter(|(_, one)| one.is_final).collect();
            assert!(matches!(done.len(), 1 | 2), "{:?}\n{all}", kept.artifacts.keys());
            for (name, artifact) in &done {
                assert!(name.starts_with("loopexec-loop-mend-1"), "{name}");
                assert!(receipt_of(&artifact.zip) == receipt, "{name} is not final: {all}");
            }
            // A second one is only for a first that nobody was told of.
            assert!(done.len() == 1 || done[1].0 == &format!("{}-2", done[0].0), "{all}");
            let comments: Vec<&String> = kept.comments.values().collect();
            let [comment] = comments[..] else { panic!("{comments:?}\n{all}") };
            assert!(comment.lines().next().unwrap().contains("state=final"), "{comment}\n{all}");
            assert!(comment.contains(reason.as_str()), "{comment}\n{all}");
            assert_eq!(kept.unknown, Vec::<String>::new(), "{all}");
        });
        let summary: String = ["main.js.summary", "post.js.summary"]
            .iter()
            .filter_map(|name| fs::read_to_string(self.file(name)).ok())
            .collect();
        assert!(summary.contains(reason.as_str()), "{summary}\n{all}");
        reason.to_string()
    }
}

/// Cancels as a runner does, and returns how the launcher ended.
fn cancel(child: &mut Child) -> ExitStatus {
    let pid = i32::try_from(child.id()).unwrap();
    send(pid, Signal::SIGINT);
    if let Some(status) = wait(child, Duration::from_millis(7500)) {
        return status;
    }
    send(pid, Signal::SIGTERM);
    if let Some(status) = wait(child, Duration::from_millis(2500)) {
        return status;
    }
    send(pid, Signal::SIGKILL);
    child.wait().unwrap()
}

fn wait(child: &mut Child, most: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < most {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// Reads a state file as a runner does.
fn state_of(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (name, end) = line.split_once("<<").unwrap_or_else(|| panic!("{text}"));
        let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
        found.push((name.to_owned(), value.join("\n")));
    }
    found
}

fn receipt_of(zip: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
    let names: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    let name = names.iter().find(|name| name.ends_with("receipt.jsonl")).unwrap();
    let mut bytes = Vec::new();
    zip.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn processes_with(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid.parse::<u32>().is_err() || pid == std::process::id().to_string() {
            continue;
        }
        let read = |name: &str| {
            let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let (command, environment) = (read("cmdline"), read("environ"));
        if command.contains(mark) || environment.contains(mark) {
            found.push(format!("{pid}: {command}"));
        }
    }
    found
}

/// Stops so many steps, so many of them in each phase at least.
fn stop_often(how: How, total: u32, each: u32) {
    let mut rng = Rng::from_time();
    let site = Site::new();
    let mut counts = [0_u32; PHASES.len()];
    let (mut stopped, mut misses) = (0, 0);
    while stopped < total || counts.iter().any(|count| *count < each) {
        site.reset();
        let began = Instant::now();
        // The phase that was hit least so far, so that short ones are reached too.
        let least = (0..PHASES.len()).min_by_key(|index| counts[*index]).unwrap();
        let wanted = if counts[least] < each { least } else { rng.below(PHASES.len()) };
        let Some((phase, status)) = site.stop_in(PHASES[wanted], how, &mut rng) else {
            // What was stopped between two phases may have a little left to do.
            site.assert_nothing_lives_after(Duration::from_secs(20), "a miss");
            misses += 1;
            assert!(misses < total * 3, "{counts:?}, {misses} misses: {}", site.log());
            continue;
        };
        let took = began.elapsed();
        stopped += 1;
        counts[PHASES.iter().position(|name| *name == phase).unwrap()] += 1;
        let when = format!("{how:?} {stopped} in {phase}, ended with {status}");
        if how != How::Orphan {
            site.assert_nothing_lives(&when);
        }
        let post = site.post();
        site.assert_nothing_lives(&format!("{when}, after post"));
        let reason = site.assert_final(&when, &post);
        println!("{when}: {reason}; step {took:.1?}, with post {:.1?}", began.elapsed());
        if status.code() == Some(0) {
            assert_eq!(reason, "success_condition_met", "{when}");
        }
    }
    println!("{stopped} stopped: {:?}", PHASES.iter().zip(counts).collect::<Vec<_>>());
}

fn is_long() -> bool {
    std::env::var_os("LOOPEXEC_TEST_LONG").is_some_and(|value| value != "0")
}

#[test]
fn a_cancelled_step_leaves_nothing_alive_and_after_post_everything_is_final() {
    let (total, each) = if is_long() { (50, 5) } else { (10, 1) };
    stop_often(How::Cancel, total, each);
}

#[test]
fn a_launcher_that_is_killed_alone_takes_the_run_with_it() {
    let (total, each) = if is_long() { (16, 2) } else { (8, 1) };
    stop_often(How::Orphan, total, each);
}

#[test]
fn a_killed_step_leaves_nothing_alive_and_after_post_everything_is_final() {
    let (total, each) = if is_long() { (24, 3) } else { (8, 1) };
    stop_often(How::Kill, total, each);
}
