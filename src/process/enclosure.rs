//! What closes a command in, beside its view: a root of its own, namespaces, limits, filters of system
//! calls; or a container, and what makes it. `zone` says what of all that a zone needs; `namespace`, `container` and `confine` do it.

use super::job::Mount;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::PathBuf;

/// Where in a container what is loopexec's lies; no image has such a folder.
pub(super) const OURS: &str = "/.loopexec";

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
    /// What keeps the command to that.
    pub walls: Walls,
    /// Ports of an own network's loopback that lead to loopexec, handed out in this order.
    pub doors: Vec<u16>,
    /// Bytes of `/dev/shm`.
    pub shm: u64,
    /// Whether sandboxes are made inside: the kernel lets nobody mount a `/proc` of its own where parts of one are covered.
    pub nested: bool,
    /// The user and group that the command becomes; the launcher's own where there is none.
    pub ids: Option<Ids>,
    /// Programs of the kernel's filter for system calls (`struct sock_filter`, eight bytes each as one
    /// number in the byte order of the machine), loaded in this order.
    pub filters: Vec<Vec<u64>>,
    /// What the command may use up.
    pub limits: Limits,
}

/// What keeps a command to what is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Walls {
    /// A root of its own, of mounts; in a container it is the image's.
    Mounts,
    /// Landlock, without any mount: only what is shown at its own place can be.
    Landlock {
        /// Where TCP leads to; without a list it leads everywhere.
        ports: Option<Vec<u16>>,
    },
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
    /// The launcher's, and given to the command where they are its to write to: on file systems that mounts cannot
    /// show as another user's. They have to be our own copies.
    Given,
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
    /// Processes and threads; counted for the user in its user namespace where no control group counts them.
    pub processes: Option<u64>,
    /// Open files of one process.
    pub files: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of memory of all processes together; what there is where none is said.
    pub memory: Option<u64>,
    /// Bytes that the file systems may lose while it runs.
    pub disk: u64,
    /// Whether a control group has to hold the bounds of memory and processes; they are watched where none does.
    pub group: bool,
}

/// Which engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// docker, whose daemon makes containers.
    Docker,
    /// podman, which makes them itself.
    Podman,
}

impl EngineKind {
    /// Returns its word, which is its program's name too.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

/// A container engine, the image that its containers are made from, and what of loopexec goes into them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerEngine {
    /// Its client.
    #[serde(with = "super::wire::os_path")]
    pub program: PathBuf,
    /// Which one.
    pub kind: EngineKind,
    /// The image by its id: a name may be given to another one meanwhile.
    pub image: String,
    /// Folders that the image declares to be volumes.
    pub volumes: Vec<String>,
    /// What its client is told of the caller: where storage or daemon are.
    pub env: Vec<(OsString, OsString)>,
    /// loopexec's own program.
    pub own: OwnProgram,
}

/// This program as a container gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnProgram {
    /// Its file.
    #[serde(with = "super::wire::os_path")]
    pub file: PathBuf,
    /// What loads it, where it is not static; an image may have another one, or none.
    pub loader: Option<OsString>,
    /// Its libraries: the name of each and its file.
    pub libraries: Vec<(String, OsString)>,
}

impl ContainerEngine {
    /// Returns where in a container the socket to its launcher is.
    pub fn control(&self) -> PathBuf {
        PathBuf::from(OURS).join("control")
    }

    /// Returns the words that start loopexec's own program inside.
    pub fn own_words(&self) -> Vec<OsString> {
        let program = format!("{OURS}/loopexec").into();
        match self.own.loader {
            None => vec![program],
            Some(_) => [format!("{OURS}/loader"), "--library-path".into(), format!("{OURS}/lib")]
                .into_iter()
                .map(OsString::from)
                .chain([program])
                .collect(),
        }
    }
}
