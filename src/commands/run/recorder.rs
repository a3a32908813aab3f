//! Where facts and decisions go: the receipt first, then `.loop_state.json`.

use super::memory::Memory;
use crate::domain::command::Exit;
use crate::domain::evidence::{Decision, Evidence, From, Verdict};
use crate::domain::flake;
use crate::domain::gate::Answer;
use crate::domain::history::History;
use crate::domain::observation::{CheckRun, Observation, RunFact};
use crate::domain::reason::HaltReason;
use crate::engine::ports::{Event, Sink};
use crate::error::Result;
use crate::receipt::disk::Durability;
use crate::receipt::record::{End, kind, to_value};
use crate::receipt::redact::Redactor;
use crate::receipt::state::{LoopState, Phase, Spend, write_state};
use crate::receipt::writer::Writer;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// Open failures that the state file names; the receipt has all of them.
const OPEN_FAILURES: usize = 200;

/// The confidence of the bound on the flip rate is 1 minus this.
pub const ALPHA: f64 = 0.05;

/// Writes the receipt of one run and the state of its tree.
pub struct Recorder {
    writer: Writer,
    state: LoopState,
    root: PathBuf,
    redactor: Arc<Redactor>,
    durability: Durability,
    pins: Pins,
    memory: Rc<RefCell<Memory>>,
}

/// What every iteration event repeats, so that each can be read alone.
#[derive(Debug, Clone)]
pub struct Pins {
    /// The model's identity tuple and where it is known from.
    pub identity: Value,
    /// How it is sampled.
    pub sampling: Value,
    /// Where the cost is known from.
    pub cost: Value,
    /// Digest of the check's command and environment.
    pub check_digest: String,
    /// Where processes run.
    pub zone: Value,
    /// The bound on the flip rate that the loop wants.
    pub wanted_rate: Option<f64>,
}

impl Recorder {
    /// Records behind a writer that is at the end of its receipt.
    pub fn new(
        writer: Writer,
        state: LoopState,
        root: PathBuf,
        redactor: Arc<Redactor>,
        durability: Durability,
        pins: Pins,
        memory: Rc<RefCell<Memory>>,
    ) -> Self {
        Self { writer, state, root, redactor, durability, pins, memory }
    }

    /// Appends an event of any other kind.
    ///
    /// # Errors
    /// `storage_exhausted` when it cannot be made durable.
    pub fn write(&mut self, kind: &str, body: Value) -> Result<()> {
        let body = match body {
            Value::Object(body) => body,
            other => Map::from_iter([("value".to_owned(), other)]),
        };
        let head = self.writer.append(kind, body)?;
        self.state.receipt_head = Some(head);
        Ok(())
    }

    /// Returns how many iterations were decided so far.
    pub fn iterations(&self) -> u32 {
        u32::try_from(self.state.iteration).unwrap_or(u32::MAX)
    }

    /// Says in the state file what the run is doing.
    ///
    /// # Errors
    /// `storage_exhausted` or `workspace_invalid` when the file cannot be replaced.
    pub fn enter(&mut self, phase: Phase) -> Result<()> {
        self.state.phase = phase;
        self.write_state()
    }

    /// Appends the answer of a person and what follows from it.
    ///
    /// # Errors
    /// `storage_exhausted` when it cannot be made durable.
    pub fn answered(&mut self, answer: &Answer, decision: &Decision) -> Result<()> {
        let body = json!({"answer": to_value(answer)?, "decision": to_value(decision)?});
        self.write(kind::ACK, body)?;
        self.state.escalation = None;
        self.write_state()
    }

    /// Ends the receipt, then the state; a state file that cannot be written does not undo the end.
    ///
    /// # Errors
    /// `storage_exhausted` when the final event cannot be made durable.
    pub fn finish(&mut self, end: &End) -> Result<()> {
        let head = self.writer.append_final(end.body()?)?;
        self.state.receipt_head = Some(head);
        self.state.phase = Phase::Ended;
        self.state.halt_reason = Some(end.halt.reason.as_str().to_owned());
        // The final event is what counts; a full disk may keep the old state file.
        let _ = self.write_state();
        Ok(())
    }

    /// Returns the digest of the last event.
    pub fn head(&self) -> Option<String> {
        self.writer.head().map(|head| head.sha256.clone())
    }

    /// Writes the state file.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub fn write_state(&self) -> Result<()> {
        write_state(&self.root, &self.state, Some(&self.redactor))
    }

    fn limits_hit(&mut self, runs: &[(&str, &RunFact)]) -> Result<()> {
        for (step, run) in runs {
            let ended_by = match run.exit {
                Exit::TimedOut => Some("time"),
                Exit::Idle => Some("idle"),
                Exit::OutOfMemory => Some("memory"),
                Exit::OutOfDisk => Some("disk"),
                _ => None,
            };
            for limit in run.crowded.then_some("pids").into_iter().chain(ended_by) {
                let hit = json!({"step": step, "limit": limit, "wall_ms": run.wall_ms});
                self.write(kind::LIMIT_HIT, hit)?;
            }
        }
        Ok(())
    }

    fn flip(&mut self, evidence: &Evidence) -> Result<()> {
        let Some(found) = evidence.oracle.as_ref() else { return Ok(()) };
        if found.reason != HaltReason::CheckFlaky {
            return Ok(());
        }
        let body = json!({
            "tree": evidence.tree, "reruns": evidence.reruns, "flips": evidence.flips,
            "what": found.what,
        });
        self.write(kind::FLIP, body)
    }

    fn fold_state(
        &mut self,
        evidence: &Evidence,
        decision: &Decision,
        history: &History,
    ) -> Result<()> {
        fold_into(&mut self.state, evidence, decision, history, self.pins.wanted_rate);
        if self.durability == Durability::Iteration {
            self.writer.sync()?;
        }
        self.write_state()
    }

    fn iteration(
        &self,
        observation: &Observation,
        evidence: &Evidence,
        decision: &Decision,
    ) -> Result<Value> {
        let exec = observation.exec.as_ref();
        let check = observation.check.as_ref();
        Ok(json!({
            "iteration": evidence.iteration,
            "pins": {
                "identity": self.pins.identity,
                "sampling": self.pins.sampling,
                "context": exec.map(|exec| &exec.context),
                "cost": {"source": self.pins.cost, "usage": exec.and_then(|exec| exec.usage)},
            },
            "check": {
                "digest": self.pins.check_digest,
                "exit": check.map(|check| &check.run.exit),
                "output": check.map(output_digests),
            },
            "snapshots": {"base": observation.base, "tree": observation.tree},
            "guards": evidence.breaches,
            "bound": bound(evidence, self.pins.wanted_rate),
            "zone": self.pins.zone,
            "durations": {
                "exec_ms": exec.map(|exec| exec.run.wall_ms),
                "check_ms": check.map(|check| check.run.wall_ms),
                "elapsed_ms": evidence.elapsed_ms,
            },
            "evidence": to_value(evidence)?,
            "decision": to_value(decision)?,
        }))
    }
}

impl Sink for Recorder {
    fn append(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Baseline(observation) => {
                let runs = observation.runs.iter().chain(&observation.confirmations);
                let setup = observation.setup.iter().map(|setup| ("setup", setup));
                let runs: Vec<_> = setup.chain(runs.map(|check| ("check", &check.run))).collect();
                self.limits_hit(&runs)?;
                self.memory.borrow_mut().baseline(observation);
                self.write(kind::BASELINE, json!({"observation": to_value(observation)?}))
            }
            Event::BaselineDecided(evidence, decision, history) => {
                self.flip(evidence)?;
                let body = json!({
                    "bound": bound(evidence, self.pins.wanted_rate),
                    "evidence": to_value(evidence)?,
                    "decision": to_value(decision)?,
                });
                self.write(kind::BASELINE_DECIDED, body)?;
                self.fold_state(evidence, decision, history)
            }
            Event::Observed(observation) => {
                let exec = observation.exec.iter().map(|exec| ("exec", &exec.run));
                let checks = observation.check.iter().chain(&observation.confirmations);
                let runs: Vec<_> = exec.chain(checks.map(|check| ("check", &check.run))).collect();
                self.limits_hit(&runs)?;
                self.write(kind::OBSERVED, json!({"observation": to_value(observation)?}))
            }
            Event::Decided(observation, evidence, decision, history) => {
                self.flip(evidence)?;
                let body = self.iteration(observation, evidence, decision)?;
                self.write(kind::ITERATION, body)?;
                self.memory.borrow_mut().iteration(observation, evidence, decision, history);
                self.fold_state(evidence, decision, history)
            }
        }
    }
}

/// Folds one decided step into the state.
pub(super) fn fold_into(
    state: &mut LoopState,
    evidence: &Evidence,
    decision: &Decision,
    history: &History,
    wanted_rate: Option<f64>,
) {
    let last = history.measured.as_ref();
    state.failing = last.map(|state| state.failing.len() as u64);
    state.best_failing = (history.best != u64::MAX).then_some(history.best);
    let decided = match decision {
        Decision::Continue { from: From::Tip } => "continue",
        Decision::Continue { from: From::Accepted } => "revert",
        Decision::Halt(_) => "halt",
    };
    state.last_decision = Some(decided.to_owned());
    state.iteration = u64::from(evidence.iteration);
    state.escalation = evidence.asked.as_ref().map(|asked| json!(asked));
    let open = last.into_iter().flat_map(|state| state.failing.iter()).take(OPEN_FAILURES);
    state.open_failures = open.map(|id| id.to_string()).collect();
    let spent = &history.spent;
    state.spend = Spend {
        usd: decimal_usd(spent.usd_micro),
        tokens: spent.tokens,
        calls: spent.calls,
        wall_ms: evidence.elapsed_ms,
        known: !evidence.metering_lost,
    };
    state.determinism = Some(bound(evidence, wanted_rate));
    if evidence.verdict == Some(Verdict::Pass) {
        state.last_green_commit = Some(evidence.tree.clone());
    }
    if evidence.iteration == 0 {
        state.baseline = Some(json!({
            "tree": evidence.tree, "verdict": evidence.verdict,
            "failing": history.failing_first(), "collected": history.collected_first,
        }));
    }
    state.phase = Phase::Exec;
}

fn output_digests(check: &CheckRun) -> Value {
    json!({"stdout": check.run.stdout.sha256, "stderr": check.run.stderr.sha256})
}

/// Returns the achieved bound on the flip rate, maintained over same-key reruns.
pub fn bound(evidence: &Evidence, wanted_rate: Option<f64>) -> Value {
    let upper = flake::anytime_upper(evidence.reruns, evidence.flips, ALPHA);
    let status = match flake::Status::of(evidence.flips, upper, wanted_rate) {
        flake::Status::Refuted => "refuted",
        flake::Status::Bounded => "bounded",
        flake::Status::Unproven => "unproven",
    };
    json!({
        "reruns": evidence.reruns, "flips": evidence.flips,
        "flip_rate_upper95_anytime": format!("{upper:.6}"), "status": status,
    })
}

/// Returns micro-dollars as decimal dollars without trailing zeros.
pub fn decimal_usd(micro: i64) -> String {
    let text = format!("{}.{:06}", micro / 1_000_000, micro.unsigned_abs() % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn money_is_decimal_dollars() {
        assert_eq!(super::decimal_usd(0), "0");
        assert_eq!(super::decimal_usd(1_500_000), "1.5");
        assert_eq!(super::decimal_usd(1), "0.000001");
    }
}
