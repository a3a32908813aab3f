//! The seams of the engine: the world it acts on and the sink its facts go to.

use crate::domain::evidence::{Decision, Evidence};
use crate::domain::gate::{Asked, Question};
use crate::domain::history::History;
use crate::domain::judge::Phase;
use crate::domain::observation::{
    BaselineObservation, CheckRun, ExecRun, LayerFact, Observation, PatchSize, PathChange, Place,
    RunFact, TreeId,
};
use crate::domain::results::IdSet;
use crate::domain::surface::{Canary, CoverageFact, OverlayFact, SurfaceFact, Veto};
use crate::error::Result;
use std::collections::BTreeMap;

/// What becomes of files of the test surface that were not there at t0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Additions {
    /// They are left out.
    Drop,
    /// They stay.
    Keep,
    /// They stay, and so do files of t0 whose tests lost nothing.
    Grow,
}

/// What a canary is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// The sentinel and other expected values.
    Both,
    /// The sentinel alone.
    Sentinel,
}

/// Everything the loop does to the world.
///
/// An error is a failure of the surroundings, never an answer of exec or check: those are facts in
/// what the methods return.
pub trait World {
    /// Returns the milliseconds that the run has used so far, earlier legs included.
    fn elapsed_ms(&self) -> u64;
    /// Makes the workspace.
    fn open_workspace(&mut self) -> Result<()>;
    /// Runs `setup` in the workspace, where the loop has one.
    fn run_setup(&mut self) -> Result<Option<RunFact>>;
    /// Takes a snapshot of the workspace.
    fn take_snapshot(&mut self) -> Result<TreeId>;
    /// Takes what the last snapshot did not hold, in a sentence each.
    fn take_left_out(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    /// Puts the files that are not ignored back to a snapshot.
    fn restore_workspace(&mut self, tree: &str) -> Result<()>;
    /// Copies the layer once, read-only from then on.
    fn freeze_layer(&mut self, tree: &str) -> Result<LayerFact>;
    /// Runs the check on a tree, in the workspace or in a fresh copy.
    fn run_check(&mut self, place: Place, tree: &str, phase: Phase) -> Result<CheckRun>;
    /// Writes the context and runs exec in the workspace.
    fn run_exec(&mut self, iteration: u32, history: &History) -> Result<ExecRun>;
    /// Reads what differs between two snapshots.
    fn read_changes(&mut self, from: &str, to: &str) -> Result<Vec<PathChange>>;
    /// Measures the patch that would hand a snapshot over: what differs from t0, laid upon what was
    /// carried.
    fn measure_patch(&mut self, carried: &str, start: &str, tree: &str) -> Result<PatchSize>;
    /// Reads how the test surface of a snapshot differs from that of t0.
    fn read_surface(&mut self, start: &str, tree: &str) -> Result<SurfaceFact>;
    /// Lays the test surface of t0 over a snapshot; `additions` says what becomes of files of the surface
    /// that were not there at t0.
    fn lay_over(&mut self, start: &str, tree: &str, additions: Additions) -> Result<OverlayFact>;
    /// Plants a test that asserts a falsehood into a snapshot and changes what the tests of these ids
    /// expect; nothing where the source of none of them can be read.
    fn plant(&mut self, tree: &str, tests: &IdSet, what: Plant) -> Result<Option<Canary>>;
    /// Plants the sentinel of a canary into the files of t0.
    fn plant_at_start(&mut self, start: &str, canary: &Canary) -> Result<Option<TreeId>>;
    /// Names the files of test runners in ignored folders that differ from the frozen layer.
    fn read_runner_files(&mut self) -> Result<Vec<String>>;
    /// Compares coverage after the last run of the check in the workspace with that of t0.
    fn read_coverage(&mut self, start: &str, tree: &str) -> Result<Option<CoverageFact>>;
    /// Runs the sealed check on a snapshot, where the loop has one.
    fn run_held_out(&mut self, tree: &str) -> Result<Option<RunFact>>;
    /// Runs the advisory command on a snapshot, where the loop has one.
    fn run_judge(&mut self, tree: &str, observation: &Observation) -> Result<Option<Veto>>;
    /// Reads the digests of what snapshots do not hold.
    fn read_control(&mut self) -> Result<BTreeMap<String, String>>;
    /// Names the caller's variables that the check's environment leaves out and that these runs
    /// or the check's text mention.
    fn missing_variables(&self, runs: &[CheckRun]) -> Vec<String>;
    /// Returns where a red baseline is run again, each place with fewer denials than the one before; nowhere
    /// where the loop file does not want it diagnosed.
    fn diagnosis_places(&self) -> Vec<Place>;
    /// Puts a question to a person; a channel that fails is a fact, no error.
    fn ask(&mut self, question: &Question) -> Result<Asked>;
}

/// One thing that is put on disk before anything follows from it.
#[derive(Debug)]
pub enum Event<'a> {
    /// Facts of the baseline.
    Baseline(&'a BaselineObservation),
    /// What the baseline means and what happens next.
    BaselineDecided(&'a Evidence, &'a Decision, &'a History),
    /// Facts of one iteration.
    Observed(&'a Observation),
    /// What they mean and what happens next.
    Decided(&'a Observation, &'a Evidence, &'a Decision, &'a History),
}

/// Where facts and decisions are made durable.
pub trait Sink {
    /// Appends one event; when it returns, the event survives a power cut.
    fn append(&mut self, event: &Event<'_>) -> Result<()>;
}
