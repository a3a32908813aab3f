//! GitHub: workflow commands and files, events, pull requests, comments, check runs.

pub mod api;
pub mod check_run;
pub mod commands;
pub mod comment;
pub mod event;
pub mod files;
pub mod pull;
pub mod trust;
