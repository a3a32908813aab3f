//! Has a zone looked at from inside, and reads what was seen; nothing runs in a zone that did not pass.

use super::image::Image;
use super::kind::{Kind, Reach};
use super::place::Zones;
use super::proof::{self, Question, Row, UnderLandlock};
use crate::domain::command::Exit;
use crate::domain::target::Target;
use crate::error::{self, Error, Result};
use crate::process::toolchains::KNOWN;
use crate::process::{Job, Mount, Silent, Supervisor};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the program that looks around lies in the zone.
const PROGRAM: &str = "/tmp/loopexec";

/// Another address of the loopback.
const BESIDE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Time to look around.
const PATIENCE: Duration = Duration::from_secs(60);

/// Most entries of a HOME that have to be hidden, one by one.
const MOST_HIDDEN: usize = 40;

/// What was seen in one zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// The zone's word.
    pub zone: String,
    /// What was tried, and what came of it.
    pub rows: Vec<Row>,
}

impl Table {
    /// Returns the first row that does not hold.
    pub fn broken(&self) -> Option<&Row> {
        self.rows.iter().find(|row| !row.holds && !row.degraded)
    }
}

/// The start of the names of folders for canaries.
const PREFIX: &str = "loopexec-canary-";
/// A younger folder may be one that is just being made and has no lock yet.
const YOUNG: Duration = Duration::from_secs(60);

/// Takes away what killed canaries of this user left in the folder for temporary files.
fn sweep(temporary: &Path) {
    for entry in fs::read_dir(temporary).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(found) = entry.metadata() else { continue };
        let age = found.modified().ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
        if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() || age < YOUNG {
            continue;
        }
        let Ok(folder) = File::open(entry.path()) else { continue };
        if folder.try_lock().is_ok() {
            // What cannot be removed costs a little space, and never a run.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Those on the host who must not be reached.
struct Neighbours {
    tcp: TcpListener,
    listed: TcpListener,
    abstract_name: String,
    /// Held open.
    _unix: [UnixListener; 2],
    /// Says that the folder is in use.
    _lock: File,
    folder: tempfile::TempDir,
}

impl Neighbours {
    fn new() -> io::Result<Self> {
        // Not in our own folder: a socket's path has to be short.
        let temporary = std::env::temp_dir();
        sweep(&temporary);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&temporary)?;
        let lock = File::open(folder.path())?;
        // A file system without locks keeps what a killed one leaves until it is old.
        let _ = lock.lock();
        let name = folder.path().to_string_lossy().into_owned();
        let abstracted = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let pathed = UnixListener::bind(folder.path().join("socket"))?;
        fs::write(folder.path().join("secret"), "canary")?;
        Ok(Self {
            tcp: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            listed: TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
            abstract_name: name,
            _unix: [abstracted, pathed],
            _lock: lock,
            folder,
        })
    }
}

/// Looks at a zone; the answer says why it cannot be looked at.
///
/// # Errors
/// A signal that asks to stop, or a machine on which nothing can be made.
pub fn look(
    supervisor: &mut Supervisor,
    zones: &Zones,
    kind: Kind,
    home: Option<&Path>,
) -> Result<std::result::Result<Table, String>> {
    let neighbours = Neighbours::new().map_err(failed)?;
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    let listed = port(&neighbours.listed).map_err(failed)?;
    let target = Target { host: "127.0.0.1".to_owned(), port: listed };
    let mut egress = zones.egress(vec![target.clone()])?;
    let reach = zones.reach(kind, &egress);
    // On another address of this machine somebody has the very port of the gate.
    let beside =
        zones.by_landlock().then(|| TcpListener::bind((BESIDE, egress.port()))).transpose();
    let beside = beside.ok().flatten();
    let hidden = hidden(zones, &neighbours, home);
    // An image may have a file of its own where the caller has one.
    let known = match zones.image {
        Some(_) => hidden.iter().map(|path| proof::identity(path)).collect(),
        None => Vec::new(),
    };
    let question = Question {
        zone: kind.word().to_owned(),
        port: port(&neighbours.tcp).map_err(failed)?,
        abstract_name: neighbours.abstract_name.clone(),
        socket: neighbours.folder.path().join("socket"),
        hidden,
        known,
        gate: (kind == Kind::Agent).then(|| (egress.port(), target.to_string())),
        token: egress.token().map(str::to_owned),
        landlock: zones.by_landlock().then(|| UnderLandlock {
            loopexec: std::process::id(),
            beside: beside.is_some().then_some(SocketAddrV4::new(BESIDE, egress.port())),
        }),
        control: zones.image.as_ref().map(|image| image.engine.control()),
        programs: Vec::new(),
        nested: zones.room(kind).nested,
    };
    let job = job(zones, kind, &reach, &question)?;
    let outcome = match supervisor.run_gated(&job, &mut Silent, &mut egress) {
        Ok(outcome) => outcome,
        Err(error) if error.kind == error::Kind::IsolationUnsatisfiable => {
            return Ok(Err(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    match outcome.exit {
        Exit::Code { code: 0 } => {}
        Exit::Interrupted => {
            return Err(Error::new(error::Kind::Interrupted, "a signal asked to stop"));
        }
        exit => {
            let said = String::from_utf8_lossy(&outcome.stderr.kept()).trim().to_owned();
            return Ok(Err(format!(
                "the canary in the {} zone ended with {exit:?}: {said}",
                kind.word()
            )));
        }
    }
    let printed = outcome.stdout.kept();
    let rows = String::from_utf8_lossy(&printed).lines().map(serde_json::from_str::<Row>).collect();
    let Ok(mut rows): std::result::Result<Vec<Row>, _> = rows else {
        return Ok(Err("what the canary printed cannot be read".to_owned()));
    };
    if rows.is_empty() {
        return Ok(Err("the canary printed nothing".to_owned()));
    }
    if kind == Kind::Agent {
        let (attempts, _) = egress.take_attempts();
        let told = attempts.iter().filter(|attempt| !attempt.allowed).count();
        rows.push(Row {
            what: "refused attempts on record".into(),
            found: told.to_string(),
            holds: told == 3 + usize::from(zones.by_landlock()),
            degraded: false,
        });
    }
    Ok(Ok(Table { zone: kind.word().to_owned(), rows }))
}

/// Returns the well-known programs that a zone of an image shows, with the file of each.
///
/// # Errors
/// A signal that asks to stop, or a machine on which nothing can be made.
pub fn find_programs(supervisor: &mut Supervisor, zones: &Zones) -> Result<Vec<(String, PathBuf)>> {
    let programs = KNOWN.map(str::to_owned).to_vec();
    let question = Question { programs, ..Question::default() };
    let job = job(zones, Kind::Exec, &Reach::Nothing, &question)?;
    let outcome = supervisor.run(&job, &mut Silent)?;
    if outcome.exit == Exit::Interrupted {
        return Err(Error::new(error::Kind::Interrupted, "a signal asked to stop"));
    }
    let printed = outcome.stdout.kept();
    let printed = String::from_utf8_lossy(&printed);
    let found: std::result::Result<_, _> = printed.lines().map(serde_json::from_str).collect();
    found.map_err(|e| failed(io::Error::from(e)))
}

fn failed(error: io::Error) -> Error {
    Error::io(error::Kind::WorkspaceInvalid, "the canary of isolation cannot be made", error)
}

/// Returns the job that has this program answer a question in a zone.
fn job(zones: &Zones, kind: Kind, reach: &Reach, question: &Question) -> Result<Job> {
    let seat = zones.folder.join("seat");
    fs::create_dir_all(&seat).map_err(failed)?;
    let text = serde_json::to_string(question).map_err(|e| failed(e.into()))?;
    let mut enclosure = zones.enclosure(kind, reach)?;
    let program = own_program(zones, &mut enclosure.system).map_err(failed)?;
    let words = [proof::ARGUMENT, &text].map(OsString::from);
    let path = zones.image.as_ref().map_or("/usr/bin:/bin".into(), Image::search_path);
    let mounts = vec![Mount::Bind { from: seat.clone(), to: seat.clone() }];
    let view = zones.view(&mut enclosure, mounts);
    Ok(Job {
        argv: program.into_iter().chain(words).collect(),
        cwd: seat,
        env: vec![("PATH".into(), path)],
        view,
        enclosure: Some(enclosure),
        deadline: Some(PATIENCE),
        idle: None,
        idle_watch: Vec::new(),
        grace: Duration::ZERO,
        keep: 256 << 10,
    })
}

/// Returns the words that start this program in a zone, which `system` then shows.
fn own_program(zones: &Zones, system: &mut Vec<Mount>) -> io::Result<Vec<OsString>> {
    if let Some(image) = &zones.image {
        return Ok(image.engine.own_words());
    }
    // By its name: a mount of before the namespace cannot be shown in it.
    let own = std::env::current_exe()?;
    if zones.by_landlock() {
        system.push(super::system::read_only(own.clone()));
        return Ok(vec![own.into()]);
    }
    system.push(Mount::BindReadOnly { from: own, to: PROGRAM.into() });
    Ok(vec![PROGRAM.into()])
}

/// Returns what of the host must not be seen: the canary's own file and what the caller's HOME holds, as far
/// as no tool lies there.
fn hidden(zones: &Zones, neighbours: &Neighbours, home: Option<&Path>) -> Vec<PathBuf> {
    let mut hidden = vec![neighbours.folder.path().join("secret"), zones.folder.join("root")];
    let shown = |path: &Path| {
        let homes = zones.homes.read.iter().chain(&zones.homes.scratch).chain([&zones.folder]);
        let named = [&zones.agent.shown, &zones.exec.shown];
        let homes =
            homes.chain(named.into_iter().flat_map(|shown| shown.read.iter().chain(&shown.write)));
        super::system::is_shown(path)
            || homes.into_iter().any(|shown| shown.starts_with(path) || path.starts_with(shown))
    };
    let entries = home.and_then(|home| fs::read_dir(home).ok()).into_iter().flatten().flatten();
    hidden.extend(entries.map(|entry| entry.path()).filter(|path| !shown(path)).take(MOST_HIDDEN));
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn what_a_killed_canary_left_goes_and_one_that_is_in_use_or_new_stays() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().join(name);
        for name in ["loopexec-canary-left", "loopexec-canary-used", "loopexec-canary-new", "other"]
        {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("secret"), "canary").unwrap();
        }
        std::os::unix::fs::symlink(at("other"), at("loopexec-canary-link")).unwrap();
        let old = fs::FileTimes::new().set_modified(SystemTime::now() - 2 * YOUNG);
        for name in ["loopexec-canary-left", "loopexec-canary-used", "other"] {
            File::open(at(name)).unwrap().set_times(old).unwrap();
        }
        let used = File::open(at("loopexec-canary-used")).unwrap();
        used.lock().unwrap();
        sweep(temporary.path());
        assert!(!at("loopexec-canary-left").exists());
        for name in ["loopexec-canary-used", "loopexec-canary-new", "other", "loopexec-canary-link"]
        {
            assert!(fs::symlink_metadata(at(name)).is_ok(), "{name}");
        }
        drop(used);
        sweep(temporary.path());
        assert!(!at("loopexec-canary-used").exists() && at("other/secret").exists());
    }
}
