//! What holding a green to the tests of the start costs, beside the suite itself and its runner.
//!
//! `cargo bench` takes the short form (a repository of 2,000 tests in 200 files); with
//! `LOOPEXEC_TEST_LONG=1` it is 20,000 in 2,000. The suite that is timed and the cold collection run in
//! the same minute as what is held against them. Our own share is the time that our process computes:
//! what it waits for is the suite, or a disk.

mod sides;

use loopexec::receipt::blobs::{self, BlobStore};
use loopexec::receipt::disk::Durability;
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::Value;
use sides::{Bench, Cost, git, quiet, receipt, start, time, watch};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The most memory that our process may hold, in KiB.
const MOST_KIB: u64 = 300 * 1024;

fn main() {
    // `cargo test --benches` asks for a list; there is nothing to list.
    if std::env::args().any(|arg| arg == "--list") {
        return;
    }
    let long = std::env::var_os("LOOPEXEC_TEST_LONG").is_some();
    let mut bench = Bench::default();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let tools = Tools::make(dir.path());
    suite(&mut bench, &tools);
    results(&mut bench, &tools);
    let files = if long { 2_000 } else { 200 };
    repository(&mut bench, &tools, files);
    if long {
        whole(&mut bench, &tools, files);
    }
    drop(dir);
    bench.end();
}

/// pytest, in front of it a program that writes down how often it is asked.
struct Tools {
    dir: PathBuf,
    path: OsString,
}

impl Tools {
    fn make(dir: &Path) -> Self {
        let run = |command: &mut Command| assert_eq!(quiet(command), Some(0), "{command:?}");
        run(Command::new("python3").args(["-m", "venv"]).arg(dir.join("venv")));
        let mut pip = Command::new(dir.join("venv/bin/pip"));
        run(pip.args(["install", "--quiet", "--disable-pip-version-check", "pytest==9.2.0"]));
        let bin = dir.join("bin");
        fs::create_dir(&bin).expect("a folder");
        let script = format!(
            "#!/bin/sh\necho \"asked $*\" >> '{0}/asked'\nexec '{0}/venv/bin/pytest' \"$@\"\n",
            dir.display()
        );
        fs::write(bin.join("pytest"), script).expect("a script");
        run(Command::new("chmod").arg("+x").arg(bin.join("pytest")));
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let folders = [bin, dir.join("venv/bin")].into_iter().chain(std::env::split_paths(&rest));
        let path = std::env::join_paths(folders).expect("a list of folders");
        Self { dir: dir.to_owned(), path }
    }

    fn pytest(&self, project: &Path, args: &[&str], exit: i32) {
        let mut pytest = Command::new(self.dir.join("venv/bin/pytest"));
        let code = quiet(pytest.args(args).current_dir(project));
        assert_eq!(code, Some(exit), "pytest {args:?}");
    }

    /// Runs a loop that converges in one iteration and tells what it took.
    fn converge(&self, project: &Path) -> Ran {
        let asked = self.dir.join("asked");
        let _ = fs::remove_file(&asked);
        let child = start(&self.dir, project, &["run", "-q"], &self.path);
        let cost = watch(child, 10, &mut || ());
        let receipt = receipt(project).expect("a receipt");
        // Long lists of tests stand beside the receipt.
        let kept = BlobStore::new(blobs::beside(&receipt), Durability::Event);
        let events: Vec<Value> = fs::read_to_string(&receipt)
            .expect("readable")
            .lines()
            .map(|line| serde_json::from_str(line).expect("an event"))
            .filter(|event: &Value| matches!(event["type"].as_str(), Some("baseline" | "observed")))
            .map(|event| blobs::resolve(event, &kept).expect("all of it is there"))
            .collect();
        let ends = events.iter().filter(|event| event["type"] == "observed").count();
        assert_eq!(ends, 1, "one iteration");
        let mut ran = Ran {
            cost,
            started: Duration::ZERO,
            checks: [0, 0],
            asked: fs::read_to_string(&asked).unwrap_or_default(),
        };
        for event in &events {
            ran.count(&event["observation"], usize::from(event["type"] == "observed"));
        }
        ran
    }
}

/// One run of a loop.
struct Ran {
    cost: Cost,
    /// What all started commands took together.
    started: Duration,
    /// Runs of the check, for the baseline and later.
    checks: [usize; 2],
    /// How the runner was asked, a line each time.
    asked: String,
}

impl Ran {
    fn count(&mut self, value: &Value, phase: usize) {
        match value {
            Value::Object(fields) => {
                if let Some(took) = fields.get("wall_ms").and_then(Value::as_u64) {
                    self.started += Duration::from_millis(took);
                }
                self.checks[phase] += usize::from(fields.contains_key("fingerprint"));
                fields.values().for_each(|value| self.count(value, phase));
            }
            Value::Array(values) => values.iter().for_each(|value| self.count(value, phase)),
            _ => {}
        }
    }

    /// Holds a run to what is promised of each.
    fn hold(&self, bench: &mut Bench, what: &str) {
        println!(
            "{what}: {:.1?}, of it {:.1?} in commands; {:.2?} computed, peak {} KiB, {:?} checks",
            self.cost.wall, self.started, self.cost.cpu, self.cost.peak, self.checks
        );
        bench.hold(&format!("{what}: memory under 300 MiB"), self.cost.peak < MOST_KIB);
        let asked = self.asked.lines().count();
        if asked > 0 {
            let alone = self.asked.matches("--co").count();
            // Each run of a check collects once by itself.
            let holds = alone == 0 && asked == self.checks[0] + self.checks[1];
            bench.hold(&format!("{what}: the runner is asked for nothing but the checks"), holds);
            bench.hold(&format!("{what}: it collects twice at the start"), self.checks[0] <= 2);
        }
    }
}

fn write(project: &Path, name: &str, text: &str) {
    let path = project.join(name);
    fs::create_dir_all(path.parent().expect("a folder around")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// Makes a project of its files a tree with a loop.
fn commit(project: &Path, agent: &str, check: &str) {
    write(project, "agent.py", agent);
    write(
        project,
        "loop.yml",
        &format!(
            "version: 1\nmodel: none\nisolation: {{backend: none}}\nexec: python3 agent.py\ncheck: {check}\n"
        ),
    );
    write(project, ".gitignore", "__pycache__/\n.pytest_cache/\n.loopexec/\n");
    git(project, &["init", "-q"]);
    git(project, &["add", "-A"]);
    git(project, &["commit", "-qm", "start"]);
}

/// A suite of five seconds, and a run that mends the code and adds a test.
fn suite(bench: &mut Bench, tools: &Tools) {
    let project = tools.dir.join("suite");
    write(&project, "calc.py", "def add(a, b):\n    return a - b\n");
    let mut tests = "import time\n\nfrom calc import add\n".to_owned();
    for test in 0..10 {
        let _ = write!(
            tests,
            "\n\ndef test_{test}():\n    time.sleep(0.5)\n    assert add({test}, 2) == {}\n",
            test + 2
        );
    }
    write(&project, "test_calc.py", &tests);
    let agent = "open('calc.py', 'w').write('def add(a, b):\\n    return a + b\\n')\n\
        open('test_calc.py', 'a').write('\\n\\ndef test_more():\\n    assert add(0, 0) == 0\\n')\n";
    commit(&project, agent, "pytest -q");
    let before = time(|| tools.pytest(&project, &["-q"], 1));
    let ran = tools.converge(&project);
    let after = time(|| tools.pytest(&project, &["-q"], 0));
    let once = (before + after) / 2;
    ran.hold(bench, "a suite of five seconds");
    bench.ratio("the run against the suite alone", ran.cost.wall, once, None);
    bench.hold("the run is under 8 T + 3 s", ran.cost.wall < 8 * once + Duration::from_secs(3));
}

/// Twenty thousand results of a check that costs nothing: what it takes to keep them.
fn results(bench: &mut Bench, tools: &Tools) {
    let project = tools.dir.join("results");
    let check = "import sys\n\
        from state import GOOD\n\
        for n in range(20000):\n\
        \x20   print('ok' if n or GOOD else 'not ok', n + 1, f'- area {n % 200} does what number {n} asks for')\n\
        print('1..20000')\n\
        sys.exit(0 if GOOD else 1)\n";
    write(&project, "report.py", check);
    write(&project, "state.py", "GOOD = False\n");
    commit(&project, "open('state.py', 'w').write('GOOD = True\\n')\n", "python3 report.py");
    tools.converge(&project).hold(bench, "20,000 results");
}

const MEND: &str = "open('broken.py', 'w').write('def f():\\n    return 2\\n')\n";
const TOUCH: &str = "import glob\n\
    for name in glob.glob('tests/pkg*/test_*.py'):\n\
    \x20   text = open(name).read()\n\
    \x20   open(name, 'w').write('# Looked at.\\n' + text + '\\n\\ndef test_more():\\n    assert len(\"ab\") == 2\\n')\n";

/// Generates a repository with ten tests of three assertions in each of so many files, sources beside, and
/// one that is red.
fn generate(project: &Path, files: usize) {
    for file in 0..files {
        let package = format!("pkg{}", file / 50);
        let mut source = String::new();
        let mut tests = format!("from {package} import mod{file}\n");
        for n in 0..10 {
            let by = n + 2;
            let _ = write!(source, "def f{n}(x):\n    return x * {by} + {file}\n\n\n");
            let _ = write!(
                tests,
                "\n\ndef test_f{n}():\n    assert mod{file}.f{n}(0) == {file}\n    \
                 assert mod{file}.f{n}(1) == {}\n    assert mod{file}.f{n}(10) == {}\n",
                by + file,
                10 * by + file
            );
        }
        write(project, &format!("{package}/mod{file}.py"), &source);
        write(project, &format!("tests/{package}/test_mod{file}.py"), &tests);
        if file % 50 == 0 {
            write(project, &format!("{package}/__init__.py"), "");
            write(project, &format!("tests/{package}/__init__.py"), "");
        }
    }
    write(project, "conftest.py", "");
    write(project, "tests/__init__.py", "");
    write(project, "tests/broken/__init__.py", "");
    write(project, "broken.py", "def f():\n    return 1\n");
    let red = "import broken\n\n\ndef test_f():\n    assert broken.f() == 2\n";
    write(project, "tests/broken/test_broken.py", red);
}

/// What one cold collection computes.
fn collect(tools: &Tools, project: &Path) -> Duration {
    let mut find = Command::new("find");
    find.arg(project).args(["-name", "__pycache__", "-prune", "-exec", "rm", "-rf", "{}", "+"]);
    assert_eq!(quiet(&mut find), Some(0));
    let before = computed();
    tools.pytest(project, &["--collect-only", "-q", "-p", "no:cacheprovider"], 0);
    computed() - before
}

/// What all ended children of this process have computed.
fn computed() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the system counts");
    [usage.user_time(), usage.system_time()]
        .into_iter()
        .map(|time| {
            let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
            Duration::from_micros(u64::try_from(micros).expect("no time before the start"))
        })
        .sum()
}

/// A large repository in which every test file, or none, is changed.
fn repository(bench: &mut Bench, tools: &Tools, files: usize) {
    let cases = [
        ("every test file changed", format!("{TOUCH}{MEND}"), 0.5),
        ("one source changed", MEND.to_owned(), 0.1),
    ];
    for (what, agent, most) in cases {
        let project = tools.dir.join("repository");
        generate(&project, files);
        commit(&project, &agent, "pytest -q tests/broken");
        let before = collect(tools, &project);
        let ran = tools.converge(&project);
        let after = collect(tools, &project);
        let what = format!("{} tests, {what}", files * 10);
        ran.hold(bench, &what);
        let collected = (before + after) / 2;
        bench.ratio(
            &format!("{what}: our own share against a cold collection"),
            ran.cost.cpu,
            collected,
            Some(most),
        );
        fs::remove_dir_all(project).expect("removable");
    }
}

/// The same with the whole suite as the check.
fn whole(bench: &mut Bench, tools: &Tools, files: usize) {
    let project = tools.dir.join("whole");
    generate(&project, files);
    commit(&project, &format!("{TOUCH}{MEND}"), "pytest -q");
    let before = collect(tools, &project);
    let ran = tools.converge(&project);
    let what = format!("{} tests, all of them run", files * 10);
    ran.hold(bench, &what);
    bench.ratio(
        &format!("{what}: our own share against a cold collection"),
        ran.cost.cpu,
        before,
        Some(0.5),
    );
}
