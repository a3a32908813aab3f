//! Per-test results from what one captured run of the check leaves, without editing its command.
//!
//! A [`Probe`] is prepared before the run, gives the variables that make runners talk, listens to
//! the output, and afterwards decides by evidence. Removing old reports and running the check is
//! the caller's; each format has its own file.

mod ctest;
mod golang;
mod gtest;
mod harness;
mod hooks;
mod jsonl;
mod junit;
mod jvm;
mod libtest;
mod libtest_block;
mod lines;
mod nextest;
pub mod parse;
mod probe;
mod prove;
mod reports;
mod rustc;
mod tally;
mod tap;
mod tap_line;
mod teamcity;
#[cfg(test)]
mod traps;

pub use probe::{Out, Probe, RunnerChoice};
pub use reports::{check_globs, default_globs, find_reports, remove_reports};
