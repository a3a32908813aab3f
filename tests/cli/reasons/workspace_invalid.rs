//! `workspace_invalid`: a tree that another run holds, a `setup` that fails.

use super::{halts, text};
use crate::bench::{Bench, assert_untouched};
use loopexec::domain::reason::HaltReason;
use std::time::{Duration, Instant};

/// Waits until a file is there.
pub(crate) fn wait_for(path: &std::path::Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_second_run_in_the_same_tree_is_refused_and_names_the_first_ones_process() {
    let bench = Bench::new();
    let (started, go) = (bench.beside("started"), bench.beside("go"));
    bench.script(
        "agent.sh",
        &format!(
            "touch '{}'; while [ ! -e '{}' ]; do sleep 0.05; done; touch done",
            started.display(),
            go.display()
        ),
    );
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
    bench.commit();
    let before = bench.tree_hash();
    let first = bench.start(&["run", "--json"]);
    wait_for(&started);
    let second = bench.run_loop(&[]);
    let object = second.json();
    assert_eq!(second.code, Some(30), "{second:#?}");
    assert_eq!(object["halt_reason"], "workspace_invalid", "{object}");
    assert_eq!(object["detail"], "locked", "{object}");
    assert!(object.to_string().contains(&first.pid().to_string()), "{object}");
    assert_untouched(&before, &bench.tree_hash());
    assert_eq!(bench.runs().len(), 1, "the refused run left a folder");
    std::fs::write(&go, "").unwrap();
    let first = first.wait();
    assert_eq!((first.code, first.reason().as_str()), (Some(10), "success_condition_met"));
    // Nobody holds the tree any more.
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn a_setup_that_fails_is_workspace_invalid_before_the_check_runs() {
    let bench = Bench::new();
    let checked = bench.beside("checked");
    bench.loop_file(&format!(
        "setup: echo nothing to install >&2; exit 4\nexec: touch done\ncheck: touch '{}'; test -f done\n",
        checked.display()
    ));
    bench.commit();
    let ran = halts(&bench, HaltReason::WorkspaceInvalid);
    assert_eq!(ran.json()["detail"], "setup_failed");
    let object = ran.json();
    let why = text(&object["why"]);
    assert!(why.contains("exit code 4") && why.contains("nothing to install"), "{why}");
    assert!(!checked.exists());
}

#[test]
fn a_setup_that_ends_well_converges() {
    let bench = Bench::new();
    bench.loop_file("setup: echo nothing to install\nexec: touch done\ncheck: test -f done\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn uncommitted_changes_are_refused_only_where_the_loop_file_says_so() {
    for (mode, reason) in
        [("refuse", HaltReason::WorkspaceInvalid), ("include", HaltReason::SuccessConditionMet)]
    {
        let bench = Bench::new();
        bench.loop_file(&format!(
            "exec: touch done\ncheck: test -f done\nworkspace: {{on_dirty: {mode}}}\n"
        ));
        bench.commit();
        bench.write("README.md", "another line\n");
        halts(&bench, reason);
    }
}
