//! `human_required`: nobody could be asked, or the person said no.

use super::escalation_pending::{capped, changed_check, gated};
use super::workspace_invalid::wait_for;
use super::{execs, holds, text};
use crate::bench::{Bench, assert_untouched};
use loopexec::domain::reason::HaltReason;

/// Runs a loop whose exec waits, and puts a folder where the question would be written.
fn deaf(name: &str) -> (Bench, crate::bench::Ran) {
    let bench = Bench::new();
    let (begun, go) = (bench.beside("begun"), bench.beside("go"));
    bench.script(
        "agent.sh",
        &format!(
            "touch '{}'; until test -f '{}'; do sleep 0.05; done; touch done",
            begun.display(),
            go.display()
        ),
    );
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\nhuman: {approve: [deliver]}\n");
    bench.commit();
    let run = bench.start(&["run", "--json", "--run-id", "R"]);
    wait_for(&begun);
    std::fs::create_dir(bench.path(".loopexec/runs/R").join(name)).unwrap();
    std::fs::write(go, "").unwrap();
    let ran = run.wait();
    (bench, ran)
}

#[test]
fn a_question_that_cannot_be_written_is_human_required_and_can_still_be_answered() {
    let (bench, ran) = deaf("question.json");
    holds(&bench, &ran, HaltReason::HumanRequired);
    let object = ran.json();
    assert_eq!(text(&object["detail"]), "deliver");
    assert!(text(&object["why"]).contains("could not be put"), "{object:#}");
    assert!(!bench.path("done").exists());
    assert_eq!(bench.run(&["ack", "--gate", "deliver", "--yes"]).code, Some(0));
    holds(&bench, &bench.run_loop(&["--resume"]), HaltReason::SuccessConditionMet);
}

#[test]
fn a_folder_with_another_name_keeps_nobody_from_being_asked() {
    let (bench, ran) = deaf("questions.json");
    holds(&bench, &ran, HaltReason::EscalationPending);
}

#[test]
fn a_no_is_human_required_and_nothing_is_handed_over() {
    let bench = gated();
    assert_eq!(bench.run_loop(&[]).reason(), "escalation_pending");
    let before = bench.tree_hash();
    let said = bench.run(&["ack", "--gate", "deliver", "--no", "--note", "not yet"]);
    assert_eq!(said.code, Some(0), "{said:#?}");
    let ran = bench.run_loop(&["--resume"]);
    holds(&bench, &ran, HaltReason::HumanRequired);
    assert_eq!((text(&ran.json()["detail"]), execs(&bench, &ran)), ("declined", 1));
    assert_untouched(&before, &bench.tree_hash());
    let verified = bench.run(&["verify"]);
    assert_eq!(verified.code, Some(0), "{verified:#?}");
    assert!(verified.stdout.contains("no to deliver"), "{verified:#?}");
    assert!(verified.stdout.contains("not yet"), "{verified:#?}");
    let again = bench.run(&["ack", "--gate", "deliver", "--yes", "--json"]);
    assert_eq!((again.code, text(&again.json()["detail"])), (Some(30), "not_asked"));
    assert_eq!(bench.run_loop(&["--resume"]).code, Some(30), "a no is final");
}

#[test]
fn a_no_to_a_large_patch_is_human_required_and_the_patch_stays_to_look_at() {
    let bench = capped("limits: {patch_lines: 1}");
    assert_eq!(bench.run_loop(&[]).reason(), "escalation_pending");
    assert_eq!(bench.run(&["ack", "--gate", "large_patch", "--no"]).code, Some(0));
    let ran = bench.run_loop(&["--resume"]);
    holds(&bench, &ran, HaltReason::HumanRequired);
    assert_eq!((text(&ran.json()["detail"]), execs(&bench, &ran)), ("declined", 1));
    assert!(!bench.path("done.txt").exists());
    assert!(std::fs::read_to_string(bench.run_of(&ran).patch()).unwrap().contains("+and done"));
    assert_eq!(bench.run(&["verify"]).code, Some(0));
}

#[test]
fn a_no_to_a_changed_check_is_human_required_without_anything_run() {
    let bench = changed_check("protected_change");
    assert_eq!(bench.run_loop(&["--base", "base"]).reason(), "escalation_pending");
    assert_eq!(bench.run(&["ack", "--gate", "protected_change", "--no"]).code, Some(0));
    let ran = bench.run_loop(&["--resume", "latest", "--base", "base"]);
    holds(&bench, &ran, HaltReason::HumanRequired);
    assert_eq!((text(&ran.json()["detail"]), execs(&bench, &ran)), ("declined", 0));
}
