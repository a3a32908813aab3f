//! What a run has shown so far: the fold of all evidence, and nothing else.
//!
//! Everything in it can be recomputed from the receipt. It grows by a small record an iteration.

use crate::domain::evidence::{Breach, Evidence, From, Ratchet, Verdict};
use crate::domain::gate::Answer;
use crate::domain::observation::{BaselineObservation, CheckRun, TreeId, Usage};
use crate::domain::results::{IdSet, Runner, TestId, WHOLE, base_id, last_part};
use crate::domain::surface::TestAt;
use crate::domain::weakening::{INCOMPLETE, family, is_cut, names};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// A pair of tests counts only while so few changed at once that the pair means something.
const MOST_PAIRS_AT_ONCE: usize = 400;

/// A state and what passed and failed in it.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The snapshot.
    pub tree: TreeId,
    /// The iteration it comes from, 0 for the baseline.
    pub iteration: u32,
    /// Its passing set.
    pub passing: Arc<IdSet>,
    /// Its failing set.
    pub failing: Arc<IdSet>,
}

/// How often a value returned after having been different.
#[derive(Debug, Clone, Default)]
pub struct Returns {
    seen: HashSet<String>,
    last: String,
    /// Returns so far.
    pub count: u32,
}

impl Returns {
    fn push(&mut self, value: &str, base: &str) {
        if self.seen.contains(value) && self.last != value && value != base {
            self.count += 1;
        }
        self.seen.insert(value.to_owned());
        value.clone_into(&mut self.last);
    }
}

/// How a test fared at t0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fared {
    /// Whether it ran; else it was skipped or never reached.
    pub ran: bool,
}

/// What the check told of its tests at t0, in copies that agreed.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The tests, by id; those that came and went between the copies left out.
    pub tests: BTreeMap<TestId, Fared>,
    /// Families of tests whose ids differed between two copies: times, random numbers, paths.
    pub loose: BTreeSet<String>,
    /// Whether its results did not fit together then.
    pub was_incomplete: bool,
    /// Whether there was more of them than is read.
    pub was_cut: bool,
    families: BTreeMap<String, u32>,
    by_name: BTreeMap<String, Vec<TestId>>,
}

impl Start {
    fn of(observation: &BaselineObservation) -> Self {
        let mut start = Self::default();
        let runs: Vec<&CheckRun> =
            observation.runs.iter().chain(&observation.confirmations).collect();
        let copies = if runs.len() > 1 { &runs[1..] } else { &runs[..] };
        let Some(first) = copies.first() else { return start };
        // A first run that built nothing, or told nothing, takes no test away from the copies.
        let told = |run: &&&CheckRun| {
            run.results.runner == first.results.runner
                && !run.results.collected.is_empty()
                && run.results.broken.is_none()
        };
        let deciding: Vec<&&CheckRun> =
            copies.iter().chain(runs.first().filter(|run| told(run))).collect();
        for run in &runs {
            if run.results.runner == Runner::Command {
                continue;
            }
            for id in &run.results.collected {
                if deciding.iter().all(|run| run.results.collected.contains(id)) {
                    let ran = run.results.passed.contains(id) || run.results.failed.contains(id);
                    start.tests.entry(id.clone()).or_insert(Fared { ran: false }).ran |= ran;
                } else {
                    start.loose.insert(family(run.results.runner, id).to_owned());
                }
            }
        }
        for id in start.tests.keys() {
            *start.families.entry(family(first.results.runner, id).to_owned()).or_default() += 1;
            let name = last_part(base_id(id)).to_owned();
            start.by_name.entry(name).or_default().push(id.clone());
        }
        let odd = |text: &String| text.starts_with(INCOMPLETE);
        start.was_incomplete = copies.iter().any(|run| run.results.problems.iter().any(odd));
        start.was_cut = runs.iter().any(|run| is_cut(&run.results));
        start
    }

    /// Returns how many cases of a parametrised test there were.
    pub fn cases(&self, base: &str) -> u32 {
        self.families.get(base).copied().unwrap_or_default()
    }

    /// Says whether the check ran a test that the source has.
    pub fn counts(&self, test: &TestAt) -> bool {
        let ids = self.by_name.get(&test.name);
        ids.is_some_and(|ids| ids.iter().any(|id| names(id, test)))
            || self.tests.contains_key(test.name.as_str())
            // Nobody knows which tests ran where those that pass have no names.
            || test.file.ends_with(".rs") && self.by_name.contains_key(WHOLE)
    }
}

/// What a run has shown so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Iterations that were judged.
    pub iterations: u32,
    /// What was carried, before `setup` and the check added to it; a result is delivered on it.
    pub carried: TreeId,
    /// The baseline.
    pub baseline: Option<State>,
    /// Digest of the baseline's failing set.
    pub baseline_digest: String,
    /// Paths that the check wrote on the baseline.
    pub check_writes: Vec<String>,
    /// Digests at t0 of what snapshots do not hold.
    pub control: BTreeMap<String, String>,
    /// What the check told of its tests at t0.
    pub start: Arc<Start>,
    /// Would-be greens that were told to the agent.
    pub vetoed: u32,
    /// Breaches so far, reverted ones among them.
    pub breached: u32,
    /// Ids that were ever collected.
    pub known: IdSet,
    /// Ids that disagreed between copies of the baseline.
    pub unstable: IdSet,
    /// The accepted state.
    pub accepted: State,
    /// The state the next exec starts from.
    pub next: State,
    /// Smallest number of remaining ids.
    pub best: u64,
    /// Iterations since then.
    pub since_best: u32,
    /// Reverts by the ratchet.
    pub reverts: u32,
    /// Broken builds or collections in a row.
    pub broken_in_row: u32,
    /// Verdicts `error` in a row.
    pub errors_in_row: u32,
    /// Failed execs in a row.
    pub exec_failures_in_row: u32,
    /// Iterations in a row with the same failure although the tree changed.
    pub same_failure: u32,
    /// Iterations that changed the tree and whose failing set was measured.
    pub changed: u32,
    /// Of the iterations since the best one, those whose build or collection failed.
    pub broken_since_best: u32,
    /// Why build or collection failed last.
    pub last_broken: String,
    /// Iterations in which the check gave no answer.
    pub unanswered: u32,
    /// How the last check ended, where that was without an answer.
    pub last_unanswered: String,
    /// Whether a failing set ever differed from the baseline's.
    pub left_baseline: bool,
    /// Returns of the tree after exec.
    pub tree_returns: Returns,
    /// Returns of the failing set.
    pub failing_returns: Returns,
    /// How often fixing one of a pair broke the other.
    pub pairs: BTreeMap<(TestId, TestId), u32>,
    /// All that was spent.
    pub spent: Usage,
    /// Milliseconds of the run so far.
    pub elapsed_ms: u64,
    /// Verdicts of fresh copies, by tree.
    pub copies: BTreeMap<TreeId, Verdict>,
    /// Same-key reruns in fresh copies.
    pub reruns: u64,
    /// Flips among them.
    pub flips: u64,
    /// What the next exec should know.
    pub feedback: Vec<String>,
    /// The last state whose failing set was measured.
    pub measured: Option<State>,
    /// Tests that the last check collected that gave an answer.
    pub collected_last: usize,
    /// Tests that the baseline collected; none where it gave no answer.
    pub collected_first: Option<usize>,
    /// What failed in a red first run of which every fresh copy was green.
    pub first_red: Option<Arc<IdSet>>,
    /// What people should know of the baseline.
    pub notes: Vec<String>,
    /// The verdict of the last iteration, or of the baseline.
    pub last_verdict: Option<Verdict>,
    /// Guards that did not hold in the last iteration.
    pub breaches: Vec<Breach>,
    /// What people answered so far.
    pub answers: Vec<Answer>,
    /// What was known when a person was asked last; decided again when the answer is there.
    pub waiting: Option<Box<Evidence>>,
    last_class: String,
    failing_sets: Vec<Arc<IdSet>>,
}

impl History {
    /// Returns the history after the baseline; `answers` are those given before it.
    pub fn after_baseline(
        evidence: &Evidence,
        observation: &BaselineObservation,
        answers: Vec<Answer>,
    ) -> Self {
        let state = state_of(evidence);
        let mut history = Self {
            carried: observation.carried.clone(),
            baseline: Some(state.clone()),
            baseline_digest: evidence.failing_digest.clone(),
            check_writes: observation.check_writes.clone(),
            control: observation.control.clone(),
            start: Arc::new(Start::of(observation)),
            known: (*evidence.collected).clone(),
            unstable: evidence.unstable.clone(),
            accepted: state.clone(),
            next: state,
            best: if evidence.measured { evidence.remaining } else { u64::MAX },
            elapsed_ms: evidence.elapsed_ms,
            reruns: evidence.reruns,
            flips: evidence.flips,
            feedback: evidence.feedback.clone(),
            measured: evidence.measured.then(|| state_of(evidence)),
            collected_last: evidence.collected.len(),
            collected_first: evidence.measured.then(|| evidence.collected.len()),
            first_red: evidence.first_red.clone(),
            notes: evidence.notes.clone(),
            last_verdict: evidence.verdict,
            answers,
            waiting: waiting(evidence),
            ..Self::default()
        };
        if let Some(verdict) = evidence.copies {
            history.copies.insert(evidence.tree.clone(), verdict);
        }
        history.tree_returns.push(&evidence.tree, "");
        if evidence.measured {
            history.failing_returns.push(&evidence.failing_digest, "");
            history.failing_sets.push(evidence.failing.clone());
        }
        history
    }

    /// Returns how many ids failed before the first exec; none where that was not measured.
    ///
    /// A red first run counts where the copies after it were green.
    pub fn failing_first(&self) -> Option<usize> {
        let baseline = self.baseline.as_ref().filter(|_| self.collected_first.is_some());
        let failing = self.first_red.as_ref().or(baseline.map(|state| &state.failing));
        failing.map(|ids| ids.len())
    }

    /// Folds the evidence of one iteration and where the next one starts.
    pub fn after(&mut self, evidence: &Evidence, from: &From) {
        let base = self.next.clone();
        let changed = evidence.tree != base.tree;
        self.iterations = evidence.iteration;
        self.elapsed_ms = evidence.elapsed_ms;
        self.spent = evidence.spent;
        self.last_verdict = evidence.verdict;
        self.breaches.clone_from(&evidence.breaches);
        self.waiting = waiting(evidence);
        self.reruns = evidence.reruns;
        self.flips = evidence.flips;
        self.feedback.clone_from(&evidence.feedback);
        if let Some(verdict) = evidence.copies {
            let copied = match evidence.copied.is_empty() {
                true => &evidence.tree,
                false => &evidence.copied,
            };
            self.copies.insert(copied.clone(), verdict);
        }
        self.vetoed += u32::from(!evidence.vetoes.is_empty());
        self.breached += u32::from(!evidence.breaches.is_empty());
        self.exec_failures_in_row =
            if evidence.exec_failed { self.exec_failures_in_row + 1 } else { 0 };
        self.errors_in_row = match evidence.verdict {
            Some(Verdict::Error) => self.errors_in_row + 1,
            _ => 0,
        };
        self.broken_in_row = match (&evidence.ratchet, evidence.broken) {
            (Ratchet::BrokenTwice, _) | (_, false) => 0,
            (_, true) => self.broken_in_row + 1,
        };
        self.changed += u32::from(changed && evidence.measured);
        if evidence.measured {
            self.measured = Some(state_of(evidence));
        }
        if matches!(evidence.verdict, Some(Verdict::Pass | Verdict::Fail)) {
            self.collected_last = evidence.collected.len();
        }
        self.tree_returns.push(&evidence.tree, &base.tree);
        self.fold_failing(evidence, &base, changed);

        let tip = State {
            tree: evidence.tree.clone(),
            iteration: evidence.iteration,
            passing: evidence.passing.clone(),
            failing: if evidence.measured { evidence.failing.clone() } else { base.failing },
        };
        if evidence.ratchet == Ratchet::Accepted {
            self.accepted = tip.clone();
            self.known.extend(evidence.collected.iter().cloned());
        }
        self.next = match from {
            From::Tip => tip,
            From::Accepted => {
                if matches!(evidence.ratchet, Ratchet::Regressed { .. }) {
                    self.reverts += 1;
                }
                self.accepted.clone()
            }
        };
    }

    fn fold_failing(&mut self, evidence: &Evidence, base: &State, changed: bool) {
        if evidence.measured && evidence.remaining < self.best {
            self.best = evidence.remaining;
            self.since_best = 0;
            self.broken_since_best = 0;
        } else {
            self.since_best += 1;
        }
        if evidence.broken {
            self.broken_since_best += 1;
            self.last_broken.clone_from(&evidence.trouble);
        }
        match evidence.verdict {
            Some(Verdict::Error) => {
                self.unanswered += 1;
                self.last_unanswered.clone_from(&evidence.trouble);
            }
            Some(_) => self.last_unanswered.clear(),
            None => {}
        }
        let same = evidence.verdict == Some(Verdict::Fail) && changed;
        self.same_failure = match same {
            false => 0,
            true if evidence.class == self.last_class => self.same_failure + 1,
            true => 1,
        };
        self.last_class.clone_from(&evidence.class);
        if !evidence.measured {
            return;
        }
        self.left_baseline |= evidence.failing_digest != self.baseline_digest;
        let base_digest = crate::domain::evidence::digest_of(&base.failing);
        self.failing_returns.push(&evidence.failing_digest, &base_digest);
        if self.failing_sets.last().is_none_or(|last| **last != *evidence.failing) {
            self.failing_sets.push(evidence.failing.clone());
        }
        let fixed: Vec<_> = base.failing.difference(&evidence.failing).cloned().collect();
        let broke: Vec<_> = evidence.failing.intersection(&base.passing).cloned().collect();
        if fixed.len() * broke.len() > MOST_PAIRS_AT_ONCE {
            return;
        }
        for a in &fixed {
            for b in &broke {
                let pair = if a < b { (a.clone(), b.clone()) } else { (b.clone(), a.clone()) };
                *self.pairs.entry(pair).or_default() += 1;
            }
        }
    }

    /// Returns two tests of which fixing one broke the other at least twice and that never
    /// passed together, and how often it did.
    pub fn never_together(&self) -> Option<(&(TestId, TestId), u32)> {
        let often = self.pairs.iter().filter(|(_, count)| **count >= 2);
        often.map(|(pair, count)| (pair, *count)).find(|((a, b), _)| {
            self.failing_sets.iter().all(|failing| failing.contains(a) || failing.contains(b))
        })
    }
}

/// Keeps what a question was asked on, where one was.
fn waiting(evidence: &Evidence) -> Option<Box<Evidence>> {
    evidence.asked.is_some().then(|| Box::new(evidence.clone()))
}

fn state_of(evidence: &Evidence) -> State {
    State {
        tree: evidence.tree.clone(),
        iteration: evidence.iteration,
        passing: evidence.passing.clone(),
        failing: evidence.failing.clone(),
    }
}
