//! GitLab: notes, reports and log sections.
//!
//! | file | duty |
//! |---|---|
//! | `job` | what the environment says of the job and its merge request |
//! | `marker` | the first line of a note, which says whose it is |
//! | `note` | one sticky note a key, on the merge request |
//! | `api` | the requests that takes, with the token |
//! | `sections` | collapsible sections of the log |
//!
//! The report files are `formats`'.

pub mod api;
pub mod job;
pub mod marker;
pub mod note;
pub mod sections;

pub use api::{Api, Token};
pub use job::{Job, Origin, Request};
pub use note::{Note, Told, keep_note};
