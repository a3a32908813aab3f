//! The keeper where there is neither `/proc` nor a subreaper: it kills the command's process group,
//! and what left that group is out of its reach.

use super::wire::{self, Report};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::Read;
use std::os::fd::AsFd;

/// Which processes belong to the tree; here it is always the process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tree {
    /// The command's process group.
    Below,
}

/// Tells that a child ended; here by looking again and again.
#[derive(Debug)]
pub(super) struct ChildNews;

impl ChildNews {
    /// Starts to look.
    pub(super) fn new() -> nix::Result<Self> {
        Ok(Self)
    }
}

/// Attends to the running command until its process group is dead, and returns the final report.
pub(super) fn attend<C: AsFd>(command: Pid, _news: &ChildNews, control: &C, _tree: Tree) -> Report
where
    for<'a> &'a C: Read,
{
    let mut status = None;
    while status.is_none() {
        let mut files = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        if poll(&mut files, PollTimeout::from(10_u8)) == Ok(1) {
            let mut request = [wire::KILL];
            let read = Read::read(&mut &*control, &mut request).unwrap_or(0);
            let hard = read == 0 || request[0] == wire::KILL;
            let signal = if hard { Signal::SIGKILL } else { Signal::SIGTERM };
            let _ = killpg(command, signal);
            let _ = killpg(command, Signal::SIGCONT);
        }
        status = match waitpid(command, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::EINTR) => None,
            Ok(status) => Some(status),
            Err(_) => break,
        };
    }
    let _ = killpg(command, Signal::SIGKILL);
    let (code, signal) = match status {
        Some(WaitStatus::Exited(_, code)) => (Some(code), None),
        Some(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal as i32)),
        _ => (None, None),
    };
    Report::Ended { code, signal, survivors: Vec::new(), refused: 0, used_up: None }
}
