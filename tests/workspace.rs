//! The workspace and its snapshots, against real git and every kind of repository.

#[cfg(test)]
#[path = "workspace/bench.rs"]
mod bench;
#[cfg(test)]
#[path = "workspace/facts.rs"]
mod facts;
#[cfg(test)]
#[path = "workspace/kinds.rs"]
mod kinds;
#[cfg(test)]
#[path = "workspace/snapshots.rs"]
mod snapshots;
