//! A project in a temporary folder whose check runs with the probe's variables.

use loopexec::domain::results::{IdSet, Results, Runner};
use loopexec::integrity::results::{Out, Probe, RunnerChoice, remove_reports};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};

/// A project in a temporary folder.
pub(super) struct Project {
    pub(super) root: tempfile::TempDir,
    pub(super) choice: RunnerChoice,
    pub(super) globs: Vec<String>,
    env: Vec<(String, String)>,
}

pub(super) struct Ran {
    pub(super) results: Results,
    pub(super) ok: bool,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Project {
    /// Makes a project of files.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { root, choice: RunnerChoice::Auto, globs: Vec::new(), env: Vec::new() }
    }

    pub(super) fn set(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.root.path().join(name), text).unwrap();
    }

    pub(super) fn run(&self, command: &str) -> Ran {
        let root = self.root.path();
        let private = tempfile::Builder::new().prefix("private dir").tempdir().unwrap();
        remove_reports(root, &self.globs).unwrap();
        let at_root = |name: &str| root.join(name).exists();
        let mut probe = Probe::prepare(self.choice, &self.globs, &at_root, command, private.path())
            .unwrap()
            .with_roots(&[root]);
        let path = format!("{}:{}", venv().join("bin").display(), std::env::var("PATH").unwrap());
        let base = |name: &str| {
            self.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let mut child = Command::new("sh")
            .args(["-e", "-c", command])
            .current_dir(root)
            .env("PATH", path)
            .env("GOCACHE", venv().join("../go-cache"))
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env_remove("RUST_BACKTRACE")
            .env_remove("NEXTEST")
            .env_remove("CARGO_TERM_COLOR")
            .envs(self.env.iter().cloned())
            .envs(probe.env(&base))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, receive) = mpsc::channel();
        let streams: [(Out, Box<dyn Read + Send>); 2] = [
            (Out::Stdout, Box::new(child.stdout.take().unwrap())),
            (Out::Stderr, Box::new(child.stderr.take().unwrap())),
        ];
        for (out, mut stream) in streams {
            let send = send.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 13];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    send.send((out, buffer[..count].to_vec())).unwrap();
                }
            });
        }
        drop(send);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for (out, chunk) in receive {
            probe.observe(out, &chunk);
            if out == Out::Stdout { &mut stdout } else { &mut stderr }.extend(chunk);
        }
        let ok = child.wait().unwrap().success();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { results: probe.collect(root, ok), ok, stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Ran {
    /// Holds the sets to what is expected; on a difference shows everything.
    #[track_caller]
    pub(super) fn is(
        &self,
        runner: Runner,
        passed: &[&str],
        failed: &[&str],
        skipped: &[&str],
    ) -> &Self {
        let set = |ids: &[&str]| ids.iter().map(|id| (*id).into()).collect::<IdSet>();
        let r = &self.results;
        assert!(
            (r.runner, &r.passed, &r.failed, &r.skipped)
                == (runner, &set(passed), &set(failed), &set(skipped)),
            "{r:#?}\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    #[track_caller]
    pub(super) fn clean(&self) -> &Self {
        let r = &self.results;
        assert!(
            r.problems.is_empty() && r.broken.is_none(),
            "{r:#?}\n--- stdout\n{}\n--- stderr\n{}",
            self.stdout,
            self.stderr
        );
        self
    }

    #[track_caller]
    pub(super) fn problem(&self, part: &str) -> &Self {
        let found = self.results.problems.iter().any(|problem| problem.contains(part));
        assert!(found, "{:#?}\n{}\n{}", self.results, self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(super) fn broken(&self, part: &str) -> &Self {
        let found = self.results.broken.as_ref().is_some_and(|text| text.contains(part));
        assert!(found, "{:#?}\n{}\n{}", self.results, self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(super) fn failure(&self, id: &str, message: &str, file: &str, line: u32) -> &Self {
        let failure = self.results.failures.iter().find(|failure| &*failure.id == id);
        let failure = failure.unwrap_or_else(|| panic!("{id} has no failure: {:#?}", self.results));
        assert!(failure.message.contains(message), "{failure:#?}");
        assert_eq!(
            (failure.file.as_deref(), failure.line),
            (Some(file), Some(line)),
            "{failure:#?}"
        );
        self
    }
}

/// A virtual environment with pytest, made once and kept under `target`.
fn venv() -> &'static Path {
    static VENV: OnceLock<PathBuf> = OnceLock::new();
    VENV.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("runners-venv");
        if !dir.join("ready").exists() {
            let run = |command: &mut Command| assert!(command.status().unwrap().success());
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir));
            run(Command::new(dir.join("bin/pip")).args([
                "install",
                "-q",
                "pytest",
                "pytest-xdist",
                "tox",
            ]));
            std::fs::write(dir.join("ready"), "").unwrap();
        }
        dir
    })
}
