//! `loopexec __launch`: the process between loopexec and a command.
//!
//! Its standard input is a socket to loopexec: one order comes down, reports go up, and its end means
//! that loopexec is gone, upon which the whole tree is killed. It prints nothing, for its outputs
//! are the command's. `supervisor` starts it; in a container its input is nothing, and a second argument says where
//! the socket is that leads to the one outside.

use super::enclosure::Network;
use super::keeper::{self, ChildNews, Tree};
#[cfg(target_os = "linux")]
use super::wire::Entry;
use super::wire::{self, Order, Report};
use super::{net, spawn};
use nix::sys::signal::{SigHandler, Signal};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

/// The hidden first argument that makes this program its own launcher.
pub const ARGUMENT: &str = "__launch";

/// Returns the path by which this very program can be started again.
pub fn own_exe() -> io::Result<PathBuf> {
    let link = PathBuf::from("/proc/self/exe");
    // The link names the running file even after an update has put another one in its place.
    if link.exists() { Ok(link) } else { std::env::current_exe() }
}

/// Runs the launcher to its end; its exit code is 0 when it has reported.
pub fn main() -> ExitCode {
    match launch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn launch() -> io::Result<()> {
    // A terminal's signals are for loopexec, which then says what is to be done.
    let _ = nix::unistd::setsid();
    close_inherited();
    restore_signals();
    #[cfg(target_os = "linux")]
    if let Some(control) = std::env::args_os().nth(2) {
        return super::contained::launch(control.as_ref());
    }
    let lifeline = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let order: Order = wire::read_frame(&lifeline)?;
    match &order.namespace {
        None => guard(&order, &lifeline),
        #[cfg(target_os = "linux")]
        Some(place) if place.entry == Entry::Nowhere => guard(&order, &lifeline),
        #[cfg(target_os = "linux")]
        Some(place) if let Some(engine) = &place.engine => {
            super::container::launch(&order, place, engine, &lifeline)
        }
        #[cfg(target_os = "linux")]
        Some(namespace) => super::namespace::launch(&order, namespace, &lifeline),
        #[cfg(not(target_os = "linux"))]
        Some(_) => {
            let what = "only Linux has namespaces".to_owned();
            wire::write_frame(&lifeline, &Report::LaunchFailed { what })
        }
    }
}

/// Keeps a plain tree: every orphan of it falls to this process.
fn guard(order: &Order, lifeline: &UnixStream) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
        let what = format!("cannot become the reaper of the command's orphans: {error}");
        return wire::write_frame(lifeline, &Report::LaunchFailed { what });
    }
    keep(order, lifeline, lifeline, Tree::Below, None)
}

/// What a control group counts of a command.
pub(super) struct Counted {
    /// The file that counts kills for want of memory, as loopexec finds it.
    pub(super) kills: OsString,
    /// Reads the numbers of `Report::Ended`.
    pub(super) read: Box<dyn FnMut() -> (u64, u64)>,
}

/// Starts the command and stays until its tree is dead.
pub(super) fn keep<C: AsFd>(
    order: &Order,
    lifeline: &UnixStream,
    control: &C,
    tree: Tree,
    counted: Option<Counted>,
) -> io::Result<()>
where
    for<'a> &'a C: io::Read,
{
    let news = match ChildNews::new() {
        Ok(news) => news,
        Err(error) => {
            let what = format!("cannot watch for ended children: {error}");
            return wire::write_frame(lifeline, &Report::LaunchFailed { what });
        }
    };
    match spawn::spawn_command(order) {
        Err(report) => wire::write_frame(lifeline, &report),
        Ok(pid) => {
            let root = order.namespace.as_ref().and_then(|place| place.outside);
            // Without loopexec nobody reads; the tree must die all the same.
            let kills = counted.as_ref().map(|counted| counted.kills.clone());
            let _ = wire::write_frame(lifeline, &Report::Started { pid, root, kills });
            let command = Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
            let mut report = keeper::attend(command, &news, control, tree);
            if let Report::Ended { refused, used_up, .. } = &mut report {
                if has_own_network(order) {
                    *refused = net::read_refused();
                }
                *used_up = counted.map(|mut counted| (counted.read)());
            }
            wire::write_frame(lifeline, &report)
        }
    }
}

fn has_own_network(order: &Order) -> bool {
    let closed = order.namespace.as_ref().and_then(|namespace| namespace.enclosure.as_ref());
    closed.is_some_and(|closed| closed.network != Network::Host)
}

/// Closes what whoever started loopexec has left open; nothing of ours is open yet.
fn close_inherited() {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let open: Vec<i32> = numbers.filter(|number| *number > 2).collect();
    for number in open {
        // The folder's own number is among them and is closed by now.
        let _ = nix::unistd::close(number);
    }
}

/// Gives every signal its default meaning again: a caller may have ignored some, and a command
/// would inherit that.
#[expect(unsafe_code, reason = "there is no safe call that sets a signal's disposition")]
fn restore_signals() {
    for signal in Signal::iterator() {
        if matches!(signal, Signal::SIGKILL | Signal::SIGSTOP | Signal::SIGSEGV | Signal::SIGBUS) {
            continue;
        }
        // The launcher's own pipe may break; std resets this one for every command.
        let handler =
            if signal == Signal::SIGPIPE { SigHandler::SigIgn } else { SigHandler::SigDfl };
        // SAFETY: no handler function is installed.
        let _ = unsafe { nix::sys::signal::signal(signal, handler) };
    }
}
