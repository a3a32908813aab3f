//! What the tests of this folder share: supervisors for each mode, jobs, and this program again as a
//! supervising process that can be killed.

use loopexec::domain::command::Exit;
use loopexec::process::{
    Capability, Job, Observer, Outcome, Placement, Silent, Stream, Supervisor, View,
};
use nix::sys::signal::Signal;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const TRAPS: &str = "trap \"\" TERM HUP INT;";

pub(crate) fn launcher() -> PathBuf {
    env!("CARGO_BIN_EXE_loopexec").into()
}

pub(crate) fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    Namespace,
}

impl Mode {
    pub(crate) fn view(self) -> View {
        match self {
            Self::Plain => View::Plain,
            Self::Namespace => View::Namespace { mounts: Vec::new(), remove: Vec::new() },
        }
    }
}

/// Every mode this machine has, each with a supervisor that has found it by its canary.
pub(crate) fn modes() -> Vec<(Mode, Supervisor)> {
    let mut plain = Supervisor::new(launcher(), Placement::Plain).unwrap();
    let scratch = place();
    assert!(matches!(plain.probe(scratch.path()).unwrap(), Capability::Plain { .. }));
    let mut modes = vec![(Mode::Plain, plain)];
    let mut detect = Supervisor::new(launcher(), Placement::Detect).unwrap();
    match detect.probe(scratch.path()).unwrap() {
        Capability::Namespaces { .. } => modes.push((Mode::Namespace, detect)),
        Capability::Plain { why } => assert!(!why.is_empty()),
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "the canary left something");
    modes
}

pub(crate) fn job(mode: Mode, script: &str) -> Job {
    Job {
        argv: ["sh", "-c", script].map(Into::into).to_vec(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        view: mode.view(),
        deadline: Some(Duration::from_secs(60)),
        idle: None,
        enclosure: None,
        idle_watch: Vec::new(),
        grace: Duration::from_millis(300),
        keep: 4096,
    }
}

pub(crate) fn run(supervisor: &mut Supervisor, job: &Job) -> Outcome {
    supervisor.run(job, &mut Silent).unwrap()
}

pub(crate) fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.kept()).into_owned()
}

/// A number of seconds that nobody else sleeps, to find a sleeper by.
pub(crate) fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("9{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
}

/// Every living process with the marker as an argument of its own.
pub(crate) fn alive(marker: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|argument| argument == marker.as_bytes())
    })
    .collect()
}

pub(crate) fn is_gone_within(marker: &str, limit: Duration) -> bool {
    let start = Instant::now();
    while !alive(marker).is_empty() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

pub(crate) fn wait_for(marker: &str, count: usize) {
    let start = Instant::now();
    while alive(marker).len() < count {
        assert!(start.elapsed() < Duration::from_secs(20), "{marker} did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the processes whose parent is this one.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of = stat.rsplit(')').next().and_then(|r| r.split_whitespace().nth(1));
        of.is_some_and(|of| of == parent.to_string())
    };
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

pub(crate) fn kill(pid: u32, signal: Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), signal).unwrap();
}

/// Starts this test program again as a supervising process.
pub(crate) fn helper(mode: &str, script: &str, change: impl FnOnce(Command) -> Command) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "bench::supervise", "--ignored", "--nocapture"]);
    let mut command = change(command);
    command.env("TEST_MODE", mode).env("TEST_SCRIPT", script);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn said_by(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

pub(crate) fn mode_names() -> Vec<&'static str> {
    let names = modes().into_iter().map(|(mode, _)| mode);
    names.map(|mode| if mode == Mode::Plain { "plain" } else { "namespace" }).collect()
}

/// Counts what it sees.
#[derive(Default)]
pub(crate) struct Counter(pub(crate) u64, pub(crate) u64);

impl Observer for Counter {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => self.0 += bytes.len() as u64,
            Stream::Stderr => self.1 += bytes.len() as u64,
        }
    }
}

#[test]
#[ignore = "only as a process of its own, started by the other tests"]
fn supervise() {
    let (Ok(mode), Ok(script)) = (std::env::var("TEST_MODE"), std::env::var("TEST_SCRIPT")) else {
        return;
    };
    let mode = if mode == "plain" { Mode::Plain } else { Mode::Namespace };
    let found = modes().into_iter().find(|(found, _)| *found == mode);
    let (_, mut supervisor) = found.expect("the mode works here");
    if let Some(times) = script.strip_prefix("repeat ") {
        let count = || fs::read_dir("/proc/self/fd").unwrap().count();
        run(&mut supervisor, &job(mode, ":"));
        let before = count();
        for _ in 0..times.parse().unwrap() {
            assert_eq!(run(&mut supervisor, &job(mode, ":")).exit, Exit::Code { code: 0 });
        }
        let children = children_of(std::process::id()).len();
        println!("grown {} children {children}", count() - before);
        return;
    }
    let mut counter = Counter::default();
    let mut given = job(mode, &script);
    given.grace = Duration::from_secs(30);
    if let Ok(seconds) = std::env::var("TEST_DEADLINE") {
        given.deadline = Some(Duration::from_secs(seconds.parse().unwrap()));
    }
    match supervisor.run(&given, &mut counter) {
        Err(error) => println!("error {:?} {error}", error.kind),
        Ok(outcome) => {
            println!("stdout {:?}\nexit {:?}", text(&outcome), outcome.exit);
            println!("{} {}", outcome.stdout.sha256, outcome.stderr.sha256);
        }
    }
    println!("children {}", children_of(std::process::id()).len());
    println!("seen {} {}", counter.0, counter.1);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    println!("peak {}", peak.trim().trim_end_matches(" kB"));
}
