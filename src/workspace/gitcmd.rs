//! The `git` program, run with a cleared environment on a repository nobody else writes to now.
//!
//! It reads the caller's repository and makes the workspace's `.git` before an agent ever saw it.
//! It is never run in a workspace that an agent has touched.

use crate::error::{Error, Kind, Result};
use crate::workspace::{Stop, paths, programs};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Whose configuration git reads besides the repository's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Configuration {
    /// Nobody's.
    None,
    /// The person's own, from their home folders: for questions they would ask themselves.
    Personal {
        /// `HOME`.
        home: Option<PathBuf>,
        /// `XDG_CONFIG_HOME`.
        xdg: Option<PathBuf>,
    },
}

/// How git is called.
#[derive(Debug, Clone)]
pub struct Git {
    path: OsString,
    configuration: Configuration,
    arguments: Vec<OsString>,
    variables: Vec<(&'static str, OsString)>,
}

/// What a git command left.
#[derive(Debug)]
pub struct Output {
    /// The exit code; a signal's death is -1.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Returns standard output without the newline at its end.
    pub fn line(&self) -> &[u8] {
        self.stdout.strip_suffix(b"\n").unwrap_or(&self.stdout)
    }

    /// Returns the first telling line of standard error, escaped and bounded.
    pub fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&self.stderr);
        let line = text
            .lines()
            .find(|line| line.starts_with("fatal:") || line.starts_with("error:"))
            .or_else(|| text.lines().find(|line| !line.trim().is_empty()))
            .unwrap_or("it said nothing");
        let line: String = line.chars().take(300).collect();
        paths::escape(line.as_bytes())
    }
}

impl Git {
    /// Prepares git, found through this `PATH`.
    pub fn new(path: &OsStr) -> Self {
        Self {
            path: path.to_os_string(),
            configuration: Configuration::None,
            arguments: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Reads this configuration as well.
    pub fn configured(mut self, configuration: Configuration) -> Self {
        self.configuration = configuration;
        self
    }

    /// Adds arguments that stand before every command, such as `-C` and `-c`.
    pub fn with<A: Into<OsString>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable for every command.
    pub fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Runs a command and returns what it left, whatever its exit code is.
    pub fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
        stop: Stop<'_>,
    ) -> Result<Output> {
        let install = "install git 2.38 or newer and put it on PATH";
        let mut command = programs::command("git", &self.path).map_err(|e| e.hint(install))?;
        command.args(&self.arguments).args(arguments);
        self.set_environment(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Of a group of its own, so that the terminal's signals reach the supervisor alone and the
        // transport processes end with it.
        command.process_group(0);
        let mut child = command.spawn().map_err(|source| {
            Error::new(Kind::WorkspaceInvalid, "cannot run the git program")
                .because(source)
                .hint(install)
        })?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A git that does not read all of it has its reason, and says so by its exit.
                let _ = streams.0.map(|mut pipe| pipe.write_all(input));
            });
            let stdout = scope.spawn(move || streams.1.map(read_all));
            let stderr = scope.spawn(move || streams.2.map(read_all));
            let code = wait(&mut child, stop);
            let stdout = stdout.join().ok().flatten().unwrap_or_default();
            let stderr = stderr.join().ok().flatten().unwrap_or_default();
            tracing::trace!(code = ?code.as_ref().ok(), bytes = stdout.len(), "git ended");
            Ok(Output { code: code?, stdout, stderr })
        })
    }

    /// Runs a command that has to succeed.
    pub fn must<A: AsRef<OsStr>>(
        &self,
        doing: &str,
        arguments: impl IntoIterator<Item = A>,
        input: &[u8],
        stop: Stop<'_>,
    ) -> Result<Output> {
        let output = self.run(arguments, input, stop)?;
        if output.code == 0 { Ok(output) } else { Err(refused(doing, &output)) }
    }

    fn set_environment(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", &self.path)
            .env("LC_ALL", "C")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_TERMINAL_PROMPT", "0");
        match &self.configuration {
            Configuration::None => {
                command
                    .env("GIT_CONFIG_GLOBAL", "/dev/null")
                    .env("GIT_CONFIG_NOSYSTEM", "1")
                    .env("GIT_ATTR_NOSYSTEM", "1");
            }
            Configuration::Personal { home, xdg } => {
                command.envs(home.iter().map(|home| ("HOME", home)));
                command.envs(xdg.iter().map(|xdg| ("XDG_CONFIG_HOME", xdg)));
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }
}

/// Makes an error of a git command that did not succeed.
pub fn refused(doing: &str, output: &Output) -> Error {
    let text = String::from_utf8_lossy(&output.stderr);
    let full = ["No space left on device", "Disk quota exceeded", "File too large"]
        .iter()
        .any(|sign| text.contains(sign));
    let kind = if full { Kind::StorageExhausted } else { Kind::WorkspaceInvalid };
    let what = format!("git could not {doing} (exit {}): {}", output.code, output.complaint());
    let error = Error::new(kind, what);
    if full { error.detail("disk_full") } else { error }
}

/// Makes the error of a run that was told to stop.
pub fn interrupted() -> Error {
    Error::new(Kind::Interrupted, "the run was told to stop")
}

/// Adds the argument that says where the repository is.
pub fn git_dir(path: &Path) -> OsString {
    let mut argument = OsString::from("--git-dir=");
    argument.push(path);
    argument
}

fn read_all(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What was read before a broken pipe is still what git said.
    let _ = pipe.read_to_end(&mut bytes);
    bytes
}

fn wait(child: &mut Child, stop: Stop<'_>) -> Result<i32> {
    let mut pause = Duration::from_micros(500);
    loop {
        let ended = child.try_wait().map_err(|source| {
            Error::new(Kind::Internal, "cannot wait for the git program").because(source)
        })?;
        if let Some(status) = ended {
            return Ok(status.code().unwrap_or(-1));
        }
        if stop() {
            if let Ok(id) = i32::try_from(child.id()) {
                let group = nix::unistd::Pid::from_raw(id);
                let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            }
            let _ = child.wait();
            return Err(interrupted());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
