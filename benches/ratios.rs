//! Ratios measured side by side in one run; fails when one that is promised does not hold.
//!
//! `cargo bench` takes the short form (20,000 files; 1, 50 and 150 iterations); with
//! `LOOPEXEC_TEST_LONG=1` it is 100,000 files and 1, 100 and 5,000 iterations. Both sides run in
//! every round, each first in turn, on the same files and the same disk, so that a busy machine hits
//! both; what is not bounded is told all the same.

#[path = "../tests/support/fake_github.rs"]
#[expect(dead_code, reason = "tests look at what it keeps")]
mod fake_github;
mod sides;

use fake_github::{FakeGitHub, RUNTIME_TOKEN};
use loopexec::workspace::caller::Caller;
use loopexec::workspace::carry::Carry;
use loopexec::workspace::copies::{self, How};
use loopexec::workspace::history::History;
use loopexec::workspace::layer;
use loopexec::workspace::make::{self, OnDirty, WorkspaceOptions};
use loopexec::workspace::places::Surroundings;
use loopexec::workspace::snapshot::Snapshotter;
use loopexec::workspace::store::Store;
use sides::{BIN, Bench, Cost, git, quiet, receipt, time, watch};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn main() {
    // `cargo test --benches` asks for a list; there is nothing to list.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let long = std::env::var_os("LOOPEXEC_TEST_LONG").is_some();
    let mut bench = Bench::default();
    let dir = tempfile::tempdir().expect("a temporary folder");
    start_up(&mut bench, dir.path());
    launcher(&mut bench, dir.path());
    surfaces(&mut bench, dir.path());
    let (counts, rounds) = if long { ([1, 100, 5000], 1) } else { ([1, 50, 150], 2) };
    iterations(&mut bench, dir.path(), counts, rounds);
    files(&mut bench, dir.path(), if long { 100_000 } else { 20_000 });
    bench.end();
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn start(dir: &Path, project: &Path, args: &[&str]) -> Child {
    sides::start(dir, project, args, &std::env::var_os("PATH").unwrap_or_default())
}

fn project(dir: &Path, iterations: u32) -> PathBuf {
    let project = dir.join(format!("loop-{iterations}"));
    fs::create_dir(&project).expect("a folder");
    let text = format!(
        "version: 1\nmodel: none\nisolation: {{backend: none}}\nexec: \"true\"\ncheck: \"false\"\nlimits: {{iterations: {iterations}, no_progress: 1000000, time: 10h}}\n"
    );
    fs::write(project.join("loop.yml"), text).expect("a loop file");
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-qm", "start"]);
    project
}

/// One run of so many iterations and the check of its receipt, and the bytes of that.
fn run(dir: &Path, iterations: u32) -> (Cost, Cost, u64) {
    let project = project(dir, iterations);
    let run = watch(start(dir, &project, &["run", "-q"]), 12, &mut || ());
    let (verify, bytes) = verify(dir, &project);
    fs::remove_dir_all(project).expect("removable");
    (run, verify, bytes)
}

fn verify(dir: &Path, project: &Path) -> (Cost, u64) {
    let verify = watch(start(dir, project, &["verify", "-q"]), 0, &mut || ());
    let receipt = receipt(project).expect("a receipt");
    (verify, fs::metadata(receipt).expect("a receipt").len())
}

/// Follows a receipt that grows: when each iteration ended, in milliseconds of its run.
#[derive(Default)]
struct Ends {
    file: Option<fs::File>,
    partial: Vec<u8>,
    at: Vec<u64>,
}

impl Ends {
    fn read(&mut self, project: &Path) {
        if self.file.is_none() {
            self.file = receipt(project).and_then(|path| fs::File::open(path).ok());
        }
        let Some(file) = &mut self.file else { return };
        file.read_to_end(&mut self.partial).expect("readable");
        let whole = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in self.partial.drain(..whole).collect::<Vec<_>>().split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let event: serde_json::Value = serde_json::from_slice(line).expect("an event");
            self.at.extend(event["durations"]["elapsed_ms"].as_u64());
        }
    }

    fn median_step(&self, from: usize, to: usize) -> Duration {
        let steps = self.at[from..to].windows(2).map(|two| Duration::from_millis(two[1] - two[0]));
        let steps: Vec<_> = steps.collect();
        assert!(steps.len() >= 15, "enough iterations stood side by side");
        median(steps)
    }
}

/// A long run that gets a new one beside it near its end: the same machine, disk and noise for both.
fn late_against_new(dir: &Path, count: u32) -> (Cost, Cost, u64, [Duration; 2]) {
    let short = (count / 5).min(100);
    let (long, new) = (project(dir, count), project(dir, short));
    let (mut late, mut early) = (Ends::default(), Ends::default());
    let mut beside: Option<Child> = None;
    let (mut from, mut to) = (0, None);
    let cost = watch(start(dir, &long, &["run", "-q"]), 12, &mut || {
        late.read(&long);
        match &mut beside {
            None if late.at.len() >= (count - 3 * short) as usize => {
                from = late.at.len();
                beside = Some(start(dir, &new, &["run", "-q"]));
            }
            None => {}
            Some(child) => {
                let ended = child.try_wait().expect("a child").is_some();
                to = to.or(ended.then_some(late.at.len()));
            }
        }
    });
    late.read(&long);
    let mut beside = beside.expect("the new run was started");
    assert_eq!(beside.wait().expect("a child").code(), Some(12));
    early.read(&new);
    let (verify, bytes) = verify(dir, &long);
    let steps =
        [late.median_step(from, to.unwrap_or(late.at.len())), early.median_step(0, early.at.len())];
    fs::remove_dir_all(long).expect("removable");
    fs::remove_dir_all(new).expect("removable");
    (cost, verify, bytes, steps)
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

/// The action's launcher with a binary that ends at once, against a bare start of Node.
fn launcher(bench: &mut Bench, dir: &Path) {
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("NOT MEASURED: there is no node, so nothing is known about the action's launcher");
        return;
    }
    let node = |args: &[&str]| {
        let mut command = Command::new("node");
        command.args(args).current_dir(dir).env("LOOPEXEC_BINARY", "/bin/true");
        command.env("GITHUB_STATE", dir.join("state"));
        assert_eq!(quiet(&mut command), Some(0), "node {args:?}");
    };
    let main = concat!(env!("CARGO_MANIFEST_DIR"), "/dist/main.js");
    let [ours, theirs] = both(20, |_| node(&[main]), |_| node(&["-e", "0"]));
    bench.ratio("the action's launcher to the binary against `node -e 0`", ours, theirs, Some(3.0));
    fs::remove_file(dir.join("state")).expect("the launcher saved the binary's path");
}

/// Every surface of GitHub for a run with 200 failing tests against one with 10, with a server here.
fn surfaces(bench: &mut Bench, dir: &Path) {
    let server = FakeGitHub::start();
    server.answer_after(0);
    let [many, few] = [200, 10].map(|count| failing(&dir.join(format!("surfaces-{count}")), count));
    let tell = |project: &Path| {
        let run = fs::read_dir(project.join(".loopexec/runs")).expect("runs").next();
        let run = run.expect("a run").expect("readable").path();
        let _ = fs::remove_file(run.join("published.json"));
        let mut command = Command::new(BIN);
        command.args(["ci", "--action", "--finish"]).arg(&run).current_dir(project);
        for (name, value) in [
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_EVENT_NAME", "push"),
            ("GITHUB_REPOSITORY", "acme/project"),
            ("GITHUB_SHA", "0123456789012345678901234567890123456789"),
            ("GITHUB_JOB", "bench"),
            ("GITHUB_RUN_ID", "1"),
            ("GITHUB_API_URL", server.address()),
            ("ACTIONS_RESULTS_URL", server.address()),
            ("ACTIONS_RUNTIME_TOKEN", RUNTIME_TOKEN),
            ("INPUT_GITHUB-TOKEN", "ghs_bench"),
            ("INPUT_PR-NUMBER", "7"),
            ("INPUT_CHECK-RUN", "true"),
        ] {
            command.env(name, value);
        }
        for name in ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
            command.env(name, project.join(name));
            let _ = fs::remove_file(project.join(name));
        }
        assert_eq!(quiet(&mut command), Some(0), "everything is told");
        server.clear();
    };
    let [ours, theirs] = both(10, |_| tell(&many), |_| tell(&few));
    bench.ratio("all surfaces for 200 failing tests against 10", ours, theirs, Some(3.0));
    for project in [many, few] {
        fs::remove_dir_all(project).expect("removable");
    }
}

/// Makes a project whose loop halted with so many failing tests.
fn failing(project: &Path, count: usize) -> PathBuf {
    fs::create_dir_all(project).expect("a folder");
    let tests: String = (1..=count).map(|n| format!("not ok {n} - test {n}\n")).collect();
    fs::write(project.join("tests.tap"), format!("1..{count}\n{tests}")).expect("written");
    let text = "version: 1\nmodel: none\nisolation: {backend: none}\nexec: 'true'\ncheck: cat tests.tap && false\nlimits: {iterations: 1}\n";
    fs::write(project.join("loop.yml"), text).expect("written");
    let mut command = Command::new(BIN);
    command.arg("run").current_dir(project);
    assert_ne!(quiet(&mut command), Some(10), "it halts");
    project.to_owned()
}

/// Times and memory at three lengths; of several rounds the least counts, as noise only adds.
fn iterations(bench: &mut Bench, dir: &Path, counts: [u32; 3], rounds: usize) {
    let mut bare = Vec::new();
    let (mut late_steps, mut new_steps) = (Vec::new(), Vec::new());
    let mut best: [Option<(Cost, Cost, u64)>; 3] = [None; 3];
    for _ in 0..rounds {
        for (place, count) in counts.into_iter().enumerate() {
            for _ in 0..20 {
                bare.push(time(|| {
                    quiet(Command::new("sh").args(["-c", "true"]));
                    quiet(Command::new("sh").args(["-c", "false"]));
                }));
            }
            let (ran, checked, bytes) = if place < 2 {
                run(dir, count)
            } else {
                let (ran, checked, bytes, [late, new]) = late_against_new(dir, count);
                late_steps.push(late);
                new_steps.push(new);
                (ran, checked, bytes)
            };
            let least = |a: Cost, b: Cost| Cost {
                wall: a.wall.min(b.wall),
                peak: a.peak.max(b.peak),
                cpu: a.cpu.min(b.cpu),
            };
            best[place] = Some(match best[place] {
                Some((r, v, _)) => (least(r, ran), least(v, checked), bytes),
                None => (ran, checked, bytes),
            });
        }
    }
    let best = best.map(|cost| cost.expect("a round was run"));
    for (count, (run, verify, bytes)) in counts.iter().zip(&best) {
        println!(
            "{count} iterations: {:.2?}, peak {} KiB, receipt {bytes} bytes; verify: {:.2?}, peak {} KiB",
            run.wall, run.peak, verify.wall, verify.peak
        );
    }
    let [first, middle, last] = best;
    let marginal = |from: usize, to: usize| {
        best[to].0.wall.saturating_sub(best[from].0.wall) / (counts[to] - counts[from])
    };
    println!("bytes of receipt an iteration: {}", (last.2 - first.2) / u64::from(counts[2] - 1));
    bench.ratio(
        "marginal cost of an iteration against `sh -c true; sh -c false`",
        marginal(0, 2),
        *bare.iter().min().expect("a round was run"),
        None,
    );
    bench.ratio(
        &format!("an iteration after {} against one before, at different times", counts[1]),
        marginal(1, 2),
        marginal(0, 1),
        None,
    );
    bench.ratio(
        &format!("an iteration near the end of {} against one of a new run beside it", counts[2]),
        median(late_steps),
        median(new_steps),
        Some(2.0),
    );
    let each = |cost: Cost, count: u32| cost.wall / count;
    bench.ratio(
        &format!("verify of an iteration of {} against one of {}", counts[2], counts[1]),
        each(last.1, counts[2]),
        each(middle.1, counts[1]),
        Some(2.0),
    );
    let flat = |longer: Cost, shorter: Cost| longer.peak <= shorter.peak + 16 * 1024;
    bench.hold("memory of a run is flat (within 16 MiB)", flat(last.0, middle.0));
    bench.hold("memory of verify is flat (within 16 MiB)", flat(last.1, middle.1));
}

/// Runs both sides so often, each first in turn, and returns the medians.
fn both(
    rounds: usize,
    mut ours: impl FnMut(usize),
    mut theirs: impl FnMut(usize),
) -> [Duration; 2] {
    let (mut our_times, mut their_times) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            our_times.push(time(|| ours(round)));
        }
        their_times.push(time(|| theirs(round)));
        if round % 2 == 1 {
            our_times.push(time(|| ours(round)));
        }
    }
    [median(our_times), median(their_times)]
}

fn files(bench: &mut Bench, dir: &Path, count: u32) {
    let never = || false;
    let origin = dir.join("files");
    for folder in 0..count / 100 {
        let folder_path = origin.join(format!("d{}/e{}", folder / 32, folder % 32));
        fs::create_dir_all(&folder_path).expect("a folder");
        for file in 0..100 {
            let text = format!("file {folder} {file}\n").repeat(8);
            fs::write(folder_path.join(format!("f{file}.txt")), text).expect("a file");
        }
    }
    git(&origin, &["init", "-q"]);
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "-qm", "start"]);

    // The workspace as a run makes it: its store holds the objects of the caller's HEAD.
    let caller =
        Caller::discover(&origin, &Surroundings::read(|name| std::env::var_os(name)), &never)
            .expect("a tree");
    let options = WorkspaceOptions {
        carry: Carry::Auto,
        carry_max: u64::MAX,
        history: History::Depth(1),
        on_dirty: OnDirty::Include,
    };
    let (tree, filled) = (dir.join("workspace"), dir.join("filled.git"));
    let mut made = None;
    let copied = dir.join("copied");
    let store = Store::create(&filled).expect("a store");
    let [ours, theirs] = both(
        1,
        |_| made = Some(make::make(&caller, &options, &tree, &store, &never).expect("a workspace")),
        |_| assert_eq!(quiet(Command::new("cp").arg("-a").arg(&origin).arg(&copied)), Some(0)),
    );
    bench.ratio(
        &format!("making a workspace of {count} files against `cp -a`"),
        ours,
        theirs,
        None,
    );
    fs::remove_dir_all(&copied).expect("removable");
    let ignored = made.expect("a workspace").ignored;

    // What is younger than the walk is read again on both sides.
    std::thread::sleep(Duration::from_secs(2));
    let add = |git_dir: &Path| {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(git_dir).arg("--work-tree").arg(&tree).args(["add", "-A"]);
        assert_eq!(quiet(command.current_dir(&tree)), Some(0), "git add");
    };
    let rounds = 3;
    let place = |name: &str, round: usize| dir.join(format!("{name}-{round}.git"));
    for round in 0..rounds {
        let copy = place("filled", round);
        assert_eq!(quiet(Command::new("cp").arg("-a").arg(&filled).arg(&copy)), Some(0));
        for name in ["added", "added-too"] {
            git(dir, &["init", "-q", "--bare", &place(name, round).to_string_lossy()]);
        }
    }
    let first = |store: &Store| {
        let taken = Snapshotter::new(ignored.clone()).take(&tree, store, &never);
        assert_eq!(taken.expect("a snapshot").files, u64::from(count));
    };
    let [ours, theirs] = both(
        rounds,
        |round| first(&Store::open(&place("filled", round)).expect("a store")),
        |round| add(&place("added", round)),
    );
    bench.ratio(
        &format!("first snapshot of {count} files against `git add -A`"),
        ours,
        theirs,
        Some(1.5),
    );
    let [ours, theirs] = both(
        rounds,
        |round| first(&Store::create(&place("empty", round)).expect("a store")),
        |round| add(&place("added-too", round)),
    );
    bench.ratio(
        &format!("the same into a store without the caller's HEAD ({count} files)"),
        ours,
        theirs,
        None,
    );

    let mut snapshotter = Snapshotter::new(ignored.clone());
    snapshotter.take(&tree, &store, &never).expect("a snapshot");
    let synced = time(|| store.make_durable(&[]).expect("a disk"));
    println!("making the first snapshot durable: {synced:.1?}");
    git(&tree, &["status", "--porcelain"]);
    let mut change = 0;
    let mut write = || {
        change += 1;
        for file in 0..10 {
            let path = tree.join(format!("d0/e{file}/f{change}.txt"));
            fs::write(path, format!("changed in round {change}\n")).expect("a file");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let (mut warm, mut durable, mut status) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..8 {
        write();
        if round % 2 == 1 {
            status.push(time(|| git(&tree, &["status", "--porcelain"])));
        }
        let mut taken = None;
        let took = time(|| taken = Some(snapshotter.take(&tree, &store, &never)));
        let taken = taken.expect("it was run").expect("a snapshot");
        assert!(taken.hashed >= 10, "the changes are seen");
        let synced = time(|| store.make_durable(&taken.written).expect("a disk"));
        warm.push(took);
        durable.push(took + synced);
        if round % 2 == 0 {
            status.push(time(|| git(&tree, &["status", "--porcelain"])));
        }
    }
    let status = median(status);
    let what = format!("warm snapshot of {count} files, 10 changed, against `git status`");
    bench.ratio(&what, median(warm), status, Some(3.0));
    bench.ratio("the same, made durable", median(durable), status, Some(3.0));

    let home = dir.join("home");
    fs::create_dir(&home).expect("a folder");
    let frozen =
        layer::freeze(&tree, &home, &dir.join("layer"), &|_, _| false, &never).expect("a layer");
    let frozen_tree = snapshotter.take(&tree, &store, &never).expect("a snapshot").tree;
    write();
    let now = snapshotter.take(&tree, &store, &never).expect("a snapshot").tree;
    let [ours, theirs] = both(
        5,
        |round| {
            let dest = dir.join(format!("copy-{round}"));
            let repository = store.repository();
            let how = How::Overlay;
            copies::prepare(repository, &frozen, &frozen_tree, &now, &dest, how, &never)
                .expect("a copy");
            copies::remove(&dest).expect("removable");
        },
        |round| {
            let dest = dir.join(format!("cp-{round}"));
            assert_eq!(quiet(Command::new("cp").arg("-a").arg(&tree).arg(&dest)), Some(0));
        },
    );
    bench.ratio(
        &format!("one copy of {count} files, 10 changed, against `cp -a`"),
        ours,
        theirs,
        Some(0.1),
    );
}
