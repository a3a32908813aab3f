//! What of the host's file system a zone shows: the system's own folders, read-only, and places for what
//! is temporary. Nothing of `/home`, `/root`, `/run`, `/srv` or other people's `/tmp` is in it.

use crate::process::Mount;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of programs and libraries; a link among them stays a link.
const SYSTEM: [&str; 11] = [
    "/bin",
    "/etc",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    "/sbin",
    "/usr",
];

/// What package managers keep elsewhere and programs read.
const STATE: [&str; 5] =
    ["/var/lib/dpkg", "/var/lib/gems", "/var/lib/ghc", "/var/lib/rpm", "/var/lib/texmf"];

/// What programs ask of the processors.
const PROCESSORS: [&str; 2] = ["/sys/devices/system/cpu", "/sys/devices/system/node"];

/// Returns the system as every zone shows it; `memory` is the size of `/tmp` in bytes.
pub fn mounts(memory: u64) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for path in SYSTEM.iter().chain(&STATE).chain(&PROCESSORS).map(Path::new) {
        let Ok(found) = fs::symlink_metadata(path) else { continue };
        if found.is_symlink() {
            let says = fs::read_link(path).unwrap_or_default();
            mounts.push(Mount::Link { says, to: path.to_owned() });
        } else if found.is_dir() {
            mounts.push(read_only(path.to_owned()));
        }
    }
    mounts.push(Mount::Memory { bytes: memory, to: "/tmp".into() });
    mounts.push(Mount::Link { says: "/tmp".into(), to: "/var/tmp".into() });
    mounts.push(Mount::Link { says: "/run".into(), to: "/var/run".into() });
    mounts.push(Mount::Memory { bytes: 1 << 20, to: "/run".into() });
    mounts
}

/// Returns the file that says who resolves names, where `/etc` has a link to it that leads elsewhere.
pub(super) fn resolver() -> Option<Mount> {
    let file = fs::canonicalize("/etc/resolv.conf").ok()?;
    (!is_shown(&file)).then(|| read_only(file))
}

/// Returns nine tenths of the bytes of memory that processes here may have at all: of the machine's, or of what
/// the control group allows (`memory.max`, `memory.limit_in_bytes`) where that is less.
pub(super) fn most_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let least = groups.into_iter().filter_map(number).chain([kib.saturating_mul(1024)]).min()?;
    Some(least / 10 * 9)
}

/// Folders in which the system keeps what is for root alone.
const CONFIGURED: [&str; 2] = ["/etc", "/opt"];

/// Entries of them that are looked at.
const MOST_LOOKED_AT: usize = 20_000;

/// Returns what of the system is not for everybody, outermost: whoever stays root could read it.
///
/// Where there is more than can be looked at, the rest is not said to be for everybody either.
pub(super) fn of_root() -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut pending: Vec<PathBuf> = CONFIGURED.iter().map(PathBuf::from).collect();
    while let Some(path) = pending.pop() {
        let Ok(seen) = fs::symlink_metadata(&path) else { continue };
        looked_at += 1;
        let needed = if seen.is_dir() { 0o005 } else { 0o004 };
        if seen.is_symlink() {
            continue;
        }
        let too_much = seen.is_dir() && looked_at > MOST_LOOKED_AT;
        if too_much || seen.mode() & needed != needed {
            found.push(path);
        } else if seen.is_dir() {
            pending.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.path()));
        }
    }
    found
}

/// Says whether a path is shown as part of the system.
pub fn is_shown(path: &Path) -> bool {
    SYSTEM.iter().chain(&STATE).any(|folder| path.starts_with(folder))
}

/// Returns the entry that shows a path at its own place, read-only.
pub fn read_only(path: PathBuf) -> Mount {
    Mount::BindReadOnly { from: path.clone(), to: path }
}
