//! What falls to loopexec when somebody has killed the launcher that kept it.

use super::job::Survivor;
use super::procfs::{self, MOST_SURVIVORS};
use crate::error::{Error, Kind, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a killed process may take to be gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// The launchers of this process that run now; they are children too, and no orphans.
static LAUNCHERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A launcher while it is known.
#[derive(Debug)]
pub(super) struct Launched {
    /// Its number.
    pub(super) pid: i32,
    /// When it started, in clock ticks after boot.
    started: u64,
}

/// Starts a launcher so that no other run takes it for an orphan.
pub(super) fn spawn_known<T>(
    spawn: impl FnOnce() -> std::io::Result<(i32, T)>,
) -> std::io::Result<(Launched, T)> {
    let mut launchers = lock();
    let (pid, child) = spawn()?;
    launchers.insert(pid);
    let started = procfs::read_process(pid).map_or(u64::MAX, |process| process.started);
    Ok((Launched { pid, started }, child))
}

impl Drop for Launched {
    fn drop(&mut self) {
        lock().remove(&self.pid);
    }
}

fn lock() -> MutexGuard<'static, BTreeSet<i32>> {
    LAUNCHERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills and reaps every child of this process that is younger than the launcher and no launcher
/// itself, with all that is below it, and names them.
///
/// While a command runs, loopexec starts nothing else: every such child is the command's.
pub(super) fn kill_orphans(launched: &Launched) -> Result<Vec<Survivor>> {
    let start = Instant::now();
    let own = Pid::this().as_raw();
    let mut named: Vec<Survivor> = Vec::new();
    loop {
        let all = procfs::read_processes();
        let known = lock().clone();
        let orphans: Vec<_> = all
            .iter()
            .filter(|p| p.parent == own && p.started >= launched.started)
            .filter(|p| !known.contains(&p.pid) && p.pid != launched.pid)
            .copied()
            .collect();
        if orphans.is_empty() {
            return Ok(named);
        }
        if start.elapsed() > PATIENCE {
            let who = orphans.first().map_or(0, |orphan| orphan.pid);
            let what = format!("process {who} of an ended command cannot be killed");
            return Err(Error::new(Kind::IsolationUnsatisfiable, what)
                .hint("it hangs in the kernel, often on a network file system"));
        }
        for orphan in orphans {
            for process in procfs::descendants(orphan.pid, &all).iter().chain([&orphan]) {
                let is_new = named.iter().all(|known| known.pid != process.pid);
                if !process.is_dead() && is_new && named.len() < MOST_SURVIVORS {
                    named.push(procfs::read_survivor(process.pid));
                }
                let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
            }
            let _ = waitpid(Pid::from_raw(orphan.pid), Some(WaitPidFlag::WNOHANG));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
