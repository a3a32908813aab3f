//! Finds the tree a reading command is asked in and the run it is asked about, without running git.
//!
//! Commands that work on the tree find it through `workspace::caller`.

use super::Global;
use crate::error::{Error, Kind, Result};
use crate::receipt::rundir::{DEFAULT_DIR, Home, LATEST, RunDir, check_run_id};
use crate::receipt::state::{self, LoopState, read_state};
use std::path::{Component, Path, PathBuf};

/// Which run a command is about.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Which {
    /// The run's id; the latest one when left out
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
}

/// A run that was found.
#[derive(Debug)]
pub struct Found {
    /// The top of the tree.
    pub root: PathBuf,
    /// All runs of the tree.
    pub home: Home,
    /// The run.
    pub run: RunDir,
    /// The tree's state, where it is this run's.
    pub state: Option<LoopState>,
}

impl Found {
    /// Returns a path as people type it: from the root of the tree where it lies inside.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }
}

/// Finds the run that a command is about.
///
/// # Errors
/// `usage` for a bad id, `workspace_invalid` when there is no such folder or no such run.
pub fn find_run(which: &Which, global: &Global) -> Result<Found> {
    let id = which.run_id.as_deref().unwrap_or(LATEST);
    if id != LATEST {
        check_run_id(id)?;
    }
    let root = find_root(global)?;
    // A state file that cannot be read hides no run: the receipts stand beside it.
    let state = read_state(&root).ok().flatten();
    let named = state.as_ref().and_then(|state| dir_of(&state.run_dir));
    let mut missing = None;
    for dir in named.into_iter().chain([PathBuf::from(DEFAULT_DIR)]) {
        let Some(home) = Home::find(&root, &dir)? else { continue };
        match home.open_run(id) {
            Ok(run) => {
                let state = state.filter(|state| state.run_id == run.id());
                return Ok(Found { root, home, run, state });
            }
            Err(error) => missing = Some(error),
        }
    }
    Err(missing
        .unwrap_or_else(|| {
            let what = format!("there was no run in {} yet", root.display());
            Error::new(Kind::WorkspaceInvalid, what).hint("start one: loopexec run")
        })
        .detail("no_such_run"))
}

/// Returns the top of the tree: the nearest folder, upwards, with runs or a repository in it.
///
/// # Errors
/// `workspace_invalid` when there is no such folder.
pub fn find_root(global: &Global) -> Result<PathBuf> {
    let start = global.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
    let start = std::fs::canonicalize(&start).map_err(|e| {
        Error::io(Kind::WorkspaceInvalid, format!("no folder {}", start.display()), e)
    })?;
    let marks = [state::FILE, DEFAULT_DIR, ".git"];
    let holds = |folder: &&Path| {
        marks.iter().any(|mark| std::fs::symlink_metadata(folder.join(mark)).is_ok())
    };
    Ok(start.ancestors().find(holds).unwrap_or(&start).to_owned())
}

/// Returns the folder of all runs from that of one, where the state names a sane one.
fn dir_of(run_dir: &Path) -> Option<PathBuf> {
    let inside = run_dir.components().all(|part| matches!(part, Component::Normal(_)));
    let runs = run_dir.parent().filter(|runs| runs.ends_with("runs"))?;
    runs.parent().filter(|dir| inside && !dir.as_os_str().is_empty()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_leads_only_to_folders_inside() {
        assert_eq!(dir_of(Path::new(".x/y/runs/R")), Some(PathBuf::from(".x/y")));
        for bad in ["/etc/runs/R", "../x/runs/R", "runs/R", ".x/R", ""] {
            assert_eq!(dir_of(Path::new(bad)), None, "{bad}");
        }
    }

    #[test]
    fn the_tree_is_found_from_below_and_a_plain_folder_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        let global = |at: &Path| Global { workdir: Some(at.to_owned()), ..Global::default() };
        std::fs::create_dir(dir.path().join("a").join(DEFAULT_DIR)).unwrap();
        let found = find_root(&global(&below)).unwrap();
        assert!(found.ends_with("a"), "{found:?}");
        let error = find_run(&Which::default(), &global(&below)).unwrap_err();
        assert_eq!((error.kind, error.detail), (Kind::WorkspaceInvalid, Some("no_such_run")));
        let bad = Which { run_id: Some("../x".into()) };
        assert_eq!(find_run(&bad, &global(&below)).unwrap_err().kind, Kind::Usage);
    }
}
