//! What `/proc` says about processes; on systems without it, nothing.

use super::job::Survivor;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Longest command line that is named.
const LONGEST_COMMAND: usize = 200;
/// Most survivors that are named.
pub(super) const MOST_SURVIVORS: usize = 200;

/// One process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) state: u8,
    /// Clock ticks used by itself and by the children it has waited for.
    pub(super) ticks: u64,
    /// Clock ticks after boot.
    pub(super) started: u64,
}

impl Process {
    /// Says whether it has ended and only waits for its parent.
    pub(super) fn is_dead(&self) -> bool {
        self.is_over() && living_thread(self.pid).is_none()
    }

    /// Says whether its first thread has ended; others may live.
    fn is_over(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Reads one process, if it is there.
pub(super) fn read_process(pid: i32) -> Option<Process> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads every process that can be seen.
pub(super) fn read_processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter_map(read_process).collect()
}

/// Returns every process below `root`, itself excepted.
pub(super) fn descendants(root: i32, all: &[Process]) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<&Process>> = BTreeMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    // A listing is no snapshot: a reused number may close a circle.
    let mut seen = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if seen.insert(child.pid) {
                found.push(**child);
                next.push(child.pid);
            }
        }
    }
    found
}

/// Returns the number under which a process shows what it has: its own, or where its first thread has ended that of
/// a thread that lives.
fn speaker(pid: i32) -> i32 {
    match read_process(pid) {
        Some(process) if process.is_over() => living_thread(pid).unwrap_or(pid),
        _ => pid,
    }
}

/// Returns a thread of a process that has not ended.
fn living_thread(pid: i32) -> Option<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let numbers = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|thread| *thread != pid).find(|thread| {
        fs::read(format!("/proc/{pid}/task/{thread}/stat"))
            .ok()
            .and_then(|stat| parse_stat(&stat))
            .is_some_and(|stat| !stat.is_over())
    })
}

/// Reads the bytes of memory that a process has, shared ones too; field 2 of proc_pid_statm(5).
pub(super) fn read_resident(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/statm", speaker(pid))).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages.saturating_mul(u64::try_from(size).ok()?))
}

/// Reads the same with each shared page divided among those who have it; `Pss` of proc_pid_smaps(5).
pub(super) fn read_proportional(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", speaker(pid))).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// Returns a number that changes when the tree below `root` uses CPU, grows or shrinks.
pub(super) fn read_activity(root: i32) -> (u64, BTreeSet<i32>) {
    let tree = descendants(root, &read_processes());
    let ticks = tree.iter().map(|process| process.ticks).sum();
    (ticks, tree.iter().map(|process| process.pid).collect())
}

/// Reads a process's names, bounded and without control characters.
pub(super) fn read_survivor(pid: i32) -> Survivor {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let command = read_start(&format!("/proc/{pid}/cmdline"));
    Survivor { pid, name: printable(name.trim_ascii_end()), command: printable(&command) }
}

fn read_start(path: &str) -> Vec<u8> {
    use std::io::Read;
    let mut start = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        // A character has at most four bytes.
        let _ = file.take(4 * LONGEST_COMMAND as u64).read_to_end(&mut start);
    }
    while start.last() == Some(&0) {
        start.pop();
    }
    start
}

fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let clean = text.chars().map(|c| match c {
        '\0' => ' ',
        c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => '\u{fffd}',
        c => c,
    });
    clean.take(LONGEST_COMMAND).collect()
}

/// Parses `/proc/PID/stat`, see proc_pid_stat(5); the name in it may hold anything, `)` too.
fn parse_stat(stat: &[u8]) -> Option<Process> {
    let open = stat.iter().position(|b| *b == b'(')?;
    let close = stat.iter().rposition(|b| *b == b')')?;
    let pid = std::str::from_utf8(&stat[..open]).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        state: *fields.first()?.as_bytes().first()?,
        ticks: number(11)? + number(12)? + number(13)? + number(14)?,
        started: number(19)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_move_the_fields() {
        let line = b"42 (a) R (b) S 7 1 1 0 -1 4 1 2 3 4 10 20 30 40 20 0 1 0 999 1 2 3\n";
        let expected = Process { pid: 42, parent: 7, state: b'S', ticks: 100, started: 999 };
        assert_eq!(parse_stat(line), Some(expected));
        for cut in 0..40 {
            let _ = parse_stat(&line[..cut]);
        }
    }

    #[test]
    fn descendants_are_found_through_circles() {
        let process = |pid, parent| Process { pid, parent, state: b'S', ticks: 0, started: 0 };
        let all = [process(2, 1), process(3, 2), process(4, 3), process(2, 4), process(9, 8)];
        let found: BTreeSet<i32> = descendants(2, &all).iter().map(|p| p.pid).collect();
        assert_eq!(found, BTreeSet::from([3, 4]));
    }

    #[test]
    fn names_carry_no_control_characters() {
        assert_eq!(printable(b"sh\0-c\0\x1b[31m\xff"), "sh -c \u{fffd}[31m\u{fffd}");
    }
}
