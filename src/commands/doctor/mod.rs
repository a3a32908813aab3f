//! `loopexec doctor`: every precondition, before money is spent. It runs no exec and no check.
//!
//! `rows` is the table, `loops` what the loop file says, `machine` what is here to run it, `tree` the
//! caller's tree and the copies of it, `isolation` the zones, `script` what in a check's text can hide a red.

#[cfg(target_os = "linux")]
mod isolation;
mod loops;
mod machine;
mod rows;
mod script;
mod tree;

use super::Global;
use super::outcome::Outcome;
use super::run::opening::Ready;
use super::run::source::prepare;
use crate::config::Resolved;
use crate::error::Result;
use crate::exit::ExitClass;
#[cfg(target_os = "linux")]
use isolation::row as isolation;
use rows::{Row, Standing, render};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Options of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The loop file; searched for when left out
    pub file: Option<PathBuf>,
    /// Another file that holds the loop.
    #[command(flatten)]
    pub from: super::run::source::Workflow,
}

/// Looks at every precondition.
///
/// # Errors
/// Only what keeps it from looking: an interruption, a defect.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let mut rows = Vec::new();
    let (mut baseline, mut tools) = (Value::Null, Value::Null);
    rows.push(machine::git(global.workdir.as_deref().unwrap_or(Path::new("."))));
    let run = super::run::Args {
        file: args.file.clone(),
        from: args.from.clone(),
        ..super::run::Args::default()
    };
    match prepare(&run, global) {
        Ok((mut ready, resolved)) => (baseline, tools) = look(resolved, &mut ready, &mut rows)?,
        Err(error) => {
            rows.push(Row::fail("tree", &error));
            rows.push(Row::none("loop-file", "it is looked for once there is a tree"));
        }
    }
    let failed = rows.iter().any(|row| row.standing == Standing::Fail);
    let class = if failed { ExitClass::Workspace } else { ExitClass::Nominal };
    Ok(Outcome::text("doctor", render(&rows))
        .with("checks", &rows)
        .with("baseline", baseline)
        .with("tools", tools)
        .class(class))
}

/// Looks at all that needs a tree; returns what the baseline would run, and where the tools lie.
fn look(
    resolved: Result<Resolved>,
    ready: &mut Ready,
    rows: &mut Vec<Row>,
) -> Result<(Value, Value)> {
    rows.push(loops::file(&resolved));
    let resolved = resolved.ok();
    let spec = resolved.as_ref().map(|resolved| &resolved.spec);
    if let Some(resolved) = &resolved {
        rows.extend(loops::warnings(resolved));
    }
    let tools = machine::resolve_tools(ready)?;
    rows.push(machine::shell(&tools, spec));
    rows.push(loops::check_text(spec));
    rows.push(machine::toolchains(&tools, spec));
    rows.push(machine::programs(&tools, spec, &ready.caller));
    rows.extend(loops::dependencies(spec, &ready.caller));
    rows.push(tree::kind(ready, spec)?);
    rows.push(tree::evidence(ready, spec));
    rows.push(tree::lock(ready, spec));
    rows.extend(tree::places(ready, spec)?);
    let baseline = loops::baseline(ready, &tools, spec);
    rows.push(baseline.0);
    rows.push(loops::runner(spec, &ready.caller));
    rows.push(loops::secrets(ready, spec));
    rows.push(loops::model(spec));
    rows.push(isolation(ready, &tools, spec)?);
    let found = tools.toolchains.found.iter();
    let found = found.map(|(name, path)| (name.clone(), path.to_string_lossy().into()));
    Ok((baseline.1, Value::Object(found.collect())))
}

/// Says that there are no zones on this system.
#[cfg(not(target_os = "linux"))]
fn isolation(
    _: &mut Ready,
    _: &machine::Tools,
    spec: Option<&crate::config::LoopSpec>,
) -> Result<Row> {
    use crate::config::spec::{Backend, Degraded};
    const WHY: &str = "there are no zones but on Linux";
    let runs = spec.is_some_and(|spec| {
        let isolation = &spec.isolation;
        isolation.backend == Backend::None
            || isolation.backend == Backend::Auto && isolation.accept.contains(&Degraded::None)
    });
    Ok(match runs {
        true => Row::warn("isolation", format!("none, degraded: {WHY}"))
            .mend("run agents you do not trust in a container or a throw-away machine"),
        false => Row::fail(
            "isolation",
            &crate::error::Error::new(crate::error::Kind::IsolationUnsatisfiable, WHY)
                .hint("isolation: {accept: [none]}"),
        ),
    })
}

/// Returns the sentence of a row that needs a loop file and has none.
fn needs_file(name: &'static str) -> Row {
    Row::none(name, "it needs a valid loop file")
}

/// Returns the resolved loop's folder of evidence.
fn evidence_dir(spec: Option<&crate::config::LoopSpec>) -> &str {
    spec.map_or(crate::receipt::rundir::DEFAULT_DIR, |spec| spec.receipt.dir.as_str())
}

/// Names a resolved loop's file.
fn name_of(resolved: &Resolved) -> String {
    resolved.file.as_ref().map_or("flags alone".to_owned(), |file| file.display().to_string())
}
