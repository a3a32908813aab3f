//! The launcher's way into a container: start the engine, hand the order to the launcher inside, and watch both
//! until nothing of the container is left.
//!
//! Loopexec's socket and the command's outputs go into the container as open files, so that nothing the command
//! says passes through the engine, and no path inside leads back. The words are `oci`'s; `contained` is the other end.

use super::enclosure::{ContainerEngine, Enclosure, EngineKind, Files, Ids};
use super::idmap::{self, Mapping};
use super::job::Mount;
use super::keeper::ChildNews;
use super::namespace::{LAST_WORDS, Made, fork};
use super::oci::{self, Hard};
use super::wire::{self, NamespaceOrder, Order, Report};
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, getsockopt, sendmsg, sockopt};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::fs::{self, File};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks at an engine that has not started its container.
const PACE: u8 = 20;

/// How long the engine may take to clear away a container whose processes are dead.
const CLEARING: Duration = Duration::from_secs(20);

/// Bytes of what the engine says that are told on.
const SAID: usize = 600;

/// Makes the container and stays until it is gone.
pub(super) fn launch(
    order: &Order,
    place: &NamespaceOrder,
    engine: &ContainerEngine,
    lifeline: &UnixStream,
) -> io::Result<()> {
    // Who starts a container by podman leaves it to the next reaper, which must not be loopexec.
    let begun = nix::sys::prctl::set_child_subreaper(true)
        .map_err(|e| format!("cannot become the reaper of a container: {e}"))
        .and_then(|()| Begun::new(place, engine));
    let mut begun = match begun {
        Ok(begun) => begun,
        Err(what) => return wire::write_frame(lifeline, &Report::LaunchFailed { what }),
    };
    let entered = match begun.wait(lifeline)? {
        Came::Inside(entered) => entered,
        Came::Nobody => {
            let what = begun.failure(engine);
            begun.clear(engine);
            return wire::write_frame(lifeline, &Report::LaunchFailed { what });
        }
        Came::Stranger(what) => {
            begun.clear(engine);
            return wire::write_frame(lifeline, &Report::LaunchFailed { what });
        }
        Came::Stop => {
            begun.clear(engine);
            return Err(io::Error::other("the container was not waited for"));
        }
    };
    match entered.hand_over(order, place, lifeline) {
        Ok(()) => begun.watch(&entered, lifeline, engine),
        Err(what) => {
            entered.kill(Signal::SIGKILL);
            begun.clear(engine);
            wire::write_frame(lifeline, &Report::LaunchFailed { what })
        }
    }
}

/// An engine at work.
struct Begun {
    folder: tempfile::TempDir,
    /// Until somebody came.
    listener: Option<UnixListener>,
    ids: Ids,
    client: Pid,
    ended: Option<WaitStatus>,
    name: std::ffi::OsString,
}

/// Who came to the socket.
enum Came {
    /// The launcher inside.
    Inside(Entered),
    /// Somebody else, or one who is out of reach.
    Stranger(String),
    /// Nobody, and the engine has given up.
    Nobody,
    /// Nobody so far, and loopexec wants no more of it.
    Stop,
}

/// The launcher inside.
struct Entered {
    control: UnixStream,
    /// The container's process 1, as it is called out here.
    first: Pid,
    /// The same, held: another process may get its number.
    held: OwnedFd,
}

impl Begun {
    fn new(place: &NamespaceOrder, engine: &ContainerEngine) -> Made<Self> {
        let closed = place.enclosure.as_ref().ok_or("a container without an enclosure")?;
        let ids = ids_of(closed)?;
        // No other user of this machine may come to the socket.
        let folder = tempfile::Builder::new()
            .prefix("loopexec-")
            .tempdir_in(&closed.staging)
            .map_err(|e| format!("cannot make a folder in {:?}: {e}", closed.staging))?;
        let control = folder.path().join("control");
        let listener = listen(folder.path())
            .map_err(|e| format!("cannot listen in {:?}: {e}", folder.path()))?;
        let name = folder.path().file_name().unwrap_or_default().to_owned();
        let words =
            oci::run_words(engine, place, closed, [&name, control.as_os_str()], ids, hard()?)?;
        let said = File::create(folder.path().join("said"))
            .map_err(|e| format!("cannot write into {:?}: {e}", folder.path()))?;
        let started = client(engine).args(words).stderr(said).spawn();
        let started =
            started.map_err(|e| format!("{} cannot be started: {e}", engine.program.display()))?;
        let client = Pid::from_raw(i32::try_from(started.id()).unwrap_or(i32::MAX));
        Ok(Self { folder, listener: Some(listener), ids, client, ended: None, name })
    }

    /// Waits for the launcher inside.
    fn wait(&mut self, lifeline: &UnixStream) -> io::Result<Came> {
        loop {
            let Some(listener) = &self.listener else { return Ok(Came::Nobody) };
            if let Ok((control, _)) = listener.accept() {
                control.set_nonblocking(false)?;
                // What runs inside later finds nobody behind the socket.
                self.listener = None;
                return Ok(
                    Entered::new(control, self.ids).map_or_else(Came::Stranger, Came::Inside)
                );
            }
            if self.has_ended() {
                return Ok(Came::Nobody);
            }
            let Some(listener) = &self.listener else { return Ok(Came::Nobody) };
            let mut files = [
                PollFd::new(listener.as_fd(), PollFlags::POLLIN),
                PollFd::new(lifeline.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut files, PollTimeout::from(PACE)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            // Whatever is asked of a command that does not run yet, it comes to the same.
            if files[1].revents().is_some_and(|events| !events.is_empty()) {
                return Ok(Came::Stop);
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            match waitpid(self.client, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::EINTR) => {}
                Ok(status) => self.ended = Some(status),
                Err(_) => self.ended = Some(WaitStatus::Exited(self.client, -1)),
            }
        }
        self.ended.is_some()
    }

    /// Returns in one sentence why there is no container.
    fn failure(&self, engine: &ContainerEngine) -> String {
        let said = fs::read(self.folder.path().join("said")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        // Warnings come before what it ended with.
        let said = said.rsplit_once("Error: ").map_or(&*said, |(_, error)| error);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().filter(|c| !c.is_control()).take(SAID).collect();
        format!("{} makes no container: {said}", engine.kind.word())
    }

    /// Relays what loopexec asks for and ends the container when loopexec is gone.
    fn watch(
        mut self,
        entered: &Entered,
        lifeline: &UnixStream,
        engine: &ContainerEngine,
    ) -> io::Result<()> {
        let news = ChildNews::new()?;
        let mut kill_at = None;
        while !self.has_ended() {
            let left = kill_at.map(|at: Instant| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                entered.kill(Signal::SIGKILL);
                self.clear(engine);
                return Err(io::Error::other("process 1 had to be killed"));
            }
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            if news.wait(lifeline, timeout)? {
                let mut request = [wire::KILL];
                match Read::read(&mut &*lifeline, &mut request) {
                    Ok(1) => {
                        let _ = (&entered.control).write_all(&request);
                        // Only from outside can process 1 be stopped, and only so does it go on.
                        entered.kill(Signal::SIGCONT);
                        if request == [wire::KILL] {
                            kill_at = kill_at.or(Some(Instant::now() + LAST_WORDS));
                        }
                    }
                    _ => kill_at = Some(Instant::now()),
                }
            }
        }
        let clean = matches!(self.ended, Some(WaitStatus::Exited(_, 0)));
        // The client goes before its container where somebody kills it.
        if !clean {
            entered.kill(Signal::SIGKILL);
        }
        self.clear(engine);
        match clean {
            true => Ok(()),
            false => Err(io::Error::other("the container was ended")),
        }
    }

    /// Has the engine clear away what is left, and waits for all that it started here.
    fn clear(&mut self, engine: &ContainerEngine) {
        if !matches!(self.ended, Some(WaitStatus::Exited(_, 0))) {
            let _ = kill(self.client, Signal::SIGKILL);
            let mut remove = client(engine);
            remove.args(["rm", "--force", "--volumes"]).arg(&self.name).stderr(Stdio::null());
            let _ = remove.spawn();
        }
        let begun = Instant::now();
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if begun.elapsed() < CLEARING => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// Returns the engine's client, told of nothing but where its storage or daemon is.
fn client(engine: &ContainerEngine) -> Command {
    let mut command = Command::new(&engine.program);
    command.env_clear().envs(engine.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Returns the user that the container is for.
fn ids_of(closed: &Enclosure) -> Made<Ids> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    match closed.ids {
        Some(ids) => Ok(ids),
        None if uid.is_root() => Err("a command in a container would be root".to_owned()),
        None => Ok(Ids { uid: uid.as_raw(), gid: gid.as_raw(), files: Files::Own }),
    }
}

fn hard() -> Made<Hard> {
    let read = |resource| {
        let found = getrlimit(resource).map(|(_, hard)| hard);
        found.map_err(|e| format!("cannot read the bounds of this process: {e}"))
    };
    Ok(Hard { files: read(Resource::RLIMIT_NOFILE)?, processes: read(Resource::RLIMIT_NPROC)? })
}

/// Listens on a socket in a folder, however long its path is.
fn listen(folder: &Path) -> io::Result<UnixListener> {
    let held = open(folder, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    let short = format!("/proc/self/fd/{}/control", held.as_raw_fd());
    let listener = UnixListener::bind(short)?;
    // The user inside may be another one.
    fs::set_permissions(folder.join("control"), fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Entered {
    /// Takes who came for the launcher inside, if it can be that.
    fn new(control: UnixStream, ids: Ids) -> Made<Self> {
        let peer = getsockopt(&control, sockopt::PeerCredentials);
        let peer = peer.map_err(|e| format!("cannot see who is in the container: {e}"))?;
        let first = Pid::from_raw(peer.pid());
        if first.as_raw() <= 1 || peer.uid() != ids.uid {
            return Err("the container's processes cannot be seen from here as what they are: loopexec has to run on its engine's own machine, as a user whom it does not rename".to_owned());
        }
        let held = hold(first).map_err(|e| format!("cannot hold the container: {e}"))?;
        Ok(Self { control, first, held })
    }

    #[expect(unsafe_code, reason = "no crate at hand has pidfd_send_signal")]
    fn kill(&self, signal: Signal) {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the file is open, and without information the kernel makes its own.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.held.as_raw_fd(),
                signal as libc::c_int,
                none,
                0,
            );
        }
    }

    /// Shows the files that the command works on as its own where they are not, and gives the order.
    fn hand_over(&self, order: &Order, place: &NamespaceOrder, lifeline: &UnixStream) -> Made<()> {
        let closed = place.enclosure.as_ref();
        let ids = closed.and_then(|closed| closed.ids);
        if let Some(ids) = ids.filter(|ids| ids.files == Files::Launchers) {
            let system = closed.into_iter().flat_map(|closed| &closed.system);
            let shown: Vec<&Mount> = system.chain(&place.mounts).collect();
            show_as(ids, self.first, &outermost(&shown))?;
            for output in [io::stdout().as_fd(), io::stderr().as_fd()] {
                let (uid, gid) = (ids.uid.into(), ids.gid.into());
                nix::unistd::fchown(output, Some(uid), Some(gid))
                    .map_err(|e| format!("cannot hand an output over: {e}"))?;
            }
        }
        let give = || -> io::Result<()> {
            let files = [lifeline.as_raw_fd(), io::stdout().as_raw_fd(), io::stderr().as_raw_fd()];
            let rights = [ControlMessage::ScmRights(&files)];
            let byte = [IoSlice::new(&[wire::LISTENER])];
            let number = self.control.as_raw_fd();
            sendmsg::<UnixAddr>(number, &byte, &rights, MsgFlags::empty(), None)?;
            wire::write_frame(&self.control, &inside(order, self.first))
        };
        give().map_err(|e| format!("cannot speak to the launcher in the container: {e}"))
    }
}

#[expect(unsafe_code, reason = "no crate at hand has pidfd_open")]
fn hold(process: Pid) -> io::Result<OwnedFd> {
    // SAFETY: there are no pointers.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) };
    let number = nix::errno::Errno::result(number)?;
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this number for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Returns the order as the launcher inside needs it: the command is its user already.
fn inside(order: &Order, first: Pid) -> Order {
    let mut order = order.clone();
    if let Some(place) = &mut order.namespace {
        let is_docker = place.engine.take().is_some_and(|engine| engine.kind == EngineKind::Docker);
        place.outside = Some(first.as_raw());
        if let Some(closed) = &mut place.enclosure {
            // A user whom the container shares with this machine runs more than what is in it: the kernel would
            // count that as well, and the container has a bound of its own.
            let shared = closed.ids.is_none() && is_docker;
            closed.limits.processes = closed.limits.processes.filter(|_| !shared);
            closed.ids = None;
        }
    }
    order
}

/// Returns where what takes writes is shown, without what lies in another one.
fn outermost(mounts: &[&Mount]) -> Vec<PathBuf> {
    let shown: Vec<&Path> = mounts
        .iter()
        .filter_map(|mount| match mount {
            Mount::Bind { to, .. } => Some(to.as_path()),
            _ => None,
        })
        .collect();
    // Inside of what is read-only it is laid over nothing yet.
    let within = |path: &Path| shown.iter().any(|other| *other != path && path.starts_with(other));
    let mut found: Vec<PathBuf> =
        shown.iter().filter(|path| !within(path)).map(|path| path.to_path_buf()).collect();
    found.dedup();
    found
}

/// Lays over each of these places of the container what is there, with its owner shown as the command's user.
fn show_as(ids: Ids, first: Pid, places: &[PathBuf]) -> Made<()> {
    let failed = |e: &dyn std::fmt::Display| format!("cannot show files as another user's: {e}");
    let mapping = Mapping::new(ids).map_err(|e| failed(&e))?;
    let view = File::open(format!("/proc/{first}/ns/mnt")).map_err(|e| failed(&e))?;
    let (mut here, mut there) = UnixStream::pair().map_err(|e| failed(&e))?;
    match fork().map_err(|e| failed(&e))? {
        ForkResult::Child => {
            drop(here);
            let done = setns(&view, CloneFlags::CLONE_NEWNS).map_err(io::Error::from);
            let done = done.and_then(|()| {
                places.iter().try_for_each(|place| {
                    let tree = mapping.open(place)?;
                    idmap::attach(&tree, place).map_err(io::Error::from)
                })
            });
            let said = done.map_or_else(|error| error.to_string(), |()| String::new());
            let _ = there.write_all(said.as_bytes());
            drop(there);
            std::process::abort();
        }
        ForkResult::Parent { child } => {
            drop(there);
            let mut said = String::new();
            let read = here.read_to_string(&mut said);
            let ended = waitpid(child, None);
            match (read, ended, said.as_str()) {
                (Ok(_), Ok(WaitStatus::Signaled(_, Signal::SIGABRT, _)), "") => Ok(()),
                (_, _, why) => Err(failed(&why)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_another_place_is_shown_with_it() {
        let bind = |to: &str| Mount::Bind { from: "/x".into(), to: to.into() };
        let kept = Mount::BindReadOnly { from: "/x".into(), to: "/tree/.git".into() };
        let all = [bind("/tree"), kept, bind("/tree/in"), bind("/home"), bind("/treeb")];
        let found = outermost(&all.iter().collect::<Vec<_>>());
        assert_eq!(found, ["/tree", "/home", "/treeb"].map(PathBuf::from));
        let read = Mount::BindReadOnly { from: "/x".into(), to: "/srv".into() };
        assert_eq!(outermost(&[&read, &bind("/srv/out")]), [PathBuf::from("/srv/out")]);
    }

    #[test]
    fn a_socket_can_be_made_wherever_the_cache_lies() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(200));
        fs::create_dir(&deep).unwrap();
        listen(&deep).unwrap();
        assert!(deep.join("control").exists());
    }
}
