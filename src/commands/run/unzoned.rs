//! In the place of `zoned` on systems where there are no zones: a loop that asks for one is refused.

use super::opening::Ready;
use super::site::Role;
use crate::config::spec::LoopSpec;
use crate::domain::observation::Attempts;
use crate::error::{Error, Kind, Result};
use crate::process::toolchains::Toolchains;
use crate::process::{Enclosure, Gate, Mount, OverlayMode};
use serde_json::Value;
use std::path::Path;

/// There is none.
pub enum Zoned {}

/// What closes one command in.
pub struct Closed {
    /// For the supervisor.
    pub enclosure: Enclosure,
    /// For whom it was made.
    pub(super) role: Role,
    /// What the command is told of it.
    pub variables: Vec<(String, String)>,
}

/// Refuses a loop that asks for zones.
///
/// # Errors
/// `isolation_unsatisfiable`.
pub fn choose(_: &mut Ready, spec: &LoopSpec, _: &Toolchains, _: &Path) -> Result<Option<Zoned>> {
    match spec.isolation.backend.isolates() {
        false => Ok(None),
        true => Err(Error::new(Kind::IsolationUnsatisfiable, "there are no zones but on Linux")
            .hint("isolation: {backend: none}   # degraded, and the receipt says so")),
    }
}

/// Returns nothing: no command is closed in.
///
/// # Errors
/// None.
pub fn kept(_: &Path, _: &str) -> Result<Vec<Mount>> {
    Ok(Vec::new())
}

impl Zoned {
    /// Never called.
    pub fn prepare(&self) -> Result<()> {
        match *self {}
    }

    /// Never called.
    pub fn overlay(&self) -> OverlayMode {
        match *self {}
    }

    /// Never called.
    pub fn backend(&self) -> &'static str {
        match *self {}
    }

    /// Never called.
    pub fn tools(&self) -> Option<&Toolchains> {
        match *self {}
    }

    /// Never called.
    pub fn image(&self) -> Option<&str> {
        match *self {}
    }

    /// Never called.
    pub fn facts(&self) -> Value {
        match *self {}
    }

    /// Never called.
    pub(super) fn enclose(&self, _: Role) -> Result<Closed> {
        match *self {}
    }

    /// Never called.
    pub(super) fn gate(&mut self, _: &Closed) -> &mut dyn Gate {
        match *self {}
    }

    /// Never called.
    pub fn take_attempts(&mut self) -> Option<Attempts> {
        match *self {}
    }
}

/// Says in one line what was tried and refused.
pub fn refused(_: &Attempts) -> Vec<String> {
    Vec::new()
}
