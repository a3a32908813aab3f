//! The backends, best first, and the first one whose zones pass their canary.

use super::canary::{self, Table};
use super::homes::Homes;
use super::image::{self, Asked};
use super::kind::Room;
use super::place::Zones;
use crate::domain::command::Exit;
use crate::error::{Error, Kind, Result};
use crate::process::toolchains::Toolchains;
use crate::process::{
    Capability, Files, Job, NO_GROUP, OverlayMode, Silent, Supervisor, View, Way, landlock_abi,
};
use std::path::Path;
use std::time::Duration;

/// How the launcher says that a file system cannot be mounted for another user.
const NOT_SHOWN: &str = "cannot be shown as another user's";

/// What closes zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backend {
    /// Namespaces that an unprivileged user makes.
    Namespaces,
    /// Namespaces that root makes, for a command that is not root.
    Root,
    /// Containers that docker or podman makes from an image.
    Oci,
    /// Landlock and a filter of system calls; degraded.
    Landlock,
}

impl Backend {
    /// All, best first.
    pub const ALL: [Self; 4] = [Self::Namespaces, Self::Root, Self::Oci, Self::Landlock];

    /// Returns its word in a loop file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Root => "root",
            Self::Oci => "oci",
            Self::Landlock => "landlock",
        }
    }

    /// Says whether it isolates less than zones promise.
    pub const fn is_degraded(self) -> bool {
        matches!(self, Self::Landlock)
    }
}

/// What was chosen, and what both zones were seen to hold.
#[derive(Debug)]
pub struct Chosen {
    /// The zones.
    pub zones: Zones,
    /// What the canary saw in each.
    pub tables: Vec<Table>,
    /// The tools of the image, where they are its.
    pub tools: Option<Toolchains>,
    /// Why no stronger backend was taken, where this one is degraded and was not asked for by name.
    pub stepped_down: Option<String>,
}

/// What the zones of a run are made from.
#[derive(Debug, Clone)]
pub struct Wanted<'a> {
    /// The one backend that is asked for, or any.
    pub only: Option<Backend>,
    /// Whether Landlock may be taken where nothing stronger holds.
    pub accepts_landlock: bool,
    /// A folder of our own, on the file system where copies will lie.
    pub folder: &'a Path,
    /// Tools outside of the system.
    pub homes: Homes,
    /// Whether all that commands write to are copies of our own.
    pub copies: bool,
    /// The image that containers are made from; without one there are none.
    pub image: Option<Asked<'a>>,
    /// The caller's HOME, which no zone may show.
    pub home: Option<&'a Path>,
    /// What the agent zone gives its commands.
    pub agent: Room,
    /// What the exec zone gives its commands.
    pub exec: Room,
}

/// Takes the first backend whose two zones pass, and leaves the supervisor with it; the answer names what
/// is wrong with each where none does.
///
/// # Errors
/// What makes every run impossible; that no backend works is an answer.
pub fn choose(
    supervisor: &mut Supervisor,
    wanted: &Wanted<'_>,
) -> Result<std::result::Result<Chosen, String>> {
    let mut reasons = Vec::new();
    let backends =
        Backend::ALL.into_iter().filter(|backend| wanted.only.is_none_or(|only| only == *backend));
    for backend in backends {
        let attempted = match (backend, &wanted.image) {
            (Backend::Oci, None) if wanted.only.is_none() => continue,
            (Backend::Oci, None) => Err("no image is named".to_owned()),
            (Backend::Oci, Some(asked)) => contain(supervisor, wanted, asked)?,
            (Backend::Landlock, _) if wanted.only.is_none() && !wanted.accepts_landlock => continue,
            (Backend::Landlock, _) => fence(supervisor, wanted)?,
            _ => attempt(supervisor, wanted, backend)?,
        };
        match attempted {
            Ok(mut chosen) => {
                let down = backend.is_degraded() && wanted.only.is_none();
                chosen.stepped_down = down.then(|| reasons.join("; "));
                return Ok(Ok(chosen));
            }
            Err(why) => reasons.push(format!("{}: {why}", backend.word())),
        }
    }
    Ok(Err(reasons.join("; ")))
}

fn attempt(
    supervisor: &mut Supervisor,
    wanted: &Wanted<'_>,
    backend: Backend,
) -> Result<std::result::Result<Chosen, String>> {
    let root = nix::unistd::geteuid().is_root();
    let way = match backend {
        // A user namespace of root's would leave it root where it counts, whatever it is called inside.
        Backend::Namespaces if root => return Ok(Err("it is not for root".to_owned())),
        Backend::Root if !root => match lends(supervisor)? {
            Ok(()) => Way::Sudo,
            Err(why) => return Ok(Err(why)),
        },
        Backend::Namespaces => Way::User,
        Backend::Root => Way::Root,
        Backend::Oci | Backend::Landlock => {
            return Ok(Err("it is no way into namespaces".to_owned()));
        }
    };
    let overlay = match supervisor.probe_by(way, wanted.folder)? {
        Capability::Namespaces { overlay } => overlay,
        Capability::Plain { why } => return Ok(Err(why)),
    };
    let zones = Zones {
        backend,
        files: Files::Launchers,
        overlay,
        groups: true,
        folder: wanted.folder.to_owned(),
        homes: wanted.homes.clone(),
        image: None,
        agent: wanted.agent.clone(),
        exec: wanted.exec.clone(),
    };
    let given = (backend == Backend::Root && root && wanted.copies)
        .then(|| Zones { files: Files::Given, ..zones.clone() });
    match (prove_bounded(supervisor, zones, wanted)?, given) {
        (Err(why), Some(zones)) if why.contains(NOT_SHOWN) => {
            prove_bounded(supervisor, zones, wanted)
        }
        (proven, _) => Ok(proven),
    }
}

/// Looks at both zones with control groups, and without where this machine lets us make none.
fn prove_bounded(
    supervisor: &mut Supervisor,
    zones: Zones,
    wanted: &Wanted<'_>,
) -> Result<std::result::Result<Chosen, String>> {
    let watched = Zones { groups: false, ..zones.clone() };
    match prove(supervisor, zones, wanted)? {
        Err(why) if why.contains(NO_GROUP) => prove(supervisor, watched, wanted),
        proven => Ok(proven),
    }
}

/// Tries Landlock, which needs nothing but the kernel's.
fn fence(
    supervisor: &mut Supervisor,
    wanted: &Wanted<'_>,
) -> Result<std::result::Result<Chosen, String>> {
    if wanted.agent.nested || wanted.exec.nested {
        return Ok(Err("nobody makes a sandbox where Landlock holds (`nested`)".to_owned()));
    }
    if let Err(why) = landlock_abi() {
        return Ok(Err(why));
    }
    supervisor.close_by_landlock();
    let zones = Zones {
        backend: Backend::Landlock,
        files: Files::Own,
        overlay: OverlayMode::Unavailable,
        groups: false,
        folder: wanted.folder.to_owned(),
        homes: wanted.homes.clone(),
        image: None,
        agent: wanted.agent.clone(),
        exec: wanted.exec.clone(),
    };
    prove(supervisor, zones, wanted)
}

/// Tries containers of an image.
fn contain(
    supervisor: &mut Supervisor,
    wanted: &Wanted<'_>,
    asked: &Asked<'_>,
) -> Result<std::result::Result<Chosen, String>> {
    if wanted.agent.nested || wanted.exec.nested {
        return Ok(Err("nobody makes a sandbox in a container (`nested`)".to_owned()));
    }
    let image = match image::find(supervisor, asked)? {
        Ok(image) => image,
        Err(why) => return Ok(Err(why)),
    };
    supervisor.contain_by(image.engine.clone());
    let zones = Zones {
        backend: Backend::Oci,
        files: Files::Launchers,
        // Nobody in a container may mount.
        overlay: OverlayMode::Unavailable,
        // The engine makes them.
        groups: false,
        folder: wanted.folder.to_owned(),
        homes: Homes::default(),
        image: Some(image),
        agent: wanted.agent.clone(),
        exec: wanted.exec.clone(),
    };
    prove(supervisor, zones, wanted)
}

/// Looks at both zones from inside.
fn prove(
    supervisor: &mut Supervisor,
    zones: Zones,
    wanted: &Wanted<'_>,
) -> Result<std::result::Result<Chosen, String>> {
    zones.prepare()?;
    let mut tables = Vec::new();
    for kind in [super::kind::Kind::Agent, super::kind::Kind::Exec] {
        match canary::look(supervisor, &zones, kind, wanted.home)? {
            Ok(table) => match table.broken() {
                None => tables.push(table),
                Some(row) => {
                    return Ok(Err(format!(
                        "in the {} zone {}: {}",
                        kind.word(),
                        row.what,
                        row.found
                    )));
                }
            },
            Err(why) => return Ok(Err(why)),
        }
    }
    let tools = match &zones.image {
        Some(image) => Some(image.toolchains(canary::find_programs(supervisor, &zones)?)),
        None => None,
    };
    Ok(Ok(Chosen { zones, tables, tools, stepped_down: None }))
}

/// Finds out whether `sudo` lends its privileges without asking anybody, also when it has forgotten who was asked
/// before: it would in the middle of a run.
fn lends(supervisor: &mut Supervisor) -> Result<std::result::Result<(), String>> {
    let job = Job {
        argv: ["sudo", "-k", "-n", "true"].map(Into::into).to_vec(),
        cwd: "/".into(),
        env: vec![("PATH".into(), "/usr/bin:/run/wrappers/bin:/usr/local/bin:/bin".into())],
        view: View::Plain,
        enclosure: None,
        deadline: Some(Duration::from_secs(10)),
        idle: None,
        idle_watch: Vec::new(),
        grace: Duration::ZERO,
        keep: 300,
    };
    let outcome = supervisor.run(&job, &mut Silent)?;
    Ok(match outcome.exit {
        Exit::Code { code: 0 } => Ok(()),
        Exit::NotStarted { .. } => {
            Err("loopexec is not run by root, and there is no sudo".to_owned())
        }
        _ => {
            let said = String::from_utf8_lossy(&outcome.stderr.kept()).trim().to_owned();
            Err(format!("loopexec is not run by root, and sudo does not help: {said}"))
        }
    })
}

/// Returns the error of a machine on which no backend works, with the mend for its kind.
pub fn unsatisfiable(why: &str) -> Error {
    let mut error =
        Error::new(Kind::IsolationUnsatisfiable, format!("no backend isolates here: {why}"));
    // What is wrong with an engine or an image is said together with what helps.
    for hint in mends(why).into_iter().filter(|_| !why.starts_with("oci: ")) {
        error = error.hint(hint);
    }
    error
}

/// Returns what helps on this host, most specific first.
fn mends(why: &str) -> Vec<String> {
    let mut mends = Vec::new();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").trim() == "1" {
        mends.push("AppArmor keeps user namespaces from unprivileged programs here: run loopexec through sudo, or allow them with `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`".to_owned());
    }
    if read("/proc/sys/user/max_user_namespaces").trim() == "0" {
        mends.push("user namespaces are switched off here: `sudo sysctl -w user.max_user_namespaces=15000` allows them".to_owned());
    }
    let refused = why.contains("cannot make") || why.contains("user namespace");
    if refused && (Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists()) {
        mends.push("this is a container: start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, or `--privileged`".to_owned());
    }
    if why.contains(NOT_SHOWN) {
        mends.push("set LOOPEXEC_CACHE to a folder on a file system that can be mounted for another user (ext4, xfs, btrfs, tmpfs; in a container a volume, not its own root)".to_owned());
    }
    mends.push(
        "run it as an ordinary user where user namespaces are allowed or sudo asks for nothing, or as root, whose commands get another user"
            .to_owned(),
    );
    mends
}
