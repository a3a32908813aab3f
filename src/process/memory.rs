//! How often the kernel has killed for want of memory where this process lives.

use std::path::{Path, PathBuf};

/// Reads the counter of the own memory cgroup (v2, else v1), if there is one to see.
///
/// v2: `oom_kill` in `memory.events`; v1: `oom_kill` in `memory.oom_control`. Where no cgroup can be
/// seen, `oom_kill` of `/proc/vmstat` stands in.
pub(super) fn read_oom_kills() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = counter_files(&groups);
    files
        .iter()
        .find_map(|file| read_counter(file))
        .or_else(|| read_counter("/proc/vmstat".as_ref()))
}

/// Reads how often the kernel has done so anywhere on this machine: what a daemon's container counts goes with it.
pub(super) fn read_oom_kills_anywhere() -> Option<u64> {
    read_counter("/proc/vmstat".as_ref())
}

/// Reads the bytes of files in memory on this machine, those without a name too; `Shmem` of proc_meminfo(5).
pub(super) fn read_shared() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

fn counter_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let path = path.trim_start_matches('/');
        let (roots, name): (&[&str], _) = if controllers.is_empty() {
            (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.events")
        } else if controllers.split(',').any(|c| c == "memory") {
            (&["/sys/fs/cgroup/memory"], "memory.oom_control")
        } else {
            continue;
        };
        for root in roots {
            files.push(Path::new(root).join(path).join(name));
            // In a container the path is the host's and only the root is mounted.
            files.push(Path::new(root).join(name));
        }
    }
    files
}

fn read_counter(file: &Path) -> Option<u64> {
    parse_counter(&std::fs::read_to_string(file).ok()?)
}

fn parse_counter(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let v1 = counter_files("4:memory:/a/b\n1:cpu:/\n0::/c\n");
        assert!(v1.contains(&"/sys/fs/cgroup/memory/a/b/memory.oom_control".into()));
        assert!(v1.contains(&"/sys/fs/cgroup/c/memory.events".into()));
        assert_eq!(parse_counter("low 0\noom 3\noom_kill 2\n"), Some(2));
        assert_eq!(parse_counter("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"), Some(1));
        assert_eq!(parse_counter("nothing"), None);
    }
}
