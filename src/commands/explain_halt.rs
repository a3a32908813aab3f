//! `loopexec explain-halt`: why a run halted, what shows it, what to do; or what a reason means.

use super::Global;
use super::find::find_run;
use super::outcome::Outcome;
use super::recorded::Which;
use super::report::{describe, read_report};
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use crate::report::case::{explain_run, render};
use crate::report::explain::{explain, next_command};
use crate::report::model::Standing;
use crate::report::text::one_line;

/// The Jaro-Winkler likeness from which a reason may have been meant: `no_progres` has more, `foo` less.
const NEAR: f64 = 0.85;

/// Options of `explain-halt`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A halt reason to explain in general; left out: why the run halted
    #[arg(value_name = "REASON", conflicts_with = "run_id")]
    pub reason: Option<String>,
    /// Which run
    #[command(flatten)]
    pub which: Which,
}

/// Explains a halt.
///
/// # Errors
/// `usage` for an unknown reason, else as `report`.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    match &args.reason {
        Some(reason) => explain_reason(reason),
        None => explain_one(&args.which, global),
    }
}

fn explain_reason(name: &str) -> Result<Outcome> {
    let reason = HaltReason::from_name(name).ok_or_else(|| unknown(name))?;
    let found = explain(reason);
    let class = reason.class();
    let next = next_command(&found, None);
    let text = format!(
        "{reason} (exit {}, {})\n\n{}\n\nWhat to do: {}\n  {}\n\nNext: {next}\n",
        class.code(),
        class.name(),
        found.what,
        found.advice.word(),
        found.mend
    );
    Ok(Outcome::text("explain-halt", text)
        .with("halt_reason", reason)
        .with("reason_class", class.name())
        .with("reason_code", class.code())
        .with("explanation", found)
        .with("next", next))
}

fn explain_one(which: &Which, global: &Global) -> Result<Outcome> {
    let report = read_report(&find_run(which, global)?)?;
    let Some(halt) = &report.halt else {
        let (what, next) = match report.standing {
            Standing::Running => {
                ("is running and has not halted", "loopexec status --follow".into())
            }
            _ => (
                "has no end: its process was killed before it could write one",
                report.resume.clone(),
            ),
        };
        let text = format!("run {} {what}\n\nNext: {next}\n", report.run_id);
        let mut outcome = Outcome::text("explain-halt", text);
        describe(&mut outcome, &report);
        return Ok(outcome.with("why", what).with("next", next));
    };
    let case = explain_run(&report, halt);
    let mut outcome = Outcome::text("explain-halt", render(&report, halt, &case));
    describe(&mut outcome, &report);
    Ok(outcome
        .with("reason_class", halt.exit_class)
        .with("reason_code", halt.exit_code)
        .with("why", &halt.why)
        .with("next", &case.next)
        .with("explanation", &case))
}

fn unknown(name: &str) -> Error {
    let likeness = |reason: &HaltReason| strsim::jaro_winkler(name, reason.as_str());
    let near = HaltReason::ALL.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let what = format!("there is no halt reason `{}`", one_line(name, 60));
    let error = Error::new(Kind::Usage, what);
    match near.filter(|reason| likeness(reason) >= NEAR) {
        Some(reason) => error.hint(format!("the nearest one is {reason}")),
        None => error.hint(
            "the README lists all of them; a run's own is what `loopexec explain-halt` explains",
        ),
    }
}
