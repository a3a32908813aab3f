//! Finds the run that `status`, `report` and `explain-halt` are about, with what lies beside it.
//!
//! Where runs are is `recorded`'s.

use super::Global;
use super::recorded::{self, Opened, Which};
use crate::error::Result;
use crate::receipt::lock::{Holder, read_holder};
use crate::receipt::rundir::Home;
use crate::receipt::state::{LoopState, read_state};
use std::path::{Path, PathBuf};

/// A run that was found.
#[derive(Debug)]
pub struct Found {
    /// The run.
    pub run: Opened,
    /// The tree's state, where it is this run's.
    pub state: Option<LoopState>,
    /// The top of the tree and its runs; none for a run that lies elsewhere.
    tree: Option<(PathBuf, Home)>,
}

/// Finds the run that a command is about.
///
/// # Errors
/// As [`recorded::open`].
pub fn find_run(which: &Which, global: &Global) -> Result<Found> {
    let run = recorded::open(which, global)?;
    let root = recorded::find_root(global).ok();
    let tree = root.and_then(|root| {
        let home = recorded::find_home(&root).ok()?;
        run.path().starts_with(home.path()).then_some((root, home))
    });
    // A state file that cannot be read hides no run: the receipt stands beside it.
    let state = tree.as_ref().and_then(|(root, _)| read_state(root).ok().flatten());
    let state = state.filter(|state| state.run_id == run.id());
    Ok(Found { run, state, tree })
}

impl Found {
    /// Returns a path as people type it: from the root of the tree where it lies inside.
    pub fn shown(&self, path: &Path) -> String {
        let inside = self.tree.as_ref().and_then(|(root, _)| path.strip_prefix(root).ok());
        inside.unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Reads which living process works on the run.
    ///
    /// # Errors
    /// `workspace_invalid` when what stands in the lock's place is no file.
    pub fn read_worker(&self) -> Result<Option<Holder>> {
        let Some((_, home)) = &self.tree else { return Ok(None) };
        let holder = read_holder(&home.lock_path())?;
        Ok(holder.filter(|holder| holder.run_id == self.run.id() && holder.is_running()))
    }
}
