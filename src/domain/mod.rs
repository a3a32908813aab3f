//! The pure nouns and rules of a bounded loop.
//!
//! Nothing here touches a file, a process, a clock, the network or the environment.

pub mod command;
pub mod hex;
pub mod normalise;
pub mod results;
