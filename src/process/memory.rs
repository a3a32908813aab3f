//! How often the kernel has killed for want of memory where this process lives, and where its control groups are.

use std::path::{Path, PathBuf};

/// Where control groups are: those of version 2, or a folder for each controller of version 1.
pub(super) const CONTROLLER_ROOT: &str = "/sys/fs/cgroup";

/// Reads the counter of the own memory cgroup (v2, else v1), if there is one to see.
///
/// v2: `oom_kill` in `memory.events`; v1: `oom_kill` in `memory.oom_control`. Where no cgroup can be
/// seen, `oom_kill` of `/proc/vmstat` stands in.
pub(super) fn read_oom_kills() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    counter_files(&own)
        .iter()
        .find_map(|file| read_oom_kills_of(file))
        .or_else(read_oom_kills_anywhere)
}

/// Reads how often the kernel has done so anywhere on this machine: what a daemon's container counts goes with it.
pub(super) fn read_oom_kills_anywhere() -> Option<u64> {
    read_oom_kills_of("/proc/vmstat".as_ref())
}

/// Reads the same from a file of a group.
pub(super) fn read_oom_kills_of(file: &Path) -> Option<u64> {
    counter(&std::fs::read_to_string(file).ok()?, "oom_kill")
}

/// Returns the folders in which the own group of a controller may be found, best first; that of version 2 has no
/// controller in its name. `own` is the text of `/proc/self/cgroup`.
pub(super) fn folders(root: &Path, own: &str, controller: &str) -> Vec<PathBuf> {
    let roots = match controller {
        "" => vec![root.to_owned(), root.join("unified")],
        _ => vec![root.join(controller)],
    };
    let lines = own.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let of_it = controllers.split(',').any(|one| one == controller);
        of_it.then(|| path.trim_start_matches('/').to_owned())
    });
    // In a container the path is the host's and only the root is mounted.
    lines
        .flat_map(|path| roots.iter().flat_map(move |root| [root.join(&path), root.clone()]))
        .collect()
}

fn counter_files(own: &str) -> Vec<PathBuf> {
    let root = Path::new(CONTROLLER_ROOT);
    let of =
        |controller, name| folders(root, own, controller).into_iter().map(move |at| at.join(name));
    of("", "memory.events").chain(of("memory", "memory.oom_control")).collect()
}

/// Returns a number that a line of a file of a group gives a name.
pub(super) fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let both = counter_files("4:memory:/a/b\n1:cpu:/\n0::/c\n");
        assert!(both.contains(&"/sys/fs/cgroup/memory/a/b/memory.oom_control".into()));
        assert!(both.contains(&"/sys/fs/cgroup/c/memory.events".into()));
        assert!(!both.iter().any(|file| file.starts_with("/sys/fs/cgroup/cpu")));
        assert_eq!(folders(Path::new("/x"), "2:cpu,pids:/a\n", "pids").len(), 2);
        assert_eq!(counter("low 0\noom 3\noom_kill 2\n", "oom_kill"), Some(2));
        let v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
        assert_eq!(counter(v1, "oom_kill"), Some(1));
        assert_eq!(counter("max 7\n", "max"), Some(7));
        assert_eq!(counter("nothing", "oom_kill"), None);
    }
}
