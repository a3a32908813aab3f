//! In the place of `zoned` on systems where there are no zones: a loop that asks for one is refused.

use super::opening::Ready;
use super::site::Role;
use crate::config::spec::{Backend, Degraded, LoopSpec};
use crate::domain::command::CommandSpec;
use crate::domain::observation::Attempts;
use crate::error::{Error, Kind, Result};
use crate::process::toolchains::Toolchains;
use crate::process::{Enclosure, Gate, Mount, OverlayMode};
use crate::workspace::caller::Caller;
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

/// What there is for a run.
#[derive(Default)]
pub struct Found {
    /// Its zones.
    pub zones: Option<Zoned>,
    /// Why there are none, where the loop takes what is weaker.
    pub stepped_down: Option<String>,
}

/// Finds no zones, and refuses a loop that wants nothing else.
///
/// # Errors
/// `isolation_unsatisfiable`.
pub fn choose(_: &mut Ready, spec: &LoopSpec, _: &Toolchains, _: &Path) -> Result<Found> {
    const WHY: &str = "there are no zones but on Linux";
    let accepted = spec.isolation.accept.contains(&Degraded::None);
    match spec.isolation.backend {
        Backend::None => Ok(Found::default()),
        Backend::Auto if accepted => Ok(Found { zones: None, stepped_down: Some(WHY.to_owned()) }),
        _ => Err(Error::new(Kind::IsolationUnsatisfiable, WHY)
            .hint("isolation: {accept: [none]}   # degraded, and the receipt says so")),
    }
}

/// Returns nothing: no command is closed in.
///
/// # Errors
/// None.
pub fn kept<'a>(_: &Path, _: &str, _: impl Iterator<Item = &'a Path>) -> Result<Vec<Mount>> {
    Ok(Vec::new())
}

impl Closed {
    /// Never called.
    pub(super) fn show_scripts(
        &mut self,
        _: &str,
        _: &CommandSpec,
        _: &Caller,
        _: &Path,
    ) -> Vec<String> {
        Vec::new()
    }
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
    pub fn is_degraded(&self) -> bool {
        match *self {}
    }

    /// Never called.
    pub fn by_landlock(&self) -> bool {
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
