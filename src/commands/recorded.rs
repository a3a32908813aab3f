//! Finds what a run recorded, and checks that it holds; no process is run and nothing written.
//!
//! `verify`, `check`, `replay`, `ratchet` and `build-context` start here.

use super::Global;
use crate::config::{self, spec::LoopSpec};
use crate::error::{Error, Kind, Result};
use crate::receipt::bundle;
use crate::receipt::manifest::{Manifest, Why};
use crate::receipt::record::{Compare, Folded, Start, fold};
use crate::receipt::rundir::{DEFAULT_DIR, Home, LATEST, RunDir};
use crate::receipt::state;
pub use crate::receipt::verify::{Verified, verify};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Which run a command is about.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Which {
    /// A run's id, its folder, its receipt or a bundle (.zip); the latest run when left out
    #[arg(long, value_name = "ID|PATH")]
    pub run_id: Option<String>,
}

/// Returns the root of the tree that a command is about: the nearest folder with a run's traces.
///
/// # Errors
/// `workspace_invalid` when neither the folder nor one above it, up to a repository's root, had
/// a run.
pub fn find_root(global: &Global) -> Result<PathBuf> {
    let start = global.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
    let start = std::fs::canonicalize(&start).map_err(|e| {
        Error::io(Kind::WorkspaceInvalid, format!("no folder {}", start.display()), e)
    })?;
    for folder in start.ancestors() {
        let has = |name: &str| std::fs::symlink_metadata(folder.join(name)).is_ok();
        if has(state::FILE) || has(DEFAULT_DIR) {
            return Ok(folder.to_owned());
        }
        // Runs of a tree around this one are not this one's.
        if has(".git") {
            break;
        }
    }
    Err(no_run(&start))
}

/// Returns the folder of all runs of a tree, also where `receipt.dir` named another.
///
/// # Errors
/// `workspace_invalid` when there is none, or it is no real folder.
pub fn find_home(root: &Path) -> Result<Home> {
    // A state file that cannot be read only means that the default is looked at.
    let named = state::read_state(root).ok().flatten().and_then(|state| {
        let runs = state.run_dir.parent()?;
        (runs.file_name()? == "runs").then(|| runs.parent().map(Path::to_owned))?
    });
    for dir in named.iter().map(PathBuf::as_path).chain([Path::new(DEFAULT_DIR)]) {
        if let Some(home) = Home::find(root, dir)? {
            return Ok(home);
        }
    }
    Err(no_run(root))
}

/// A run that was opened, with the folder that a bundle was unpacked into for as long as it is read.
#[derive(Debug)]
pub struct Opened {
    run: RunDir,
    _folder: Option<tempfile::TempDir>,
}

impl std::ops::Deref for Opened {
    type Target = RunDir;

    fn deref(&self) -> &RunDir {
        &self.run
    }
}

/// Opens the run that a command is about.
///
/// # Errors
/// `workspace_invalid` when there is no such run, `usage` for what is neither an id nor a path; a
/// bundle that does not hold is refused as [`verify`] refuses it.
pub fn open(which: &Which, global: &Global) -> Result<Opened> {
    let which = which.run_id.as_deref().unwrap_or(LATEST);
    if bundle::is_bundle_name(which) {
        let folder = tempfile::tempdir().map_err(|e| {
            Error::io(Kind::WorkspaceInvalid, "no temporary folder for the bundle", e)
        })?;
        let run = bundle::unpack(Path::new(which), &folder.path().join("run"))?.run;
        return Ok(Opened { run, _folder: Some(folder) });
    }
    let run =
        match which.contains('/') || which == "." || which == ".." || which.ends_with(".jsonl") {
            true => RunDir::open(Path::new(which))?,
            false => find_home(&find_root(global)?)?.open_run(which)?,
        };
    Ok(Opened { run, _folder: None })
}

/// Opens the run that an answer is about: the one that is named, else the latest that waits for a person.
///
/// # Errors
/// As [`open`].
pub fn open_waiting(which: &Which, global: &Global) -> Result<Opened> {
    if which.run_id.is_none() {
        let runs = find_home(&find_root(global)?)?.read_runs()?;
        let waits = |run: &RunDir| {
            fold(run, Compare::Trusting, &mut |_| Ok(())).is_ok_and(|run| run.waiting.is_some())
        };
        if let Some(run) = runs.into_iter().rev().find(waits) {
            return Ok(Opened { run, _folder: None });
        }
    }
    open(which, global)
}

/// Fails where a bundle left snapshots out that a state would have to be made of.
///
/// # Errors
/// `workspace_invalid` with the detail `no_snapshots`.
pub fn require_snapshots(run: &RunDir) -> Result<()> {
    let manifest = Manifest::read(run.path(), run.id())?;
    let left = manifest.iter().flat_map(|manifest| &manifest.left_out);
    let Some(left) = left.into_iter().find(|left| left.path.starts_with("snapshots.git/")) else {
        return Ok(());
    };
    let why = match (left.why, &left.variable) {
        (Why::Secret, Some(variable)) => format!("a file in them holds the value of {variable}"),
        _ => "they could not be read".to_owned(),
    };
    Err(Error::new(
        Kind::WorkspaceInvalid,
        format!("the bundle of run {} lacks snapshots: {why}", run.id()),
    )
    .detail("no_snapshots")
    .hint("it can be verified; replay and resume need the folder of the run itself"))
}

fn no_run(root: &Path) -> Error {
    Error::new(Kind::WorkspaceInvalid, format!("there was no run in {} yet", root.display()))
        .detail("no_run")
        .hint("loopexec run starts one; --run-id takes a folder or a receipt from elsewhere")
}

/// Fails when a receipt has no final event.
///
/// # Errors
/// `workspace_invalid` with the detail `incomplete`.
pub fn require_end(folded: &Folded) -> Result<()> {
    if folded.end.is_some() {
        return Ok(());
    }
    let what = match folded.torn {
        Some(line) => format!("line {line} of the receipt: it was cut before its end"),
        None => format!("the receipt ends with line {}, without the run's end", folded.events),
    };
    Err(Error::new(Kind::WorkspaceInvalid, what).detail("incomplete").hint(format!(
        "the run goes on, or was killed: loopexec run --resume {} takes it up",
        folded.run_id
    )))
}

/// Returns the loop that a run recorded, as far as a later command needs it: what it runs, where,
/// and what it shows.
///
/// # Errors
/// `workspace_invalid` when the run started no loop, or another release wrote it.
pub fn spec_of(start: &Start) -> Result<LoopSpec> {
    let Value::Object(recorded) = &start.spec else {
        return Err(Error::new(Kind::WorkspaceInvalid, "the run ended before it had a valid loop")
            .detail("no_loop")
            .hint("loopexec explain-halt says what was wrong with it"));
    };
    let mut text = Map::new();
    text.insert("version".into(), json!(1));
    text.insert("model".into(), json!("none"));
    for key in [
        "name",
        "goal",
        "exec",
        "check",
        "setup",
        "workspace",
        "limits",
        "isolation",
        "context",
        "receipt",
    ] {
        let mut value = recorded.get(key).cloned().unwrap_or_default();
        without_nulls(&mut value);
        if let Value::Object(map) = &mut value {
            // Decimal numbers stand as text in a receipt; neither command needs them.
            ["max_flake_rate", "usd"].iter().for_each(|key| drop(map.shift_remove(*key)));
            if map.get("shell").is_some_and(|shell| shell == "auto") {
                map.shift_remove("shell");
            }
        }
        if !value.is_null() {
            text.insert(key.into(), value);
        }
    }
    // JSON is YAML, so what reads loop files reads this.
    let read = config::parse_str(&Value::Object(text).to_string(), "the recorded loop");
    read.map(|resolved| resolved.spec).map_err(|error| {
        Error::new(Kind::WorkspaceInvalid, "the loop in the receipt cannot be read")
            .detail("other_release")
            .hint(format!("loopexec {} wrote it", start.tool_version))
            .because(error)
    })
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_nulls);
    }
}
