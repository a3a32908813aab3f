//! What closes a command in, beside its view: a root of its own, namespaces, limits, filters of system
//! calls. `zone` says what of all that a zone needs; `namespace` and `confine` do it.

use super::job::Mount;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A place that shows nothing of the host but what is listed, entered by one command and its tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enclosure {
    /// An existing folder on which the new root is put together; the command does not see it.
    #[serde(with = "super::wire::os_path")]
    pub staging: PathBuf,
    /// What of the system is shown, in this order and before the view's own mounts; targets are made.
    pub system: Vec<Mount>,
    /// The network.
    pub network: Network,
    /// Ports of an own network's loopback that lead to loopexec, handed out in this order.
    pub doors: Vec<u16>,
    /// Bytes of `/dev/shm`.
    pub shm: u64,
    /// The user and group that the command becomes; the launcher's own where there is none.
    pub ids: Option<Ids>,
    /// Programs of the kernel's filter for system calls (`struct sock_filter`, eight bytes each as one
    /// number in the byte order of the machine), loaded in this order.
    pub filters: Vec<Vec<u64>>,
    /// What the command may use up.
    pub limits: Limits,
}

/// A user and a group that are not the launcher's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// User.
    pub uid: u32,
    /// Group; there are no others.
    pub gid: u32,
    /// Whose the files are that it works on.
    pub files: Files,
}

/// Whose the files are that a command works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Files {
    /// The launcher's, and mounts that take writes show them as the command's; on disk they stay the launcher's
    /// (`mount_setattr(2)`, `MOUNT_ATTR_IDMAP`).
    Launchers,
    /// The command's.
    Own,
}

/// What a command reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// That of the host.
    Host,
    /// A loopback of its own and nothing else.
    Own,
}

/// Upper bounds: of one process, of one user where the kernel counts so, or of the whole tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads; counted for the user in its user namespace.
    pub processes: Option<u64>,
    /// Open files of one process.
    pub files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of memory of all processes together; what there is where none is said.
    pub memory: Option<u64>,
    /// Bytes that the file systems may lose while it runs.
    pub disk: u64,
}
