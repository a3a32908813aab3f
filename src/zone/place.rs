//! Puts a zone together: what is shown, filtered and bounded, for one command.

use super::egress::Egress;
use super::filter;
use super::homes::Homes;
use super::image::Image;
use super::kind::{Kind, Reach, Room, exposed};
use super::ladder::Backend;
use super::system;
use crate::domain::target::Target;
use crate::error::{self, Error, Result};
use crate::process::{Enclosure, Files, Ids, Limits, Mount, Network, OverlayMode, View, Walls};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The users of zones whose caller is root are of a range that nobody hands out (65,536 to 524,287 of
/// systemd's table of user ids): each loopexec has its own, for the kernel bounds what one user runs.
const UNPRIVILEGED: std::ops::Range<u32> = 300_000..500_000;

/// The file that says who resolves names.
const RESOLVER: &str = "resolv.conf";

/// A server that no network leads to (RFC 5737): to ask for a name is an attempt to leave, wherever the host's own
/// resolver is, and ends at once.
const NOBODY: &str = "# Nobody resolves names in here.\nnameserver 192.0.2.1\n";

/// Everything that the zones of one run have in common.
#[derive(Debug, Clone)]
pub struct Zones {
    /// How they are entered.
    pub backend: Backend,
    /// Whose the files are that commands work on, where their user is not the launcher's.
    pub files: Files,
    /// How overlays can be mounted there.
    pub overlay: OverlayMode,
    /// Whether control groups hold the bounds of memory and processes.
    pub groups: bool,
    /// A folder of our own, as an ordinary path, for what zones need and no command sees.
    pub folder: PathBuf,
    /// Tools outside of the system.
    pub homes: Homes,
    /// Where the system and its tools come from, where that is not this machine.
    pub image: Option<Image>,
    /// What the agent zone gives its commands.
    pub agent: Room,
    /// What the exec zone gives its commands.
    pub exec: Room,
}

impl Zones {
    /// Makes what every zone needs on disk.
    ///
    /// # Errors
    /// `workspace_invalid` when the folder cannot be written to; `config_invalid` where a command may write to what
    /// holds the home of a tool.
    pub fn prepare(&self) -> Result<()> {
        let homes = self.homes.read.iter().chain(&self.homes.scratch).map(PathBuf::as_path);
        if let Some((tool, written)) = exposed(homes, [&self.agent.shown, &self.exec.shown]) {
            let (tool, written) = (tool.display(), written.display());
            let what = format!(
                "a command may write to {written}, and so put something else in the place of {tool}, which a tool on PATH brings along"
            );
            return Err(Error::new(error::Kind::ConfigInvalid, what)
                .hint("name what it writes to more narrowly, or take the tool off PATH"));
        }
        let write = || -> io::Result<()> {
            fs::create_dir_all(self.staging())?;
            fs::create_dir_all(self.empty())?;
            for (name, text) in self.accounts() {
                fs::write(self.folder.join(name), text)?;
            }
            fs::write(self.folder.join(RESOLVER), NOBODY)
        };
        write().map_err(|e| self.failed(e))
    }

    /// Returns the user that commands have, where it is not the launcher's.
    pub fn ids(&self) -> Option<Ids> {
        if matches!(self.backend, Backend::Namespaces | Backend::Landlock) {
            return None;
        }
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        if !uid.is_root() && self.image.is_some() {
            // An engine starts it as its own user.
            return None;
        }
        if !uid.is_root() {
            return Some(Ids { uid: uid.as_raw(), gid: gid.as_raw(), files: Files::Own });
        }
        let uid = UNPRIVILEGED.start + std::process::id() % (UNPRIVILEGED.end - UNPRIVILEGED.start);
        Some(Ids { uid, gid: uid, files: self.files })
    }

    /// Returns the enclosure of one command, with fresh scratch folders.
    ///
    /// # Errors
    /// `isolation_unsatisfiable` without a filter for this processor, `workspace_invalid` when the folder
    /// cannot be written to.
    pub fn enclosure(&self, kind: Kind, reach: &Reach) -> Result<Enclosure> {
        let Room { bounds, shown, nested } = self.room(kind);
        let mut system = match self.image {
            Some(_) => Vec::new(),
            None => system::mounts(bounds.shm),
        };
        for (name, _) in self.accounts() {
            let to = Path::new("/etc").join(name);
            if to.exists() {
                system.push(Mount::BindReadOnly { from: self.folder.join(name), to });
            }
        }
        let read = self.homes.read.iter().chain(&shown.read);
        system.extend(read.map(|path| self.files(path)));
        let both = |path: &PathBuf| Mount::Bind { from: path.clone(), to: path.clone() };
        system.extend(shown.write.iter().map(both));
        let (network, doors) = match reach {
            // Without a network of its own there is nobody to hand out a listener.
            _ if self.by_landlock() => (Network::Host, Vec::new()),
            Reach::Nothing => (Network::Own, Vec::new()),
            Reach::Gate(port) => (Network::Own, vec![*port]),
            Reach::Doors(ports) => (Network::Own, ports.clone()),
            Reach::Host => (Network::Host, Vec::new()),
        };
        match (network, fs::canonicalize("/etc/resolv.conf")) {
            (Network::Host, _) if self.image.is_some() => {}
            (Network::Own, _) if self.image.is_some() => {
                let from = self.folder.join(RESOLVER);
                system.push(Mount::BindReadOnly { from, to: "/etc/resolv.conf".into() });
            }
            (Network::Host, _) if self.by_landlock() && *reach != Reach::Host => {}
            (Network::Host, _) => system.extend(system::resolver()),
            (_, Ok(to)) => {
                let from = self.folder.join(RESOLVER);
                system.push(Mount::BindReadOnly { from, to });
            }
            (_, Err(_)) => {}
        }
        system.extend(self.scratch(kind)?);
        system.extend(self.credentials());
        let mut walls = Walls::Mounts;
        if self.by_landlock() {
            walls = Walls::Landlock {
                ports: match reach {
                    Reach::Nothing | Reach::Doors(_) => Some(Vec::new()),
                    Reach::Gate(port) => Some(vec![*port]),
                    Reach::Host => None,
                },
            };
            if nix::unistd::geteuid().is_root() {
                let null = || PathBuf::from("/dev/null");
                let closed = system::of_root().into_iter();
                system.extend(closed.map(|to| Mount::BindReadOnly { from: null(), to }));
            }
        }
        let limits = Limits {
            processes: Some(bounds.processes),
            files: bounds.files,
            file_bytes: bounds.disk,
            memory: bounds.memory.or_else(system::most_memory),
            disk: bounds.disk,
            group: self.groups,
        };
        Ok(Enclosure {
            staging: self.staging(),
            system,
            walls,
            network,
            doors,
            shm: bounds.shm,
            nested: *nested,
            ids: self.ids(),
            filters: filter::programs(kind, reach, self.extent(kind))?,
            limits,
        })
    }

    /// Returns what a zone gives its commands.
    pub const fn room(&self, kind: Kind) -> &Room {
        match kind {
            Kind::Agent => &self.agent,
            Kind::Exec => &self.exec,
        }
    }

    /// Returns what holds the bounds of memory and of processes, in one word.
    pub const fn bounded_by(&self) -> &'static str {
        match (&self.image, self.groups) {
            (Some(_), _) => "engine",
            (None, true) => "control_group",
            // RLIMIT_NPROC, and a look at the memory of all processes from time to time.
            (None, false) => "watch",
        }
    }

    /// Says whether they have no mounts and no network of their own.
    pub fn by_landlock(&self) -> bool {
        self.backend == Backend::Landlock
    }

    /// Returns the gate of the agent zone for these targets.
    ///
    /// # Errors
    /// `isolation_unsatisfiable` where it needs a port of this machine and there is none.
    pub fn egress(&self, listed: Vec<Target>) -> Result<Egress> {
        match self.by_landlock() && !listed.is_empty() {
            true => Egress::on_this_machine(listed),
            false => Ok(Egress::new(listed)),
        }
    }

    /// Adds what else one command is shown, and returns the view that goes with its enclosure.
    pub fn view(&self, enclosure: &mut Enclosure, mounts: Vec<Mount>) -> View {
        if !self.by_landlock() {
            return View::Namespace { mounts, remove: Vec::new() };
        }
        enclosure.system.extend(mounts);
        View::Plain
    }

    fn extent(&self, kind: Kind) -> filter::Extent {
        match (self.by_landlock(), self.room(kind).nested) {
            (true, _) => filter::Extent::Landlock,
            (false, true) => filter::Extent::Nested,
            (false, false) => filter::Extent::Plain,
        }
    }

    /// Returns what a zone reaches by itself: the agent's gate, if there is anybody to reach.
    pub fn reach(&self, kind: Kind, egress: &Egress) -> Reach {
        match kind {
            Kind::Agent if !egress.listed().is_empty() => Reach::Gate(egress.port()),
            Kind::Agent | Kind::Exec => Reach::Nothing,
        }
    }

    fn staging(&self) -> PathBuf {
        self.folder.join("root")
    }

    fn empty(&self) -> PathBuf {
        self.folder.join("empty")
    }

    /// Shows the files of the host at a path; where overlays can be mounted nothing else of it.
    fn files(&self, path: &Path) -> Mount {
        if self.overlay == OverlayMode::Unavailable || !path.is_dir() {
            return system::read_only(path.to_owned());
        }
        Mount::FilesOnly { from: path.to_owned(), empty: self.empty(), to: path.to_owned() }
    }

    fn failed(&self, error: io::Error) -> Error {
        let what = format!("cannot write to {}", self.folder.display());
        Error::io(error::Kind::WorkspaceInvalid, what, error)
    }

    /// Returns lists of accounts in which the zone's user has a name; none where it is the caller.
    fn accounts(&self) -> Vec<(&'static str, String)> {
        let of_host = self.ids().filter(|_| self.image.is_none());
        let Some(ids) = of_host.filter(|ids| ids.files != Files::Own) else {
            return Vec::new();
        };
        let with = |name: &'static str, line: String| {
            let mut text = fs::read_to_string(Path::new("/etc").join(name)).unwrap_or_default();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            (name, format!("{text}{line}\n"))
        };
        vec![
            with("passwd", format!("loopexec:x:{}:{}:loopexec:/:/bin/sh", ids.uid, ids.gid)),
            with("group", format!("loopexec:x:{}:", ids.gid)),
        ]
    }

    /// Covers what tools keep to their owner, as far as it is there still.
    fn credentials(&self) -> impl Iterator<Item = Mount> {
        let there = self.homes.private.iter().filter(|path| path.is_file());
        there.map(|to| Mount::BindReadOnly { from: "/dev/null".into(), to: to.clone() })
    }

    /// Shows caches of tools so that they can be written to and stay as they are.
    fn scratch(&self, kind: Kind) -> Result<Vec<Mount>> {
        let mut mounts = Vec::new();
        for (at, lower) in self.homes.scratch.iter().enumerate() {
            if self.overlay == OverlayMode::Unavailable {
                mounts.push(system::read_only(lower.clone()));
                continue;
            }
            let place = self.folder.join("scratch").join(kind.word()).join(at.to_string());
            let (upper, work) = (place.join("upper"), place.join("work"));
            let make = || -> io::Result<()> {
                crate::process::make_work_removable(&work);
                match fs::remove_dir_all(&place) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                fs::create_dir_all(&upper)?;
                fs::create_dir_all(&work)
            };
            make().map_err(|e| self.failed(e))?;
            mounts.push(Mount::Overlay { lower: lower.clone(), upper, work, to: lower.clone() });
        }
        Ok(mounts)
    }
}
