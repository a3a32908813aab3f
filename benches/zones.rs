//! What zones cost, measured side by side in one run: one zone against one start of bubblewrap, and an iteration
//! of a loop in both zones against one without; fails when a promised ratio does not hold.
//!
//! Both sides run in every round, each first in turn, so that a busy machine hits both. It needs `bwrap`.

#[expect(dead_code, reason = "other benches watch more")]
mod sides;

use loopexec::process::{Job, Mount, Placement, Silent, Supervisor, View};
use loopexec::zone::homes::Homes;
use loopexec::zone::kind::{Bounds, Kind, Reach, Room, Shown};
use loopexec::zone::ladder::{self, Wanted};
use sides::{BIN, Bench, git, quiet, time};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Starts of each side.
const ROUNDS: usize = 60;
/// Iterations of a loop, and runs of each.
const ITERATIONS: [u32; 2] = [1, 21];
const RUNS: usize = 3;

fn main() -> ExitCode {
    // The zones that it chooses are proven by this very program.
    let args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|first| first == loopexec::zone::proof::ARGUMENT) {
        return loopexec::zone::proof::main(&args);
    }
    // `cargo test --benches` asks for a list; there is nothing to list.
    if std::env::args().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let mut bench = Bench::default();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let dir = fs::canonicalize(dir.path()).map(|path| (path, dir)).expect("a folder");
    starts(&mut bench, &dir.0);
    iterations(&mut bench, &dir.0);
    bench.end();
    ExitCode::SUCCESS
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// `true` in an exec zone, and behind bubblewrap with namespaces of every kind and the system read-only.
fn starts(bench: &mut Bench, dir: &Path) {
    let mut supervisor = Supervisor::new(BIN.into(), Placement::Detect).expect("a supervisor");
    let (folder, project) = (dir.join("zone"), dir.join("project"));
    for made in [&folder, &project] {
        fs::create_dir(made).expect("a folder");
    }
    let bounds =
        Bounds { processes: 4096, files: 65_536, disk: 20 << 30, memory: None, shm: 1 << 30 };
    let room = Room { bounds, shown: Shown::default(), nested: false };
    let wanted = Wanted {
        accepts_landlock: false,
        only: None,
        copies: true,
        folder: &folder,
        homes: Homes::default(),
        image: None,
        home: None,
        agent: room.clone(),
        exec: room,
    };
    let chosen = ladder::choose(&mut supervisor, &wanted).expect("an answer");
    let zones = chosen.expect("zones hold here").zones;
    let shown = Mount::Bind { from: project.clone(), to: project.clone() };
    let mut zone = || {
        let job = Job {
            argv: vec!["/bin/true".into()],
            cwd: project.clone(),
            env: Vec::new(),
            view: View::Namespace { mounts: vec![shown.clone()], remove: Vec::new() },
            enclosure: Some(zones.enclosure(Kind::Exec, &Reach::Nothing).expect("an enclosure")),
            deadline: Some(Duration::from_secs(60)),
            idle: None,
            idle_watch: Vec::new(),
            grace: Duration::ZERO,
            keep: 100,
        };
        let ran = supervisor.run(&job, &mut Silent).expect("it runs");
        assert!(ran.stderr.kept().is_empty(), "{ran:?}");
    };
    let bwrap = || {
        let mut command = Command::new("bwrap");
        command.args(["--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
        for link in ["bin", "lib", "lib64"] {
            command.args(["--symlink", &format!("usr/{link}"), &format!("/{link}")]);
        }
        command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind"]);
        command.args([&project, &project]).arg("/bin/true");
        assert_eq!(quiet(&mut command), Some(0), "bwrap runs");
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        if round % 2 == 0 {
            ours.push(time(&mut zone));
            theirs.push(time(bwrap));
        } else {
            theirs.push(time(bwrap));
            ours.push(time(&mut zone));
        }
    }
    bench.ratio("one zone against one bwrap", median(ours), median(theirs), Some(3.0));
}

/// The marginal cost of an iteration of a loop that never gets green, in zones and without.
fn iterations(bench: &mut Bench, dir: &Path) {
    let backend = if nix::unistd::geteuid().is_root() { "root" } else { "namespaces" };
    let mut sides = [Vec::new(), Vec::new()];
    for round in 0..RUNS {
        for at in 0..2 {
            let side = (round + at) % 2;
            let isolation = ["none", backend][side];
            let [few, many] = ITERATIONS.map(|count| run(dir, isolation, count));
            sides[side].push(many.saturating_sub(few) / (ITERATIONS[1] - ITERATIONS[0]));
        }
    }
    let [without, within] = sides.map(median);
    bench.ratio("an iteration in both zones against one without", within, without, Some(4.0));
}

fn run(dir: &Path, isolation: &str, iterations: u32) -> Duration {
    let project = dir.join("loop");
    fs::create_dir(&project).expect("a folder");
    let text = format!(
        "version: 1\nmodel: none\nexec: \"true\"\ncheck: \"false\"\nlimits: {{iterations: {iterations}, no_progress: 1000000}}\nisolation: {{backend: {isolation}}}\n"
    );
    fs::write(project.join("loop.yml"), text).expect("a loop file");
    git(&project, &["init", "-q"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-qm", "start"]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let child = sides::start(dir, &project, &["run", "-q"], &path);
    let took = sides::watch(child, 12, &mut || ()).wall;
    fs::remove_dir_all(project).expect("removable");
    took
}
