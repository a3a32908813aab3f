//! The detached workspace, the frozen layer, copies, snapshots, delivery.

pub mod at;
pub mod base;
pub mod beneath;
pub mod branch;
pub mod caller;
pub mod carry;
pub mod changes;
pub mod context;
pub mod copies;
pub mod copying;
mod cuts;
pub mod deliver;
pub mod delta;
mod durable;
pub mod edit;
pub mod facts;
mod filling;
pub mod filters;
pub mod gitcmd;
pub mod gitconfig;
pub mod hash;
pub mod history;
pub mod hostile;
pub mod ignored;
pub mod journal;
pub mod known;
pub mod layer;
pub mod make;
pub mod neighbours;
pub mod patch;
pub mod paths;
pub mod places;
pub mod programs;
pub mod restore;
pub mod scan;
pub mod secrets;
pub mod slice;
pub mod snapshot;
mod standing;
pub mod store;
pub mod times;
pub mod tree;
pub mod walk;
pub mod wanted;

/// Asks whether the run was told to stop; polled between files and while git runs.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);
