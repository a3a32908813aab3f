//! How a result reaches a CI platform.
//!
//! | file | duty |
//! |---|---|
//! | `platform` | which platform this is, from the environment |
//! | `subject` | what is told about one run, the same to every platform |
//! | `finding` | what hurts, most important first, with file and line |
//!
//! Everything here reads what was recorded; nothing here can change a verdict. Wiring is the duty of
//! `commands::ci`.

pub mod finding;
pub mod platform;
pub mod subject;
