//! The loopback of a network namespace, and the listener that is made inside and handed out: a socket
//! stays in the network it was made in, so nothing inside has to lead to loopexec.

use super::wire;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Switches the loopback on; a new network namespace has it switched off.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "interface flags are set by ioctl alone where netlink may be refused"
)]
pub(super) fn raise_loopback() -> io::Result<()> {
    use std::os::fd::AsFd;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: `ifreq` is plain data for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::try_from(*from).unwrap_or(0);
    }
    let asked = |code, request: &mut libc::ifreq| {
        // SAFETY: both requests read and write one `ifreq`, which lives that long.
        nix::errno::Errno::result(unsafe { libc::ioctl(number, code, request) })
    };
    asked(libc::SIOCGIFFLAGS, &mut request)?;
    let up = libc::c_short::try_from(libc::IFF_UP).unwrap_or(1);
    // SAFETY: the call before has filled in the flags.
    unsafe { request.ifr_ifru.ifru_flags |= up };
    asked(libc::SIOCSIFFLAGS, &mut request)?;
    Ok(())
}

/// Counts what was sent where the own network has no way to: `OutNoRoutes` of both families, which the kernel
/// keeps for each network (`ipSystemStatsOutNoRoutes` of RFC 4293).
pub(super) fn read_refused() -> u64 {
    let read =
        |name: &str| std::fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    count_v4(&read("snmp")).saturating_add(count_v6(&read("snmp6")))
}

/// Reads the table of which each protocol has two lines: names, and below them their numbers.
fn count_v4(table: &str) -> u64 {
    let mut rows = table.lines().filter_map(|line| line.strip_prefix("Ip: "));
    let (Some(names), Some(numbers)) = (rows.next(), rows.next()) else { return 0 };
    let mut both = names.split(' ').zip(numbers.split(' '));
    both.find(|(name, _)| *name == "OutNoRoutes")
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(0)
}

fn count_v6(table: &str) -> u64 {
    let found = table.lines().find_map(|line| line.strip_prefix("Ip6OutNoRoutes"));
    found.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

/// Listens on a port of the loopback and hands the listener to loopexec.
pub(super) fn hand_out(port: u16, lifeline: &impl AsRawFd) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let (byte, numbers) = ([wire::LISTENER], [listener.as_raw_fd()]);
    let data = [IoSlice::new(&byte)];
    let rights = [ControlMessage::ScmRights(&numbers)];
    sendmsg::<UnixAddr>(lifeline.as_raw_fd(), &data, &rights, MsgFlags::empty(), None)?;
    Ok(())
}

/// Takes one byte, with the listener that came along.
pub(super) fn receive(control: &impl AsRawFd) -> io::Result<(Option<u8>, Option<TcpListener>)> {
    let mut byte = [0];
    let mut space = cmsg_space!([RawFd; 1]);
    let (count, numbers) = {
        let mut data = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(control.as_raw_fd(), &mut data, Some(&mut space), flags)?;
        let mut numbers = Vec::new();
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(list) = part {
                numbers.extend(list);
            }
        }
        (message.bytes, numbers)
    };
    let listener = numbers.into_iter().map(own).next().map(TcpListener::from);
    Ok(((count == 1).then_some(byte[0]), listener))
}

#[expect(unsafe_code, reason = "a descriptor that has arrived is a bare number")]
fn own(number: RawFd) -> OwnedFd {
    // SAFETY: the kernel has just made this number for this process and nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_network_leads_to_is_counted() {
        let table = "Ip: Forwarding InReceives OutNoRoutes\nIp: 1 20 3\nTcp: ActiveOpens\nTcp: 7\n";
        assert_eq!(count_v4(table), 3);
        assert_eq!(count_v4("Ip: Forwarding\nIp: 1\n"), 0);
        assert_eq!(count_v4(""), 0);
        assert_eq!(count_v6("Ip6InReceives\t5\nIp6OutNoRoutes                  \t4\n"), 4);
    }
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_listener_is_handed_over_a_socket() {
        let (here, there) = UnixStream::pair().unwrap();
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        hand_out(port, &there).unwrap();
        (&there).write_all(b"x").unwrap();
        let (byte, listener) = receive(&here).unwrap();
        assert_eq!(byte, Some(wire::LISTENER));
        assert_eq!(listener.unwrap().local_addr().unwrap().port(), port);
        let (byte, listener) = receive(&here).unwrap();
        assert!(byte == Some(b'x') && listener.is_none());
        drop(there);
        assert_eq!((&here).read(&mut [0]).unwrap(), 0);
    }
}
