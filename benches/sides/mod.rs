//! What the benches share: two sides that are timed in one run, a command that is watched, ratios that
//! are promised.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program that is measured.
pub const BIN: &str = env!("CARGO_BIN_EXE_loopexec");

/// What was promised and did not hold.
#[derive(Default)]
pub struct Bench {
    pub failed: Vec<String>,
}

impl Bench {
    /// Ends the program, as a failure when a promise did not hold.
    pub fn end(&self) {
        if self.failed.is_empty() {
            println!("all promised ratios hold");
        } else {
            println!("not held: {}", self.failed.join("; "));
            std::process::exit(1);
        }
    }

    pub fn ratio(&mut self, what: &str, ours: Duration, theirs: Duration, most: Option<f64>) {
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(1e-9);
        let bound = most.map_or(String::new(), |most| format!(" (at most {most})"));
        println!("{what}: {ratio:.3}{bound}   [{ours:.1?} against {theirs:.1?}]");
        if most.is_some_and(|most| ratio > most) {
            self.failed.push(format!("{what}: {ratio:.3}"));
        }
    }

    pub fn hold(&mut self, what: &str, holds: bool) {
        println!("{what}: {}", if holds { "holds" } else { "DOES NOT HOLD" });
        if !holds {
            self.failed.push(what.to_owned());
        }
    }
}

pub fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

pub fn quiet(command: &mut Command) -> Option<i32> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("the program is there").code()
}

pub fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["-c", "user.name=b", "-c", "user.email=b@localhost"]);
    // Housekeeping in the background would move files while they are measured.
    command.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    assert_eq!(quiet(command.args(args)), Some(0), "git {args:?}");
}

/// What a command took.
#[derive(Clone, Copy)]
pub struct Cost {
    pub wall: Duration,
    /// The most memory it held at once, in KiB.
    pub peak: u64,
    /// What its own process computed, without those it started; to a hundredth of a second.
    pub cpu: Duration,
}

/// Starts the program where commands are found by `path`.
pub fn start(dir: &Path, project: &Path, args: &[&str], path: &OsStr) -> Child {
    Command::new(BIN)
        .args(args)
        .current_dir(project)
        .env("LOOPEXEC_CACHE", dir.join("cache"))
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("loopexec starts")
}

pub fn watch(mut child: Child, exit: i32, look: &mut dyn FnMut()) -> Cost {
    let start = Instant::now();
    let (mut peak, mut cpu) = (0, Duration::ZERO);
    let code = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status.code();
        }
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        cpu = cpu.max(cpu_of(child.id()).unwrap_or_default());
        look();
        std::thread::sleep(Duration::from_millis(5));
    };
    let wall = start.elapsed();
    assert_eq!(code, Some(exit), "loopexec ends as it should");
    Cost { wall, peak, cpu }
}

pub fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

pub fn cpu_of(pid: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name, which may hold blanks: state and eleven more, then user and system time.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux tells programs a hundred ticks a second, whatever it counts itself.
    Some(Duration::from_millis(ticks * 10))
}

pub fn receipt(project: &Path) -> Option<PathBuf> {
    let mut runs = fs::read_dir(project.join(".loopexec/runs")).ok()?.flatten();
    Some(runs.next()?.path().join("receipt.jsonl"))
}
