//! The exec step: what it is shown, how it is run, what it says it used.

use super::memory::Memory;
use super::running::Launch;
use super::site::{Handed, Role, Site};
use super::zoned::{self, Zoned};
use crate::config::spec::{ContextPart, LoopSpec, Metering};
use crate::config::value::parse_money;
use crate::domain::command::Exit;
use crate::domain::history::History;
use crate::domain::judge::CHECK_ID;
use crate::domain::observation::{Attempts, ContextItem, ExecRun, Place, Usage};
use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use crate::workspace::at::remove_tree;
use crate::workspace::context::{self, Attempt, ChangedPath, Inputs, Slice, Strategy};
use crate::workspace::patch::write_patch;
use crate::workspace::paths;
use crate::workspace::store::Store;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Bytes of the last attempt's patch that may go into a context.
const DIFF: usize = 256 * 1024;

/// The largest usage file that is read, in bytes.
const USAGE_FILE: u64 = 1024 * 1024;

/// Refused attempts that are told one by one.
const TOLD: usize = 5;

/// A context and what goes with it.
pub struct Brief {
    /// The slice.
    pub slice: Slice,
    /// The failing tests as JSON.
    pub failures: String,
}

/// Builds what the exec of an iteration is shown.
///
/// # Errors
/// The detail `context_budget` when not even the goal and one failing test fit.
pub fn build(
    spec: &LoopSpec,
    store: &Store,
    memory: &Memory,
    history: &History,
    iteration: u32,
    map: &[(String, String)],
) -> Result<Brief> {
    let tree = &history.next.tree;
    let said = memory.said_of(tree);
    let mut attempts = Vec::new();
    let mut diff = None;
    for attempt in &memory.attempts {
        let patch = read_patch(store, &attempt.base, &attempt.tree)?;
        attempts.push(Attempt {
            iteration: attempt.iteration,
            paths: count_paths(&patch),
            ended: attempt.ended.clone(),
        });
        diff = Some(patch);
    }
    let read = |path: &str| read_file(store, tree, path);
    let strategy: Vec<Strategy> = spec
        .context
        .strategy
        .iter()
        .map(|part| match part {
            ContextPart::Failures => Strategy::Failures,
            ContextPart::Diff => Strategy::Diff,
            ContextPart::Imports => Strategy::Imports,
        })
        .collect();
    let mut feedback = history.feedback.clone();
    // Of a check without tests only what it printed says why it is red.
    let tests_say_why = said.failures.iter().any(|failure| &*failure.id != CHECK_ID);
    if !tests_say_why && said.broken.is_none() && !said.tail.trim().is_empty() {
        feedback.push(format!("The end of what the check printed:\n{}", said.tail));
    }
    let inputs = Inputs {
        goal: spec.goal.as_deref(),
        iteration,
        limit: spec.limits.iterations,
        failing: &history.next.failing,
        failures: &said.failures,
        broken: said.broken.as_deref(),
        feedback: &feedback,
        attempts: &attempts,
        diff: diff.as_deref(),
        files: &spec.context.files,
        strategy: &strategy,
        tokens: spec.context.tokens,
        map,
        read: &read,
    };
    let failures = context::failures_json(&inputs);
    let slice = context::build(&inputs).map_err(|small| {
        Error::new(
            Kind::ConfigInvalid,
            format!(
                "context.tokens is {}, and the goal with one failing test alone takes {}",
                small.given, small.needed
            ),
        )
        .detail("context_budget")
        .hint(format!("context: {{tokens: {}}}   # or a shorter goal", small.needed))
    })?;
    Ok(Brief { slice, failures })
}

fn read_patch(store: &Store, base: &str, tree: &str) -> Result<Vec<u8>> {
    let mut patch = Bounded { bytes: Vec::new() };
    if base == tree {
        return Ok(patch.bytes);
    }
    write_patch(store.repository(), base, tree, &mut patch)?;
    Ok(patch.bytes)
}

/// Takes the first bytes and lets the rest go.
struct Bounded {
    bytes: Vec<u8>,
}

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = DIFF.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..room]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Counts the lines a patch adds and removes, by file.
fn count_paths(patch: &[u8]) -> Vec<ChangedPath> {
    let text = String::from_utf8_lossy(patch);
    let mut paths: Vec<ChangedPath> = Vec::new();
    let mut in_hunk = false;
    for line in text.lines() {
        if let Some(names) = line.strip_prefix("diff --git a/") {
            let path = names.split(" b/").next().unwrap_or(names).to_owned();
            paths.push(ChangedPath { path, added: 0, removed: 0 });
            in_hunk = false;
        } else if line.starts_with("@@ ") {
            in_hunk = true;
        } else if in_hunk && let Some(last) = paths.last_mut() {
            last.added += u64::from(line.starts_with('+'));
            last.removed += u64::from(line.starts_with('-'));
        }
    }
    paths
}

/// Reads one file of a snapshot by its escaped path.
pub fn read_file(store: &Store, tree: &str, path: &str) -> Option<Vec<u8>> {
    let bytes = paths::unescape(path)?;
    let mut id = Store::parse(tree).ok()?;
    let mut parts = bytes.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let entry = store.read_tree(id).ok()?.into_iter().find(|entry| entry.name == part)?;
        id = entry.id;
        if parts.peek().is_none() {
            let link = entry.mode == crate::workspace::tree::LINK;
            let folder = entry.mode == crate::workspace::tree::FOLDER;
            return if link || folder { None } else { store.read_blob(id).ok() };
        }
    }
    None
}

impl Site {
    /// Shows exec its context and runs it in the workspace.
    pub(super) fn exec(&mut self, iteration: u32, history: &History) -> Result<ExecRun> {
        self.stop_if_interrupted()?;
        self.jobs += 1;
        self.live.enter("exec", iteration);
        self.say_start(iteration, history);
        let io = self.make_io(&format!("exec-{}", self.jobs))?;
        self.note_git_places()?;
        let ground = self.ground_workspace(Role::Exec, Handed::Written(&io))?;
        let map: Vec<(String, String)> = [&ground.root, &self.workspace(), &self.caller.root]
            .iter()
            .map(|path| (path.to_string_lossy().into_owned(), String::new()))
            .collect();
        let memory = self.memory.borrow().clone();
        let brief = build(&self.spec, &self.store, &memory, history, iteration, &map)?;
        let usage = io.join("usage.json");
        let own = self.write_brief(&brief, iteration, &io, &usage)?;
        let command = self.spec.exec.command.clone();
        let env = self.surround.environment(Place::Workspace, &ground, &command, &own)?;
        let left = Duration::from_millis(self.left_ms().max(1));
        let launch = Launch {
            view: ground.view.clone(),
            command: &command,
            env,
            deadline: command.timeout.map_or(left, |timeout| timeout.min(left)),
            idle: Some(self.spec.exec.idle_timeout),
        };
        let (outcome, tail) = self.launch(&ground, launch, None)?;
        let usage = match self.spec.model.metering() {
            Metering::File => read_usage(&usage),
            Metering::None | Metering::Unknown => None,
        };
        // What exec was shown is in the receipt by digest; the folder itself is not needed.
        let _ = remove_tree(&io);
        let run = self.run_fact(outcome, &tail)?;
        self.say_exec(&run, iteration);
        let context = brief.slice.manifest.iter().map(|included| ContextItem {
            path: self.redactor.redact_str(&included.path),
            sha256: included.sha256.clone(),
            tokens: included.tokens,
        });
        let whole = ContextItem {
            path: "(context)".to_owned(),
            sha256: crate::domain::hex::sha256(brief.slice.text.as_bytes()),
            tokens: brief.slice.tokens,
        };
        let context = std::iter::once(whole).chain(context).collect();
        Ok(ExecRun { run, usage, context, egress: self.read_attempts()? })
    }

    /// Takes what exec tried to reach, without secrets, and says what it could not.
    fn read_attempts(&mut self) -> Result<Option<Attempts>> {
        let Some(attempts) = self.zones.as_mut().and_then(Zoned::take_attempts) else {
            return Ok(None);
        };
        let attempts = self.redactor.redact_fact(attempts)?;
        let refused = zoned::refused(&attempts);
        for line in refused.iter().take(TOLD) {
            self.live.say(&format!("iteration {}: {line}", self.iteration));
        }
        if refused.len() > TOLD {
            self.live.say(&format!(
                "iteration {}: and {} more",
                self.iteration,
                refused.len() - TOLD
            ));
        }
        Ok(Some(attempts))
    }

    fn write_brief(
        &self,
        brief: &Brief,
        iteration: u32,
        io: &Path,
        usage: &Path,
    ) -> Result<BTreeMap<String, String>> {
        let (context, failures) = (io.join("context.md"), io.join("failures.json"));
        let failed = |e| Error::io(Kind::WorkspaceInvalid, "cannot write the context of exec", e);
        foreign::write_new(&context, brief.slice.text.as_bytes()).map_err(failed)?;
        foreign::write_new(&failures, brief.failures.as_bytes()).map_err(failed)?;
        let path = |path: &Path| path.to_string_lossy().into_owned();
        Ok([
            ("LOOPEXEC_RUN_ID", self.run_id.clone()),
            ("LOOPEXEC_ITERATION", iteration.to_string()),
            ("LOOPEXEC_ITERATIONS_MAX", self.spec.limits.iterations.to_string()),
            ("LOOPEXEC_CONTEXT", path(&context)),
            ("LOOPEXEC_FAILURES", path(&failures)),
            ("LOOPEXEC_GOAL", self.spec.goal.clone().unwrap_or_default()),
            ("LOOPEXEC_USAGE_FILE", path(usage)),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect())
    }

    /// Says where the run stands and what the iteration starts from.
    fn say_start(&self, iteration: u32, history: &History) {
        let from = match (history.next.iteration, iteration) {
            (_, 1) => String::new(),
            (before, now) if before + 1 == now => format!(", from where iteration {before} ended"),
            (0, _) => ", back at the start".to_owned(),
            (before, _) => format!(", back at iteration {before}"),
        };
        let best = match (iteration, history.best) {
            (1, _) | (_, u64::MAX) => String::new(),
            (_, best) => format!(", {best} at best"),
        };
        let failing = match history.measured {
            Some(_) => history.next.failing.len().to_string(),
            None => "?".to_owned(),
        };
        self.live.say(&format!(
            "iteration {iteration} of {}: {failing} failing{best}{from}",
            self.spec.limits.iterations,
        ));
    }

    fn say_exec(&self, run: &crate::domain::observation::RunFact, iteration: u32) {
        let how = match &run.exit {
            Exit::Code { code } => format!("exit {code}"),
            exit => crate::domain::judge::describe_exit(exit),
        };
        let time = crate::report::text::duration(run.wall_ms);
        self.live.say(&format!("iteration {iteration}: exec: {how} ({time})"));
        for survivor in run.survivors.iter().take(5) {
            self.live.say(&format!(
                "iteration {iteration}: exec left {} ({}) behind; it was killed",
                survivor.name, survivor.pid
            ));
        }
    }
}

/// Reads what exec says it used: one JSON object, or one a line, which add up.
///
/// Keys: `usd` (decimal dollars, text or number), `tokens` or any of `input_tokens`,
/// `output_tokens`, `cache_read_tokens`, `cache_write_tokens`, and `calls`. Anything that cannot be
/// read makes the usage unknown, never zero.
pub fn read_usage(path: &Path) -> Option<Usage> {
    let text = String::from_utf8(foreign::read(path, Links::Refuse, USAGE_FILE).ok()?).ok()?;
    if text.is_empty() {
        return None;
    }
    let objects: Vec<Value> = match serde_json::from_str(&text) {
        Ok(value) => vec![value],
        Err(_) => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| serde_json::from_str(line).ok())
            .collect::<Option<_>>()?,
    };
    let mut sum = Usage::default();
    for object in &objects {
        let object = object.as_object()?;
        let whole = |key: &str| match object.get(key) {
            None => Some(0),
            Some(value) => value.as_u64(),
        };
        if let Some(usd) = object.get("usd") {
            let text = usd.as_str().map_or_else(|| usd.to_string(), str::to_owned);
            sum.usd_micro = sum.usd_micro.checked_add(parse_money(&text).ok()?.0)?;
        }
        for key in
            ["tokens", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"]
        {
            sum.tokens = sum.tokens.checked_add(whole(key)?)?;
        }
        sum.calls = sum.calls.checked_add(whole("calls")?)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_of(text: &str) -> Option<Usage> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("usage.json");
        std::fs::write(&path, text).unwrap();
        read_usage(&path)
    }

    #[test]
    fn usage_is_one_object_or_one_a_line() {
        let one = Usage { usd_micro: 1_500_000, tokens: 30, calls: 2 };
        assert_eq!(
            usage_of(r#"{"usd": "1.5", "input_tokens": 10, "output_tokens": 20, "calls": 2}"#),
            Some(one)
        );
        assert_eq!(
            usage_of("{\"usd\":1,\"tokens\":30,\"calls\":1}\n{\"usd\":0.5,\"calls\":1}\n"),
            Some(one)
        );
    }

    #[test]
    fn usage_that_cannot_be_read_is_unknown_never_zero() {
        for text in ["", "{", "[]", "null", r#"{"tokens": -1}"#, r#"{"usd": "many"}"#, "{}\n{"] {
            assert_eq!(usage_of(text), None, "{text}");
        }
        assert_eq!(read_usage(Path::new("/nonexistent")), None);
    }
}
