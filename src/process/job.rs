//! What is run, where, and what came of it; `Supervisor` runs it.

use super::capture::Captured;
use super::enclosure::Enclosure;
use crate::domain::command::Exit;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// One command, complete: nothing of loopexec's own surroundings reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The program and its arguments; the program is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// Absolute folder it starts in, as seen inside `view`.
    pub cwd: PathBuf,
    /// Every variable it sees.
    pub env: Vec<(OsString, OsString)>,
    /// The file system it sees.
    pub view: View,
    /// What closes it in, where something does; its view has namespaces then, or is plain where the walls are
    /// Landlock's.
    pub enclosure: Option<Enclosure>,
    /// Wall-clock limit.
    pub deadline: Option<Duration>,
    /// How long it may be idle: no output, no CPU used, nothing changed under `idle_watch`.
    pub idle: Option<Duration>,
    /// Folders, as loopexec sees them, whose changes count as life.
    pub idle_watch: Vec<PathBuf>,
    /// Time between asking it to end and killing it.
    pub grace: Duration,
    /// Bytes kept at the head and again at the tail of each stream.
    pub keep: usize,
}

/// The file system a command sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// The caller's, as it is.
    Plain,
    /// The caller's with changes that no other process sees, in a pid namespace of its own.
    Namespace {
        /// What is mounted, in this order; sources mean the file system before the first mount.
        mounts: Vec<Mount>,
        /// Paths (files, links or whole trees) that are taken out of the mounted view.
        remove: Vec<PathBuf>,
    },
}

/// One entry of a view; every path is absolute. A target must exist, in an enclosure it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mount {
    /// Shows `from` at `to`.
    Bind {
        /// What is shown.
        #[serde(with = "super::wire::os_path")]
        from: PathBuf,
        /// Where.
        #[serde(with = "super::wire::os_path")]
        to: PathBuf,
    },
    /// Shows `from` at `to`, read-only.
    BindReadOnly {
        /// What is shown.
        #[serde(with = "super::wire::os_path")]
        from: PathBuf,
        /// Where.
        #[serde(with = "super::wire::os_path")]
        to: PathBuf,
    },
    /// Shows `lower` with what `upper` holds on top; changes go to `upper`.
    Overlay {
        /// The layer that stays as it is.
        #[serde(with = "super::wire::os_path")]
        lower: PathBuf,
        /// The layer that takes changes.
        #[serde(with = "super::wire::os_path")]
        upper: PathBuf,
        /// An empty folder on the file system of `upper`.
        #[serde(with = "super::wire::os_path")]
        work: PathBuf,
        /// Where.
        #[serde(with = "super::wire::os_path")]
        to: PathBuf,
    },
    /// Shows the files of a folder, read-only and through a layer of its own: a pipe or a socket in it leads to
    /// nobody, a device is none. In an enclosure alone.
    FilesOnly {
        /// What is shown.
        #[serde(with = "super::wire::os_path")]
        from: PathBuf,
        /// An empty folder.
        #[serde(with = "super::wire::os_path")]
        empty: PathBuf,
        /// Where.
        #[serde(with = "super::wire::os_path")]
        to: PathBuf,
    },
    /// An empty folder in memory that everyone may write to; in an enclosure alone.
    Memory {
        /// Most bytes.
        bytes: u64,
        /// Where.
        #[serde(with = "super::wire::os_path")]
        to: PathBuf,
    },
    /// A symbolic link; in an enclosure alone.
    Link {
        /// What it says.
        #[serde(with = "super::wire::os_path")]
        says: PathBuf,
        /// Where it lies.
        #[serde(with = "super::wire::os_path")]
        to: PathBuf,
    },
}

impl Mount {
    /// Returns where it is mounted.
    pub fn target(&self) -> &std::path::Path {
        match self {
            Self::Bind { to, .. }
            | Self::BindReadOnly { to, .. }
            | Self::Overlay { to, .. }
            | Self::FilesOnly { to, .. }
            | Self::Memory { to, .. }
            | Self::Link { to, .. } => to,
        }
    }
}

/// Which of the two outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Sees output while it comes.
pub trait Observer {
    /// Takes the next bytes of a stream; any bytes, cut anywhere.
    fn chunk(&mut self, stream: Stream, bytes: &[u8]);
}

/// An observer that looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn chunk(&mut self, _stream: Stream, _bytes: &[u8]) {}
}

/// What is behind the ports of an enclosure's loopback that lead to loopexec.
pub trait Gate {
    /// Opens what needs no listener from inside; called before the command starts, inside the supervisor's runtime.
    ///
    /// # Errors
    /// What keeps it from serving; the command is not started.
    fn begin(&mut self) -> crate::error::Result<()> {
        Ok(())
    }
    /// Takes the next listener, in the order of the doors; called inside the supervisor's runtime, whose tasks run while the command does.
    ///
    /// # Errors
    /// What keeps it from serving; the command is then ended.
    fn open(&mut self, listener: std::net::TcpListener) -> crate::error::Result<()>;
    /// Ends everything that came through; the command's tree is dead.
    fn close(&mut self);
}

/// A gate that nobody passes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoGate;

impl Gate for NoGate {
    fn open(&mut self, _listener: std::net::TcpListener) -> crate::error::Result<()> {
        Ok(())
    }

    fn close(&mut self) {}
}

/// A process that was still alive when its command had ended, and was killed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Its number, inside the pid namespace where there is one.
    pub pid: i32,
    /// Its short name; control characters are replaced.
    pub name: String,
    /// Its command line, at most 200 characters; control characters are replaced.
    pub command: String,
}

/// How a command ended and what it left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub exit: Exit,
    /// Who outlived it or had to be killed with it, itself excepted; at most 200.
    pub survivors: Vec<Survivor>,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// From the start of the launcher until the whole tree was dead.
    pub wall: Duration,
    /// How often something was sent to a network that its enclosure does not have.
    pub refused: u64,
    /// Whether it had as many processes as it may have, or wanted more.
    pub crowded: bool,
}
