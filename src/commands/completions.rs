//! `loopexec completions`: what a shell needs to complete the command line.

use super::outcome::Outcome;
use super::{Cli, Global};
use crate::error::Result;
use clap::CommandFactory;
use clap_complete::Shell;

/// Options of `completions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the completion script of a shell.
pub fn run(args: &Args, _global: &Global) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "loopexec", &mut script);
    let text = String::from_utf8_lossy(&script).into_owned();
    Ok(Outcome::text("completions", text.clone())
        .with("shell", args.shell.to_string())
        .with("text", text))
}
