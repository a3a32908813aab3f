//! The launcher inside a container: its process 1, which has no privilege and the command's own user.
//!
//! `container` hands it loopexec's socket, the command's outputs and the order; from there on it keeps the command
//! as `namespace` does. What it says before that goes to the engine.

use super::enclosure::Network;
use super::keeper::Tree;
use super::namespace::{self, Made};
use super::wire::{self, Order, Report};
use super::{launcher, net};
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use nix::unistd::{Pid, dup2_stderr, dup2_stdout};
use std::io::{self, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Keeps the command that it is told of through the socket at `control`.
pub(super) fn launch(control: &Path) -> io::Result<()> {
    let taken = UnixStream::connect(control).and_then(|control| {
        let files = take_files(&control)?;
        let order: Order = wire::read_frame(&control)?;
        Ok((control, files, order))
    });
    let (control, [lifeline, stdout, stderr], order) = taken.inspect_err(|error| {
        let _ = writeln!(io::stderr(), "loopexec does not answer: {error}");
    })?;
    let lifeline = UnixStream::from(lifeline);
    let ready = become_init(&order)
        .and_then(|()| {
            let outputs = dup2_stdout(&stdout).and_then(|()| dup2_stderr(&stderr));
            outputs.map_err(|e| format!("cannot take the command's outputs: {e}"))
        })
        .and_then(|()| open_doors(&order, &lifeline))
        .and_then(|()| take_out(&order));
    drop((stdout, stderr));
    match ready {
        Err(what) => wire::write_frame(&lifeline, &Report::LaunchFailed { what }),
        Ok(()) => {
            let control = Control { outside: control, lifeline: lifeline.try_clone()? };
            launcher::keep(&order, &lifeline, &control, Tree::Namespace, None)
        }
    }
}

/// What the launcher outside asks for. Where it is gone the command ends with it, and nobody is told how: that it
/// was killed then is no word of the command's.
struct Control {
    outside: UnixStream,
    lifeline: UnixStream,
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.outside.as_fd()
    }
}

impl Read for &Control {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = (&self.outside).read(into)?;
        if count == 0 {
            let _ = self.lifeline.shutdown(Shutdown::Both);
        }
        Ok(count)
    }
}

/// Takes loopexec's socket and both outputs.
fn take_files(control: &UnixStream) -> io::Result<[OwnedFd; 3]> {
    let mut byte = [0];
    let mut space = cmsg_space!([RawFd; 3]);
    let mut data = [IoSliceMut::new(&mut byte)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<UnixAddr>(control.as_raw_fd(), &mut data, Some(&mut space), flags)?;
    let mut files = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = part {
            files.extend(numbers.into_iter().map(own));
        }
    }
    files.try_into().map_err(|_| io::Error::other("not the files that a command needs"))
}

#[expect(unsafe_code, reason = "a descriptor that has arrived is a bare number")]
fn own(number: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this number for this process and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Makes sure of what the container has to be, and closes this process to its command.
fn become_init(order: &Order) -> Made<()> {
    if Pid::this().as_raw() != 1 {
        // Ending a tree reaches everyone it can see.
        return Err("the container has no process numbers of its own".to_owned());
    }
    if nix::unistd::geteuid().is_root() {
        return Err("a command in a container would be root".to_owned());
    }
    if order.namespace.as_ref().is_none_or(|place| place.enclosure.is_none()) {
        return Err("a container without an enclosure".to_owned());
    }
    // Its command has the same user.
    nix::sys::prctl::set_dumpable(false).map_err(|e| format!("cannot close process 1: {e}"))
}

/// Hands out the listeners of the doors; the engine has switched the loopback on.
fn open_doors(order: &Order, lifeline: &UnixStream) -> Made<()> {
    let closed = order.namespace.as_ref().and_then(|place| place.enclosure.as_ref());
    let Some(closed) = closed.filter(|closed| closed.network != Network::Host) else {
        return Ok(());
    };
    closed.doors.iter().try_for_each(|port| {
        net::hand_out(*port, lifeline)
            .map_err(|e| format!("cannot listen on port {port} of the loopback: {e}"))
    })
}

fn take_out(order: &Order) -> Made<()> {
    let Some(place) = &order.namespace else { return Ok(()) };
    place.remove.iter().try_for_each(|path| namespace::remove(Path::new(path), &place.mounts))
}
