//! Whether anything still moves; `attend` asks and decides.

use super::procfs;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Watches one tree of processes and some folders.
#[derive(Debug)]
pub(super) struct IdleWatch {
    limit: Duration,
    watch: Vec<PathBuf>,
    root: i32,
    last_life: Instant,
    activity: (u64, BTreeSet<i32>),
    next_look: Instant,
}

impl IdleWatch {
    /// Starts watching the tree below `root`.
    pub(super) fn new(limit: Duration, watch: Vec<PathBuf>, root: i32, now: Instant) -> Self {
        let activity = (0, BTreeSet::new());
        let next_look = now + Self::pace(limit);
        Self { limit, watch, root, last_life: now, activity, next_look }
    }

    fn pace(limit: Duration) -> Duration {
        (limit / 5).clamp(Duration::from_millis(20), Duration::from_secs(2))
    }

    /// Watches the tree below this process from now on.
    pub(super) fn follow(&mut self, root: i32) {
        self.root = root;
    }

    /// Notes that output came.
    pub(super) fn note_output(&mut self) {
        self.last_life = Instant::now();
    }

    /// Returns when to look next.
    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks and says whether nothing has moved for the limit.
    ///
    /// The folders are walked only when all else is still, for that is the dear part.
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        self.next_look = now + Self::pace(self.limit);
        let activity = procfs::read_activity(self.root);
        if activity != self.activity {
            self.activity = activity;
            self.last_life = now;
        }
        if now.duration_since(self.last_life) < self.limit {
            return false;
        }
        match read_newest_change(&self.watch)
            .and_then(|at| SystemTime::now().duration_since(at).ok())
        {
            Some(age) if age < self.limit => {
                self.last_life = now.checked_sub(age).unwrap_or(now);
                false
            }
            _ => true,
        }
    }
}

/// Returns the newest change below the folders, by the time that no program can set back.
fn read_newest_change(folders: &[PathBuf]) -> Option<SystemTime> {
    use std::os::unix::fs::MetadataExt;
    let mut newest: Option<SystemTime> = None;
    let mut next = folders.to_vec();
    while let Some(path) = next.pop() {
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        let seconds = u64::try_from(found.ctime()).unwrap_or(0);
        let nanos = u32::try_from(found.ctime_nsec()).unwrap_or(0);
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        newest = newest.max(Some(changed));
        if found.is_dir() {
            let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
            next.extend(entries.map(|entry| entry.path()));
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deep_change_counts_and_nothing_at_all_does_not() {
        assert_eq!(read_newest_change(&[]), None);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        let before = read_newest_change(&[folder.path().into()]).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        std::fs::write(folder.path().join("a/b/c"), "x").unwrap();
        assert!(read_newest_change(&[folder.path().into()]).unwrap() > before);
    }
}
