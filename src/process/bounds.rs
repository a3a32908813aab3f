//! Watches what a closed-in command uses up.
//!
//! Where no control group bounds it, the memory is that of its processes, and what lies in its folders in memory has
//! bounds of its own; else the kernel has killed one of it when it was too much. The disk is
//! what its file systems lose while it runs, whoever takes it: nothing that a command hides in its tree is
//! missed that way. `attend` asks and ends the command.

use super::job::{Job, Mount, View};
use super::{memory, procfs};
use nix::sys::statvfs::statvfs;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An empty file takes none of the disk, yet file systems have only so many: each counts as this much of the bound.
const BYTES_A_FILE: u64 = 1024;

/// Time between two looks.
const PACE: Duration = Duration::from_millis(200);
/// The same once half of a bound is used.
const FAST: Duration = Duration::from_millis(20);
/// A look takes at most this part of the time.
const SHARE: u32 = 10;
/// Bytes that are left to the rest of the machine, whatever the bound is.
const LEFT: u64 = 256 << 20;

/// What was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    Memory,
    Disk,
}

/// A file system that the command may write to.
#[derive(Debug)]
struct Place {
    path: PathBuf,
    free_then: Free,
}

/// What an ordinary user may still take of a file system, and what is taken.
#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: u64,
    /// Files that are there, and how many more there may be; nothing where the file system does not count them.
    files: Option<(u64, u64)>,
}

/// Watches one tree of processes and the file systems it writes to.
#[derive(Debug)]
pub(super) struct Watch {
    root: i32,
    memory: u64,
    processes: Option<u64>,
    /// Whether there were as many processes as there may be.
    crowded: bool,
    /// Who counts kills for want of memory, where a control group does.
    kills: Option<PathBuf>,
    disk: u64,
    places: Vec<Place>,
    next_look: Instant,
}

impl Watch {
    /// Starts watching the tree below `root`; nothing where the job is not closed in.
    pub(super) fn new(job: &Job, root: i32, now: Instant) -> Option<Self> {
        let enclosure = job.enclosure.as_ref()?;
        let mounts: &[Mount] = match &job.view {
            View::Namespace { mounts, .. } => mounts,
            // What Landlock lets it write to is all in the enclosure.
            View::Plain => &[],
        };
        let mut devices = BTreeSet::new();
        let written = mounts.iter().chain(&enclosure.system).filter_map(|mount| match mount {
            Mount::Bind { from, .. } => Some(from),
            Mount::Overlay { upper, .. } => Some(upper),
            _ => None,
        });
        let places = written
            .filter(|path| fs::metadata(path).is_ok_and(|found| devices.insert(found.dev())))
            .filter_map(|path| Some(Place { free_then: read_free(path)?, path: path.clone() }))
            .collect();
        let limits = &enclosure.limits;
        let (memory, disk) = (limits.memory.unwrap_or(u64::MAX), limits.disk);
        let processes = limits.processes;
        let (crowded, kills, next_look) = (false, None, now + FAST);
        Some(Self { root, memory, processes, crowded, kills, disk, places, next_look })
    }

    /// Watches the tree below this process from now on.
    pub(super) fn follow(&mut self, root: i32) {
        self.root = root;
    }

    /// Relies on a control group for memory and processes from now on; `kills` is the file that counts who was killed.
    pub(super) fn count_in(&mut self, kills: PathBuf) {
        self.kills = Some(kills);
    }

    /// Says whether there were ever as many processes as there may be; a control group says it better.
    pub(super) fn was_crowded(&self) -> bool {
        self.crowded
    }

    /// Returns when to look next.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks and says what is used up.
    pub(super) fn look(&mut self, now: Instant) -> Option<Exceeded> {
        let disk = self.places.iter().map(|place| place.standing(self.disk)).max();
        let memory = match &self.kills {
            Some(kills) => match memory::read_oom_kills_of(kills) {
                Some(1..) => Standing::Over,
                _ => Standing::Free,
            },
            None => standing(self.read_memory(), self.memory),
        };
        let worst = disk.map_or(memory, |disk| disk.max(memory));
        let pace = if worst == Standing::Free { PACE } else { FAST };
        self.next_look = Instant::now() + pace.max(now.elapsed() * SHARE);
        match (memory, disk) {
            (Standing::Over, _) => Some(Exceeded::Memory),
            (_, Some(Standing::Over)) => Some(Exceeded::Disk),
            _ => None,
        }
    }

    /// Returns the bytes of memory of all processes together.
    ///
    /// Pages that several have count as often as they have them, unless that is too much: then each counts
    /// once, which is dear to find out.
    fn read_memory(&mut self) -> u64 {
        let tree = procfs::descendants(self.root, &procfs::read_processes());
        self.crowded |= self.processes.is_some_and(|most| tree.len() as u64 >= most);
        let sum = |of: fn(i32) -> Option<u64>| tree.iter().filter_map(|one| of(one.pid)).sum();
        let plain: u64 = sum(procfs::read_resident);
        match plain > self.memory {
            false => plain,
            true => {
                sum(|pid| procfs::read_proportional(pid).or_else(|| procfs::read_resident(pid)))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Free,
    Half,
    Over,
}

fn standing(used: u64, bound: u64) -> Standing {
    match used {
        used if used > bound => Standing::Over,
        used if used > bound / 2 => Standing::Half,
        _ => Standing::Free,
    }
}

impl Place {
    fn standing(&self, bound: u64) -> Standing {
        let (then, now) = (self.free_then, read_free(&self.path).unwrap_or(self.free_then));
        // A disk that was nearly full before is not taken for this command's.
        let bytes = bound.min(then.bytes.saturating_sub(LEFT.min(then.bytes / 4)));
        let of_bytes = standing(then.bytes.saturating_sub(now.bytes), bytes);
        // How many more there may be changes with the bytes on some file systems: what is there does not.
        let of_files = then.files.zip(now.files).map(|((then, more), (now, _))| {
            standing(now.saturating_sub(then), (bound / BYTES_A_FILE).min(more - more / 4))
        });
        of_files.map_or(of_bytes, |of_files| of_files.max(of_bytes))
    }
}

fn read_free(path: &Path) -> Option<Free> {
    let found = statvfs(path).ok()?;
    #[expect(clippy::useless_conversion, reason = "on some systems these are smaller numbers")]
    let [blocks, size, files, unused, more] = [
        u64::from(found.blocks_available()),
        u64::from(found.fragment_size()),
        u64::from(found.files()),
        u64::from(found.files_free()),
        u64::from(found.files_available()),
    ];
    let files = (files > 0).then_some((files.saturating_sub(unused), more));
    Some(Free { bytes: blocks.saturating_mul(size), files })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_nobodys_and_a_bound_is_one() {
        assert_eq!([0, 5, 6, 10, 11].map(|used| standing(used, 10)), {
            use Standing::{Free, Half, Over};
            [Free, Free, Half, Half, Over]
        });
        let place = |bytes| Place { path: "/proc".into(), free_then: Free { bytes, files: None } };
        // Nothing is free in /proc: all that was there has gone.
        assert_eq!(place(0).standing(1 << 30), Standing::Free);
        assert_eq!(place(2 << 30).standing(1 << 30), Standing::Over);
        assert_eq!(place(2 << 30).standing(u64::MAX), Standing::Over, "some is left to the rest");
    }
}
