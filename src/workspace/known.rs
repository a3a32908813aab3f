//! What a walk remembers of a tree for the next one.
//!
//! Filled by `walk`, read by `snapshot` and `restore`.

use crate::workspace::ignored::Listed;
use crate::workspace::times::Moment;
use crate::workspace::tree;
use nix::sys::stat::FileStat;

/// How much a file system's clock may lag behind the system's, in nanoseconds: two ticks of 100 Hz.
const CLOCK_LAG: i128 = 20_000_000;
/// The same where times seem to be whole seconds.
const COARSE_LAG: i128 = 2_000_000_000;

/// What a walk knows, for the next one. Folders stand before those they hold; the first is the root.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) folders: Vec<Folder>,
}

/// A folder of the last walk.
#[derive(Debug)]
pub(super) struct Folder {
    /// Sorted by the bytes of their names.
    pub(super) entries: Vec<(Box<[u8]>, Entry)>,
    /// Its tree, recorded or not.
    pub(super) id: git2::Oid,
    /// Whether its parent's tree names it.
    pub(super) recorded: bool,
    /// The place of the folder it stands in.
    pub(super) above: usize,
    /// Whether its tree has to be made anew.
    pub(super) changed: bool,
    /// Whether its tree is in the store.
    pub(super) stored: bool,
}

/// A name in a folder.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// A file.
    File { mark: Mark, id: git2::Oid },
    /// A link.
    Link { mark: Mark, id: git2::Oid },
    /// A folder, by its place among the folders.
    Folder(usize),
    /// Something that snapshots do not hold.
    Ignored(Listed),
    /// A repository's own folder or pointer below the root.
    NestedGit,
    /// A FIFO, socket or device that was kept.
    Special,
}

/// By what a file is recognised as unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    size: i64,
    modified: i128,
    changed: i128,
    inode: u64,
    mode: libc::mode_t,
    settled: bool,
}

impl Mark {
    /// Makes the mark of a stat; `started` is when the walk began, in nanoseconds since 1970.
    pub(super) fn of(stat: &FileStat, started: i128) -> Self {
        let time =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let modified = time(stat.st_mtime, stat.st_mtime_nsec);
        let changed = time(stat.st_ctime, stat.st_ctime_nsec);
        let lag = if stat.st_ctime_nsec == 0 { COARSE_LAG } else { CLOCK_LAG };
        Self {
            size: stat.st_size,
            modified,
            changed,
            inode: stat.st_ino,
            mode: stat.st_mode,
            settled: changed.max(modified) < started - lag,
        }
    }

    /// Returns the mark of a file that is read again in any case.
    pub(super) fn unsettled(self) -> Self {
        Self { settled: false, ..self }
    }

    /// Tells whether a file with this mark then and that one now is surely the same.
    pub(super) fn still(&self, now: &Self) -> bool {
        self.settled && Self { settled: true, ..*now } == *self
    }

    /// Tells whether a file was touched since a moment and shows another time of its content.
    pub(super) fn is_touched_with_another_time(&self, since: Moment) -> bool {
        self.changed >= since.0 && self.modified != self.changed
    }

    /// Returns git's mode of a file with this mark.
    pub(super) fn file_mode(&self) -> u32 {
        if self.mode & libc::S_IXUSR == 0 { tree::FILE } else { tree::PROGRAM }
    }
}
