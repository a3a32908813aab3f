//! Makes the detached workspace: the caller's working tree, with inodes and a `.git` of its own.
//!
//! What goes in is chosen by `carry`; the bytes of files are copied by `filling`, the new `.git` is
//! made by `history`. Nothing of the caller's is written to.

use crate::error::{Error, Kind, Result};
use crate::workspace::at::{Descent, Sort, kind_of};
use crate::workspace::caller::Caller;
use crate::workspace::carry::{self, Carry, Item, Measure, Visitor};
use crate::workspace::filling::{self, Filler, Filling};
use crate::workspace::history::{self, History, HistoryFact};
use crate::workspace::ignored::Ignored;
use crate::workspace::scan::read_scan;
use crate::workspace::store::Store;
use crate::workspace::{Stop, paths, places};
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, UtimensatFlags, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::symlinkat;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// What is done about uncommitted changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDirty {
    /// They are part of t0.
    Include,
    /// The run does not start.
    Refuse,
}

/// The `workspace.*` keys that decide how it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceOptions {
    /// Which ignored paths are carried.
    pub carry: Carry,
    /// The most bytes of ignored files that may be copied byte by byte.
    pub carry_max: u64,
    /// How many commits the workspace's `.git` holds.
    pub history: History,
    /// What is done about uncommitted changes.
    pub on_dirty: OnDirty,
}

/// What was made.
#[derive(Debug)]
pub struct Made {
    /// What is ignored in this run.
    pub ignored: Ignored,
    /// What the workspace's history is.
    pub history: HistoryFact,
    /// Whether the caller's tree had uncommitted changes.
    pub dirty: bool,
    /// The topmost ignored paths that were carried (`paths::escape`).
    pub carried: Vec<String>,
    /// Paths that were not carried, and why.
    pub left_behind: Vec<(String, String)>,
    /// Carried paths that name the caller's absolute place, which breaks where the workspace stands
    /// elsewhere.
    pub old_place: Vec<String>,
}

/// Makes the workspace in a folder that does not exist or is empty.
pub fn make(
    caller: &Caller,
    options: &WorkspaceOptions,
    dest: &Path,
    store: &Store,
    stop: Stop<'_>,
) -> Result<Made> {
    let dirty = caller.read_dirty(stop)?;
    if dirty && options.on_dirty == OnDirty::Refuse {
        return Err(Error::new(Kind::WorkspaceInvalid, "the working tree has uncommitted changes")
            .detail("dirty")
            .hint("commit or stash them, or set `workspace: { on_dirty: include }`"));
    }
    let scan = read_scan(caller, stop)?;
    places::create_folder(dest)?;
    if std::fs::read_dir(dest).is_ok_and(|mut listing| listing.next().is_some()) {
        let what = format!("the place for the workspace is not empty: {}", dest.display());
        return Err(Error::new(Kind::WorkspaceInvalid, what));
    }
    if options.carry != Carry::None && !can_reflink(&caller.root, dest) {
        let mut measure = Measure::default();
        carry::walk(&caller.root, &scan.ignored, &options.carry, &mut measure, stop)?;
        measure.check(options.carry_max)?;
    }
    let (carried, left_behind, old_place) = filling::scope(stop, |filler| {
        let mut copier = Copier {
            root: paths::as_bytes(&caller.root),
            to: Descent::open(dest)?,
            carried: Vec::new(),
            carried_below: 0,
            left_behind: Vec::new(),
            old_place: BTreeSet::new(),
            filler,
        };
        carry::walk(&caller.root, &scan.ignored, &options.carry, &mut copier, stop)?;
        Ok((copier.carried, copier.left_behind, copier.old_place))
    })?;
    let old_place = old_place.iter().map(|path| paths::escape(path)).collect();
    let history = history::make(caller, &scan, options.history, dest, store, stop)?;
    let top = Descent::open(&caller.root)?.read_stat(c".")?;
    let to = Descent::open(dest)?;
    set_attributes(&to, c".", &top)?;
    Ok(Made { ignored: scan.ignored, history, dirty, carried, left_behind, old_place })
}

/// Copies what the walk shows.
struct Copier<'a> {
    root: &'a [u8],
    to: Descent,
    carried: Vec<String>,
    /// Depth of the topmost carried folder plus one, 0 outside of any.
    carried_below: usize,
    left_behind: Vec<(String, String)>,
    old_place: BTreeSet<Vec<u8>>,
    filler: &'a Filler<'a>,
}

impl Copier<'_> {
    fn note_carried(&mut self, name: &CStr, item: Item) {
        if item == Item::Carried && self.carried_below == 0 {
            self.carried.push(paths::escape(&paths::join(self.to.path(), name.to_bytes())));
        }
    }

    /// Notes the carried path that a file naming the caller's place belongs to.
    fn note_old_place(&mut self, name: &CStr) {
        let path = paths::join(self.to.path(), name.to_bytes());
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let depth = if self.carried_below == 0 { parts.len() } else { self.carried_below };
        self.old_place.insert(parts[..depth.min(parts.len())].join(&b'/'));
    }
}

impl Visitor for Copier<'_> {
    fn enter(&mut self, name: &CStr, _: &FileStat, item: Item) -> Result<()> {
        self.note_carried(name, item);
        mkdirat(self.to.folder(), name, Mode::S_IRWXU)
            .map_err(|e| self.to.failure(name.to_bytes(), "cannot make the folder", e))?;
        self.to.enter(name)?;
        if item == Item::Carried && self.carried_below == 0 {
            self.carried_below = self.to.depth();
        }
        Ok(())
    }

    fn leave(&mut self, _: &Descent, name: &CStr, stat: &FileStat) -> Result<()> {
        if self.carried_below == self.to.depth() {
            self.carried_below = 0;
        }
        self.to.leave()?;
        set_attributes(&self.to, name, stat)
    }

    fn leaf(&mut self, from: &Descent, name: &CStr, stat: &FileStat, item: Item) -> Result<()> {
        let bytes = name.to_bytes();
        if kind_of(stat) == Sort::Link {
            let target = readlinkat(from.folder(), name)
                .map_err(|e| from.failure(bytes, "cannot read the link", e))?;
            symlinkat(target.as_os_str(), self.to.folder(), name)
                .map_err(|e| self.to.failure(bytes, "cannot make the link", e))?;
            set_link_times(&self.to, name, stat)?;
            if item == Item::Carried && target.into_vec().starts_with(self.root) {
                self.note_old_place(name);
            }
        } else {
            let source =
                from.open_file(name).map_err(|e| from.failure(bytes, "cannot read the file", e))?;
            let names_place =
                item == Item::Carried && names_old_place(&source, self.to.path(), bytes, self.root);
            let target = create_file(&self.to, name)?;
            let path = paths::join(self.to.path(), bytes);
            self.filler.send(Filling { source, target, stat: *stat, path })?;
            if names_place {
                self.note_old_place(name);
            }
        }
        self.note_carried(name, item);
        Ok(())
    }

    fn behind(&mut self, path: &[u8], why: &'static str) {
        self.left_behind.push((paths::escape(path), why.to_string()));
    }
}

/// Makes the new inode that a file's bytes will go to.
fn create_file(to: &Descent, name: &CStr) -> Result<File> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    openat(to.folder(), name, flags, Mode::S_IRUSR | Mode::S_IWUSR)
        .map(File::from)
        .map_err(|e| to.failure(name.to_bytes(), "cannot make the file", e))
}

fn set_attributes(to: &Descent, name: &CStr, stat: &FileStat) -> Result<()> {
    // The workspace is the supervisor's to enter, whatever the caller's mode says.
    let mode = permissions(stat).bits() | libc::S_IRWXU;
    to.change_mode(name, mode)
        .and_then(|()| {
            let follow = UtimensatFlags::FollowSymlink;
            utimensat(to.folder(), name, &accessed(stat), &modified(stat), follow)
        })
        .map_err(|e| to.failure(name.to_bytes(), "cannot set mode and times of", e))
}

fn set_link_times(to: &Descent, name: &CStr, stat: &FileStat) -> Result<()> {
    let flag = UtimensatFlags::NoFollowSymlink;
    utimensat(to.folder(), name, &accessed(stat), &modified(stat), flag)
        .map_err(|e| to.failure(name.to_bytes(), "cannot set the times of", e))
}

/// The permission bits without set-user-id and its kin: a copy by root must not become one of root.
pub(super) fn permissions(stat: &FileStat) -> Mode {
    Mode::from_bits_truncate(stat.st_mode & 0o777)
}

pub(super) fn accessed(stat: &FileStat) -> TimeSpec {
    TimeSpec::new(stat.st_atime, stat.st_atime_nsec)
}

pub(super) fn modified(stat: &FileStat) -> TimeSpec {
    TimeSpec::new(stat.st_mtime, stat.st_mtime_nsec)
}

/// Tells whether a carried file is one of those that tie a folder to its absolute place.
fn names_old_place(file: &File, folder: &[u8], name: &[u8], root: &[u8]) -> bool {
    // Cargo records absolute paths in its fingerprints and rebuilds when they move.
    if name == b".rustc_info.json" {
        return true;
    }
    let script = paths::name(folder) == b"bin" || paths::name(folder) == b"Scripts";
    let pointer =
        [&b".pth"[..], b".egg-link", b"direct_url.json"].iter().any(|e| name.ends_with(e));
    let editable = name.starts_with(b"__editable__");
    if !(script || pointer || editable) {
        return false;
    }
    use std::os::unix::fs::FileExt;
    let mut start = [0; 4096];
    let length = file.read_at(&mut start, 0).unwrap_or(0);
    start[..length].windows(root.len()).any(|part| part == root)
}

/// Tells by doing it whether a file of a tree shares its extents with a copy in a folder.
pub fn can_reflink(root: &Path, dest: &Path) -> bool {
    let Ok(listing) = std::fs::read_dir(root) else { return false };
    let sample = listing.flatten().find(|entry| {
        let size = entry.metadata().map_or(0, |found| found.len());
        entry.file_type().is_ok_and(|kind| kind.is_file()) && size > 0
    });
    let Some(sample) = sample else { return false };
    let probe = dest.join(std::ffi::OsStr::from_bytes(b".reflink-probe"));
    let cloned = reflink_copy::reflink(sample.path(), &probe).is_ok();
    let _ = std::fs::remove_file(&probe);
    cloned
}
