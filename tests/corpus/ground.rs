//! A project made of an entry: a repository with one commit in a folder of its own, a scrubbed
//! environment with a private HOME beside it, and commands that end in time.

use crate::entry::Entry;
use crate::toolbox::{self, Tools};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Folders that exist beside a project.
const BESIDE: [&str; 4] = ["project", "home", "cache", "tmp"];

/// A project at t0.
pub(crate) struct Ground {
    folder: TempDir,
    tools: Tools,
}

/// What a command gave back.
pub(crate) struct Ran {
    /// The exit code; none where a signal or the time limit ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// How it ended, in words.
    pub(crate) end: String,
}

impl Ran {
    /// Returns everything it said, its end first.
    pub(crate) fn told(&self) -> String {
        format!(
            "{}\n--- stdout\n{}\n--- stderr\n{}",
            self.end,
            tail(&self.stdout),
            tail(&self.stderr)
        )
    }
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(4000);
    let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(start..).unwrap_or_default()
}

impl Ground {
    /// Makes the project of an entry; `more` are files beside its own, such as the loop file.
    pub(crate) fn new(entry: &Entry, stage: &str, more: &[(&str, &str)]) -> Self {
        let tools = toolbox::of(entry.runner);
        let kept = std::env::var_os("LOOPEXEC_CORPUS_KEEP").filter(|dir| !dir.is_empty());
        let mut builder = tempfile::Builder::new();
        let prefix = format!("{}-{}-", entry.name, stage.replace(' ', "-"));
        builder.prefix(&prefix).disable_cleanup(kept.is_some());
        let folder = match (&tools.projects, kept) {
            (Some(projects), _) => builder.tempdir_in(projects),
            (None, Some(kept)) => builder.tempdir_in(kept),
            (None, None) => builder.tempdir(),
        };
        let ground = Self { folder: folder.unwrap(), tools };
        for name in BESIDE {
            std::fs::create_dir(ground.beside(name)).unwrap();
        }
        for (name, text) in &entry.files {
            ground.write(name, text);
        }
        for (name, text) in more {
            ground.write(name, text);
        }
        if let Some(setup) = &entry.setup {
            let ran = ground.bash(setup, Duration::from_secs(300));
            assert_eq!(ran.code, Some(0), "{}: setup: {}", entry.name, ran.told());
        }
        let git = "git init -q -b main && git add -A && git commit -q -m 'A project' \
                   && git config user.name 'a person' && git config user.email person@example.invalid";
        let ran = ground.bash(git, Duration::from_secs(60));
        assert_eq!(ran.code, Some(0), "{}: git: {}", entry.name, ran.told());
        ground
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.beside("project").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        if text.starts_with("#!") {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
    }

    /// Runs a script as loopexec runs its commands, without loopexec.
    pub(crate) fn bash(&self, script: &str, limit: Duration) -> Ran {
        let mut command = self.scrubbed("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]);
        // What every zone of loopexec sets too.
        command.env("TZ", "UTC").env("LC_ALL", "C.UTF-8").env("CI", "true");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        self.finish(command, limit)
    }

    /// Runs the binary in the project.
    pub(crate) fn loopexec(&self, args: &[&str], limit: Duration) -> Ran {
        let mut command = self.scrubbed(env!("CARGO_BIN_EXE_loopexec"));
        command.args(args);
        self.finish(command, limit)
    }

    fn scrubbed(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.beside("project")).env_clear();
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let folders = self.tools.path.iter().cloned().chain(std::env::split_paths(&inherited));
        command.env("PATH", std::env::join_paths(folders).unwrap());
        command.env("HOME", self.beside("home")).env("TMPDIR", self.beside("tmp"));
        command.env("XDG_CACHE_HOME", self.beside("cache"));
        command.env("LOOPEXEC_CACHE", self.beside("cache"));
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "a person");
            command.env(format!("GIT_{who}_EMAIL"), "person@example.invalid");
        }
        // rustup finds its toolchains by HOME, which is another one here.
        for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(folder));
            let found = std::env::var_os(name).map(PathBuf::from).or_else(home);
            if let Some(found) = found.filter(|path| path.exists()) {
                command.env(name, found);
            }
        }
        command.envs(self.tools.env.iter().map(|(name, value)| (name, OsString::from(value))));
        command
    }

    /// Waits for the end of a command in a process group of its own and ends what it left.
    fn finish(&self, mut command: Command, limit: Duration) -> Ran {
        let (out, err) = (self.beside("stdout"), self.beside("stderr"));
        command.stdin(Stdio::null()).process_group(0);
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break Some(status);
            }
            if start.elapsed() > limit {
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        // The group is empty in the usual case, which is no error here.
        let _ = killpg(group, Signal::SIGKILL);
        if status.is_none() {
            child.wait().unwrap();
        }
        let text =
            |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        let code = status.and_then(|status| status.code());
        let end = match (status, code) {
            (None, _) => format!("not over after {} s", limit.as_secs()),
            (Some(_), Some(code)) => format!("exit {code}"),
            (Some(status), None) => format!("signal {}", status.signal().unwrap_or(0)),
        };
        Ran { code, stdout: text(&out), stderr: text(&err), end }
    }
}
