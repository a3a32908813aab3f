//! Finds what a run recorded, and checks that it holds; no process is run and nothing written.
//!
//! `verify`, `check`, `replay`, `ratchet` and `build-context` start here.

use super::Global;
use crate::config::{self, spec::LoopSpec};
use crate::domain::hex;
use crate::domain::observation::{BaselineObservation, CheckRun, Observation, RunFact};
use crate::error::{Error, Kind, Result};
use crate::receipt::blobs::BlobStore;
use crate::receipt::disk::Durability;
use crate::receipt::format::Event;
use crate::receipt::record::{Compare, Folded, Start, Step, fold, kind};
use crate::receipt::rundir::{DEFAULT_DIR, Home, LATEST, RunDir};
use crate::receipt::state;
use serde_json::{Map, Value, json};
use sha2::Digest;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Which run a command is about.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Which {
    /// A run's id, its folder or its receipt; the latest run when left out
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

/// Opens the run that a command is about.
///
/// # Errors
/// `workspace_invalid` when there is no such run, `usage` for what is neither an id nor a path.
pub fn open(which: &Which, global: &Global) -> Result<RunDir> {
    let which = which.run_id.as_deref().unwrap_or(LATEST);
    if which.contains('/') || which == "." || which == ".." || which.ends_with(".jsonl") {
        return RunDir::open(Path::new(which));
    }
    find_home(&find_root(global)?)?.open_run(which)
}

fn no_run(root: &Path) -> Error {
    Error::new(Kind::WorkspaceInvalid, format!("there was no run in {} yet", root.display()))
        .detail("no_run")
        .hint("loopexec run starts one; --run-id takes a folder or a receipt from elsewhere")
}

/// What a whole check of a run's evidence showed.
#[derive(Debug)]
pub struct Verified {
    /// The fold.
    pub folded: Folded,
    /// Blobs that runs name, each read and digested.
    pub blobs: u64,
    /// Whether a patch is recorded; it was digested then.
    pub patch: bool,
}

/// Checks chain, fold, blobs and patch of a run, and shows each step to `visit`.
///
/// # Errors
/// `objective_unverified` names the line that is altered, or that something does not follow from.
pub fn verify(run: &RunDir, visit: &mut dyn FnMut(&Step<'_>)) -> Result<Verified> {
    let store = BlobStore::new(run.blobs(), Durability::Event);
    let (mut blobs, mut patch) = (0, None);
    let folded = fold(run, Compare::Strict, &mut |step| {
        for name in kept(&step) {
            store.read(name)?;
            blobs += 1;
        }
        if let Step::Other(event) = &step
            && event.kind == kind::DELIVERY
        {
            patch = patch_of(event).map(|digest| (event.seq + 1, digest));
        }
        visit(&step);
        Ok(())
    })?;
    if let Some((line, digest)) = &patch {
        check_patch(run, *line, digest)?;
    }
    Ok(Verified { folded, blobs, patch: patch.is_some() })
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

/// Returns the names of the blobs with the output of the commands of a step.
fn kept<'a>(step: &'a Step<'_>) -> Vec<&'a str> {
    let facts: Vec<&RunFact> = match step {
        Step::Baseline(observation) => {
            let BaselineObservation { runs, confirmations, diagnosis, .. } = *observation;
            runs.iter().chain(confirmations).chain(diagnosis).map(|check| &check.run).collect()
        }
        Step::Observed(observation) => {
            let Observation { exec, check, confirmations, set_aside, rerun, .. } = *observation;
            let checks = check.iter().chain(confirmations).chain(set_aside).chain(rerun);
            let checks = checks.map(|check: &CheckRun| &check.run);
            exec.iter().map(|exec| &exec.run).chain(checks).collect()
        }
        _ => Vec::new(),
    };
    facts
        .into_iter()
        .flat_map(|fact| [&fact.stdout, &fact.stderr])
        .filter_map(|stream| stream.kept.as_deref())
        .collect()
}

fn patch_of(event: &Event) -> Option<String> {
    event.body.get("patch")?.get("sha256").and_then(Value::as_str).map(str::to_owned)
}

fn check_patch(run: &RunDir, line: u64, digest: &str) -> Result<()> {
    let path = run.patch();
    let refuse = |why: &str| {
        Error::new(
            Kind::ObjectiveUnverified,
            format!("line {line} of the receipt: the patch {} {why}", path.display()),
        )
        .hint("take patch.diff from where the receipt comes from")
    };
    let real = std::fs::symlink_metadata(&path).is_ok_and(|there| there.is_file());
    let file = File::open(&path).ok().filter(|_| real).ok_or_else(|| refuse("is not there"))?;
    let found = digest_of(file).map_err(|e| refuse("cannot be read").because(e))?;
    match found == digest {
        true => Ok(()),
        false => Err(refuse("is not the one that was delivered")),
    }
}

fn digest_of(mut file: File) -> std::io::Result<String> {
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(&hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
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
    for key in
        ["name", "goal", "exec", "check", "setup", "workspace", "limits", "context", "receipt"]
    {
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
