//! Makes the workspace, runs `setup` in it, and remembers what a later resume needs.

use super::in_place::GitPlaces;
use super::running::Launch;
use super::site::{Handed, Role, Site};
use super::zoned::Zoned;
use crate::commands::planning::carry_of;
use crate::config::spec::{self, SetupNetwork, WorkspaceMode};
use crate::domain::command::Exit;
use crate::domain::judge::describe_exit;
use crate::domain::observation::{Place, RunFact, TreeId};
use crate::error::{Error, Kind, Result};
use crate::process::Capability;
use crate::process::environment::write_home;
use crate::workspace::caller::CallerKind;
use crate::workspace::gits::find_nested;
use crate::workspace::history::History;
use crate::workspace::ignored::Ignored;
use crate::workspace::layer::Layer;
use crate::workspace::make::{self, OnDirty, WorkspaceOptions};
use crate::workspace::places::{self, CACHE_FACTS, CACHE_LOCK, create_folder};
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::walk::Specials;
use crate::workspace::{copies, scan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What a resume finds in the cache of a killed run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CacheFacts {
    pub ignored: Ignored,
    pub layer: Layer,
    pub frozen_tree: TreeId,
    pub baseline_check_ms: u64,
    pub head: Option<String>,
}

impl Site {
    /// Makes the private homes and what commands leave things in.
    pub(super) fn make_folders(&self) -> Result<()> {
        for name in ["exec", "agent"] {
            let home = self.home(name);
            create_folder(&home)?;
            write_home(&home)?;
        }
        for name in ["tmp", "io", "copies", "nothing"] {
            create_folder(&self.places.cache.join(name))?;
        }
        // Where a killed run is begun again, what the zones had went with its cache.
        self.zones.as_ref().map_or(Ok(()), Zoned::prepare)
    }

    /// Makes the workspace and the private homes.
    pub(super) fn make_workspace(&mut self) -> Result<()> {
        self.make_folders()?;
        self.head = self.read_caller_head()?;
        let cancel = self.supervisor.cancel();
        let stop = || cancel.is_raised();
        if self.spec.workspace.mode == WorkspaceMode::InPlace {
            let ignored = scan::read_scan(&self.caller, &stop)?.ignored;
            self.know(ignored);
            return Ok(());
        }
        let wanted = &self.spec.workspace;
        let options = WorkspaceOptions {
            carry: carry_of(&wanted.carry),
            carry_max: wanted.carry_max,
            history: match wanted.history {
                Some(commits) => History::Depth(commits),
                None => History::Full,
            },
            on_dirty: match wanted.on_dirty {
                spec::OnDirty::Include => OnDirty::Include,
                spec::OnDirty::Refuse => OnDirty::Refuse,
            },
        };
        let made = make::make(&self.caller, &options, &self.workspace(), &self.store, &stop)?;
        // Evidence is ignored by git, and what is ignored is carried: it is no command's to read.
        copies::remove(&self.workspace().join(&self.spec.receipt.dir))?;
        if let Capability::Plain { .. } = self.capability
            && !made.old_place.is_empty()
        {
            let some: Vec<&str> = made.old_place.iter().take(5).map(String::as_str).collect();
            self.live.say(&format!(
                "the workspace stands elsewhere than your tree here; these carried paths name the old place: {}",
                some.join(", ")
            ));
        }
        for (path, why) in made.left_behind.iter().take(20) {
            self.notes.push(format!("{path} was not carried: {why}"));
        }
        self.know(made.ignored);
        Ok(())
    }

    /// Takes in what is ignored; nothing else is known of the workspace then.
    pub(super) fn know(&mut self, ignored: Ignored) {
        let specials = match self.spec.workspace.mode {
            WorkspaceMode::Detached => Specials::Remove,
            WorkspaceMode::InPlace => Specials::Keep,
        };
        self.snapshotter = Snapshotter::new(ignored.clone()).with_specials(specials);
        self.ignored = ignored;
    }

    /// Runs `setup` in the workspace, with the caller's network.
    pub(super) fn setup(&mut self) -> Result<Option<RunFact>> {
        let Some(setup) = self.spec.setup.clone() else { return Ok(None) };
        self.live.enter("setup", 0);
        let role = match setup.network {
            SetupNetwork::Host => Role::Connected,
            SetupNetwork::None => Role::Check,
        };
        let ground = self.ground_workspace(role, Handed::Nothing)?;
        let env = self.surround.environment(
            Place::Workspace,
            &ground,
            &setup.command,
            &BTreeMap::new(),
        )?;
        let left = Duration::from_millis(self.left_ms());
        let launch = Launch {
            view: ground.view.clone(),
            command: &setup.command,
            env,
            deadline: setup.command.timeout.map_or(left, |timeout| timeout.min(left)),
            idle: None,
        };
        let (outcome, tail) = self.launch(&ground, launch, None)?;
        let fact = self.run_fact(outcome, &tail)?;
        let how = match fact.exit {
            Exit::Code { code: 0 } => "done".to_owned(),
            ref exit => describe_exit(exit),
        };
        let time = crate::report::text::duration(fact.wall_ms);
        self.live.say(&format!("setup: {how} ({time})"));
        Ok(Some(fact))
    }

    /// Reads what the workspace holds at the end of a run, a signal or none.
    pub(super) fn read_tree_now(&mut self) -> Result<TreeId> {
        let workspace = self.workspace();
        let taken = self.snapshotter.take(&workspace, &self.store, &|| false)?;
        self.store.make_durable(&taken.written)?;
        Ok(taken.tree)
    }

    /// Notes the git folders of the caller's tree, where exec is about to work in it for the first time.
    ///
    /// # Errors
    /// `workspace_invalid` where the tree cannot be read.
    pub(super) fn note_git_places(&mut self) -> Result<()> {
        if self.spec.workspace.mode == WorkspaceMode::InPlace && self.git_places.is_none() {
            // What is ignored is in no snapshot, and git obeys what lies there all the same.
            let nested = find_nested(&self.caller.root, &|| false)?;
            self.git_places = Some(GitPlaces::read(&self.caller.root, &nested));
        }
        Ok(())
    }

    /// Returns the caller's HEAD at t0, for a branch that is delivered.
    pub(super) fn read_caller_head(&self) -> Result<Option<String>> {
        let CallerKind::Git { .. } = self.caller.kind else { return Ok(None) };
        let cancel = self.supervisor.cancel();
        let stop = || cancel.is_raised();
        let output = self.caller.git().run(["rev-parse", "-q", "--verify", "HEAD"], b"", &stop)?;
        let line = String::from_utf8_lossy(output.line()).into_owned();
        Ok((output.code == 0).then_some(line))
    }

    /// Removes the cache; what says that it is whole goes first.
    pub(super) fn forget_cache(&self) -> Result<()> {
        places::forget_cache(&self.places.cache)?;
        copies::remove(&self.places.cache)
    }

    /// Empties the cache but for what says that it is in use; what says that it is whole goes first.
    pub(super) fn empty_cache(&self) -> Result<()> {
        places::forget_cache(&self.places.cache)?;
        let inside = std::fs::read_dir(&self.places.cache)
            .map_err(|e| Error::io(Kind::WorkspaceInvalid, "cannot read the run's cache", e))?;
        for entry in inside.flatten().filter(|entry| entry.file_name() != CACHE_LOCK) {
            copies::remove(&entry.path())?;
        }
        Ok(())
    }

    /// Takes away what a killed run left half done: copies, hooks' folders.
    pub(super) fn clear_leftovers(&self) -> Result<()> {
        for name in ["copies", "io", "tmp"] {
            let folder = self.places.cache.join(name);
            copies::remove(&folder)?;
            create_folder(&folder)?;
        }
        create_folder(&self.places.cache.join("nothing"))?;
        Ok(())
    }

    /// Remembers in the cache what a resume needs.
    pub(super) fn write_cache_facts(&self) -> Result<()> {
        let Some(layer) = &self.layer else { return Ok(()) };
        let facts = CacheFacts {
            ignored: self.ignored.clone(),
            layer: layer.clone(),
            frozen_tree: self.frozen_tree.clone(),
            baseline_check_ms: self.baseline_check_ms,
            head: self.head.clone(),
        };
        let path = self.places.cache.join(CACHE_FACTS);
        let fresh = self.places.cache.join("facts.json.new");
        let text = serde_json::to_vec(&facts).map_err(|e| {
            Error::new(Kind::Internal, "what the cache holds has no JSON form").because(e)
        })?;
        crate::foreign::write_anew(&fresh, &text)
            .and_then(|()| std::fs::rename(&fresh, &path))
            .map_err(|e| Error::io(Kind::WorkspaceInvalid, "cannot write in the run's cache", e))
    }

    /// Reads what a killed run left in its cache; none when it is gone or was not frozen yet.
    pub(super) fn read_cache_facts(&self) -> Option<CacheFacts> {
        read_facts(&self.places.cache).filter(|_| self.workspace().is_dir())
    }
}

/// Reads what a run left in its cache; none when it is gone or was not frozen yet.
pub(super) fn read_facts(cache: &Path) -> Option<CacheFacts> {
    let text = std::fs::read(cache.join(CACHE_FACTS)).ok()?;
    let facts: CacheFacts = serde_json::from_slice(&text).ok()?;
    facts.layer.tree.is_dir().then_some(facts)
}
