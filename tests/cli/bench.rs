//! What the end-to-end tests share: a repository of their own, a scrubbed environment, the binary,
//! its one JSON object and the receipt it left.

use assert_fs::TempDir;
use loopexec::domain::hex::sha256;
use loopexec::receipt::blobs::{BlobStore, resolve};
use loopexec::receipt::disk::Durability;
use loopexec::receipt::record::{Compare, Folded, fold};
use loopexec::receipt::rundir::RunDir;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a run may add to the caller's tree whatever its end.
const OURS: [&str; 2] = [".loopexec", ".loop_state.json"];

/// The line of a loop that runs without zones.
pub(crate) const NO_ZONES: &str = "isolation: {backend: none}\n";

/// A repository in a temporary folder; HOME and caches lie beside it.
pub(crate) struct Bench {
    folder: TempDir,
    extra: Vec<(String, String)>,
}

impl Bench {
    /// Makes a repository with one commit that holds a README.
    pub(crate) fn new() -> Self {
        let bench = Self::plain();
        bench.git(&["init", "-q", "-b", "main"]);
        bench.write("README.md", "a project\n");
        bench.commit();
        bench
    }

    /// Makes a folder that git does not know.
    pub(crate) fn plain() -> Self {
        let bench = Self { folder: TempDir::new().unwrap(), extra: Vec::new() };
        for name in ["project", "home", "cache", "tmp"] {
            std::fs::create_dir(bench.beside(name)).unwrap();
        }
        bench
    }

    /// Returns the caller's tree.
    pub(crate) fn root(&self) -> PathBuf {
        self.beside("project")
    }

    /// Returns a path beside the caller's tree: `home`, `cache`, `tmp` or a scratch name.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// Returns a path in the caller's tree.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Adds a variable to the environment of every later command.
    pub(crate) fn env(&mut self, name: &str, value: &str) {
        self.extra.push((name.to_owned(), value.to_owned()));
    }

    /// Writes a file in the caller's tree.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Writes an executable shell script in the caller's tree.
    pub(crate) fn script(&self, name: &str, body: &str) {
        self.write(name, format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Writes `loop.yml`: version, no model, what is given, and no zones where nothing is said of them: agents of
    /// these tests leave word beside the tree. Zones have tests of their own.
    pub(crate) fn loop_file(&self, rest: &str) {
        let line = if rest.contains("isolation:") { "" } else { NO_ZONES };
        let end = if rest.is_empty() || rest.ends_with('\n') { "" } else { "\n" };
        self.write("loop.yml", format!("version: 1\nmodel: none\n{rest}{end}{line}"));
    }

    /// Writes `loop.yml` as it is given.
    pub(crate) fn whole_loop_file(&self, text: &str) {
        self.write("loop.yml", text);
    }

    /// Commits everything there is.
    pub(crate) fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    }

    /// Runs git in the caller's tree and returns what it says.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let output = self.scrubbed("git").args(args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "git {args:?}: {said}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    fn scrubbed(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.root()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.beside("home")).env("TMPDIR", self.beside("tmp"));
        command.env("XDG_CACHE_HOME", self.beside("cache"));
        command.env("LOOPEXEC_CACHE", self.beside("cache"));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "a person");
            command.env(format!("GIT_{who}_EMAIL"), "person@example.invalid");
        }
        command.envs(self.extra.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Returns the binary, ready to run in the caller's tree.
    pub(crate) fn loopexec(&self) -> Command {
        self.scrubbed(env!("CARGO_BIN_EXE_loopexec"))
    }

    /// Runs `loopexec` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.loopexec().args(args).output().unwrap())
    }

    /// Runs `loopexec run --json` with more arguments to its end.
    pub(crate) fn run_loop(&self, more: &[&str]) -> Ran {
        self.run(&[&["run", "--json"], more].concat())
    }

    /// Starts `loopexec` with its output in files beside the tree and does not wait.
    pub(crate) fn start(&self, args: &[&str]) -> Started {
        let name = |end: &str| self.beside(&format!("{}.{end}", args.join("-").replace('/', "_")));
        let (out, err) = (name("out"), name("err"));
        let child = self
            .loopexec()
            .args(args)
            .stdout(std::fs::File::create(&out).unwrap())
            .stderr(std::fs::File::create(&err).unwrap())
            .spawn()
            .unwrap();
        Started { child, out, err }
    }

    /// Returns the folders of all runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<RunDir> {
        let Ok(entries) = std::fs::read_dir(self.path(".loopexec/runs")) else {
            return Vec::new();
        };
        let mut paths: Vec<(std::time::SystemTime, PathBuf)> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("receipt.jsonl").exists())
            .map(|path| (path.metadata().unwrap().modified().unwrap(), path))
            .collect();
        paths.sort();
        paths.into_iter().map(|(_, path)| RunDir::open(&path).unwrap()).collect()
    }

    /// Returns the folder of the run an outcome names.
    pub(crate) fn run_of(&self, ran: &Ran) -> RunDir {
        let id = ran.json()["run_id"].as_str().expect("a run id").to_owned();
        RunDir::open(&self.path(&format!(".loopexec/runs/{id}"))).unwrap()
    }

    /// Folds the receipt of an outcome strictly.
    pub(crate) fn fold(&self, ran: &Ran) -> Folded {
        fold(&self.run_of(ran), Compare::Strict, &mut |_| Ok(())).unwrap()
    }

    /// Returns all events of an outcome's receipt, blobs put back in.
    pub(crate) fn events(&self, ran: &Ran) -> Vec<Value> {
        events_of(&self.run_of(ran))
    }

    /// Describes every path of the caller's tree: bytes, mode and mtime, `.git` included; what a
    /// run may add, and the root's own times, are left out.
    pub(crate) fn tree_hash(&self) -> BTreeMap<PathBuf, String> {
        describe(&self.root())
    }
}

/// Returns all events of a receipt, blobs put back in.
pub(crate) fn events_of(run: &RunDir) -> Vec<Value> {
    let blobs = BlobStore::new(run.blobs(), Durability::Event);
    std::fs::read_to_string(run.receipt())
        .unwrap()
        .lines()
        .map(|line| resolve(serde_json::from_str(line).unwrap(), &blobs).unwrap())
        .collect()
}

fn describe(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            if OURS.iter().any(|ours| name == Path::new(ours)) {
                continue;
            }
            let stat = path.symlink_metadata().unwrap();
            let content = if stat.is_symlink() {
                format!("-> {:?}", std::fs::read_link(&path).unwrap())
            } else if stat.is_dir() {
                pending.push(path.clone());
                "folder".to_owned()
            } else if stat.is_file() {
                sha256(&std::fs::read(&path).unwrap())
            } else {
                "special".to_owned()
            };
            let times = (stat.mtime(), stat.mtime_nsec());
            let owner = (stat.uid(), stat.gid(), stat.nlink());
            found.insert(name, format!("{:o} {owner:?} {times:?} {content}", stat.mode()));
        }
    }
    found
}

/// Asserts that two descriptions of a tree agree, naming the first path that does not.
pub(crate) fn assert_untouched(
    before: &BTreeMap<PathBuf, String>,
    after: &BTreeMap<PathBuf, String>,
) {
    for name in before.keys().chain(after.keys()) {
        assert_eq!(before.get(name), after.get(name), "{} was touched", name.display());
    }
}

/// A run that was started and not waited for.
pub(crate) struct Started {
    pub(crate) child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Started {
    /// Returns the process id.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for the end.
    pub(crate) fn wait(mut self) -> Ran {
        let status = self.child.wait().unwrap();
        Ran {
            code: status.code(),
            stdout: std::fs::read_to_string(&self.out).unwrap(),
            stderr: String::from_utf8_lossy(&std::fs::read(&self.err).unwrap()).into_owned(),
        }
    }
}

/// What a command gave back.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The exit code; none where a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    fn of(output: &std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Returns the one JSON object on stdout; fails when there is more or less than that.
    pub(crate) fn json(&self) -> Value {
        let value: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("stdout is not one JSON value ({e}): {self:#?}"));
        assert!(value.is_object(), "{self:#?}");
        value
    }

    /// Returns the halt reason.
    pub(crate) fn reason(&self) -> String {
        self.json()["halt_reason"].as_str().unwrap_or("none").to_owned()
    }
}
