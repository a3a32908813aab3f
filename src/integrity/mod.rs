//! Measuring what determines a green: what a check leaves behind, the test surface by name and by
//! syntax, settings, coverage; one parser a file.

pub mod advice;
pub mod coverage;
pub mod manifest;
pub mod results;
pub mod surface;
pub mod syntax;
mod xml;
