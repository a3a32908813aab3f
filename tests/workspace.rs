//! The workspace and its snapshots, against real git and every kind of repository.

#[path = "workspace/bench.rs"]
mod bench;
#[path = "workspace/facts.rs"]
mod facts;
#[path = "workspace/kinds.rs"]
mod kinds;
#[path = "workspace/snapshots.rs"]
mod snapshots;
