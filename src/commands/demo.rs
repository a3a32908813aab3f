//! `loopexec demo`: an honest, a lying and a trespassing agent on a throw-away project.
//!
//! The project, its loop files and the scripted agents stand in `demo/`; every run is a process of
//! this program of its own, so that what is shown is what a user gets.

use super::Global;
use super::outcome::{Outcome, talk};
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use crate::exit::ExitClass;
use crate::report::text::{clean, duration, one_line, table};
use crate::workspace::programs;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of `demo`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// One agent of the demo and how its run has to end.
struct Agent {
    name: &'static str,
    does: &'static str,
    script: &'static str,
    loop_file: &'static str,
    expected: HaltReason,
}

const AGENTS: [Agent; 3] = [
    Agent {
        name: "honest",
        does: "mends what the failing tests name",
        script: include_str!("demo/honest.sh"),
        loop_file: include_str!("demo/honest.yml"),
        expected: HaltReason::SuccessConditionMet,
    },
    Agent {
        name: "lying",
        does: "says that it is done, changes nothing",
        script: include_str!("demo/lying.sh"),
        loop_file: include_str!("demo/lying.yml"),
        expected: HaltReason::NoProgressDetected,
    },
    Agent {
        name: "trespassing",
        does: "mends the code, switches the tests off in CI",
        script: include_str!("demo/trespassing.sh"),
        loop_file: include_str!("demo/trespassing.yml"),
        expected: HaltReason::BlockedPathModified,
    },
];

/// Shows the three agents, then checks the evidence of the one that converged.
///
/// # Errors
/// `workspace_invalid` without git or a temporary folder, `interrupted` when a run was,
/// `internal_error` when a run ends otherwise than it has to.
pub fn run(_args: &Args, global: &Global) -> Result<Outcome> {
    let place = make_place()?;
    if !global.quiet {
        talk(&format!("demo in {}", place.display()));
    }
    let mut rows = vec![
        ["agent", "what it does", "halt reason", "exit", "iterations", "time"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut runs = Vec::new();
    for agent in &AGENTS {
        let project = place.join(agent.name);
        write_project(&project, agent)?;
        if !global.quiet {
            talk(&format!("\n{} agent: {}", agent.name, agent.does));
        }
        let object = call(&place, &project, &["run"], global)?;
        hold(&object, agent, &project)?;
        let number = |key: &str| object[key].as_u64().unwrap_or(0);
        rows.push(vec![
            agent.name.to_owned(),
            agent.does.to_owned(),
            text_of(&object, "halt_reason"),
            number("exit_code").to_string(),
            number("iterations").to_string(),
            duration(number("elapsed_ms")),
        ]);
        runs.push(json!({
            "agent": agent.name, "does": agent.does, "project": project,
            "run_id": object["run_id"], "halt_reason": object["halt_reason"],
            "exit_code": object["exit_code"], "iterations": object["iterations"],
            "why": object["why"],
            "receipt": project.join(text_of(&object, "receipt")),
        }));
    }
    let evidence = hold_evidence(&place, &runs, global)?;
    let mut text = format!("\n{}\n", table(&rows));
    for run in &runs {
        text.push_str(&format!(
            "{}: {}\n  {}\n",
            text_of(run, "agent"),
            one_line(&text_of(run, "why"), 200),
            text_of(run, "receipt")
        ));
    }
    text.push_str(&format!(
        "\nverify  the receipt of the {0} run is whole, its {1} events lead to their decisions\n\
         replay  the check says {2} again on its end state, without any agent\n",
        AGENTS[0].name,
        evidence["events"],
        text_of(&evidence, "verdict"),
    ));
    text.push_str(&format!(
        "\nLook around, and remove it when you are done: {}\n",
        clean(&place.to_string_lossy())
    ));
    Ok(Outcome::text("demo", text)
        .with("place", &place)
        .with("runs", runs)
        .with("evidence", evidence))
}

/// Verifies and replays the first run, the one that converged.
fn hold_evidence(place: &Path, runs: &[Value], global: &Global) -> Result<Value> {
    let project = place.join(AGENTS[0].name);
    let run_id = runs.first().map(|run| text_of(run, "run_id")).unwrap_or_default();
    let mut objects = Vec::new();
    for command in ["verify", "replay"] {
        if !global.quiet {
            talk(&format!("\n{command} the {} run", AGENTS[0].name));
        }
        let object = call(place, &project, &[command, "--run-id", &run_id], global)?;
        if object["exit_code"] != u64::from(ExitClass::Nominal.code()) {
            let kind = match object["errors"][0]["kind"].as_str() {
                Some(kind) if kind == Kind::Interrupted.name() => Kind::Interrupted,
                _ => Kind::Internal,
            };
            let what = object["errors"][0]["what"].as_str().unwrap_or_default();
            return Err(Error::new(
                kind,
                format!(
                    "{command} of the run that converged did not succeed: {}",
                    one_line(what, 300)
                ),
            )
            .hint(format!("look at {}", project.display())));
        }
        objects.push(object);
    }
    let of = |index: usize, key: &str| objects.get(index).map_or(Value::Null, |o| o[key].clone());
    Ok(json!({
        "run_id": run_id, "verified": of(0, "verified"), "events": of(0, "events"),
        "reproduced": of(1, "reproduced"), "verdict": of(1, "verdict"),
    }))
}

/// Makes the folder that everything is in; it stays.
fn make_place() -> Result<PathBuf> {
    let failed = |e| Error::io(Kind::WorkspaceInvalid, "cannot make a temporary folder", e);
    let folder = tempfile::Builder::new().prefix("loopexec-demo-").tempdir().map_err(failed)?;
    // A link in its path would make what a run prints differ from what is printed here.
    folder.keep().canonicalize().map_err(failed)
}

fn write_project(project: &Path, agent: &Agent) -> Result<()> {
    let files = [
        ("price.sh", include_str!("demo/price.sh")),
        ("test.sh", include_str!("demo/test.sh")),
        (".github/workflows/test.yml", include_str!("demo/ci.yml")),
        ("agent.sh", agent.script),
        ("loop.yml", agent.loop_file),
    ];
    for (name, text) in files {
        let path = project.join(name);
        let folder = path.parent().unwrap_or(project);
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)).map_err(
            |e| Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", path.display()), e),
        )?;
    }
    git(project, &["init", "--quiet"])?;
    git(project, &["add", "--all"])?;
    git(project, &["commit", "--quiet", "--message", "A small project with two bugs"])
}

/// What there has to be.
const NEEDS: &str = "the demo needs git and a shell, nothing else";

/// Runs git without anything of the person's own configuration.
fn git(project: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = programs::command_for("git", project).map_err(|e| e.hint(NEEDS))?;
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let output = command
        .args(["-c", "user.name=demo", "-c", "user.email=demo@example.invalid"])
        .args(["-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(project)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::io(Kind::WorkspaceInvalid, "cannot start git", e).hint(NEEDS))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::new(
            Kind::WorkspaceInvalid,
            format!(
                "git {} failed in {}: {}",
                arguments.first().unwrap_or(&""),
                project.display(),
                one_line(&String::from_utf8_lossy(&output.stderr), 300)
            ),
        )),
    }
}

/// Runs this program on a project and returns the object it printed.
fn call(place: &Path, project: &Path, arguments: &[&str], global: &Global) -> Result<Value> {
    let failed = |e| Error::io(Kind::Internal, "cannot start this program again", e);
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    for (name, _) in std::env::vars_os() {
        // What overrides a loop of the user's is not meant for these.
        if name.to_string_lossy().starts_with("LOOPEXEC_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).arg("--json").arg("--workdir").arg(project);
    if global.quiet {
        command.arg("--quiet");
    }
    if global.verbose {
        command.arg("--verbose");
    }
    let output = command
        .current_dir(project)
        .env("LOOPEXEC_CACHE", place.join("cache"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed)?;
    serde_json::from_slice(&output.stdout).map_err(|e| {
        Error::new(
            Kind::Internal,
            format!("`loopexec {}` printed no result object", arguments.join(" ")),
        )
        .because(e)
        .hint(format!("look at {}", project.display()))
    })
}

/// Holds a run to how it has to end.
fn hold(object: &Value, agent: &Agent, project: &Path) -> Result<()> {
    let reason = text_of(object, "halt_reason");
    let code = u64::from(agent.expected.class().code());
    if reason == agent.expected.as_str() && object["exit_code"] == code {
        return Ok(());
    }
    if reason == HaltReason::Interrupted.as_str() {
        return Err(Error::new(Kind::Interrupted, "a signal asked the demo to stop"));
    }
    let why = match object["errors"][0]["what"].as_str() {
        Some(what) => what.to_owned(),
        None => text_of(object, "why"),
    };
    Err(Error::new(
        Kind::Internal,
        format!(
            "the {} agent's run ended with {reason}, not {}: {}",
            agent.name,
            agent.expected,
            one_line(&why, 300)
        ),
    )
    .hint(format!("look at {}", project.display())))
}

fn text_of(object: &Value, key: &str) -> String {
    object[key].as_str().unwrap_or_default().to_owned()
}
