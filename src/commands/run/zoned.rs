//! The zones of a run: chosen by their canary when its site is put together, entered by each of its commands.
//!
//! What a zone is says `zone`; which command belongs into which one is said by `site`.

use super::in_place;
use super::opening::Ready;
use super::shown::{self, Host};
use super::site::Role;
use crate::config::script::absolute_scripts;
use crate::config::spec::{
    Backend as Named, BoundsSpec, Degraded, Engine, IsolationSpec, LoopSpec, WorkspaceMode,
};
use crate::domain::command::CommandSpec;
use crate::domain::observation::Attempts;
use crate::error::{Error, Kind, Result};
use crate::process::toolchains::Toolchains;
use crate::process::{Enclosure, EngineKind, Gate, Mount, OverlayMode, landlock_abi};
use crate::workspace::caller::Caller;
use crate::workspace::places;
use crate::zone::canary::Table;
use crate::zone::doors::Doors;
use crate::zone::egress::Egress;
use crate::zone::image::Asked as AskedImage;
use crate::zone::kind::{Bounds, Kind as Zone, Reach, Room, Shown};
use crate::zone::ladder::{self, Backend, Chosen, Wanted};
use crate::zone::{environment, homes, system};
use serde_json::{Value, json};
use std::path::Path;

/// What lets a loop run where nothing isolates.
pub const ACCEPT_NONE: &str = "isolation: {accept: [none]}   # or --accept-isolation none: exec and check then have your rights and your network, and the receipt says degraded";

/// What lets a loop run where Landlock alone isolates.
pub const ACCEPT_LANDLOCK: &str = "isolation: {accept: [landlock]}   # or --accept-isolation landlock: exec and check then neither read nor write your files, but see what there is on the machine, and the receipt says degraded";

/// What of the caller's tree is shown read-only where a command works in it.
const KEPT: [&str; 2] = [".git", ".loop_state.json"];

/// The zones of a run.
pub struct Zoned {
    chosen: Chosen,
    egress: Egress,
    doors: Doors,
}

/// What closes one command in.
pub struct Closed {
    /// For the supervisor.
    pub enclosure: Enclosure,
    /// For whom it was made.
    pub(super) role: Role,
    /// What the command is told of it.
    pub variables: Vec<(String, String)>,
}

/// What there is for a run.
#[derive(Default)]
pub struct Found {
    /// Its zones.
    pub zones: Option<Zoned>,
    /// Why there are none, where the loop takes what is weaker.
    pub stepped_down: Option<String>,
}

/// Chooses the zones of a loop; `folder` is for what they need on disk.
///
/// # Errors
/// `isolation_unsatisfiable` where no backend that the loop allows passes its canary here; `workspace_invalid` for
/// a tree that no zone may show.
pub fn choose(
    ready: &mut Ready,
    spec: &LoopSpec,
    tools: &Toolchains,
    folder: &Path,
) -> Result<Found> {
    let Some(only) = backend_of(spec.isolation.backend) else { return Ok(Found::default()) };
    let asked = Asked { only, accepts_landlock: accepts_landlock(spec) };
    let rooms = rooms(ready, spec)?;
    let found = match refuse_wide_trees(ready) {
        Ok(()) => {
            try_out(ready, asked, image_of(spec), rooms, works_in_copies(spec), tools, folder)?
                .map_err(|why| ladder::unsatisfiable(&why))
        }
        Err(error) => Err(error),
    };
    let chosen = match found {
        Ok(chosen) => chosen,
        Err(error) if only.is_none() && accepts_none(spec) => {
            return Ok(Found { zones: None, stepped_down: Some(error.what) });
        }
        Err(error) if only.is_none() => {
            let helps = !asked.accepts_landlock && landlock_abi().is_ok();
            let error = if helps { error.hint(ACCEPT_LANDLOCK) } else { error };
            return Err(error.hint(ACCEPT_NONE));
        }
        Err(error) => return Err(error),
    };
    if chosen.zones.by_landlock() {
        refuse_without_landlock(spec)?;
    }
    let egress = chosen.zones.egress(spec.isolation.egress.clone())?;
    let stepped_down = chosen.stepped_down.clone();
    let ports = spec.check.services.iter().map(|service| service.address.port).collect();
    let zones = Some(Zoned { chosen, egress, doors: Doors::new(ports) });
    Ok(Found { zones, stepped_down })
}

/// Refuses a loop that wants what zones by Landlock cannot give.
fn refuse_without_landlock(spec: &LoopSpec) -> Result<()> {
    let what = if !spec.check.services.is_empty() {
        "check.services needs a loopback of the check's own, and with backend landlock the exec zone has no sockets"
    } else if spec.workspace.mode == WorkspaceMode::InPlace {
        "workspace.mode: in_place needs mounts that keep .git and the evidence from exec, and backend landlock makes none"
    } else {
        return Ok(());
    };
    Err(Error::new(Kind::IsolationUnsatisfiable, what)
        .hint("isolation: {backend: auto}   # where namespaces, root or containers hold"))
}

/// Which backends may be taken.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// The one by name, or any.
    pub only: Option<Backend>,
    /// Whether Landlock is among those that are taken unnamed.
    pub accepts_landlock: bool,
}

/// An image by name, with the engine that is to make containers from it.
pub type ImageName<'a> = (&'a str, Option<EngineKind>);

/// Returns the image that a loop names.
pub fn image_of(spec: &LoopSpec) -> Option<ImageName<'_>> {
    let engine = spec.isolation.engine.map(|engine| match engine {
        Engine::Docker => EngineKind::Docker,
        Engine::Podman => EngineKind::Podman,
    });
    spec.isolation.image.as_deref().map(|name| (name, engine))
}

/// Returns the one backend that a loop names, or any where it leaves the choice; none where it wants none.
pub fn backend_of(named: Named) -> Option<Option<Backend>> {
    match named {
        Named::None => None,
        Named::Auto => Some(None),
        Named::Namespaces => Some(Some(Backend::Namespaces)),
        Named::Root => Some(Some(Backend::Root)),
        Named::Oci => Some(Some(Backend::Oci)),
        Named::Landlock => Some(Some(Backend::Landlock)),
    }
}

/// Says whether all that the commands of a loop write to are copies of our own.
pub fn works_in_copies(spec: &LoopSpec) -> bool {
    spec.workspace.mode == WorkspaceMode::Detached
}

/// Says whether a loop runs without zones where there are none.
pub fn accepts_none(spec: &LoopSpec) -> bool {
    spec.isolation.accept.contains(&Degraded::None)
}

/// Says whether a loop runs in zones by Landlock where nothing stronger holds.
pub fn accepts_landlock(spec: &LoopSpec) -> bool {
    spec.isolation.accept.contains(&Degraded::Landlock)
}

/// Returns what both zones give their commands.
///
/// # Errors
/// As [`shown::resolve`] and [`shown::keep_apart`].
pub fn rooms(ready: &Ready, spec: &LoopSpec) -> Result<[Room; 2]> {
    let caches = places::choose_caches(&ready.caller.root, &ready.surroundings)?;
    let host = Host {
        home: ready.surroundings.home.as_deref(),
        tree: &ready.caller.root,
        caches: &caches,
    };
    let room = |zone: Zone, wanted: &BoundsSpec| -> Result<Room> {
        let key = |name: &str| format!("isolation.{}.{name}", zone.word());
        let shown = Shown {
            read: shown::resolve(&key("read"), &wanted.read, host)?,
            write: shown::resolve(&key("write"), &wanted.write, host)?,
        };
        Ok(Room { bounds: bounds_of(wanted), shown, nested: wanted.nested })
    };
    let IsolationSpec { agent, exec, .. } = &spec.isolation;
    let rooms = [room(Zone::Agent, agent)?, room(Zone::Exec, exec)?];
    let check = &spec.check;
    let checking = [Some(&check.command), check.held_out.as_ref(), spec.guards.judge.as_ref()];
    let scripts: Vec<_> = checking.into_iter().flatten().flat_map(absolute_scripts).collect();
    shown::keep_apart([&rooms[0].shown, &rooms[1].shown], &scripts)?;
    Ok(rooms)
}

/// Returns what zones give that nobody said anything of.
pub fn plain_rooms() -> [Room; 2] {
    let bounds = bounds_of(&BoundsSpec::default());
    [(), ()].map(|()| Room { bounds, shown: Shown::default(), nested: false })
}

fn bounds_of(wanted: &BoundsSpec) -> Bounds {
    Bounds {
        processes: wanted.pids,
        files: wanted.files,
        disk: wanted.disk,
        memory: wanted.memory,
        shm: wanted.shm,
    }
}

/// Looks for a backend whose zones, with these rooms, pass, and says why each does not where none does.
///
/// # Errors
/// What makes every run impossible.
pub fn try_out(
    ready: &mut Ready,
    Asked { only, accepts_landlock }: Asked,
    image: Option<ImageName<'_>>,
    [agent, exec]: [Room; 2],
    copies: bool,
    tools: &Toolchains,
    folder: &Path,
) -> Result<std::result::Result<Chosen, String>> {
    places::create_folder(folder)?;
    let home = ready.surroundings.home.clone();
    let wanted = Wanted {
        only,
        accepts_landlock,
        copies,
        folder,
        homes: homes::find(tools, home.as_deref(), &ready.caller.root),
        image: image.map(|(name, engine)| AskedImage {
            name,
            engine,
            variables: &ready.variables,
            path: &tools.path,
            tree: &ready.caller.root,
            home: home.as_deref(),
        }),
        home: home.as_deref(),
        agent,
        exec,
    };
    ladder::choose(&mut ready.supervisor, &wanted)
}

/// Refuses a tree that would show a command what a zone is there to hide.
///
/// # Errors
/// `workspace_invalid` for a tree that holds the caller's HOME or is part of the system.
pub fn refuse_wide_trees(ready: &Ready) -> Result<()> {
    let root = &ready.caller.root;
    let home = ready.surroundings.home.as_ref().and_then(|home| std::fs::canonicalize(home).ok());
    let holds_home = home.is_some_and(|home| home.starts_with(root));
    if !holds_home && !system::is_shown(root) && root.components().count() > 1 {
        return Ok(());
    }
    let what = format!("the tree {} holds your HOME or is part of the system", root.display());
    Err(Error::new(Kind::WorkspaceInvalid, what)
        .hint("a command in a zone may write to its tree: start in a project's own folder"))
}

/// Returns what keeps the caller's own tree from a command that works in it: what git does for the caller
/// later, and the evidence of runs, are not the command's to change.
///
/// `nested` are the git folders below its top.
///
/// # Errors
/// `workspace_invalid` where one of them is a link: it would show the command what it leads to.
pub fn kept<'a>(
    root: &Path,
    evidence: &'a str,
    nested: impl Iterator<Item = &'a Path>,
) -> Result<Vec<Mount>> {
    in_place::make_placeholder(root)?;
    let mut mounts = Vec::new();
    // What is a mount cannot be moved away, and the evidence with it.
    let above = Path::new(evidence).ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
    let above: Vec<_> = above.map(|path| root.join(path)).collect();
    for path in above.into_iter().rev() {
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => {
                mounts.push(Mount::Bind { from: path.clone(), to: path });
            }
            _ => {
                let what = format!("{} is no folder", path.display());
                return Err(Error::new(Kind::WorkspaceInvalid, what)
                    .hint("receipt.dir leads through it: put a folder in its place"));
            }
        }
    }
    let names = KEPT.into_iter().chain([evidence]).map(Path::new);
    for path in names.chain(nested).map(|name| root.join(name)) {
        match std::fs::symlink_metadata(&path) {
            Err(_) => {}
            Ok(found) if found.is_dir() || found.is_file() => {
                mounts.push(Mount::BindReadOnly { from: path.clone(), to: path });
            }
            Ok(_) => {
                let what = format!("{} is neither a folder nor a file", path.display());
                return Err(Error::new(Kind::WorkspaceInvalid, what)
                    .hint("a link there would show the command what it leads to; put the real one in its place"));
            }
        }
    }
    Ok(mounts)
}

impl Closed {
    /// Shows a command the scripts of its own that lie outside of the tree, and says which it cannot be shown.
    pub(super) fn show_scripts(
        &mut self,
        name: &str,
        command: &CommandSpec,
        caller: &Caller,
        caches: &Path,
    ) -> Vec<String> {
        let home = caller.surroundings().home.as_deref();
        let host = Host { home, tree: &caller.root, caches };
        let (found, hidden) = shown::with_scripts(name, absolute_scripts(command), host);
        self.enclosure.system.extend(found.into_iter().map(system::read_only));
        hidden
    }
}

impl Zoned {
    /// Makes what every zone needs on disk, where it is gone.
    ///
    /// # Errors
    /// `workspace_invalid` when the folder cannot be written to.
    pub fn prepare(&self) -> Result<()> {
        self.chosen.zones.prepare()
    }

    /// Returns how overlays are mounted in them.
    pub fn overlay(&self) -> OverlayMode {
        self.chosen.zones.overlay
    }

    /// Returns the word of what closes them.
    pub fn backend(&self) -> &'static str {
        self.chosen.zones.backend.word()
    }

    /// Says whether they isolate less than zones promise.
    pub fn is_degraded(&self) -> bool {
        self.chosen.zones.backend.is_degraded()
    }

    /// Says whether their commands see the file system as it is, without a mount.
    pub fn by_landlock(&self) -> bool {
        self.chosen.zones.by_landlock()
    }

    /// Returns the tools that their commands have, where these are not the caller's.
    pub fn tools(&self) -> Option<&Toolchains> {
        self.chosen.tools.as_ref()
    }

    /// Returns the id of the image that they are made from, where they are.
    pub fn image(&self) -> Option<&str> {
        self.chosen.zones.image.as_ref().map(|image| image.engine.image.as_str())
    }

    /// Returns what a receipt says of them: what exec reaches, and how many attempts to get out of each zone
    /// failed as they have to.
    pub fn facts(&self) -> Value {
        let held = |table: &Table| table.rows.iter().filter(|row| row.holds).count();
        let held: serde_json::Map<String, Value> =
            self.chosen.tables.iter().map(|t| (t.zone.clone(), json!(held(t)))).collect();
        let mut facts = json!({"egress": self.egress.listed(), "doors": self.doors.ports(), "proof": held,
                "bounded_by": self.chosen.zones.bounded_by()});
        if self.by_landlock() {
            facts["landlock_abi"] = json!(landlock_abi().unwrap_or_default());
        }
        if let Some(image) = &self.chosen.zones.image {
            facts["engine"] = json!(image.engine.kind.word());
            facts["engine_version"] = json!(image.version);
            facts["image"] = json!(image.name);
            facts["image_id"] = json!(image.engine.image);
            facts["image_digest"] = json!(image.digest);
        }
        facts
    }

    /// Returns what closes a command in.
    ///
    /// # Errors
    /// `isolation_unsatisfiable` without a filter for this processor, `workspace_invalid` when the folder of
    /// the zones cannot be written to.
    pub(super) fn enclose(&self, role: Role) -> Result<Closed> {
        let zones = &self.chosen.zones;
        let (kind, reach) = match role {
            Role::Exec => (Zone::Agent, zones.reach(Zone::Agent, &self.egress)),
            Role::Check if zones.by_landlock() => (Zone::Exec, Reach::Nothing),
            Role::Check => (Zone::Exec, Reach::Doors(self.doors.ports().to_vec())),
            Role::Connected => (Zone::Exec, Reach::Host),
        };
        let enclosure = zones.enclosure(kind, &reach)?;
        let variables = environment::of(&reach, self.egress.token()).into_iter().collect();
        Ok(Closed { enclosure, role, variables })
    }

    /// Returns what is behind the doors of a command's zone.
    pub(super) fn gate(&mut self, closed: &Closed) -> &mut dyn Gate {
        match closed.role {
            Role::Exec => &mut self.egress,
            Role::Check | Role::Connected => &mut self.doors,
        }
    }

    /// Takes what was tried since the last time, where there is a way out.
    pub fn take_attempts(&mut self) -> Option<Attempts> {
        let (attempts, more) = self.egress.take_attempts();
        (!self.egress.listed().is_empty()).then_some(Attempts { attempts, more })
    }
}

/// Says in one line what was tried and refused.
pub fn refused(attempts: &Attempts) -> Vec<String> {
    let refused = attempts.attempts.iter().filter(|attempt| !attempt.allowed);
    refused
        .map(|attempt| format!("exec could not reach {}: {}", attempt.target, attempt.why))
        .collect()
}
