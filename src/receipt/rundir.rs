//! `.loopexec/` in the caller's tree: the folders of the runs, which is the latest, which go.
//!
//! What stands in a run's folder is written by the files named after it (`writer`, `blobs`, …).

use super::disk::{self, Durability};
use super::format;
use super::lock::Lock;
use super::reader::{self, RECEIPT};
use crate::error::{Error, Kind, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder where `receipt.dir` names no other.
pub const DEFAULT_DIR: &str = ".loopexec";

/// How many runs are kept.
pub const KEEP: usize = 20;

/// What names the latest run instead of an id.
pub const LATEST: &str = "latest";

/// Checks a run id that came from outside.
///
/// # Errors
/// `usage` for anything but a letter or digit and up to 63 of letters, digits, `.`, `_`, `-`.
pub fn check_run_id(id: &str) -> Result<()> {
    if id == LATEST {
        return Err(Error::new(Kind::Usage, "a run cannot be called latest")
            .hint("latest names the newest run; choose another id"));
    }
    if format::is_run_id(id) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Usage,
        format!("{:?} is no run id", id.chars().take(80).collect::<String>()),
    )
    .hint("a letter or digit, then up to 63 letters, digits, dots, underscores or hyphens"))
}

/// The folder of all runs of a tree.
#[derive(Debug, Clone)]
pub struct Home {
    dir: PathBuf,
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
    id: String,
    receipt: PathBuf,
}

impl Home {
    /// Opens the folder of a tree, or none when there never was a run.
    ///
    /// # Errors
    /// `workspace_invalid` when it, or a folder in it, is a symbolic link or no folder.
    pub fn find(tree: &Path, dir: &Path) -> Result<Option<Self>> {
        let dir = tree.join(dir);
        Ok(is_real_dir(&dir)?.then_some(Self { dir }))
    }

    /// Opens the folder of a tree, and makes it with an ignore file of its own.
    ///
    /// # Errors
    /// As `find`, and `storage_exhausted` when the disk is full.
    pub fn create(tree: &Path, dir: &Path) -> Result<Self> {
        let dir = tree.join(dir);
        let failed = |e| cannot("make", &dir, e);
        if !is_real_dir(&dir)? {
            std::fs::create_dir_all(&dir).map_err(failed)?;
        }
        let runs = dir.join("runs");
        if !is_real_dir(&runs)? {
            std::fs::create_dir(&runs).map_err(failed)?;
        }
        let ignore = dir.join(".gitignore");
        // An empty one is what a crash may leave; anything else is the caller's.
        let there = std::fs::symlink_metadata(&ignore);
        if there.map_or(true, |there| there.is_file() && there.len() == 0) {
            let temporary = dir.join(".gitignore.tmp");
            let written = disk::write_whole(&temporary, &ignore, b"*\n", Durability::Event);
            written.and_then(|()| disk::sync_dir(tree)).map_err(failed)?;
        }
        Ok(Self { dir })
    }

    /// Returns the folder itself.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Takes the lock of the tree for a run.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn acquire_lock(&self, run_id: &str) -> Result<Lock> {
        Lock::acquire(&self.lock_path(), run_id)
    }

    /// Returns where the lock of the tree stands.
    pub fn lock_path(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Makes the folder of a new run.
    ///
    /// # Errors
    /// `usage` for a bad id, `workspace_invalid` when the run exists.
    pub fn create_run(&self, id: &str) -> Result<RunDir> {
        check_run_id(id)?;
        let path = self.dir.join("runs").join(id);
        std::fs::create_dir(&path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::new(Kind::WorkspaceInvalid, format!("there is a run {id} already")).hint(
                    format!("go on with it: loopexec run --resume {id}; or choose another id"),
                )
            }
            _ => cannot("make", &path, e),
        })?;
        disk::sync_dir(&self.dir.join("runs")).map_err(|e| cannot("keep", &path, e))?;
        Ok(RunDir::at(path, id.to_owned()))
    }

    /// Opens the folder of a run by its id, or `latest`.
    ///
    /// # Errors
    /// `workspace_invalid` when there is no such run, `usage` for a bad id.
    pub fn open_run(&self, id: &str) -> Result<RunDir> {
        if id == LATEST {
            let latest = self.read_runs()?.pop();
            return latest.ok_or_else(|| {
                Error::new(Kind::WorkspaceInvalid, format!("no run in {}", self.dir.display()))
                    .hint("start one: loopexec run")
            });
        }
        check_run_id(id)?;
        let path = self.dir.join("runs").join(id);
        if is_real_dir(&path)? {
            return Ok(RunDir::at(path, id.to_owned()));
        }
        Err(Error::new(Kind::WorkspaceInvalid, format!("no run {id} in {}", self.dir.display()))
            .hint("loopexec status shows the latest one"))
    }

    /// Lists the runs, the one that started first being the first.
    ///
    /// # Errors
    /// `workspace_invalid` when the folder cannot be read.
    pub fn read_runs(&self) -> Result<Vec<RunDir>> {
        let runs = self.dir.join("runs");
        if !is_real_dir(&runs)? {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&runs).map_err(|e| cannot("read", &runs, e))? {
            let entry = entry.map_err(|e| cannot("read", &runs, e))?;
            let Ok(id) = entry.file_name().into_string() else { continue };
            if format::is_run_id(&id) && entry.file_type().is_ok_and(|t| t.is_dir()) {
                let run = RunDir::at(entry.path(), id);
                found.push((run.read_start(), run));
            }
        }
        found.sort_by(|(a, run), (b, other)| (a, &run.id).cmp(&(b, &other.id)));
        Ok(found.into_iter().map(|(_, run)| run).collect())
    }

    /// Removes all but the last `keep` runs that started, the last `keep` that were refused before they
    /// could, and the one the lock is held for.
    ///
    /// # Errors
    /// `workspace_invalid` when a folder cannot be removed.
    pub fn prune(&self, _lock: &Lock, current: &str, keep: usize) -> Result<()> {
        let runs = self.dir.join("runs");
        // Who mistypes a flag twenty times loses no run that did something.
        let (started, refused): (Vec<_>, Vec<_>) =
            self.read_runs()?.into_iter().partition(|run| run.id == current || run.has_started());
        for all in [started, refused] {
            let over = all.len().saturating_sub(keep);
            for run in all.iter().take(over).filter(|run| run.id != current) {
                // Renamed first, so that a crash leaves no run with half its files.
                let gone = runs.join(format!(".old-{}", run.id));
                std::fs::rename(&run.path, gone).map_err(|e| cannot("remove", &run.path, e))?;
            }
        }
        for entry in std::fs::read_dir(&runs).map_err(|e| cannot("read", &runs, e))? {
            let entry = entry.map_err(|e| cannot("read", &runs, e))?;
            if entry.file_name().to_string_lossy().starts_with(".old-") {
                let path = entry.path();
                std::fs::remove_dir_all(&path).map_err(|e| cannot("remove", &path, e))?;
            }
        }
        Ok(())
    }
}

impl RunDir {
    /// Opens a run's folder that stands elsewhere, such as a bundle that CI kept; its receipt
    /// says which run it is.
    ///
    /// # Errors
    /// `workspace_invalid` without a receipt, `objective_unverified` when its first line is bad.
    pub fn open(path: &Path) -> Result<Self> {
        let first = reader::read(path)?.next();
        let event = first.transpose()?.ok_or_else(|| {
            Error::new(Kind::WorkspaceInvalid, format!("no event in {}", path.display()))
        })?;
        let receipt = reader::receipt_path(path);
        let folder = receipt.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { path: folder, id: event.run, receipt })
    }

    fn at(path: PathBuf, id: String) -> Self {
        Self { receipt: path.join(RECEIPT), path, id }
    }

    /// Returns the run id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the receipt.
    pub fn receipt(&self) -> PathBuf {
        self.receipt.clone()
    }

    /// Returns the folder of blobs.
    pub fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    /// Returns the patch that leads from t0 to the end state.
    pub fn patch(&self) -> PathBuf {
        self.path.join("patch.diff")
    }

    /// Returns the supervisor's own git directory.
    pub fn snapshots(&self) -> PathBuf {
        self.path.join("snapshots.git")
    }

    /// Tells whether its first event holds a plan to run by; what cannot be read is nobody's to remove
    /// sooner.
    fn has_started(&self) -> bool {
        let first = reader::read(&self.path).ok().and_then(|mut events| events.next());
        match first {
            Some(Ok(event)) => event.body.get("plan").is_none_or(|plan| !plan.is_null()),
            Some(Err(_)) | None => true,
        }
    }

    /// Reads when the run started: its first event, else the age of its folder.
    fn read_start(&self) -> String {
        let first = reader::read(&self.path).ok().and_then(|mut events| events.next());
        if let Some(Ok(event)) = first {
            return event.time;
        }
        let modified = std::fs::symlink_metadata(&self.path).and_then(|m| m.modified());
        format::timestamp(modified.unwrap_or(SystemTime::UNIX_EPOCH))
    }
}

/// Tells whether a folder is there, and refuses what is something else.
fn is_real_dir(path: &Path) -> Result<bool> {
    let what = match std::fs::symlink_metadata(path) {
        Ok(there) if there.is_dir() => return Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Ok(there) if there.is_symlink() => "is a symbolic link".to_owned(),
        Ok(_) => "is no folder".to_owned(),
        Err(e) => format!("cannot be looked at: {e}"),
    };
    Err(Error::new(Kind::WorkspaceInvalid, format!("{} {what}", path.display()))
        .hint("move it away; loopexec keeps its runs in a folder of its own"))
}

fn cannot(doing: &str, path: &Path, source: io::Error) -> Error {
    Error::io(Kind::WorkspaceInvalid, format!("cannot {doing} {}", path.display()), source)
}

#[cfg(test)]
mod tests {
    use super::super::writer::{Options, Writer};
    use super::*;
    use serde_json::Map;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    fn home() -> (tempfile::TempDir, Home) {
        let tree = tempfile::tempdir().unwrap();
        let home = Home::create(tree.path(), Path::new(DEFAULT_DIR)).unwrap();
        (tree, home)
    }

    #[test]
    fn hostile_run_ids_are_refused() {
        for id in ["", ".", "..", "../x", "a/b", "-a", ".a", "a b", "é", "a\n", "latest"] {
            assert_eq!(check_run_id(id).unwrap_err().kind, Kind::Usage, "{id:?}");
        }
        assert!(check_run_id(&"a".repeat(65)).is_err());
        for id in ["a", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "run_1.2-x", &"a".repeat(64)] {
            check_run_id(id).unwrap();
        }
    }

    #[test]
    fn the_folder_hides_itself_from_git_and_is_made_once() {
        let (tree, home) = home();
        let ignore = tree.path().join(".loopexec/.gitignore");
        assert_eq!(std::fs::read(&ignore).unwrap(), b"*\n");
        std::fs::write(&ignore, "*\n# mine\n").unwrap();
        Home::create(tree.path(), Path::new(DEFAULT_DIR)).unwrap();
        assert_eq!(std::fs::read(&ignore).unwrap(), b"*\n# mine\n");
        home.create_run("R").unwrap();
        assert_eq!(home.create_run("R").unwrap_err().kind, Kind::WorkspaceInvalid);
    }

    #[test]
    fn a_link_or_a_file_in_place_of_the_folder_is_refused() {
        let tree = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let dir = tree.path().join(DEFAULT_DIR);
        symlink(elsewhere.path(), &dir).unwrap();
        assert!(Home::create(tree.path(), Path::new(DEFAULT_DIR)).is_err());
        assert!(Home::find(tree.path(), Path::new(DEFAULT_DIR)).is_err());
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        std::fs::remove_file(&dir).unwrap();
        std::fs::create_dir(&dir).unwrap();
        symlink(elsewhere.path(), dir.join("runs")).unwrap();
        assert!(Home::create(tree.path(), Path::new(DEFAULT_DIR)).is_err());
        std::fs::remove_file(dir.join("runs")).unwrap();
        let home = Home::create(tree.path(), Path::new(DEFAULT_DIR)).unwrap();
        symlink(elsewhere.path(), dir.join("runs/R")).unwrap();
        assert!(home.open_run("R").is_err());
        assert!(home.create_run("R").is_err());
        assert!(home.read_runs().unwrap().is_empty());
        assert!(home.open_run(LATEST).is_err());
    }

    #[test]
    fn the_latest_is_the_one_that_started_last_and_old_ones_go() {
        let (_tree, home) = home();
        let lock = home.acquire_lock("a").unwrap();
        let clocks: [fn() -> SystemTime; 3] = [
            || SystemTime::UNIX_EPOCH + Duration::from_secs(300),
            || SystemTime::UNIX_EPOCH + Duration::from_secs(100),
            || SystemTime::UNIX_EPOCH + Duration::from_secs(200),
        ];
        for (id, clock) in ["a", "b", "c"].into_iter().zip(clocks) {
            let run = home.create_run(id).unwrap();
            let options = Options { clock, ..Options::default() };
            Writer::create(&run, &lock, options).unwrap().append("run_start", Map::new()).unwrap();
        }
        let ids = |home: &Home| -> Vec<String> {
            home.read_runs().unwrap().iter().map(|run| run.id().to_owned()).collect()
        };
        assert_eq!(ids(&home), ["b", "c", "a"]);
        assert_eq!(home.open_run(LATEST).unwrap().id(), "a");
        assert_eq!(RunDir::open(home.open_run("b").unwrap().path()).unwrap().id(), "b");
        home.prune(&lock, "b", 1).unwrap();
        assert_eq!(ids(&home), ["b", "a"]);
        let left = std::fs::read_dir(home.path().join("runs")).unwrap().count();
        assert_eq!(left, 2);
    }
}
