//! Rows about the loop: its file, its check, what the baseline would run, what is redacted.

use super::machine::Tools;
use super::rows::Row;
use super::{name_of, needs_file, script};
use crate::commands::project::{guess_runner, needs_packages, read_kind};
use crate::commands::run::opening::Ready;
use crate::config::Resolved;
use crate::config::spec::{Backend, Diagnose, LoopSpec, ModelSpec};
use crate::domain::command::{CommandSpec, Run};
use crate::error::Result;
use crate::process::environment::Surroundings;
use crate::receipt::secrets::{DEFAULT_NAMES, MIN_SECRET, name_matches};
use crate::report::text::{duration, one_line};
use crate::workspace::caller::Caller;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// How often a red that names no test is looked at with denials lifted, that of the network apart.
const DIAGNOSIS: u32 = 2;

/// The loop file is there and valid.
pub fn file(resolved: &Result<Resolved>) -> Row {
    match resolved {
        Ok(resolved) => {
            Row::pass("loop-file", format!("{} · {}", name_of(resolved), resolved.digest))
        }
        Err(error) => Row::fail("loop-file", error),
    }
}

/// What is odd in it and no error.
pub fn warnings(resolved: &Resolved) -> Vec<Row> {
    resolved.warnings.iter().map(|warning| Row::warn("loop-file", warning)).collect()
}

/// Nothing in the check's text hides a red.
pub fn check_text(spec: Option<&LoopSpec>) -> Row {
    let name = "check-text";
    let Some(spec) = spec else { return needs_file(name) };
    let Run::Script { text, .. } = &spec.check.command.run else {
        return Row::pass(name, "the check is a program without a shell");
    };
    let signs = script::swallows(text);
    if signs.is_empty() {
        return Row::pass(name, "nothing in the check's text hides a red");
    }
    let signs: Vec<String> = signs.iter().map(|sign| format!("`{sign}`")).collect();
    Row::warn(name, format!("the check holds {}, which can hide a red", signs.join(", ")))
        .mend("let the check end with the exit code of what it tests")
}

/// Returns what the baseline would run: a row, and the same as data.
pub fn baseline(ready: &Ready, tools: &Tools, spec: Option<&LoopSpec>) -> (Row, Value) {
    let name = "baseline";
    let Some(spec) = spec else { return (needs_file(name), Value::Null) };
    let check = &spec.check.command;
    let text = text_of(check);
    let env = env_names(ready, tools, check);
    let argv = tools.shells.argv(&check.run).map(|argv| {
        argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
    });
    let start = ready.caller.start();
    let cwd = check.cwd.as_ref().map_or(start.clone(), |cwd| start.join(cwd));
    let setup = spec.setup.as_ref().map(|setup| text_of(&setup.command));
    let limit = u64::try_from(spec.limits.time.as_millis()).unwrap_or(u64::MAX) / 2;
    let mut reason = format!(
        "runs `{}` {}, each at most {}, in {}, with {} variables",
        one_line(&text, 80),
        times(spec),
        duration(limit),
        cwd.display(),
        env.len()
    );
    if let Some(setup) = &setup {
        reason = format!("first runs setup `{}`; then {reason}", one_line(setup, 80));
    }
    let data = json!({
        "setup": setup, "check": text, "argv": argv.unwrap_or_default(), "cwd": cwd.to_string_lossy(),
        "env": env, "pass_env": check.pass_env, "runs": spec.check.baseline_runs,
        "timeout_ms": limit,
    });
    let missing: Vec<&str> = check
        .pass_env
        .iter()
        .chain(&spec.exec.command.pass_env)
        .chain(spec.check.held_out.iter().flat_map(|command| &command.pass_env))
        .chain(spec.guards.judge.iter().flat_map(|command| &command.pass_env))
        .filter(|name| !ready.variables.contains_key(std::ffi::OsStr::new(name.as_str())))
        .map(String::as_str)
        .collect();
    let row = match missing.is_empty() {
        true => Row::pass(name, reason),
        false => Row::warn(
            name,
            format!("{reason}; pass_env names what is not set: {}", missing.join(", ")),
        )
        .mend("set them, or take them out of pass_env"),
    };
    (row, data)
}

/// Says how often the baseline runs the check, and why more than once.
fn times(spec: &LoopSpec) -> String {
    let (least, confirm) = (spec.check.baseline_runs, spec.check.confirm);
    let zoned = spec.isolation.backend.isolates();
    // Outside of a container are other tools.
    let outside =
        zoned && spec.isolation.backend != Backend::Oci && spec.check.diagnose == Diagnose::Outside;
    let diagnosis = match spec.check.diagnose {
        Diagnose::Off => 0,
        Diagnose::On | Diagnose::Outside => DIAGNOSIS + u32::from(outside),
    };
    let most = least + confirm.max(diagnosis);
    let diagnosed = match diagnosis {
        0 => String::new(),
        more if zoned => format!(
            ", a red one that names no test, or that its zone may have reddened, {more} more with your network, then your environment{}",
            if outside { ", then outside of the zone" } else { "" }
        ),
        more => format!(
            ", a red one that names no test {more} more with your environment, then with it and HOME"
        ),
    };
    format!("{least} to {most} times (a green one is confirmed {confirm} more{diagnosed})")
}

/// Packages that the check needs and nothing makes; no row where nothing is known to be missing.
pub fn dependencies(spec: Option<&LoopSpec>, caller: &Caller) -> Option<Row> {
    let setup = spec?.setup.is_some();
    let folder = caller.start();
    // Node looks for packages in every folder above too.
    let there = folder
        .ancestors()
        .take_while(|above| above.starts_with(&caller.root))
        .any(|above| above.join("node_modules").is_dir());
    (!setup && !there && needs_packages(&folder)).then(|| {
        Row::warn(
            "dependencies",
            "package.json names dependencies, there is no node_modules and no setup",
        )
        .mend("setup: npm ci")
    })
}

fn env_names(ready: &Ready, tools: &Tools, check: &CommandSpec) -> Vec<String> {
    let none = BTreeMap::new();
    // Only the names are shown, so where HOME and TMPDIR will lie does not matter here.
    let around = Surroundings {
        caller: &ready.variables,
        home: Path::new("/"),
        tmp: Path::new("/"),
        toolchains: &tools.toolchains,
        own: &none,
    };
    let names = around.environment(check).into_iter().map(|(name, _)| name);
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Which results are expected.
pub fn runner(spec: Option<&LoopSpec>, caller: &Caller) -> Row {
    let name = "runner";
    let Some(spec) = spec else { return needs_file(name) };
    if let Some(results) = &spec.check.results {
        return Row::pass(
            name,
            format!(
                "tests are read from reports that the check has to write, named from the top of the tree: {} (those of an earlier run are removed first)",
                results.join(", ")
            ),
        );
    }
    if let Some(runner) = spec.check.runner {
        return Row::pass(name, format!("{runner:?} by the loop file").to_lowercase());
    }
    let folder = caller.start();
    match guess_runner(&text_of(&spec.check.command), read_kind(&folder)) {
        Some(runner) => Row::pass(name, format!("looks like {runner}; the baseline finds out")),
        None => Row::warn(
            name,
            "no known test runner is named: unless the baseline finds one, the check itself is the only test, and progress inside it is not seen",
        )
        .mend("print TAP, or name JUnit reports with check.results"),
    }
}

/// Whose values never reach disk; names only.
pub fn secrets(ready: &Ready, spec: Option<&LoopSpec>) -> Row {
    let default: Vec<String> = DEFAULT_NAMES.iter().map(|name| (*name).to_owned()).collect();
    let patterns = spec.and_then(|spec| spec.receipt.redact.as_ref()).unwrap_or(&default);
    let mut found = Vec::new();
    let mut short = Vec::new();
    for (name, value) in &ready.variables {
        if patterns.iter().any(|pattern| name_matches(pattern, name)) {
            let list = if value.len() < MIN_SECRET { &mut short } else { &mut found };
            list.push(one_line(&name.to_string_lossy(), 80));
        }
    }
    short.retain(|name| {
        ready.variables.get(std::ffi::OsStr::new(name)).is_some_and(|v| !v.is_empty())
    });
    if !short.is_empty() {
        return Row::warn(
            "secrets",
            format!("too short to be looked for in output: {}", short.join(", ")),
        )
        .mend("give them another name if they are no secrets");
    }
    match found.is_empty() {
        true => Row::none("secrets", "no variable here has the name of a secret"),
        false => {
            Row::pass("secrets", format!("redacted wherever they turn up: {}", found.join(", ")))
        }
    }
}

/// Which model runs and what of it is known.
pub fn model(spec: Option<&LoopSpec>) -> Row {
    let Some(spec) = spec else { return needs_file("model") };
    match &spec.model {
        ModelSpec::None => Row::none("model", "none: the loop says that it runs no model"),
        ModelSpec::Declared(model) => {
            let unpinned: Vec<&str> = spec.receipt.unpinned.iter().map(|pin| pin.word()).collect();
            let without = match unpinned.is_empty() {
                true => String::new(),
                false => format!("; does without the pins: {}", unpinned.join(", ")),
            };
            Row::warn(
                "model",
                format!(
                    "{}/{} as declared: which model answers is not observed{without}",
                    one_line(&model.provider, 60),
                    one_line(&model.id, 80)
                ),
            )
        }
    }
}

/// Returns a command as it was written.
pub fn text_of(command: &CommandSpec) -> String {
    match &command.run {
        Run::Script { text, .. } => text.clone(),
        Run::Argv(words) => words.join(" "),
    }
}
