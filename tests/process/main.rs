//! The one place that runs a command, driven through the real launcher: always in the plain way, and
//! in a pid namespace where this machine gives one. What needs other tools stands in
//! `process_toolchains.rs`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

mod bench;
mod ends;
mod trees;
mod views;
