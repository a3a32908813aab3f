//! What a run that does not converge leaves of the caller's repository: everything, bit for bit.

use crate::bench::{Bench, assert_untouched};
use crate::reasons::{halts, text};
use loopexec::domain::reason::HaltReason;
use std::os::unix::fs::PermissionsExt;

/// An agent that does everything it can to the tree it works in, and to its `.git`.
const RAMPAGE: &str = r#"
rm -f tracked.txt; echo new > new.txt; echo changed > modified.txt; chmod 755 plain.txt; chmod 600 tool.sh
ln -sfn elsewhere link; mkdir -p deep/er && echo x > deep/er/file; rm -rf folder; touch -d '2001-01-01' old.txt
git config user.name nobody; git config branch.main.remote x; git checkout -q -b other; git add -A
git commit -q -m agent; git tag agent; git branch -D main; git gc -q; git stash list; git reflog expire --all --expire=now
rm -f .git/index; git reset -q; echo dirty > modified.txt
"#;

fn rich() -> Bench {
    let bench = Bench::new();
    for name in ["tracked.txt", "modified.txt", "plain.txt", "old.txt", "folder/file"] {
        bench.write(name, format!("{name}\n"));
    }
    bench.script("tool.sh", "true");
    bench.write(".gitignore", "ignored/\n");
    bench.write("ignored/build.o", b"\0\x01\xff");
    std::os::unix::fs::symlink("tracked.txt", bench.path("link")).unwrap();
    bench.script("agent.sh", RAMPAGE);
    bench.loop_file("exec: ./agent.sh\ncheck: test -f no-such-file\nlimits: {iterations: 2}\n");
    bench.commit();
    // A branch, a stash, staged and unstaged work: all of it has to stay.
    bench.git(&["branch", "side"]);
    bench.write("modified.txt", "stashed\n");
    bench.git(&["stash", "-q"]);
    bench.write("modified.txt", "staged\n");
    bench.git(&["add", "modified.txt"]);
    bench.write("modified.txt", "not staged\n");
    bench.write("untracked.txt", "untracked\n");
    std::fs::set_permissions(bench.path("plain.txt"), PermissionsExt::from_mode(0o600)).unwrap();
    let then = std::time::SystemTime::UNIX_EPOCH
        + std::time::Duration::from_nanos(1_234_567_890_123_456_789);
    std::fs::File::options()
        .write(true)
        .open(bench.path("old.txt"))
        .unwrap()
        .set_modified(then)
        .unwrap();
    bench
}

#[test]
fn a_run_that_does_not_converge_leaves_the_repository_as_it_was_bit_for_bit() {
    let bench = rich();
    let before = bench.tree_hash();
    assert!(before.len() > 40, "{} paths", before.len());
    let ran = halts(&bench, HaltReason::MaxIterationsReached);
    assert_untouched(&before, &bench.tree_hash());
    assert_eq!(ran.json()["iterations"], 2);
    // What the agent did is in the patch, for whoever wants it.
    let patch = std::fs::read(bench.path(text(&ran.json()["patch"]))).unwrap();
    assert!(String::from_utf8_lossy(&patch).contains("b/new.txt"));
    // Git itself finds nothing else than before either.
    let status = bench.git(&["status", "--porcelain"]);
    let shown: Vec<&str> = status.lines().collect();
    assert_eq!(shown, ["MM modified.txt", "?? .loop_state.json", "?? untracked.txt"]);
}

#[test]
fn what_is_delivered_changes_the_files_of_the_patch_and_nothing_of_git() {
    let bench = rich();
    bench.loop_file("exec: ./agent.sh && rm -f .git/none\ncheck: test -f new.txt\n");
    let before = bench.tree_hash();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    let after = bench.tree_hash();
    for (path, was) in before.iter().filter(|(path, _)| path.starts_with(".git")) {
        assert_eq!(after.get(path), Some(was), "{}", path.display());
    }
    assert_eq!(std::fs::read(bench.path("new.txt")).unwrap(), b"new\n");
    assert!(!bench.path("tracked.txt").exists() && !bench.path("folder").exists());
    assert_eq!(std::fs::read(bench.path("ignored/build.o")).unwrap(), b"\0\x01\xff");
    assert_eq!(ran.json()["delivery"]["state"], "applied");
}

#[test]
fn a_file_that_changed_under_the_run_refuses_the_delivery_and_nothing_is_written() {
    let bench = Bench::new();
    bench.write("a.txt", "a\n");
    bench.loop_file(&format!(
        "exec: echo agent > a.txt; touch done; echo person > '{}'\ncheck: test -f done\n",
        bench.beside("person").display()
    ));
    bench.commit();
    // The person's edit reaches the tree while exec runs: through a hard link to a file beside it.
    std::fs::remove_file(bench.path("a.txt")).unwrap();
    std::fs::write(bench.beside("person"), "a\n").unwrap();
    std::fs::hard_link(bench.beside("person"), bench.path("a.txt")).unwrap();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(ran.json()["delivery"]["state"], "refused", "{ran:#?}");
    assert_eq!(std::fs::read(bench.path("a.txt")).unwrap(), b"person\n");
    assert!(!bench.path("done").exists());
    assert!(bench.path(text(&ran.json()["patch"])).exists());
}

#[test]
fn the_cache_of_a_run_is_gone_when_it_ends() {
    let bench = rich();
    halts(&bench, HaltReason::MaxIterationsReached);
    let mut left = Vec::new();
    let mut pending = vec![bench.beside("cache")];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { pending.push(path) } else { left.push(path) }
        }
    }
    assert!(left.is_empty(), "{left:?}");
}
