//! What the events of a receipt say, and the fold of `judge` and `decide` over them.
//!
//! The chain underneath is `reader`'s; who asks is `verify`, resume and every report.

use super::blobs::{self, BlobStore};
use super::disk::Durability;
use super::format::{Event, Head};
use super::reader;
use super::recover::RECOVERED;
use super::rundir::RunDir;
use crate::domain::evidence::{Decision, Evidence, Halt};
use crate::domain::fold::{
    Position, is_cut_short, is_resumable, reopen, spent, step, step_baseline, take_answer, waits,
};
use crate::domain::gate::{Answer, Question};
use crate::domain::history::History;
use crate::domain::observation::{BaselineObservation, Observation};
use crate::domain::plan::Plan;
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::Path;

/// The names of the events that the fold reads.
pub mod kind {
    /// The plan and what surrounds it.
    pub const RUN_START: &str = "run_start";
    /// Facts of the baseline.
    pub const BASELINE: &str = "baseline";
    /// What the baseline means.
    pub const BASELINE_DECIDED: &str = "baseline_decided";
    /// Facts of one iteration.
    pub const OBSERVED: &str = "observed";
    /// What an iteration means.
    pub const ITERATION: &str = "iteration";
    /// A person answered what the run waited with.
    pub const ACK: &str = "ack";
    /// A killed run was taken up.
    pub const RESUMED: &str = "resumed";
    /// A patch was written, and with it what was done to the caller's tree.
    pub const DELIVERY: &str = "delivery";
    /// Two runs of one key disagreed.
    pub const FLIP: &str = "flip";
    /// A limit ended a process.
    pub const LIMIT_HIT: &str = "limit_hit";
}

/// What `run_start` says that others need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The version of loopexec that ran.
    pub tool_version: String,
    /// The loop's name.
    pub name: String,
    /// The digest of the loop.
    pub loop_digest: String,
    /// What is judged and decided by; none where the run could not start.
    pub plan: Option<Plan>,
    /// The resolved loop, with decimal numbers as text.
    pub spec: Value,
    /// The caller's tree, its place left out.
    pub caller: Value,
    /// Where processes run.
    pub isolation: Value,
    /// The model and its pins.
    pub model: Value,
    /// Names of the variables and tools of the environment.
    pub environment: Value,
    /// Digest of the check's command and surroundings.
    pub check_digest: String,
}

/// What `run_end` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The halt.
    #[serde(flatten)]
    pub halt: Halt,
    /// Iterations that were judged.
    pub iterations: u32,
    /// Milliseconds of the run.
    pub elapsed_ms: u64,
    /// Whether the delivered or final tree differs from t0.
    pub changed: bool,
}

impl End {
    /// Returns the body of the final event: the end, with the numbers of its class.
    ///
    /// # Errors
    /// `internal_error` when it has no JSON form.
    pub fn body(&self) -> Result<Map<String, Value>> {
        let Value::Object(mut body) = to_value(self)? else {
            return Err(Error::new(Kind::Internal, "the end of a run is no object"));
        };
        let class = self.halt.reason.class();
        body.insert("exit_class".into(), class.name().into());
        body.insert("exit_code".into(), class.code().into());
        Ok(body)
    }
}

/// One thing the fold came past.
#[derive(Debug)]
pub enum Step<'a> {
    /// The run started.
    Start(&'a Start),
    /// The baseline was observed.
    Baseline(&'a BaselineObservation),
    /// It was decided.
    BaselineDecided(&'a Evidence, &'a Decision, &'a History),
    /// An iteration was observed.
    Observed(&'a Observation),
    /// It was decided.
    Decided(&'a Observation, &'a Evidence, &'a Decision, &'a History),
    /// The run ended.
    End(&'a End),
    /// Anything else.
    Other(&'a Event),
}

/// What a whole receipt says.
#[derive(Debug)]
pub struct Folded {
    /// The run id.
    pub run_id: String,
    /// Events read.
    pub events: u64,
    /// The last event.
    pub head: Head,
    /// What the run set out with.
    pub start: Start,
    /// Where it stands.
    pub position: Position,
    /// How it ended, if it did and was not taken up again.
    pub end: Option<End>,
    /// Where it stood before the last observation, if that was cut short from outside.
    before: Option<Position>,
    /// Milliseconds used up to the last event.
    pub elapsed_ms: u64,
    /// The last delivery event.
    pub delivery: Option<Map<String, Value>>,
    /// The last line, from 1, where it was cut before its end.
    pub torn: Option<u64>,
    /// What the run waits with for a person.
    pub waiting: Option<Waiting>,
}

/// What a run waits with for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The question.
    pub question: Question,
    /// The sha256 of the final event of the run that asked; an answer names it.
    pub head: String,
}

impl Folded {
    /// Returns the history so far.
    pub fn history(&self) -> Option<&History> {
        self.position.history()
    }

    /// Returns what the run set out with and where it goes on when it is taken up again.
    pub fn reopen(self) -> (Start, Position) {
        let position = match &self.start.plan {
            Some(plan) => reopen(plan, self.position, self.before),
            None => self.position,
        };
        (self.start, position)
    }
}

/// Whether what is recorded as judged and decided is compared with what the fold gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// Any difference is an error.
    Strict,
    /// The fold's own result is taken.
    Trusting,
}

/// Reads a run's receipt, checks its chain, and folds it.
///
/// # Errors
///
/// `objective_unverified` names the line that is altered or that the fold does not reproduce;
/// `workspace_invalid` with the detail `incomplete` when not even a first event is there.
pub fn fold(
    run: &RunDir,
    compare: Compare,
    visit: &mut dyn FnMut(Step<'_>) -> Result<()>,
) -> Result<Folded> {
    fold_path(&run.receipt(), &run.blobs(), compare, visit)
}

/// Folds a receipt that lies anywhere, with its blobs beside it.
///
/// # Errors
/// As [`fold`].
pub fn fold_path(
    receipt: &Path,
    blobs: &Path,
    compare: Compare,
    visit: &mut dyn FnMut(Step<'_>) -> Result<()>,
) -> Result<Folded> {
    let blobs = BlobStore::new(blobs, Durability::Event);
    let mut fold = Fold {
        compare,
        start: None,
        state: Position::start(),
        before: None,
        end: None,
        asked_at: None,
        elapsed_ms: 0,
    };
    let mut last = None;
    let mut delivery = None;
    let mut torn = None;
    for event in reader::read(receipt)? {
        let event = match event {
            Ok(event) => event,
            // A torn last line was never acknowledged: what stands before it counts.
            Err(broken) if broken.how == reader::Break::Torn && last.is_some() => {
                torn = Some(broken.line);
                break;
            }
            Err(broken) => return Err(broken.into()),
        };
        let line = event.seq + 1;
        fold.take(&event, line, &blobs, visit).map_err(|error| at_line(line, error))?;
        if event.kind == kind::DELIVERY {
            delivery = Some(event.body.clone());
        }
        last = Some((event.run.clone(), event.head()));
    }
    let (run_id, head) = last.ok_or_else(|| incomplete("it has no event"))?;
    let question = fold.question();
    let waiting = question.zip(fold.asked_at).map(|(question, head)| Waiting { question, head });
    let start = fold.start.ok_or_else(|| incomplete("it does not say what started"))?;
    Ok(Folded {
        run_id,
        events: head.seq + 1,
        head,
        start,
        position: fold.state,
        end: fold.end,
        before: fold.before,
        elapsed_ms: fold.elapsed_ms,
        delivery,
        torn,
        waiting,
    })
}

/// Names the line that an error about altered evidence was found at.
fn at_line(line: u64, mut error: Error) -> Error {
    if error.kind == Kind::ObjectiveUnverified && !error.what.starts_with("line ") {
        error.what = format!("line {line} of the receipt: {}", error.what);
    }
    error
}

struct Fold {
    compare: Compare,
    start: Option<Start>,
    state: Position,
    before: Option<Position>,
    end: Option<End>,
    /// The sha256 of the final event that ended with a question.
    asked_at: Option<String>,
    elapsed_ms: u64,
}

impl Fold {
    fn take(
        &mut self,
        event: &Event,
        line: u64,
        blobs: &BlobStore,
        visit: &mut dyn FnMut(Step<'_>) -> Result<()>,
    ) -> Result<()> {
        if let Some(end) = &self.end {
            let takes_up = matches!(event.kind.as_str(), kind::RESUMED | RECOVERED);
            if !takes_up || !self.may_go_on(end) {
                return Err(unlike(line, "an event stands behind the final one"));
            }
            self.end = None;
        }
        let body = || blobs::resolve(Value::Object(event.body.clone()), blobs);
        match event.kind.as_str() {
            kind::RUN_START => {
                if line != 1 {
                    return Err(unlike(line, "a run starts once, with its first event"));
                }
                let start: Start = parse(line, body()?)?;
                visit(Step::Start(&start))?;
                self.start = Some(start);
            }
            kind::BASELINE => {
                let Position::Start(answers) =
                    std::mem::replace(&mut self.state, Position::start())
                else {
                    return Err(unlike(line, "the baseline was observed before"));
                };
                let observation: BaselineObservation =
                    parse(line, field(line, body()?, "observation")?)?;
                self.elapsed_ms = observation.elapsed_ms;
                visit(Step::Baseline(&observation))?;
                self.state = Position::BaselineObserved(answers, Box::new(observation));
            }
            kind::BASELINE_DECIDED => {
                let Position::BaselineObserved(answers, observation) =
                    std::mem::replace(&mut self.state, Position::start())
                else {
                    return Err(unlike(line, "a decision stands without its observation"));
                };
                let (history, evidence, decision) =
                    step_baseline(self.plan(line)?, answers, &observation);
                self.before = is_cut_short(observation.fault.as_ref())
                    .then(|| Position::Start(history.answers.clone()));
                self.same(line, &body()?, &evidence, &decision)?;
                visit(Step::BaselineDecided(&evidence, &decision, &history))?;
                self.state = decided(history, decision);
            }
            kind::OBSERVED => {
                let observation: Observation = parse(line, field(line, body()?, "observation")?)?;
                let Position::Decided(history) =
                    std::mem::replace(&mut self.state, Position::start())
                else {
                    return Err(unlike(line, "an observation stands where none can be"));
                };
                if observation.iteration != history.iterations + 1
                    || observation.base != history.next.tree
                {
                    return Err(unlike(line, "it does not follow from the iteration before it"));
                }
                self.elapsed_ms = observation.elapsed_ms;
                visit(Step::Observed(&observation))?;
                self.state = Position::Observed(history, Box::new(observation));
            }
            kind::ITERATION => {
                let Position::Observed(mut history, observation) =
                    std::mem::replace(&mut self.state, Position::start())
                else {
                    return Err(unlike(line, "a decision stands without its observation"));
                };
                let cut = is_cut_short(observation.fault.as_ref());
                let before = cut.then(|| history.clone());
                let (evidence, decision) = step(self.plan(line)?, &mut history, &observation);
                self.before =
                    before.map(|before| Position::Decided(Box::new(spent(*before, &evidence))));
                self.same(line, &body()?, &evidence, &decision)?;
                visit(Step::Decided(&observation, &evidence, &decision, &history))?;
                self.state = decided(*history, decision);
            }
            super::format::RUN_END => {
                let end: End = parse(line, body()?)?;
                self.check_end(line, &end)?;
                self.elapsed_ms = end.elapsed_ms;
                if self.asks(&end) {
                    self.asked_at = Some(event.sha256.clone());
                }
                visit(Step::End(&end))?;
                self.end = Some(end);
            }
            kind::ACK => {
                let mut body = body()?;
                let answer: Answer = parse(line, field(line, body.clone(), "answer")?)?;
                let other = || unlike(line, "the answer is to another question than was asked");
                if self.asked_at.as_ref() != Some(&answer.head) {
                    return Err(other());
                }
                let taken = take_answer(self.plan(line)?, &self.state, answer);
                let (position, decision) = taken.ok_or_else(other)?;
                let recorded = body.get_mut("decision").map(Value::take);
                if self.compare == Compare::Strict && recorded != Some(to_value(&decision)?) {
                    return Err(unlike(line, "the decision does not follow from the answer"));
                }
                visit(Step::Other(event))?;
                self.state = position;
            }
            kind::RESUMED => {
                let state = std::mem::replace(&mut self.state, Position::start());
                let before = self.before.take();
                self.state = reopen(self.plan(line)?, state, before);
                visit(Step::Other(event))?;
            }
            _ => visit(Step::Other(event))?,
        }
        Ok(())
    }

    /// Returns what the run waits with where the fold stands.
    fn question(&self) -> Option<Question> {
        let plan = self.start.as_ref().and_then(|start| start.plan.as_ref())?;
        waits(plan, &self.state)
    }

    /// Says whether an end is that of a run which asks a person.
    fn asks(&self, end: &End) -> bool {
        let halted = match &self.state {
            Position::Halted(_, halt) => halt.reason == end.halt.reason,
            _ => false,
        };
        halted && self.question().is_some()
    }

    /// Says whether a run with this end may be taken up again.
    fn may_go_on(&self, end: &End) -> bool {
        is_resumable(end.halt.reason) || self.asks(end)
    }

    fn plan(&self, line: u64) -> Result<&Plan> {
        self.start
            .as_ref()
            .and_then(|start| start.plan.as_ref())
            .ok_or_else(|| unlike(line, "it stands before the plan it follows"))
    }

    fn same(
        &self,
        line: u64,
        body: &Value,
        evidence: &Evidence,
        decision: &Decision,
    ) -> Result<()> {
        if self.compare == Compare::Trusting {
            return Ok(());
        }
        for (name, folded) in [("evidence", to_value(evidence)?), ("decision", to_value(decision)?)]
        {
            if body.get(name) != Some(&folded) {
                return Err(unlike(
                    line,
                    &format!("the {name} does not follow from the facts before it"),
                ));
            }
        }
        Ok(())
    }

    /// A run ends with its decision, or with a failure of the surroundings that outranks it.
    fn check_end(&self, line: u64, end: &End) -> Result<()> {
        let follows = match &self.state {
            Position::Halted(history, halt) if halt.reason == end.halt.reason => {
                history.iterations == end.iterations && halt.detail == end.halt.detail
            }
            Position::Halted(_, halt) => outranks(end.halt.reason, halt.reason),
            _ => outranks(end.halt.reason, HaltReason::SuccessConditionMet),
        };
        match follows {
            true => Ok(()),
            false => Err(unlike(line, "the run's end does not follow from its last decision")),
        }
    }
}

fn outranks(found: HaltReason, decided: HaltReason) -> bool {
    found < decided
        && found <= HaltReason::ObjectiveUnverified
        && found != HaltReason::BlockedPathModified
}

fn decided(history: History, decision: Decision) -> Position {
    match decision {
        Decision::Halt(halt) => Position::Halted(Box::new(history), halt),
        Decision::Continue { .. } => Position::Decided(Box::new(history)),
    }
}

fn field(line: u64, mut body: Value, name: &str) -> Result<Value> {
    body.get_mut(name).map(Value::take).ok_or_else(|| unlike(line, &format!("`{name}` is missing")))
}

fn parse<T: serde::de::DeserializeOwned>(line: u64, value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|e| unlike(line, &format!("it cannot be read: {e}")))
}

/// Returns the value of evidence or a decision as it is recorded.
///
/// # Errors
/// `internal_error` when it has no JSON form.
pub fn to_value(value: &impl Serialize) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|e| Error::new(Kind::Internal, "a fact has no JSON form").because(e))
}

fn unlike(line: u64, why: &str) -> Error {
    Error::new(Kind::ObjectiveUnverified, format!("line {line} of the receipt: {why}"))
        .hint("compare it with the copy your CI kept; nothing after this line counts")
}

fn incomplete(why: &str) -> Error {
    Error::new(Kind::WorkspaceInvalid, format!("the receipt is incomplete: {why}"))
        .detail("incomplete")
}
