//! What is tried beside the rest where the walls are Landlock's: ways around it, and what it leaves in sight.

use super::{PATIENCE, Question, Row, UnderLandlock, fails, works};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use std::fs;
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Rows that Landlock cannot hold: what they find is told, and keeps nobody out.
const NOT_HELD: [&str; 6] = [
    "its user",
    "CapBnd",
    "processes it sees",
    "its network interfaces",
    "names and sizes of hidden files",
    "TCP to the gate's port of another address",
];

/// Marks the rows that need not hold.
pub(super) fn mark(rows: &mut [Row]) {
    for row in rows.iter_mut().filter(|row| NOT_HELD.contains(&&*row.what)) {
        row.degraded = !row.holds;
    }
}

/// Adds a row for what of the host must neither be read nor listed; that it is there can be seen.
pub(super) fn hidden(rows: &mut Vec<Row>, what: String, path: &Path) {
    // A link is not followed, a socket cannot be opened, and nothing is waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let closed = [libc::EACCES, libc::ELOOP, libc::ENXIO, libc::ENOENT];
    fails(rows, what, opened, &closed);
}

pub(super) fn rows(question: &Question, of: &UnderLandlock, rows: &mut Vec<Row>) {
    let pid = of.loopexec;
    for name in ["environ", "maps", "mem", "cwd/", "root/"] {
        let path = format!("/proc/{pid}/{name}");
        let opened = match name.ends_with('/') {
            true => fs::read_dir(&path).map(drop),
            false => fs::File::open(&path).map(drop),
        };
        fails(rows, format!("{name} of loopexec"), opened, &[libc::EACCES, libc::EPERM]);
    }
    let led = fs::read_link(format!("/proc/{pid}/fd/0"));
    fails(rows, "an open file of loopexec", led, &[libc::EACCES, libc::EPERM]);
    let number = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX));
    let signalled = nix::sys::signal::kill(number, None).map_err(io::Error::from);
    fails(rows, "a signal to loopexec", signalled, &[libc::EPERM]);
    if let Some(secret) = question.hidden.first() {
        let closed = [libc::EACCES];
        let written = fs::OpenOptions::new().append(true).open(secret);
        fails(rows, "a hidden file opened for writing", written, &closed);
        fails(rows, "a hidden file removed", fs::remove_file(secret), &closed);
        let beside = secret.with_file_name("made");
        fails(rows, "a file made beside a hidden one", fs::write(beside, "x"), &closed);
        let linked = fs::hard_link(secret, "loopexec-link");
        fails(
            rows,
            "a second name for a hidden file",
            linked,
            &[libc::EACCES, libc::EXDEV, libc::EPERM],
        );
        let seen = fs::symlink_metadata(secret);
        fails(rows, "names and sizes of hidden files", seen, &[libc::ENOENT]);
    }
    for (name, kind) in [("datagrams", SockType::Datagram), ("raw messages", SockType::Raw)] {
        let made = socketpair(AddressFamily::Unix, kind, None, SockFlag::empty());
        fails(
            rows,
            format!("a pair of unix sockets for {name}"),
            made.map_err(io::Error::from),
            &[libc::EPERM],
        );
    }
    calls(rows);
    if question.gate.is_none() {
        return;
    }
    fails(rows, "a connection by its first data", fast(question.port), &[libc::EPERM]);
    if let Some(address) = of.beside {
        let reached = TcpStream::connect_timeout(&address.into(), PATIENCE);
        fails(rows, "TCP to the gate's port of another address", reached, &[libc::EACCES]);
    }
    works(rows, "a socket for TCP", make(libc::SOCK_STREAM, 0));
}

fn make(kind: i32, protocol: i32) -> io::Result<std::os::fd::OwnedFd> {
    socket(libc::AF_INET, kind, protocol)
}

#[expect(unsafe_code, reason = "there is no safe call for any protocol")]
fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: this takes no pointer.
    let made = Errno::result(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the kernel has just made this number.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(made) })
}

#[expect(unsafe_code, reason = "what is tried are bare system calls")]
fn calls(rows: &mut Vec<Row>) {
    for (name, kind, protocol) in [
        ("MPTCP", libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
        ("SCTP", libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        ("UDP", libc::SOCK_DGRAM, 0),
        ("ICMP", libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        ("packets in order", libc::SOCK_SEQPACKET, 0),
    ] {
        fails(rows, format!("a socket for {name}"), make(kind, protocol), &[libc::EPERM]);
    }
    let zero: libc::c_long = 0;
    for (name, call) in [
        ("shared memory by number", libc::SYS_shmget),
        ("a queue by number", libc::SYS_msgget),
        ("a queue by name", libc::SYS_mq_open),
    ] {
        // SAFETY: with no pointer and no size each of these is an error, also where it is allowed.
        let done = Errno::result(unsafe { libc::syscall(call, zero, zero, zero, zero) });
        fails(rows, name, done.map_err(io::Error::from), &[libc::EPERM]);
    }
}

/// Sends to a port of the loopback without a call to `connect`.
#[expect(unsafe_code, reason = "there is no safe call with this flag")]
fn fast(port: u16) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let socket = make(libc::SOCK_STREAM, 0)?;
    let address = libc::sockaddr_in {
        sin_family: libc::sa_family_t::try_from(libc::AF_INET).unwrap_or(2),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or(16);
    // SAFETY: data and address live as long as the call.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            [b'x'].as_ptr().cast(),
            1,
            libc::MSG_FASTOPEN,
            (&raw const address).cast(),
            length,
        )
    };
    Errno::result(sent)?;
    Ok(())
}
