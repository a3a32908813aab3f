//! What needs more of a machine: python and node from version managers, a package cache, root.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

use loopexec::domain::command::Exit;
use loopexec::process::environment::{Surroundings, Variables, write_home};
use loopexec::process::toolchains::Toolchains;
use loopexec::process::{Capability, Job, Outcome, Placement, Silent, Supervisor, View};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn supervisor(placement: Placement) -> Supervisor {
    Supervisor::new(env!("CARGO_BIN_EXE_loopexec").into(), placement).unwrap()
}

fn job(
    script: &str,
    cwd: &Path,
    env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
    view: View,
) -> Job {
    Job {
        argv: ["sh", "-ec", script].map(Into::into).to_vec(),
        cwd: cwd.into(),
        env,
        view,
        deadline: Some(Duration::from_secs(300)),
        idle: None,
        enclosure: None,
        idle_watch: Vec::new(),
        grace: Duration::from_secs(1),
        keep: 1 << 20,
    }
}

fn text(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&[outcome.stdout.kept(), outcome.stderr.kept()].concat()).into_owned()
}

#[test]
fn python_node_and_a_crate_with_dependencies_work_under_a_private_home() {
    let place = place();
    let tree = place.path();
    let caller: Variables = std::env::vars_os().collect();
    let mut supervisor = supervisor(Placement::Detect);
    let namespaces = matches!(supervisor.probe(tree).unwrap(), Capability::Namespaces { .. });
    let toolchains = Toolchains::resolve(&mut supervisor, &caller, tree).unwrap();
    let (home, tmp) = (tree.join("home"), tree.join("tmp"));
    write_home(&home).unwrap();
    fs::create_dir_all(&tmp).unwrap();
    let around = Surroundings {
        caller: &caller,
        home: &home,
        tmp: &tmp,
        toolchains: &toolchains,
        own: &BTreeMap::new(),
    };
    let spec = loopexec::domain::command::CommandSpec {
        run: loopexec::domain::command::Run::Argv(Vec::new()),
        cwd: None,
        env: BTreeMap::new(),
        pass_env: Vec::new(),
        timeout: None,
    };
    fs::create_dir_all(tree.join("p/src")).unwrap();
    fs::write(
        tree.join("p/Cargo.toml"),
        "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nlibc = \"0.2\"\n[workspace]\n",
    )
    .unwrap();
    // The very version that this package is built with is in the cache.
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.lock"), tree.join("p/Cargo.lock"))
        .unwrap();
    fs::write(
        tree.join("p/src/main.rs"),
        "fn main() { println!(\"pid {}\", unsafe { libc::getpid() } > 0); }",
    )
    .unwrap();
    let script =
        "python3 -c 'import os, sys; print(\"python\", sys.prefix, os.path.expanduser(\"~\"))'
        python3 -m venv venv; venv/bin/python -c 'import sys; print(\"venv\", sys.prefix)'
        node -e 'console.log(\"node\", require(\"os\").homedir())'
        cd p; cargo run --quiet --offline";
    let views = [View::Plain, View::Namespace { mounts: Vec::new(), remove: Vec::new() }];
    for view in views.into_iter().take(if namespaces { 2 } else { 1 }) {
        let outcome =
            supervisor.run(&job(script, tree, around.environment(&spec), view), &mut Silent);
        let outcome = outcome.unwrap();
        let said = text(&outcome);
        assert_eq!(outcome.exit, Exit::Code { code: 0 }, "{said}\n{toolchains:#?}");
        assert!(said.contains(&format!("node {}", home.display())), "{said}");
        assert!(said.contains("pid true") && said.contains("venv "), "{said}");
    }
    let python = &toolchains.found.iter().find(|(name, _)| name == "python3").unwrap().1;
    assert!(!python.to_string_lossy().contains("shims"), "{python:?}");
}

#[test]
fn a_machine_without_namespaces_is_found_out() {
    let none = "echo 0 > /proc/sys/user/max_user_namespaces
        echo 0 > /proc/sys/user/max_pid_namespaces; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-ec", none, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "probe_here", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("found Plain") && said.contains("cannot make"), "{output:?}");
}

#[test]
fn an_ordinary_user_enters_through_a_user_namespace() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "probe_here", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // Never by root's way; a machine that forbids user namespaces says so.
    let ways = ["overlay: UserXattr", "overlay: Unavailable", "cannot make a user namespace"];
    assert!(ways.iter().any(|way| said.contains(way)), "{output:?}");
}

#[test]
#[ignore = "only as a process of its own, started by the other test"]
fn probe_here() {
    // Not below `target`, where another user may not write.
    let scratch = tempfile::tempdir().unwrap();
    println!("found {:?}", supervisor(Placement::Detect).probe(scratch.path()).unwrap());
}

#[test]
fn memory_that_runs_out_is_told_from_a_kill() {
    let group = Path::new("/sys/fs/cgroup/memory/loopexec-test");
    if !nix::unistd::geteuid().is_root() || fs::create_dir(group).is_err() {
        println!("skipped: this needs root and a memory cgroup of version 1");
        return;
    }
    fs::write(group.join("memory.limit_in_bytes"), "67108864").unwrap();
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.display());
    let run = |script: &str| {
        let output = Command::new("sh")
            .args(["-c", &enter, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "run_in_group", "--ignored", "--nocapture"])
            .env("TEST_SCRIPT", script)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let hog = run("exec tail /dev/zero");
    let shot = run("kill -9 $$");
    fs::remove_dir(group).unwrap();
    assert_eq!(hog.matches("OutOfMemory").count(), hog.matches("exit ").count(), "{hog}");
    assert!(hog.contains("exit ") && shot.contains("exit Signal { signal: 9 }"), "{hog} {shot}");
}

#[test]
#[ignore = "only as a process of its own, started by the other test"]
fn run_in_group() {
    let Ok(script) = std::env::var("TEST_SCRIPT") else { return };
    let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    for view in [View::Plain, View::Namespace { mounts: Vec::new(), remove: Vec::new() }] {
        let mut supervisor = supervisor(Placement::Detect);
        let outcome = supervisor.run(&job(&script, Path::new("/"), env.clone(), view), &mut Silent);
        println!("exit {:?}", outcome.unwrap().exit);
    }
}
