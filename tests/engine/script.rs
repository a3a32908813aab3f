//! A world that follows a script, and a sink that keeps what it is given.

use loopexec::domain::command::Exit;
use loopexec::domain::evidence::Halt;
use loopexec::domain::fold::{Position, step, step_baseline};
use loopexec::domain::gate::{Asked, Question};
use loopexec::domain::hex::sha256;
use loopexec::domain::history::History;
use loopexec::domain::judge::Phase;
use loopexec::domain::observation::{
    BaselineObservation, CheckRun, ExecRun, LayerFact, Observation, PatchSize, PathChange, Place,
    RunFact, StreamFact, Usage,
};
use loopexec::domain::plan::{GuardRules, Limits, Metering, OnRegression, Plan};
use loopexec::domain::results::{IdSet, Results, Runner};
use loopexec::domain::surface::{Canary, CoverageFact, OverlayFact, SurfaceFact, Veto};
use loopexec::engine::drive::drive;
use loopexec::engine::ports::{Additions, Event, Plant, Sink, World};
use loopexec::error::Result;
use std::collections::BTreeMap;

/// What one run of the check reports.
#[derive(Debug, Clone)]
pub struct Report {
    pub exit: Exit,
    pub passed: Vec<&'static str>,
    pub failed: Vec<&'static str>,
    pub broken: bool,
    pub message: String,
    /// What does not fit together in its results.
    pub problem: Option<String>,
}

pub fn red(passed: &[&'static str], failed: &[&'static str]) -> Report {
    Report {
        exit: Exit::Code { code: 1 },
        passed: passed.to_vec(),
        failed: failed.to_vec(),
        broken: false,
        message: "assert 1 == 2".to_owned(),
        problem: None,
    }
}

pub fn green(passed: &[&'static str]) -> Report {
    Report { exit: Exit::Code { code: 0 }, ..red(passed, &[]) }
}

pub fn silent() -> Report {
    Report { exit: Exit::TimedOut, ..red(&[], &[]) }
}

pub fn broken() -> Report {
    Report { broken: true, ..red(&[], &[]) }
}

/// One scripted iteration.
#[derive(Debug, Clone)]
pub struct Step {
    /// Name of the tree that exec leaves; `None`: as it was.
    pub tree: Option<String>,
    pub exec_code: i32,
    pub touches: Vec<&'static str>,
    pub control: BTreeMap<String, String>,
    pub check: Report,
    pub copies: Vec<Report>,
    pub rerun: Option<Report>,
    pub usage: Option<Usage>,
    pub takes_ms: u64,
    pub surface: SurfaceFact,
    pub overlay: OverlayFact,
    /// Files of t0 in which tests came.
    pub grown: Vec<String>,
    pub canary: Option<Canary>,
    /// What the check says to the canary, and to the same sentinel in the tree of t0.
    pub canary_runs: [Option<Report>; 2],
    pub coverage: Option<CoverageFact>,
    pub held_out: Option<i32>,
    pub judge: Option<Veto>,
    pub patch: PatchSize,
}

pub fn turn(tree: &str, check: Report) -> Step {
    Step {
        tree: Some(tree.to_owned()),
        exec_code: 0,
        touches: vec!["src/a"],
        control: BTreeMap::new(),
        copies: vec![check.clone()],
        check,
        rerun: None,
        usage: None,
        takes_ms: 10,
        surface: SurfaceFact::default(),
        overlay: OverlayFact::default(),
        grown: Vec::new(),
        canary: None,
        canary_runs: [None, None],
        coverage: None,
        held_out: None,
        judge: None,
        patch: PatchSize { files: 1, lines: 2 },
    }
}

pub fn plan() -> Plan {
    Plan {
        limits: Limits {
            iterations: 10,
            time_ms: 1_000_000,
            no_progress: 3,
            same_failure: 3,
            usd_micro: None,
            tokens: None,
            calls: None,
            patch_files: None,
            patch_lines: None,
        },
        exec_max_failures: 3,
        success_exit_code: 0,
        baseline_runs: 2,
        confirm: 2,
        targets: vec![],
        quarantine: vec![],
        require_red: false,
        max_flake_ppm: None,
        on_regression: OnRegression::Revert,
        max_regressions: 2,
        blocked_paths: vec!["infra/**".to_owned()],
        guards: GuardRules::default(),
        metering: Metering::NoModel,
        gates: vec![],
        protected: None,
    }
}

pub struct Scripted {
    pub baseline: Vec<Report>,
    pub diagnosis: Option<Report>,
    /// What the check says with the caller's network.
    pub network: Option<Report>,
    pub steps: Vec<Step>,
    pub now_ms: u64,
    pub tree: String,
    pub at: usize,
    pub copies_run: usize,
    pub execs: u32,
    /// Questions that were put.
    pub asked: u32,
    /// Whether the channel takes a question.
    pub hears: bool,
}

impl Scripted {
    pub fn new(baseline: Vec<Report>, steps: Vec<Step>) -> Self {
        Self {
            baseline,
            diagnosis: None,
            network: None,
            steps,
            now_ms: 0,
            tree: "t0".to_owned(),
            at: 0,
            copies_run: 0,
            execs: 0,
            asked: 0,
            hears: true,
        }
    }

    /// Returns the step that was taken last.
    pub fn step(&self) -> &Step {
        &self.steps[(self.at - 1).min(self.steps.len() - 1)]
    }
}

pub fn run_fact(exit: Exit) -> RunFact {
    let stream = StreamFact { bytes: 0, sha256: sha256(b""), kept: None };
    RunFact {
        exit,
        stdout: stream.clone(),
        stderr: stream,
        tail: String::new(),
        wall_ms: 1,
        survivors: vec![],
        refused: 0,
        crowded: false,
    }
}

pub fn ids(names: &[&str]) -> IdSet {
    names.iter().map(|name| (*name).into()).collect()
}

fn check_run(place: Place, tree: &str, report: &Report) -> CheckRun {
    let per_test = !(report.passed.is_empty() && report.failed.is_empty());
    let mut results = Results::new(if per_test { Runner::Pytest } else { Runner::Command });
    results.passed = ids(&report.passed);
    results.failed = ids(&report.failed);
    results.collected = results.passed.union(&results.failed).cloned().collect();
    results.broken = report.broken.then(|| "it does not build".to_owned());
    results.problems.extend(report.problem.clone());
    let class = sha256(format!("{:?}{}", report.failed, report.message).as_bytes());
    CheckRun {
        place,
        tree: tree.to_owned(),
        run: run_fact(report.exit.clone()),
        results,
        fingerprint: class.clone(),
        class,
    }
}

impl World for Scripted {
    fn elapsed_ms(&self) -> u64 {
        self.now_ms
    }

    fn open_workspace(&mut self) -> Result<()> {
        Ok(())
    }

    fn run_setup(&mut self) -> Result<Option<RunFact>> {
        Ok(None)
    }

    fn take_snapshot(&mut self) -> Result<String> {
        Ok(self.tree.clone())
    }

    fn restore_workspace(&mut self, tree: &str) -> Result<()> {
        self.tree = tree.to_owned();
        Ok(())
    }

    fn freeze_layer(&mut self, _: &str) -> Result<LayerFact> {
        Ok(LayerFact::default())
    }

    fn run_check(&mut self, place: Place, tree: &str, phase: Phase) -> Result<CheckRun> {
        let report = match (phase, place) {
            (Phase::Baseline, Place::CallerNetwork) => {
                self.network.clone().unwrap_or_else(|| self.baseline[0].clone())
            }
            (Phase::Baseline, Place::CallerEnvironment | Place::CallerHome) => {
                self.diagnosis.clone().unwrap_or_else(|| self.baseline[0].clone())
            }
            (Phase::Baseline, _) => {
                self.copies_run += 1;
                self.baseline[(self.copies_run - 1).min(self.baseline.len() - 1)].clone()
            }
            (Phase::Loop, Place::Workspace) if self.copies_run > 0 => {
                self.step().rerun.clone().unwrap_or_else(|| self.step().check.clone())
            }
            (Phase::Loop, Place::Workspace) => self.step().check.clone(),
            (Phase::Loop, Place::Canary) => {
                let at = usize::from(tree == "planted-start");
                self.step().canary_runs[at].clone().unwrap_or_else(|| self.step().check.clone())
            }
            (Phase::Loop, _) => {
                self.copies_run += 1;
                let copies = &self.step().copies;
                copies[(self.copies_run - 1).min(copies.len() - 1)].clone()
            }
        };
        Ok(check_run(place, tree, &report))
    }

    fn run_exec(&mut self, _: u32, _: &History) -> Result<ExecRun> {
        self.at += 1;
        self.execs += 1;
        self.copies_run = 0;
        let step = self.step().clone();
        self.now_ms += step.takes_ms;
        if let Some(tree) = &step.tree {
            self.tree.clone_from(tree);
        }
        Ok(ExecRun {
            run: run_fact(Exit::Code { code: step.exec_code }),
            usage: step.usage,
            context: vec![],
            egress: None,
        })
    }

    fn read_changes(&mut self, from: &str, to: &str) -> Result<Vec<PathChange>> {
        if from == to {
            return Ok(vec![]);
        }
        let change = |path: &&str| PathChange { path: (*path).into(), kind: "modified".into() };
        Ok(self.step().touches.iter().map(change).collect())
    }

    fn measure_patch(&mut self, _: &str, _: &str, _: &str) -> Result<PatchSize> {
        Ok(self.step().patch)
    }

    fn read_surface(&mut self, _: &str, _: &str) -> Result<SurfaceFact> {
        Ok(self.step().surface.clone())
    }

    fn lay_over(&mut self, _: &str, tree: &str, additions: Additions) -> Result<OverlayFact> {
        let mut fact = self.step().overlay.clone();
        if additions != Additions::Drop {
            fact.kept = std::mem::take(&mut fact.dropped);
        }
        if additions == Additions::Grow {
            let grown = &self.step().grown;
            fact.kept.extend(grown.iter().cloned());
            fact.restored.retain(|path| !grown.contains(path));
        }
        if !fact.kept.is_empty() {
            fact.tree = "kept".to_owned();
        }
        if fact.tree.is_empty() {
            fact.tree = tree.to_owned();
        }
        Ok(fact)
    }

    fn plant(&mut self, _: &str, _: &IdSet, _: Plant) -> Result<Option<Canary>> {
        Ok(self.step().canary.clone())
    }

    fn plant_at_start(&mut self, _: &str, _: &Canary) -> Result<Option<String>> {
        Ok(Some("planted-start".to_owned()))
    }

    fn read_runner_files(&mut self) -> Result<Vec<String>> {
        Ok(vec![])
    }

    fn read_coverage(&mut self, _: &str, _: &str) -> Result<Option<CoverageFact>> {
        Ok(self.step().coverage.clone())
    }

    fn run_held_out(&mut self, _: &str) -> Result<Option<RunFact>> {
        Ok(self.step().held_out.map(|code| run_fact(Exit::Code { code })))
    }

    fn run_judge(&mut self, _: &str, _: &Observation) -> Result<Option<Veto>> {
        Ok(self.step().judge.clone())
    }

    fn read_control(&mut self) -> Result<BTreeMap<String, String>> {
        Ok(if self.at == 0 { BTreeMap::new() } else { self.step().control.clone() })
    }

    fn missing_variables(&self, _: &[CheckRun]) -> Vec<String> {
        vec!["DATABASE_URL".to_owned()]
    }

    fn diagnosis_places(&self) -> Vec<Place> {
        vec![Place::CallerNetwork, Place::CallerEnvironment, Place::CallerHome]
    }

    fn ask(&mut self, question: &Question) -> Result<Asked> {
        self.asked += 1;
        Ok(Asked {
            gate: question.gate,
            subject: question.subject.clone(),
            channel: "file".to_owned(),
            delivered: self.hears,
            place: "question.md".to_owned(),
        })
    }
}

/// What was recorded: facts as the receipt would hold them, and the decisions taken on them.
#[derive(Default)]
pub struct Recorded {
    pub baseline: Option<BaselineObservation>,
    pub observations: Vec<Observation>,
    pub decisions: Vec<String>,
}

impl Sink for Recorded {
    fn append(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Baseline(observation) => self.baseline = Some((*observation).clone()),
            Event::Observed(observation) => self.observations.push((*observation).clone()),
            Event::BaselineDecided(evidence, decision, _) => {
                self.decisions.push(format!("{evidence:?}{decision:?}"));
            }
            Event::Decided(_, evidence, decision, _) => {
                self.decisions.push(format!("{evidence:?}{decision:?}"));
            }
        }
        Ok(())
    }
}

impl Recorded {
    /// Folds the recorded facts again and returns the decisions.
    pub fn fold(&self, plan: &Plan) -> Vec<String> {
        let Some(baseline) = &self.baseline else { return vec![] };
        let (mut history, evidence, decision) = step_baseline(plan, vec![], baseline);
        let mut decisions = vec![format!("{evidence:?}{decision:?}")];
        for observation in &self.observations {
            let (evidence, decision) = step(plan, &mut history, observation);
            decisions.push(format!("{evidence:?}{decision:?}"));
        }
        decisions
    }
}

/// Runs a script and returns the halt, the world and the record.
pub fn run(plan: &Plan, mut world: Scripted) -> (Halt, Scripted, Recorded) {
    let mut recorded = Recorded::default();
    let end = drive(plan, Position::start(), &mut world, &mut recorded).unwrap();
    assert_eq!(recorded.fold(plan), recorded.decisions, "a halt replays to itself");
    (end.halt, world, recorded)
}
