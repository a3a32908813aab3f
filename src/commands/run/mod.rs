//! `loopexec run`: runs the loop.
//!
//! `source` says where the loop comes from, `opening` takes it to its first event, `preparing` makes the
//! workspace, `site` is the world the engine acts on, `recorder` where it records, `closing` delivers and ends,
//! `resume` takes up what a killed run left or an answered question (which one is `candidates`'). `surface`,
//! `overlaying` and `sealed` hold a green to the tests of t0; `zoned` closes commands in, `shown` says what more of
//! the machine they see, `in_place` keeps git's folders of the caller's own tree, `credentials` says what exec may be given, `services` resets what the check talks to; `asking` puts a question to a person; `again`
//! makes the surroundings of an ended run for `replay`.

pub mod again;
mod asking;
pub mod based;
pub mod briefing;
mod candidates;
mod checking;
pub mod closing;
pub mod credentials;
pub mod in_place;
pub mod live;
pub mod memory;
pub mod opening;
mod outside;
mod overlaying;
mod preparing;
mod reach;
pub mod recorder;
mod result;
mod resume;
pub mod rules;
mod running;
mod sealed;
mod services;
#[cfg(target_os = "linux")]
mod shown;
pub mod site;
pub mod source;
pub mod start;
pub mod surface;
mod surround;
#[cfg(target_os = "linux")]
pub mod zoned;
#[cfg(not(target_os = "linux"))]
#[path = "unzoned.rs"]
pub mod zoned;

use super::Global;
use super::outcome::Outcome;
use crate::config::Resolved;
use crate::config::spec::LoopSpec;
use crate::domain::fold::Position;
use crate::engine::drive::drive;
use crate::error::{Error, Place, Result};
use crate::receipt::rundir::{DEFAULT_DIR, RunDir};
use crate::workspace::base::BaseFile;
use crate::workspace::caller::Caller;
use std::path::PathBuf;

/// Options of `run`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The loop file; searched for when left out
    pub file: Option<PathBuf>,
    /// The work step, instead of the file's
    #[arg(long, value_name = "CMD")]
    pub exec: Option<String>,
    /// The oracle, instead of the file's
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,
    /// The model: `none` or provider/id
    #[arg(long, value_name = "M")]
    pub model: Option<String>,
    /// Iterations at the most
    #[arg(long, value_name = "N")]
    pub max_iterations: Option<String>,
    /// Wall-clock time at the most, such as 90s, 10m, 2h
    #[arg(long, value_name = "D")]
    pub timeout: Option<String>,
    /// Money at the most, in dollars
    #[arg(long, value_name = "X")]
    pub budget_usd: Option<String>,
    /// The run's id; a ULID when left out
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
    /// One iteration at the most
    #[arg(long, conflicts_with = "max_iterations")]
    pub once: bool,
    /// Go on with a run that was killed, interrupted or waits for an answer: latest, an id, a folder or the FILE.zip of a bundle
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "latest", conflicts_with = "run_id")]
    pub resume: Option<String>,
    /// Print the resolved plan, its digest and where each value came from
    #[arg(long, conflicts_with = "resume")]
    pub dry_run: bool,
    /// The base revision of a pull request: check, guards and isolation come from its loop file, or a
    /// person agrees; of several the first that is here counts
    #[arg(long, value_name = "REV")]
    pub base: Vec<String>,
    /// The loop file of the base, where it was read in another way than with git
    #[arg(skip)]
    pub base_file: Option<BaseFile>,
    /// The revision that the whole loop file comes from, where the checkout's own does not count.
    #[arg(skip)]
    pub loop_from: Option<String>,
    /// A degraded backend that may be used: landlock, seatbelt or none
    #[arg(long, value_name = "B")]
    pub accept_isolation: Vec<String>,
    /// The loop file as the tree holds it, relative to the folder the loop is started in.
    #[arg(skip)]
    pub config: Option<PathBuf>,
    /// Another file that holds the loop.
    #[command(flatten)]
    pub from: source::Workflow,
    /// A loop that stands in no file, such as an input of the action.
    #[arg(skip)]
    pub inline: Option<crate::config::Inline>,
    /// Exit codes: plain are the classes' own (converged is 10), as `run` has it; ci has converged as 0,
    /// as `ci` has it
    #[arg(long, value_name = "plain|ci")]
    pub exit: Option<Exit>,
}

/// Which exit codes a run ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Exit {
    /// The number of the class.
    #[default]
    Plain,
    /// Converged is 0; `exit_codes` and `fail_on` of the loop file hold.
    Ci,
}

/// What whoever starts a run learns of it while it goes and beside its outcome.
#[derive(Default)]
pub struct Around<'a> {
    /// Told once, when the run is known and before anything long begins.
    pub opened: Option<&'a mut dyn FnMut(&Known)>,
    /// What is known of the run.
    pub known: Known,
}

/// What is known of a run before it ended.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Its folder.
    pub run_dir: Option<PathBuf>,
    /// The root of the tree.
    pub root: PathBuf,
    /// The folder it was started in, from the root, with a `/` at its end unless empty.
    pub prefix: String,
    /// The loop, where it could be resolved.
    pub spec: Option<Box<LoopSpec>>,
    /// What is odd about the loop, one sentence each.
    pub warnings: Vec<String>,
    /// The place that a refusal is about.
    pub refused_at: Option<Place>,
}

impl Around<'_> {
    /// Notes what is known and tells whoever waits for it.
    fn open(&mut self, run: &RunDir, caller: &Caller, resolved: Option<&Resolved>) {
        self.known.run_dir = Some(run.path().to_owned());
        self.known.root.clone_from(&caller.root);
        self.known.prefix = opening::prefix_of(caller);
        self.known.spec = resolved.map(|found| Box::new(found.spec.clone()));
        self.known.warnings = resolved.map(|found| found.warnings.clone()).unwrap_or_default();
        if let Some(opened) = self.opened.as_mut() {
            opened(&self.known);
        }
    }
}

/// Returns the flags that override keys of the loop file.
pub fn overrides(args: &Args) -> Vec<(String, String, String)> {
    let mut flags = Vec::new();
    let mut add = |key: &str, value: &Option<String>, flag: &str| {
        if let Some(value) = value {
            flags.push((key.to_owned(), value.clone(), flag.to_owned()));
        }
    };
    add("exec", &args.exec, "--exec");
    add("check", &args.check, "--check");
    add("model", &args.model, "--model");
    add("limits.iterations", &args.max_iterations, "--max-iterations");
    add("limits.iterations", &args.once.then(|| "1".to_owned()), "--once");
    add("limits.time", &args.timeout, "--timeout");
    add("limits.usd", &args.budget_usd, "--budget-usd");
    let accepted = (!args.accept_isolation.is_empty()).then(|| args.accept_isolation.join(","));
    add("isolation.accept", &accepted, "--accept-isolation");
    flags
}

/// Runs the loop.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let exit = args.exit.unwrap_or_default();
    super::ci::say_what_ten_is(exit, global.quiet);
    let mut around = Around::default();
    let mut outcome = run_around(args, global, &mut around)?;
    if exit == Exit::Ci
        && let Some(spec) = &around.known.spec
    {
        super::ci::exits::apply(&mut outcome, &super::ci::exits::Rules::of(spec));
    }
    Ok(outcome)
}

/// Runs the loop and says what it learns on the way.
///
/// # Errors
/// Everything that keeps a run from having a receipt.
pub fn run_around(args: &Args, global: &Global, around: &mut Around<'_>) -> Result<Outcome> {
    if let Some(which) = &args.resume {
        return resume::run(which, args, global, around);
    }
    if let Some(id) = &args.run_id {
        crate::receipt::rundir::check_run_id(id)?;
    }
    let (ready, resolved) = source::prepare(args, global)?;
    if args.dry_run {
        let resolved = resolved?;
        let text = crate::config::render_plan(&resolved);
        return Ok(Outcome::text("run", text)
            .with("plan", crate::config::plan_json(&resolved))
            .with("loop_digest", &resolved.digest));
    }
    let root = ready.caller.root.clone();
    let dir = match &resolved {
        Ok(resolved) => resolved.spec.receipt.dir.clone(),
        Err(_) => DEFAULT_DIR.to_owned(),
    };
    let evidence = opening::open_evidence(&root, &dir, args.run_id.as_deref())?;
    around.open(&evidence.run, &ready.caller, resolved.as_ref().ok());
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(error) => {
            let id = evidence.run.id().to_owned();
            around.known.refused_at = error.place.as_deref().cloned();
            opening::refuse(&evidence, &error)?;
            return Ok(result::refused(error, &id));
        }
    };
    if !global.quiet {
        for warning in &resolved.warnings {
            super::outcome::talk(&format!("warning: {warning}"));
        }
    }
    let id = evidence.run.id().to_owned();
    let (mut opened, start) = match opening::open(ready, &resolved, evidence, global) {
        Ok(opened) => opened,
        Err(error) => return Ok(result::refused(error, &id)),
    };
    go_on(&mut opened, &start, Position::start())
}

/// Drives an opened run to its end and closes it.
fn go_on(
    opened: &mut opening::Opened,
    start: &crate::receipt::record::Start,
    position: Position,
) -> Result<Outcome> {
    let driven = opened
        .recorder
        .write_state()
        .and_then(|()| drive(&opened.plan, position, &mut opened.site, &mut opened.recorder));
    let (history, halt) = match driven {
        Ok(end) => (Some(end.history), end.halt),
        Err(error) => (None, halt_of(&error)),
    };
    let (end, delivery) = closing::close(opened, history.as_ref(), halt)?;
    closing::clean_up(opened);
    Ok(result::ended(opened, start, history.as_ref(), &end, &delivery))
}

fn halt_of(error: &Error) -> crate::domain::evidence::Halt {
    let fault = crate::engine::iterate::fault_of(error);
    crate::domain::evidence::Halt {
        reason: fault.reason,
        detail: fault.detail,
        why: fault.what,
        hints: fault.hints,
    }
}
