//! The receipt bundle as an artifact of a GitHub run.
//!
//! | file | duty |
//! |---|---|
//! | `service` | where artifacts are kept, and as whom: read from the job's environment |
//! | `name` | what an artifact is called, and for how long it is kept |
//! | `upload` | the protocol: create, blocks, list of blocks, finalize |
//! | `latest` | the newest bundle of a loop, for `resume: latest` |
//!
//! Source of the protocol: `packages/artifact` of github.com/actions/toolkit, version 4 of its API,
//! which GitHub, Gitea from 1.23 and `act` speak. Nothing here decides anything about a run: what
//! fails is one sentence, and the files stay where they are.

mod latest;
mod name;
mod service;
mod upload;

pub use latest::{Latest, Listed, Origin, Shelf, Wanted, fetch_latest};
pub use name::{base_name, check_name, default_name, retention};
pub use service::{NotAvailable, ResultsService};
pub use upload::{Request, Uploaded, upload};
