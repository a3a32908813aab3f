//! `loopexec man`: the manual page of the program, or one file for each command.

use super::outcome::Outcome;
use super::{Cli, Global};
use crate::error::{Error, Kind, Result};
use clap::CommandFactory;
use std::path::PathBuf;

/// Options of `man`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write one page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// Prints the manual page, or writes all of them.
pub fn run(args: &Args, _global: &Global) -> Result<Outcome> {
    let mut all = Cli::command();
    all.build();
    let Some(dir) = &args.dir else {
        let text = page(all)?;
        return Ok(Outcome::text("man", text.clone()).with("text", text));
    };
    let failed = |e| {
        let what = format!("cannot write manual pages into {}", dir.display());
        Error::io(Kind::WorkspaceInvalid, what, e)
    };
    std::fs::create_dir_all(dir).map_err(failed)?;
    let commands = all.get_subcommands().filter(|command| command.get_name() != "help").cloned();
    let mut pages = vec![("loopexec.1".to_owned(), page(all.clone())?)];
    for command in commands {
        pages.push((format!("loopexec-{}.1", command.get_name()), page(command)?));
    }
    let mut names = Vec::new();
    for (name, text) in pages {
        std::fs::write(dir.join(&name), text).map_err(failed)?;
        names.push(name);
    }
    let text = names.iter().map(|name| format!("{}\n", dir.join(name).display())).collect();
    Ok(Outcome::text("man", text).with("files", names))
}

fn page(command: clap::Command) -> Result<String> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|e| Error::new(Kind::Internal, "a manual page cannot be made").because(e))?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}
