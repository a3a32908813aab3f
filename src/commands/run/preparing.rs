//! Makes the workspace, runs `setup` in it, and remembers what a later resume needs.

use super::checking::Listener;
use super::site::Site;
use crate::config::spec::{self, WorkspaceMode};
use crate::domain::command::Exit;
use crate::domain::judge::describe_exit;
use crate::domain::observation::{Place, TreeId};
use crate::error::{Error, Kind, Result};
use crate::process::environment::write_home;
use crate::process::{Capability, Job};
use crate::workspace::caller::CallerKind;
use crate::workspace::carry::Carry;
use crate::workspace::history::History;
use crate::workspace::ignored::Ignored;
use crate::workspace::layer::Layer;
use crate::workspace::make::{self, OnDirty, WorkspaceOptions};
use crate::workspace::places::create_folder;
use crate::workspace::scan;
use crate::workspace::snapshot::Snapshotter;
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

const FACTS: &str = "facts.json";

impl Site {
    /// Makes the private homes and what commands leave things in.
    pub(super) fn make_folders(&self) -> Result<()> {
        for name in ["exec", "agent"] {
            let home = self.home(name);
            create_folder(&home)?;
            write_home(&home)?;
        }
        for name in ["tmp", "io", "copies"] {
            create_folder(&self.places.cache.join(name))?;
        }
        Ok(())
    }

    /// Makes the workspace and the private homes.
    pub(super) fn make_workspace(&mut self) -> Result<()> {
        self.make_folders()?;
        self.head = self.read_caller_head()?;
        let cancel = self.supervisor.cancel();
        let stop = || cancel.is_raised();
        if self.spec.workspace.mode == WorkspaceMode::InPlace {
            self.ignored = scan::read_scan(&self.caller, &stop)?.ignored;
            self.snapshotter = Snapshotter::new(self.ignored.clone());
            return Ok(());
        }
        let wanted = &self.spec.workspace;
        let options = WorkspaceOptions {
            carry: match &wanted.carry {
                spec::Carry::Auto => Carry::Auto,
                spec::Carry::None => Carry::None,
                spec::Carry::Paths(paths) => Carry::List(paths.clone()),
            },
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
        self.snapshotter = Snapshotter::new(made.ignored.clone());
        self.ignored = made.ignored;
        Ok(())
    }

    /// Runs `setup` in the workspace, with the caller's network.
    pub(super) fn run_setup(&mut self) -> Result<()> {
        let Some(setup) = self.spec.setup.clone() else { return Ok(()) };
        self.live.enter("setup", 0);
        let ground = self.ground_workspace("exec");
        let env = self.surround.environment(
            Place::Workspace,
            &ground,
            &setup.command,
            &BTreeMap::new(),
        )?;
        let left = Duration::from_millis(self.left_ms());
        let job = Job {
            argv: self.surround.argv(&setup.command)?,
            cwd: self.cwd(&ground, &setup.command)?,
            env: env.into_vec(),
            view: ground.view,
            deadline: Some(setup.command.timeout.map_or(left, |timeout| timeout.min(left))),
            idle: None,
            idle_watch: Vec::new(),
            grace: super::checking::GRACE,
            keep: self.keep(),
        };
        let mut listener = Listener {
            probe: None,
            tail: Vec::new(),
            echo: self.live.shows_output().then(|| self.redactor.clone()),
        };
        let outcome = self.supervisor.run(&job, &mut listener)?;
        let tail = listener.last();
        self.stop_if_interrupted()?;
        let fact = self.run_fact(outcome, &tail)?;
        let failed = fact.exit != Exit::Code { code: 0 };
        let how = describe_exit(&fact.exit);
        let said =
            fact.tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").to_owned();
        self.setup = Some(fact);
        if failed {
            return Err(Error::new(Kind::WorkspaceInvalid, format!("setup {how}. It said: {said}"))
                .detail("setup_failed")
                .hint("run it by hand in a fresh clone; what it needs from your machine may be missing in its private HOME"));
        }
        self.live.say(&format!(
            "setup: done ({})",
            crate::report::text::duration(self.setup.as_ref().map_or(0, |fact| fact.wall_ms))
        ));
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

    /// Returns the part of the cache that a fresh start makes again.
    pub(super) fn workspace_cache(&self) -> std::path::PathBuf {
        self.places.cache.clone()
    }

    /// Takes away what a killed run left half done: copies, hooks' folders.
    pub(super) fn clear_leftovers(&self) -> Result<()> {
        for name in ["copies", "io", "tmp"] {
            let folder = self.places.cache.join(name);
            crate::workspace::copies::remove(&folder)?;
            create_folder(&folder)?;
        }
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
        let path = self.places.cache.join(FACTS);
        let fresh = self.places.cache.join("facts.json.new");
        let text = serde_json::to_vec(&facts).map_err(|e| {
            Error::new(Kind::Internal, "what the cache holds has no JSON form").because(e)
        })?;
        std::fs::write(&fresh, text)
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
    let text = std::fs::read(cache.join(FACTS)).ok()?;
    let facts: CacheFacts = serde_json::from_slice(&text).ok()?;
    facts.layer.tree.is_dir().then_some(facts)
}
