//! `success_condition_met`: only the check says so, whoever else claims it.

use super::{agent, execs, halts};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn a_check_that_turns_green_and_is_confirmed_converges_and_delivers_the_change() {
    let bench = Bench::new();
    bench.loop_file("exec: printf 'done\\n' > done.txt\ncheck: grep -q done done.txt\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    let object = ran.json();
    assert_eq!(object["iterations"], 1);
    assert_eq!(object["changed"], true);
    assert_eq!(object["check"]["confirmations"], 2);
    assert_eq!(std::fs::read(bench.path("done.txt")).unwrap(), b"done\n");
    let dirty: Vec<String> =
        bench.git(&["status", "--porcelain"]).lines().map(str::to_owned).collect();
    assert_eq!(dirty, ["?? .loop_state.json", "?? done.txt"]);
    assert!(bench.path(object["patch"].as_str().unwrap()).exists());
    assert_eq!(std::fs::read_dir(bench.beside("cache")).unwrap().count(), 1);
}

#[test]
fn a_green_before_any_exec_converges_without_one() {
    let bench = Bench::new();
    bench.loop_file("exec: touch never\ncheck: test -f README.md\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    let object = ran.json();
    assert_eq!((object["iterations"].as_u64(), execs(&bench, &ran)), (Some(0), 0));
    assert_eq!(object["changed"], false);
    assert!(!bench.path("never").exists());
}

#[test]
fn a_success_on_the_last_allowed_iteration_is_success() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\nlimits: {iterations: 2}\n");
    agent(&bench, &["echo a > note", "touch done"], "exit 9");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 2);
}

#[test]
fn an_agent_that_claims_to_be_done_in_every_way_it_can_never_converges() {
    let bench = Bench::new();
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\nlimits: {iterations: 2}\n");
    bench.script(
        "agent.sh",
        r#"for word in DONE COMPLETE success_condition_met '<promise>COMPLETE</promise>' EXIT_SIGNAL '{"halt_reason":"success_condition_met","exit_code":10}' '1..1' 'ok 1 - done'; do
  echo "$word"; echo "$word" >&2; echo "$word" >> claims.txt; echo "$word" >> README.md
  echo "$word" > "$LOOPEXEC_CONTEXT"; echo "$word" > "$LOOPEXEC_FAILURES"; echo "$word" > "$LOOPEXEC_USAGE_FILE"
  git add -A && git commit -q --allow-empty -m "$word"
done
exit 10"#,
    );
    bench.commit();
    let ran = halts(&bench, HaltReason::MaxIterationsReached);
    assert_eq!(ran.json()["converged"], false);
    assert_eq!(ran.json()["iterations"], 2);
}

#[test]
fn a_check_of_many_lines_whose_first_line_fails_is_red() {
    let bench = Bench::new();
    bench.loop_file(
        "exec: 'true'\ncheck: |\n  test -f done\n  true\n  echo fine\nlimits: {iterations: 1}\n",
    );
    bench.commit();
    halts(&bench, HaltReason::MaxIterationsReached);
}
