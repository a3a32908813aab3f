//! `loopexec init`: writes a commented loop file for the project it finds.
//!
//! What kind of project it is guesses `project`; the text is `template`'s, `taken` makes it from a job
//! of a CI file.

mod taken;
mod template;

use super::Global;
use super::outcome::Outcome;
use super::project::{Kind as Project, has_lib, read_kind};
use crate::config::NAMES;
use crate::error::{Error, Kind, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use template::Lib;

/// The file that is written.
const FILE: &str = "loop.yml";

/// Options of `init`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write over a loop file that is there
    #[arg(long)]
    pub force: bool,
    /// Take check, setup and services from a job of a GitHub or GitLab file
    #[arg(long, value_name = "FILE")]
    pub from_workflow: Option<PathBuf>,
    /// The job to take them from, by id or name
    #[arg(long, value_name = "J", requires = "from_workflow")]
    pub job: Option<String>,
}

/// Writes the loop file.
///
/// # Errors
/// `workspace_invalid` when one is there, or the folder cannot be written.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let folder = global.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
    if !folder.is_dir() {
        let what = format!("no folder {}", folder.display());
        return Err(Error::new(Kind::WorkspaceInvalid, what));
    }
    let there = NAMES.iter().find(|name| folder.join(name).symlink_metadata().is_ok());
    if let Some(name) = there.filter(|name| !args.force || **name != FILE) {
        let what = format!("there is a loop file already: {}", folder.join(name).display());
        let hint = match *name {
            FILE => "loopexec init --force writes over it",
            _ => "move it away first: of two loop files none is run",
        };
        return Err(Error::new(Kind::WorkspaceInvalid, what).detail("exists").hint(hint));
    }
    if let Some(file) = &args.from_workflow {
        let (text, job) = taken::text(file, args.job.as_deref())?;
        let path = folder.join(FILE);
        write(&path, &text, args.force)?;
        let shown = path.strip_prefix(".").unwrap_or(&path).display().to_string();
        let from = file.display();
        let said = format!(
            "wrote {shown} from job {job} of {from}\n  next     read it, put your agent into `exec`, then: loopexec doctor\n"
        );
        return Ok(Outcome::text("init", crate::report::text::clean(&said))
            .with("file", shown)
            .with("kind", "workflow")
            .with("job", job)
            .with("next", "loopexec doctor"));
    }
    let kind = read_kind(&folder);
    let text = template::text(kind, if has_lib(&folder) { Lib::There } else { Lib::Absent });
    let path = folder.join(FILE);
    write(&path, &text, args.force)?;
    let shown = path.strip_prefix(".").unwrap_or(&path).display().to_string();
    let edit = match kind {
        Project::Generic => "put your agent into `exec` and your tests into `check`",
        _ => "put your agent into `exec`",
    };
    let said = format!(
        "wrote {shown} for a project of the kind {}\n  next     {edit}, then: loopexec doctor\n",
        kind.name()
    );
    Ok(Outcome::text("init", said)
        .with("file", shown)
        .with("kind", kind.name())
        .with("next", "loopexec doctor"))
}

fn write(path: &Path, text: &str, force: bool) -> Result<()> {
    let failed =
        |e| Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", path.display()), e);
    if force && path.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        // A link is replaced, not followed.
        std::fs::remove_file(path).map_err(failed)?;
    }
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
