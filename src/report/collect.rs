//! Gathers a run from the fold of its receipt.
//!
//! Reading and folding is `receipt::record`'s; what the data looks like stands in `model`.

use super::model::{
    BaselineView, BoundView, CheckView, HaltView, IterationView, PinsView, Report, SpendView,
    Standing,
};
use crate::domain::command::Exit;
use crate::domain::evidence::{Decision, Evidence, Halt};
use crate::domain::flake;
use crate::domain::history::History;
use crate::domain::judge::{describe_exit, first_line};
use crate::domain::observation::{BaselineObservation, CheckRun, Observation};
use crate::domain::plan::{Metering, Plan};
use crate::domain::reason::HaltReason;
use crate::domain::results::{Failure, IdSet, Runner};
use crate::receipt::question::resume_command;
use crate::receipt::record::{Folded, Start, Step, kind};
use serde_json::Value;
use std::sync::Arc;

/// The confidence of the bound on the flip rate is 1 minus this.
const ALPHA: f64 = 0.05;

/// Takes the steps of a fold.
#[derive(Debug, Default)]
pub struct Collector {
    baseline_seen: Option<BaselineObservation>,
    baseline: Option<BaselineView>,
    iterations: Vec<IterationView>,
    limits_hit: Vec<Value>,
    answers: Vec<Value>,
    setup: Option<Value>,
    resumed: u64,
    failing: Arc<IdSet>,
    failures: Vec<Failure>,
    exec_output: String,
    check_output: String,
    decided: Option<Halt>,
}

/// What is known of a run beside its receipt.
#[derive(Debug, Clone)]
pub struct Beside {
    /// Whether a process works on it.
    pub running: bool,
    /// When it started.
    pub started: Option<String>,
    /// The receipt, as it is shown.
    pub receipt: String,
}

impl Collector {
    /// Takes one step.
    pub fn take(&mut self, step: &Step<'_>) {
        match step {
            Step::Start(_) | Step::End(_) => {}
            Step::Baseline(observation) => {
                let last = observation.runs.last().or(observation.diagnosis.last());
                self.check_output = last.map(|run| run.run.tail.clone()).unwrap_or_default();
                self.failures = last.map(|run| run.results.failures.clone()).unwrap_or_default();
                self.baseline_seen = Some((*observation).clone());
            }
            Step::BaselineDecided(evidence, decision, history) => {
                self.take_baseline(evidence);
                self.remember(decision, history);
            }
            Step::Observed(observation) => {
                if let Some(exec) = &observation.exec {
                    self.exec_output.clone_from(&exec.run.tail);
                }
                let last = observation.rerun.as_ref().or(observation.confirmations.last());
                if let Some(run) = last.or(observation.check.as_ref()) {
                    self.check_output.clone_from(&run.run.tail);
                    self.failures.clone_from(&run.results.failures);
                }
            }
            Step::Decided(observation, evidence, decision, history) => {
                self.take_iteration(observation, evidence, decision);
                self.remember(decision, history);
            }
            Step::Other(event) => match event.kind.as_str() {
                kind::LIMIT_HIT => self.limits_hit.push(Value::Object(event.body.clone())),
                kind::ACK => self.answers.extend(event.body.get("answer").cloned()),
                kind::RESUMED => self.resumed += 1,
                _ => {}
            },
        }
    }

    fn remember(&mut self, decision: &Decision, history: &History) {
        self.failing = history.next.failing.clone();
        self.decided = match decision {
            Decision::Halt(halt) => Some(halt.clone()),
            Decision::Continue { .. } => None,
        };
    }

    fn take_baseline(&mut self, evidence: &Evidence) {
        let seen = self.baseline_seen.take().unwrap_or_default();
        self.setup = seen.setup.as_ref().and_then(|run| serde_json::to_value(run).ok());
        let counting = seen.runs.get(1).or(seen.runs.first());
        let broken = counting.and_then(|run| run.results.broken.as_deref());
        let runs = seen.runs.iter().chain(&seen.confirmations);
        self.baseline = Some(BaselineView {
            tree: evidence.tree.clone(),
            verdict: evidence.verdict,
            failing: names(&evidence.failing),
            measured: evidence.measured,
            broken: broken.map(|text| first_line(text).to_owned()).unwrap_or_default(),
            collected: evidence.measured.then(|| evidence.collected.len()),
            runs: runs.map(check_view).collect(),
            diagnosis: seen.diagnosis.iter().map(check_view).collect(),
            unstable: names(&evidence.unstable),
            notes: evidence.notes.clone(),
        });
    }

    fn take_iteration(&mut self, seen: &Observation, evidence: &Evidence, decision: &Decision) {
        let exec = seen.exec.as_ref();
        let (mut fixed, mut broke) = (Vec::new(), Vec::new());
        if evidence.measured {
            fixed = self.failing.difference(&evidence.failing).map(|id| id.to_string()).collect();
            broke = evidence.failing.difference(&self.failing).map(|id| id.to_string()).collect();
        }
        let runs = exec.map(|exec| &exec.run).into_iter();
        let runs = runs.chain(seen.check.iter().map(|check| &check.run));
        self.iterations.push(IterationView {
            iteration: evidence.iteration,
            base: evidence.base.clone(),
            tree: evidence.tree.clone(),
            exec: exec.map(|exec| ended(&exec.run.exit)),
            exec_ms: exec.map(|exec| exec.run.wall_ms),
            survivors: runs.flat_map(|run| run.survivors.iter().cloned()).collect(),
            moved: !seen.tree.is_empty() && seen.tree != seen.base,
            changes: seen.changes.clone(),
            check: seen.check.as_ref().map(check_view),
            verdict: evidence.verdict,
            failing: names(&evidence.failing),
            measured: evidence.measured,
            fixed,
            broke,
            confirmations: seen.confirmations.iter().map(check_view).collect(),
            confirmation: evidence.confirmation,
            ratchet: evidence.ratchet.clone(),
            breaches: evidence.breaches.iter().chain(&evidence.vetoes).cloned().collect(),
            oracle: evidence.oracle.clone(),
            decision: decision.clone(),
            notes: evidence.notes.clone(),
            spent: evidence.spent,
            elapsed_ms: evidence.elapsed_ms,
        });
    }

    /// Returns the run as data.
    pub fn finish(self, folded: &Folded, beside: Beside) -> Report {
        let start = &folded.start;
        let halt = folded.end.as_ref().map(|end| halt_view(&end.halt));
        let standing = match &halt {
            Some(halt) if halt.reason == HaltReason::SuccessConditionMet => Standing::Converged,
            Some(_) => Standing::Halted,
            None if beside.running => Standing::Running,
            None => Standing::Incomplete,
        };
        let history = folded.history();
        let plan = start.plan.as_ref();
        Report {
            run_id: folded.run_id.clone(),
            resume: resume_command(&folded.run_id, &start.caller),
            name: start.name.clone(),
            loop_digest: start.loop_digest.clone(),
            tool_version: start.tool_version.clone(),
            standing,
            started: beside.started,
            elapsed_ms: folded.elapsed_ms,
            bound: bound_view(history, plan),
            spend: spend_view(history, plan, halt.as_ref()),
            halt,
            setup: self.setup,
            baseline: self.baseline,
            iterations: self.iterations,
            quarantine: plan.map(|plan| plan.quarantine.clone()).unwrap_or_default(),
            targets: plan.map(|plan| plan.targets.clone()).unwrap_or_default(),
            isolation: start.isolation.clone(),
            pins: PinsView { model: start.model.clone(), unpinned: unpinned(start) },
            base: start.caller.get("base").cloned(),
            answers: self.answers,
            limits_hit: self.limits_hit,
            resumed: self.resumed,
            delivery: folded.delivery.clone().map(Value::Object),
            receipt: beside.receipt,
            head: folded.head.sha256.clone(),
            events: folded.events,
            failures: self.failures,
            exec_output: self.exec_output,
            check_output: self.check_output,
        }
    }
}

/// Returns a halt with the numbers of its class.
pub fn halt_view(halt: &Halt) -> HaltView {
    let class = halt.reason.class();
    HaltView {
        reason: halt.reason,
        exit_class: class.name(),
        exit_code: class.code(),
        detail: Some(halt.detail.clone()).filter(|detail| !detail.is_empty()),
        why: halt.why.clone(),
        next: halt.hints.clone(),
    }
}

/// Returns the bound that a history gives, against the rate a plan wants.
pub fn bound_view(history: Option<&History>, plan: Option<&Plan>) -> BoundView {
    let (reruns, flips) = history.map_or((0, 0), |history| (history.reruns, history.flips));
    let upper = flake::anytime_upper(reruns, flips, ALPHA);
    let wanted = plan.and_then(|plan| plan.max_flake_ppm).map(|ppm| f64::from(ppm) / 1e6);
    BoundView {
        reruns,
        flips,
        flip_rate_upper95_anytime: format!("{upper:.6}"),
        max_flake_rate: wanted.map(|rate| rate.to_string()),
        status: flake::Status::of(flips, upper, wanted),
    }
}

fn spend_view(
    history: Option<&History>,
    plan: Option<&Plan>,
    halt: Option<&HaltView>,
) -> SpendView {
    let lost = halt.is_some_and(|halt| halt.reason == HaltReason::MeteringLost);
    let known = match plan.map(|plan| plan.metering) {
        Some(Metering::NoModel) | None => true,
        Some(Metering::File) => !lost,
        Some(Metering::Unknown) => false,
    };
    let spent = history.map(|history| history.spent).unwrap_or_default();
    SpendView {
        usd: known.then(|| decimal(spent.usd_micro)),
        tokens: known.then_some(spent.tokens),
        calls: known.then_some(spent.calls),
        known,
    }
}

fn decimal(micro: i64) -> String {
    let text = format!("{}.{:06}", micro / 1_000_000, micro.unsigned_abs() % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads the pins a loop does without from its resolved form.
fn unpinned(start: &Start) -> Vec<String> {
    let listed = start.spec.pointer("/receipt/unpinned").and_then(Value::as_array);
    let names = listed.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

fn names(ids: &IdSet) -> Vec<String> {
    ids.iter().map(|id| id.to_string()).collect()
}

fn check_view(run: &CheckRun) -> CheckView {
    CheckView {
        place: run.place,
        ended: ended(&run.run.exit),
        failed: run.results.failed.len(),
        collected: run.results.collected.len(),
        has_tests: run.results.runner != Runner::Command,
        wall_ms: run.run.wall_ms,
    }
}

fn ended(exit: &Exit) -> String {
    match exit {
        Exit::Code { code } => format!("exit {code}"),
        other => describe_exit(other),
    }
}
