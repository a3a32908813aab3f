//! The place a run works in: caller's tree, workspace, layer, copies, and the processes in them.
//!
//! It is the engine's `World`; how the check is read stands in `checking`, what exec sees in
//! `briefing`, how a run opens and closes in `opening` and `closing`.

use super::in_place::GitPlaces;
use super::live::Live;
use super::memory::Memory;
use super::outside::Outside;
use super::rules::SurfaceRules;
use super::surround::Surround;
use super::zoned::{self, Closed, Zoned};
use crate::config::spec::{Diagnose, LoopSpec, WorkspaceMode};
use crate::config::workflow::STEP_FILES;
use crate::domain::command::signal_name;
use crate::domain::gate::{Asked, ProtectedChange, Question};
use crate::domain::guard::is_control;
use crate::domain::history::History;
use crate::domain::judge::Phase;
use crate::domain::observation::{
    CheckRun, ExecRun, LayerFact, Observation, PatchSize, PathChange, Place, RunFact, TreeId,
};
use crate::domain::results::IdSet;
use crate::domain::surface::{Canary, CoverageFact, OverlayFact, SurfaceFact, Veto};
use crate::engine::ports::{Additions, Plant, World};
use crate::error::{Error, Kind, Result};
use crate::integrity::coverage::Coverage;
use crate::process::{Capability, Mount, OverlayMode, Supervisor, View};
use crate::receipt::blobs::BlobStore;
use crate::receipt::lock::Lock;
use crate::receipt::question::QuestionFile;
use crate::receipt::redact::Redactor;
use crate::receipt::rundir::RunDir;
use crate::workspace::caller::Caller;
use crate::workspace::copies::{self, How};
use crate::workspace::delta::Held;
use crate::workspace::facts::{self, BlockedPatterns};
use crate::workspace::ignored::Ignored;
use crate::workspace::layer::{self, Layer};
use crate::workspace::patch::measure_patch;
use crate::workspace::places::{Places, make_fresh_folder};
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::store::Store;
use crate::workspace::wanted::write_wanted;
use crate::workspace::{changes, paths, restore, times};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Paths that a receipt names of those that one snapshot does not hold.
const MOST_LEFT_OUT: usize = 20;

/// Where a run works, and everything it works with.
pub struct Site {
    pub(super) spec: LoopSpec,
    pub(super) caller: Caller,
    pub(super) places: Places,
    /// What says that the cache is in use.
    pub(super) _cache_lock: Lock,
    pub(super) store: Store,
    pub(super) supervisor: Supervisor,
    pub(super) capability: Capability,
    pub(super) surround: Surround,
    pub(super) redactor: Arc<Redactor>,
    pub(super) blobs: BlobStore,
    pub(super) live: Live,
    pub(super) ignored: Ignored,
    pub(super) snapshotter: Snapshotter,
    pub(super) patterns: BlockedPatterns,
    pub(super) layer: Option<Layer>,
    pub(super) frozen_tree: TreeId,
    pub(super) started: Instant,
    pub(super) earlier_ms: u64,
    pub(super) baseline_check_ms: u64,
    pub(super) jobs: u32,
    pub(super) iteration: u32,
    pub(super) notes: Vec<String>,
    /// What the last snapshot did not hold.
    pub(super) left_out: Vec<String>,
    pub(super) memory: Rc<RefCell<Memory>>,
    pub(super) run_id: String,
    /// The run's own folder; none where the site is made again beside it.
    pub(super) run: Option<RunDir>,
    /// What a person has to agree to before anything runs.
    pub(super) protected: Option<ProtectedChange>,
    /// What is recorded of the caller's tree.
    pub(super) caller_facts: Value,
    /// What the loop says about the test surface.
    pub(super) rules: SurfaceRules,
    /// The files with tests of one snapshot.
    pub(super) test_files: (TreeId, BTreeMap<String, Held>),
    /// The name of the last canary.
    pub(super) nonce: String,
    /// Coverage at t0 and after the last check in the workspace.
    pub(super) coverage: [Option<Coverage>; 2],
    /// The question that was put last.
    pub(super) question: Option<QuestionFile>,
    /// The caller's HEAD at t0.
    pub(super) head: Option<String>,
    /// The snapshot that exec set out from and when, until the one behind it is taken.
    pub(super) exec_began: Option<(TreeId, times::Moment)>,
    /// What the check uses outside of the workspace.
    pub(super) outside: Outside,
    /// What closes commands in, where the loop asks for it.
    pub(super) zones: Option<Zoned>,
    /// Why nothing, or only a degraded backend, closes them in although the loop would have it.
    pub(super) stepped_down: Option<String>,
    /// Data of tests that the check of the start writes to by itself; nothing where this process has not seen it.
    pub(super) data_writes: Option<std::collections::BTreeSet<String>>,
    /// The git folders of the caller's tree before the first exec of this process, where it works in that tree.
    pub(super) git_places: Option<GitPlaces>,
}

/// For whom a ground is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Exec.
    Exec,
    /// The check, and what else must reach nothing.
    Check,
    /// A command that has the caller's network.
    Connected,
}

impl Role {
    /// Returns the name of its private HOME.
    const fn home(self) -> &'static str {
        match self {
            Self::Exec => "agent",
            Self::Check | Self::Connected => "exec",
        }
    }
}

/// A folder of ours that one command is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handed<'a> {
    /// It writes there.
    Written(&'a Path),
    /// It reads what is there.
    Read(&'a Path),
    /// There is none.
    Nothing,
}

/// Where one command runs.
pub(super) struct Ground {
    /// What it sees.
    pub view: View,
    /// What closes it in.
    pub enclosure: Option<Closed>,
    /// The root of the tree, as it sees it.
    pub root: PathBuf,
    /// Its HOME, as it sees it.
    pub home: PathBuf,
    /// The root of what it wrote, as we see it.
    pub written: PathBuf,
    /// The copy that is removed afterwards.
    pub copy: Option<PathBuf>,
}

impl Site {
    /// Returns the workspace's folder as we see it.
    pub(super) fn workspace(&self) -> PathBuf {
        match self.spec.workspace.mode {
            WorkspaceMode::Detached => self.places.cache.join("workspace"),
            WorkspaceMode::InPlace => self.caller.root.clone(),
        }
    }

    /// Returns the private HOME of exec or of everything else.
    pub(super) fn home(&self, name: &str) -> PathBuf {
        self.places.cache.join("home").join(name)
    }

    /// Fails when a signal asked the run to stop.
    pub(super) fn stop_if_interrupted(&self) -> Result<()> {
        match self.supervisor.interrupted() {
            None => Ok(()),
            Some(signal) => {
                let what = format!("{} asked the run to stop", signal_name(signal));
                Err(Error::new(Kind::Interrupted, what)
                    .hint("loopexec run --resume goes on from here"))
            }
        }
    }

    /// Makes the folder of ours that one command is shown, and takes away what an earlier one made of it.
    pub(super) fn make_io(&self, name: &str) -> Result<PathBuf> {
        let io = self.places.cache.join("io").join(name);
        make_fresh_folder(&io)?;
        Ok(io)
    }

    /// Returns the ground of a command in the workspace.
    pub(super) fn ground_workspace(&self, role: Role, handed: Handed<'_>) -> Result<Ground> {
        let workspace = self.workspace();
        let home = self.home(role.home());
        if let Some(zones) = self.zones.as_ref().filter(|zones| !zones.by_landlock()) {
            let root = self.caller.root.clone();
            let mut mounts = vec![Mount::Bind { from: workspace.clone(), to: root.clone() }];
            mounts.push(Mount::Bind { from: home.clone(), to: home.clone() });
            mounts.extend(self.ours(handed));
            if self.spec.workspace.mode == WorkspaceMode::InPlace {
                let nested = self.git_places.iter().flat_map(GitPlaces::nested);
                mounts.extend(zoned::kept(&root, &self.spec.receipt.dir, nested)?);
            }
            return Ok(Ground {
                view: View::Namespace { mounts, remove: Vec::new() },
                enclosure: Some(zones.enclose(role)?),
                root,
                home,
                written: workspace,
                copy: None,
            });
        }
        let bound = matches!(self.capability, Capability::Namespaces { .. });
        let root = if bound { self.caller.root.clone() } else { workspace.clone() };
        let others = match role {
            Role::Exec => &["layer", "copies", "home/exec"][..],
            Role::Check | Role::Connected => &["layer", "copies"],
        };
        let view = match bound {
            true => {
                let mut mounts = vec![Mount::Bind { from: workspace.clone(), to: root.clone() }];
                mounts.extend(self.hide(others));
                mounts.extend(self.hide_step_files());
                View::Namespace { mounts, remove: Vec::new() }
            }
            false => View::Plain,
        };
        let enclosure = self.fence(role, [&workspace, &home], handed)?;
        Ok(Ground { view, enclosure, root, home, written: workspace, copy: None })
    }

    /// Closes a command in by Landlock where that is the backend: it writes to these folders and to those of ours.
    fn fence(&self, role: Role, written: [&Path; 2], handed: Handed<'_>) -> Result<Option<Closed>> {
        let Some(zones) = self.zones.as_ref().filter(|zones| zones.by_landlock()) else {
            return Ok(None);
        };
        let mut closed = zones.enclose(role)?;
        let shown = |path: &Path| Mount::Bind { from: path.to_owned(), to: path.to_owned() };
        closed.enclosure.system.extend(written.map(shown));
        closed.enclosure.system.extend(self.ours(handed));
        Ok(Some(closed))
    }

    /// Returns the folders of ours that a command in a zone sees.
    fn ours(&self, handed: Handed<'_>) -> Vec<Mount> {
        let tmp = &self.surround.tmp;
        let mut mounts = vec![Mount::Bind { from: tmp.clone(), to: tmp.clone() }];
        mounts.extend(match handed {
            Handed::Written(io) => Some(Mount::Bind { from: io.to_owned(), to: io.to_owned() }),
            Handed::Read(io) => {
                Some(Mount::BindReadOnly { from: io.to_owned(), to: io.to_owned() })
            }
            Handed::Nothing => None,
        });
        mounts
    }

    /// Covers folders of the cache that later commands are made from: who runs before them has no
    /// business there.
    fn hide(&self, names: &[&str]) -> Vec<Mount> {
        let nothing = self.places.cache.join("nothing");
        let cover = |name: &&str| {
            let to = self.places.cache.join(name);
            to.is_dir().then(|| Mount::BindReadOnly { from: nothing.clone(), to })
        };
        names.iter().filter_map(cover).collect()
    }

    /// Covers the files by which a step tells its runner what it found, and keeps the one that tells the event
    /// as it is: a name that no command is given can be guessed all the same.
    fn hide_step_files(&self) -> Vec<Mount> {
        let file = |name: &str| {
            let path = PathBuf::from(self.surround.caller.get(OsStr::new(name))?);
            let outside = path.is_absolute() && !path.starts_with(&self.caller.root);
            (outside && fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()))
                .then_some(path)
        };
        let mut mounts: Vec<Mount> = STEP_FILES
            .iter()
            .filter_map(|name| file(name))
            .map(|to| Mount::Bind { from: PathBuf::from("/dev/null"), to })
            .collect();
        let event = file("GITHUB_EVENT_PATH");
        mounts.extend(event.map(|path| Mount::BindReadOnly { from: path.clone(), to: path }));
        mounts
    }

    /// Makes a fresh copy of a snapshot and returns the ground of a command in it.
    pub(super) fn ground_copy(
        &mut self,
        tree: &str,
        place: Place,
        handed: Handed<'_>,
    ) -> Result<Ground> {
        let layer = self.layer.as_ref().ok_or_else(|| {
            Error::new(Kind::Internal, "a copy was asked for before the layer is frozen")
        })?;
        let overlay = match self.capability {
            Capability::Namespaces { overlay } => overlay != OverlayMode::Unavailable,
            Capability::Plain { .. } => false,
        };
        let how = if overlay && place != Place::RealCopy { How::Overlay } else { How::Real };
        let dest = self.places.cache.join("copies").join(self.jobs.to_string());
        let cancel = self.supervisor.cancel();
        let stop = || cancel.is_raised();
        let prepared = copies::prepare(
            self.store.repository(),
            layer,
            &self.frozen_tree,
            tree,
            &dest,
            how,
            &stop,
        )?;
        let exec_home = self.home("exec");
        let root = self.caller.root.clone();
        let copy = Some(dest);
        let role = match place {
            Place::CallerNetwork => Role::Connected,
            _ => Role::Check,
        };
        if matches!(self.capability, Capability::Plain { .. }) {
            let written = prepared.dir.clone();
            let enclosure = match place {
                // What the caller's whole file system is lent for runs outside of a zone.
                Place::CallerHome => None,
                _ => self.fence(role, [&prepared.dir, &prepared.home], handed)?,
            };
            return Ok(Ground {
                view: View::Plain,
                enclosure,
                root: prepared.dir,
                home: prepared.home,
                written,
                copy,
            });
        }
        let mount = |overlay: Option<copies::Overlay>, from: &Path, to: PathBuf| match overlay {
            Some(copies::Overlay { lower, upper, work }) => {
                Mount::Overlay { lower, upper, work, to }
            }
            None => Mount::Bind { from: from.to_owned(), to },
        };
        let written =
            prepared.overlay.as_ref().map_or(&prepared.dir, |overlay| &overlay.upper).clone();
        let mut mounts = vec![
            mount(prepared.home_overlay, &prepared.home, exec_home.clone()),
            mount(prepared.overlay, &prepared.dir, root.clone()),
        ];
        // What the caller's whole file system is lent for runs outside of a zone.
        let zones = self.zones.as_ref().filter(|_| place != Place::CallerHome);
        match zones {
            Some(_) => mounts.extend(self.ours(handed)),
            None => {
                mounts.extend(self.hide(&["layer"]));
                mounts.extend(self.hide_step_files());
            }
        }
        let enclosure = zones.map(|zones| zones.enclose(role)).transpose()?;
        let remove = prepared.remove.iter().map(|path| root.join(path)).collect();
        Ok(Ground {
            view: View::Namespace { mounts, remove },
            enclosure,
            root,
            home: exec_home,
            written,
            copy,
        })
    }

    /// Takes a copy away again.
    pub(super) fn clear(&self, ground: &Ground) -> Result<()> {
        match &ground.copy {
            Some(copy) => copies::remove(copy),
            None => Ok(()),
        }
    }

    /// Returns the milliseconds that are left of the run's time.
    pub(super) fn left_ms(&self) -> u64 {
        let limit = u64::try_from(self.spec.limits.time.as_millis()).unwrap_or(u64::MAX);
        limit.saturating_sub(self.elapsed_ms())
    }
}

impl World for Site {
    fn elapsed_ms(&self) -> u64 {
        self.earlier_ms + u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0)
    }

    fn open_workspace(&mut self) -> Result<()> {
        self.stop_if_interrupted()?;
        self.live.enter("workspace", 0);
        self.make_workspace()
    }

    fn run_setup(&mut self) -> Result<Option<RunFact>> {
        self.setup()
    }

    fn take_snapshot(&mut self) -> Result<TreeId> {
        self.stop_if_interrupted()?;
        self.live.enter("snapshot", self.iteration);
        let cancel = self.supervisor.cancel();
        let stop = || cancel.is_raised();
        let workspace = self.workspace();
        let taken = self.snapshotter.take(&workspace, &self.store, &stop)?;
        // The event that names the snapshot comes later: a power cut never leaves the name alone.
        self.store.make_durable(&taken.written)?;
        self.left_out.clear();
        for (path, kind) in &taken.specials_removed {
            let what = match self.spec.workspace.mode {
                WorkspaceMode::Detached => "was removed from the workspace",
                WorkspaceMode::InPlace => "is in your tree and in no snapshot",
            };
            let note = format!("{kind} {path} {what}");
            self.left_out.push(note.clone());
            self.notes.push(note);
        }
        if let Some((base, since)) = self.exec_began.take() {
            let (known, store) = (&self.snapshotter, &self.store);
            times::renew(known, &workspace, store, &base, &taken.tree, since)?;
        }
        Ok(taken.tree)
    }

    fn take_left_out(&mut self) -> Result<Vec<String>> {
        let mut left_out = std::mem::take(&mut self.left_out);
        let more = left_out.len().saturating_sub(MOST_LEFT_OUT);
        left_out.truncate(MOST_LEFT_OUT);
        left_out.extend((more > 0).then(|| format!("and {more} more like these")));
        self.redactor.redact_fact(left_out)
    }

    fn restore_workspace(&mut self, tree: &str) -> Result<()> {
        let cancel = self.supervisor.cancel();
        let stop = || cancel.is_raised();
        let workspace = self.workspace();
        restore::restore(&mut self.snapshotter, &workspace, &self.store, tree, &stop)?;
        Ok(())
    }

    fn freeze_layer(&mut self, tree: &str) -> Result<LayerFact> {
        self.stop_if_interrupted()?;
        self.live.enter("freeze", 0);
        let cancel = self.supervisor.cancel();
        let stop = || cancel.is_raised();
        let ignored: HashSet<Vec<u8>> =
            self.snapshotter.ignored_paths().into_iter().map(|(path, _)| path).collect();
        let is_ignored = |path: &Path, _: bool| ignored.contains(paths::as_bytes(path));
        let layer = layer::freeze(
            &self.workspace(),
            &self.home("exec"),
            &self.places.cache.join("layer"),
            &is_ignored,
            &stop,
        )?;
        let fact =
            LayerFact { digest: layer.digest.clone(), files: layer.files, bytes: layer.bytes };
        self.layer = Some(layer);
        tree.clone_into(&mut self.frozen_tree);
        self.write_cache_facts()?;
        Ok(fact)
    }

    fn run_check(&mut self, place: Place, tree: &str, phase: Phase) -> Result<CheckRun> {
        self.check(place, tree, phase)
    }

    fn run_exec(&mut self, iteration: u32, history: &History) -> Result<ExecRun> {
        self.iteration = iteration;
        // A resume has not seen the baseline of this machine.
        self.remember_outside()?;
        let began = times::read_moment(&self.places.cache)?;
        self.exec_began = Some((history.next.tree.clone(), began));
        self.exec(iteration, history)
    }

    fn read_changes(&mut self, from: &str, to: &str) -> Result<Vec<PathChange>> {
        let found = changes::changes(&self.store, from, to)?;
        Ok(found
            .into_iter()
            .map(|change| PathChange {
                path: self.redactor.redact_str(&change.path),
                kind: change.kind.word().to_owned(),
            })
            .collect())
    }

    fn measure_patch(&mut self, carried: &str, start: &str, tree: &str) -> Result<PatchSize> {
        let wanted = write_wanted(&self.store, carried, start, tree)?;
        let facts = measure_patch(self.store.repository(), carried, &wanted)?;
        Ok(PatchSize { files: facts.files, lines: facts.added + facts.removed })
    }

    fn read_surface(&mut self, start: &str, tree: &str) -> Result<SurfaceFact> {
        self.surface_of(start, tree)
    }

    fn lay_over(&mut self, start: &str, tree: &str, additions: Additions) -> Result<OverlayFact> {
        self.live.enter("overlay", self.iteration);
        self.overlay_of(start, tree, additions)
    }

    fn plant(&mut self, tree: &str, tests: &IdSet, what: Plant) -> Result<Option<Canary>> {
        self.canary_of(tree, tests, what)
    }

    fn plant_at_start(&mut self, start: &str, canary: &Canary) -> Result<Option<TreeId>> {
        self.sentinel_at(start, canary)
    }

    fn read_runner_files(&mut self) -> Result<Vec<String>> {
        self.runner_files()
    }

    fn read_coverage(&mut self, start: &str, tree: &str) -> Result<Option<CoverageFact>> {
        self.coverage_of(start, tree)
    }

    fn run_held_out(&mut self, tree: &str) -> Result<Option<RunFact>> {
        self.held_out(tree)
    }

    fn run_judge(&mut self, tree: &str, observation: &Observation) -> Result<Option<Veto>> {
        self.judge(tree, observation)
    }

    fn read_control(&mut self) -> Result<BTreeMap<String, String>> {
        let mut facts =
            facts::read_control_facts(&self.workspace(), &self.patterns, &self.snapshotter)?;
        facts.retain(|key, _| is_control(key) || !self.rules.is_mutable(key));
        if self.spec.workspace.mode == WorkspaceMode::InPlace {
            // In the caller's own tree they are ours and change with every event.
            facts.retain(|key, _| !is_ours(key));
        }
        facts.extend(self.outside_changes()?);
        self.redactor.redact_fact(facts)
    }

    fn missing_variables(&self, runs: &[CheckRun]) -> Vec<String> {
        let start = self.workspace().join(&self.caller.prefix);
        self.surround.missing_variables(&self.spec, &start, runs)
    }

    fn ask(&mut self, question: &Question) -> Result<Asked> {
        self.put(question)
    }

    fn diagnosis_places(&self) -> Vec<Place> {
        // In its zone the check has the network or what the caller's variables hold, never both.
        match (self.spec.check.diagnose, &self.zones) {
            (Diagnose::Off, _) => Vec::new(),
            // Outside of a container are other tools: that a check is green with those says nothing of its zone.
            (Diagnose::Outside, Some(zones)) if zones.image().is_some() => {
                vec![Place::CallerNetwork, Place::CallerEnvironment]
            }
            (Diagnose::On, Some(_)) => vec![Place::CallerNetwork, Place::CallerEnvironment],
            (Diagnose::Outside, Some(_)) => {
                vec![Place::CallerNetwork, Place::CallerEnvironment, Place::CallerHome]
            }
            (_, None) => vec![Place::CallerEnvironment, Place::CallerHome],
        }
    }
}

/// Says whether a control key is of loopexec's own state.
fn is_ours(key: &str) -> bool {
    let first = key.split('/').next().unwrap_or(key);
    matches!(first, ".loopexec" | ".loop_state.json")
}
