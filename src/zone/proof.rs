//! Looks around from inside a zone: `loopexec __prove` tries everything that must not work there, and the
//! little that must, and prints what came of it, one JSON line each.

use super::egress::authorization;
use super::kind::Kind;
use crate::process::toolchains::find_program;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket, socketpair};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

mod fenced;

/// The hidden first argument that makes this program look around; the second is the `Question`.
pub const ARGUMENT: &str = "__prove";

/// How long a connection may take to be refused.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is tried, beside what is always tried.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Question {
    /// The zone's word.
    pub zone: String,
    /// A port on which somebody listens on the host's loopback.
    pub port: u16,
    /// The name of an abstract socket on which somebody listens.
    pub abstract_name: String,
    /// The path of a socket on which somebody listens.
    pub socket: PathBuf,
    /// Paths of the host that must not be seen.
    pub hidden: Vec<PathBuf>,
    /// Device and number of each of them, where another file may be in its place.
    pub known: Vec<Option<(u64, u64)>>,
    /// The socket through which a container was told what to run.
    pub control: Option<PathBuf>,
    /// Programs to look for on the path; nothing else is done then.
    pub programs: Vec<String>,
    /// Whether sandboxes may be made in the zone.
    pub nested: bool,
    /// The gate's port, if there is one, with a target it lets through.
    pub gate: Option<(u16, String)>,
    /// What the gate asks for.
    pub token: Option<String>,
    /// What there is to try where the walls are Landlock's.
    pub landlock: Option<UnderLandlock>,
}

/// What of this machine stays in sight where the walls are Landlock's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnderLandlock {
    /// The process of loopexec.
    pub loopexec: u32,
    /// A listener on the gate's port of another address.
    pub beside: Option<SocketAddrV4>,
}

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What was tried.
    pub what: String,
    /// What came of it.
    pub found: String,
    /// Whether that is what has to come.
    pub holds: bool,
    /// Whether it need not hold where the backend is a degraded one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub degraded: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Runs the attempts and prints the rows; the exit code is 0 when there are any.
pub fn main(args: &[OsString]) -> ExitCode {
    let question: Option<Question> =
        args.get(2).and_then(|text| text.to_str()).and_then(|text| serde_json::from_str(text).ok());
    let Some(question) = question else { return ExitCode::FAILURE };
    let mut text = String::new();
    let mut print = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    match question.programs.is_empty() {
        true => rows(&question)
            .iter()
            .for_each(|row| print(serde_json::to_string(row).unwrap_or_default())),
        false => programs(&question.programs)
            .iter()
            .for_each(|found| print(serde_json::to_string(found).unwrap_or_default())),
    }
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns those of the programs that are on the path, with the file that each name leads to.
fn programs(names: &[String]) -> Vec<(String, PathBuf)> {
    let path: Vec<PathBuf> =
        std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect();
    names.iter().filter_map(|name| Some((name.clone(), find_program(&path, name)?))).collect()
}

/// Returns what tells a file from all others of a machine.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn rows(question: &Question) -> Vec<Row> {
    // Under Landlock both zones are without unix sockets.
    let is_agent = question.zone == Kind::Agent.word() || question.landlock.is_some();
    let mut rows = Vec::new();
    network(question, &mut rows);
    unix(question, is_agent, &mut rows);
    sockets(question, is_agent, &mut rows);
    if let Some(landlock) = &question.landlock {
        fenced::rows(question, landlock, &mut rows);
    }
    calls(question, &mut rows);
    files(question, &mut rows);
    standing(&mut rows);
    if let Some((port, target)) = &question.gate {
        gate(*port, target, question, &mut rows);
    }
    if question.landlock.is_some() {
        fenced::mark(&mut rows);
    }
    rows
}

/// Adds a row for something that has to fail in one of these ways.
fn fails<T>(rows: &mut Vec<Row>, what: impl Into<String>, done: io::Result<T>, with: &[i32]) {
    let (found, holds) = match &done {
        Ok(_) => ("it worked".to_owned(), false),
        Err(error) => {
            let code = error.raw_os_error();
            let name = code
                .map_or_else(|| error.to_string(), |code| format!("{:?}", Errno::from_raw(code)));
            (name, with.is_empty() || code.is_some_and(|code| with.contains(&code)))
        }
    };
    rows.push(Row { what: what.into(), found, holds, degraded: false });
}

/// Adds a row for something that has to work.
fn works<T>(rows: &mut Vec<Row>, what: impl Into<String>, done: io::Result<T>) {
    let found = match &done {
        Ok(_) => "it worked".to_owned(),
        Err(error) => error.to_string(),
    };
    rows.push(Row { what: what.into(), found, holds: done.is_ok(), degraded: false });
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    TcpStream::connect_timeout(&address, PATIENCE)
}

fn network(question: &Question, rows: &mut Vec<Row>) {
    let away: &[i32] =
        &[libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EADDRNOTAVAIL, libc::EAFNOSUPPORT];
    let refused: &[i32] = &[libc::ECONNREFUSED];
    // Landlock refuses what it knows, and the filter the rest.
    let (away, refused): (&[i32], &[i32]) = match question.landlock {
        Some(_) => (&[libc::EPERM, libc::EACCES], &[libc::EPERM, libc::EACCES]),
        None => (away, refused),
    };
    let port = question.port;
    let loopback = connect(&format!("127.0.0.1:{port}"));
    fails(rows, "TCP to a listener on the host's loopback", loopback, refused);
    fails(rows, "TCP to 192.0.2.1:80", connect("192.0.2.1:80"), away);
    fails(rows, "TCP to [2001:db8::1]:80", connect("[2001:db8::1]:80"), away);
    fails(
        rows,
        "TCP to a metadata service, 169.254.169.254:80",
        connect("169.254.169.254:80"),
        away,
    );
    let send = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.send_to(b"?", (Ipv4Addr::new(192, 0, 2, 53), 53)));
    fails(rows, "UDP to 192.0.2.53:53", send, away);
    fails(
        rows,
        "a name",
        ("example.com", 443).to_socket_addrs().map(|mut found| found.next()),
        &[],
    );
    let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| {
        let address = listener.local_addr()?;
        TcpStream::connect_timeout(&address, PATIENCE)
    });
    match question.landlock {
        Some(_) => fails(rows, "a listener on the host's loopback", own, away),
        None => works(rows, "TCP to a listener on its own loopback", own),
    }
}

fn unix(question: &Question, is_agent: bool, rows: &mut Vec<Row>) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let name = SocketAddr::from_abstract_name(question.abstract_name.as_bytes());
    let refused: &[i32] = if is_agent { &[libc::EPERM] } else { &[libc::ECONNREFUSED] };
    let abstracted = name.and_then(|name| UnixStream::connect_addr(&name));
    fails(rows, "an abstract unix socket of the host", abstracted, refused);
    let gone: &[i32] = if is_agent { &[libc::EPERM] } else { &[libc::ENOENT] };
    fails(
        rows,
        "a unix socket in a folder of the host",
        UnixStream::connect(&question.socket),
        gone,
    );
    if let Some(control) = &question.control {
        let reached = UnixStream::connect(control);
        fails(rows, "the socket of the container's launcher", reached, refused);
    }
}

fn sockets(question: &Question, is_agent: bool, rows: &mut Vec<Row>) {
    let make =
        |family, kind| socket(family, kind, SockFlag::empty(), None).map_err(io::Error::from);
    let unix = make(AddressFamily::Unix, SockType::Stream);
    match is_agent {
        true => fails(rows, "a unix socket", unix, &[libc::EPERM]),
        false => works(rows, "a unix socket", unix),
    }
    let pair = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::empty());
    works(rows, "a pair of unix sockets", pair.map_err(io::Error::from));
    for (name, family, kind) in [
        ("vsock", AddressFamily::Vsock, SockType::Stream),
        ("netlink", AddressFamily::Netlink, SockType::Datagram),
        ("packet", AddressFamily::Packet, SockType::Datagram),
        ("bluetooth", AddressFamily::Bluetooth, SockType::Stream),
        ("alg", AddressFamily::Alg, SockType::SeqPacket),
        ("raw", AddressFamily::Inet, SockType::Raw),
    ] {
        match family {
            // It leads to the own network alone.
            AddressFamily::Netlink if question.nested => {
                works(rows, format!("a {name} socket"), make(family, kind))
            }
            _ => fails(rows, format!("a {name} socket"), make(family, kind), &[libc::EPERM]),
        }
    }
}

#[expect(unsafe_code, reason = "what is tried are bare system calls")]
fn calls(question: &Question, rows: &mut Vec<Row>) {
    let zero: libc::c_long = 0;
    for (name, call, refusal) in [
        ("io_uring_setup", libc::SYS_io_uring_setup, libc::EPERM),
        ("keyctl", libc::SYS_keyctl, libc::EPERM),
        ("bpf", libc::SYS_bpf, libc::EPERM),
        ("perf_event_open", libc::SYS_perf_event_open, libc::EPERM),
        ("userfaultfd", libc::SYS_userfaultfd, libc::EPERM),
        ("mount", libc::SYS_mount, libc::EPERM),
        ("umount2", libc::SYS_umount2, libc::EPERM),
        ("setns", libc::SYS_setns, libc::EPERM),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, libc::EPERM),
        ("clone3", libc::SYS_clone3, libc::ENOSYS),
        ("openat2", libc::SYS_openat2, libc::ENOSYS),
    ] {
        // SAFETY: with no pointer and no size each of these is an error, also where it is allowed.
        let done =
            Errno::result(unsafe { libc::syscall(call, zero, zero, zero, zero, zero, zero) });
        // Where sandboxes are made some of them are allowed, and fail for what they are given.
        let allowed = question.nested && super::filter::SANDBOX.contains(&call);
        let refusal = if allowed { &[][..] } else { &[refusal] };
        fails(rows, name, done.map_err(io::Error::from), refusal);
    }
    if question.nested {
        works(rows, "a sandbox of its own with a /proc of its own", make_sandbox());
        return;
    }
    let made = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER);
    fails(rows, "a user namespace", made.map_err(io::Error::from), &[libc::EPERM]);
    // SAFETY: a child that came to be after all would be a copy of this one, which has one thread, and ends.
    let child = unsafe {
        libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, zero, zero, zero, zero)
    };
    if child == 0 {
        std::process::abort();
    }
    fails(
        rows,
        "a user namespace by clone",
        Errno::result(child).map_err(io::Error::from),
        &[libc::EPERM],
    );
}

/// Makes, in processes of their own, the namespaces of a sandbox, and a `/proc` in them.
#[expect(unsafe_code, reason = "namespaces are entered by forking")]
fn make_sandbox() -> io::Result<()> {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork};
    let ended = |child| match waitpid(child, None) {
        Ok(WaitStatus::Exited(_, 0)) => Ok(()),
        Ok(WaitStatus::Exited(_, code)) => Err(Errno::from_raw(code)),
        Ok(_) => Err(Errno::EINTR),
        Err(error) => Err(error),
    };
    let in_child = |done: nix::Result<()>| -> ! {
        // What is left to do belongs to the parent.
        unsafe { libc::_exit(done.map_or_else(|error| error as i32, |()| 0)) }
    };
    // SAFETY: this process has one thread.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(ended(child)?),
        ForkResult::Child => {
            let spaces =
                CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
            // SAFETY: as above.
            in_child(unshare(spaces).and_then(|()| match unsafe { fork() }? {
                ForkResult::Parent { child } => ended(child),
                ForkResult::Child => {
                    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
                    in_child(mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>))
                }
            }))
        }
    }
}

fn files(question: &Question, rows: &mut Vec<Row>) {
    for (at, path) in question.hidden.iter().enumerate() {
        let known = question.known.get(at).copied().flatten();
        if let (Some(known), Some(seen)) = (known, identity(path))
            && known != seen
        {
            let what = format!("{} of the host", path.display());
            rows.push(Row {
                what,
                found: "the image's own".to_owned(),
                holds: true,
                degraded: false,
            });
            continue;
        }
        let what = format!("{} of the host", path.display());
        match question.landlock {
            Some(_) => fenced::hidden(rows, what, path),
            None => fails(rows, what, fs::symlink_metadata(path), &[libc::ENOENT]),
        }
    }
    let closed = [libc::EROFS, libc::EACCES, libc::EPERM, libc::ENOENT];
    for folder in ["/usr", "/etc", "/", "/proc"] {
        let file = Path::new(folder).join("loopexec-canary");
        fails(rows, format!("a new file in {folder}"), fs::write(file, "x"), &closed);
    }
    for path in [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/dev/kmsg",
    ] {
        let opened = fs::OpenOptions::new().write(true).open(path);
        match path {
            // What covers it takes all and keeps nothing.
            "/proc/sysrq-trigger" if is_null(path) => {
                works(rows, format!("{path} is covered"), Ok(()))
            }
            _ => fails(rows, format!("{path} opened for writing"), opened, &closed),
        }
    }
    fails(rows, "a program that runs as its owner", set_user(0o4755), &[libc::EPERM]);
    fails(rows, "a program that runs as its group", set_user(0o2755), &[libc::EPERM]);
    works(rows, "a file in its own folder", write_here());
    for folder in ["/tmp", "/dev/shm"] {
        let what = format!("a file in {folder}");
        let made = fs::write(Path::new(folder).join("loopexec-canary"), "x");
        match question.landlock {
            // They are the machine's.
            Some(_) => fails(rows, what, made, &closed),
            None => works(rows, what, made),
        }
    }
    works(rows, "/dev/null", fs::write("/dev/null", "x"));
}

fn set_user(mode: u32) -> io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    fs::write("loopexec-canary", "x")?;
    let changed = fs::set_permissions("loopexec-canary", fs::Permissions::from_mode(mode));
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open("loopexec-made");
    let _ = fs::remove_file("loopexec-made");
    fs::remove_file("loopexec-canary")?;
    // Both ways have to be closed.
    changed.or(made.map(drop))
}

fn write_here() -> io::Result<()> {
    fs::write("loopexec-canary", "x")?;
    fs::remove_file("loopexec-canary")
}

fn is_null(path: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let null = fs::metadata("/dev/null").map(|found| found.rdev());
    matches!((fs::metadata(path).map(|found| found.rdev()), null), (Ok(a), Ok(b)) if a == b)
}

fn standing(rows: &mut Vec<Row>) {
    let mut add = |what: &str, found: String, holds| {
        rows.push(Row { what: what.to_owned(), found, holds, degraded: false });
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let uid = nix::unistd::getuid();
    add(
        "its user",
        uid.to_string(),
        !uid.is_root() && field("Uid").split(' ').all(|id| id == uid.to_string()),
    );
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let found = field(name);
        let holds = !found.is_empty() && found.bytes().all(|byte| byte == b'0');
        add(name, found, holds);
    }
    add("NoNewPrivs", field("NoNewPrivs"), field("NoNewPrivs") == "1");
    add("Seccomp", field("Seccomp"), field("Seccomp") == "2");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter(|entry| {
        entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let count = numbers.count();
    add("processes it sees", count.to_string(), count == 2);
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten().count();
    // The listing itself is the fourth.
    add("files it was given", open.saturating_sub(1).to_string(), open == 4);
    let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let names: Vec<&str> =
        interfaces.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    add(
        "its network interfaces",
        names.join(" "),
        names.iter().all(|name| *name == "lo" || is_idle_tunnel(name)),
    );
}

/// Says whether an interface is one of those that the kernel makes, switched off, in every new network.
fn is_idle_tunnel(name: &str) -> bool {
    ["gre", "gretap", "erspan", "ip6", "ip_vti", "sit", "tunl", "teql"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn gate(port: u16, allowed: &str, question: &Question, rows: &mut Vec<Row>) {
    let host_port = question.port;
    let token = question.token.as_deref();
    let ask = |target: &str, token: Option<&str>| -> io::Result<String> {
        let brought =
            token.map(|token| format!("Proxy-Authorization: {}\r\n", authorization(token)));
        let brought = brought.unwrap_or_default();
        let mut stream = TcpStream::connect_timeout(
            &SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            PATIENCE,
        )?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("CONNECT {target} HTTP/1.1\r\n{brought}\r\n").as_bytes())?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[9..]).into_owned())
    };
    if token.is_some() {
        let found = ask(allowed, None).unwrap_or_else(|e| e.to_string());
        let what = "the gate, without the token of the run".to_owned();
        rows.push(Row { what, holds: found == "407", found, degraded: false });
    }
    let found = ask(allowed, token).unwrap_or_else(|e| e.to_string());
    rows.push(Row {
        what: "the gate, for a listed target".into(),
        holds: found == "200",
        found,
        degraded: false,
    });
    for target in [format!("127.0.0.1:{host_port}"), "192.0.2.1:443".into(), format!("{allowed}0")]
    {
        let found = ask(&target, token).unwrap_or_else(|e| e.to_string());
        rows.push(Row {
            what: format!("the gate, for {target}"),
            holds: found == "403" || found == "400",
            found,
            degraded: false,
        });
    }
}
