//! `ci --finish`: ends the receipt of a run whose process is gone, and tells what was not told yet.
//!
//! Nothing is judged here: what was decided stands, and a run that had not decided was interrupted.

use super::inputs::Inputs;
use super::job::Job;
use super::telling::Telling;
use super::{Args, publish, variable};
use crate::commands::Global;
use crate::commands::find::find_run;
use crate::commands::outcome::Outcome;
use crate::commands::recorded::Which;
use crate::commands::report::read_report;
use crate::domain::evidence::Halt;
use crate::domain::fold::Position;
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use crate::receipt::disk::Durability;
use crate::receipt::lock::{Lock, read_holder};
use crate::receipt::question::resume_command;
use crate::receipt::record::{Compare, End, Start, fold, kind, to_value};
use crate::receipt::recover::recover;
use crate::receipt::redact::Redactor;
use crate::receipt::rundir::{Home, RunDir};
use crate::receipt::secrets::DEFAULT_NAMES;
use crate::receipt::state::{self, Phase, read_state, write_state};
use crate::receipt::writer::{Options, Writer};
use crate::report::model::Standing;
use crate::report::text::clean;
use crate::workspace::journal::Journal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How long a process that still works on the run may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(15);

/// Completes what a killed run left: its final event, then what was not told yet.
///
/// # Errors
/// `workspace_invalid` without such a run, and as [`end_receipt`].
pub fn run(
    dir: Option<&Path>,
    args: &Args,
    inputs: &Inputs,
    job: &Job,
    global: &Global,
) -> Result<Outcome> {
    let noted = variable("STATE_loopexec_run_dir").filter(|dir| !dir.is_empty());
    let dir = dir.map(Path::to_owned).or(noted.map(PathBuf::from)).or_else(|| unfinished(global));
    let Some(dir) = dir else {
        // The main step ended before there was a run, and has told so itself.
        let text = match find_run(&Which::default(), global) {
            Ok(found) => format!(
                "nothing to finish: run {id}, the latest, has its end; `loopexec ci --finish {}` tells it again\n",
                clean(&found.run.path().to_string_lossy()),
                id = found.run.id(),
            ),
            Err(_) => "nothing to finish: no run was started\n".to_owned(),
        };
        return Ok(Outcome::text("ci", text).with("finished", false));
    };
    let (home, root) = home_of(&dir)?;
    let run = match RunDir::open(&dir) {
        Ok(run) => run,
        // It was killed before its first event was whole.
        Err(error) => {
            let id = dir.file_name().map(|id| id.to_string_lossy().into_owned());
            let here = home.open_run(id.as_deref().unwrap_or_default())?;
            match here.receipt().metadata().is_ok_and(|found| found.len() > 0) {
                true if error.detail != Some("incomplete") => return Err(error),
                _ => here,
            }
        }
    };
    let redactor = Redactor::new(DEFAULT_NAMES, std::env::vars_os())?;
    end_receipt(&run, &home, &root, Arc::new(redactor))?;
    let mut global = global.clone();
    global.workdir = Some(root);
    let which = Which { run_id: Some(run.path().to_string_lossy().into_owned()) };
    let found = find_run(&which, &global)?;
    let report = read_report(&found)?;
    let telling = Telling::of_report(&report, &run, inputs, job, &global);
    let published = publish::publish(telling, inputs, job, args.reports.as_deref());
    let halt = report.halt.as_ref().map(|halt| halt.reason);
    let reason = halt.map_or("no end", |reason| reason.as_str());
    let mut outcome = Outcome::text("ci", format!("finished run {}: {reason}\n", report.run_id))
        .with("finished", true)
        .with("run_id", &report.run_id)
        .with("recorded", json!({"halt_reason": halt}));
    published.show(&mut outcome);
    Ok(outcome)
}

/// Returns the folder of the latest run here where it has no end; without a step that noted it.
fn unfinished(global: &Global) -> Option<PathBuf> {
    let found = find_run(&Which::default(), global).ok()?;
    let report = read_report(&found).ok()?;
    let is_open = report.standing == Standing::Incomplete;
    is_open.then(|| found.run.path().to_owned())
}

/// Returns the folder of all runs that a run lies in, and the tree it belongs to.
fn home_of(run: &Path) -> Result<(Home, PathBuf)> {
    let lost = || {
        Error::new(Kind::WorkspaceInvalid, "the run does not lie in the folder of a tree's runs")
            .hint("give the folder of a run where it was made, not a copy")
    };
    let path = std::fs::canonicalize(run)
        .map_err(|e| Error::io(Kind::WorkspaceInvalid, "the run's folder is not there", e))?;
    let runs = path.parent().filter(|folder| folder.ends_with("runs")).ok_or_else(lost)?;
    let home = runs.parent().ok_or_else(lost)?;
    for tree in home.ancestors().skip(1) {
        let marked = tree.join(state::FILE).exists() || tree.join(".git").exists();
        let Ok(dir) = home.strip_prefix(tree) else { continue };
        if marked && let Some(found) = Home::find(tree, dir)? {
            return Ok((found, tree.to_owned()));
        }
    }
    let tree = home.parent().ok_or_else(lost)?;
    let dir = home.file_name().ok_or_else(lost)?;
    let found = Home::find(tree, Path::new(dir))?.ok_or_else(lost)?;
    Ok((found, tree.to_owned()))
}

/// Ends a run that has no end; one that has is left as it is.
///
/// # Errors
/// `workspace_invalid` when a process still works on it, `objective_unverified` when its receipt
/// is altered, `storage_exhausted` when the end cannot be made durable.
fn end_receipt(run: &RunDir, home: &Home, root: &Path, redactor: Arc<Redactor>) -> Result<()> {
    let lock = wait_for_lock(run, home)?;
    let known = match fold(run, Compare::Strict, &mut |_| Ok(())) {
        Ok(folded) if folded.end.is_some() && folded.torn.is_none() => return Ok(()),
        Ok(folded) => Some(folded),
        // Not one whole event: there is nothing to fold.
        Err(error) if error.detail == Some("incomplete") || !run.receipt().exists() => None,
        Err(error) => return Err(error),
    };
    let iterations = known.as_ref().and_then(|folded| folded.history()).map_or(0, |h| h.iterations);
    let elapsed_ms = known.as_ref().map_or(0, |folded| folded.elapsed_ms);
    let halt = known
        .as_ref()
        .and_then(|folded| match &folded.position {
            // A success that was not delivered is none yet; all else was decided.
            Position::Halted(_, halt)
                if halt.reason != HaltReason::SuccessConditionMet || folded.delivery.is_some() =>
            {
                Some(halt.clone())
            }
            _ => None,
        })
        .unwrap_or_else(|| {
            let caller = known.as_ref().map_or(&Value::Null, |folded| &folded.start.caller);
            let delivering = Journal::read(run.path()).is_ok_and(|begun| begun.is_some());
            interrupted(&resume_command(run.id(), caller), delivering)
        });
    let state = read_state(root).ok().flatten().filter(|state| state.run_id == run.id());
    let expected = state.as_ref().and_then(|state| state.receipt_head.clone());
    let options = Options {
        durability: Durability::Event,
        redactor: Some(redactor.clone()),
        clock: SystemTime::now,
    };
    let has_receipt = run.receipt().metadata().is_ok_and(|found| found.len() > 0);
    let mut writer = if known.is_some() || has_receipt {
        recover(run, &lock, expected.as_ref(), options)?.writer
    } else {
        // What a kill left of the file holds nothing.
        let _ = std::fs::remove_file(run.receipt());
        Writer::create(run, &lock, options)?
    };
    if known.is_none() {
        append_start(&mut writer)?;
    }
    let delivered = known.as_ref().and_then(|folded| folded.delivery.as_ref());
    let files = delivered.and_then(|delivery| delivery.get("patch")?.get("files")?.as_u64());
    let changed = files.is_some_and(|files| files > 0);
    let end = End { halt, iterations, elapsed_ms, changed };
    let head = writer.append_final(end.body()?)?;
    if let Some(mut state) = state {
        state.receipt_head = Some(head);
        state.phase = Phase::Ended;
        state.halt_reason = Some(end.halt.reason.as_str().to_owned());
        // The final event is what counts.
        let _ = write_state(root, &state, Some(&redactor));
    }
    Ok(())
}

fn append_start(writer: &mut Writer) -> Result<()> {
    let start: Start = crate::commands::run::start::bare_start(None);
    if let Value::Object(body) = to_value(&start)? {
        writer.append(kind::RUN_START, body)?;
    }
    Ok(())
}

fn interrupted(resume: &str, delivering: bool) -> Halt {
    let mut why = "the process that ran the loop was killed before it could end the run".to_owned();
    if delivering {
        why.push_str("; a part of the result stands in your tree, and resuming completes it");
    }
    Halt {
        reason: HaltReason::Interrupted,
        detail: "killed".to_owned(),
        why,
        hints: vec![format!("go on with it: {resume}")],
    }
}

/// Takes the lock of the tree; a process that still ends its run gets the time to do so.
fn wait_for_lock(run: &RunDir, home: &Home) -> Result<Lock> {
    let began = Instant::now();
    loop {
        match home.acquire_lock(run.id()) {
            Ok(lock) => return Ok(lock),
            Err(error) if error.detail != Some("locked") || began.elapsed() > PATIENCE => {
                return Err(error);
            }
            Err(_) => {
                // The holder of another run is not waited for: it may take hours.
                let holder = read_holder(&home.lock_path())?;
                if holder.is_some_and(|holder| holder.run_id != run.id()) {
                    return home.acquire_lock(run.id());
                }
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }
}
