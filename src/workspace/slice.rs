//! What a context is built from, and what it is once built.
//!
//! Data only; building it is the duty of `context`.

use crate::domain::results::{Failure, IdSet};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What may fill the context, in the order of `context.strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Messages of failing tests, and the files they name.
    Failures,
    /// The diff of the last attempt, and the files it names.
    Diff,
    /// Files that those files import.
    Imports,
}

/// A path that an attempt changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// The path in the workspace.
    pub path: String,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

/// An earlier attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Its iteration, from 1.
    pub iteration: u32,
    /// What it changed.
    pub paths: Vec<ChangedPath>,
    /// How it ended, in one sentence.
    pub ended: String,
}

/// Everything a context is built from.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The goal of the loop file.
    pub goal: Option<&'a str>,
    /// The iteration that comes, from 1.
    pub iteration: u32,
    /// The limit of iterations.
    pub limit: u32,
    /// Ids that fail now.
    pub failing: &'a IdSet,
    /// What is known about them.
    pub failures: &'a [Failure],
    /// A build or a collection that failed before tests could run: its message.
    pub broken: Option<&'a str>,
    /// Breaches, errors and other sentences for the agent; lines after the first are data.
    pub feedback: &'a [String],
    /// Earlier attempts, oldest first.
    pub attempts: &'a [Attempt],
    /// The patch of the last attempt.
    pub diff: Option<&'a [u8]>,
    /// Files that the loop file wants shown.
    pub files: &'a [String],
    /// What may fill the context, in this order.
    pub strategy: &'a [Strategy],
    /// The ceiling, in tokens as `hostile::Weight` estimates them.
    pub tokens: u64,
    /// Absolute folders and what stands for them, see `hostile::map_paths`.
    pub map: &'a [(String, String)],
    /// Reads a file of the snapshot by its path; `None` when there is none.
    pub read: &'a dyn Fn(&str) -> Option<Vec<u8>>,
}

/// A file that the context shows, whole or in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Included {
    /// Its path in the workspace.
    pub path: String,
    /// The sha256 of the whole file, hexadecimal.
    pub sha256: String,
    /// The tokens it takes here, estimated.
    pub tokens: u64,
}

/// A context that is ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Markdown.
    pub text: String,
    /// Its tokens, estimated; never over the ceiling.
    pub tokens: u64,
    /// The files it shows.
    pub manifest: Vec<Included>,
    /// What had no place.
    pub left_out: Vec<String>,
}

/// The ceiling has no room for the goal and one failing test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSmall {
    /// The least ceiling that would do, in tokens.
    pub needed: u64,
    /// The ceiling that was given.
    pub given: u64,
}

impl fmt::Display for TooSmall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the goal and one failing test need {} tokens, but context.tokens is {}",
            self.needed, self.given
        )
    }
}

impl std::error::Error for TooSmall {}
