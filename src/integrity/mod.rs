//! Measuring what a check leaves behind: one parser a file.

pub mod advice;
pub mod coverage;
pub mod manifest;
pub mod results;
pub mod surface;
