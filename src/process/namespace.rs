//! The launcher's way into namespaces: enter, mount, remove, and become two processes, a watcher
//! outside and process 1 inside, which `keeper` attends to.

use super::enclosure::{Enclosure, Files, Ids, Network};
use super::group::{Group, NO_GROUP};
use super::idmap::{self, Mapping};
use super::job::Mount;
use super::keeper::{ChildNews, Tree};
use super::launcher::Counted;
use super::wire::{self, Entry, NamespaceOrder, Order, Report};
use super::{give, launcher, net, root};
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::poll::PollTimeout;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long process 1 gets to name and kill what it keeps before it is killed itself.
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

/// What was made, or why not.
pub(super) type Made<T> = Result<T, String>;

/// Makes the place and runs the order's command in it.
pub(super) fn launch(
    order: &Order,
    place: &NamespaceOrder,
    lifeline: &UnixStream,
) -> io::Result<()> {
    let made = give::all(place).and_then(|()| map_files(place)).and_then(|mapping| {
        let group = make_group(place.enclosure.as_ref())?;
        let entered = enter(place)
            .and_then(|()| connect(place.enclosure.as_ref(), lifeline))
            .and_then(|()| mount_view(place, mapping.as_ref()));
        match entered {
            Ok(()) => Ok(group),
            Err(what) => {
                group.into_iter().for_each(Group::remove);
                Err(what)
            }
        }
    });
    let group = match made {
        Ok(group) => group,
        Err(what) => return wire::write_frame(lifeline, &Report::LaunchFailed { what }),
    };
    let (requests, to_init) = UnixStream::pair()?;
    match fork() {
        Err(error) => {
            group.into_iter().for_each(Group::remove);
            let what = format!("cannot start process 1: {error}");
            wire::write_frame(lifeline, &Report::LaunchFailed { what })
        }
        Ok(ForkResult::Child) => {
            drop(to_init);
            match become_init(place.enclosure.as_ref(), group.as_ref()) {
                Err(what) => wire::write_frame(lifeline, &Report::LaunchFailed { what }),
                Ok(()) => {
                    let counted = group.map(counted);
                    launcher::keep(order, lifeline, &requests, Tree::Namespace, counted)
                }
            }
        }
        Ok(ForkResult::Parent { child }) => {
            drop(requests);
            let watched = watch(child, lifeline, &to_init);
            let Some(mut group) = group else { return watched };
            let used_up = group.read();
            group.remove();
            match watched {
                // What no process owns counts too, so that it can be the last one, process 1, who goes for it.
                Err(_) if used_up.0 > 0 => wire::write_frame(
                    lifeline,
                    &Report::Ended {
                        code: None,
                        signal: Some(libc::SIGKILL),
                        survivors: Vec::new(),
                        refused: 0,
                        used_up: Some(used_up),
                    },
                ),
                watched => watched,
            }
        }
    }
}

fn counted(group: Group) -> Counted {
    let kills = group.kills().as_os_str().to_owned();
    let mut counters = group.into_counters();
    Counted { kills, read: Box::new(move || counters.read()) }
}

/// Makes the control group of an enclosure that wants one; while the host's file system is in sight.
fn make_group(enclosure: Option<&Enclosure>) -> Made<Option<Group>> {
    let limits = enclosure.map(|closed| &closed.limits).filter(|limits| limits.group);
    limits.map(Group::make).transpose()
}

#[expect(
    unsafe_code,
    reason = "a pid namespace is entered by forking, and an exec would lose the capabilities of a user namespace"
)]
pub(super) fn fork() -> io::Result<ForkResult> {
    // SAFETY: the launcher has one thread, so the child's memory is whole.
    Ok(unsafe { nix::unistd::fork() }?)
}

/// Relays requests to process 1 and kills it when loopexec is gone.
fn watch(init: Pid, lifeline: &UnixStream, to_init: &UnixStream) -> io::Result<()> {
    let news = ChildNews::new()?;
    let mut kill_at = None;
    loop {
        match waitpid(init, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Err(io::Error::other("process 1 was ended")),
            Err(error) => return Err(error.into()),
        }
        let left = kill_at.map(|at: Instant| at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let _ = kill(init, Signal::SIGKILL);
            // Only its end matters now, and a closed lifeline would wake this loop for ever.
            waitpid(init, None)?;
            return Err(io::Error::other("process 1 had to be killed"));
        }
        let timeout = left.map_or(PollTimeout::NONE, |left| {
            PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        if news.wait(lifeline, timeout)? {
            let mut request = [wire::KILL];
            match io::Read::read(&mut &*lifeline, &mut request) {
                Ok(1) => {
                    let _ = (&*to_init).write_all(&request);
                    // Only from outside can process 1 be stopped, and only so does it go on.
                    let _ = kill(init, Signal::SIGCONT);
                    if request == [wire::KILL] {
                        kill_at = kill_at.or(Some(Instant::now() + LAST_WORDS));
                    }
                }
                _ => kill_at = Some(Instant::now()),
            }
        }
    }
}

/// Ties process 1 to its watcher and gives it a `/proc` of its own namespace.
///
/// Whoever is not process 1 is refused: ending a tree reaches everyone it can see.
fn become_init(enclosure: Option<&Enclosure>, group: Option<&Group>) -> Made<()> {
    if Pid::this().as_raw() != 1 {
        return Err("the pid namespace was not entered".to_owned());
    }
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)
        .map_err(|e| format!("cannot tie process 1 to the launcher: {e}"))?;
    if let Some(group) = group {
        group.enter().map_err(|e| format!("{NO_GROUP} can be entered here: {e}"))?;
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)
        .map_err(|e| format!("cannot mount a fresh /proc: {e}"))?;
    let Some(enclosure) = enclosure else { return Ok(()) };
    if Path::new("/proc/self/ns/cgroup").exists() {
        // Only now, so that the command's own group is the root of what it sees.
        unshare(CloneFlags::CLONE_NEWCGROUP)
            .map_err(|e| format!("cannot make a namespace of control groups: {e}"))?;
    }
    root::close(enclosure)?;
    // Also where the command is of the same user it looks into process 1 no more.
    nix::sys::prctl::set_dumpable(false).map_err(|e| format!("cannot close process 1: {e}"))?;
    match enclosure.ids {
        None if nix::unistd::geteuid().is_root() => {
            Err("a command in an enclosure would be root".to_owned())
        }
        _ => Ok(()),
    }
}

/// Switches the loopback of an own network on and hands the gate's listener out.
fn connect(enclosure: Option<&Enclosure>, lifeline: &UnixStream) -> Made<()> {
    let Some(enclosure) = enclosure.filter(|closed| closed.network != Network::Host) else {
        return Ok(());
    };
    net::raise_loopback().map_err(|e| format!("cannot switch the loopback on: {e}"))?;
    enclosure.doors.iter().try_for_each(|port| {
        net::hand_out(*port, lifeline)
            .map_err(|e| format!("cannot listen on port {port} of the loopback: {e}"))
    })
}

fn enter(place: &NamespaceOrder) -> Made<()> {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    let mut spaces = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    if let Some(enclosure) = &place.enclosure {
        spaces |= CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
        spaces.set(CloneFlags::CLONE_NEWNET, enclosure.network != Network::Host);
    }
    match place.entry {
        Entry::Nowhere => return Err("there is no namespace to enter".to_owned()),
        Entry::Root => unshare(spaces).map_err(|e| format!("cannot make namespaces: {e}"))?,
        Entry::User => {
            unshare(spaces | CloneFlags::CLONE_NEWUSER)
                .map_err(|e| format!("cannot make a user namespace: {e}"))?;
            for (file, text) in [
                ("uid_map", format!("{uid} {uid} 1")),
                ("setgroups", "deny".to_owned()),
                ("gid_map", format!("{gid} {gid} 1")),
            ] {
                fs::write(Path::new("/proc/self").join(file), text)
                    .map_err(|e| format!("cannot write {file} of the user namespace: {e}"))?;
            }
        }
    }
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(|e| format!("cannot make the mounts private: {e}"))
}

/// What an entry of a view is made from, held by its file.
enum Source {
    /// Files as they are.
    Plain(OwnedFd),
    /// A mount that shows them as the command's.
    Mapped(OwnedFd),
}

/// Makes what says whose files are whose; before the pid namespace, whose first process it would be.
fn map_files(place: &NamespaceOrder) -> Made<Option<Mapping>> {
    let mapped = mapped_ids(place);
    let mapping = mapped.map(Mapping::new).transpose();
    mapping.map_err(|e| format!("cannot show files as another user's: {e}"))
}

fn mapped_ids(place: &NamespaceOrder) -> Option<Ids> {
    let ids = place.enclosure.as_ref().and_then(|closed| closed.ids);
    ids.filter(|ids| ids.files == Files::Launchers)
}

fn mount_view(place: &NamespaceOrder, mapping: Option<&Mapping>) -> Made<()> {
    let system = place.enclosure.iter().flat_map(|enclosure| &enclosure.system);
    let entries: Vec<&Mount> = system.chain(&place.mounts).collect();
    // Sources are opened before the first mount can hide one; their numbers also spare the
    // overlay options all escaping of odd names.
    let opened: Vec<Vec<Source>> =
        entries.iter().map(|wanted| open_sources(wanted, mapping)).collect::<Made<_>>()?;
    let mut proc = "/proc".to_owned();
    if let Some(enclosure) = &place.enclosure {
        root::replace(enclosure)?;
        proc = format!("{}/proc", root::OLD);
        root::make_devices(enclosure)?;
    }
    let caller = place.caller.as_ref().map(|caller| (caller.uid, caller.gid));
    let mapped = mapped_ids(place);
    let here = Here { proc: &proc, options: &place.overlay, mapped, caller };
    for (wanted, sources) in entries.iter().zip(&opened) {
        let to = wanted.target();
        if place.enclosure.is_some() {
            if let Mount::Link { says, to } = wanted {
                let parent = to.parent().unwrap_or(to);
                fs::create_dir_all(parent)
                    .and_then(|()| std::os::unix::fs::symlink(says, to))
                    .map_err(|e| format!("cannot make the link {to:?}: {e}"))?;
                continue;
            }
            let is_file = sources.iter().any(|source| here.is_file(source));
            root::make_target(wanted, is_file)
                .map_err(|error| format!("cannot make the mount target {to:?}: {error}"))?;
        }
        if let Err(error) = fs::symlink_metadata(to) {
            return Err(format!("the mount target {to:?} cannot be found: {error}"));
        }
        here.mount(wanted, sources).map_err(|error| format!("cannot mount at {to:?}: {error}"))?;
    }
    let take_out =
        || place.remove.iter().try_for_each(|path| remove(Path::new(path), &place.mounts));
    idmap::as_files_of(here.mapped, take_out)
        .unwrap_or_else(|e| Err(format!("cannot take paths out of the view: {e}")))
}

fn open_sources(wanted: &Mount, mapping: Option<&Mapping>) -> Made<Vec<Source>> {
    let open_mapped = |mapping: &Mapping, path: &Path| {
        let tree = mapping.open(path);
        tree.map(Source::Mapped).map_err(|error| {
            format!("files of {path:?} cannot be shown as another user's: {error}")
        })
    };
    let open = |path: &Path| match mapping {
        Some(mapping) => open_mapped(mapping, path),
        None => open_path(path).map(Source::Plain),
    };
    match wanted {
        Mount::Bind { from, .. } => Ok(vec![open(from)?]),
        Mount::BindReadOnly { from, .. } => Ok(vec![Source::Plain(open_path(from)?)]),
        Mount::FilesOnly { from, empty, .. } => {
            Ok(vec![Source::Plain(open_path(from)?), Source::Plain(open_path(empty)?)])
        }
        Mount::Overlay { lower, upper, work, .. } => match mapping {
            None => [lower, upper, work].map(|path| open(path)).into_iter().collect(),
            // Both folders of changes have to be reached through one mount.
            Some(mapping) => {
                let (lower, changes) = (open_mapped(mapping, lower)?, common(upper, work)?);
                Ok(vec![lower, open_mapped(mapping, changes)?])
            }
        },
        Mount::Memory { .. } | Mount::Link { .. } => Ok(Vec::new()),
    }
}

/// Returns the folder in which both folders of an overlay's changes lie.
fn common<'a>(upper: &Path, work: &'a Path) -> Made<&'a Path> {
    let shared = work.ancestors().skip(1).find(|folder| upper.starts_with(folder));
    shared.ok_or_else(|| format!("{upper:?} and {work:?} lie in no folder together"))
}

/// The surroundings of a mount.
struct Here<'a> {
    /// Where `/proc` of the host is.
    proc: &'a str,
    /// Options of overlays.
    options: &'a str,
    /// Whose files the mounts show.
    mapped: Option<Ids>,
    /// Whose folders of overlays become, where root works in somebody's place.
    caller: Option<(u32, u32)>,
}

impl Here<'_> {
    fn name(&self, file: &OwnedFd) -> String {
        format!("{}/self/fd/{}", self.proc, file.as_raw_fd())
    }

    fn is_file(&self, source: &Source) -> bool {
        let (Source::Plain(file) | Source::Mapped(file)) = source;
        fs::metadata(self.name(file)).is_ok_and(|found| !found.is_dir())
    }

    fn mount(&self, wanted: &Mount, sources: &[Source]) -> nix::Result<()> {
        let to = wanted.target();
        match (wanted, sources) {
            (Mount::Bind { .. }, [Source::Plain(file)]) => bind(&self.name(file), to),
            (Mount::Bind { .. }, [Source::Mapped(tree)]) => idmap::attach(tree, to),
            (Mount::BindReadOnly { .. }, [Source::Plain(file)]) => {
                bind(&self.name(file), to)?;
                make_read_only(self.proc, to)
            }
            (
                Mount::Overlay { .. },
                [Source::Plain(lower), Source::Plain(upper), Source::Plain(work)],
            ) => {
                self.overlay([lower, upper, work].map(|file| self.name(file)), to)?;
                self.give_away(&self.name(work))
            }
            (
                Mount::Overlay { upper, work, .. },
                [Source::Mapped(lower), Source::Mapped(changes)],
            ) => self.mapped_overlay([lower, changes], [upper, work], to),
            (Mount::FilesOnly { .. }, [Source::Plain(from), Source::Plain(empty)]) => {
                let lower = format!("lowerdir={}:{}", self.name(empty), self.name(from));
                let extra = if self.options.is_empty() { "" } else { "," };
                let options = format!("{lower}{extra}{}", self.options);
                let flags = MsFlags::MS_RDONLY | MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
                mount(Some("overlay"), to, Some("overlay"), flags, Some(&*options))
            }
            (Mount::Memory { bytes, .. }, _) => root::mount_memory(to, *bytes),
            _ => Err(nix::errno::Errno::EINVAL),
        }
    }

    fn overlay(&self, [lower, upper, work]: [String; 3], to: &Path) -> nix::Result<()> {
        let extra = if self.options.is_empty() { "" } else { "," };
        let options =
            format!("lowerdir={lower},upperdir={upper},workdir={work}{extra}{}", self.options);
        mount(Some("overlay"), to, Some("overlay"), MsFlags::empty(), Some(&*options))
    }

    /// Gives the caller what the kernel has just made in a work folder, closed to everybody: it has to go with
    /// the rest.
    fn give_away(&self, work: &str) -> nix::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let Some((uid, gid)) = self.caller else { return Ok(()) };
        for name in ["work", "index"].map(|name| Path::new(work).join(name)) {
            let given = std::os::unix::fs::lchown(&name, Some(uid), Some(gid))
                .and_then(|()| fs::set_permissions(&name, fs::Permissions::from_mode(0o700)));
            match given {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Mounts an overlay of mapped mounts, which have to be attached for that while.
    fn mapped_overlay(
        &self,
        [lower, changes]: [&OwnedFd; 2],
        [upper, work]: [&PathBuf; 2],
        to: &Path,
    ) -> nix::Result<()> {
        let shared = common(upper, work).map_err(|_| nix::errno::Errno::EINVAL)?;
        let within = |path: &Path| path.strip_prefix(shared).unwrap_or(Path::new("")).to_owned();
        let places = [Path::new(root::LAYERS[0]), Path::new(root::LAYERS[1])];
        for (place, tree) in places.into_iter().zip([lower, changes]) {
            fs::create_dir_all(place).map_err(|_| nix::errno::Errno::EIO)?;
            idmap::attach(tree, place)?;
        }
        let named =
            [places[0].to_owned(), places[1].join(within(upper)), places[1].join(within(work))];
        let opened = named.map(|path| open(&path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()));
        let [lower, upper, work] = opened;
        let files = [lower?, upper?, work?];
        let names = [0, 1, 2].map(|at| self.name(&files[at]));
        let done = idmap::as_files_of(self.mapped, || self.overlay(names, to))?;
        drop(files);
        for place in places {
            nix::mount::umount2(place, nix::mount::MntFlags::MNT_DETACH)?;
            let _ = fs::remove_dir(place);
        }
        done
    }
}

fn open_path(path: &Path) -> Made<OwnedFd> {
    open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|error| format!("the mount source {path:?} cannot be opened: {error}"))
}

/// Shows `from` at `to` too.
pub(super) fn bind(from: &str, to: &Path) -> nix::Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(from), to, None::<&str>, flags, None::<&str>)
}

/// Makes the mount at `to` and every one below it read-only.
///
/// `proc` is where a `/proc` with this process is.
pub(super) fn make_read_only(proc: &str, to: &Path) -> nix::Result<()> {
    let table = fs::read(format!("{proc}/self/mountinfo")).unwrap_or_default();
    let real = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
    let below = mount_points(&table).into_iter().filter(|point| point.starts_with(&real));
    for point in below {
        // A user namespace may not clear the flags that its parent has set.
        let kept = nix::sys::statvfs::statvfs(&point)?.flags();
        let mut flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        use nix::sys::statvfs::FsFlags as F;
        for (seen, flag) in [
            (F::ST_NOSUID, MsFlags::MS_NOSUID),
            (F::ST_NODEV, MsFlags::MS_NODEV),
            (F::ST_NOEXEC, MsFlags::MS_NOEXEC),
            (F::ST_NOATIME, MsFlags::MS_NOATIME),
            (F::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
            (F::ST_RELATIME, MsFlags::MS_RELATIME),
        ] {
            flags.set(flag, kept.contains(seen));
        }
        mount(None::<&str>, &point, None::<&str>, flags, None::<&str>)?;
    }
    Ok(())
}

/// Returns the fifth field of each line of `mountinfo`, octal escapes undone, see proc_pid_mountinfo(5).
fn mount_points(table: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let field = |line: &[u8]| -> Option<PathBuf> {
        let raw = line.split(|b| *b == b' ').nth(4)?;
        let mut path = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let Some((byte, after)) = rest.split_first() {
            let octal =
                after.get(..3).filter(|d| *byte == b'\\' && d.iter().all(u8::is_ascii_digit));
            let escaped = octal
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 8).ok());
            path.push(escaped.unwrap_or(*byte));
            rest = if escaped.is_some() { &after[3..] } else { after };
        }
        Some(std::ffi::OsString::from_vec(path).into())
    };
    table.split(|b| *b == b'\n').filter_map(field).collect()
}

/// Takes one path out of the view; one that is not there is no error, one outside every mount is.
pub(super) fn remove(path: &Path, mounts: &[Mount]) -> Made<()> {
    let wrong = |why: String| format!("cannot take {path:?} out of the view: {why}");
    let writable = mounts.iter().filter(|m| !matches!(m, Mount::BindReadOnly { .. }));
    let Some(target) = writable.map(Mount::target).find(|to| path.starts_with(to) && path != *to)
    else {
        return Err(wrong("it lies in no mount of this view".into()));
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(wrong("it has no parent".into()));
    };
    // A link on the way would lead out of the view: then the path itself is not there.
    let real_target = fs::canonicalize(target).map_err(|e| wrong(e.to_string()))?;
    let within = parent.strip_prefix(target).unwrap_or(Path::new(""));
    let real_parent = match fs::canonicalize(parent) {
        Ok(real) if real == real_target.join(within) => real,
        _ => return Ok(()),
    };
    let real = real_parent.join(name);
    let done = match fs::symlink_metadata(&real) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(&real),
        Ok(_) => fs::remove_file(&real),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(wrong(error.to_string())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_unescaped() {
        let table = b"36 35 98:0 / /mnt\\040a rw - ext4 /dev/x rw\n37 36 0:1 / /b rw - t t rw\n\n";
        assert_eq!(mount_points(table), [PathBuf::from("/mnt a"), PathBuf::from("/b")]);
    }

    #[test]
    fn a_removal_stays_inside_its_mount() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("view/dir/deep")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        fs::write(root.join("outside/file"), "x").unwrap();
        std::os::unix::fs::symlink(root.join("outside"), root.join("view/link")).unwrap();
        let mounts = [Mount::Bind { from: "/".into(), to: root.join("view") }];
        remove(&root.join("view/link/file"), &mounts).unwrap();
        assert!(root.join("outside/file").exists());
        assert!(remove(&root.join("outside/file"), &mounts).is_err());
        assert!(remove(&root.join("view"), &mounts).is_err());
        remove(&root.join("view/dir"), &mounts).unwrap();
        remove(&root.join("view/none/at/all"), &mounts).unwrap();
        remove(&root.join("view/link"), &mounts).unwrap();
        assert!(!root.join("view/dir").exists() && !root.join("view/link").exists());
        assert!(root.join("outside/file").exists());
    }
}
