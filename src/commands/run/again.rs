//! Makes the surroundings of an ended run again, beside it: for `replay`, and for a resume whose
//! cache is gone.
//!
//! Nothing of the run's own folder is written to: folders, snapshots and outputs of this site stand
//! in a cache of its own, which goes with it.

use super::live::Live;
use super::opening::{self, Ready, Seat, assemble};
use super::preparing::read_facts;
use super::site::Site;
use super::start::{check_digest, isolation_of, tools_digest};
use crate::commands::{Global, recorded};
use crate::config::spec::{OnDirty, WorkspaceMode};
use crate::domain::judge::Phase;
use crate::domain::observation::{CheckRun, Place};
use crate::engine::baseline::require_setup;
use crate::engine::ports::World;
use crate::error::Result;
use crate::receipt::blobs::BlobStore;
use crate::receipt::disk::Durability;
use crate::receipt::lock::Lock;
use crate::receipt::record::Start;
use crate::receipt::rundir::RunDir;
use crate::workspace::copies;
use crate::workspace::places::{CACHE_LOCK, Places, claim_cache};
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::store::Store;
use serde_json::Value;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// A site like that of an ended run.
pub struct Again {
    site: Site,
    /// What differs from the recorded surroundings, one word each; empty: nothing known.
    pub differences: Vec<&'static str>,
    /// Nobody removes what the run left while it is read.
    _kept_lock: Option<Lock>,
    _folder: Folder,
}

/// What the site has to be like.
pub struct Wanted<'a> {
    /// The run.
    pub run: &'a RunDir,
    /// What it set out with.
    pub start: &'a Start,
    /// Its snapshot at t0.
    pub t0: &'a str,
    /// The digest of its layer.
    pub layer: &'a str,
}

/// A folder that is removed when it is not needed any more.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays is swept at the next start of a run.
        let _ = copies::remove(&self.0);
    }
}

impl Again {
    /// Makes the site: the kept layer where the cache still has it, else what the caller's tree and
    /// the recorded setup give now.
    ///
    /// # Errors
    /// `workspace_invalid` when the run recorded no loop or keeps no snapshots, or setup fails.
    pub fn make(mut ready: Ready, wanted: &Wanted<'_>, global: &Global) -> Result<Self> {
        let mut spec = recorded::spec_of(wanted.start)?;
        // The caller's own tree is no place for a replay, wherever the run worked.
        spec.workspace.mode = WorkspaceMode::Detached;
        spec.workspace.on_dirty = OnDirty::Include;
        if let Some(prefix) = wanted.start.caller.get("prefix").and_then(|p| p.as_str()) {
            ready.caller.prefix = PathBuf::from(prefix.trim_end_matches('/'));
        }
        let redactor = opening::redactor_of(&spec, &ready)?;
        let id = format!("replay-{}", ulid::Ulid::generate());
        let root = ready.caller.root.clone();
        let places = Places::of(&root, &id, &ready.surroundings)?;
        let kept = Places::of(&root, wanted.run.id(), &ready.surroundings)?.cache;
        // What the run left is nobody's to remove while it is read.
        let (cache_lock, _kept_lock) =
            claim_cache(&places.caches, &[&id, wanted.run.id()], || {
                places.create()?;
                let own = Lock::acquire(&places.cache.join(CACHE_LOCK), &id)?;
                let there = kept.is_dir().then(|| Lock::acquire(&kept.join(CACHE_LOCK), &id));
                Ok((own, there.transpose()?))
            })?;
        let folder = Folder(places.cache.clone());
        let seat = Seat {
            run_id: id.clone(),
            run: None,
            protected: None,
            caller_facts: Value::Null,
            store: Store::create_over(
                &places.cache.join("snapshots.git"),
                &wanted.run.snapshots(),
            )?,
            blobs: BlobStore::new(places.cache.join("blobs"), Durability::Iteration),
            live: Live::start(&places.cache, global, opening::bounds_of(&spec, ready.started, 0)),
            places,
            cache_lock,
        };
        let mut site = assemble(ready, spec, seat, redactor, 0, Rc::new(RefCell::default()))?;
        let facts = read_facts(&kept).filter(|facts| facts.layer.digest == wanted.layer);
        match facts {
            Some(facts) => {
                site.make_folders()?;
                site.ignored = facts.ignored.clone();
                site.snapshotter = Snapshotter::new(facts.ignored);
                site.layer = Some(facts.layer);
                site.frozen_tree = facts.frozen_tree;
                site.baseline_check_ms = facts.baseline_check_ms;
            }
            None => make_again(&mut site, wanted.t0)?,
        }
        let differences = differences(&site, wanted);
        Ok(Self { site, differences, _kept_lock, _folder: folder })
    }

    /// Runs the check once on a snapshot of the run, in a fresh copy.
    ///
    /// # Errors
    /// Failures of the surroundings; what the check says is in the facts.
    pub fn check(
        &mut self,
        tree: &str,
        iteration: u32,
        place: Place,
        phase: Phase,
    ) -> Result<CheckRun> {
        self.site.iteration = iteration;
        let run = self.site.run_check(place, tree, phase);
        self.site.live.end();
        run
    }
}

/// Makes the workspace from the caller's tree, goes to t0, and freezes the layer behind one check.
pub(super) fn make_again(site: &mut Site, t0: &str) -> Result<()> {
    site.make_workspace()?;
    require_setup(site.setup()?.as_ref())?;
    site.restore_workspace(t0)?;
    site.run_check(Place::Workspace, t0, Phase::Baseline)?;
    site.restore_workspace(t0)?;
    site.take_snapshot()?;
    site.freeze_layer(t0)?;
    Ok(())
}

fn differences(site: &Site, wanted: &Wanted<'_>) -> Vec<&'static str> {
    let start = wanted.start;
    let layer = site.layer.as_ref().map(|layer| layer.digest.as_str());
    let isolation = isolation_of(site);
    let same = |key: &str| start.isolation.get(key) == isolation.get(key);
    let tools = start.environment.get("tools_digest").and_then(|digest| digest.as_str());
    // A value that was redacted cannot be given to the check again.
    let redacted = start.spec.to_string().contains("[redacted:");
    [
        ("check", start.check_digest != check_digest(site, &start.spec) || redacted),
        ("layer", layer != Some(wanted.layer)),
        ("tools", tools != Some(&tools_digest(site))),
        ("isolation", !(same("backend") && same("namespaces") && same("copies"))),
        ("in_place", start.isolation.get("in_place").is_some_and(|v| v == true)),
    ]
    .into_iter()
    .filter_map(|(what, differs)| differs.then_some(what))
    .collect()
}
