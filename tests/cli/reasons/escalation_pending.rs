//! `escalation_pending`: a green result, or a changed rule, waits for a person who was asked.

use super::{execs, halts, halts_with, holds, text};
use crate::bench::{Bench, Ran};
use loopexec::domain::hex::sha256;
use loopexec::domain::reason::HaltReason;
use serde_json::Value;

pub(crate) const GATED: &str = "exec: printf 'done\\n' > done.txt\ncheck: grep -q done done.txt\nhuman: {approve: [deliver]}\n";

/// A loop that mends in its first iteration and may not deliver without a yes.
pub(crate) fn gated() -> Bench {
    let bench = Bench::new();
    bench.loop_file(GATED);
    bench.commit();
    bench
}

/// A repository whose base asks before its check is changed, and a head that changes it.
pub(crate) fn changed_check(approve: &str) -> Bench {
    let bench = Bench::new();
    bench.loop_file(&format!(
        "exec: touch done\ncheck: test -f done\nhuman: {{approve: [{approve}]}}\n"
    ));
    bench.commit();
    bench.git(&["tag", "base"]);
    bench.loop_file("exec: touch ran\ncheck: 'test -f ran'\n");
    bench.commit();
    bench
}

fn question(bench: &Bench, ran: &Ran) -> Value {
    let path = bench.run_of(ran).path().join("question.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_confirmed_green_with_a_gate_is_escalation_pending_and_the_question_says_all() {
    let bench = gated();
    let ran = halts(&bench, HaltReason::EscalationPending);
    let object = ran.json();
    assert_eq!((text(&object["detail"]), object["iterations"].as_u64()), ("deliver", Some(1)));
    assert_eq!(object["delivery"]["state"], "patched");
    assert_eq!(object["delivery"]["of"], "final");
    assert!(text(&object["next"]).contains("loopexec ack --gate deliver --yes"), "{object:#}");
    let question = question(&bench, &ran);
    assert_eq!(question, object["question"]);
    assert_eq!((text(&question["gate"]), &question["run_id"]), ("deliver", &object["run_id"]));
    assert_eq!(question["changes"][0]["path"], "done.txt");
    let patch = std::fs::read(bench.run_of(&ran).patch()).unwrap();
    assert_eq!(text(&question["patch"]["sha256"]), sha256(&patch));
    let people = std::fs::read_to_string(bench.run_of(&ran).path().join("question.md")).unwrap();
    for wanted in ["done.txt", "--gate deliver --yes", "--gate deliver --no", "run --resume"] {
        assert!(people.contains(wanted), "{wanted}: {people}");
    }
    let state: Value =
        serde_json::from_slice(&std::fs::read(bench.path(".loop_state.json")).unwrap()).unwrap();
    assert_eq!(state["escalation"]["gate"], "deliver");
    assert!(bench.run(&["verify"]).code == Some(0));
    assert_eq!(bench.run(&["check"]).code, Some(0));
}

#[test]
fn the_same_loop_without_the_gate_converges() {
    let bench = Bench::new();
    bench.loop_file(GATED.split("human:").next().unwrap());
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json().get("question"), None);
}

#[test]
fn a_gate_asks_nobody_where_nothing_is_handed_over() {
    let bench = Bench::new();
    bench.loop_file("exec: touch never\ncheck: test -f README.md\nhuman: {approve: [deliver]}\n");
    bench.commit();
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn on_stdout_the_question_is_part_of_the_result() {
    let bench = Bench::new();
    bench.loop_file(
        &GATED.replace("{approve: [deliver]}", "{approve: [deliver], escalate: stdout}"),
    );
    bench.commit();
    let ran = bench.run(&["run"]);
    assert_eq!(ran.code, Some(16), "{ran:#?}");
    assert!(ran.stdout.contains("  | # A question of loopexec"), "{ran:#?}");
    assert!(ran.stdout.contains("  |     added    done.txt"), "{ran:#?}");
}

/// A loop that mends in its first iteration with a patch of two files and three lines.
pub(crate) fn capped(rest: &str) -> Bench {
    let bench = Bench::new();
    bench.loop_file(&format!(
        "exec: printf 'done\\nand done\\n' > done.txt; echo new > README.md\ncheck: grep -q done done.txt\n{rest}\n"
    ));
    bench.write("README.md", "");
    bench.commit();
    bench
}

#[test]
fn a_patch_over_a_cap_is_escalation_pending_and_a_yes_hands_it_over() {
    for rest in [
        "limits: {patch_files: 1}",
        "limits: {patch_files: 2, patch_lines: 2}\nhuman: {approve: [large_patch, deliver]}",
    ] {
        let bench = capped(rest);
        let ran = halts(&bench, HaltReason::EscalationPending);
        let object = ran.json();
        assert_eq!((text(&object["detail"]), execs(&bench, &ran)), ("large_patch", 1));
        assert!(text(&object["why"]).contains("2 files and 3 lines"), "{object:#}");
        let question = question(&bench, &ran);
        assert_eq!(question, object["question"]);
        assert!(text(&question["asks"]).contains("2 files and 3 lines"), "{question:#}");
        assert!(text(&question["asks"]).contains("limits.patch_files: "), "{question:#}");
        assert_eq!(
            (&question["patch"]["files"], &question["patch"]["added"]),
            (&2.into(), &3.into())
        );
        assert!(!bench.path("done.txt").exists());
        assert_eq!(bench.run(&["verify"]).code, Some(0));
        assert_eq!(bench.run(&["escalate", "--json"]).json()["question"], question);
        let other = bench.run(&["ack", "--gate", "deliver", "--yes", "--json"]);
        assert_eq!(text(&other.json()["detail"]), "not_asked");
        assert_eq!(bench.run(&["ack", "--gate", "large_patch", "--yes"]).code, Some(0));
        let ran = bench.run_loop(&["--resume"]);
        holds(&bench, &ran, HaltReason::SuccessConditionMet);
        assert_eq!(execs(&bench, &ran), 1);
        assert!(bench.path("done.txt").exists());
    }
}

#[test]
fn a_patch_at_its_caps_asks_nobody() {
    let bench = capped("limits: {patch_files: 2, patch_lines: 3}");
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn another_check_than_the_base_that_asks_is_escalation_pending_before_anything_runs() {
    let bench = changed_check("protected_change");
    let ran = halts_with(&bench, &["--base", "base"], HaltReason::EscalationPending);
    let object = ran.json();
    assert_eq!((text(&object["detail"]), execs(&bench, &ran)), ("protected_change", 0));
    assert!(text(&object["why"]).contains("check.run"), "{object:#}");
    assert_eq!(question(&bench, &ran)["keys"], serde_json::json!(["check.run"]));
    assert_eq!(bench.events(&ran)[1]["observation"]["runs"], serde_json::json!([]));
    assert!(!bench.path("ran").exists());
    assert_eq!(bench.run(&["verify"]).code, Some(0));
}

#[test]
fn the_check_of_the_base_itself_runs() {
    let bench = changed_check("protected_change");
    bench.git(&["tag", "-f", "base"]);
    let ran = halts_with(&bench, &["--base", "base"], HaltReason::SuccessConditionMet);
    assert_eq!(bench.events(&ran)[0]["caller"]["base"]["held"], "same");
}
