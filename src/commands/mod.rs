//! One file per subcommand: its `Args` and its `run`. The only place where real parts are plugged
//! together.
//!
//! `outcome` prints what a command gives; nothing else here writes to stdout.

pub mod ack;
pub mod build_context;
pub mod check;
pub mod ci;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod escalate;
pub mod explain_halt;
pub mod find;
pub mod guards;
pub mod init;
#[cfg(target_os = "linux")]
pub mod isolate;
pub mod man;
pub mod outcome;
pub mod planning;
pub mod project;
pub mod ratchet;
pub mod recorded;
pub mod replay;
pub mod report;
pub mod run;
pub mod schema;
pub mod status;
pub mod verify;
pub mod version;
pub mod voice;

use crate::ci::platform::Platform;
use crate::error::{Error, Kind};
use clap::{Args, Parser, Subcommand};
use outcome::{Outcome, Style};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs an agent and then an external check, again and again, until the check passes and every
/// guard holds, or a computed reason says stop.
#[derive(Debug, Parser)]
#[command(name = "loopexec", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options that every command takes.
    #[command(flatten)]
    pub global: Global,
}

/// Options that every command takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Print exactly one JSON object on stdout
    #[arg(long, global = true)]
    pub json: bool,
    /// Say nothing but the result
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more: what exec and check print, as they print it
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Work on the tree that holds this folder, not the current one
    #[arg(long, global = true, value_name = "DIR")]
    pub workdir: Option<PathBuf>,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented loop file for the project found here
    Init(init::Args),
    /// Check every precondition before money is spent; run no exec and no check
    Doctor(doctor::Args),
    /// Show the protected surface as it stands; run nothing
    Guards(guards::Args),
    /// Run the loop
    Run(Box<run::Args>),
    /// Run the loop with CI exits, and tell the platform all it can show
    Ci(Box<ci::Args>),
    /// Show an honest, a lying and a trespassing agent on a throw-away project
    Demo(demo::Args),
    /// Check a receipt: its chain, its end, and that every decision follows from its facts
    Verify(verify::Args),
    /// Rebuild the end state of a run and check it again, without any agent
    Replay(replay::Args),
    /// Check that state and receipt hold and agree; never runs the check
    Check(check::Args),
    /// Show the accepted frontier of a run, or clear it
    Ratchet(ratchet::Args),
    /// Print the slice of facts that the next exec would see
    BuildContext(build_context::Args),
    /// Show what a run is doing now
    Status(status::Args),
    /// Render a run: its baseline, iterations, evidence and result
    Report(report::Args),
    /// Explain why a run halted and what to do
    ExplainHalt(explain_halt::Args),
    /// Put the question of a run that waits for a person again
    Escalate(escalate::Args),
    /// Answer the question that a run waits with
    Ack(ack::Args),
    /// Run a command in a zone, or show what the zones of this machine hold
    #[cfg(target_os = "linux")]
    Isolate(isolate::Args),
    /// Print the JSON schema of the loop file
    Schema(schema::Args),
    /// Print the completion script of a shell
    Completions(completions::Args),
    /// Print the manual page
    Man(man::Args),
    /// Print the version of the tool and of its formats
    Version(version::Args),
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => "init",
            Self::Doctor(_) => "doctor",
            Self::Guards(_) => "guards",
            Self::Run(_) => "run",
            Self::Ci(_) => "ci",
            Self::Demo(_) => "demo",
            Self::Verify(_) => "verify",
            Self::Replay(_) => "replay",
            Self::Check(_) => "check",
            Self::Ratchet(_) => "ratchet",
            Self::BuildContext(_) => "build-context",
            Self::Status(_) => "status",
            Self::Report(_) => "report",
            Self::ExplainHalt(_) => "explain-halt",
            Self::Escalate(_) => "escalate",
            Self::Ack(_) => "ack",
            #[cfg(target_os = "linux")]
            Self::Isolate(_) => "isolate",
            Self::Schema(_) => "schema",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
            Self::Version(_) => "version",
        }
    }

    /// Says whether its lines may quote an agent, a check or a repository; `ci` chooses its platform
    /// itself, and what the others print is for another program.
    fn quotes_others(&self) -> bool {
        !matches!(
            self,
            Self::Ci(_) | Self::Schema(_) | Self::Completions(_) | Self::Man(_) | Self::Version(_)
        )
    }

    fn run(&self, global: &Global) -> crate::error::Result<Outcome> {
        match self {
            Self::Init(args) => init::run(args, global),
            Self::Doctor(args) => doctor::run(args, global),
            Self::Guards(args) => guards::run(args, global),
            Self::Run(args) => run::run(args, global),
            Self::Ci(args) => ci::run(args, global),
            Self::Demo(args) => demo::run(args, global),
            Self::Verify(args) => verify::run(args, global),
            Self::Replay(args) => replay::run(args, global),
            Self::Check(args) => check::run(args, global),
            Self::Ratchet(args) => ratchet::run(args, global),
            Self::BuildContext(args) => build_context::run(args, global),
            Self::Status(args) => status::run(args, global),
            Self::Report(args) => report::run(args, global),
            Self::ExplainHalt(args) => explain_halt::run(args, global),
            Self::Escalate(args) => escalate::run(args, global),
            Self::Ack(args) => ack::run(args, global),
            #[cfg(target_os = "linux")]
            Self::Isolate(args) => isolate::run(args, global),
            Self::Schema(args) => schema::run(args, global),
            Self::Completions(args) => completions::run(args, global),
            Self::Man(args) => man::run(args, global),
            Self::Version(args) => version::run(args, global),
        }
    }
}

/// Parses the command line, runs the command and prints its outcome.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let style = if args.iter().any(|arg| arg == "--json") { Style::Json } else { Style::Text };
    // clap's own `help` takes names of commands alone.
    let words = args.iter().skip(1).filter(|arg| *arg != "--json");
    let asks_help = words.clone().next().is_some_and(|word| word == "help");
    let parsed = match asks_help {
        true => Cli::try_parse_from(args.iter().take(1).chain(words)),
        false => Cli::try_parse_from(&args),
    };
    let (name, result) = match parsed {
        Ok(cli) => {
            if cli.command.quotes_others() {
                voice::speak_to(Platform::detect(|name| std::env::var(name).ok()));
            }
            trace(&cli.global);
            (cli.command.name(), cli.command.run(&cli.global))
        }
        Err(error) if error.use_stderr() => (known_name(&args), Err(usage_error(&error))),
        // `--help` and `--version` are results.
        Err(error) => {
            let text = error.render().to_string();
            ("help", Ok(Outcome::text("help", text.clone()).with("text", text)))
        }
    };
    outcome::print(name, result, style)
}

/// Sends what parts of loopexec say about their work to stderr: warnings, with `-v` all of it.
fn trace(global: &Global) {
    // GitHub sets it where somebody asked for a job's debug log.
    let debug = std::env::var_os("RUNNER_DEBUG").is_some_and(|value| value == "1");
    let level = match (global.quiet, global.verbose || debug) {
        (true, _) => tracing::Level::ERROR,
        (_, true) => tracing::Level::DEBUG,
        (_, false) => tracing::Level::WARN,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_writer(|| Talk)
        .log_internal_errors(false)
        .with_max_level(level)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .finish();
    // A program that calls this twice keeps the first one.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Standard error, whose end is no reason to end.
struct Talk;

impl std::io::Write for Talk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let _ = std::io::stderr().write_all(voice::harmless(&text).as_bytes());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the first argument that is a subcommand's name, else an empty one: what was typed is not
/// repeated.
fn known_name(args: &[OsString]) -> &'static str {
    use clap::CommandFactory;
    let cli = Cli::command();
    let typed = args.iter().skip(1).filter_map(|arg| arg.to_str());
    let mut known = typed.filter_map(|typed| {
        cli.get_subcommands().map(clap::Command::get_name).find(|name| *name == typed)
    });
    known.next().map_or("", |name| Box::leak(name.to_owned().into_boxed_str()))
}

fn usage_error(error: &clap::Error) -> Error {
    use clap::error::ErrorKind;
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Error::new(Kind::Usage, "no command was given")
            .hint("loopexec run runs the loop of the loop file here")
            .hint("loopexec --help lists the commands");
    }
    let rendered = error.render().to_string();
    let text = crate::report::text::clean(rendered.trim());
    let mut lines = text.lines();
    let first = lines.next().unwrap_or("").trim_start_matches("error: ").to_owned();
    let mut made = Error::new(Kind::Usage, first);
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        made = made.hint(line);
    }
    made
}
