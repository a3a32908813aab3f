//! Times that say when a file was really changed.
//!
//! Build tools take a file for unchanged when its time is older than what they built from it. Exec
//! may leave such files behind, on purpose or by unpacking, copying with times or moving folders:
//! they get the present time before the check builds. What a return to a snapshot writes has it
//! anyway (`restore`).

use crate::error::Result;
use crate::workspace::beneath::{Beneath, Way};
use crate::workspace::copying::failed;
use crate::workspace::delta::read_delta;
use crate::workspace::paths;
use crate::workspace::snapshot::Snapshotter;
use crate::workspace::store::Store;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{UtimensatFlags, fstatat, utimensat};
use nix::sys::time::TimeSpec;
use std::collections::BTreeMap;
use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A moment by the clock of a file system, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub(super) i128);

/// Reads the present moment by the clock of the file system that holds a folder.
///
/// # Errors
/// `storage_exhausted` or `workspace_invalid` when no file can be made there.
pub fn read_moment(folder: &Path) -> Result<Moment> {
    let path = folder.join(".moment");
    let read = || {
        let file = File::create(&path)?;
        file.set_times(FileTimes::new().set_modified(SystemTime::now()))?;
        let found = file.metadata()?;
        std::fs::remove_file(&path)?;
        Ok(Moment(nanoseconds(found.ctime(), found.ctime_nsec())))
    };
    read().map_err(|e| failed("write", &path, e))
}

/// Gives the present time to files whose own does not tell that they changed after `since`; returns
/// how many.
///
/// These are all that were touched since then and show another time than that, and those that
/// differ from the snapshot `base` in `now` and show an older one. The snapshotter has just walked
/// the tree; no process may write to it meanwhile.
///
/// # Errors
/// `workspace_invalid` when a file cannot be changed or a snapshot is not in the store.
pub fn renew(
    snapshotter: &Snapshotter,
    root: &Path,
    store: &Store,
    base: &str,
    now: &str,
    since: Moment,
) -> Result<usize> {
    let mut stale: BTreeMap<PathBuf, Time> = BTreeMap::new();
    for change in read_delta(store.repository(), base, now)?.changes {
        stale.insert(change.path, Time::IfOlder);
    }
    for path in snapshotter.touched_with_another_time(since) {
        stale.insert(paths::as_path(&path).to_owned(), Time::Any);
    }
    if stale.is_empty() {
        return Ok(0);
    }
    let beneath = Beneath::open(root)?;
    let mut renewed = 0;
    for (path, time) in &stale {
        let (above, name) = beneath.split(path)?;
        let Way::Open(folder) = beneath.open_folder(above)? else { continue };
        let problem = |e: Errno| failed("change the time of", &beneath.full(path), e.into());
        let stat = match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => continue,
            Err(e) => return Err(problem(e)),
        };
        let is_file = stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        let modified = nanoseconds(stat.st_mtime, stat.st_mtime_nsec);
        if is_file && (*time == Time::Any || modified < since.0) {
            let (now, flags) = (TimeSpec::UTIME_NOW, UtimensatFlags::NoFollowSymlink);
            utimensat(&folder, name, &now, &now, flags).map_err(problem)?;
            renewed += 1;
        }
    }
    Ok(renewed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    /// Whatever it shows, it is not the one of the last change.
    Any,
    /// It may tell of the change.
    IfOlder,
}

fn nanoseconds(seconds: i64, nanos: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanos)
}
