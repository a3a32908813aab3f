//! `reviewer_rejected`, `reward_hacking_detected`: an advisory command may veto a green, and the sealed
//! check that no agent sees may be red.

use super::{agent, execs, halts, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

fn bench_with(steps: &[&str], more: &str) -> Bench {
    let bench = Bench::new();
    bench.loop_file(&format!("exec: ./agent.sh\ncheck: test -f done\n{more}"));
    let (rest, steps) = steps.split_last().unwrap();
    agent(&bench, steps, rest);
    bench.commit();
    bench
}

#[test]
fn an_advisory_command_rejects_with_its_last_line_as_the_reason() {
    let more =
        "guards:\n  judge: test -s \"$LOOPEXEC_FACTS\" && echo it copies the answer && exit 1\n";
    let ran = halts(&bench_with(&["touch done"], more), HaltReason::ReviewerRejected);
    assert!(text(&ran.json()["why"]).contains("it copies the answer"), "{}", ran.json());
    let more = "guards: {judge: 'echo bought; exit 2'}\n";
    let ran = halts(&bench_with(&["touch done"], more), HaltReason::RewardHackingDetected);
    assert!(text(&ran.json()["why"]).contains("bought"), "{}", ran.json());
}

#[test]
fn one_that_agrees_or_gives_no_answer_vetoes_nothing() {
    for judge in ["exit 0", "exit 3", "no-such-program-here"] {
        let more = format!("guards: {{judge: '{judge}'}}\n");
        halts(&bench_with(&["touch done"], &more), HaltReason::SuccessConditionMet);
    }
}

#[test]
fn one_that_agrees_promotes_nothing() {
    let more = "guards: {judge: 'exit 0'}\n";
    let bench = bench_with(&["touch other"], &format!("limits: {{iterations: 1}}\n{more}"));
    halts(&bench, HaltReason::MaxIterationsReached);
}

#[test]
fn a_sealed_check_that_is_red_is_simply_not_green() {
    let bench = Bench::new();
    bench.loop_file(
        "exec: ./agent.sh\ncheck:\n  run: test -f done\n  held_out: grep -q right done\n",
    );
    let tell = "cp \"$LOOPEXEC_CONTEXT\" told.md; echo right > done";
    agent(&bench, &["echo wrong > done"], tell);
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(execs(&bench, &ran), 2);
    let told = std::fs::read_to_string(bench.path("told.md")).unwrap();
    assert!(told.contains("A sealed check is red."), "{told}");
    assert!(!told.contains("grep"), "{told}");
}

#[test]
fn what_the_check_leaves_where_the_facts_go_is_neither_followed_nor_waited_for() {
    for planted in ["ln -s \"$VICTIM\"", "mkfifo"] {
        let bench = Bench::new();
        bench.script(
            "plant.sh",
            &format!(
                "VICTIM=\"{}\"\nio=\"$(dirname \"$TMPDIR\")/io/judge\"\nrm -rf \"$io\"; mkdir -p \"$io\"; {planted} \"$io/facts.json\"; test -f done\n",
                bench.beside("victim").display()
            ),
        );
        std::fs::write(bench.beside("victim"), "mine").unwrap();
        bench.loop_file(
            "exec: ./agent.sh\ncheck:\n  run: ./plant.sh\n  held_out: ./plant.sh\nlimits: {time: 60s}\nguards: {judge: 'grep -q run_id \"$LOOPEXEC_FACTS\" || exit 1'}\n",
        );
        agent(&bench, &[], "touch done");
        bench.commit();
        halts(&bench, HaltReason::SuccessConditionMet);
        assert_eq!(std::fs::read_to_string(bench.beside("victim")).unwrap(), "mine");
    }
}
