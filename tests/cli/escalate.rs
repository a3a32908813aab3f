//! `escalate`: the question again, from the receipt.

use crate::reasons::escalation_pending::{changed_check, gated};
use crate::reasons::text;

#[test]
fn the_question_is_put_again_from_the_receipt_whatever_became_of_its_file() {
    let bench = gated();
    let ran = bench.run_loop(&[]);
    let file = bench.run_of(&ran).path().join("question.json");
    let forged = std::fs::read_to_string(&file).unwrap().replace("done.txt", "innocent.txt");
    std::fs::write(&file, forged).unwrap();
    let again = bench.run(&["escalate", "--json"]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    assert_eq!(again.json()["question"], ran.json()["question"]);
    let people = bench.run(&["escalate"]);
    assert!(people.stdout.contains("added    done.txt"), "{people:#?}");
    assert!(people.stdout.contains("--gate deliver --yes"), "{people:#?}");
}

#[test]
fn a_changed_check_is_named_by_its_keys() {
    let bench = changed_check("protected_change");
    bench.run_loop(&["--base", "base"]);
    let asked = bench.run(&["escalate"]);
    assert!(asked.stdout.contains("check.run"), "{asked:#?}");
}

#[test]
fn a_run_that_waits_for_nobody_has_no_question() {
    let bench = gated();
    bench.loop_file("exec: touch done\ncheck: test -f done\n");
    bench.commit();
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let asked = bench.run(&["escalate", "--json"]);
    assert_eq!((asked.code, text(&asked.json()["detail"])), (Some(30), "not_asked"));
}
