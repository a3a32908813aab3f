//! What the tests of the workspace share: folders, git with a clean environment, digests of trees.

use loopexec::domain::hex;
use loopexec::workspace::caller::Caller;
use loopexec::workspace::carry::Carry;
use loopexec::workspace::history::History;
use loopexec::workspace::make::{Made, OnDirty, WorkspaceOptions, make};
use loopexec::workspace::places::Surroundings;
use loopexec::workspace::snapshot::Snapshotter;
use loopexec::workspace::store::Store;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const NEVER: fn() -> bool = || false;

/// A temporary folder with a caller's tree, a store and a workspace.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) caller: PathBuf,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let caller = folder.path().canonicalize().unwrap().join("the caller");
        std::fs::create_dir(&caller).unwrap();
        Self { folder, caller }
    }

    pub(crate) fn git_repository() -> Self {
        let bench = Self::new();
        bench.git(&["init", "-q", "-b", "main"]);
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        write(&self.caller, name.as_bytes(), content.as_bytes());
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.caller, arguments)
    }

    pub(crate) fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        Surroundings {
            path: std::env::var_os("PATH").unwrap(),
            home: Some(self.path("home")),
            ..Surroundings::default()
        }
    }

    pub(crate) fn discover(&self) -> Caller {
        Caller::discover(&self.caller, &self.surroundings(), &NEVER).unwrap()
    }

    pub(crate) fn make(&self) -> Workspace {
        self.make_with(&options())
    }

    pub(crate) fn make_with(&self, options: &WorkspaceOptions) -> Workspace {
        self.try_make(options).unwrap()
    }

    pub(crate) fn try_make(
        &self,
        options: &WorkspaceOptions,
    ) -> loopexec::error::Result<Workspace> {
        let caller = self.discover();
        let root = self.path("workspace");
        let store = Store::create(&self.path("store")).unwrap();
        let made = make(&caller, options, &root, &store, &NEVER)?;
        let snapshotter = Snapshotter::new(made.ignored.clone());
        Ok(Workspace { root, store, made, snapshotter })
    }
}

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) store: Store,
    pub(crate) made: Made,
    pub(crate) snapshotter: Snapshotter,
}

impl Workspace {
    pub(crate) fn take(&mut self) -> String {
        self.snapshotter.take(&self.root, &self.store, &NEVER).unwrap().tree
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        write(&self.root, name.as_bytes(), content.as_bytes());
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).unwrap()
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.root, arguments)
    }
}

pub(crate) fn options() -> WorkspaceOptions {
    WorkspaceOptions {
        carry: Carry::Auto,
        carry_max: 1 << 30,
        history: History::Depth(1),
        on_dirty: OnDirty::Include,
    }
}

pub(crate) fn write(root: &Path, name: &[u8], content: &[u8]) {
    let path = root.join(OsStr::from_bytes(name));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

pub(crate) fn git_command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for (name, value) in [
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@b"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@b"),
    ] {
        command.env(name, value);
    }
    let allowed = ["-c", "protocol.file.allow=always", "-c", "safe.directory=*"];
    command.args(allowed).args(["-c", "core.quotePath=false"]);
    command
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = git_command(folder).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {arguments:?} in {}: {said}", folder.display());
    String::from_utf8_lossy(&output.stdout).trim_end().to_string()
}

/// Everything below a folder: sort, mode, mtime and content of each path but the skipped names.
pub(crate) fn describe(root: &Path, skip: &[&str]) -> BTreeMap<OsString, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap();
            if skip.iter().any(|skipped| name == Path::new(skipped)) {
                continue;
            }
            let stat = path.symlink_metadata().unwrap();
            let content = if stat.is_symlink() {
                format!("-> {:?}", std::fs::read_link(&path).unwrap())
            } else if stat.is_dir() {
                pending.push(path.clone());
                "folder".to_string()
            } else {
                hex::sha256(&std::fs::read(&path).unwrap())
            };
            let mode = stat.permissions().mode();
            let time = (stat.mtime(), stat.mtime_nsec());
            found.insert(name.as_os_str().to_owned(), format!("{mode:o} {time:?} {content}"));
        }
    }
    found
}

/// Asserts that two descriptions agree, naming the first path that does not.
pub(crate) fn assert_same(
    left: &BTreeMap<OsString, String>,
    right: &BTreeMap<OsString, String>,
    what: &str,
) {
    for name in left.keys().chain(right.keys()) {
        assert_eq!(left.get(name), right.get(name), "{what}: {name:?}");
    }
}

/// The tree that git itself makes of a folder, without filters and with every file in it.
pub(crate) fn git_tree_of(root: &Path, scratch: &Path) -> String {
    let copy = scratch.join("plain copy");
    let status = Command::new("cp").arg("-a").arg(root).arg(&copy).status().unwrap();
    assert!(status.success());
    let _ = std::fs::remove_dir_all(copy.join(".git"));
    git(&copy, &["init", "-q"]);
    git(&copy, &["add", "-A", "-f"]);
    git(&copy, &["write-tree"])
}
