//! `loopexec build-context`: the slice of facts that the next exec of a run would see.
//!
//! It is built from what the run recorded, by the code that a run builds it with.

use super::Global;
use super::outcome::{Outcome, talk};
use super::recorded::{self, Which};
use super::run::briefing::{Brief, build};
use super::run::memory::Memory;
use crate::config::{self, Inputs};
use crate::domain::fold::is_resumable;
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use crate::report::text::clean;
use crate::workspace::places::{Places, Surroundings};
use crate::workspace::store::Store;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Options of `build-context`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The loop file to take goal and context settings from; left out: those of the run
    pub file: Option<PathBuf>,
    /// Which run.
    #[command(flatten)]
    pub which: Which,
}

/// Prints the slice.
///
/// # Errors
/// `workspace_invalid` when there is no run, or it has no baseline; `config_invalid` when the slice
/// does not fit its ceiling.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let run = recorded::open(&args.which, global)?;
    let mut memory = Memory::default();
    let folded = recorded::verify(&run, &mut |step| memory.take(step))?.folded;
    let (run_id, end) = (folded.run_id.clone(), folded.end.clone());
    // What was cut short is done again, so its own iteration is the one that comes.
    let (start, position) = folded.reopen();
    let history = position.history().ok_or_else(|| {
        Error::new(
            Kind::WorkspaceInvalid,
            format!("run {run_id} has no baseline, so nothing is known to show"),
        )
        .detail("no_baseline")
        .hint("loopexec run measures one; loopexec explain-halt says why this run has none")
    })?;
    let spec = match &args.file {
        Some(file) => {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            let start = file.parent().unwrap_or(Path::new("/")).to_owned();
            let env = std::env::vars_os().collect();
            config::load(&Inputs { start, top: None, file: Some(file), flags: Vec::new(), env })?
                .spec
        }
        None => recorded::spec_of(&start)?,
    };
    let store = Store::open(&run.snapshots())?;
    let map = places_to_hide(global, &run_id);
    let iteration = history.iterations + 1;
    let Brief { slice, failures } = build(&spec, &store, &memory, history, iteration, &map)?;
    let failures: Value = serde_json::from_str(&failures)
        .map_err(|e| Error::new(Kind::Internal, "the failures are no JSON").because(e))?;
    let manifest: Vec<Value> = slice
        .manifest
        .iter()
        .map(|item| json!({"path": item.path, "sha256": item.sha256, "tokens": item.tokens}))
        .collect();
    let mut text = clean(&slice.text);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let reason = end.map(|end| end.halt.reason);
    let shown = say_shown(&run_id, iteration, reason);
    if !global.quiet && !global.json {
        // Beside the slice, so that what is piped on is the slice alone.
        talk(&shown);
    }
    Ok(Outcome::text("build-context", text)
        .with("run_id", &run_id)
        .with("ended", reason.is_some())
        .with("halt_reason", reason)
        .with("shown", &shown)
        .with("iteration", iteration)
        .with("context", &slice.text)
        .with("tokens", slice.tokens)
        .with("ceiling", spec.context.tokens)
        .with("manifest", manifest)
        .with("left_out", &slice.left_out)
        .with("failures", failures))
}

/// Says whose context is shown, and what became of the run.
fn say_shown(run_id: &str, iteration: u32, reason: Option<HaltReason>) -> String {
    match reason {
        None => format!("run {run_id} has not ended: what its iteration {iteration} is shown"),
        Some(reason) if is_resumable(reason) => format!(
            "run {run_id} has ended ({reason}): what iteration {iteration} is shown by loopexec run --resume {run_id}"
        ),
        Some(reason) => format!(
            "run {run_id} has ended ({reason}) after {} iterations: what an iteration {iteration} would be shown",
            iteration - 1
        ),
    }
}

/// Returns the absolute places that messages name and exec is shown as relative ones.
fn places_to_hide(global: &Global, run_id: &str) -> Vec<(String, String)> {
    let Ok(root) = recorded::find_root(global) else { return Vec::new() };
    let around = Surroundings::read(|name| std::env::var_os(name));
    let workspace =
        Places::of(&root, run_id, &around).ok().map(|places| places.cache.join("workspace"));
    workspace
        .into_iter()
        .chain([root])
        .map(|path| (path.to_string_lossy().into_owned(), String::new()))
        .collect()
}
