//! One run of the check, in the workspace or in a fresh copy, read into facts.

use super::site::{Ground, Site};
use crate::domain::command::Exit;
use crate::domain::judge::Phase;
use crate::domain::normalise;
use crate::domain::observation::{CheckRun, Place, RunFact, StreamFact, SurvivorFact};
use crate::domain::results::Runner;
use crate::error::Result;
use crate::integrity::results::{Out, Probe, RunnerChoice, remove_reports};
use crate::process::{Captured, Job, Observer, Outcome, Stream};
use crate::receipt::redact::Redactor;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Bytes of output that stand in an event, for people and for the next context.
const TAIL: usize = 6 * 1024;

/// The time between asking a command to end and killing it.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The least time a later check may take: slow is not broken.
const LEAST_TIMEOUT: Duration = Duration::from_secs(15 * 60);

impl Site {
    /// Runs the check once.
    pub(super) fn check(&mut self, place: Place, tree: &str, phase: Phase) -> Result<CheckRun> {
        self.stop_if_interrupted()?;
        self.jobs += 1;
        let name = match (phase, place) {
            (Phase::Loop, Place::Copy | Place::RealCopy) => "confirmation",
            (Phase::Baseline, _) => "baseline",
            _ => "check",
        };
        self.live.enter(name, self.iteration);
        let ground = match place {
            Place::Workspace => self.ground_workspace("exec"),
            _ => self.ground_copy(tree, place)?,
        };
        let run = self.check_on(&ground, place, tree, phase);
        let cleared = self.clear(&ground);
        let run = run?;
        cleared?;
        self.say_check(&run, name);
        Ok(run)
    }

    fn check_on(
        &mut self,
        ground: &Ground,
        place: Place,
        tree: &str,
        phase: Phase,
    ) -> Result<CheckRun> {
        let command = self.spec.check.command.clone();
        let io = self.places.cache.join("io").join("check");
        crate::workspace::places::create_folder(&io)?;
        let globs = self.spec.check.results.clone().unwrap_or_default();
        let mut ground_view = ground.view.clone();
        if !globs.is_empty() {
            self.remove_old_reports(ground, &globs, &mut ground_view)?;
        }
        let workspace = self.workspace();
        let at_root = |name: &str| workspace.join(name).exists();
        let choice = match self.spec.check.runner {
            None => RunnerChoice::Auto,
            Some(runner) => RunnerChoice::One(runner),
        };
        let text = super::surround::text_of(&command);
        let mut probe = Probe::prepare(choice, &globs, &at_root, &text, &io)?
            .with_roots(&[&ground.root, &self.workspace()]);
        let mut env = self.surround.environment(place, ground, &command, &BTreeMap::new())?;
        let hooks = probe.env(&|name| env.get(name).map(str::to_owned));
        env.extend(hooks);
        let job = Job {
            argv: self.surround.argv(&command)?,
            cwd: self.cwd(ground, &command)?,
            env: env.into_vec(),
            view: ground_view,
            deadline: Some(self.check_deadline(phase)),
            idle: None,
            idle_watch: Vec::new(),
            grace: GRACE,
            keep: self.keep(),
        };
        let mut listener = Listener {
            probe: Some(&mut probe),
            tail: Vec::new(),
            echo: self.live.shows_output().then(|| self.redactor.clone()),
        };
        let outcome = self.supervisor.run(&job, &mut listener)?;
        let tail = listener.last();
        self.stop_if_interrupted()?;
        let exit_ok = outcome.exit == Exit::Code { code: self.spec.check.success_exit_code };
        // Ids too: what is judged must be what the receipt says.
        let results = self.redactor.redact_fact(probe.collect(&ground.written, exit_ok))?;
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

    /// Returns the bytes kept of the head and again of the tail of each stream.
    pub(super) fn keep(&self) -> usize {
        usize::try_from(self.spec.receipt.capture / 2).unwrap_or(usize::MAX).min(8 << 20)
    }

    /// Writes what was kept of the output as blobs and returns the facts of a command.
    pub(super) fn run_fact(&mut self, outcome: Outcome, tail: &[u8]) -> Result<RunFact> {
        let stdout = self.stream_fact(&outcome.stdout)?;
        let stderr = self.stream_fact(&outcome.stderr)?;
        let survivors = outcome.survivors.into_iter().map(|survivor| SurvivorFact {
            pid: survivor.pid,
            name: survivor.name,
            command: survivor.command,
        });
        let text = crate::report::text::clean(&String::from_utf8_lossy(tail));
        self.redactor.redact_fact(RunFact {
            exit: outcome.exit,
            stdout,
            stderr,
            tail: text,
            wall_ms: u64::try_from(outcome.wall.as_millis()).unwrap_or(u64::MAX),
            survivors: survivors.collect(),
        })
    }

    fn stream_fact(&mut self, captured: &Captured) -> Result<StreamFact> {
        let mut kept = None;
        if captured.bytes > 0 {
            let mut bytes = captured.head.clone();
            let shown = (captured.head.len() + captured.tail.len()) as u64;
            if captured.bytes > shown {
                let left_out = captured.bytes - shown;
                bytes.extend_from_slice(format!("\n[{left_out} bytes left out]\n").as_bytes());
            }
            bytes.extend_from_slice(&captured.tail);
            kept = Some(self.blobs.write(&self.redactor.redact(&bytes))?);
        }
        Ok(StreamFact { bytes: captured.bytes, sha256: captured.sha256.clone(), kept })
    }

    /// Returns the folder a command starts in, as it sees it.
    pub(super) fn cwd(
        &self,
        ground: &Ground,
        command: &crate::domain::command::CommandSpec,
    ) -> Result<std::path::PathBuf> {
        let mut cwd = ground.root.join(&self.caller.prefix);
        if let Some(folder) = &command.cwd {
            cwd.push(folder);
        }
        Ok(cwd)
    }

    fn say_check(&self, run: &CheckRun, name: &str) {
        let results = &run.results;
        let what = match (&run.run.exit, results.runner) {
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
        let place = match run.place {
            Place::Workspace => "workspace",
            Place::Copy => "fresh copy",
            Place::RealCopy => "fresh copy, byte by byte",
            Place::CallerEnvironment => "fresh copy, your environment",
            Place::CallerHome => "fresh copy, your environment and HOME",
        };
        let at = if self.iteration == 0 {
            "baseline".to_owned()
        } else {
            format!("iteration {}", self.iteration)
        };
        let name = if name == "baseline" { "check" } else { name };
        self.live.say(&format!("{at}: {name} in {place}: {what} ({time})"));
    }
}

/// Hands output on while it comes.
pub(super) struct Listener<'a> {
    pub probe: Option<&'a mut Probe>,
    pub tail: Vec<u8>,
    pub echo: Option<std::sync::Arc<Redactor>>,
}

impl Observer for Listener<'_> {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(probe) = &mut self.probe {
            let out = match stream {
                Stream::Stdout => Out::Stdout,
                Stream::Stderr => Out::Stderr,
            };
            probe.observe(out, bytes);
        }
        if let Some(redactor) = &self.echo {
            let text = redactor.redact(bytes);
            let text = crate::report::text::clean(&String::from_utf8_lossy(&text));
            crate::commands::outcome::talk(text.trim_end_matches('\n'));
        }
        let start = bytes.len().saturating_sub(TAIL);
        self.tail.extend_from_slice(&bytes[start..]);
        if self.tail.len() > TAIL * 4 {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }
}

impl Listener<'_> {
    /// Returns the last bytes of both streams in the order they came.
    pub(super) fn last(mut self) -> Vec<u8> {
        let start = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..start);
        self.tail
    }
}
