//! Runs what only a confirmed green comes to: the sealed check and the advisory command; and compares
//! coverage with that of t0.

use super::running::Launch;
use super::site::{Handed, Site};
use crate::domain::command::{CommandSpec, Exit};
use crate::domain::judge::Phase;
use crate::domain::observation::{Observation, Place, RunFact};
use crate::domain::surface::{CoverageFact, Veto};
use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use crate::integrity::coverage::{self, Coverage, FileState};
use crate::integrity::results::find_reports;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// The exit code of an advisory command that objects.
const OBJECTS: i32 = 1;
/// The exit code of one that calls the green bought.
const CALLS_HACKING: i32 = 2;
/// A larger coverage report is not read.
const MOST_REPORT: u64 = 64 << 20;
/// Bytes of a `go.mod` in which its module's path is looked for.
const MOST_MODULE: u64 = 1 << 20;

impl Site {
    /// Runs the sealed check in a fresh copy.
    pub(super) fn held_out(&mut self, tree: &str) -> Result<Option<RunFact>> {
        let Some(command) = self.spec.check.held_out.clone() else { return Ok(None) };
        self.run_aside("sealed check", &command, tree, Handed::Nothing, &BTreeMap::new()).map(Some)
    }

    /// Runs the advisory command in a fresh copy, with the facts in a file.
    pub(super) fn judge(&mut self, tree: &str, observation: &Observation) -> Result<Option<Veto>> {
        let Some(command) = self.spec.guards.judge.clone() else { return Ok(None) };
        let folder = self.make_io("judge")?;
        let file = folder.join("facts.json");
        let facts = json!({
            "run_id": self.run_id,
            "iteration": observation.iteration,
            "changes": observation.changes,
            "surface": observation.surface,
            "overlay": observation.overlay,
            "passed": observation.confirmations.last().map(|run| run.results.passed.len()),
            "exec_output": observation.exec.as_ref().map(|exec| &exec.run.tail),
        });
        let failed =
            |e| Error::io(Kind::WorkspaceInvalid, "cannot write the facts of the judge", e);
        foreign::write_new(&file, facts.to_string().as_bytes()).map_err(failed)?;
        // The command may run as another user: the way to the folder is not open to others on the host.
        for (path, mode) in [(&folder, 0o755), (&file, 0o644)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
        }
        let own =
            BTreeMap::from([("LOOPEXEC_FACTS".to_owned(), file.to_string_lossy().into_owned())]);
        let run = self.run_aside("judge", &command, tree, Handed::Read(&folder), &own)?;
        let said = run.tail.lines().map(str::trim).rfind(|line| !line.is_empty());
        let why = || said.unwrap_or("it gives no reason").chars().take(300).collect::<String>();
        let (objection, hacking) = match run.exit {
            Exit::Code { code: OBJECTS } => (Some(why()), false),
            Exit::Code { code: CALLS_HACKING } => (Some(why()), true),
            _ => (None, false),
        };
        Ok(Some(Veto { run, objection, hacking }))
    }

    fn run_aside(
        &mut self,
        name: &str,
        command: &CommandSpec,
        tree: &str,
        handed: Handed<'_>,
        own: &BTreeMap<String, String>,
    ) -> Result<RunFact> {
        self.stop_if_interrupted()?;
        self.jobs += 1;
        self.live.enter(name, self.iteration);
        let mut ground = self.ground_copy(tree, Place::Copy, handed)?;
        self.reset_services(&ground, &ground.view, Place::Copy)?;
        // After the reset, which is no business of a sealed check.
        if let Some(closed) = &mut ground.enclosure {
            let caches = self.places.cache.parent().unwrap_or(&self.places.cache);
            for note in closed.show_scripts(name, command, &self.caller, caches) {
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
        let env = self.surround.environment(Place::Copy, &ground, command, own)?;
        let left = Duration::from_millis(self.left_ms()).max(Duration::from_millis(1));
        let launch = Launch {
            view: ground.view.clone(),
            command,
            env,
            deadline: command.timeout.map_or(left, |timeout| timeout.min(left)),
            idle: None,
        };
        let launched = self.launch(&ground, launch, None);
        let cleared = self.clear(&ground);
        let (outcome, tail) = launched?;
        cleared?;
        let fact = self.run_fact(outcome, &tail)?;
        let how = match fact.exit {
            Exit::Code { code: 0 } => "passed".to_owned(),
            ref exit => crate::domain::judge::describe_exit(exit),
        };
        let time = crate::report::text::duration(fact.wall_ms);
        self.live.say(&format!("iteration {}: {name}: {how} ({time})", self.iteration));
        Ok(fact)
    }

    /// Reads the coverage that a run of the check in the workspace left.
    pub(super) fn take_coverage(
        &mut self,
        root: &Path,
        globs: &[String],
        phase: Phase,
    ) -> Result<()> {
        let roots = [self.workspace(), self.caller.root.clone()];
        let roots: Vec<String> =
            roots.iter().map(|root| root.to_string_lossy().into_owned()).collect();
        let module = go_module(root);
        let package = |import: &str| {
            let module = module.as_deref()?;
            import.strip_prefix(module).map(|rest| rest.trim_start_matches('/').to_owned())
        };
        let mut all: Option<Coverage> = None;
        for report in find_reports(root, globs)? {
            let bytes = match foreign::read(&report, Links::Refuse, MOST_REPORT) {
                Ok(bytes) => bytes,
                Err(error) => {
                    if error.kind() == ErrorKind::FileTooLarge {
                        self.notes.push(format!("{} is too large to be read", report.display()));
                    }
                    continue;
                }
            };
            match coverage::parse(&bytes, &roots, &package) {
                Ok(found) => merge(all.get_or_insert_with(Coverage::default), found),
                Err(why) => {
                    let path = report.strip_prefix(root).unwrap_or(&report);
                    self.notes.push(format!("coverage report {}: {why}", path.display()));
                }
            }
        }
        let at = usize::from(phase == Phase::Loop);
        self.coverage[at] = all;
        Ok(())
    }

    /// Compares coverage with that of t0.
    pub(super) fn coverage_of(&mut self, start: &str, tree: &str) -> Result<Option<CoverageFact>> {
        if self.spec.check.coverage.is_none() {
            return Ok(None);
        }
        let [Some(before), now] = &self.coverage else { return Ok(None) };
        let nothing = Coverage::default();
        let now = now.as_ref().unwrap_or(&nothing);
        let versions = self.surface_changes(start, tree)?;
        let mut marked = Vec::new();
        for version in versions.iter().filter(|version| before.files.contains_key(&version.path)) {
            let then = self.text_of(version.change.before)?;
            let (Some(then), Some(text)) = (then, self.text_of(version.change.after)?) else {
                continue;
            };
            if coverage::exclusion_marks(&text) > coverage::exclusion_marks(&then) {
                marked.push(version.path.clone());
            }
        }
        let states: HashMap<String, FileState> = versions
            .into_iter()
            .map(|version| match version.change.after {
                Some(_) => (version.path, FileState::Changed),
                None => (version.path, FileState::Gone),
            })
            .collect();
        let state = |path: &str| states.get(path).copied().unwrap_or(FileState::Same);
        let floor = coverage::floor(before, now, &state);
        let mut excluded = floor.excluded_grew;
        marked.retain(|path| !excluded.contains(path));
        excluded.append(&mut marked);
        Ok(Some(CoverageFact {
            before_ppm: floor.before_ppm,
            after_ppm: floor.after_ppm,
            excluded,
        }))
    }
}

fn merge(all: &mut Coverage, found: Coverage) {
    for (path, file) in found.files {
        let into = all.files.entry(path).or_default();
        into.executable.extend(file.executable);
        into.covered.extend(file.covered);
        into.excluded.extend(file.excluded);
    }
}

/// Returns the module path of a `go.mod` at the root.
fn go_module(root: &Path) -> Option<String> {
    let text = foreign::read_start(&root.join("go.mod"), Links::Refuse, MOST_MODULE).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find_map(|line| line.trim().strip_prefix("module "))?;
    Some(line.trim().trim_matches('"').to_owned())
}
