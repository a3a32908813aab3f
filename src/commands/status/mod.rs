//! `loopexec status`: what a run is doing now; with `--follow` a line whenever something changes.
//!
//! `read` gathers it from the small files a run keeps; the receipt is folded only for a run that is
//! not the tree's last one.

mod read;

use super::Global;
use super::find::{Found, find_run};
use super::outcome::{Outcome, say};
use super::recorded::Which;
use crate::error::Result;
use crate::report::text::{duration, one_line, table};
use read::{Status, read_status};
use std::io::IsTerminal;
use std::time::Duration;

/// How often a followed run is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// Options of `status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which run
    #[command(flatten)]
    pub which: Which,
    /// Print a line whenever something changes, until the run ends
    #[arg(short, long)]
    pub follow: bool,
}

/// Shows what a run is doing.
///
/// # Errors
/// `usage` for a bad id, `workspace_invalid` when there is no such run.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let mut found = find_run(&args.which, global)?;
    let mut status = read_status(&found)?;
    if args.follow && status.running {
        // From here on it is this run, whichever is the latest later.
        let which = Which { run_id: Some(found.run.id().to_owned()) };
        let mut shown = Shown::new(global);
        while status.running {
            shown.show(&status);
            std::thread::sleep(LOOK);
            found = find_run(&which, global)?;
            status = read_status(&found)?;
        }
        shown.end();
    }
    Ok(outcome(&found, &status))
}

fn outcome(found: &Found, status: &Status) -> Outcome {
    let receipt = found.shown(&found.run.receipt());
    Outcome::text("status", render(status, &receipt))
        .with("run_id", &status.run_id)
        .with("iterations", status.iteration)
        .with("halt_reason", &status.halt_reason)
        .with("receipt", receipt)
        .with("run", status)
}

fn render(status: &Status, receipt: &str) -> String {
    let mut rows = vec![row("run", &status.run_id), row("state", &standing(status))];
    if status.running {
        rows.push(row("phase", &phase(status)));
    }
    rows.push(row("iteration", &iteration(status)));
    rows.push(row("failing", &failing(status)));
    rows.push(row("time", &time(status)));
    if let Some(decision) = &status.last_decision {
        rows.push(row("decided", decision));
    }
    if let (true, Some(limit)) = (status.running, &status.next_limit) {
        rows.push(row("next limit", limit));
    }
    if !status.open_failures.is_empty() {
        let some: Vec<&str> = status.open_failures.iter().take(5).map(String::as_str).collect();
        rows.push(row("open", &some.join(", ")));
    }
    rows.push(row("receipt", receipt));
    if let Some(next) = &status.next {
        rows.push(row("next", next));
    }
    table(&rows)
}

fn row(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), one_line(value, 400)]
}

fn standing(status: &Status) -> String {
    match (&status.halt_reason, status.pid) {
        (Some(reason), _) => format!("ended: {reason}"),
        (None, Some(pid)) => format!("running (process {pid})"),
        (None, None) => "incomplete: its process is gone".to_owned(),
    }
}

fn phase(status: &Status) -> String {
    match status.phase_ms {
        Some(0) => format!("{}, just begun", status.phase),
        Some(ms) => format!("{} for {}", status.phase, duration(ms / 1000 * 1000)),
        None => status.phase.clone(),
    }
}

fn iteration(status: &Status) -> String {
    match status.iterations_max {
        Some(max) => format!("{} of {max}", status.iteration),
        None => status.iteration.to_string(),
    }
}

fn failing(status: &Status) -> String {
    let number = |n: Option<u64>| n.map_or("?".to_owned(), |n| n.to_string());
    format!(
        "{} now, {} at best, {} at the start",
        number(status.failing),
        number(status.best_failing),
        number(status.baseline_failing)
    )
}

fn time(status: &Status) -> String {
    let used = duration(status.elapsed_ms / 1000 * 1000);
    match status.time_max_ms {
        Some(max) => format!("{used} of {}", duration(max)),
        None => used,
    }
}

/// What a followed run was last shown as.
struct Shown {
    last: String,
    terminal: bool,
    quiet: bool,
}

impl Shown {
    fn new(global: &Global) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self { last: String::new(), terminal, quiet: global.json || global.quiet }
    }

    fn show(&mut self, status: &Status) {
        if self.quiet {
            return;
        }
        let line = one_line(
            &format!(
                "iteration {} · {} · {} failing (best {})",
                iteration(status),
                status.phase,
                status.failing.map_or("?".to_owned(), |n| n.to_string()),
                status.best_failing.map_or("?".to_owned(), |n| n.to_string()),
            ),
            200,
        );
        if self.terminal {
            say(&format!("\r\x1b[2K{line} · {}", time(status)));
        } else if line != self.last {
            say(&format!("{line} · {}\n", time(status)));
        }
        self.last = line;
    }

    fn end(&self) {
        if self.terminal && !self.quiet {
            say("\r\x1b[2K");
        }
    }
}
