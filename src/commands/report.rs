//! `loopexec report`: a run, rendered from its receipt.

use super::Global;
use super::find::{Found, find_run};
use super::outcome::Outcome;
use super::recorded::Which;
use crate::error::Result;
use crate::receipt::reader;
use crate::receipt::record::{Compare, fold};
use crate::report::collect::{Beside, Collector};
use crate::report::model::{Report, Standing};
use crate::report::render;

/// Options of `report`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which run
    #[command(flatten)]
    pub which: Which,
}

/// Renders a run.
///
/// # Errors
/// `workspace_invalid` when there is no such run, `objective_unverified` when its receipt is altered.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let report = read_report(&find_run(&args.which, global)?)?;
    let mut outcome = Outcome::text("report", render::text(&report));
    describe(&mut outcome, &report);
    Ok(outcome.with("report", &report))
}

/// Folds the receipt of a run into a report.
///
/// # Errors
/// As [`run`].
pub fn read_report(found: &Found) -> Result<Report> {
    let running = found.read_worker()?.is_some();
    let mut collector = Collector::default();
    let folded = fold(&found.run, Compare::Strict, &mut |step| {
        collector.take(&step);
        Ok(())
    })?;
    let first = reader::read(found.run.path())?.next();
    let started = first.and_then(std::result::Result::ok).map(|event| event.time);
    let receipt = found.shown(&found.run.receipt());
    Ok(collector.finish(&folded, Beside { running, started, receipt }))
}

/// Sets the fields that every command about a run has.
pub fn describe(outcome: &mut Outcome, report: &Report) {
    let standing = match report.standing {
        Standing::Converged => "converged",
        Standing::Halted => "halted",
        Standing::Running => "running",
        Standing::Incomplete => "incomplete",
    };
    outcome
        .object
        .set("run_id", &report.run_id)
        .set("standing", standing)
        .set("iterations", report.iterations.len())
        .set("halt_reason", report.halt.as_ref().map(|halt| halt.reason))
        .set("detail", report.halt.as_ref().and_then(|halt| halt.detail.as_ref()));
}
