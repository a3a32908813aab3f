//! Control facts of a workspace before and after an agent.

use crate::bench::{Bench, Workspace};
use loopexec::workspace::facts::{BlockedPatterns, ControlFacts, fact_changes, read_control_facts};
use std::os::unix::fs::symlink;

fn patterns() -> BlockedPatterns {
    let list = [".env*", "!.env.example", "infra/**", "/deps/pinned/lock"];
    BlockedPatterns::new(&list.map(String::from)).unwrap()
}

fn read(workspace: &mut Workspace) -> ControlFacts {
    workspace.take();
    read_control_facts(&workspace.root, &patterns(), &workspace.snapshotter).unwrap()
}

fn made() -> (Bench, Workspace) {
    let bench = Bench::git_repository();
    bench.write(".gitignore", ".env*\ndeps/\n*.tfstate\n");
    bench.write("deps/pinned/lock", "1");
    bench.write("deps/other/.env", "1");
    bench.write("a", "a");
    bench.commit();
    let workspace = bench.make();
    (bench, workspace)
}

/// Returns the keys that an agent's deed changes.
fn changed(deed: impl FnOnce(&Workspace)) -> Vec<String> {
    let (_bench, mut workspace) = made();
    let before = read(&mut workspace);
    deed(&workspace);
    let after = read(&mut workspace);
    fact_changes(&before, &after).into_iter().map(|change| change.key).collect()
}

#[test]
fn what_an_agent_may_do_changes_no_fact() {
    let keys = changed(|workspace| {
        workspace.write("a", "b");
        workspace.git(&["config", "user.name", "agent"]);
        workspace.git(&["remote", "add", "origin", "https://host/x"]);
        workspace.git(&["checkout", "-q", "-b", "topic"]);
        workspace.git(&["add", "-A"]);
        workspace.git(&["commit", "-q", "-m", "x"]);
        workspace.git(&["gc", "-q"]);
        workspace.git(&["stash", "list"]);
        workspace.write("deps/other/file", "x");
        workspace.write("deps/other/.env", "another");
        workspace.write(".env.example", "x");
    });
    assert!(keys.is_empty(), "{keys:?}");
}

#[test]
fn each_control_file_is_seen() {
    type Deed = fn(&Workspace);
    let cases: [(&str, Deed); 12] = [
        (".git/config:core.fsmonitor", |w| drop(w.git(&["config", "core.fsmonitor", "x"]))),
        (".git/config:filter.f.clean", |w| drop(w.git(&["config", "filter.f.clean", "x"]))),
        (".git/config:include.path", |w| drop(w.git(&["config", "include.path", "/x"]))),
        (".git/config.worktree:core.editor", |w| {
            w.write(".git/config.worktree", "[core]\n\teditor = x\n");
        }),
        (".git/hooks/pre-commit", |w| w.write(".git/hooks/pre-commit", "#!/bin/sh\n")),
        (".git/info/exclude", |w| w.write(".git/info/exclude", "*\n")),
        (".git/objects/info/alternates", |w| w.write(".git/objects/info/alternates", "/x\n")),
        ("sub/.git", |w| w.write("sub/.git/HEAD", "ref: refs/heads/x\n")),
        (".loopexec", |w| std::fs::create_dir(w.root.join(".loopexec")).unwrap()),
        (".loop_state.json", |w| w.write(".loop_state.json", "{}")),
        (".env", |w| w.write(".env", "A=1")),
        ("deps/pinned/lock", |w| w.write("deps/pinned/lock", "2")),
    ];
    for (key, deed) in cases {
        let keys = changed(deed);
        assert_eq!(keys, [key]);
    }
}

#[test]
fn a_git_folder_that_became_a_link_or_cannot_be_read_is_a_change() {
    let keys = changed(|workspace| {
        let git = workspace.root.join(".git");
        std::fs::rename(&git, workspace.root.join("moved")).unwrap();
        symlink("moved", git).unwrap();
    });
    assert_eq!(
        keys,
        [".git", ".git/config:core.bare", ".git/config:core.repositoryformatversion"]
            .into_iter()
            .chain([".git/info/exclude"])
            .collect::<Vec<_>>()
    );
    let keys = changed(|workspace| workspace.write(".git/config", "[broken"));
    assert_eq!(keys[0], ".git/config");
}
