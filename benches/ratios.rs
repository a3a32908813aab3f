//! Ratios measured side by side in one run; fails when one that is promised does not hold.
//!
//! `cargo bench` takes the short form (20,000 files, 1 and 50 iterations); with
//! `LOOPEXEC_TEST_LONG=1` it is 100,000 files and 1, 100 and 5,000 iterations. Times are medians of
//! several rounds, each round running both sides, so that a busy machine hits both.

use loopexec::workspace::caller::Caller;
use loopexec::workspace::copies::{self, How};
use loopexec::workspace::layer;
use loopexec::workspace::places::Surroundings;
use loopexec::workspace::scan::read_scan;
use loopexec::workspace::snapshot::Snapshotter;
use loopexec::workspace::store::Store;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BIN: &str = env!("CARGO_BIN_EXE_loopexec");

fn main() {
    // `cargo test --benches` asks for a list; there is nothing to list.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let long = std::env::var_os("LOOPEXEC_TEST_LONG").is_some();
    let mut bench = Bench { failed: Vec::new() };
    let dir = tempfile::tempdir().expect("a temporary folder");
    start_up(&mut bench, dir.path());
    iterations(&mut bench, dir.path(), if long { &[1, 100, 5000] } else { &[1, 50] });
    files(&mut bench, dir.path(), if long { 100_000 } else { 20_000 });
    if bench.failed.is_empty() {
        println!("all promised ratios hold");
    } else {
        println!("not held: {}", bench.failed.join("; "));
        std::process::exit(1);
    }
}

struct Bench {
    failed: Vec<String>,
}

impl Bench {
    fn ratio(&mut self, what: &str, ours: Duration, theirs: Duration, most: Option<f64>) {
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64().max(1e-9);
        let bound = most.map_or(String::new(), |most| format!(" (at most {most})"));
        println!("{what}: {ratio:.3}{bound}   [{ours:.1?} against {theirs:.1?}]");
        if most.is_some_and(|most| ratio > most) {
            self.failed.push(format!("{what}: {ratio:.3}"));
        }
    }

    fn hold(&mut self, what: &str, holds: bool) {
        println!("{what}: {}", if holds { "holds" } else { "DOES NOT HOLD" });
        if !holds {
            self.failed.push(what.to_owned());
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn quiet(command: &mut Command) -> Option<i32> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("the program is there").code()
}

fn git(dir: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(dir).args(["-c", "user.name=b", "-c", "user.email=b@localhost"]);
    assert_eq!(quiet(command.args(args)), Some(0), "git {args:?}");
}

fn project(dir: &Path, iterations: u32) -> PathBuf {
    let project = dir.join(format!("loop-{iterations}"));
    fs::create_dir(&project).expect("a folder");
    let text = format!(
        "version: 1\nmodel: none\nexec: \"true\"\ncheck: \"false\"\nlimits: {{iterations: {iterations}, no_progress: 1000000, time: 10h}}\n"
    );
    fs::write(project.join("loop.yml"), text).expect("a loop file");
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-qm", "start"]);
    project
}

/// One run: wall time, peak memory in KiB, bytes of the receipt.
fn run(dir: &Path, iterations: u32) -> (Duration, u64, u64) {
    let project = project(dir, iterations);
    let cache = dir.join("cache");
    let start = Instant::now();
    let mut child = Command::new(BIN)
        .args(["run", "-q"])
        .current_dir(&project)
        .env("LOOPEXEC_CACHE", &cache)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("loopexec starts");
    let mut peak = 0;
    let code = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status.code();
        }
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    };
    let wall = start.elapsed();
    assert_eq!(code, Some(12), "the cap ends the loop");
    let runs = fs::read_dir(project.join(".loopexec/runs")).expect("a run");
    let receipt = runs.flatten().next().expect("a run").path().join("receipt.jsonl");
    let bytes = fs::metadata(receipt).expect("a receipt").len();
    fs::remove_dir_all(project).expect("removable");
    (wall, peak, bytes)
}

fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn start_up(bench: &mut Bench, dir: &Path) {
    let project = project(dir, 1);
    let cache = dir.join("cache");
    let loopexec = |args: &[&str]| {
        let mut command = Command::new(BIN);
        command.args(args).current_dir(&project).env("LOOPEXEC_CACHE", &cache);
        quiet(&mut command)
    };
    assert_eq!(loopexec(&["run", "-q"]), Some(12));
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        ours.push(time(|| assert_eq!(loopexec(&["status", "--json"]), Some(0))));
        theirs.push(time(|| git(&project, &["status"])));
    }
    bench.ratio(
        "start-up of `status --json` against `git status`",
        median(ours),
        median(theirs),
        None,
    );
    fs::remove_dir_all(project).expect("removable");
}

fn iterations(bench: &mut Bench, dir: &Path, counts: &[u32]) {
    let mut bare = Vec::new();
    for _ in 0..50 {
        bare.push(time(|| {
            quiet(Command::new("sh").args(["-c", "true"]));
            quiet(Command::new("sh").args(["-c", "false"]));
        }));
    }
    let bare = median(bare);
    let runs: Vec<_> = counts.iter().map(|count| (*count, run(dir, *count))).collect();
    for (count, (wall, peak, bytes)) in &runs {
        println!("{count} iterations: {wall:.1?}, peak {peak} KiB, receipt {bytes} bytes");
    }
    let (first, last) = (&runs[0], &runs[runs.len() - 1]);
    let more = last.0 - first.0;
    let marginal = (last.1.0.saturating_sub(first.1.0)) / more;
    bench.ratio(
        "marginal cost of an iteration against `sh -c true; sh -c false`",
        marginal,
        bare,
        None,
    );
    println!("bytes of receipt an iteration: {}", (last.1.2 - first.1.2) / u64::from(more));
    if let [_, (hundred, (wall, peak, _)), (_, (all, top, _))] = runs.as_slice() {
        let each = |wall: &Duration, count: u32| wall.as_secs_f64() / f64::from(count);
        bench.hold(
            "time is linear (an iteration of 5,000 costs at most twice one of 100)",
            each(all, 5000) <= 2.0 * each(wall, *hundred),
        );
        bench.hold(
            "memory is flat (5,000 iterations within 16 MiB of 100)",
            *top <= peak + 16 * 1024,
        );
    }
}

fn files(bench: &mut Bench, dir: &Path, count: u32) {
    let tree = dir.join("files");
    for folder in 0..count / 100 {
        let folder_path = tree.join(format!("d{}/e{}", folder / 32, folder % 32));
        fs::create_dir_all(&folder_path).expect("a folder");
        for file in 0..100 {
            let text = format!("file {folder} {file}\n").repeat(8);
            fs::write(folder_path.join(format!("f{file}.txt")), text).expect("a file");
        }
    }
    git(&tree, &["init", "-q"]);
    // What is younger than the walk is read again on both sides.
    std::thread::sleep(Duration::from_secs(2));
    let never = || false;
    let caller =
        Caller::discover(&tree, &Surroundings::read(|name| std::env::var_os(name)), &never)
            .expect("a tree");
    let scan = read_scan(&caller, &never).expect("a listing");
    let store = Store::create(&dir.join("store.git")).expect("a store");
    let mut snapshotter = Snapshotter::new(scan.ignored);
    let first = time(|| {
        snapshotter.take(&tree, &store, &never).expect("a snapshot");
    });
    let added = time(|| git(&tree, &["add", "-A"]));
    bench.ratio(
        &format!("first snapshot of {count} files against `git add -A`"),
        first,
        added,
        Some(1.5),
    );
    git(&tree, &["commit", "-qm", "start"]);
    let frozen_tree = snapshotter.take(&tree, &store, &never).expect("a snapshot").tree;

    let (mut warm, mut status) = (Vec::new(), Vec::new());
    for round in 0..7 {
        for file in 0..10 {
            let path = tree.join(format!("d0/e{file}/f{round}.txt"));
            fs::write(path, format!("changed in round {round}\n")).expect("a file");
        }
        std::thread::sleep(Duration::from_millis(50));
        warm.push(time(|| {
            snapshotter.take(&tree, &store, &never).expect("a snapshot");
        }));
        status.push(time(|| git(&tree, &["status", "--porcelain"])));
    }
    bench.ratio(
        &format!("warm snapshot of {count} files, 10 changed, against `git status`"),
        median(warm),
        median(status),
        Some(3.0),
    );
    let now = snapshotter.take(&tree, &store, &never).expect("a snapshot").tree;

    let home = dir.join("home");
    fs::create_dir(&home).expect("a folder");
    let frozen =
        layer::freeze(&tree, &home, &dir.join("layer"), &|_, _| false, &never).expect("a layer");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..3 {
        let dest = dir.join(format!("copy-{round}"));
        ours.push(time(|| {
            copies::prepare(
                store.repository(),
                &frozen,
                &frozen_tree,
                &now,
                &dest,
                How::Overlay,
                &never,
            )
            .expect("a copy");
            copies::remove(&dest).expect("removable");
        }));
        let dest = dir.join(format!("cp-{round}"));
        theirs.push(time(|| {
            quiet(Command::new("cp").arg("-a").arg(&tree).arg(&dest));
        }));
        fs::remove_dir_all(dest).expect("removable");
    }
    bench.ratio(
        &format!("one copy of {count} files, 10 changed, against `cp -a`"),
        median(ours),
        median(theirs),
        Some(0.1),
    );
}
