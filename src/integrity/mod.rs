//! Measuring what a check leaves behind: one parser a file.

pub mod results;
pub mod syntax;
