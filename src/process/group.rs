//! A control group for the commands of a zone: the kernel counts the memory and the processes of the whole tree,
//! also what lies in files in memory, and keeps them below a bound.
//!
//! One is made per command by its launcher, beside or below the group that loopexec is in, and goes with it. Version 2
//! (`memory.max`, `pids.max`) where the controllers are on for the children of a group that we may write to, else version 1
//! (`memory.limit_in_bytes`, `pids.max`). Nothing is switched on that was not: a machine's groups belong to its owner.

use super::enclosure::Limits;
use super::memory::{CONTROLLER_ROOT, counter, folders};
use nix::errno::Errno;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How every refusal to make one begins, so that a bound is held another way.
pub const NO_GROUP: &str = "no control group";

/// The start of the name of every group of ours.
const PREFIX: &str = "loopexec-";
/// Names that are tried: a launcher in another pid namespace may have the same number.
const NAMES: u32 = 100;
/// A younger group may be one that is just being made and has no lock yet.
const YOUNG: Duration = Duration::from_secs(60);
/// How long the last processes of a group may take to leave it.
const LEAVING: Duration = Duration::from_secs(1);

/// The groups of one command: one of version 2, or one for each controller of version 1.
#[derive(Debug)]
pub(super) struct Group {
    folders: Vec<Folder>,
    /// The file that counts kills for want of memory.
    kills: PathBuf,
    counters: Counters,
}

/// One folder below `/sys/fs/cgroup`, held by its files: in the command's namespace its path means nothing.
#[derive(Debug)]
struct Folder {
    parent: File,
    name: String,
    /// Locked while it is in use.
    _lock: File,
    members: File,
}

/// What the kernel counted, to be asked from inside.
#[derive(Debug)]
pub(super) struct Counters {
    kills: File,
    refusals: File,
}

impl Counters {
    /// Returns how many processes were killed for want of memory, and how often there was no room for another one.
    pub(super) fn read(&mut self) -> (u64, u64) {
        let read = |file: &mut File, name| {
            let mut text = String::new();
            let whole = file.rewind().and_then(|()| file.read_to_string(&mut text));
            whole.ok().and_then(|_| counter(&text, name)).unwrap_or(0)
        };
        (read(&mut self.kills, "oom_kill"), read(&mut self.refusals, "max"))
    }
}

impl Group {
    /// Makes the groups of a command; the error says what kept us from it.
    pub(super) fn make(limits: &Limits) -> Result<Self, String> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let made = match parents_v2(&own) {
            parents if parents.is_empty() => Self::make_v1(&own, limits),
            parents => first(&parents, |parent| Self::make_v2(parent, limits))
                .or_else(|error| Self::make_v1(&own, limits).map_err(|_| error)),
        };
        made.map_err(|error| format!("{NO_GROUP} can be made here: {error}"))
    }

    fn make_v2(parent: &Path, limits: &Limits) -> io::Result<Self> {
        let (folder, path) = Folder::make(parent)?;
        let held = || -> io::Result<Self> {
            if let Some(most) = limits.memory {
                fs::write(path.join("memory.max"), most.to_string())?;
                // Where there is no swap there is no such file.
                let _ = fs::write(path.join("memory.swap.max"), "0");
            }
            bound_processes(&path, limits)?;
            let kills = path.join("memory.events");
            let counters = Counters::open(&kills, &path)?;
            Ok(Self { folders: Vec::new(), kills, counters })
        };
        with_folders(vec![folder], held)
    }

    fn make_v1(own: &str, limits: &Limits) -> io::Result<Self> {
        let mut made = Vec::new();
        for controller in ["memory", "pids"] {
            match first(&folders(own, controller), Folder::make) {
                Ok(one) => made.push(one),
                Err(error) => {
                    remove(made.iter().map(|(folder, _)| folder));
                    return Err(error);
                }
            }
        }
        let paths: Vec<PathBuf> = made.iter().map(|(_, path)| path.clone()).collect();
        let held = || -> io::Result<Self> {
            let [memory, pids] = paths.as_slice() else { return Err(Errno::ENOENT.into()) };
            if let Some(most) = limits.memory {
                fs::write(memory.join("memory.limit_in_bytes"), most.to_string())?;
                // Not every kernel counts swap.
                let _ = fs::write(memory.join("memory.memsw.limit_in_bytes"), most.to_string());
            }
            bound_processes(pids, limits)?;
            let kills = memory.join("memory.oom_control");
            let counters = Counters::open(&kills, pids)?;
            Ok(Self { folders: Vec::new(), kills, counters })
        };
        with_folders(made.into_iter().map(|(folder, _)| folder).collect(), held)
    }

    /// Puts the calling process into them.
    pub(super) fn enter(&self) -> io::Result<()> {
        self.folders.iter().try_for_each(|folder| (&folder.members).write_all(b"0"))
    }

    /// Returns the file that counts kills for want of memory, as loopexec finds it.
    pub(super) fn kills(&self) -> &Path {
        &self.kills
    }

    /// Returns what the kernel counted, see [`Counters::read`].
    pub(super) fn read(&mut self) -> (u64, u64) {
        self.counters.read()
    }

    /// Keeps, for a process inside, what it can ask.
    pub(super) fn into_counters(self) -> Counters {
        self.counters
    }

    /// Takes them away, as soon as their last process has gone.
    pub(super) fn remove(self) {
        remove(self.folders.iter());
    }
}

impl Counters {
    fn open(kills: &Path, processes: &Path) -> io::Result<Self> {
        Ok(Self { kills: File::open(kills)?, refusals: File::open(processes.join("pids.events"))? })
    }
}

impl Folder {
    /// Makes a group below `parent`.
    fn make(parent: &Path) -> io::Result<(Self, PathBuf)> {
        sweep(parent);
        let pid = std::process::id();
        for name in (0..NAMES).map(|at| format!("{PREFIX}{pid}-{at}")) {
            let path = parent.join(&name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    let held = || -> io::Result<Self> {
                        let lock = File::open(&path)?;
                        // A group without a lock stays until it is old, no more.
                        let _ = lock.lock();
                        let members =
                            fs::OpenOptions::new().write(true).open(path.join("cgroup.procs"))?;
                        Ok(Self { parent: File::open(parent)?, name, _lock: lock, members })
                    };
                    return match held() {
                        Ok(folder) => Ok((folder, path)),
                        Err(error) => {
                            let _ = fs::remove_dir(&path);
                            Err(error)
                        }
                    };
                }
            }
        }
        Err(Errno::EEXIST.into())
    }
}

/// Returns what can be made below the first parent where it can be made; the error is the last one's.
fn first<T>(parents: &[PathBuf], make: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    let mut made = Err(Errno::ENOENT.into());
    for parent in parents {
        made = make(parent);
        if made.is_ok() {
            break;
        }
    }
    made
}

/// Gives what was made its folders, or takes them away.
fn with_folders(
    folders: Vec<Folder>,
    held: impl FnOnce() -> io::Result<Group>,
) -> io::Result<Group> {
    match held() {
        Ok(group) => Ok(Group { folders, ..group }),
        Err(error) => {
            remove(folders.iter());
            Err(error)
        }
    }
}

fn bound_processes(path: &Path, limits: &Limits) -> io::Result<()> {
    // Process 1, which is ours, counts too.
    let most = limits.processes.map_or("max".to_owned(), |most| most.saturating_add(1).to_string());
    fs::write(path.join("pids.max"), most)
}

fn remove<'a>(folders: impl Iterator<Item = &'a Folder>) {
    let begun = SystemTime::now();
    for folder in folders {
        let remove =
            || unlinkat(folder.parent.as_fd(), folder.name.as_str(), UnlinkatFlags::RemoveDir);
        while remove() == Err(Errno::EBUSY)
            && begun.elapsed().is_ok_and(|elapsed| elapsed < LEAVING)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Takes away the groups that killed launchers have left below a parent: nobody is in them, or they stay.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let made = entry.metadata().ok().and_then(|found| found.modified().ok());
        let age = made.and_then(|made| made.elapsed().ok()).unwrap_or_default();
        if age >= YOUNG && File::open(entry.path()).is_ok_and(|one| one.try_lock().is_ok()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Returns the groups of version 2, nearest first, whose children have both controllers.
fn parents_v2(own: &str) -> Vec<PathBuf> {
    let root = Path::new(CONTROLLER_ROOT);
    if !root.join("cgroup.controllers").exists() {
        return Vec::new();
    }
    let has_both = |folder: &&Path| {
        let on = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        ["memory", "pids"].iter().all(|wanted| on.split_whitespace().any(|one| one == *wanted))
    };
    let nearest = folders(own, "").into_iter().find(|folder| folder.exists());
    let all = nearest.as_deref().map(Path::ancestors).into_iter().flatten();
    all.take_while(|folder| folder.starts_with(root)).filter(has_both).map(Path::to_owned).collect()
}
