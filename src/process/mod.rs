//! Child processes: the one place that runs a command.
//!
//! A command never starts directly: `launcher` (this program again, as `loopexec __launch`) stands
//! between, gives it its view of the file system and kills its whole tree, also when loopexec is
//! killed. `supervisor` drives it, `attend` watches one run and `bounds` what it uses up, `keeper` and `namespace` are the
//! launcher's two halves; `root`, `idmap`, `net`, `landlock` and `confine` close a command in. Where a container engine does
//! that, `oci` says what it is told, `container` starts it, and `contained` is process 1. What a command is told of
//! the world stands in `shell`, `environment` and `toolchains`. Where workspace and copies lie is the duty of
//! `workspace`.

mod attend;
mod bounds;
mod cancel;
mod capture;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod contained;
#[cfg(target_os = "linux")]
mod container;
mod enclosure;
pub mod environment;
#[cfg(target_os = "linux")]
mod give;
#[cfg(target_os = "linux")]
mod group;
mod idle;
#[cfg(target_os = "linux")]
mod idmap;
mod job;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(not(target_os = "linux"))]
#[path = "keeper_unix.rs"]
mod keeper;
#[cfg(target_os = "linux")]
mod landlock;
pub mod launcher;
mod memory;
#[cfg(target_os = "linux")]
mod namespace;
mod net;
#[cfg(target_os = "linux")]
mod oci;
mod orphans;
mod probe;
mod procfs;
#[cfg(target_os = "linux")]
mod root;
pub mod shell;
mod spawn;
mod supervisor;
pub mod toolchains;
mod wire;

pub use cancel::Cancel;
pub use capture::Captured;
#[cfg(target_os = "linux")]
pub use confine::word as filter_word;
pub use enclosure::{
    ContainerEngine, Enclosure, EngineKind, Files, Ids, Limits, Network, OwnProgram, Walls,
};
#[cfg(target_os = "linux")]
pub use group::NO_GROUP;
pub use job::{Gate, Job, Mount, NoGate, Observer, Outcome, Silent, Stream, Survivor, View};
#[cfg(target_os = "linux")]
pub use landlock::landlock_abi;
pub use probe::{Capability, OverlayMode, Way, make_work_removable};
pub use supervisor::{Placement, Supervisor};
