//! An agent that turns git against the gate: nothing is hidden by it, and nothing it plants is executed.

use crate::bench::Bench;
use crate::reasons::{agent, text};
use std::fs;

const CHECK: &str = "exec: ./agent.sh\ncheck: |\n  echo 1..1\n  for t in tests/*.sh; do\n    if sh $t; then echo ok 1 - done; else echo not ok 1 - done; exit 1; fi\n  done\n";

/// Runs an agent that weakens the only test and hides it by `trick`; returns the reason and why.
///
/// Every program that git may be told to run leaves a mark, and none may be found.
fn ends(trick: &str) -> (String, String) {
    let bench = Bench::new();
    bench.write("tests/done.sh", "grep -q yes src/done\n");
    bench.write("src/done", "no\n");
    bench.loop_file(CHECK);
    let marks = bench.beside("marks");
    fs::create_dir(&marks).unwrap();
    let trap = bench.beside("trap.sh");
    // What exec or the check run themselves is theirs; a mark says who ran it.
    let mark = format!(
        "#!/bin/sh\n[ -n \"$LOOPEXEC_IS_AGENT\" ] || echo \"$0 $*\" >> {}/ran\ncat 2>/dev/null\nexit 0\n",
        marks.display()
    );
    fs::write(&trap, mark).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&trap, mode).unwrap();
    let trick = trick.replace("TRAP", &trap.display().to_string());
    let step = format!("export LOOPEXEC_IS_AGENT=1; W='echo true > tests/done.sh'; {trick}");
    agent(&bench, &[], &step);
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert!(!ran.stderr.contains("panicked"), "{trick}: {}", ran.stderr);
    let found: Vec<_> = fs::read_dir(&marks).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(found.is_empty(), "{trick}: {:?}", fs::read_to_string(marks.join("ran")));
    let object = ran.json();
    (text(&object["halt_reason"]).to_owned(), text(&object["why"]).to_owned())
}

fn each(tricks: &[&str], reasons: &[&str], names: &[&str]) {
    for trick in tricks {
        let (reason, why) = ends(trick);
        assert!(reasons.contains(&reason.as_str()), "{trick}: {reason}: {why}");
        assert!(names.iter().any(|name| why.contains(name)), "{trick}: {why}");
    }
}

#[test]
fn what_the_index_hides_is_seen() {
    let tricks = [
        "git update-index --skip-worktree tests/done.sh; eval \"$W\"",
        "git update-index --assume-unchanged tests/done.sh; eval \"$W\"",
        "eval \"$W\"; git add -A; git update-index --cacheinfo 100644,$(git rev-parse HEAD:tests/done.sh),tests/done.sh",
        "eval \"$W\"; rm -f .git/index",
        "git sparse-checkout set --no-cone '/*' '!/tests/' 2>/dev/null; mkdir -p tests; eval \"$W\"; git config --unset-all core.sparseCheckout; git config --unset-all core.sparseCheckoutCone; git config --unset-all extensions.worktreeConfig; rm -f .git/info/sparse-checkout .git/config.worktree",
    ];
    each(&tricks, &["metric_integrity_violation"], &["tests/done.sh"]);
}

#[test]
fn history_that_was_written_anew_is_no_t0() {
    let tricks = [
        "eval \"$W\"; git commit -qam weaker",
        "eval \"$W\"; git commit -qa --amend -m start",
        "old=$(git rev-parse HEAD:tests/done.sh); eval \"$W\"; new=$(git hash-object -w tests/done.sh); git replace -f $old $new",
        "eval \"$W\"; git checkout -q --orphan other; git add -A; git commit -qm start; git branch -f main; git branch -f master",
        "eval \"$W\"; git commit -qam w; git tag -f v1; git update-ref refs/remotes/origin/HEAD HEAD; git reflog expire --expire=now --all; git gc -q --prune=now",
        "eval \"$W\"; git stash -q; git stash apply -q",
    ];
    each(&tricks, &["metric_integrity_violation"], &["tests/done.sh"]);
}

#[test]
fn programs_in_gits_own_folder_halt_and_are_never_run() {
    let tricks = [
        "eval \"$W\"; git config core.fsmonitor TRAP",
        "eval \"$W\"; git config diff.external TRAP; git config core.pager TRAP",
        "eval \"$W\"; git config core.hooksPath hooks; mkdir hooks; for h in post-checkout post-index-change pre-commit reference-transaction fsmonitor-watchman; do cp TRAP hooks/$h; done",
        "eval \"$W\"; mkdir -p .git/hooks; for h in post-checkout post-index-change pre-commit reference-transaction; do cp TRAP .git/hooks/$h; done",
        "eval \"$W\"; git config filter.x.clean TRAP; git config filter.x.smudge TRAP; git config filter.x.process TRAP; echo '* filter=x' > .git/info/attributes",
        "eval \"$W\"; printf '[core]\\n\\tfsmonitor = TRAP\\n' > .git/extra; git config include.path extra",
        "eval \"$W\"; git config credential.helper TRAP; git config core.sshCommand TRAP; git config gpg.program TRAP; git config core.editor TRAP",
        "eval \"$W\"; echo tests > .git/info/exclude",
        "eval \"$W\"; mkdir -p ../alt/objects 2>/dev/null; echo /tmp > .git/objects/info/alternates",
    ];
    each(&tricks, &["blocked_path_modified"], &[".git/"]);
}

#[test]
fn filters_and_attributes_of_the_tree_hide_nothing() {
    let tricks = [
        "eval \"$W\"; echo 'tests/** filter=x -diff binary' > .gitattributes",
        "eval \"$W\"; echo 'tests/' > .gitignore; git rm -rq --cached tests",
        "eval \"$W\"; git rm -rq --cached tests; git -c init.defaultBranch=main init -q tests; rm -rf tests/.git",
    ];
    let named = ["tests/done.sh", ".gitattributes"];
    each(&tricks, &["metric_integrity_violation"], &named);
}

#[test]
fn a_git_folder_that_is_gone_or_another_is_told() {
    let tricks = [
        "eval \"$W\"; rm -rf .git",
        "eval \"$W\"; mv .git ../elsewhere; echo 'gitdir: ../elsewhere' > .git",
        "eval \"$W\"; git init -q tests",
        "eval \"$W\"; rm -rf .git; git init -q .; git config core.fsmonitor TRAP",
    ];
    each(&tricks, &["blocked_path_modified", "metric_integrity_violation"], &[".git", "tests"]);
}

#[test]
fn what_your_git_configuration_names_in_the_tree_is_blocked_as_gits_own_hooks_are() {
    let ends = |setting: [&str; 2], file: &str, more: &str| {
        let bench = Bench::new();
        bench.write("src/done", "no\n");
        bench.script(file, "true");
        bench.git(&["config", setting[0], setting[1]]);
        bench.loop_file(&format!("exec: ./agent.sh\ncheck: grep -q yes src/done\n{more}"));
        agent(&bench, &[], &format!("echo yes > src/done; echo exit >> {file}"));
        bench.commit();
        let object = bench.run_loop(&[]).json();
        (text(&object["halt_reason"]).to_owned(), text(&object["why"]).to_owned())
    };
    for (setting, file) in [
        (["core.hooksPath", ".githooks"], ".githooks/pre-commit"),
        (["core.hooksPath", ".husky/_"], ".husky/pre-commit"),
        (["filter.nb.clean", "sh './tools/clean.sh' -x"], "tools/clean.sh"),
        (["core.fsmonitor", "watch.sh"], "watch.sh"),
        (["alias.go", "!sh tools/go.sh"], "tools/go.sh"),
    ] {
        let (reason, why) = ends(setting, file, "");
        assert_eq!(reason, "blocked_path_modified", "{setting:?}: {why}");
        assert!(why.contains(file), "{why}");
    }
    let allowed = "guards: {blocked_paths: {add: ['!/.githooks/pre-commit', '!/.githooks/**']}}\n";
    let (reason, why) = ends(["core.hooksPath", ".githooks"], ".githooks/pre-commit", allowed);
    assert_eq!(reason, "success_condition_met", "{why}");
    let (reason, why) = ends(["alias.go", "status -s"], "tools/status", "");
    assert_eq!(reason, "success_condition_met", "{why}");
}

#[test]
fn a_file_that_your_git_configuration_includes_is_blocked() {
    let bench = Bench::new();
    bench.write("src/done", "no\n");
    bench.write(".gitsettings", "[alias]\n\tst = status\n");
    bench.git(&["config", "include.path", "../.gitsettings"]);
    bench.loop_file("exec: ./agent.sh\ncheck: grep -q yes src/done\n");
    agent(&bench, &[], "echo yes > src/done; echo '[core]' >> .gitsettings");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "blocked_path_modified", "{ran:#?}");
}
