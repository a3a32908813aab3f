//! The root of an enclosure: an empty file system in memory into which what is listed is mounted, with
//! devices and `/proc` of its own, and then nothing that leads back.

use super::enclosure::Enclosure;
use super::job::Mount;
use super::namespace::{Made, bind, make_read_only};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the host's root stays while the new one is put together.
pub(super) const OLD: &str = "/.host";

/// Where layers of an overlay are for the moment of its mount.
pub(super) const LAYERS: [&str; 2] = ["/.lower", "/.changes"];

/// Devices that every program may count on.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links that every program may count on.
const LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// Files of `/proc` that tell of the host or change it.
const MASKED: [&str; 9] = [
    "acpi",
    "kcore",
    "keys",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "scsi",
    "sysrq-trigger",
    "timer_list",
];

/// Parts of `/proc` that can be read and no more.
const FIXED: [&str; 4] = ["bus", "fs", "irq", "sys"];

/// Puts an empty root in the place of the host's, which stays at [`OLD`] for the while.
pub(super) fn replace(enclosure: &Enclosure) -> Made<()> {
    let staging = &enclosure.staging;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), staging, Some("tmpfs"), flags, Some("mode=755,size=16m,nr_inodes=64k"))
        .map_err(|e| format!("cannot mount an empty root at {staging:?}: {e}"))?;
    let old = staging.join(OLD.trim_start_matches('/'));
    fs::create_dir(&old).map_err(|e| format!("cannot make a folder in the empty root: {e}"))?;
    nix::unistd::pivot_root(staging.as_path(), old.as_path())
        .and_then(|()| nix::unistd::chdir("/"))
        .map_err(|e| format!("cannot enter the empty root: {e}"))
}

/// Makes the target of an entry: an empty file for a file, else a folder.
pub(super) fn make_target(entry: &Mount, is_file: bool) -> io::Result<()> {
    let to = entry.target();
    if fs::symlink_metadata(to).is_ok() {
        return Ok(());
    }
    let parent = if is_file { to.parent().unwrap_or(to) } else { to };
    fs::create_dir_all(parent)?;
    if is_file { fs::File::create(to).map(drop) } else { Ok(()) }
}

/// Mounts a folder in memory that everyone may write to.
pub(super) fn mount_memory(to: &Path, bytes: u64) -> nix::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), to, Some("tmpfs"), flags, Some(&*format!("mode=1777,size={bytes}")))
}

/// Makes `/dev`.
pub(super) fn make_devices(enclosure: &Enclosure) -> Made<()> {
    let failed = |e: io::Error| format!("cannot make /dev: {e}");
    let make = || -> io::Result<()> {
        fs::create_dir_all("/dev/shm")?;
        fs::create_dir_all("/dev/pts")?;
        for name in DEVICES {
            let (from, to) = (format!("{OLD}/dev/{name}"), format!("/dev/{name}"));
            if Path::new(&from).exists() {
                fs::File::create(&to)?;
                bind(&from, Path::new(&to))?;
            }
        }
        for (link, says) in LINKS {
            std::os::unix::fs::symlink(says, link)?;
        }
        mount_memory(Path::new("/dev/shm"), enclosure.shm)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        mount(
            Some("devpts"),
            "/dev/pts",
            Some("devpts"),
            flags,
            Some("newinstance,ptmxmode=0666,mode=0620"),
        )?;
        fs::create_dir("/proc")
    };
    make().map_err(failed)
}

/// Gives `/proc` what is left of it and takes the way back to the host away; process 1 does it.
pub(super) fn close(enclosure: &Enclosure) -> Made<()> {
    let failed = |what: &str, e: &dyn std::fmt::Display| format!("cannot {what}: {e}");
    let (fixed, masked): (&[&str], &[&str]) =
        if enclosure.nested { (&[], &[]) } else { (&FIXED, &MASKED) };
    for name in fixed {
        let path = PathBuf::from("/proc").join(name);
        if path.exists() {
            bind(&path.to_string_lossy(), &path)
                .and_then(|()| make_read_only("/proc", &path))
                .map_err(|e| failed("make parts of /proc read-only", &e))?;
        }
    }
    for name in masked {
        let path = PathBuf::from("/proc").join(name);
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let done = match found.is_dir() {
            true => mount(Some("tmpfs"), &path, Some("tmpfs"), flags, Some("size=0,mode=555")),
            false => bind("/dev/null", &path),
        };
        done.map_err(|e| failed("cover parts of /proc", &e))?;
    }
    umount2(OLD, MntFlags::MNT_DETACH).map_err(|e| failed("leave the host's root", &e))?;
    fs::remove_dir(OLD).map_err(|e| failed("leave the host's root", &e))?;
    // What was made while mounting keeps its owner; nobody adds to it.
    let _ = fs::set_permissions("/", fs::Permissions::from_mode(0o755));
    let flags = MsFlags::MS_BIND
        | MsFlags::MS_REMOUNT
        | MsFlags::MS_RDONLY
        | MsFlags::MS_NOSUID
        | MsFlags::MS_NODEV;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(|e| failed("make the root read-only", &e))
}
