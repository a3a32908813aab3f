//! `run --base`: what a pull request must not choose by itself comes from its base.

use crate::bench::{Bench, Ran};
use crate::reasons::escalation_pending::changed_check;
use crate::reasons::{execs, holds, text};
use loopexec::domain::reason::HaltReason;

fn held(bench: &Bench, ran: &Ran) -> String {
    text(&bench.events(ran)[0]["caller"]["base"]["held"]).to_owned()
}

#[test]
fn a_changed_check_is_not_run_where_the_base_does_not_ask() {
    let bench = changed_check("");
    let ran = bench.run_loop(&["--base", "base", "--once"]);
    holds(&bench, &ran, HaltReason::MaxIterationsReached);
    assert_eq!(held(&bench, &ran), "replaced");
    assert!(ran.stderr.contains("check.run of the loop file differs from the base"), "{ran:#?}");
    let spec = &bench.events(&ran)[0]["spec"];
    assert_eq!(spec["check"]["run"], "test -f done");
    assert_eq!(spec["exec"]["run"], "touch ran", "the rest is the pull request's");
    let plain = bench.run(&["run", "--dry-run", "--json", "--base", "base", "--once"]);
    assert_eq!(plain.json()["loop_digest"], ran.json()["loop_digest"], "the digest is what ran");
}

#[test]
fn guards_that_a_pull_request_takes_away_still_hold() {
    let bench = Bench::new();
    bench.loop_file(
        "exec: 'true'\ncheck: test -f done\nguards: {blocked_paths: {add: [locked/**]}}\n",
    );
    bench.commit();
    bench.git(&["tag", "base"]);
    bench.loop_file("exec: mkdir -p locked && touch locked/x done\ncheck: test -f done\nguards: {blocked_paths: []}\n");
    bench.commit();
    let ran = bench.run_loop(&["--base", "base"]);
    holds(&bench, &ran, HaltReason::BlockedPathModified);
    bench.git(&["tag", "-f", "base"]);
    holds(&bench, &bench.run_loop(&["--base", "base"]), HaltReason::SuccessConditionMet);
}

#[test]
fn a_gate_that_a_pull_request_takes_away_stays() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: test -f done\nhuman: {approve: [deliver]}\n");
    bench.commit();
    bench.git(&["tag", "base"]);
    bench.loop_file("exec: touch done\ncheck: test -f done\n");
    bench.commit();
    holds(&bench, &bench.run_loop(&["--base", "base"]), HaltReason::EscalationPending);
}

#[test]
fn a_base_that_is_not_here_or_has_no_loop_file_asks_and_says_what_to_do() {
    for (base, why) in
        [("0123456789012345678901234567890123456789", "fetch-depth: 2"), ("before", "")]
    {
        let bench = Bench::new();
        bench.git(&["tag", "before"]);
        bench.loop_file("exec: touch done\ncheck: test -f done\n");
        bench.commit();
        let ran = bench.run_loop(&["--base", base]);
        holds(&bench, &ran, HaltReason::EscalationPending);
        assert_eq!((text(&ran.json()["detail"]), execs(&bench, &ran)), ("protected_change", 0));
        assert!(ran.stderr.contains(why), "{ran:#?}");
        let said = bench.run(&["ack", "--gate", "protected_change", "--yes"]);
        assert_eq!(said.code, Some(0), "{said:#?}");
        let done = bench.run_loop(&["--resume", "latest", "--base", base]);
        holds(&bench, &done, HaltReason::SuccessConditionMet);
        assert!(bench.path("done").exists());
    }
}

#[test]
fn the_first_revision_that_is_here_counts() {
    let bench = changed_check("");
    let missing = "0123456789012345678901234567890123456789";
    let ran = bench.run_loop(&["--base", missing, "--base", "base", "--once"]);
    assert_eq!(held(&bench, &ran), "replaced", "{ran:#?}");
}

#[test]
fn an_answer_to_another_change_does_not_fit() {
    let bench = changed_check("protected_change");
    assert_eq!(bench.run_loop(&["--base", "base"]).reason(), "escalation_pending");
    assert_eq!(bench.run(&["ack", "--gate", "protected_change", "--yes"]).code, Some(0));
    bench.loop_file("exec: touch ran\ncheck: 'true'\n");
    bench.commit();
    let ran = bench.run_loop(&["--resume", "latest", "--base", "base"]);
    assert_eq!(ran.reason(), "config_invalid", "{ran:#?}");
    let fresh = bench.run_loop(&["--base", "base"]);
    assert_eq!(fresh.reason(), "escalation_pending", "{fresh:#?}");
}

#[test]
fn a_check_on_the_command_line_is_the_pull_requests_word() {
    let bench = changed_check("");
    bench.git(&["tag", "-f", "base"]);
    let ran = bench.run_loop(&["--base", "base", "--check", "true"]);
    assert_eq!(held(&bench, &ran), "replaced", "{ran:#?}");
    assert_eq!(ran.json()["iterations"], 1);
}

#[test]
fn a_hostile_revision_is_only_a_revision_that_is_not_here() {
    let bench = changed_check("");
    for base in ["--upload-pack=touch pwned", "-x", "base:loop.yml", "base\nbase"] {
        let ran = bench.run_loop(&[&format!("--base={base}")]);
        assert_eq!(ran.reason(), "escalation_pending", "{base}: {ran:#?}");
        assert!(!bench.path("pwned").exists());
    }
}

#[test]
fn a_loop_inside_a_workflow_is_held_to_the_same_place_of_the_base() {
    let workflow = |check: &str| {
        format!(
            "on: pull_request\njobs:\n  mend:\n    runs-on: x\n    steps:\n      - uses: acme/loopexec@v1\n        with:\n          loop: |\n            version: 1\n            model: none\n            exec: touch ran\n            check: {check}\n"
        )
    };
    let bench = Bench::new();
    bench.write(".github/workflows/l.yml", workflow("test -f done"));
    bench.commit();
    bench.git(&["tag", "base"]);
    bench.write(".github/workflows/l.yml", workflow("test -f ran"));
    bench.commit();
    let args = ["--workflow", ".github/workflows/l.yml", "--once"];
    let ran = bench.run_loop(&[&args[..], &["--base", "base"]].concat());
    holds(&bench, &ran, HaltReason::MaxIterationsReached);
    assert_eq!(held(&bench, &ran), "replaced");
    holds(&bench, &bench.run_loop(&args), HaltReason::SuccessConditionMet);
}

#[test]
fn where_a_loop_stands_is_no_difference() {
    let bench = Bench::new();
    let loop_text = "version: 1\nmodel: none\nexec: 'true'\ncheck: 'true'\n";
    let indented = loop_text.replace('\n', "\n            ");
    bench.write(
        ".github/workflows/l.yml",
        format!("on: push\njobs:\n  mend:\n    runs-on: x\n    steps:\n      - uses: acme/loopexec@v1\n        with:\n          working-directory: part\n          loop: |\n            {indented}"),
    );
    bench.write("part/there", "");
    bench.write("shared.yml", loop_text);
    bench.commit();
    bench.git(&["tag", "base"]);
    let ran = bench.run_loop(&["--workflow", ".github/workflows/l.yml", "--base", "base"]);
    assert_eq!(held(&bench, &ran), "same", "{ran:#?}");
    let ran = bench.run(&["--workdir", "part", "run", "shared.yml", "--base", "base", "--json"]);
    assert_eq!(held(&bench, &ran), "same", "{ran:#?}");
}

#[test]
fn the_report_says_that_the_bases_check_was_used() {
    let bench = changed_check("");
    assert_eq!(held(&bench, &bench.run_loop(&["--base", "base", "--once"])), "replaced");
    let report = bench.run(&["report"]);
    let told = "base: its own were used instead of what differed (check.run";
    assert!(report.stdout.contains(told), "{report:#?}");
}

#[test]
fn a_loop_file_that_frees_itself_differs() {
    let bench = Bench::new();
    bench.loop_file("exec: touch ran\ncheck: test -f ran\n");
    bench.commit();
    bench.git(&["tag", "base"]);
    bench.loop_file(
        "exec: touch ran\ncheck: test -f ran\nguards: {blocked_paths: {remove: [loop.yml]}}\n",
    );
    bench.commit();
    let ran = bench.run_loop(&["--base", "base"]);
    assert_eq!(held(&bench, &ran), "replaced", "{ran:#?}");
}
