//! What is told about one run, the same to every platform.

use super::finding::Finding;
use crate::report::model::{HaltView, Report};
use std::path::PathBuf;

/// Which loop of which job a text is about; one comment and one artifact name belong to each key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Key {
    /// The workflow: its path in the repository where the platform tells it, else its name.
    pub workflow: String,
    /// The job's id.
    pub job: String,
    /// The matrix as the platform gives it (JSON); empty without one.
    pub matrix: String,
    /// The loop's name.
    pub name: String,
}

/// Which run of the workflow this is; a newer one is never overwritten by an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Turn {
    /// The platform's number of the run; numbers grow.
    pub run: u64,
    /// The attempt, from 1.
    pub attempt: u64,
}

/// Where readers can go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// The page of the job or of the run.
    pub job: Option<String>,
    /// The page of the uploaded bundle.
    pub artifact: Option<String>,
}

/// What is told about one run.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Which loop of which job.
    pub key: Key,
    /// Which run of the workflow.
    pub turn: Turn,
    /// The run's id.
    pub run_id: String,
    /// Why it halted; none while it runs.
    pub halt: Option<HaltView>,
    /// Whether the job fails by it.
    pub fails: bool,
    /// The code the process ends with.
    pub process_exit: u8,
    /// The run as data; none where it was refused before it had a receipt.
    pub report: Option<Report>,
    /// What hurts, most important first; the halt reason is the first one.
    pub findings: Vec<Finding>,
    /// Where readers can go.
    pub links: Links,
    /// The folder of the run; none where it has none.
    pub run_dir: Option<PathBuf>,
    /// The root of the tree that the paths of findings are relative to.
    pub root: PathBuf,
}
