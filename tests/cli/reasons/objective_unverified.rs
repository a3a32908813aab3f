//! `objective_unverified`: a resumed run whose accepted snapshot no longer says what it said.

use super::holds;
use super::workspace_invalid::wait_for;
use crate::bench::{Bench, Ran, assert_untouched};
use loopexec::domain::reason::HaltReason;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;

/// Makes a run that is killed in its second iteration; its check also looks at a file that no
/// snapshot holds.
fn killed_run() -> (Bench, PathBuf) {
    let bench = Bench::new();
    let (outside, second) = (bench.beside("outside"), bench.beside("second"));
    bench.script("check.sh", &format!("test -f done || test -f '{}'", outside.display()));
    bench.script(
        "agent.sh",
        &format!(
            "case $LOOPEXEC_ITERATION in 1) echo 1 > note ;; *) test -f '{0}' && touch done && exit; touch '{0}'; sleep 300 ;; esac",
            second.display()
        ),
    );
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    bench.commit();
    let run = bench.start(&["run", "--json"]);
    wait_for(&second);
    kill(Pid::from_raw(run.pid()), Signal::SIGKILL).unwrap();
    assert_eq!(run.wait().code, None);
    (bench, outside)
}

fn resume(bench: &Bench) -> Ran {
    bench.run_loop(&["--resume", "latest"])
}

#[test]
fn an_accepted_state_that_no_longer_reproduces_is_objective_unverified_before_the_next_exec() {
    let (bench, outside) = killed_run();
    let before = bench.tree_hash();
    std::fs::write(outside, "").unwrap();
    let ran = resume(&bench);
    holds(&bench, &ran, HaltReason::ObjectiveUnverified);
    assert_eq!(super::execs(&bench, &ran), 1, "only the one before the kill");
    assert_untouched(&before, &bench.tree_hash());
}

#[test]
fn an_accepted_state_that_reproduces_goes_on_to_convergence() {
    let (bench, _) = killed_run();
    let ran = resume(&bench);
    holds(&bench, &ran, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 2);
}

#[test]
fn a_receipt_that_was_altered_is_objective_unverified_and_not_written_to() {
    let (bench, _) = killed_run();
    let run = bench.runs().pop().unwrap();
    let text = std::fs::read_to_string(run.receipt()).unwrap();
    let altered = text.replacen("\"iterations\":10", "\"iterations\":99", 1);
    assert_ne!(text, altered);
    std::fs::write(run.receipt(), &altered).unwrap();
    let ran = resume(&bench);
    assert_eq!(ran.code, Some(13), "{ran:#?}");
    assert_eq!(ran.json()["halt_reason"], "objective_unverified", "{ran:#?}");
    assert_eq!(std::fs::read_to_string(run.receipt()).unwrap(), altered);
}
