//! Ends the receipt of a run whose process is gone, so that what is published is final.
//!
//! Nothing is judged here: what was decided stands, and a run that had not decided was interrupted.

use crate::domain::evidence::Halt;
use crate::domain::fold::Position;
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use crate::receipt::disk::Durability;
use crate::receipt::lock::{Lock, read_holder};
use crate::receipt::record::{Compare, End, Start, fold, kind, to_value};
use crate::receipt::recover::recover;
use crate::receipt::redact::Redactor;
use crate::receipt::rundir::{Home, RunDir};
use crate::receipt::state::{Phase, read_state, write_state};
use crate::receipt::writer::{Options, Writer};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How long a process that still works on the run may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(15);

/// Ends a run that has no end; one that has is left as it is.
///
/// # Errors
/// `workspace_invalid` when a process still works on it, `objective_unverified` when its receipt
/// is altered, `storage_exhausted` when the end cannot be made durable.
pub fn end_receipt(run: &RunDir, home: &Home, root: &Path, redactor: Arc<Redactor>) -> Result<()> {
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
            Position::Halted(_, halt) if halt.reason != HaltReason::SuccessConditionMet => {
                Some(halt.clone())
            }
            _ => None,
        })
        .unwrap_or_else(|| interrupted(run.id()));
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
    let end = End { halt, iterations, elapsed_ms, changed: false };
    let Value::Object(mut body) = to_value(&end)? else {
        return Err(Error::new(Kind::Internal, "the end of a run is no object"));
    };
    body.insert("exit_class".into(), json!(end.halt.reason.class().name()));
    body.insert("exit_code".into(), json!(end.halt.reason.class().code()));
    let head = writer.append_final(body)?;
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

fn interrupted(run_id: &str) -> Halt {
    Halt {
        reason: HaltReason::Interrupted,
        detail: "killed".to_owned(),
        why: "the process that ran the loop was killed before it could end the run".to_owned(),
        hints: vec![format!("go on with it: loopexec run --resume {run_id}")],
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
