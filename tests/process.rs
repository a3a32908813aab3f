//! The one place that runs a command, driven through the real launcher: always in the plain way, and
//! in a pid namespace where this machine gives one. Views with mounts are in `process_views.rs`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

use loopexec::domain::command::Exit;
use loopexec::error::Kind;
use loopexec::process::{
    Capability, Job, Observer, Outcome, Placement, Silent, Stream, Supervisor, View,
};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TRAPS: &str = "trap \"\" TERM HUP INT;";

fn launcher() -> PathBuf {
    env!("CARGO_BIN_EXE_loopexec").into()
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    Namespace,
}

impl Mode {
    fn view(self) -> View {
        match self {
            Self::Plain => View::Plain,
            Self::Namespace => View::Namespace { mounts: Vec::new(), remove: Vec::new() },
        }
    }
}

/// Every mode this machine has, each with a supervisor that has found it by its canary.
fn modes() -> Vec<(Mode, Supervisor)> {
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

fn job(mode: Mode, script: &str) -> Job {
    Job {
        argv: ["sh", "-c", script].map(Into::into).to_vec(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        view: mode.view(),
        deadline: Some(Duration::from_secs(60)),
        idle: None,
        idle_watch: Vec::new(),
        grace: Duration::from_millis(300),
        keep: 4096,
    }
}

fn run(supervisor: &mut Supervisor, job: &Job) -> Outcome {
    supervisor.run(job, &mut Silent).unwrap()
}

fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.kept()).into_owned()
}

/// A number of seconds that nobody else sleeps, to find a sleeper by.
fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("9{}{:03}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
}

/// Every living process with the marker as an argument of its own.
fn alive(marker: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|b| *b == 0).any(|argument| argument == marker.as_bytes())
    })
    .collect()
}

fn is_gone_within(marker: &str, limit: Duration) -> bool {
    let start = Instant::now();
    while !alive(marker).is_empty() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn wait_for(marker: &str, count: usize) {
    let start = Instant::now();
    while alive(marker).len() < count {
        assert!(start.elapsed() < Duration::from_secs(20), "{marker} did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the processes whose parent is this one.
fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let of = stat.rsplit(')').next().and_then(|r| r.split_whitespace().nth(1));
        of.is_some_and(|of| of == parent.to_string())
    };
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

fn kill(pid: u32, signal: Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), signal).unwrap();
}

/// Starts this test program again as a supervising process.
fn helper(mode: &str, script: &str, change: impl FnOnce(Command) -> Command) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "supervise", "--ignored", "--nocapture"]);
    let mut command = change(command);
    command.env("TEST_MODE", mode).env("TEST_SCRIPT", script);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn said_by(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn mode_names() -> Vec<&'static str> {
    let names = modes().into_iter().map(|(mode, _)| mode);
    names.map(|mode| if mode == Mode::Plain { "plain" } else { "namespace" }).collect()
}

/// Counts what it sees.
#[derive(Default)]
struct Counter(u64, u64);

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

#[test]
fn codes_signals_and_streams_come_back() {
    for (mode, mut supervisor) in modes() {
        let outcome = run(&mut supervisor, &job(mode, "echo out; echo err >&2; exit 3"));
        assert_eq!(outcome.exit, Exit::Code { code: 3 }, "{mode:?}");
        assert_eq!(outcome.stdout.kept(), b"out\n");
        assert_eq!(outcome.stderr.kept(), b"err\n");
        assert!(outcome.survivors.is_empty() && outcome.stdout.ended && outcome.stderr.ended);
        let outcome = run(&mut supervisor, &job(mode, "kill -SEGV $$"));
        assert_eq!(outcome.exit, Exit::Signal { signal: libc::SIGSEGV }, "{mode:?}");
    }
}

#[test]
fn it_sees_nothing_of_the_caller_but_what_it_was_given() {
    let script = "env; read x || echo eof; ls /proc/self/fd | wc -l; tty <&1
        stat=$(cat /proc/$$/stat); set -- ${stat##*)}; test $3 = $$ && test $4 = $$ && echo leader";
    for (mode, mut supervisor) in modes() {
        let mut given = job(mode, script);
        given.env.push(("GIVEN".into(), "a b".into()));
        let said = text(&run(&mut supervisor, &given));
        // 0, 1, 2 and the listing itself.
        for line in ["GIVEN=a b", "eof", "leader", "4", "not a tty"] {
            assert!(said.lines().any(|l| l == line), "{mode:?} {line} {said}");
        }
        let names: Vec<&str> = said.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
        let known = ["GIVEN", "PATH", "PWD", "OLDPWD", "SHLVL", "_"];
        assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    }
}

#[test]
fn a_file_that_the_caller_left_open_does_not_reach_the_command() {
    for mode in mode_names() {
        // The shell hands descriptor 7 down without close-on-exec, and signals ignored.
        let child = helper(mode, "ls /proc/self/fd | wc -l; grep SigIgn /proc/self/status", |c| {
            let mut sh = Command::new("sh");
            sh.args(["-c", "trap '' INT HUP USR1; exec 7</dev/null; exec \"$@\"", "sh"]);
            sh.arg(c.get_program()).args(c.get_args());
            sh
        });
        let said = said_by(child);
        assert!(said.contains("stdout \"4\\nSigIgn:"), "{mode} {said}");
        // The C library keeps 32 and 33 to itself.
        let ignored = said.split("SigIgn:\\t").nth(1).and_then(|rest| rest.get(..16)).unwrap();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        assert_eq!(ignored & 0x7fff_ffff, 0, "{mode} {said}");
    }
}

#[test]
fn a_daemonised_grandchild_is_named_dead_and_delays_nothing() {
    for (mode, mut supervisor) in modes() {
        let marker = marker();
        let script = format!(
            "setsid sh -c '{TRAPS} setsid sleep {marker} & sleep {marker} &' & sleep 0.3; echo done"
        );
        let outcome = run(&mut supervisor, &job(mode, &script));
        assert!(alive(&marker).is_empty(), "{mode:?}");
        assert_eq!(outcome.exit, Exit::Code { code: 0 });
        assert_eq!(text(&outcome), "done\n");
        assert!(outcome.wall < Duration::from_millis(1500), "{mode:?} {:?}", outcome.wall);
        assert!(outcome.stdout.ended);
        let named = outcome.survivors.iter().filter(|s| s.command == format!("sleep {marker}"));
        assert_eq!(named.count(), 2, "{mode:?} {:?}", outcome.survivors);
        assert!(outcome.survivors.iter().all(|s| s.pid > 1 && !s.name.is_empty()));
    }
}

#[test]
fn a_process_that_forks_away_again_and_again_is_caught() {
    let folder = place();
    let marker = marker();
    let file = folder.path().join("hop");
    fs::write(&file, "sh \"$0\" \"$1\" & exit").unwrap();
    for (mode, mut supervisor) in modes() {
        let hop = format!("setsid sh '{}' {marker} &", file.display());
        let outcome = run(&mut supervisor, &job(mode, &format!("{hop} {hop} {hop} sleep 0.1")));
        assert!(alive(&marker).is_empty(), "{mode:?}");
        assert_eq!(outcome.exit, Exit::Code { code: 0 }, "{mode:?}");
        assert!(
            !outcome.survivors.is_empty() && outcome.wall < Duration::from_secs(5),
            "{outcome:?}"
        );
    }
}

#[test]
fn the_last_member_of_a_pipeline_is_no_survivor() {
    for (mode, mut supervisor) in modes() {
        let outcome = run(&mut supervisor, &job(mode, "sleep 0.005 & exit 0"));
        let ended = (outcome.exit, outcome.survivors);
        assert_eq!(ended, (Exit::Code { code: 0 }, Vec::new()), "{mode:?}");
    }
}

#[test]
fn a_deadline_ends_the_deaf_and_the_stopped() {
    for (mode, mut supervisor) in modes() {
        let marker = marker();
        for script in [
            format!("{TRAPS} sleep {marker} & sleep {marker}; sleep {marker}"),
            format!("sleep {marker} & kill -STOP $$; sleep {marker}"),
            format!("exec sleep {marker}"),
        ] {
            let mut given = job(mode, &script);
            given.deadline = Some(Duration::from_millis(400));
            let outcome = run(&mut supervisor, &given);
            assert_eq!(outcome.exit, Exit::TimedOut, "{mode:?} {script}");
            assert!(alive(&marker).is_empty(), "{mode:?} {script}");
            assert!(outcome.wall < Duration::from_millis(1900), "{mode:?} {:?}", outcome.wall);
        }
    }
}

#[test]
fn a_command_that_ends_when_asked_may_say_goodbye() {
    for (mode, mut supervisor) in modes() {
        let script = "trap 'echo bye; exit 0' TERM; while :; do read x < /dev/zero & wait; done";
        let mut given = job(mode, script);
        given.deadline = Some(Duration::from_millis(300));
        given.grace = Duration::from_secs(20);
        let outcome = run(&mut supervisor, &given);
        assert_eq!(
            (&outcome.exit, text(&outcome).as_str()),
            (&Exit::TimedOut, "bye\n"),
            "{mode:?}"
        );
        assert!(outcome.wall < Duration::from_secs(5));
    }
}

#[test]
fn idle_is_silence_without_work_or_changes() {
    for (mode, mut supervisor) in modes() {
        let folder = place();
        let within = |script: &str| {
            let mut given = job(mode, script);
            given.cwd = folder.path().into();
            given.idle = Some(Duration::from_millis(800));
            given.idle_watch = vec![folder.path().into()];
            given
        };
        let outcome = run(&mut supervisor, &within("echo begin; exec sleep 60"));
        assert_eq!(outcome.exit, Exit::Idle, "{mode:?}");
        assert!(outcome.wall < Duration::from_secs(5), "{:?}", outcome.wall);
        for busy in [
            "for i in 1 2 3 4 5; do echo $i; sleep 0.4; done",
            "for i in 1 2 3 4 5; do : > f$i; sleep 0.4; done",
            "end=$(($(date +%s) + 3)); while test $(date +%s) -lt $end; do :; done",
        ] {
            let outcome = run(&mut supervisor, &within(busy));
            assert_eq!(outcome.exit, Exit::Code { code: 0 }, "{mode:?} {busy}");
        }
    }
}

#[test]
fn any_output_is_hashed_whole_in_little_memory() {
    const SIZE: u64 = 500_000_000;
    let script =
        format!("head -c {SIZE} /dev/zero & head -c {SIZE} /dev/zero | tr '\\0' '\\377' >&2; wait");
    let said = said_by(helper("plain", &script, |c| c));
    for byte in [0u8, 0xff] {
        let mut hash = <sha2::Sha256 as sha2::Digest>::new();
        let block = vec![byte; 1_000_000];
        (0..SIZE / 1_000_000).for_each(|_| sha2::Digest::update(&mut hash, &block));
        let digest = loopexec::domain::hex::encode(&sha2::Digest::finalize(hash));
        assert!(said.contains(&digest), "{said}");
    }
    assert!(said.contains(&format!("seen {SIZE} {SIZE}")), "{said}");
    let peak: u64 = said.lines().find_map(|l| l.strip_prefix("peak ")).unwrap().parse().unwrap();
    assert!(peak < 48 * 1024, "{peak} kB");
}

#[test]
fn what_cannot_start_is_told_apart_from_what_fails() {
    let folder = place();
    fs::write(folder.path().join("plain"), "no program").unwrap();
    for (mode, mut supervisor) in modes() {
        let file = folder.path().join("plain").into_os_string();
        for argv in [vec!["loopexec-no-such-program".into()], vec![file], vec!["/".into()], vec![]]
        {
            let mut given = job(mode, "");
            given.argv = argv;
            let exit = run(&mut supervisor, &given).exit;
            assert!(
                matches!(&exit, Exit::NotStarted { why } if !why.is_empty()),
                "{mode:?} {exit:?}"
            );
        }
        let mut given = job(mode, ":");
        given.cwd = folder.path().join("gone");
        let exit = run(&mut supervisor, &given).exit;
        assert!(matches!(&exit, Exit::NotStarted { why } if why.contains("gone")), "{mode:?}");
        let outcome = run(&mut supervisor, &job(mode, "loopexec-no-such-program"));
        assert_eq!(outcome.exit, Exit::Code { code: 127 });
    }
    for wrong in ["/nonexistent/launcher", "/bin/true", "/bin/false"] {
        let mut broken = Supervisor::new(wrong.into(), Placement::Detect).unwrap();
        let error = broken.run(&job(Mode::Plain, ":"), &mut Silent).unwrap_err();
        assert_eq!(error.kind, Kind::IsolationUnsatisfiable, "{wrong}");
    }
}

#[test]
fn three_hundred_runs_leave_no_file_and_no_zombie() {
    // In a process of its own: here other tests open files at the same time.
    for mode in mode_names() {
        let said = said_by(helper(mode, "repeat 300", |c| c));
        assert!(said.contains("grown 0 children 0"), "{mode} {said}");
    }
}

#[test]
fn a_cancelled_command_is_dead_in_under_two_seconds() {
    for (mode, mut supervisor) in modes() {
        let marker = marker();
        let cancel = supervisor.cancel();
        let raiser = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            cancel.raise(libc::SIGTERM);
        });
        let start = Instant::now();
        let script = format!("{TRAPS} sleep {marker} & sleep {marker}; sleep {marker}");
        let mut given = job(mode, &script);
        given.grace = Duration::from_secs(30);
        let outcome = run(&mut supervisor, &given);
        assert_eq!(outcome.exit, Exit::Interrupted, "{mode:?}");
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert!(alive(&marker).is_empty());
        assert_eq!(supervisor.interrupted(), Some(libc::SIGTERM));
        assert_eq!(run(&mut supervisor, &job(mode, ":")).exit, Exit::Interrupted);
        raiser.join().unwrap();
    }
}

#[test]
fn nothing_lives_a_second_after_loopexec_was_killed() {
    for mode in mode_names() {
        let marker = marker();
        let script = format!(
            "{TRAPS} setsid sh -c '{TRAPS} sleep {marker} & sleep {marker}; :' & sleep {marker}; :"
        );
        let mut child = helper(mode, &script, |c| c);
        wait_for(&marker, 3);
        child.kill().unwrap();
        let dead = is_gone_within(&marker, Duration::from_secs(1));
        child.wait().unwrap();
        assert!(dead, "{mode} {:?}", alive(&marker));
    }
}

#[test]
fn a_killed_launcher_takes_everything_with_it_and_is_no_red_check() {
    for mode in mode_names() {
        let marker = marker();
        let script = format!(
            "setsid sh -c '{TRAPS} sleep {marker} & sleep {marker}; :' & sleep {marker}; :"
        );
        let child = helper(mode, &script, |c| c);
        wait_for(&marker, 3);
        let launchers = children_of(child.id());
        assert_eq!(launchers.len(), 1);
        kill(launchers[0], Signal::SIGKILL);
        assert!(is_gone_within(&marker, Duration::from_secs(1)), "{mode}");
        let said = said_by(child);
        assert!(said.contains("error IsolationUnsatisfiable"), "{mode} {said}");
        assert!(said.contains("children 0"), "{mode} {said}");
    }
}

#[test]
fn a_command_that_kills_its_keeper_gains_nothing() {
    for mode in mode_names() {
        let marker = marker();
        let script = format!("setsid sleep {marker} & sleep 0.2; kill -9 $PPID; sleep 2; echo out");
        let said = said_by(helper(mode, &script, |c| c));
        assert!(alive(&marker).is_empty(), "{mode}");
        // Process 1 of a namespace cannot be killed from inside.
        let expected =
            if mode == "plain" { "error IsolationUnsatisfiable" } else { "exit Code { code: 0 }" };
        assert!(said.contains(expected) && said.contains("children 0"), "{mode} {said}");

        let script = format!("setsid sleep {marker} & kill -STOP $PPID; exec sleep {marker}");
        let child = helper(mode, &script, |c| c);
        wait_for(&marker, 2);
        let start = Instant::now();
        kill(child.id(), Signal::SIGTERM);
        let said = said_by(child);
        assert!(start.elapsed() < Duration::from_secs(2), "{mode} {:?}", start.elapsed());
        assert!(said.contains("exit Interrupted") && said.contains("children 0"), "{mode} {said}");
        assert!(alive(&marker).is_empty(), "{mode}");
    }
}

#[test]
fn one_signal_asks_and_a_second_one_does_not_wait() {
    let signals = [(Signal::SIGINT, false), (Signal::SIGHUP, false), (Signal::SIGTERM, true)];
    for mode in mode_names() {
        for (signal, twice) in signals {
            let marker = marker();
            let script = format!("{TRAPS} sleep {marker} & sleep {marker}; sleep {marker}");
            let mut child = helper(mode, &script, |c| c);
            let mut lines = BufReader::new(child.stdout.take().unwrap());
            wait_for(&marker, 2);
            let start = Instant::now();
            kill(child.id(), signal);
            if twice {
                std::thread::sleep(Duration::from_millis(50));
                kill(child.id(), signal);
            }
            let mut said = String::new();
            while !said.contains("exit ") && lines.read_line(&mut said).unwrap() > 0 {}
            let took = start.elapsed();
            lines.read_to_string(&mut said).unwrap();
            child.wait().unwrap();
            assert!(said.contains("exit Interrupted"), "{mode} {said}");
            assert!(alive(&marker).is_empty());
            // Between the two lies the grace that a second signal cuts short.
            let limit = if twice { 650 } else { 1900 };
            assert!(took < Duration::from_millis(limit), "{mode} {took:?}");
        }
    }
}
