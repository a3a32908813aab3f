//! What the next exec is told of the attempts before it, gathered from the recorded facts alone.
//!
//! A resumed run and `build-context` gather the same from the receipt.

use crate::domain::command::Exit;
use crate::domain::evidence::{Decision, Evidence, From, Ratchet, name_some};
use crate::domain::fold::is_cut_short;
use crate::domain::history::History;
use crate::domain::judge::describe_exit;
use crate::domain::observation::{BaselineObservation, CheckRun, Observation, RunFact, TreeId};
use crate::domain::results::{Failure, Runner};
use crate::receipt::record::Step;
use crate::report::text::one_line;
use std::collections::BTreeMap;

/// Lines that are kept of what a command printed last.
const LAST_LINES: usize = 5;

/// Characters that are kept of each.
const LAST_WIDTH: usize = 300;

/// Attempts that are told of.
const ATTEMPTS: usize = 5;

/// One attempt, as far as it is told.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// Its iteration.
    pub iteration: u32,
    /// The snapshot it started from.
    pub base: TreeId,
    /// The snapshot it left.
    pub tree: TreeId,
    /// How it ended, in one sentence.
    pub ended: String,
}

/// What a check said of one snapshot.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Messages of failed tests.
    pub failures: Vec<Failure>,
    /// A build or collection that failed.
    pub broken: Option<String>,
    /// The end of what was printed.
    pub tail: String,
}

/// How a command ended last, and what it said of it, redacted.
#[derive(Debug, Clone)]
pub struct Last {
    /// How it ended, as the end of a sentence.
    pub ended: String,
    /// What the lines are.
    pub what: &'static str,
    /// A few lines.
    pub lines: Vec<String>,
}

impl Last {
    fn of(run: &RunFact) -> Self {
        Self {
            ended: describe_exit(&run.exit),
            what: "it printed last",
            lines: last_lines(&run.tail),
        }
    }

    /// Of a check the failures tell more than the end of what it printed, which may well be of tests that
    /// passed.
    fn of_check(check: &CheckRun) -> Self {
        let said = |failure: &Failure| {
            let message = failure.message.lines().find(|line| !line.trim().is_empty())?;
            Some(one_line(&format!("{}: {}", failure.id, message.trim()), LAST_WIDTH))
        };
        // Any other command is its own only test, and its message is what it printed.
        let tests =
            check.results.failures.iter().filter(|_| check.results.runner != Runner::Command);
        let failures = tests.filter_map(said).take(LAST_LINES);
        let failures: Vec<String> = failures.collect();
        let last = Self::of(&check.run);
        match (failures.is_empty(), &check.results.broken) {
            (false, _) => Self { what: "what failed", lines: failures, ..last },
            (true, Some(broken)) if !broken.trim().is_empty() => {
                Self { what: "it said", lines: last_lines(broken), ..last }
            }
            (true, _) => last,
        }
    }
}

fn last_lines(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    lines[from..].iter().map(|line| one_line(line, LAST_WIDTH)).collect()
}

/// What the next exec is told.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The last exec, where it failed.
    pub failed_exec: Option<Last>,
    /// The last check that ran; of copies that refute a green, the last one.
    pub last_check: Option<Last>,
    /// The last attempts, oldest first.
    pub attempts: Vec<Attempted>,
    said: BTreeMap<TreeId, Said>,
}

impl Memory {
    /// Takes in what a step of a recorded run adds.
    pub fn take(&mut self, step: &Step<'_>) {
        match step {
            Step::Baseline(observation) if !is_cut_short(observation.fault.as_ref()) => {
                self.baseline(observation);
            }
            Step::Decided(observation, evidence, decision, history)
                if !is_cut_short(observation.fault.as_ref()) =>
            {
                self.iteration(observation, evidence, decision, history);
            }
            _ => {}
        }
    }

    /// Takes the baseline in.
    pub fn baseline(&mut self, observation: &BaselineObservation) {
        if let Some(run) = observation.runs.get(1).or(observation.runs.first()) {
            self.said.insert(observation.tree.clone(), said(run));
        }
        // Where one gave no answer, that is the one that decides.
        let silent = observation.runs.iter().find(|run| !matches!(run.run.exit, Exit::Code { .. }));
        self.last_check = silent.or(observation.runs.last()).map(Last::of_check);
    }

    /// Takes one judged iteration in.
    pub fn iteration(
        &mut self,
        observation: &Observation,
        evidence: &Evidence,
        decision: &Decision,
        history: &History,
    ) {
        let exec = observation.exec.as_ref().filter(|_| evidence.exec_failed);
        self.failed_exec = exec.map(|exec| Last::of(&exec.run));
        if let Some(run) = &observation.check {
            let refuted = evidence.oracle.is_some() || !evidence.vetoes.is_empty();
            let red = observation.confirmations.iter().rev().find(|_| refuted);
            self.last_check = Some(Last::of_check(red.unwrap_or(run)));
            // Of a green that the tests of t0 do not bear out, those are what has to be mended.
            let told = red.filter(|_| !evidence.vetoes.is_empty()).unwrap_or(run);
            self.said.insert(observation.tree.clone(), said(told));
        }
        self.said.retain(|tree, _| {
            *tree == history.accepted.tree
                || *tree == history.next.tree
                || *tree == observation.tree
        });
        self.attempts.push(Attempted {
            iteration: observation.iteration,
            base: observation.base.clone(),
            tree: observation.tree.clone(),
            ended: ended(observation, evidence, decision),
        });
        if self.attempts.len() > ATTEMPTS {
            self.attempts.remove(0);
        }
    }

    /// Returns what the check said of a snapshot.
    pub fn said_of(&self, tree: &str) -> Said {
        self.said.get(tree).cloned().unwrap_or_default()
    }
}

fn said(run: &CheckRun) -> Said {
    Said {
        failures: run.results.failures.clone(),
        broken: run.results.broken.clone(),
        tail: run.run.tail.clone(),
    }
}

fn ended(observation: &Observation, evidence: &Evidence, decision: &Decision) -> String {
    let exec = if evidence.exec_failed { "exec failed; " } else { "" };
    let unchanged = observation.tree == observation.base;
    let what = match (&evidence.ratchet, evidence.verdict) {
        _ if unchanged => "nothing was changed".to_owned(),
        (Ratchet::Regressed { ids }, _) => format!("it broke {}", name_some(ids)),
        (Ratchet::BrokenTwice, _) => "build or collection failed again".to_owned(),
        (_, None) => "the check did not run".to_owned(),
        (_, Some(verdict)) => match evidence.failing.len() {
            0 => format!("the check said {}", verdict.as_str()),
            n => format!("{n} still failed ({})", name_some(&evidence.failing)),
        },
    };
    let back = match decision {
        Decision::Continue { from: From::Accepted } => {
            "; the tree was taken back to the accepted state"
        }
        _ => "",
    };
    format!("{exec}{what}{back}.")
}
