//! Where the loop of a command line comes from: a loop file, a text, or a workflow file that holds one.
//!
//! What stands in a workflow file finds `config::workflow`; here the tree and the environment are made
//! what they would be on the platform.

use super::opening::{self, Ready};
use super::{Args, based, overrides};
use crate::commands::Global;
use crate::commands::outcome::talk;
use crate::config::workflow::{self, Choice, Kind as FileKind, Stands, Taken};
use crate::config::{self, Inputs, Resolved};
use crate::error::{Error, Kind, Result};
use crate::workspace::caller::Caller;
use crate::workspace::named;
use std::path::PathBuf;

/// Options that take the loop from a workflow file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Workflow {
    /// Take the loop that stands in a workflow file of GitHub or GitLab
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub workflow: Option<PathBuf>,
    /// The job of the workflow file that holds the loop, by id or name
    #[arg(long, value_name = "J", requires = "workflow")]
    pub job: Option<String>,
    /// The step that holds the loop, by id, name or number
    #[arg(long, value_name = "S", requires = "workflow")]
    pub step: Option<String>,
    /// What an expression of the workflow file stands for, such as matrix.python=3.13
    #[arg(long, value_name = "K=V", requires = "workflow")]
    pub set: Vec<String>,
}

/// Gets ready and resolves the loop; a loop that is not valid does not keep the tree from being there.
///
/// # Errors
/// As [`opening::ready`]; the loop's own are the second part.
pub fn prepare(args: &Args, global: &Global) -> Result<(Ready, Result<Resolved>)> {
    let taken = take(&args.from);
    let mut ready = match taken.as_ref().ok().and_then(Option::as_ref) {
        Some(taken) => ready_for(taken, global)?,
        None => opening::ready(global)?,
    };
    let resolved = match taken {
        Ok(Some(taken)) => {
            if !global.quiet {
                for note in &taken.notes {
                    talk(&format!("note: {}", crate::report::text::clean(note)));
                }
            }
            let resolved = held(&taken, args, &ready.caller);
            taken.over(&mut ready.variables);
            resolved
        }
        Ok(None) => resolve(args, &ready.caller),
        Err(error) => Err(error),
    };
    let resolved = resolved.and_then(|mut resolved| {
        block_named(&mut resolved, &ready.caller)?;
        Ok(resolved)
    });
    Ok((ready, resolved))
}

/// The pattern of git's own hooks: who takes it out or replaces the list wants none of their like blocked.
const HOOKS: &str = ".git/hooks/**";

/// Blocks what the caller's git configuration names in the tree, as the hooks in git's own folder are.
fn block_named(resolved: &mut Resolved, caller: &Caller) -> Result<()> {
    let blocked = &mut resolved.spec.guards.blocked_paths;
    let Some(at) = blocked.iter().position(|pattern| pattern == HOOKS) else { return Ok(()) };
    let more = named::patterns(&named::read_named(caller, &|| false)?);
    // Before what the loop adds, which may take one out again.
    blocked.splice(at + 1..at + 1, more);
    Ok(())
}

/// Resolves the loop of a workflow file, held to the base revision where one is named.
fn held(taken: &Taken, args: &Args, caller: &Caller) -> Result<Resolved> {
    if args.loop_from.is_some() {
        return Err(Error::new(
            Kind::ConfigInvalid,
            "the loop of this event comes from the base revision, and --workflow names the checkout's",
        )
        .hint("leave --workflow out: the loop file of the base revision is found there"));
    }
    let inputs = inputs(args, caller);
    let mut resolved = taken.load(&inputs)?;
    let mut args = args.clone();
    if let (Stands::Here(_), Some(file), false) =
        (&taken.stands, &args.from.workflow, args.base.is_empty())
    {
        args.base_file = Some(based::inline_of(file, &args, caller)?);
    }
    based::hold(&mut resolved, &args, caller, &inputs)?;
    Ok(resolved)
}

/// Reads the workflow file of a command line.
fn take(from: &Workflow) -> Result<Option<Taken>> {
    let Some(file) = &from.workflow else { return Ok(None) };
    let choice = Choice { job: from.job.clone(), step: from.step.clone(), sets: from.set.clone() };
    workflow::read(file, &choice).map(Some)
}

/// Finds the tree, and the folder in it that the platform would run the loop in.
fn ready_for(taken: &Taken, global: &Global) -> Result<Ready> {
    let mut ready = opening::ready_with(global, &|name| {
        taken.variables.get(name).map(Into::into).or_else(|| std::env::var_os(name))
    })?;
    if taken.kind == FileKind::LoopFile {
        return Ok(ready);
    }
    // A job starts at the top of the repository, wherever the command was typed.
    let root = &ready.caller.root;
    let start = match &taken.folder {
        Some(folder) if folder != "." => root.join(folder),
        _ => root.clone(),
    };
    if start != ready.caller.start() {
        let cancel = ready.supervisor.cancel();
        ready.caller = Caller::discover(&start, &ready.surroundings, &|| cancel.is_raised())?;
    }
    Ok(ready)
}

/// Returns what a loop is resolved from, but its file.
pub fn inputs(args: &Args, caller: &Caller) -> Inputs {
    Inputs {
        start: caller.start(),
        top: Some(caller.root.clone()),
        file: None,
        flags: overrides(args),
        env: std::env::vars_os().collect(),
    }
}

/// Returns the loop file that is named: on the command line relative to where the command was typed, else as
/// it was configured, relative to the folder the loop runs in.
pub fn named(args: &Args) -> Option<PathBuf> {
    let absolute = |file: &PathBuf| std::path::absolute(file).unwrap_or_else(|_| file.clone());
    args.file.as_ref().map(absolute).or_else(|| args.config.clone())
}

/// Resolves the loop, held to the base revision where one is named.
///
/// # Errors
/// `config_invalid` with the place in the loop file.
pub fn resolve(args: &Args, caller: &Caller) -> Result<Resolved> {
    if let Some(taken) = take(&args.from)? {
        return held(&taken, args, caller);
    }
    let mut inputs = inputs(args, caller);
    inputs.file = named(args);
    if let Some(revision) = &args.loop_from {
        return based::load_from(revision, caller, &inputs);
    }
    let mut resolved = match &args.inline {
        Some(inline) => config::load_text(&inputs, inline)?,
        None => config::load(&inputs)?,
    };
    based::hold(&mut resolved, args, caller, &inputs)?;
    Ok(resolved)
}
