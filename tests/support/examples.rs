//! Runs an example of `examples/` in a copy of its own; shared by the two targets that do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

use loopexec::process::{Capability, Placement, Supervisor};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a person's earlier runs and builds may have left in an example.
const LEFT: [&str; 6] =
    ["target", "node_modules", ".venv", ".loopexec", ".loop_state.json", ".git"];

/// A copy of an example in a repository of its own.
pub struct Project {
    place: tempfile::TempDir,
}

impl Project {
    /// Copies an example and commits it.
    pub fn of(example: &str) -> Self {
        Self::with(example, "")
    }

    /// The same with further lines in its loop.
    pub fn with(example: &str, lines: &str) -> Self {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let project = Self { place };
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(example);
        copy(&from, &project.root());
        let file = project.root().join("loop.yml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text + lines).unwrap();
        project.git(&["init", "--quiet"]);
        project.git(&["add", "--all"]);
        project.git(&["commit", "--quiet", "--message", "as it is"]);
        project
    }

    /// Returns the root of the copy, without links in its path.
    pub fn root(&self) -> PathBuf {
        self.place.path().canonicalize().unwrap().join("project")
    }

    /// Runs loopexec in the copy and returns its exit code and its one object.
    pub fn loopexec(&self, arguments: &[&str]) -> (i32, Value) {
        let output = Command::new(env!("CARGO_BIN_EXE_loopexec"))
            .args(arguments)
            .arg("--json")
            .current_dir(self.root())
            .env("LOOPEXEC_CACHE", self.place.path().join("cache"))
            .output()
            .unwrap();
        let object = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{arguments:?}: no object: {e}\n{}", said(&output)));
        eprintln!("{}", said(&output));
        (output.status.code().unwrap(), object)
    }

    /// Runs git in the copy and returns what it printed.
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=test", "-c", "user.email=test@example.invalid"])
            .args(arguments)
            .current_dir(self.root())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the example and holds it to what its README promises; `status` is what git shows
    /// afterwards, `more` are flags.
    pub fn converges(&self, more: &[&str], status: &[&str]) {
        self.runs(more);
        let shown = self.git(&["status", "--porcelain"]);
        assert_eq!(shown.lines().collect::<Vec<_>>(), status);
    }

    /// Runs the example until it converges, after one iteration, and returns the result.
    pub fn runs(&self, more: &[&str]) -> Value {
        let (code, object) = self.loopexec(&[&["run"], more].concat());
        assert_eq!(object["halt_reason"], "success_condition_met", "{object:#}");
        assert_eq!((code, &object["iterations"]), (10, &1.into()), "{object:#}");
        let (code, verified) = self.loopexec(&["verify"]);
        assert_eq!((code, &verified["run_id"]), (0, &object["run_id"]), "{verified:#}");
        object
    }
}

/// Returns whether a workspace stands at the caller's own path on this machine.
pub fn stands_in_place() -> bool {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut supervisor =
        Supervisor::new(env!("CARGO_BIN_EXE_loopexec").into(), Placement::Detect).unwrap();
    matches!(supervisor.probe(place.path()).unwrap(), Capability::Namespaces { .. })
}

/// Returns a command that fails unless it runs at the caller's path while the caller's own files
/// are out of reach: `.loopexec` stands in the caller's tree during a run, and in no workspace.
pub fn out_of_reach(project: &Project, command: &str) -> String {
    let root = project.root();
    let root = root.to_str().unwrap();
    assert!(!root.contains('\''));
    format!("test \"$(pwd)\" = '{root}'\ntest ! -e '{root}/.loopexec'\n{command}")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if LEFT.iter().any(|left| name == *left) {
            continue;
        }
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(name)),
            false => drop(fs::copy(entry.path(), to.join(name)).unwrap()),
        }
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}
