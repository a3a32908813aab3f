//! One supervisor for one tree: an advisory lock on a file that is never removed.
//!
//! The kernel drops the lock with its holder, so a crash leaves none; the content only says who
//! holds it. Where the file stands is `rundir`'s.

use super::disk::{self, is_at};
use super::strict;
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a lock is tried before its state counts as an answer.
const ATTEMPTS: u32 = 16;

/// How long to wait between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Who holds a lock, as its file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The process id, as the holder sees itself.
    pub pid: u32,
    /// The kernel's id of the boot; empty where there is none.
    pub boot_id: String,
    /// When the process started, in clock ticks since boot; 0 where it is not known.
    pub start_time: u64,
    /// The name of the machine.
    pub host: String,
    /// The run it is held for.
    pub run_id: String,
}

impl Holder {
    fn current(run_id: &str) -> Self {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let host = nix::unistd::gethostname().unwrap_or_default();
        Self {
            pid: std::process::id(),
            boot_id: boot_id.unwrap_or_default().trim().to_owned(),
            start_time: start_time("self").unwrap_or(0),
            host: host.to_string_lossy().into_owned(),
            run_id: run_id.to_owned(),
        }
    }

    /// Tells whether the very process still runs on this machine, this boot.
    pub fn is_running(&self) -> bool {
        let here = Self::current(&self.run_id);
        here.host == self.host
            && here.boot_id == self.boot_id
            && start_time(&self.pid.to_string()) == Some(self.start_time)
    }
}

/// Reads field 22 of `/proc/PID/stat`, see proc_pid_stat(5).
fn start_time(pid: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name, field 2, may hold spaces and parentheses.
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
    previous: Option<Holder>,
}

impl Lock {
    /// Takes the lock at a path, creating the file.
    ///
    /// # Errors
    /// `workspace_invalid`, with the detail `locked` when another process holds it.
    pub fn acquire(path: &Path, run_id: &str) -> Result<Self> {
        // Another program may swap the file between opening and locking; the file that the path
        // names must be the one that is locked.
        for attempt in 1..=ATTEMPTS {
            let mut file = open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = read_content(&mut file);
                    if holder.as_ref().is_some_and(Holder::is_running) || attempt == ATTEMPTS {
                        return Err(held(path, holder));
                    }
                    // It may be `read_holder` looking, or a holder about to say who it is.
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(TryLockError::Error(e)) => {
                    return Err(refused(path, e).hint("use a file system that has file locks"));
                }
            }
            if !is_at(&file, path) {
                continue;
            }
            let previous = read_content(&mut file);
            let mut lock = Self { file, path: path.to_owned(), previous };
            lock.write_holder(run_id).map_err(|e| refused(path, e))?;
            return Ok(lock);
        }
        Err(Error::new(
            Kind::WorkspaceInvalid,
            format!("the lock {} is replaced again and again", path.display()),
        ))
    }

    /// Returns who held the lock before and ended without giving it back.
    pub fn previous(&self) -> Option<&Holder> {
        self.previous.as_ref()
    }

    /// Returns where the lock stands.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether the path still names the file that is locked.
    pub fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    fn write_holder(&mut self, run_id: &str) -> io::Result<()> {
        let mut text = serde_json::to_string(&Holder::current(run_id))?;
        text.push('\n');
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // An empty file says that nobody crashed with it; a failure only loses that.
        let _ = self.file.set_len(0);
    }
}

/// Reads who holds the lock at a path; none when it is free.
///
/// # Errors
/// `workspace_invalid` when the path is no regular file.
pub fn read_holder(path: &Path) -> Result<Option<Holder>> {
    let opened = disk::options().read(true).open(path).and_then(disk::require_regular);
    let mut file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(refused(path, e)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(read_content(&mut file)),
        Err(TryLockError::Error(e)) => Err(refused(path, e)),
    }
}

fn open(path: &Path) -> Result<File> {
    let opened = disk::options().read(true).write(true).create(true).truncate(false).open(path);
    opened.and_then(disk::require_regular).map_err(|e| refused(path, e))
}

fn read_content(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.take(4096).read_to_end(&mut text).ok()?;
    serde_json::from_value(strict::parse(&text).ok()?).ok()
}

fn held(path: &Path, holder: Option<Holder>) -> Error {
    let who = match holder {
        Some(h) => format!("process {} on {:?} for the run {:?}", h.pid, h.host, h.run_id),
        None => "a process that has not said who it is".to_owned(),
    };
    Error::new(Kind::WorkspaceInvalid, format!("{who} holds {}", path.display()))
        .detail("locked")
        .hint("wait until it ends, or stop it; loopexec status shows what it does")
}

fn refused(path: &Path, source: io::Error) -> Error {
    let kind = std::fs::symlink_metadata(path).map(|m| m.file_type());
    let what = match kind {
        Ok(t) if t.is_symlink() => format!("the lock {} is a symbolic link", path.display()),
        Ok(t) if !t.is_file() => format!("the lock {} is no regular file", path.display()),
        _ => format!("cannot lock {}", path.display()),
    };
    Error::io(Kind::WorkspaceInvalid, what, source)
        .hint("remove what stands there, if it is not loopexec's own")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_and_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::acquire(&path, "R1").unwrap();
        let error = Lock::acquire(&path, "R2").unwrap_err();
        assert_eq!((error.kind, error.detail), (Kind::WorkspaceInvalid, Some("locked")));
        assert!(error.what.contains(&format!("process {}", std::process::id())), "{error}");
        let holder = read_holder(&path).unwrap().unwrap();
        assert!(holder.is_running());
        assert_eq!(holder.run_id, "R1");
        drop(lock);
        assert_eq!(read_holder(&path).unwrap(), None);
        assert!(path.exists());
        assert_eq!(Lock::acquire(&path, "R2").unwrap().previous(), None);
    }

    #[test]
    fn a_lock_left_by_a_crash_is_taken_over_and_its_holder_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut dead = Holder::current("OLD");
        dead.start_time += 1;
        std::fs::write(&path, serde_json::to_string(&dead).unwrap()).unwrap();
        assert!(!dead.is_running());
        let lock = Lock::acquire(&path, "NEW").unwrap();
        assert_eq!(lock.previous(), Some(&dead));
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("target"), "").unwrap();
        std::os::unix::fs::symlink(at("target"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        for name in ["link", "dangling", "fifo", "folder"] {
            let error = Lock::acquire(&at(name), "R").unwrap_err();
            assert_eq!((error.kind, error.detail), (Kind::WorkspaceInvalid, None), "{name}");
            assert!(error.what.contains("symbolic link") || error.what.contains("no regular"));
        }
        assert!(!at("nowhere").exists());
    }

    #[test]
    fn a_child_does_not_keep_the_lock_alive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::acquire(&path, "R").unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        drop(lock);
        let again = Lock::acquire(&path, "R2");
        child.kill().unwrap();
        child.wait().unwrap();
        again.unwrap();
    }

    #[test]
    fn a_replaced_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = Lock::acquire(&path, "R").unwrap();
        assert!(lock.is_in_place());
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        assert!(!lock.is_in_place());
        std::fs::write(&path, "not json").unwrap();
        assert!(!lock.is_in_place());
        assert_eq!(Lock::acquire(&path, "R2").unwrap().previous(), None);
    }
}
