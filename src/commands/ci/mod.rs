//! `loopexec ci`: `run` with CI exits, and everything the platform can show.
//!
//! | file | duty |
//! |---|---|
//! | `inputs` | what the action was given |
//! | `job` | which job of which platform this is |
//! | `exits` | which code the job ends with |
//! | `telling` | what is told about a run, gathered once for every surface |
//! | `trusting` | what a pull request's loop is held to |
//! | `resuming` | which earlier run goes on, and who answered its question |
//! | `publish` | the surfaces, one after the other; none of them changes the verdict |
//! | `ledger` | what was told already |
//! | `signals` | since when the job is asked to stop |
//! | `finish` | the end of a run whose process is gone |

pub mod exits;
mod finish;
mod inputs;
mod job;
mod ledger;
mod publish;
mod resuming;
mod signals;
mod telling;
mod trusting;

use super::Global;
use super::outcome::{Outcome, Style, failed, talk};
use super::run::{self, Around, Known, based};
use super::voice;
use crate::ci::platform::Platform;
use crate::error::{Error, Kind, Result};
use crate::report::text::one_line;
use exits::Rules;
use inputs::Inputs;
use job::Job;
use std::path::PathBuf;
use telling::Telling;

/// The variable that holds the text of a loop.
const LOOP: &str = "LOOPEXEC_LOOP";

/// Options of `ci`.
#[derive(Debug, Clone, Default, clap::Args)]
// The options of `run` bring a group of the same name.
#[group(skip)]
pub struct Args {
    /// The loop and its options
    #[command(flatten)]
    pub run: run::Args,
    /// The platform, where it is not the one found in the environment
    #[arg(long, value_name = "NAME")]
    pub platform: Option<String>,
    /// Take the action's inputs from the environment
    #[arg(long)]
    pub action: bool,
    /// Complete what a killed run left undone: the run in this folder, else the one the step noted
    /// (STATE_loopexec_run_dir), else the latest one here if it has no end
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with_all = ["file", "resume", "dry_run"])]
    pub finish: Option<Option<PathBuf>>,
    /// Where files for other tools go (JUnit, SARIF, …): loopexec-reports on every platform but GitHub,
    /// where none are written without it
    #[arg(long, value_name = "DIR")]
    pub reports: Option<PathBuf>,
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Runs the loop, tells the platform, and ends with the job's code.
///
/// # Errors
/// What keeps even that from being told: a bad name of a platform, no run to finish.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    if args.action {
        signals::end_with_the_launcher();
    }
    let platform = platform_of(args.platform.as_deref())
        .inspect_err(|_| voice::speak_to(Platform::detect(variable)))?;
    voice::speak_to(platform);
    if global.json {
        voice::keep_stdout();
    }
    let inputs = match args.action {
        true => Inputs::read(variable),
        false => Ok(Inputs::default()),
    };
    let job = Job::read(platform, inputs.as_ref().ok(), variable);
    if let Some(dir) = &args.finish {
        return finish::run(dir.as_deref(), args, &inputs?, &job, global);
    }
    let inputs = match inputs {
        Ok(inputs) => inputs,
        Err(error) => return Ok(refuse(&error, &Inputs::default(), &job, args)),
    };
    let mut global = global.clone();
    if let Some(folder) = &inputs.working_directory {
        global.workdir = Some(global.workdir.unwrap_or_default().join(folder));
    }
    let mut options = options(args, &inputs);
    if let Err(error) = prepare(&mut options, &inputs, &job, &global) {
        return Ok(refuse(&error, &inputs, &job, args));
    }
    if platform == Platform::None && args.reports.is_none() && !global.quiet {
        talk(
            "note: no CI platform is recognised here, so that the result is told by this output and the exit code alone; `--platform NAME` names one, `--reports DIR` writes files",
        );
    }
    if options.dry_run {
        let mut outcome = run::run_around(&options, &global, &mut Around::default())?;
        outcome.object.set("command", "ci");
        return Ok(outcome);
    }
    let mut opened = |known: &Known| {
        // The run catches signals already.
        signals::watch();
        job.note_run(known, &inputs);
    };
    let mut around = Around { opened: Some(&mut opened), ..Around::default() };
    let outcome = run::run_around(&options, &global, &mut around);
    let known = around.known;
    voice::close_group();
    let mut outcome = outcome.unwrap_or_else(|error| failed("ci", &error, Style::Text));
    outcome.object.set("command", "ci");
    let rules = rules_of(&known, &inputs);
    if options.exit != Some(run::Exit::Plain) {
        exits::apply(&mut outcome, &rules);
    }
    let telling = Telling::of_run(&outcome, &known, &inputs, &job, &rules);
    publish::publish(telling, &inputs, &job, args.reports.as_deref()).show(&mut outcome);
    Ok(outcome)
}

/// Returns the rules of exit codes: the loop's under the action's.
fn rules_of(known: &Known, inputs: &Inputs) -> Rules {
    let mut rules = known.spec.as_deref().map(Rules::of).unwrap_or_default();
    if let Some(names) = &inputs.fail_on {
        rules.fail_on = Some(names.clone());
    }
    rules
}

/// Finds the platform, or takes the one that was named.
fn platform_of(named: Option<&str>) -> Result<Platform> {
    let Some(name) = named.filter(|name| *name != "auto") else {
        return Ok(Platform::detect(variable));
    };
    Platform::ALL.into_iter().find(|platform| platform.name() == name).ok_or_else(|| {
        let names: Vec<&str> = Platform::ALL.iter().map(|platform| platform.name()).collect();
        let shown: String = name.chars().take(40).collect();
        Error::new(Kind::Usage, format!("there is no platform {shown:?}"))
            .hint(format!("it is auto or one of {}", names.join(", ")))
    })
}

/// Puts the options of a run together: the command line, then the action's inputs.
fn options(args: &Args, inputs: &Inputs) -> run::Args {
    let mut options = args.run.clone();
    if let Some(config) = &inputs.config {
        options.config = Some(config.clone());
    }
    if !inputs.accept_isolation.is_empty() {
        options.accept_isolation.clone_from(&inputs.accept_isolation);
    }
    if inputs.resume.is_some() {
        options.resume.clone_from(&inputs.resume);
    }
    options
}

/// Finds the loop, what it is held to, and the run it goes on with.
fn prepare(options: &mut run::Args, inputs: &Inputs, job: &Job, global: &Global) -> Result<()> {
    let caller = trusting::discover(global)?;
    options.inline = match &inputs.text {
        Some(text) => Some(trusting::inline_of("input loop", text, job, &caller)),
        // Where a platform has no inputs, the loop's text stands in a variable of the job.
        None => variable(LOOP)
            .filter(|text| !text.trim().is_empty())
            .map(|text| trusting::inline_of(LOOP, &text, job, &caller)),
    };
    let named = options.file.is_some() || options.config.is_some();
    if options.inline.is_some() && (named || options.from.workflow.is_some()) {
        return Err(Error::new(
            Kind::ConfigInvalid,
            format!("the loop stands in a text ({LOOP} or the input `loop`) and in a file"),
        )
        .hint("give one of the two"));
    }
    if let Some(config) = &options.config
        && based::from_root(&caller, config).is_none()
    {
        let what = format!(
            "the loop file {} is not inside the repository",
            one_line(&config.to_string_lossy(), 200)
        );
        return Err(Error::new(Kind::ConfigInvalid, what)
            .hint("a path from the folder the loop runs in, without a way out of the repository"));
    }
    let trust = job.may_run(inputs, &caller)?;
    trusting::hold(options, trust, inputs, job, &caller)?;
    resuming::choose(options, inputs, job, &caller)
}

/// Tells the platform why nothing was run.
fn refuse(error: &Error, inputs: &Inputs, job: &Job, args: &Args) -> Outcome {
    let mut outcome = failed("ci", error, Style::Text);
    let rules = Rules { fail_on: inputs.fail_on.clone(), ..Rules::default() };
    exits::apply(&mut outcome, &rules);
    let telling = Telling::of_refusal(&outcome, error, inputs, job);
    publish::publish(telling, inputs, job, args.reports.as_deref()).show(&mut outcome);
    outcome
}

/// Says once what a code means that a job would take for a failure.
pub fn say_what_ten_is(exit: run::Exit, quiet: bool) {
    let in_ci = Platform::detect(variable) != Platform::None
        || variable("CI").is_some_and(|value| value == "true" || value == "1");
    if exit == run::Exit::Plain && in_ci && !quiet {
        talk(
            "note: this ends with 10 when the loop converged; `loopexec ci` or `--exit ci` makes that 0",
        );
    }
}
