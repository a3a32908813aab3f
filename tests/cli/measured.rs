//! A number that was never measured is `null` or `?`, and all commands name the last measured state.

use crate::bench::Bench;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Starts a loop and interrupts it once it has made the mark.
pub(crate) fn interrupt(bench: &Bench, args: &[&str], mark: &std::path::Path) -> crate::bench::Ran {
    let run = bench.start(args);
    let until = Instant::now() + Duration::from_secs(60);
    while !mark.exists() {
        assert!(Instant::now() < until, "the run does not get that far");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(Pid::from_raw(run.pid()), Signal::SIGINT).unwrap();
    run.wait()
}

#[test]
fn an_interrupted_baseline_has_no_numbers() {
    let bench = Bench::new();
    let mark = bench.beside("mark");
    bench.loop_file(&format!("exec: touch x\ncheck: touch {}; sleep 60\n", mark.display()));
    bench.commit();
    let json = interrupt(&bench, &["run", "--json"], &mark).json();
    assert_eq!(json["halt_reason"], "interrupted");
    assert!(json["why"].as_str().unwrap().contains("SIGINT"), "{json:#}");
    for at in ["/baseline/failing", "/baseline/collected", "/final/failing", "/final/collected"] {
        assert_eq!(json.pointer(at), Some(&Value::Null), "{at} in {json:#}");
    }
    let status = bench.run(&["status", "--json"]).json();
    assert_eq!(
        (&status["run"]["failing"], &status["run"]["baseline_failing"]),
        (&Value::Null, &Value::Null)
    );
    let text = bench.run(&["status"]).stdout;
    assert!(text.contains("? now, ? at best, ? at the start"), "{text}");
    let text = bench.run(&["report"]).stdout;
    assert!(text.contains("? failing of ? collected"), "{text}");
}

#[test]
fn a_check_that_cannot_be_run_and_a_failed_setup_have_no_numbers() {
    for lines in ["check: no-such-program-at-all\n", "check: test -f x\nsetup: exit 3\n"] {
        let bench = Bench::new();
        bench.loop_file(&format!("exec: touch x\n{lines}"));
        bench.commit();
        let ran = bench.run_loop(&[]);
        assert_eq!(ran.json()["baseline"]["failing"], Value::Null, "{ran:#?}");
        assert_eq!(ran.json()["final"]["failing"], Value::Null, "{ran:#?}");
    }
}

#[test]
fn after_an_interruption_in_exec_all_name_the_last_measured_state() {
    let bench = Bench::new();
    let mark = bench.beside("mark");
    bench.loop_file(&format!(
        "exec: touch done{{,2}}; touch {}; sleep 60\ncheck: test -f x\n",
        mark.display()
    ));
    bench.commit();
    let ran = interrupt(&bench, &["run"], &mark);
    assert!(
        ran.stdout.contains("1 at the start, 1 in the last state measured (the start) (check)"),
        "{ran:#?}"
    );
    let status = bench.run(&["status", "--json"]).json();
    assert_eq!(status["run"]["failing"], 1);
    assert_eq!(status["run"]["open_failures"], serde_json::json!(["check"]));
    let text = bench.run(&["explain-halt"]).stdout;
    assert!(text.contains("fails at the start, the last measured: check"), "{text}");
    assert!(text.contains("failing by iteration: ? (?: not measured)"), "{text}");
    let text = bench.run(&["report"]).stdout;
    assert!(text.contains("the check is red (no per-test results)"), "{text}");
    assert!(text.contains("?: not measured"), "{text}");
}

#[test]
fn fewer_tests_at_the_end_are_named_and_a_broken_build_is_not_zero_of_zero() {
    let bench = Bench::new();
    bench.write("n", "0\n");
    bench.script(
        "check.sh",
        "[ -e gone ] && { echo 1..1; echo 'ok 1 - t1'; exit 1; }\necho 1..3; for i in 1 2 3; do echo \"not ok $i - t$i\"; done\nexit 1",
    );
    bench.loop_file("exec: touch gone\ncheck: ./check.sh\nlimits: {iterations: 1}\n");
    bench.commit();
    let ran = bench.run(&["run"]);
    assert!(ran.stdout.contains("  tests    3 at the start, 1 now\n"), "{ran:#?}");
}

#[test]
fn a_check_that_did_not_build_says_so_in_the_log_and_in_the_report() {
    let bench = Bench::new();
    bench.script("check.sh", "[ -e bad ] && { echo 'TAP version 13'; echo 'Bail out! no such module'; exit 1; }\necho 1..1; echo 'not ok 1 - t1'\nexit 1");
    bench.loop_file(
        "exec: echo $LOOPEXEC_ITERATION > bad\ncheck: ./check.sh\nlimits: {iterations: 1}\n",
    );
    bench.commit();
    let ran = bench.run(&["run"]);
    assert!(
        ran.stderr.contains("check in workspace: exit 1, build or collection failed: ")
            && ran.stderr.contains("no such module"),
        "{ran:#?}"
    );
    assert!(ran.stdout.contains("Build or collection failed in the last iteration: "), "{ran:#?}");
    assert!(ran.stdout.contains("1 in the last state measured (the start) (t1)"), "{ran:#?}");
    let report = bench.run(&["report"]).stdout;
    assert!(report.contains("?: not measured"), "{report}");
}

#[test]
fn a_red_first_run_counts_at_the_start_although_the_copies_are_green() {
    let bench = Bench::new();
    bench.write(".gitignore", "cache\n");
    bench.script("check.sh", "[ -e cache ] || { touch cache; exit 1; }");
    bench.loop_file("exec: touch x\ncheck: ./check.sh\n");
    bench.commit();
    let ran = bench.run(&["run"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    for part in [
        "  why      the first run of the check was red and every fresh copy after it green: ",
        "  failing  1 at the start, 0 in the last state\n",
        "  note     the first run of the check was red",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {ran:#?}");
    }
    assert!(!ran.stdout.contains("green before any exec"), "{ran:#?}");
    assert_eq!(bench.run(&["status", "--json"]).json()["run"]["baseline_failing"], 1);
}

#[test]
fn reports_where_build_tools_leave_them_need_no_declaration() {
    let bench = Bench::new();
    bench.write(".gitignore", "target/\n");
    bench.write("pom.xml", "<project/>\n");
    bench.script(
        "suite",
        "mkdir -p target/surefire-reports
case=$(test -f done && echo '/>' || echo '><failure message=\"no\"/></testcase>')
cat > target/surefire-reports/TEST-a.A.xml <<END
<testsuite name=\"a.A\" tests=\"1\"><testcase classname=\"a.A\" name=\"works\"$case</testsuite>
END
test -f done",
    );
    bench.loop_file("exec: touch done\ncheck: ./suite\n");
    bench.commit();
    let json = bench.run_loop(&[]).json();
    assert_eq!(json["halt_reason"], "success_condition_met", "{json:#}");
    assert_eq!(json["baseline"]["failing"], 1, "{json:#}");
    assert_eq!(json["baseline"]["collected"], 1, "{json:#}");
}
