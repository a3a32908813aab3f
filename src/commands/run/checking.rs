//! One run of the check, in the workspace or in a fresh copy, read into facts.

use super::running::Launch;
use super::site::{Ground, Handed, Role, Site};
use crate::domain::command::Exit;
use crate::domain::judge::{Phase, first_line};
use crate::domain::normalise;
use crate::domain::observation::{CheckRun, Place};
use crate::domain::results::Runner;
use crate::domain::weakening::{INCOMPLETE, REWRITTEN};
use crate::error::Result;
use crate::integrity::results::{Probe, RunnerChoice, default_globs, remove_reports};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The least time a later check may take: slow is not broken.
const LEAST_TIMEOUT: Duration = Duration::from_secs(15 * 60);

impl Site {
    /// Runs the check once.
    pub(super) fn check(&mut self, place: Place, tree: &str, phase: Phase) -> Result<CheckRun> {
        let name = match (phase, place) {
            (Phase::Loop, Place::Copy | Place::RealCopy) => "confirmation",
            (Phase::Loop, Place::Canary) => "canary",
            (Phase::Baseline, _) => "baseline",
            _ => "check",
        };
        self.check_as(name, place, tree, phase)
    }

    /// Runs the check once on the state that a run which is taken up had accepted.
    pub(super) fn recheck(&mut self, iteration: u32, tree: &str) -> Result<CheckRun> {
        self.iteration = iteration;
        self.check_as("re-check of the accepted state", Place::Copy, tree, Phase::Loop)
    }

    fn check_as(&mut self, name: &str, place: Place, tree: &str, phase: Phase) -> Result<CheckRun> {
        self.stop_if_interrupted()?;
        self.jobs += 1;
        self.live.enter(name, self.iteration);
        let io = self.make_io("check")?;
        let ground = match place {
            Place::Workspace => self.ground_workspace(Role::Check, Handed::Written(&io))?,
            _ => self.ground_copy(tree, place, Handed::Written(&io))?,
        };
        let run = self.check_on(&ground, &io, place, tree, phase);
        let cleared = self.clear(&ground);
        let run = run?;
        cleared?;
        self.say_check(&run, name);
        Ok(run)
    }

    fn check_on(
        &mut self,
        ground: &Ground,
        io: &Path,
        place: Place,
        tree: &str,
        phase: Phase,
    ) -> Result<CheckRun> {
        let command = self.spec.check.command.clone();
        let workspace = self.workspace();
        let at_root = |name: &str| workspace.join(name).exists();
        let choice = match self.spec.check.runner {
            None => RunnerChoice::Auto,
            Some(runner) => RunnerChoice::One(runner),
        };
        let declared = self.spec.check.results.clone();
        let globs = declared.unwrap_or_else(|| default_globs(choice, &at_root));
        let coverage = self.spec.check.coverage.clone().unwrap_or_default();
        if place == Place::Workspace && !coverage.is_empty() {
            // A report of an earlier run says nothing about this one.
            remove_reports(&ground.written, &coverage)?;
        }
        let mut ground_view = ground.view.clone();
        if !globs.is_empty() {
            self.remove_old_reports(ground, &globs, &mut ground_view)?;
        }
        let text = super::surround::text_of(&command);
        self.reset_services(ground, &ground_view, place)?;
        let mut probe = Probe::prepare(choice, &globs, &at_root, &text, io)?
            .with_roots(&[&ground.root, &self.workspace()]);
        let mut env = self.surround.environment(place, ground, &command, &BTreeMap::new())?;
        let hooks = probe.env(&|name| env.get(name).map(str::to_owned));
        env.extend(hooks);
        let launch = Launch {
            view: ground_view,
            command: &command,
            env,
            deadline: self.check_deadline(phase),
            idle: None,
        };
        let (outcome, tail) = self.launch(ground, launch, Some(&mut probe))?;
        let exit_ok = outcome.exit == Exit::Code { code: self.spec.check.success_exit_code };
        // Ids too: what is judged must be what the receipt says.
        let mut results = self.redactor.redact_fact(probe.collect(&ground.written, exit_ok))?;
        let rewritten = match ground.copy.is_some() {
            true => self.rewritten_tests(&ground.written, tree, phase)?,
            false => Vec::new(),
        };
        results.problems.extend(
            rewritten
                .into_iter()
                .map(|path| format!("{INCOMPLETE}{path} decides tests and {REWRITTEN}")),
        );
        if place == Place::Workspace && !coverage.is_empty() {
            self.take_coverage(&ground.written, &coverage, phase)?;
        }
        if phase == Phase::Baseline {
            let wall = u64::try_from(outcome.wall.as_millis()).unwrap_or(u64::MAX);
            self.baseline_check_ms = self.baseline_check_ms.max(wall);
        }
        let code = match outcome.exit {
            Exit::Code { code } => Some(code),
            _ => None,
        };
        let verdict = match (code, exit_ok) {
            (None, _) => "error",
            (_, true) => "pass",
            (_, false) => "fail",
        };
        let class = match results.runner {
            Runner::Command => self.output_class(&tail, &ground.root),
            // Red without a red test: a threshold, say, whose figure is all that moves.
            _ if verdict == "fail" && results.failed.is_empty() && results.broken.is_none() => {
                self.output_class(&tail, &ground.root)
            }
            _ => normalise::failure_class(&results),
        };
        let fingerprint = normalise::fingerprint(verdict, code, &results);
        let run = self.run_fact(outcome, &tail)?;
        Ok(CheckRun { place, tree: tree.to_owned(), run, results, class, fingerprint })
    }

    /// Takes reports of earlier runs away, so that only fresh ones are read.
    fn remove_old_reports(
        &self,
        ground: &Ground,
        globs: &[String],
        view: &mut crate::process::View,
    ) -> Result<()> {
        match view {
            crate::process::View::Namespace { remove, .. } if ground.copy.is_some() => {
                let layer = self.layer.as_ref().map(|layer| layer.tree.as_path());
                for root in layer.into_iter().chain([ground.written.as_path()]) {
                    for report in crate::integrity::results::find_reports(root, globs)? {
                        let inside = report.strip_prefix(root).unwrap_or(&report);
                        remove.push(ground.root.join(inside));
                    }
                }
                remove.sort();
                remove.dedup();
                Ok(())
            }
            _ => remove_reports(&ground.written, globs).map(|_| ()),
        }
    }

    /// Returns the class of a failure that has no tests: the end of what was printed, masked.
    fn output_class(&self, tail: &[u8], root: &Path) -> String {
        let text = self.redactor.redact_str(&String::from_utf8_lossy(tail));
        let roots =
            [root.to_string_lossy().into_owned(), self.workspace().to_string_lossy().into_owned()];
        let roots: Vec<&str> = roots.iter().map(String::as_str).collect();
        crate::domain::hex::sha256(normalise::mask(&text, &roots).as_bytes())
    }

    fn check_deadline(&self, phase: Phase) -> Duration {
        let limit = match phase {
            Phase::Baseline => self.spec.limits.time / 2,
            Phase::Loop => self.spec.check.command.timeout.unwrap_or_else(|| {
                LEAST_TIMEOUT.max(Duration::from_millis(self.baseline_check_ms.saturating_mul(3)))
            }),
        };
        limit.min(Duration::from_millis(self.left_ms())).max(Duration::from_millis(1))
    }

    fn say_check(&self, run: &CheckRun, name: &str) {
        let results = &run.results;
        let what = match (&run.run.exit, results.runner) {
            (Exit::Code { code }, _) if results.broken.is_some() => {
                let why = results.broken.as_deref().map(first_line).unwrap_or_default();
                format!("exit {code}, build or collection failed: {why}")
            }
            (Exit::Code { code }, Runner::Command) => format!("exit {code}"),
            (Exit::Code { code }, _) => format!(
                "exit {code}, {} failed, {} passed of {}",
                results.failed.len(),
                results.passed.len(),
                results.collected.len()
            ),
            (exit, _) => crate::domain::judge::describe_exit(exit),
        };
        let time = crate::report::text::duration(run.run.wall_ms);
        let place = crate::report::render::place(run.place);
        let at = if self.iteration == 0 {
            "baseline".to_owned()
        } else {
            format!("iteration {}", self.iteration)
        };
        let name = if name == "baseline" { "check" } else { name };
        self.live.say(&format!("{at}: {name} in {place}: {what} ({time})"));
    }
}
