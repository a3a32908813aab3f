//! Control groups of zones: what they count that no look from outside would, and that none stays behind; and what is
//! looked at beside them.

use super::run::backend;
use super::{Ground, SOMEBODY, is_root, unprivileged};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Whether a control group can be made here, found out once by making one.
fn makes_groups() -> bool {
    static MAKES: LazyLock<bool> = LazyLock::new(try_to_make);
    *MAKES
}

fn try_to_make() -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let path_of = |start: &str| {
        let line = own.lines().find(|line| line.contains(start))?;
        Some(line.rsplit(':').next().unwrap_or_default().trim_start_matches('/').to_owned())
    };
    let root = Path::new("/sys/fs/cgroup");
    let makes = |parent: &Path| {
        let one = parent.join(format!("lx-try-{}", std::process::id()));
        fs::create_dir(&one).is_ok() && fs::remove_dir(&one).is_ok()
    };
    if let Some(path) = path_of(":pids:") {
        return makes(&root.join("pids").join(path));
    }
    let own = root.join(path_of("0::").unwrap_or_default());
    own.ancestors().take_while(|folder| folder.starts_with(root)).any(|folder| {
        let on = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap_or_default();
        on.contains("memory") && on.contains("pids") && makes(folder)
    })
}

/// Where the group of ours is that a process is in, as the host sees it.
fn group_of(pid: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let ours = |line: &&str| line.contains("loopexec-") && !line.contains(":memory:");
    let line = groups.lines().find(ours)?;
    let path = line.rsplit(':').next()?;
    let root = if line.starts_with("0::") { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/pids" };
    Some(Path::new(root).join(path.trim_start_matches('/')))
}

fn bounded_by(ground: &Ground) -> Value {
    ground.start()["isolation"]["zones"]["bounded_by"].clone()
}

#[test]
fn what_lies_in_files_in_memory_counts_and_a_crowd_is_on_record() {
    let ground = Ground::new();
    let exec = "python3 -c 'import os\nfile = os.memfd_create(\"x\")\nfor n in range(60): os.write(file, b\"x\" * 10_000_000)'\n\
        echo yes > done";
    ground.lines(backend(), exec, "grep -q yes done", "  agent: {memory: 200MiB}\n");
    let (said, _) = ground.run(&[]);
    let hit = ground.events().into_iter().find(|event| event["limit"].is_string());
    match makes_groups() {
        true => {
            assert_eq!(bounded_by(&ground), "control_group");
            let hit = hit.unwrap_or_else(|| panic!("{said}: {}", ground.outputs()));
            assert_eq!(hit["limit"], "memory", "{said}");
            assert_eq!(said["converged"], false, "it was ended with the first one that was killed");
        }
        // A file that belongs to no process is nobody's, which the README says.
        false => assert_eq!(bounded_by(&ground), "watch"),
    }
}

#[test]
fn empty_files_take_of_the_disk_too() {
    let ground = Ground::new();
    let exec = "mkdir many; cd many; seq 60000 | xargs touch; sleep 2; rm -rf ../many";
    ground.lines(backend(), exec, "grep -q yes done", "  agent: {disk: 20MiB}\n");
    ground.edit("iterations: 3", "iterations: 1");
    ground.run(&[]);
    let hits: Vec<Value> = ground.events().iter().map(|event| event["limit"].clone()).collect();
    assert!(hits.contains(&"disk".into()), "{hits:?} {}", ground.outputs());
}

#[test]
fn a_group_goes_with_its_command_and_with_its_supervisor() {
    let ground = Ground::new();
    if !makes_groups() {
        // There is none to go, which has to be told.
        let said = super::json(&ground.isolate(&[], &["--canary", "--json"]));
        assert_eq!(said["bounded_by"], "watch", "{said}");
        return;
    }
    let marker = "4711.25";
    let mut child = ground.command(&[]).args(["isolate", "--", "sleep", marker]).spawn().unwrap();
    let begun = Instant::now();
    let group = loop {
        let found =
            Command::new("pgrep").args(["-f", &format!("^sleep {marker}")]).output().unwrap();
        let pids = String::from_utf8(found.stdout).unwrap();
        if let Some(group) = pids.lines().next().and_then(group_of) {
            break group;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it never started");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(group.file_name().unwrap().to_string_lossy().starts_with("loopexec-"), "{group:?}");
    assert_eq!(fs::read_to_string(group.join("pids.max")).unwrap().trim(), "4097");
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    while group.exists() {
        assert!(killed.elapsed() < Duration::from_secs(2), "{group:?} stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn who_may_make_no_group_is_watched() {
    let ground = Ground::new();
    ground.give_away();
    let output = ground.isolate(&unprivileged(), &["--canary", "--json"]);
    let said = super::json(&output);
    let delegated = !is_root() && makes_groups();
    let expected = if delegated { "control_group" } else { "watch" };
    assert_eq!(said["bounded_by"], expected, "{SOMEBODY}: {said}");
}
