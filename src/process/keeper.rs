//! Waits for the command, ends it when asked, and leaves nothing of its tree alive.
//!
//! It runs in the launcher: as guardian of a plain tree, or as process 1 of a pid namespace.

use super::job::Survivor;
use super::procfs::{self, MOST_SURVIVORS};
use super::wire::{self, Report};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long processes that are about to end by themselves get before they count as survivors: the
/// other members of a pipeline often end a moment after the shell.
const COURTESY: Duration = Duration::from_millis(100);
/// How long killing may take: what outlives it runs as another user or hangs in the kernel.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which processes belong to the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tree {
    /// Everything below this process, which is a subreaper.
    Below,
    /// Everything in the pid namespace whose process 1 this is.
    Namespace,
}

/// Tells that a child ended, by a file that can be polled.
#[derive(Debug)]
pub(super) struct ChildNews(SignalFd);

impl ChildNews {
    /// Starts to listen; children that ended before are found by waiting once.
    pub(super) fn new() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map(Self)
    }

    /// Waits until a child ended or `control` has something to read; true for the latter.
    pub(super) fn wait(&self, control: &impl AsFd, timeout: PollTimeout) -> nix::Result<bool> {
        let mut files = [
            PollFd::new(self.0.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut files, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let asked = files[1].revents().is_some_and(|events| !events.is_empty());
        while let Ok(Some(_)) = self.0.read_signal() {}
        Ok(asked)
    }
}

/// Reads one request; the end of the stream is a wish to kill.
pub(super) fn read_request(mut control: impl Read) -> u8 {
    let mut request = [wire::KILL];
    match control.read(&mut request) {
        Ok(1) => request[0],
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        _ => wire::KILL,
    }
}

/// Attends to the running command until its whole tree is dead, and returns the final report.
pub(super) fn attend<C: AsFd>(command: Pid, news: &ChildNews, control: &C, tree: Tree) -> Report
where
    for<'a> &'a C: Read,
{
    let mut end = None;
    let mut killed = Killed::No;
    loop {
        reap(command, &mut end);
        if end.is_some() {
            break;
        }
        // A poll that fails leaves the lifeline unwatched.
        let Ok(asked) = news.wait(control, PollTimeout::NONE) else { break };
        match if asked { read_request(control) } else { 0 } {
            wire::TERMINATE => terminate(command, tree),
            wire::KILL => {
                killed = Killed::Yes;
                break;
            }
            _ => {}
        }
    }
    let survivors = match sweep(command, &mut end, tree, killed) {
        Ok(survivors) => survivors,
        Err(survivors) => return Report::Unkillable { survivors },
    };
    let (code, signal) = match end {
        Some(WaitStatus::Exited(_, code)) => (Some(code), None),
        Some(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal as i32)),
        _ => (None, None),
    };
    Report::Ended { code, signal, survivors, refused: 0, used_up: None }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    No,
    Yes,
}

/// Takes in every child that has ended; false when there is no child at all.
fn reap(command: Pid, end: &mut Option<WaitStatus>) -> bool {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => return true,
            Ok(status) if status.pid() == Some(command) => *end = Some(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return false,
        }
    }
}

/// Asks everyone to end; who is stopped must wake to hear it.
fn terminate(command: Pid, tree: Tree) {
    for signal in [Signal::SIGTERM, Signal::SIGCONT] {
        let _ = match tree {
            Tree::Namespace => kill(Pid::from_raw(-1), signal),
            Tree::Below => killpg(command, signal),
        };
    }
}

/// Kills what is left until nothing is, and names it; the error names who cannot be killed.
fn sweep(
    command: Pid,
    end: &mut Option<WaitStatus>,
    tree: Tree,
    killed: Killed,
) -> Result<Vec<Survivor>, Vec<Survivor>> {
    let start = Instant::now();
    let mut survivors: Vec<Survivor> = Vec::new();
    let mut pause = Duration::from_millis(1);
    while reap(command, end) {
        let courtesy = killed == Killed::No && start.elapsed() < COURTESY;
        if start.elapsed() > PATIENCE {
            return Err(read_living(tree).into_iter().map(procfs::read_survivor).take(9).collect());
        }
        if !courtesy {
            for pid in read_living(tree) {
                let is_new = survivors.iter().all(|known| known.pid != pid);
                if pid != command.as_raw() && is_new && survivors.len() < MOST_SURVIVORS {
                    survivors.push(procfs::read_survivor(pid));
                }
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            if tree == Tree::Namespace {
                // One call reaches also who forks faster than a listing is read.
                let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
            }
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
        if !courtesy {
            pause = pause.min(Duration::from_millis(4));
        }
    }
    Ok(survivors)
}

/// Returns everyone of the tree who lives, oneself excepted.
fn read_living(tree: Tree) -> Vec<i32> {
    let all = procfs::read_processes();
    let own = Pid::this().as_raw();
    let tree = match tree {
        Tree::Below => procfs::descendants(own, &all),
        Tree::Namespace => all.into_iter().filter(|process| process.pid != own).collect(),
    };
    tree.into_iter().filter(|process| !process.is_dead()).map(|process| process.pid).collect()
}
