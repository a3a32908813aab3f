//! `loopexec replay`: rebuilds the end state of a run from its snapshots and checks it again,
//! without any agent and without any budget.
//!
//! The verdict is compared first, then the normalised fingerprint. How the surroundings are made
//! stands in `run::again`.

use super::Global;
use super::outcome::Outcome;
use super::recorded::{self, Verified, Which};
use super::run::again::{Again, Wanted};
use super::run::opening;
use crate::domain::evidence::{Verdict, name_some};
use crate::domain::history::History;
use crate::domain::judge::{Phase, Reading, read};
use crate::domain::observation::{CheckRun, Place};
use crate::domain::plan::Plan;
use crate::domain::results::IdSet;
use crate::error::{Error, Kind, Result};
use crate::receipt::record::Step;
use serde_json::json;

/// Ids of a difference that are named.
const NAMED: usize = 20;

/// Options of `replay`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Which run.
    #[command(flatten)]
    pub which: Which,
}

/// The end state of a run and the runs of the check on it.
#[derive(Debug, Default)]
struct EndState {
    t0: String,
    layer: String,
    tree: String,
    iteration: u32,
    runs: Vec<CheckRun>,
}

impl EndState {
    /// Takes in a step of the run; the last state that was checked stays.
    fn take(&mut self, step: &Step<'_>) {
        match step {
            Step::Baseline(observation) => {
                let copies = observation.runs.iter().skip(1).chain(&observation.confirmations);
                self.runs = copies.cloned().collect();
                if self.runs.is_empty() {
                    self.runs.extend(observation.runs.first().cloned());
                }
                self.t0.clone_from(&observation.tree);
                self.layer.clone_from(&observation.layer.digest);
                self.tree.clone_from(&observation.tree);
            }
            Step::Observed(observation) if observation.check.is_some() => {
                // What is delivered is replayed with its own tests, not with those that were laid over it.
                self.runs = match (&observation.own, observation.confirmations.is_empty()) {
                    (Some(own), _) => vec![own.clone()],
                    (None, true) => observation.check.iter().cloned().collect(),
                    (None, false) => observation.confirmations.clone(),
                };
                self.tree.clone_from(&observation.tree);
                self.iteration = observation.iteration;
            }
            _ => {}
        }
    }

    fn phase(&self) -> Phase {
        if self.iteration == 0 { Phase::Baseline } else { Phase::Loop }
    }

    /// A green that only copies made byte by byte bore out is replayed in one.
    fn place(&self) -> Place {
        match self.runs.iter().all(|run| run.place == Place::RealCopy) {
            true => Place::RealCopy,
            false => Place::Copy,
        }
    }
}

/// Replays a run.
///
/// # Errors
/// `objective_unverified` when the receipt does not hold, or an equal environment gives another
/// verdict; `workspace_invalid` with the detail `environment_differs` when another one does.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let run = recorded::open(&args.which, global)?;
    let mut end = EndState::default();
    let Verified { folded, .. } = recorded::verify(&run, &mut |step| end.take(step))?;
    recorded::require_end(&folded)?;
    let (Some(plan), Some(history), false) =
        (&folded.start.plan, folded.history(), end.runs.is_empty())
    else {
        return Err(Error::new(
            Kind::WorkspaceInvalid,
            format!("run {} ended before its check gave an answer to compare", folded.run_id),
        )
        .detail("no_verdict")
        .hint("loopexec explain-halt says why"));
    };
    recorded::require_snapshots(&run)?;
    let ready = opening::ready(global)?;
    let wanted = Wanted { run: &run, start: &folded.start, t0: &end.t0, layer: &end.layer };
    let mut again = Again::make(ready, &wanted, global)?;
    let now = again.check(&end.tree, end.iteration, end.place(), end.phase())?;
    let compared = Compared::of(plan, history, &end, &now);
    let differences = std::mem::take(&mut again.differences);
    drop(again);
    compared.require(&differences)?;
    let fingerprint = if compared.same_fingerprint { "same" } else { "differs" };
    let state = match end.iteration {
        0 => "the baseline".to_owned(),
        n => format!("iteration {n}"),
    };
    let mut text = format!(
        "reproduced: {} of run {} is {} again\n  tree         {}\n  fingerprint  {fingerprint}\n",
        state,
        folded.run_id,
        compared.now.verdict.as_str(),
        end.tree,
    );
    for (what, ids) in compared.named() {
        text.push_str(&format!(
            "  {what}  {}\n",
            crate::report::text::one_line(&name_some(ids), 200)
        ));
    }
    if !differences.is_empty() {
        text.push_str(&format!("  note         other surroundings: {}\n", differences.join(", ")));
    }
    let some = |ids: &IdSet| ids.iter().take(NAMED).map(|id| id.to_string()).collect::<Vec<_>>();
    Ok(Outcome::text("replay", text)
        .with("run_id", &folded.run_id)
        .with("reproduced", true)
        .with("tree", &end.tree)
        .with("iteration", end.iteration)
        .with("verdict", compared.now.verdict)
        .with("fingerprint", fingerprint)
        .with(
            "differences",
            json!({"recorded": some(&compared.gone), "replayed": some(&compared.new)}),
        )
        .with("environment", json!({"equal": differences.is_empty(), "differs": differences})))
}

/// The recorded answer beside the one of now.
struct Compared {
    recorded: Vec<Verdict>,
    now: Reading,
    same_failing: bool,
    same_fingerprint: bool,
    /// Ids whose result was recorded and is another one now.
    gone: IdSet,
    /// Ids whose result now was not recorded.
    new: IdSet,
}

impl Compared {
    fn of(plan: &Plan, history: &History, end: &EndState, now: &CheckRun) -> Self {
        let reading =
            |run: &CheckRun| read(plan, &history.known, &history.unstable, end.phase(), run);
        let before: Vec<Reading> = end.runs.iter().map(reading).collect();
        let after = reading(now);
        let marked = |run: &CheckRun| -> IdSet {
            let results = &run.results;
            let sets = [
                ("passed", &results.passed),
                ("failed", &results.failed),
                ("skipped", &results.skipped),
            ];
            let all =
                sets.iter().flat_map(|(how, ids)| ids.iter().map(move |id| format!("{id} {how}")));
            all.map(Into::into).collect()
        };
        let mut recorded = IdSet::new();
        end.runs.iter().for_each(|run| recorded.extend(marked(run)));
        let replayed = marked(now);
        Self {
            same_failing: before.iter().any(|before| before.failing == after.failing),
            same_fingerprint: end.runs.iter().any(|run| run.fingerprint == now.fingerprint),
            gone: recorded.difference(&replayed).cloned().collect(),
            new: replayed.difference(&recorded).cloned().collect(),
            recorded: before.iter().map(|reading| reading.verdict).collect(),
            now: after,
        }
    }

    fn named(&self) -> Vec<(&'static str, &IdSet)> {
        [("recorded   ", &self.gone), ("replayed   ", &self.new)]
            .into_iter()
            .filter(|(_, ids)| !ids.is_empty())
            .collect()
    }

    fn require(&self, differences: &[&str]) -> Result<()> {
        let same_verdict = self.recorded.contains(&self.now.verdict);
        // A red end state is its failing set; of a green one the verdict says it all.
        if same_verdict && (self.now.verdict != Verdict::Fail || self.same_failing) {
            return Ok(());
        }
        let words: Vec<&str> = self.recorded.iter().map(|verdict| verdict.as_str()).collect();
        let mut what = match same_verdict {
            false => format!(
                "the end state was recorded as {} and is {} now",
                words.first().copied().unwrap_or("unknown"),
                self.now.verdict.as_str()
            ),
            true => "the end state is red as recorded, by other tests".to_owned(),
        };
        for (side, ids) in self.named() {
            what.push_str(&format!("; {}: {}", side.trim_end(), name_some(ids)));
        }
        let answered = self.now.verdict != Verdict::Error;
        if differences.is_empty() && answered {
            return Err(Error::new(Kind::ObjectiveUnverified, what)
                .hint("the snapshot is not the one that was checked, or the check is not deterministic: loopexec run with check.confirm raised"));
        }
        let why = match answered {
            true => {
                format!("what surrounds it is not what was recorded ({})", differences.join(", "))
            }
            false => "the check gives no answer here".to_owned(),
        };
        Err(Error::new(Kind::WorkspaceInvalid, format!("{what}, and {why}: this proves nothing"))
            .detail("environment_differs")
            .hint("replay on the machine, with the tools and the checkout that the run had"))
    }
}
