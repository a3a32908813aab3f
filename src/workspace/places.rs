//! Where a run's cache is: workspace, layer and copies, never inside the caller's tree. What stays
//! of a run lies where `receipt::rundir` puts it.
//!
//! Environment values come in through [`Surroundings`]; nothing here reads a variable itself but
//! [`Surroundings::read`]. Locking a run is the duty of `receipt`.

use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use crate::workspace::{at, copies, paths};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The file in a run's cache folder that its supervisor holds locked.
pub const CACHE_LOCK: &str = "lock";

/// The file in a run's cache folder that says the cache is whole; its content is the run's own.
pub const CACHE_FACTS: &str = "facts.json";

/// The variables that decide where things are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `PATH`, where `git` is found.
    pub path: OsString,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`, for the person's git configuration.
    pub xdg_config_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<PathBuf>,
    /// `LOOPEXEC_CACHE`.
    pub loopexec_cache: Option<PathBuf>,
    /// `SUDO_UID`: to root, git takes what is this user's for the caller's own.
    pub sudo_uid: Option<OsString>,
    /// The CI runner's temporary folder (`RUNNER_TEMP` and its kin).
    pub runner_temp: Option<PathBuf>,
}

impl Surroundings {
    /// Reads them from a lookup, `std::env::var_os` in a real run; empty values count as unset.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let folder =
            |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // GitLab and Jenkins name their per-job folder differently.
        let runner_temp = folder("RUNNER_TEMP").or_else(|| folder("WORKSPACE_TMP"));
        Self {
            path: variable("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()),
            home: folder("HOME").filter(|p| p.is_absolute()),
            xdg_config_home: folder("XDG_CONFIG_HOME").filter(|p| p.is_absolute()),
            xdg_cache_home: folder("XDG_CACHE_HOME").filter(|p| p.is_absolute()),
            loopexec_cache: folder("LOOPEXEC_CACHE"),
            sudo_uid: variable("SUDO_UID"),
            runner_temp: runner_temp.filter(|p| p.is_absolute()),
        }
    }
}

/// The folders of one run's cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The folder of all runs' caches of this caller.
    pub caches: PathBuf,
    /// This run's cache: workspace, layer, copies.
    pub cache: PathBuf,
}

impl Places {
    /// Decides where a run's folders are; nothing is made yet.
    pub fn of(root: &Path, run_id: &str, surroundings: &Surroundings) -> Result<Self> {
        check_run_id(run_id)?;
        let caches = choose_caches(root, surroundings)?;
        Ok(Self { cache: caches.join(run_id), caches })
    }

    /// Makes this run's cache.
    pub fn create(&self) -> Result<()> {
        create_folder(&self.cache)
    }
}

/// Refuses a run id that is not `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
pub fn check_run_id(id: &str) -> Result<()> {
    let bytes = id.as_bytes();
    let good = (1..=64).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b));
    if good {
        return Ok(());
    }
    let shown: String = id.chars().take(80).collect();
    let what = format!("no valid run id: \"{}\"", paths::escape(shown.as_bytes()));
    Err(Error::new(Kind::Usage, what)
        .hint("a run id is a letter or digit and then up to 63 letters, digits, dots, dashes and underscores"))
}

/// Returns the folder of this caller's caches: never inside its tree, and on a real disk where
/// there is a choice.
pub fn choose_caches(root: &Path, surroundings: &Surroundings) -> Result<PathBuf> {
    let key = &hex::sha256(paths::as_bytes(root))[..16];
    if let Some(named) = &surroundings.loopexec_cache {
        let folder = std::path::absolute(named).map_err(|e| cannot_make(named, e))?;
        if is_inside(&folder, root) {
            let what = format!("LOOPEXEC_CACHE is inside the caller's tree: {}", folder.display());
            return Err(Error::new(Kind::WorkspaceInvalid, what)
                .hint("name a folder outside the working tree"));
        }
        return Ok(folder.join(key));
    }
    let uid = nix::unistd::geteuid();
    let personal = surroundings
        .xdg_cache_home
        .clone()
        .or_else(|| surroundings.home.as_ref().map(|home| home.join(".cache")))
        .map(|cache| cache.join("loopexec"));
    let candidates: Vec<PathBuf> = [
        surroundings.runner_temp.as_ref().map(|folder| folder.join("loopexec")),
        personal,
        Some(PathBuf::from(format!("/var/tmp/loopexec-{uid}"))),
        Some(PathBuf::from(format!("/tmp/loopexec-{uid}"))),
    ]
    .into_iter()
    .flatten()
    .filter(|folder| !is_inside(folder, root) && create_folder(folder).is_ok())
    .collect();
    let chosen = candidates.iter().find(|folder| is_on_disk(folder)).or(candidates.first());
    chosen.map(|folder| folder.join(key)).ok_or_else(|| {
        Error::new(
            Kind::WorkspaceInvalid,
            "there is no folder for the workspace that can be written",
        )
        .hint("set LOOPEXEC_CACHE to a folder outside the working tree")
    })
}

/// The start of the names of caches that are being removed; no run id begins like it.
const GONE: &str = ".gone-";

/// Makes a cache and takes its lock, both by `make`, while nobody else of this caller does either, and removes the
/// caches of runs whose supervisor is gone, but those named. A cache that has no lock yet looks like one of them.
///
/// # Errors
/// What `make` says; `workspace_invalid` when the folder of caches cannot be made.
pub fn claim_cache<T>(caches: &Path, keep: &[&str], make: impl FnOnce() -> Result<T>) -> Result<T> {
    create_folder(caches)?;
    let folder = File::open(caches).map_err(|source| cannot_make(caches, source))?;
    // A file system without locks has nobody beside us that could take one.
    let _ = folder.lock();
    set_dead_caches_aside(caches, keep);
    let made = make();
    drop(folder);
    // Removing takes a while, and nobody has to wait for it.
    let gone = read_folders(caches).into_iter().filter(|(name, _)| name.starts_with(GONE));
    for (_, folder) in gone {
        // What an agent made undeletable costs space, never the next run.
        if let Err(error) = at::remove_tree(&folder) {
            tracing::warn!("the cache of an earlier run stays: {error}");
        }
    }
    made
}

fn set_dead_caches_aside(caches: &Path, keep: &[&str]) {
    for (name, folder) in read_folders(caches) {
        if keep.contains(&name.as_str())
            || check_run_id(&name).is_err()
            || is_locked(&folder.join(CACHE_LOCK))
        {
            continue;
        }
        let aside = caches.join(format!("{GONE}{name}"));
        if let Err(error) = fs::rename(&folder, &aside) {
            tracing::warn!("the cache of an earlier run stays: {error}");
        }
    }
}

/// Takes away what says that a cache is whole, before any of it is removed: a kill on the way
/// leaves none that could be taken up.
pub fn forget_cache(cache: &Path) -> Result<()> {
    let facts = cache.join(CACHE_FACTS);
    match fs::remove_file(&facts) {
        Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let what = format!("cannot remove {}", facts.display());
            Err(Error::io(Kind::WorkspaceInvalid, what, e))
        }
        _ => Ok(()),
    }
}

/// Makes a folder and those above it, for the owner alone where they are new.
pub fn create_folder(folder: &Path) -> Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|source| cannot_make(folder, source))?;
    // A link planted in a shared temporary folder would lead the workspace elsewhere.
    let found = fs::symlink_metadata(folder).map_err(|source| cannot_make(folder, source))?;
    if !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw() && is_shared(folder) {
        let what = format!("{} does not belong to this user", folder.display());
        return Err(Error::new(Kind::WorkspaceInvalid, what).hint("set LOOPEXEC_CACHE"));
    }
    Ok(())
}

/// Makes a folder that nobody has written to: what had its name is taken away, never followed.
///
/// # Errors
/// `workspace_invalid` where that cannot be done.
pub fn make_fresh_folder(folder: &Path) -> Result<()> {
    copies::remove(folder)?;
    fs::DirBuilder::new().mode(0o700).create(folder).map_err(|source| cannot_make(folder, source))
}

fn is_shared(folder: &Path) -> bool {
    folder
        .parent()
        .and_then(|above| fs::metadata(above).ok())
        .is_some_and(|m| m.mode() & 0o002 != 0)
}

fn is_inside(folder: &Path, root: &Path) -> bool {
    // The folder may not exist yet: its nearest ancestor that does tells where links lead.
    let real = folder
        .ancestors()
        .find_map(|above| {
            let real = fs::canonicalize(above).ok()?;
            Some(real.join(folder.strip_prefix(above).ok()?))
        })
        .unwrap_or_else(|| folder.to_path_buf());
    real.starts_with(root)
}

#[cfg(target_os = "linux")]
fn is_on_disk(folder: &Path) -> bool {
    use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC, statfs};
    statfs(folder).is_ok_and(|found| {
        let kind = found.filesystem_type();
        kind != TMPFS_MAGIC && kind != OVERLAYFS_SUPER_MAGIC
    })
}

#[cfg(not(target_os = "linux"))]
fn is_on_disk(_folder: &Path) -> bool {
    true
}

fn is_locked(lock: &Path) -> bool {
    // No lock file: the run died before it had one, or it is whole otherwise.
    File::open(lock).is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}

fn read_folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(listing) = fs::read_dir(folder) else { return Vec::new() };
    listing
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

fn cannot_make(path: &Path, source: std::io::Error) -> Error {
    Error::io(Kind::WorkspaceInvalid, format!("cannot make {}", path.display()), source)
        .hint("see who owns it and whether its disk can be written; LOOPEXEC_CACHE names another place for the workspace")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn run_ids_are_held_to_their_form() {
        let long = "a".repeat(64);
        for good in ["a", "0.x_y-Z", long.as_str()] {
            assert!(check_run_id(good).is_ok(), "{good}");
        }
        let longer = "a".repeat(65);
        for bad in ["", ".", "..", "-x", "a/b", "a\nb", "ü", "a b", longer.as_str()] {
            assert_eq!(check_run_id(bad).unwrap_err().kind, Kind::Usage, "{bad}");
        }
    }

    #[test]
    fn caches_are_never_inside_the_tree_and_dead_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let root = top.join("tree");
        fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, top.join("alias")).unwrap();
        let mut around = Surroundings { home: Some(root.clone()), ..Surroundings::default() };
        assert!(!choose_caches(&root, &around).unwrap().starts_with(&root));
        for inside in ["tree/cache", "alias/cache"] {
            around.loopexec_cache = Some(top.join(inside));
            assert_eq!(choose_caches(&root, &around).unwrap_err().kind, Kind::WorkspaceInvalid);
        }
        around.loopexec_cache = Some(top.join("cache"));
        for id in ["dead", "live", "mine"] {
            Places::of(&root, id, &around).unwrap().create().unwrap();
        }
        let caches = choose_caches(&root, &around).unwrap();
        let lock = File::create(caches.join("live").join(CACHE_LOCK)).unwrap();
        lock.lock().unwrap();
        claim_cache(&caches, &["mine"], || Ok(())).unwrap();
        let left: BTreeSet<String> =
            read_folders(&caches).into_iter().map(|(name, _)| name).collect();
        assert_eq!(left, BTreeSet::from(["live".to_owned(), "mine".to_owned()]));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "the tree itself is left alone");
    }

    #[test]
    fn a_cache_that_has_no_lock_yet_is_nobody_elses_to_remove() {
        let folder = tempfile::tempdir().unwrap();
        let caches = folder.path().join("caches");
        let (begun, seen) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let (one, other) = (caches.clone(), caches.clone());
        let first = std::thread::spawn(move || {
            claim_cache(&one, &["first"], || {
                create_folder(&one.join("first"))?;
                begun.send(()).unwrap();
                wait.recv().unwrap();
                let lock = File::create(one.join("first").join(CACHE_LOCK)).unwrap();
                lock.lock().unwrap();
                Ok(lock)
            })
            .unwrap()
        });
        seen.recv().unwrap();
        let second =
            std::thread::spawn(move || claim_cache(&other, &["second"], || Ok(())).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        go_on.send(()).unwrap();
        second.join().unwrap();
        let held = first.join().unwrap();
        assert!(caches.join("first").exists(), "it was removed between its making and its lock");
        drop(held);
        claim_cache(&caches, &["third"], || Ok(())).unwrap();
        assert!(!caches.join("first").exists());
    }
}
