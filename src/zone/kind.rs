//! The two zones and what tells them apart.

use std::path::{Path, PathBuf};

/// Which zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Where exec runs.
    Agent,
    /// Where everything else runs.
    Exec,
}

/// The port of the agent zone's loopback that leads out.
pub const GATE: u16 = 3128;

/// What a command of a zone reaches beside the loopback of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Nothing.
    Nothing,
    /// What the gate lets through; on this port of the loopback.
    Gate(u16),
    /// These ports of this machine's loopback.
    Doors(Vec<u16>),
    /// What this machine reaches.
    Host,
}

impl Kind {
    /// Returns its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Exec => "exec",
        }
    }

    /// Returns the families of sockets that can be made in it.
    ///
    /// Test suites talk to databases over unix sockets; an agent has nobody to talk to that way, and a
    /// socket in the workspace would lead from one zone to the other.
    ///
    /// In the host's network abstract sockets are the host's.
    pub(super) const fn families(self, reach: &Reach) -> &'static [libc::c_int] {
        match (self, reach) {
            (Self::Agent, _) | (Self::Exec, Reach::Host) => &[libc::AF_INET, libc::AF_INET6],
            (Self::Exec, _) => &[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX],
        }
    }
}

/// Paths of the host that a zone shows at their own place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// As they are.
    pub read: Vec<PathBuf>,
    /// And takes writes to.
    pub write: Vec<PathBuf>,
}

/// Returns a path that lies inside of one that takes writes, and the latter: a command could put a link in its place,
/// and whoever is shown that path next would see what the link leads to.
pub fn exposed<'a>(
    paths: impl IntoIterator<Item = &'a Path>,
    [agent, exec]: [&'a Shown; 2],
) -> Option<(&'a Path, &'a Path)> {
    let mut paths = paths.into_iter();
    paths.find_map(|path| {
        let written = agent.write.iter().chain(&exec.write).map(PathBuf::as_path);
        let around = |written: &&Path| path != *written && path.starts_with(written);
        Some((path, written.into_iter().find(around)?))
    })
}

/// What one zone gives its commands.
#[derive(Debug, Clone)]
pub struct Room {
    /// What they may use up.
    pub bounds: Bounds,
    /// What of the host they see by name.
    pub shown: Shown,
    /// Whether they may make sandboxes of their own inside.
    pub nested: bool,
}

/// What a zone's commands may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Processes and threads at a time.
    pub processes: u64,
    /// Open files of one process.
    pub files: u64,
    /// Bytes of one file, and of all that it may take from the disk.
    pub disk: u64,
    /// Bytes of memory of the whole tree; none is nine tenths of what is there.
    pub memory: Option<u64>,
    /// Bytes of `/dev/shm`, and again of `/tmp`.
    pub shm: u64,
}

/// Says whether a path would show the caller's whole home, or more.
pub fn shows_too_much(path: &Path, home: Option<&Path>) -> bool {
    home.is_some_and(|home| home.starts_with(path)) || path.components().count() < 2
}
