//! The probe of one run of the check: prepares, listens, and decides by evidence.

use super::hooks::Hooks;
use super::jsonl::{Jsonl, runner_of};
use super::lines::Lines;
use super::tally::{INCOMPLETE, MAX_IDS, Tally, union};
use super::{ctest, golang, gtest, harness, junit, jvm, libtest, nextest, reports, tap, teamcity};
use crate::domain::results::{Failure, Results, Runner};
use crate::domain::weakening::UNREAD;
use crate::error::{Error, Kind, Result};
use std::io::Read as _;
use std::path::Path;

/// The most files of hooks that are read.
const MAX_FILES: usize = 1_000;
/// The most names of such files that are listed, to take the first of.
const MAX_LISTED: usize = 100_000;
/// The most bytes of one such file.
const MAX_FILE: u64 = 256 << 20;
/// The most bytes of a log that tells only how many assertions there were.
const MAX_COUNTS: u64 = 16 << 20;
/// The runners whose hooks disturb nothing where the runner is not there.
const AUTO: [Runner; 10] = [
    Runner::Pytest,
    Runner::Unittest,
    Runner::Node,
    Runner::Jest,
    Runner::Vitest,
    Runner::Mocha,
    Runner::Rspec,
    Runner::Phpunit,
    Runner::Nextest,
    // Programs of GoogleTest, whoever starts them.
    Runner::Ctest,
];
/// The id that stands for a check whose tests nobody names.
pub(super) const CHECK: &str = "check";

/// Where results are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunnerChoice {
    /// Wherever they are found.
    Auto,
    /// Only where this runner leaves them.
    One(Runner),
}

/// A stream of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One run of the check, listened to.
#[derive(Debug)]
pub struct Probe {
    choice: RunnerChoice,
    globs: Vec<String>,
    hooks: Hooks,
    roots: Vec<String>,
    streams: [Lines; 2],
    text: Readers,
    // The command names prove.
    proves: bool,
    // Who writes TAP, as far as the command tells.
    tap: Runner,
    // Nobody said that reports are written.
    undeclared: bool,
}

#[derive(Debug)]
struct Readers {
    libtest: libtest::Libtest,
    nextest: [nextest::Nextest; 2],
    go: golang::Go,
    tap: tap::Tap,
    ctest: ctest::Ctest,
    jvm: jvm::Jvm,
}

impl Probe {
    /// Prepares one run: checks the globs and writes hooks into `dir`, a private folder that no
    /// other run uses meanwhile and that has one path inside and outside the zone.
    ///
    /// `files_at_root` tells whether the workspace has a file of that name at its root.
    ///
    /// # Errors
    /// Bad globs (`config_invalid`), a folder that cannot be written (`workspace_invalid`).
    pub fn prepare(
        choice: RunnerChoice,
        report_globs: &[String],
        files_at_root: &dyn Fn(&str) -> bool,
        command_text: &str,
        dir: &Path,
    ) -> Result<Self> {
        reports::check_globs(report_globs)?;
        if choice == RunnerChoice::One(Runner::Junit) && report_globs.is_empty() {
            return Err(Error::new(
                Kind::ConfigInvalid,
                "`check.runner: junit` needs `check.results`: where the reports are written",
            )
            .hint("add `results: [\"reports/**/*.xml\"]` under `check`"));
        }
        let runners: Vec<Runner> = match choice {
            RunnerChoice::One(runner) => vec![runner],
            RunnerChoice::Auto => {
                let go = ["go.mod", "go.work"].iter().any(|file| files_at_root(file))
                    || mentions(command_text, "go");
                let mut runners = AUTO.to_vec();
                runners.extend(go.then_some(Runner::Go));
                runners
            }
        };
        let hooks = Hooks::write(dir, &runners)?;
        let roots = Vec::new();
        let text = Readers::new(&roots);
        let streams = [Lines::default(), Lines::default()];
        let proves = mentions(command_text, "prove");
        let bats = match choice {
            RunnerChoice::Auto => mentions(command_text, "bats"),
            RunnerChoice::One(runner) => runner == Runner::Bats,
        };
        let tap = if bats { Runner::Bats } else { Runner::Tap };
        // What nobody declared need not be there: a check may run no test of Java.
        let defaults = reports::default_globs(choice, files_at_root);
        let undeclared = report_globs.is_empty() || report_globs == defaults.as_slice();
        let globs = report_globs.to_vec();
        Ok(Self { choice, globs, hooks, roots, streams, text, proves, tap, undeclared })
    }

    /// Names absolute folders under which the command sees the workspace: ids and files lose them.
    pub fn with_roots(mut self, roots: &[&Path]) -> Self {
        for root in roots {
            let root = root.to_string_lossy().trim_end_matches('/').to_owned();
            if root.len() > 1 && !self.roots.contains(&root) {
                self.roots.push(root);
            }
        }
        // The longest first: a root may lie inside another.
        self.roots.sort_by_key(|root| std::cmp::Reverse(root.len()));
        self.text = Readers::new(&self.roots);
        self
    }

    /// Returns the variables to set on the check; `base` gives the value that one has without us.
    pub fn env(&self, base: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
        self.hooks.env(base)
    }

    /// Takes the next bytes that the check printed.
    pub fn observe(&mut self, stream: Out, chunk: &[u8]) {
        let text = &mut self.text;
        self.streams[index(stream)].push(chunk, &mut |line| text.line(stream, line));
    }

    /// Returns the results, once every process of the check is dead.
    ///
    /// `root` is the workspace or copy as seen by us, for declared report files; `exit_ok` tells
    /// whether the check ended with 0.
    pub fn collect(mut self, root: &Path, exit_ok: bool) -> Results {
        for stream in [Out::Stdout, Out::Stderr] {
            let text = &mut self.text;
            self.streams[index(stream)].finish(&mut |line| text.line(stream, line));
        }
        let mut unread = Vec::new();
        let mut parts = self.read_hooks(&mut unread);
        match reports::read_reports(root, &self.globs, &self.roots) {
            Ok(found) => {
                if found.is_empty() && !self.undeclared {
                    unread.push("No report matches `check.results`.".to_owned());
                }
                parts.extend(found);
            }
            Err(error) => unread.push(error.to_string()),
        }
        let choice = self.choice;
        let proves = self.proves || self.text.tap.is_proved();
        let in_place = self.hooks.is_in_place();
        let premature = in_place && self.hooks.premature().symlink_metadata().is_ok();
        let programs =
            in_place.then(|| gtest::read_folder(&self.hooks.gtest(), &self.roots)).flatten();
        self.text.finish(choice, self.tap, root, &mut parts);
        gtest::join(&mut parts, programs);
        if premature {
            unread
                .push(format!("{INCOMPLETE}a program of GoogleTest left before it had finished."));
        }
        if let RunnerChoice::One(runner) = choice {
            // Declared reports are results of whatever runner wrote them.
            parts.retain(|part| part.runner == runner || !self.undeclared);
        }
        drop_silent(&mut parts, exit_ok, &mut unread);
        let wanted = matches!(choice, RunnerChoice::Auto | RunnerChoice::One(Runner::Tap));
        if proves && wanted && parts.is_empty() {
            unread.push("No test point was seen; add -v to prove.".to_owned());
        }
        let mut results = match choice {
            RunnerChoice::One(Runner::Command) => whole(exit_ok),
            _ => union(parts).unwrap_or_else(|| {
                if let RunnerChoice::One(runner) = choice {
                    unread.push(format!("No results of {runner:?} were found.").to_lowercase());
                }
                whole(exit_ok)
            }),
        };
        if let RunnerChoice::One(runner) = choice
            && results.runner != Runner::Command
        {
            results.runner = runner;
        }
        results.problems.append(&mut unread);
        cross_check(&mut results, exit_ok);
        results
    }

    /// Reads what the hooks wrote, one part a runner.
    fn read_hooks(&mut self, unread: &mut Vec<String>) -> Vec<Results> {
        let mut files = self.hooks.written(MAX_LISTED);
        files.sort();
        if files.len() > MAX_FILES {
            unread.push(format!("{UNREAD}more than {MAX_FILES} processes ran tests."));
            files.truncate(MAX_FILES);
        }
        let mut parts: Vec<(Runner, Jsonl)> = Vec::new();
        let mut phpunit = Tally::new(Runner::Phpunit, &self.roots);
        for file in files {
            if file.extension().is_some_and(|end| end == "teamcity") {
                let counts = reports::read_bounded(&file.with_extension("junit"), MAX_COUNTS);
                let counts = counts.map(|bytes| junit::assertions(&bytes)).unwrap_or_default();
                if let Ok(log) = reports::open_plain(&file) {
                    teamcity::read(log.take(MAX_FILE), &counts, &mut phpunit);
                }
                continue;
            }
            let Some(runner) =
                reports::read_bounded(&file, 64 << 10).ok().and_then(|head| runner_of(&head))
            else {
                continue;
            };
            let at = parts.iter().position(|(known, _)| *known == runner).unwrap_or_else(|| {
                parts.push((runner, Jsonl::new(runner, &self.roots)));
                parts.len() - 1
            });
            if let Some((_, reader)) = parts.get_mut(at)
                && let Ok(file) = reports::open_plain(&file)
            {
                reader.read(file.take(MAX_FILE));
            }
        }
        let mut parts: Vec<Results> =
            parts.into_iter().map(|(_, reader)| reader.finish()).collect();
        if !phpunit.is_empty() {
            parts.push(phpunit.finish());
        }
        parts
    }
}

impl Readers {
    fn new(roots: &[String]) -> Self {
        Self {
            libtest: libtest::Libtest::new(roots),
            nextest: [nextest::Nextest::new(roots), nextest::Nextest::new(roots)],
            go: golang::Go::new(roots),
            tap: tap::Tap::new(tap::Want::Recognised, roots),
            ctest: ctest::Ctest::new(roots),
            jvm: jvm::Jvm::default(),
        }
    }

    fn line(&mut self, stream: Out, line: &str) {
        let at = index(stream);
        self.nextest[at].line(line);
        // What nextest captured is text of other runners that already counted.
        if self.nextest[at].is_running() {
            return;
        }
        self.libtest.line(stream, line);
        self.go.line(stream, line);
        match stream {
            Out::Stdout => {
                self.tap.line(line);
                self.ctest.line(line);
                self.jvm.line(line);
            }
            Out::Stderr => self.tap.comment(line),
        }
    }

    fn finish(self, choice: RunnerChoice, tap: Runner, root: &Path, parts: &mut Vec<Results>) {
        let wanted =
            |runner: Runner| choice == RunnerChoice::Auto || choice == RunnerChoice::One(runner);
        if wanted(Runner::Nextest) {
            let seen = self.nextest.into_iter().filter(nextest::Nextest::is_seen);
            parts.extend(seen.map(nextest::Nextest::finish));
        }
        // A build that fails before nextest prints its heading looks like cargo's own.
        if self.libtest.is_seen()
            && (wanted(Runner::Cargo) || choice == RunnerChoice::One(Runner::Nextest))
        {
            let mut part = self.libtest.finish(&|| harness::read_own_harness(root));
            if choice == RunnerChoice::One(Runner::Nextest) {
                part.runner = Runner::Nextest;
            }
            parts.push(part);
        }
        if wanted(Runner::Go) && self.go.is_seen() {
            parts.push(self.go.finish());
        }
        if wanted(Runner::Ctest) && self.ctest.is_seen() {
            parts.push(self.ctest.finish());
        }
        if wanted(Runner::Maven) || wanted(Runner::Gradle) {
            parts.extend(self.jvm.finish());
        }
        if wanted(tap) && self.tap.is_seen() {
            let echo = parts.iter().any(|part| part.runner == Runner::Node);
            let own = if echo { tap::Echo::Drop } else { tap::Echo::Keep };
            let stream = self.tap.finish(tap, own);
            // A reporter of TAP repeats what its runner told us.
            let repeats = parts.iter().any(|part| {
                matches!(part.runner, Runner::Mocha | Runner::Vitest | Runner::Jest)
                    && with_result(part) == with_result(&stream)
            });
            if !repeats {
                parts.push(stream);
            }
        }
    }
}

fn index(stream: Out) -> usize {
    match stream {
        Out::Stdout => 0,
        Out::Stderr => 1,
    }
}

/// Tells whether a text names a program as a word of its own.
fn mentions(text: &str, program: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .any(|word| word == program)
}

/// Removes parts without a test or a broken build; their problems stay.
///
/// A runner that left with 0 before it named a test stays: it is no check whose tests nobody names.
fn drop_silent(parts: &mut Vec<Results>, exit_ok: bool, problems: &mut Vec<String>) {
    parts.retain_mut(|part| {
        let left = exit_ok && part.problems.iter().any(|one| one.starts_with(INCOMPLETE));
        let silent = part.collected.is_empty() && part.broken.is_none() && !left;
        if silent {
            problems.append(&mut part.problems);
        }
        !silent
    });
}

/// Returns how many tests have a result.
fn with_result(results: &Results) -> usize {
    results.passed.len() + results.failed.len() + results.skipped.len()
}

/// Returns the results of a check whose tests nobody names.
fn whole(exit_ok: bool) -> Results {
    let mut results = Results::new(Runner::Command);
    results.collected.insert(CHECK.into());
    if exit_ok {
        results.passed.insert(CHECK.into());
    } else {
        results.failed.insert(CHECK.into());
        results.failures.push(Failure {
            id: CHECK.into(),
            message: "The check ended with another exit code than 0.".to_owned(),
            file: None,
            line: None,
        });
    }
    results
}

/// Writes down where results and exit code contradict; deciding is not ours.
fn cross_check(results: &mut Results, exit_ok: bool) {
    if results.runner == Runner::Command {
        return;
    }
    if results.collected.len() > MAX_IDS {
        results.problems.push(format!("More than {MAX_IDS} tests were reported."));
    }
    let unknown = results.unknown().len();
    if exit_ok && !results.failed.is_empty() {
        results.problems.push(format!(
            "rc_results_mismatch: the check ended with 0 and {} tests are reported failed.",
            results.failed.len()
        ));
    }
    if exit_ok && unknown > 0 {
        results.problems.push(format!(
            "rc_results_mismatch: the check ended with 0 and {unknown} collected tests have no result."
        ));
    }
    if !exit_ok && results.failed.is_empty() && results.broken.is_none() {
        results.problems.push(
            "rc_results_mismatch: the check did not end with 0 and no test is reported failed."
                .to_owned(),
        );
    }
}
