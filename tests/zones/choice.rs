//! Runs in zones: which backend a loop gets, what more it may show, and whose places are whose.

use super::run::backend;
use super::{Ground, dies_with_its_supervisor, is_root, json, text, unprivileged};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

#[test]
fn zones_are_there_by_default_and_what_is_weaker_has_to_be_accepted() {
    let ground = Ground::new();
    let outside =
        format!("touch {} 2>/dev/null || true\necho yes > done", ground.at("ran").display());
    ground.lines("auto", &outside, "grep -q yes done", "");
    let said = ground.converges(&[]);
    assert_eq!(said["isolation"]["backend"], backend(), "{said}");
    assert_eq!(said["isolation"]["degraded"], false, "{said}");
    assert!(!ground.at("ran").exists(), "exec wrote beside the tree");

    // Where no backend holds nothing is run, and the line that would let it run is said.
    let ground = Ground::new();
    let outside =
        format!("touch {} 2>/dev/null || true\necho yes > done", ground.at("ran").display());
    ground.lines("auto", &outside, "grep -q yes done", "");
    let mut before = vec!["unshare", "-U"];
    if is_root() {
        ground.give_away();
        before = [unprivileged(), before].concat();
    }
    let (said, output) = ground.run(&before);
    assert_eq!(said["halt_reason"], "isolation_unsatisfiable", "{}", text(&output));
    assert!(text(&output).contains("isolation: {accept: [none]}"), "{}", text(&output));
    assert!(!ground.at("ran").exists());
    let doctor = ground.command(&before).arg("doctor").output().unwrap();
    assert!(text(&doctor).contains("isolation: {accept: [none]}"), "{}", text(&doctor));
    // The word of whoever runs it is enough.
    let output = ground
        .command(&before)
        .args(["run", "--json"])
        .env("LOOPEXEC_ACCEPT_ISOLATION", "none")
        .output()
        .unwrap();
    let said = json(&output);
    assert_eq!(said["halt_reason"], "success_condition_met", "{}", text(&output));
    assert_eq!(said["isolation"]["backend"], "none", "{said}");
    assert_eq!(said["isolation"]["degraded"], true, "{said}");
    assert!(
        text(&output).contains("warning: nothing isolates exec and check"),
        "{}",
        text(&output)
    );
    let why = ground.start()["isolation"]["stepped_down"].to_string();
    assert!(why.contains("namespaces:") && why.contains("root:"), "{why}");
    assert!(ground.at("ran").exists(), "it did run without zones");
    let report = ground.command(&before).arg("report").output().unwrap();
    assert!(text(&report).contains("none, degraded"), "{}", text(&report));
}

#[test]
fn a_run_that_is_taken_up_stays_where_it_was() {
    let ground = Ground::new();
    let marker = format!("95{}", std::process::id());
    let exec = format!(
        "test -e \"$HOME/again\" || {{ touch \"$HOME/again\"; (setsid sleep {marker} &); sleep {marker}; }}\necho yes > done"
    );
    ground.lines("auto", &exec, "grep -q yes done", "  accept: [none]\n");
    let mut user = Vec::new();
    if is_root() {
        ground.give_away();
        user = unprivileged();
    }
    let mut child = ground.command(&user).arg("run").stderr(Stdio::null()).spawn().unwrap();
    dies_with_its_supervisor(&mut child, &marker);
    // What the loop accepts was not needed when it began.
    let weaker = [user.clone(), vec!["unshare", "-U"]].concat();
    let output = ground.command(&weaker).args(["run", "--resume", "--json"]).output().unwrap();
    assert_eq!(json(&output)["halt_reason"], "isolation_unsatisfiable", "{}", text(&output));
    let output = ground.command(&user).args(["run", "--resume", "--json"]).output().unwrap();
    assert_eq!(json(&output)["halt_reason"], "success_condition_met", "{}", text(&output));
    assert_eq!(json(&output)["isolation"]["backend"], "namespaces");
}

fn shows_more(before: &[&str], backend: &str) {
    let ground = Ground::new();
    // One of them below the HOME that no zone shows.
    for name in ["home/kept/data", "out", "home/.aws"] {
        std::fs::create_dir_all(ground.at(name)).unwrap();
    }
    std::fs::write(ground.at("home/kept/data/table"), "yes\n").unwrap();
    let (data, out) = (ground.at("home/kept/data"), ground.at("out"));
    let exec = format!(
        "(echo x > {data}/x) 2>/dev/null && exit 9\necho seen > {out}/word\ncat {data}/table > done",
        data = data.display(),
        out = out.display()
    );
    let check = format!(
        "! test -e {} && test -e {}/table && grep -q yes done",
        out.display(),
        data.display()
    );
    let rooms = |read: &Path| {
        format!(
            "  agent: {{read: [{}], write: [{}]}}\n  exec: {{read: [{}]}}\n",
            data.display(),
            out.display(),
            read.display()
        )
    };
    ground.lines(backend, &exec, &check, &rooms(&data));
    if !before.is_empty() {
        ground.give_away();
    }
    ground.converges(before);
    assert_eq!(std::fs::read_to_string(ground.at("out/word")).unwrap(), "seen\n");
    assert!(!ground.at("home/kept/data/x").exists());
    let owner = |path: &str| std::fs::metadata(ground.at(path)).unwrap().uid();
    assert_eq!(owner("out/word"), owner("out"), "what is written is the caller's");
    // Who somebody is is nothing to show.
    let text = std::fs::read_to_string(ground.at("project/loop.yml")).unwrap();
    let aws = ground.at("home/.aws");
    let text = text.replace(
        &format!("exec: {{read: [{}]", data.display()),
        &format!("exec: {{read: [{}]", aws.display()),
    );
    std::fs::write(ground.at("project/loop.yml"), text).unwrap();
    let (said, output) = ground.run(before);
    assert_eq!(said["halt_reason"], "credential_scope_invalid", "{}", super::text(&output));
    assert!(super::text(&output).contains("isolation.exec.read"), "{}", super::text(&output));
}

#[test]
fn a_loop_shows_more_of_the_machine_by_name() {
    shows_more(&[], backend());
    if is_root() {
        shows_more(&unprivileged(), "namespaces");
    }
}

#[test]
fn what_a_run_works_in_is_nobody_elses_to_sweep() {
    let ground = Ground::new();
    ground.project(
        "touch begun; n=0; while [ ! -e go ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n+1)); done; echo yes >done",
        "",
    );
    let mut runs: Vec<Child> = (0..2)
        .map(|at| {
            let dir = format!(".evidence{at}");
            let from = std::fs::read_to_string(ground.at("project/loop.yml")).unwrap();
            let file = ground.at(&format!("project/loop{at}.yml"));
            std::fs::write(
                &file,
                format!("{from}workspace: {{deliver: none}}\nreceipt: {{dir: {dir}}}\n"),
            )
            .unwrap();
            let mut command = ground.command(&[]);
            command.args(["run", "--json"]).arg(file).stdout(Stdio::piped());
            command.stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    let workspaces = || {
        let keys = std::fs::read_dir(ground.at("cache")).into_iter().flatten().flatten();
        let caches = keys.flat_map(|key| std::fs::read_dir(key.path()).unwrap().flatten());
        caches
            .map(|cache| cache.path().join("workspace"))
            .filter(|p| p.exists())
            .collect::<Vec<_>>()
    };
    let begun = Instant::now();
    while workspaces().len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "they never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..3 {
        assert!(ground.isolate(&[], &["--", "true"]).status.success());
    }
    // The marker is written beside the tree, into what the run itself works in.
    for workspace in workspaces() {
        std::fs::write(workspace.join("go"), "").unwrap();
    }
    for run in runs.drain(..) {
        let output = run.wait_with_output().unwrap();
        let said = json(&output);
        assert_eq!(said["halt_reason"], "success_condition_met", "{said}");
    }
}

/// The root of a container is an overlay, which cannot be mounted for another user: what is ours is given away, what
/// is the caller's never.
#[test]
fn where_files_cannot_be_shown_as_another_users_our_own_copies_are_given_away() {
    if !is_root() {
        return;
    }
    let ground = Ground::new();
    for name in ["upper", "work", "merged"] {
        std::fs::create_dir(ground.at(name)).unwrap();
    }
    let at = |name: &str| ground.at(name).display().to_string();
    let script = format!(
        "mount -t overlay overlay -o lowerdir={},upperdir={},workdir={} {} && exec \"$@\"",
        at("cache"),
        at("upper"),
        at("work"),
        at("merged")
    );
    let before = ["unshare", "-m", "sh", "-c", &script, "sh"];
    let run = |words: &[&str]| {
        let mut command = ground.command(&before);
        command.env("LOOPEXEC_CACHE", at("merged")).args(words).output().unwrap()
    };
    // The tree that it works in is the caller's.
    let output = run(&["isolate", "--", "echo", "inside"]);
    assert_eq!(output.status.code(), Some(30), "{}", text(&output));
    assert!(text(&output).contains("set LOOPEXEC_CACHE to a folder"), "{}", text(&output));
    let exec = "id -u\nrm file; echo mine > file; mkdir -p deep/er; echo 1 > deep/er/x; chmod 700 deep; ln -s /etc/passwd link\n\
        echo more >> kept; test -O kept\necho yes > done";
    std::fs::write(ground.at("project/kept"), "kept\n").unwrap();
    ground.lines("auto", exec, "test -O kept && touch made && grep -q yes done", "");
    let output = run(&["run", "--json"]);
    let said = json(&output);
    assert_eq!(
        said["halt_reason"],
        "success_condition_met",
        "{}\n{}",
        text(&output),
        ground.outputs()
    );
    assert_eq!(said["isolation"]["backend"], "root", "{said}");
    for name in ["file", "kept", "deep/er/x", "done", "link", ""] {
        let found = std::fs::symlink_metadata(ground.at("project").join(name)).unwrap();
        assert_eq!(found.uid(), 0, "{name} is the caller's");
    }
    let output = run(&["replay"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    // In the caller's own tree nothing is given away.
    ground.edit("limits:", "workspace: {mode: in_place}\nlimits:");
    std::fs::write(ground.at("project/done"), "no\n").unwrap();
    let output = run(&["run", "--json"]);
    assert_eq!(json(&output)["halt_reason"], "isolation_unsatisfiable", "{}", text(&output));
    assert_eq!(std::fs::metadata(ground.at("project/kept")).unwrap().uid(), 0);
}
