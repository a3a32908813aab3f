//! Opens a run: tree, loop file, lock, folders, receipt; everything before the baseline.

use super::credentials;
use super::live::{Bounds, Live};
use super::memory::Memory;
use super::recorder::Recorder;
use super::rules::SurfaceRules;
use super::site::Site;
use super::start::{bare_start, caller_of, pins_of, start_of};
use super::surround::Surround;
use super::zoned::{self, Zoned};
use crate::commands::Global;
use crate::commands::outcome::talk;
use crate::commands::planning::{plan_for, plan_of};
use crate::config::Resolved;
use crate::config::spec::{Deliver, Durability as Durable, LoopSpec, WorkspaceMode};
use crate::domain::gate::ProtectedChange;
use crate::domain::plan::Plan;
use crate::error::{Error, Kind, Result};
use crate::integrity::surface::hidden_settings;
use crate::process::shell::Shells;
use crate::process::toolchains::Toolchains;
use crate::process::{Capability, Placement, Supervisor};
use crate::receipt::blobs::BlobStore;
use crate::receipt::disk::Durability;
use crate::receipt::lock::Lock;
use crate::receipt::record::{Start, kind, to_value};
use crate::receipt::redact::Redactor;
use crate::receipt::rundir::{Home, KEEP, RunDir};
use crate::receipt::secrets::DEFAULT_NAMES;
use crate::receipt::state::{LoopState, Phase};
use crate::receipt::writer::{Options, Writer};
use crate::report::text::clean;
use crate::workspace::branch;
use crate::workspace::caller::Caller;
use crate::workspace::facts::BlockedPatterns;
use crate::workspace::ignored::Ignored;
use crate::workspace::journal::Journal;
use crate::workspace::places::{self, Places};
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::store::Store;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// A tree and a supervisor, before anything is known of the loop.
pub struct Ready {
    /// The tree.
    pub caller: Caller,
    /// What runs commands and hears signals.
    pub supervisor: Supervisor,
    /// Where folders may be.
    pub surroundings: places::Surroundings,
    /// The variables loopexec was started with.
    pub variables: BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    /// When the process started to work on the run.
    pub started: Instant,
}

/// Finds the tree and gets ready to run commands.
///
/// # Errors
/// `workspace_invalid` when there is no such folder or no git program.
pub fn ready(global: &Global) -> Result<Ready> {
    ready_with(global, &|name| std::env::var_os(name))
}

/// Finds the tree and gets ready to run commands, with the folders that some variables name.
///
/// # Errors
/// As [`ready`].
pub fn ready_with(
    global: &Global,
    variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<Ready> {
    let started = Instant::now();
    let launcher = std::env::current_exe().map_err(|e| {
        Error::new(Kind::Internal, "cannot find this program's own file").because(e)
    })?;
    let supervisor = Supervisor::new(launcher, Placement::Detect)?;
    let surroundings = places::Surroundings::read(variable);
    let start = global.workdir.clone().unwrap_or_else(|| PathBuf::from("."));
    let cancel = supervisor.cancel();
    let stop = || cancel.is_raised();
    let caller = Caller::discover(&start, &surroundings, &stop)?;
    let variables = std::env::vars_os().collect();
    Ok(Ready { caller, supervisor, surroundings, variables, started })
}

/// A run whose receipt has its first event.
pub struct Opened {
    /// Where it works.
    pub site: Site,
    /// Where it records.
    pub recorder: Recorder,
    /// What it is held to.
    pub plan: Plan,
    /// Its folder.
    pub run: RunDir,
    /// Nobody else works on the tree while this is held.
    pub lock: Lock,
}

/// Where the evidence of a run goes.
pub struct Evidence {
    /// All runs of the tree.
    pub home: Home,
    /// The lock of the tree.
    pub lock: Lock,
    /// The run.
    pub run: RunDir,
}

/// Takes the tree's lock and makes the folder of a new run.
///
/// # Errors
/// `workspace_invalid` when another run holds the tree, or the run exists.
pub fn open_evidence(root: &Path, dir: &str, run_id: Option<&str>) -> Result<Evidence> {
    let run_id = match run_id {
        Some(id) => id.to_owned(),
        None => ulid::Ulid::generate().to_string(),
    };
    crate::receipt::rundir::check_run_id(&run_id)?;
    let home = Home::create(root, Path::new(dir))?;
    let lock = home.acquire_lock(&run_id)?;
    let cut = home
        .read_runs()?
        .into_iter()
        .find(|run| Journal::read(run.path()).is_ok_and(|begun| begun.is_some()));
    if let Some(cut) = cut {
        talk(&format!(
            "warning: run {id} was killed while its result was written into this tree, and a part of it stands there; loopexec run --resume {id} completes it",
            id = cut.id()
        ));
    }
    let run = home.create_run(&run_id)?;
    home.prune(&lock, &run_id, KEEP)?;
    Ok(Evidence { home, lock, run })
}

/// Opens a run: the first event is on disk when it returns.
///
/// # Errors
/// Everything that keeps a run from starting, by the reason it halts with.
pub fn open(
    ready: Ready,
    resolved: &Resolved,
    evidence: Evidence,
    global: &Global,
) -> Result<(Opened, Start)> {
    let redactor = match redactor_of(&resolved.spec, &ready) {
        Ok(redactor) => redactor,
        Err(error) => {
            refuse(&evidence, &error)?;
            return Err(error);
        }
    };
    let durability = durability_of(&resolved.spec);
    let options = Options { durability, redactor: Some(redactor.clone()), clock: SystemTime::now };
    let mut writer = create_writer(&evidence, options)?;
    let memory = Rc::new(RefCell::new(Memory::default()));
    let started = start(ready, resolved, &evidence, &redactor, global, &memory, &mut writer);
    let (site, plan, start) = match started {
        Ok(started) => started,
        Err(error) => {
            super::closing::end_at_once(&mut writer, &bare_start(Some(resolved)), &error)?;
            return Err(error);
        }
    };
    let root = site.caller.root.clone();
    let mut state =
        LoopState::new(evidence.run.id(), &resolved.digest, relative(&root, evidence.run.path()));
    state.phase = Phase::Baseline;
    let pins = pins_of(&resolved.spec, &start);
    let recorder = Recorder::new(writer, state, root, redactor, durability, pins, memory);
    Ok((Opened { site, recorder, plan, run: evidence.run, lock: evidence.lock }, start))
}

/// Makes the site of a run and writes its first event.
fn start(
    ready: Ready,
    resolved: &Resolved,
    evidence: &Evidence,
    redactor: &Arc<Redactor>,
    global: &Global,
    memory: &Rc<RefCell<Memory>>,
    writer: &mut Writer,
) -> Result<(Site, Plan, Start)> {
    check_delivery(&resolved.spec, &ready.caller, Some(evidence.run.id()))?;
    let plan = plan_for(resolved, &prefix_of(&ready.caller));
    let (redactor, memory) = (redactor.clone(), memory.clone());
    let site = build_site(ready, resolved, &evidence.run, redactor, global, 0, memory)?;
    let start = start_of(&site, resolved, &plan)?;
    let Value::Object(body) = to_value(&start)? else {
        return Err(Error::new(Kind::Internal, "the start of a run is no object"));
    };
    writer.append(kind::RUN_START, body)?;
    Ok((site, plan, start))
}

/// Says whether the result could reach the caller as the loop wants it, before anything is spent.
///
/// # Errors
/// `workspace_invalid` for `deliver: branch` where no branch can be made.
pub fn check_delivery(spec: &LoopSpec, caller: &Caller, run_id: Option<&str>) -> Result<()> {
    let workspace = &spec.workspace;
    if workspace.deliver != Deliver::Branch || workspace.mode == WorkspaceMode::InPlace {
        return Ok(());
    }
    branch::check_possible(&caller.root, run_id)
}

/// Creates the receipt; a run that cannot even have an empty one leaves no folder.
fn create_writer(evidence: &Evidence, options: Options) -> Result<Writer> {
    Writer::create(&evidence.run, &evidence.lock, options).inspect_err(|_| {
        // On a disk this full the empty folder is all there is of the run.
        let _ = std::fs::remove_dir_all(evidence.run.path());
    })
}

/// Where a site stands and what it writes to.
pub struct Seat {
    /// The id in messages and variables.
    pub run_id: String,
    /// The run's own folder, where the site is that of a run.
    pub run: Option<RunDir>,
    /// What a person has to agree to before anything runs.
    pub protected: Option<ProtectedChange>,
    /// What is recorded of the caller's tree.
    pub caller_facts: Value,
    /// Its folders.
    pub places: Places,
    /// What says that they are in use.
    pub cache_lock: Lock,
    /// Its snapshots.
    pub store: Store,
    /// Its outputs.
    pub blobs: BlobStore,
    /// Where it says what it does.
    pub live: Live,
}

/// Puts the parts of a run's site together; nothing is run yet but the canary.
///
/// # Errors
/// As [`open`].
pub fn build_site(
    ready: Ready,
    resolved: &Resolved,
    run: &RunDir,
    redactor: Arc<Redactor>,
    global: &Global,
    earlier_ms: u64,
    memory: Rc<RefCell<Memory>>,
) -> Result<Site> {
    let spec = resolved.spec.clone();
    credentials::check(&spec, &ready.variables)?;
    let places = Places::of(&ready.caller.root, run.id(), &ready.surroundings)?;
    let cache_lock = claim(&places, run.id())?;
    let store = match run.snapshots().exists() {
        true => Store::open(&run.snapshots())?,
        false => Store::create(&run.snapshots())?,
    };
    let seat = Seat {
        run_id: run.id().to_owned(),
        run: Some(run.clone()),
        protected: resolved.protected.clone(),
        caller_facts: caller_of(&ready.caller, resolved),
        places,
        cache_lock,
        store,
        blobs: BlobStore::new(run.blobs(), durability_of(&spec)),
        live: Live::start(run.path(), global, bounds_of(&spec, ready.started, earlier_ms)),
    };
    assemble(ready, spec, seat, redactor, earlier_ms, memory)
}

/// Makes the cache of a run, or takes up what a killed one left of it, and holds it: to others it is in use.
///
/// # Errors
/// `workspace_invalid` where it cannot be made, and where somebody works in it.
fn claim(places: &Places, id: &str) -> Result<Lock> {
    places::claim_cache(&places.caches, &[id], || {
        places.create()?;
        Lock::acquire(&places.cache.join(places::CACHE_LOCK), id)
    })
}

/// Returns what the live line counts against.
pub fn bounds_of(spec: &LoopSpec, started: Instant, earlier_ms: u64) -> Bounds {
    Bounds {
        iterations: spec.limits.iterations,
        time_ms: u64::try_from(spec.limits.time.as_millis()).unwrap_or(u64::MAX),
        started,
        earlier_ms,
    }
}

/// Puts the parts of a site together where its folders are there.
///
/// # Errors
/// `config_invalid` without a shell that can run the check, else as [`open`].
pub fn assemble(
    mut ready: Ready,
    spec: LoopSpec,
    seat: Seat,
    redactor: Arc<Redactor>,
    earlier_ms: u64,
    memory: Rc<RefCell<Memory>>,
) -> Result<Site> {
    let Seat { run_id, run, protected, caller_facts, places, cache_lock, store, blobs, live } =
        seat;
    let toolchains =
        Toolchains::resolve(&mut ready.supervisor, &ready.variables, &ready.caller.root)?;
    let zoned::Found { zones, stepped_down } =
        zoned::choose(&mut ready, &spec, &toolchains, &places.cache.join("zone"))?;
    if let Some(why) = &stepped_down {
        let what = match &zones {
            Some(_) => "Landlock alone isolates exec and check",
            None => "nothing isolates exec and check",
        };
        talk(&format!("warning: {what}, which `isolation.accept` allows: {}", clean(why)));
    }
    let capability = match &zones {
        Some(zones) if zones.by_landlock() => {
            Capability::Plain { why: "Landlock makes no mounts".to_owned() }
        }
        Some(zones) => Capability::Namespaces { overlay: zones.overlay() },
        None => ready.supervisor.probe(&places.cache)?,
    };
    // Commands have the tools of their image, and look for them there.
    let in_image = zones.as_ref().and_then(Zoned::tools).cloned();
    let shells = match &in_image {
        Some(tools) => Shells::of_image(tools),
        None => Shells::find(&toolchains.path),
    };
    let toolchains = in_image.unwrap_or(toolchains);
    let sealed = spec.check.held_out.as_ref().map(|command| ("check.held_out", command));
    let judge = spec.guards.judge.as_ref().map(|command| ("guards.judge", command));
    for (name, command) in
        [Some(("check", &spec.check.command)), sealed, judge].into_iter().flatten()
    {
        if shells.loses_pipefail(&command.run) {
            let what = format!(
                "{name} holds a pipe, and there is no bash here to see a failure inside it"
            );
            return Err(Error::new(Kind::ConfigInvalid, what)
                .hint(format!("install bash, or write {name} without a pipe")));
        }
    }
    // Settings that git ignores are in no snapshot: they are watched like blocked paths.
    let mut watched = plan_of(&spec, &prefix_of(&ready.caller)).blocked_paths;
    watched.extend(hidden_settings());
    let patterns = BlockedPatterns::new(&watched)?;
    let rules = SurfaceRules::new(&spec, &ready.caller.root, &ready.caller.prefix)?;
    let ignored = Ignored::default();
    Ok(Site {
        surround: Surround {
            caller: ready.variables,
            toolchains,
            shells,
            tmp: places.cache.join("tmp"),
        },
        snapshotter: Snapshotter::new(ignored.clone()),
        caller: ready.caller,
        supervisor: ready.supervisor,
        started: ready.started,
        spec,
        places,
        _cache_lock: cache_lock,
        store,
        capability,
        redactor,
        blobs,
        live,
        ignored,
        patterns,
        layer: None,
        frozen_tree: String::new(),
        earlier_ms,
        baseline_check_ms: 0,
        jobs: 0,
        iteration: 0,
        notes: Vec::new(),
        left_out: Vec::new(),
        memory,
        run_id,
        run,
        protected,
        caller_facts,
        rules,
        test_files: Default::default(),
        nonce: String::new(),
        coverage: [None, None],
        question: None,
        head: None,
        exec_began: None,
        outside: Default::default(),
        data_writes: None,
        git_places: None,
        zones,
        stepped_down,
    })
}

/// Returns the folder the run was started in, from the root, with a `/` at its end unless empty.
pub fn prefix_of(caller: &Caller) -> String {
    match caller.prefix.to_string_lossy() {
        prefix if prefix.is_empty() => String::new(),
        prefix => format!("{prefix}/"),
    }
}

/// Returns what keeps secrets out of everything that is written.
///
/// # Errors
/// `config_invalid` when there are too many to look for.
pub fn redactor_of(spec: &LoopSpec, ready: &Ready) -> Result<Arc<Redactor>> {
    let names: Vec<String> = match &spec.receipt.redact {
        Some(names) => names.clone(),
        None => DEFAULT_NAMES.iter().map(|name| (*name).to_owned()).collect(),
    };
    Ok(Arc::new(Redactor::new(&names, ready.variables.clone())?))
}

/// Returns when the receipt is made durable.
pub fn durability_of(spec: &LoopSpec) -> Durability {
    match spec.receipt.durability {
        Durable::Event => Durability::Event,
        Durable::Iteration => Durability::Iteration,
    }
}

/// Returns the path from the root of the tree where it lies inside.
pub fn relative(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}

/// Leaves a receipt of two events for a run whose loop file is not valid.
///
/// # Errors
/// `storage_exhausted` when not even those can be made durable.
pub fn refuse(evidence: &Evidence, error: &Error) -> Result<()> {
    let mut writer = create_writer(evidence, Options::default())?;
    super::closing::end_at_once(&mut writer, &bare_start(None), error).map(|_| ())
}
