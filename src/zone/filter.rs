//! The system calls that no command in a zone makes.
//!
//! Everything is allowed but what is listed: test suites use most of the rest. Refused are calls that change
//! the machine, make namespaces or mounts, reach kernel parts with a history of holes, or make sockets of a
//! family that a network namespace does not hold (`vsock`, `packet`, `netlink` and the like). io_uring makes
//! sockets without `socket`, so that it goes too.

use super::kind::{Kind, Reach};
use crate::error::{self, Error, Result};
use crate::process::filter_word;
use libc as c;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// Calls that are refused whatever their arguments.
const REFUSED: &[c::c_long] = &[
    c::SYS_acct,
    c::SYS_add_key,
    c::SYS_bpf,
    c::SYS_clock_adjtime,
    c::SYS_clock_settime,
    c::SYS_delete_module,
    c::SYS_fanotify_init,
    c::SYS_finit_module,
    c::SYS_fsconfig,
    c::SYS_fsmount,
    c::SYS_fsopen,
    c::SYS_fspick,
    c::SYS_init_module,
    c::SYS_io_uring_enter,
    c::SYS_io_uring_register,
    c::SYS_io_uring_setup,
    c::SYS_kexec_file_load,
    c::SYS_kexec_load,
    c::SYS_keyctl,
    c::SYS_lookup_dcookie,
    c::SYS_mount,
    c::SYS_mount_setattr,
    c::SYS_move_mount,
    c::SYS_nfsservctl,
    c::SYS_open_by_handle_at,
    c::SYS_open_tree,
    c::SYS_perf_event_open,
    c::SYS_pivot_root,
    c::SYS_quotactl,
    c::SYS_reboot,
    c::SYS_request_key,
    c::SYS_setdomainname,
    c::SYS_sethostname,
    c::SYS_setns,
    c::SYS_settimeofday,
    c::SYS_swapoff,
    c::SYS_swapon,
    c::SYS_syslog,
    c::SYS_umount2,
    c::SYS_unshare,
    c::SYS_userfaultfd,
    c::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    c::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    c::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    c::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    c::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    c::SYS__sysctl,
];

/// Namespaces that `clone` would make.
const NEW: c::c_int = c::CLONE_NEWCGROUP
    | c::CLONE_NEWIPC
    | c::CLONE_NEWNET
    | c::CLONE_NEWNS
    | c::CLONE_NEWPID
    | c::CLONE_NEWUSER
    | c::CLONE_NEWUTS;

/// Bits of a file's mode by which a program runs as the file's owner or group. Files of a zone may be root's
/// on disk, and stay when the zone is gone.
const SET_USER: u64 = 0o4000;
const SET_GROUP: u64 = 0o2000;

/// `__O_TMPFILE` of `asm-generic/fcntl.h`.
const TEMPORARY: u64 = 0o20_000_000;

/// Calls that set a mode, and which argument it is.
const MODES: &[(c::c_long, u8)] = &[
    (c::SYS_fchmod, 1),
    (c::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (c::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_mknod, 1),
];

/// `fchmodat2`, the same number everywhere (Linux 6.6).
const FCHMODAT2: c::c_long = 452;

/// Calls that may make a file, and which argument their flags are; the mode follows.
const OPENS: &[(c::c_long, u8)] = &[
    (c::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_open, 1),
];

/// Bits of a socket's type that are its type, and no flags of it.
const TYPE: u64 = 0xf;

/// `ioctl`s that write into a terminal somebody else reads.
const TERMINAL: [u64; 2] = [c::TIOCSTI, TIOCLINUX];

/// `TIOCLINUX` of `asm-generic/ioctls.h`.
const TIOCLINUX: u64 = 0x541c;

/// Calls of the x32 interface carry this bit and pass every rule written for the others.
const X32: u32 = 0x4000_0000;

/// Of these what a sandbox is made with: namespaces and mounts that hold in them alone.
pub(super) const SANDBOX: &[c::c_long] = &[
    c::SYS_fsconfig,
    c::SYS_fsmount,
    c::SYS_fsopen,
    c::SYS_fspick,
    c::SYS_mount,
    c::SYS_mount_setattr,
    c::SYS_move_mount,
    c::SYS_open_tree,
    c::SYS_pivot_root,
    c::SYS_setdomainname,
    c::SYS_sethostname,
    c::SYS_setns,
    c::SYS_umount2,
    c::SYS_unshare,
];

/// What a filter has to hold by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What neither namespaces nor a missing privilege hold.
    Plain,
    /// The same, where sandboxes are made inside.
    Nested,
    /// What Landlock does not hold either: there is no network and no mount of the zone's own.
    Landlock,
}

/// Returns the filters of a zone as `process::Enclosure` takes them.
///
/// # Errors
/// `isolation_unsatisfiable` on a processor for which there is none.
pub(super) fn programs(kind: Kind, reach: &Reach, extent: Extent) -> Result<Vec<Vec<u64>>> {
    let build = || -> std::result::Result<Vec<BpfProgram>, seccompiler::BackendError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let filter = |rules,
                      refusal: c::c_int|
         -> std::result::Result<BpfProgram, seccompiler::BackendError> {
            let refusal = SeccompAction::Errno(refusal.unsigned_abs());
            SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?.try_into()
        };
        // The arguments of these lie in memory, where no filter sees them; without them libraries use the older ones.
        let absent = BTreeMap::from([(c::SYS_clone3, Vec::new()), (c::SYS_openat2, Vec::new())]);
        let mut refused = rules(kind, reach, extent == Extent::Nested)?;
        if extent == Extent::Landlock {
            add_to_landlock(reach, &mut refused)?;
        }
        let mut programs = vec![filter(refused, c::EPERM)?, filter(absent, c::ENOSYS)?];
        if cfg!(target_arch = "x86_64") {
            programs.push(refuse_x32());
        }
        Ok(programs)
    };
    let programs = build().map_err(|error| {
        Error::new(
            error::Kind::IsolationUnsatisfiable,
            "no filter of system calls can be made here",
        )
        .because(error)
    })?;
    Ok(programs.iter().map(|program| program.iter().map(filter_word).collect()).collect())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules(
    kind: Kind,
    reach: &Reach,
    nested: bool,
) -> std::result::Result<Rules, seccompiler::BackendError> {
    let when = |at, length, op, value| SeccompCondition::new(at, length, op, value);
    let refused = REFUSED.iter().filter(|call| !(nested && SANDBOX.contains(call)));
    let mut rules: Rules = refused.map(|call| (*call, Vec::new())).collect();
    // A rule holds where all its conditions do: each bit is one rule.
    let mut clones = Vec::new();
    for bit in 0..32 {
        let flag = u64::from(NEW.unsigned_abs()) & (1 << bit);
        if flag != 0 {
            clones.push(SeccompRule::new(vec![when(0, Length::Qword, Op::MaskedEq(flag), flag)?])?);
        }
    }
    if !nested {
        rules.insert(c::SYS_clone, clones);
    }
    // A sandbox switches its own loopback on through netlink, whose sockets are raw.
    let netlink = nested.then_some(c::AF_NETLINK);
    let families = kind.families(reach).iter().copied().chain(netlink);
    let foreign = families
        .map(|family| when(0, Length::Dword, Op::Ne, u64::from(family.unsigned_abs())))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let netlink = u64::from(c::AF_NETLINK.unsigned_abs());
    let raw = vec![
        when(0, Length::Dword, Op::Ne, netlink)?,
        when(1, Length::Dword, Op::MaskedEq(TYPE), u64::from(c::SOCK_RAW.unsigned_abs()))?,
    ];
    let other = vec![
        when(0, Length::Dword, Op::Eq, netlink)?,
        when(2, Length::Dword, Op::Ne, u64::from(c::NETLINK_ROUTE.unsigned_abs()))?,
    ];
    let sockets = [foreign, raw, other].map(SeccompRule::new);
    rules.insert(c::SYS_socket, sockets.into_iter().collect::<std::result::Result<_, _>>()?);
    let pair = when(0, Length::Dword, Op::Ne, u64::from(c::AF_UNIX.unsigned_abs()))?;
    rules.insert(c::SYS_socketpair, vec![SeccompRule::new(vec![pair])?]);
    let terminal = TERMINAL
        .iter()
        .map(|code| SeccompRule::new(vec![when(1, Length::Dword, Op::Eq, *code)?]))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    rules.insert(c::SYS_ioctl, terminal);
    // Who bounds the first process of its namespace blinds who counts what is left.
    let of_others = when(0, Length::Dword, Op::Ne, 0)?;
    rules.insert(c::SYS_prlimit64, vec![SeccompRule::new(vec![of_others])?]);
    for (call, mode) in MODES {
        let rule =
            |bit| SeccompRule::new(vec![when(*mode, Length::Dword, Op::MaskedEq(bit), bit)?]);
        rules.insert(*call, vec![rule(SET_USER)?, rule(SET_GROUP)?]);
    }
    for (call, flags) in OPENS {
        let mut made = Vec::new();
        // Without one of these flags the mode is whatever stood in its place.
        for flag in [u64::from(c::O_CREAT.unsigned_abs()), TEMPORARY] {
            for bit in [SET_USER, SET_GROUP] {
                made.push(SeccompRule::new(vec![
                    when(*flags, Length::Dword, Op::MaskedEq(flag), flag)?,
                    when(*flags + 1, Length::Dword, Op::MaskedEq(bit), bit)?,
                ])?);
            }
        }
        rules.insert(*call, made);
    }
    Ok(rules)
}

/// Calls that reach what this machine's processes share without a file.
const SHARED: &[c::c_long] =
    &[c::SYS_mq_open, c::SYS_msgget, c::SYS_semget, c::SYS_shmget, c::SYS_shmat];

/// A connection that the first data makes asks Landlock nothing (`tcp(7)`).
const SENDS: &[(c::c_long, u8)] = &[(c::SYS_sendto, 3), (c::SYS_sendmsg, 2), (c::SYS_sendmmsg, 3)];

/// Adds what Landlock does not hold: it knows of sockets those of plain TCP, and of them `bind` and `connect`.
fn add_to_landlock(
    reach: &Reach,
    rules: &mut Rules,
) -> std::result::Result<(), seccompiler::BackendError> {
    let when = |at, op, value| SeccompCondition::new(at, Length::Dword, op, value);
    let of_type = |kind: u64| SeccompRule::new(vec![when(1, Op::MaskedEq(TYPE), kind)?]);
    let word = |value: c::c_int| u64::from(value.unsigned_abs());
    rules.extend(SHARED.iter().map(|call| (*call, Vec::new())));
    // A pair of the others sends to any socket by its path.
    let paired = [word(c::SOCK_STREAM), word(c::SOCK_SEQPACKET)];
    let unpaired = (0..=TYPE).filter(|kind| !paired.contains(kind)).map(of_type);
    let unpaired = unpaired.collect::<std::result::Result<Vec<_>, _>>()?;
    rules.entry(c::SYS_socketpair).or_default().extend(unpaired);
    match reach {
        Reach::Host => {}
        Reach::Nothing | Reach::Doors(_) => {
            rules.insert(c::SYS_socket, Vec::new());
        }
        Reach::Gate(_) => {
            let others = (0..=TYPE).filter(|kind| *kind != word(c::SOCK_STREAM)).map(of_type);
            let mut more = others.collect::<std::result::Result<Vec<_>, _>>()?;
            let foreign = [when(2, Op::Ne, 0)?, when(2, Op::Ne, word(c::IPPROTO_TCP))?];
            more.push(SeccompRule::new(foreign.to_vec())?);
            rules.entry(c::SYS_socket).or_default().extend(more);
            // Who listens without a port is given one.
            rules.insert(c::SYS_listen, Vec::new());
            let fast = word(c::MSG_FASTOPEN);
            for (call, flags) in SENDS {
                let rule = SeccompRule::new(vec![when(*flags, Op::MaskedEq(fast), fast)?])?;
                rules.insert(*call, vec![rule]);
            }
        }
    }
    Ok(())
}

/// Returns a program of four instructions that refuses every call of the x32 interface, see seccomp(2).
fn refuse_x32() -> BpfProgram {
    let step = |code: u32, jt, jf, k| sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt,
        jf,
        k,
    };
    vec![
        // `nr` is the first field of `struct seccomp_data`.
        step(c::BPF_LD | c::BPF_W | c::BPF_ABS, 0, 0, 0),
        step(c::BPF_JMP | c::BPF_JGE | c::BPF_K, 0, 1, X32),
        step(c::BPF_RET | c::BPF_K, 0, 0, c::SECCOMP_RET_ERRNO | c::ENOSYS.unsigned_abs()),
        step(c::BPF_RET | c::BPF_K, 0, 0, c::SECCOMP_RET_ALLOW),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_zones_have_filters_and_they_differ() {
        let of = |kind, reach| programs(kind, &reach, Extent::Plain).unwrap();
        let (agent, exec) = (of(Kind::Agent, Reach::Nothing), of(Kind::Exec, Reach::Nothing));
        assert!(agent.len() >= 2 && agent.len() == exec.len());
        assert_ne!(agent[0], exec[0], "unix sockets are for the exec zone");
        assert_eq!(agent[0], of(Kind::Exec, Reach::Host)[0], "and only where they are its own");
        assert!(agent.iter().flatten().count() < 4096, "the kernel takes no more");
        for reach in [Reach::Nothing, Reach::Gate(1), Reach::Host] {
            let more = programs(Kind::Agent, &reach, Extent::Landlock).unwrap();
            assert_ne!(more[0], agent[0], "{reach:?}");
            assert!(more.iter().flatten().count() < 4096, "{reach:?}");
        }
    }
}
