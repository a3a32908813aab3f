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
use std::time::{Duration, Instant};

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
    fn open(kills: &Path, processes: &Path) -> io::Result<Self> {
        Ok(Self { kills: File::open(kills)?, refusals: File::open(processes.join("pids.events"))? })
    }

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
        let root = Path::new(CONTROLLER_ROOT);
        let made = match parents_v2(root, &own) {
            parents if parents.is_empty() => Self::make_v1(root, &own, limits),
            parents => first(&parents, |parent| Self::make_v2(parent, limits))
                .or_else(|error| Self::make_v1(root, &own, limits).map_err(|_| error)),
        };
        made.map_err(|error| format!("{NO_GROUP} can be made here: {error}"))
    }

    fn make_v2(parent: &Path, limits: &Limits) -> io::Result<Self> {
        let (folder, path) = Folder::make(parent)?;
        let bounded = || -> io::Result<PathBuf> {
            if let Some(most) = limits.memory {
                fs::write(path.join("memory.max"), most.to_string())?;
                // Where there is no swap there is no such file.
                let _ = fs::write(path.join("memory.swap.max"), "0");
            }
            bound_processes(&path, limits)?;
            Ok(path.join("memory.events"))
        };
        Self::of(vec![folder], bounded(), &path)
    }

    fn make_v1(root: &Path, own: &str, limits: &Limits) -> io::Result<Self> {
        let mut made = Vec::new();
        for controller in ["memory", "pids"] {
            match first(&folders(root, own, controller), Folder::make) {
                Ok(one) => made.push(one),
                Err(error) => {
                    remove(made.iter().map(|(folder, _)| folder));
                    return Err(error);
                }
            }
        }
        let (made, paths): (Vec<Folder>, Vec<PathBuf>) = made.into_iter().unzip();
        let [memory, pids] = paths.as_slice() else { return Err(Errno::ENOENT.into()) };
        let bounded = || -> io::Result<PathBuf> {
            if let Some(most) = limits.memory {
                fs::write(memory.join("memory.limit_in_bytes"), most.to_string())?;
                // Not every kernel counts swap.
                let _ = fs::write(memory.join("memory.memsw.limit_in_bytes"), most.to_string());
            }
            bound_processes(pids, limits)?;
            Ok(memory.join("memory.oom_control"))
        };
        Self::of(made, bounded(), pids)
    }

    /// Puts together what was made, or takes it away where it bounds nothing.
    fn of(folders: Vec<Folder>, bounded: io::Result<PathBuf>, pids: &Path) -> io::Result<Self> {
        let counted = bounded.and_then(|kills| Ok((Counters::open(&kills, pids)?, kills)));
        match counted {
            Ok((counters, kills)) => Ok(Self { folders, kills, counters }),
            Err(error) => {
                remove(folders.iter());
                Err(error)
            }
        }
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

fn bound_processes(path: &Path, limits: &Limits) -> io::Result<()> {
    // Process 1, which is ours, counts too.
    let most = limits.processes.map_or("max".to_owned(), |most| most.saturating_add(1).to_string());
    fs::write(path.join("pids.max"), most)
}

fn remove<'a>(folders: impl Iterator<Item = &'a Folder>) {
    let begun = Instant::now();
    for folder in folders {
        let remove =
            || unlinkat(folder.parent.as_fd(), folder.name.as_str(), UnlinkatFlags::RemoveDir);
        while remove() == Err(Errno::EBUSY) && begun.elapsed() < LEAVING {
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

/// Returns the groups of version 2 below `root`, nearest first, whose children have both controllers.
fn parents_v2(root: &Path, own: &str) -> Vec<PathBuf> {
    if !root.join("cgroup.controllers").exists() {
        return Vec::new();
    }
    let has_both = |folder: &&Path| {
        let on = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        ["memory", "pids"].iter().all(|wanted| on.split_whitespace().any(|one| one == *wanted))
    };
    let nearest = folders(root, own, "").into_iter().find(|folder| folder.exists());
    let all = nearest.as_deref().map(Path::ancestors).into_iter().flatten();
    all.take_while(|folder| folder.starts_with(root)).filter(has_both).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_where_both_controllers_are_on_and_nowhere_above_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cgroup");
        fs::create_dir_all(root.join("user/app/own")).unwrap();
        let on = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        assert!(parents_v2(&root, "0::/user/app/own\n").is_empty(), "not of version 2");
        on("cgroup.controllers", "cpu memory pids\n");
        on("cgroup.subtree_control", "cpu memory pids\n");
        on("user/cgroup.subtree_control", "memory pids\n");
        on("user/app/cgroup.subtree_control", "memory\n");
        fs::write(folder.path().join("cgroup.subtree_control"), "memory pids\n").unwrap();
        let found = parents_v2(&root, "1:cpu:/\n0::/user/app/own\n");
        assert_eq!(found, [root.join("user"), root.clone()]);
        // A container shows its own group as the root, whatever it is called outside.
        assert_eq!(parents_v2(&root, "0::/elsewhere\n"), [root]);
    }

    #[test]
    fn what_is_in_use_or_new_is_not_swept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let old = fs::FileTimes::new().set_modified(std::time::SystemTime::now() - 2 * YOUNG);
        for name in ["loopexec-1-0", "loopexec-2-0", "loopexec-3-0", "other"] {
            fs::create_dir(at(name)).unwrap();
            if name != "loopexec-3-0" {
                File::open(at(name)).unwrap().set_times(old).unwrap();
            }
        }
        let used = File::open(at("loopexec-2-0")).unwrap();
        used.lock().unwrap();
        sweep(folder.path());
        let left =
            ["loopexec-1-0", "loopexec-2-0", "loopexec-3-0", "other"].map(|n| at(n).exists());
        assert_eq!(left, [false, true, true, true]);
    }
}
