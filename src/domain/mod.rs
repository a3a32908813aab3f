//! The pure nouns and rules of a bounded loop.
//!
//! Nothing here touches a file, a process, a clock, the network or the environment.

pub mod absent;
pub mod canaries;
pub mod command;
pub mod convergence;
pub mod decide;
pub mod evidence;
pub mod flake;
pub mod fold;
pub mod gate;
pub mod guard;
pub mod hermetic;
pub mod hex;
pub mod history;
pub mod judge;
pub mod judge_baseline;
pub mod normalise;
pub mod observation;
pub mod overlaid;
pub mod plan;
pub mod reason;
pub mod results;
pub mod surface;
pub mod target;
pub mod weakening;
mod whereabouts;
