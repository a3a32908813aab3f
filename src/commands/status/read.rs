//! Gathers what a run is doing: who holds the lock, `live.json`, `.loop_state.json`, and the first
//! and last event of its receipt.

use crate::commands::find::Found;
use crate::commands::report::read_report;
use crate::commands::run::live::{self, Now, seconds};
use crate::error::{Error, Kind, Result};
use crate::receipt::format::{self, Event, MAX_LINE, RUN_END};
use crate::report::model::Report;
use crate::report::text::duration;
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The largest `live.json` that is read, in bytes.
const MAX_LIVE: u64 = 64 * 1024;

/// What a run is doing.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Status {
    /// Its id.
    pub run_id: String,
    /// Whether a process works on it.
    pub running: bool,
    /// That process.
    pub pid: Option<u32>,
    /// What it does, or did last.
    pub phase: String,
    /// Milliseconds in that phase.
    pub phase_ms: Option<u64>,
    /// The iteration, 0 for the baseline.
    pub iteration: u64,
    /// Iterations at the most.
    pub iterations_max: Option<u64>,
    /// Milliseconds used.
    pub elapsed_ms: u64,
    /// Milliseconds that may be used.
    pub time_max_ms: Option<u64>,
    /// Failing ids after the last check.
    pub failing: Option<u64>,
    /// The smallest number so far.
    pub best_failing: Option<u64>,
    /// Failing ids of the baseline.
    pub baseline_failing: Option<u64>,
    /// Failing ids by name, at most as many as the state file holds.
    pub open_failures: Vec<String>,
    /// What the last decision was.
    pub last_decision: Option<String>,
    /// The limit that is nearest, in words.
    pub next_limit: Option<String>,
    /// Why it halted.
    pub halt_reason: Option<String>,
    /// The command that goes on from here.
    pub next: Option<String>,
}

/// Reads what a run is doing.
///
/// # Errors
/// `objective_unverified` or `workspace_invalid` when its receipt cannot be read.
pub fn read_status(found: &Found) -> Result<Status> {
    let holder = found.read_worker()?;
    let mut status = Status {
        run_id: found.run.id().to_owned(),
        running: holder.is_some(),
        pid: holder.map(|holder| holder.pid),
        ..Status::default()
    };
    let last = read_last_event(&found.run.receipt())?;
    let end = last.filter(|event| event.kind == RUN_END);
    take_live(&mut status, &found.run.path().join(live::FILE));
    let listed = found.state.as_ref().filter(|state| state.baseline.is_some());
    match listed {
        Some(state) => {
            status.iteration = status.iteration.max(state.iteration);
            status.failing = state.failing;
            status.best_failing = state.best_failing;
            status.open_failures.clone_from(&state.open_failures);
            status.last_decision.clone_from(&state.last_decision);
            let failing = state.baseline.as_ref().and_then(|baseline| baseline.get("failing"));
            status.baseline_failing = failing.and_then(Value::as_u64);
            status.elapsed_ms = status.elapsed_ms.max(state.spend.wall_ms);
        }
        // Another run is the tree's last one, or this one has no baseline yet.
        None if !status.running => take_report(&mut status, &read_report(found)?),
        None => {}
    }
    if let Some(end) = &end {
        take_end(&mut status, end);
    }
    status.next_limit = status.running.then(|| next_limit(&status)).flatten();
    status.next = next(&status);
    Ok(status)
}

fn take_live(status: &mut Status, path: &Path) {
    let now = read_bounded(path).and_then(|text| serde_json::from_slice::<Now>(&text).ok());
    let Some(now) = now else {
        status.phase = "starting".to_owned();
        return;
    };
    status.iteration = u64::from(now.iteration);
    status.iterations_max = Some(u64::from(now.iterations_max));
    status.time_max_ms = (now.time_max_ms > 0).then_some(now.time_max_ms);
    status.elapsed_ms = now.elapsed_ms;
    if status.running {
        let phase_ms = seconds().saturating_sub(now.since) * 1000;
        status.phase_ms = Some(phase_ms);
        status.elapsed_ms += phase_ms;
    }
    status.phase = now.phase;
}

fn read_bounded(path: &Path) -> Option<Vec<u8>> {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let file = is_file.then(|| File::open(path).ok()).flatten()?;
    let mut text = Vec::new();
    file.take(MAX_LIVE).read_to_end(&mut text).ok()?;
    Some(text)
}

fn take_report(status: &mut Status, report: &Report) {
    let size = |ids: &[String]| Some(ids.len() as u64);
    let baseline = report.baseline.as_ref().filter(|baseline| baseline.measured);
    status.iteration = report.iterations.len() as u64;
    status.elapsed_ms = report.elapsed_ms;
    status.baseline_failing = baseline.and_then(|b| size(&b.failing));
    let last = report.iterations.iter().rev().find(|iteration| iteration.measured);
    status.failing = last.map_or(status.baseline_failing, |last| size(&last.failing));
    let measured = report.iterations.iter().filter(|iteration| iteration.measured);
    let sizes = measured.map(|iteration| iteration.failing.len() as u64);
    status.best_failing = sizes.chain(status.baseline_failing).min();
    status.open_failures = match (last, baseline) {
        (Some(last), _) => last.failing.clone(),
        (None, Some(baseline)) => baseline.failing.clone(),
        (None, None) => Vec::new(),
    };
    status.open_failures.truncate(200);
}

fn take_end(status: &mut Status, end: &Event) {
    let body = &end.body;
    status.phase = "ended".to_owned();
    status.halt_reason = body.get("reason").and_then(Value::as_str).map(str::to_owned);
    if let Some(iterations) = body.get("iterations").and_then(Value::as_u64) {
        status.iteration = iterations;
    }
    if let Some(elapsed) = body.get("elapsed_ms").and_then(Value::as_u64) {
        status.elapsed_ms = elapsed;
    }
    if status.last_decision.is_none() {
        status.last_decision = Some("halt".to_owned());
    }
}

/// Names the cap of which the larger part is used up.
fn next_limit(status: &Status) -> Option<String> {
    let (iterations, time) = (status.iterations_max?, status.time_max_ms?);
    // Compared crosswise: used / cap without dividing.
    let by_iterations = u128::from(status.iteration) * u128::from(time);
    let by_time = u128::from(status.elapsed_ms) * u128::from(iterations);
    Some(match by_iterations >= by_time {
        true => format!("iterations, {} left", iterations.saturating_sub(status.iteration)),
        false => format!("time, {} left", duration(time.saturating_sub(status.elapsed_ms))),
    })
}

fn next(status: &Status) -> Option<String> {
    let id = &status.run_id;
    match (&status.halt_reason, status.running) {
        (Some(reason), _) if reason == "success_condition_met" => None,
        (Some(_), _) => Some(format!("loopexec explain-halt --run-id {id}")),
        (None, false) => Some(format!("loopexec run --resume {id}")),
        (None, true) => None,
    }
}

/// Reads the last whole event of a receipt without reading the others.
///
/// # Errors
/// `workspace_invalid` when there is none or it cannot be read.
fn read_last_event(receipt: &Path) -> Result<Option<Event>> {
    let failed =
        |e| Error::io(Kind::WorkspaceInvalid, format!("cannot read {}", receipt.display()), e);
    let mut file = match File::open(receipt) {
        Ok(file) => file,
        // A run that has just made its folder has no event yet.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let length = file.metadata().map_err(failed)?.len();
    for window in [16 * 1024, MAX_LINE as u64 + 1] {
        let start = length.saturating_sub(window);
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut tail = Vec::new();
        (&mut file).take(window).read_to_end(&mut tail).map_err(failed)?;
        if let Some(line) = last_line(&tail, start == 0) {
            return Ok(format::decode(line).ok());
        }
    }
    Ok(None)
}

/// Returns the last line that has its newline and its beginning.
fn last_line(tail: &[u8], from_start: bool) -> Option<&[u8]> {
    let end = tail.iter().rposition(|byte| *byte == b'\n')?;
    match tail[..end].iter().rposition(|byte| *byte == b'\n') {
        Some(before) => Some(&tail[before + 1..=end]),
        None => from_start.then(|| &tail[..=end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_line_is_found() {
        assert_eq!(last_line(b"a\nb\nto", true), Some(&b"b\n"[..]));
        assert_eq!(last_line(b"a\n", true), Some(&b"a\n"[..]));
        assert_eq!(last_line(b"cut\n", false), None);
        assert_eq!(last_line(b"", true), None);
    }

    #[test]
    fn the_nearest_limit_is_the_one_most_used_up() {
        let mut status = Status {
            iteration: 8,
            iterations_max: Some(10),
            elapsed_ms: 60_000,
            time_max_ms: Some(600_000),
            ..Status::default()
        };
        assert_eq!(next_limit(&status).as_deref(), Some("iterations, 2 left"));
        status.elapsed_ms = 590_000;
        assert_eq!(next_limit(&status).as_deref(), Some("time, 10.0 s left"));
        status.time_max_ms = None;
        assert_eq!(next_limit(&status), None);
    }
}
