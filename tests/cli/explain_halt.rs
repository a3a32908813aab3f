//! `explain-halt`: one run's halt with its evidence, and every reason in general.

use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

#[test]
fn a_blocked_path_is_named_and_not_to_be_retried() {
    let bench = Bench::new();
    bench.loop_file("exec: echo A=1 > .env\ncheck: test -f x\n");
    bench.commit();
    assert_eq!(bench.run_loop(&[]).code, Some(13));
    let ran = bench.run(&["explain-halt", "--json"]);
    let told = ran.json();
    assert_eq!(ran.code, Some(0));
    assert_eq!(told["halt_reason"], "blocked_path_modified");
    assert_eq!(told["explanation"]["advice"], "do-not-retry");
    let evidence = told["explanation"]["evidence"].to_string();
    assert!(evidence.contains(".env"), "{told:#}");
    assert!(told["next"].as_str().unwrap().starts_with("loopexec report --run-id "), "{told:#}");
    let text = bench.run(&["explain-halt"]).stdout;
    assert!(text.contains("What to do: do-not-retry"), "{text}");
}

#[test]
fn a_cap_asks_for_a_higher_limit_and_shows_the_course() {
    let bench = Bench::new();
    bench.write("n", "0");
    bench.script(
        "check.sh",
        "echo 1..9; n=$(cat n)\nfor i in 1 2 3 4 5 6 7 8 9; do if [ $n -ge $i ]; then echo \"ok $i\"; else echo \"not ok $i\"; fi; done\n[ $n -ge 9 ]",
    );
    bench.loop_file(
        "exec: echo $LOOPEXEC_ITERATION > n\ncheck: ./check.sh\nlimits: {iterations: 2}\n",
    );
    bench.commit();
    assert_eq!(bench.run_loop(&[]).code, Some(12));
    let told = bench.run(&["explain-halt", "--json"]).json();
    assert_eq!(told["explanation"]["advice"], "raise-the-limit");
    let text = bench.run(&["explain-halt"]).stdout;
    assert!(text.contains("failing by iteration: 8 7"), "{text}");
    assert!(text.contains("Then: loopexec run"), "{text}");
}

#[test]
fn a_loop_file_that_is_not_valid_is_explained_too() {
    let bench = Bench::new();
    bench.loop_file("exec: x\nchekc: y\n");
    bench.commit();
    assert_eq!(bench.run_loop(&[]).code, Some(30));
    let told = bench.run(&["explain-halt", "--json"]).json();
    assert_eq!(told["halt_reason"], "config_invalid");
    assert_eq!(told["explanation"]["advice"], "fix-what");
}

#[test]
fn every_reason_is_explained_without_a_run_and_a_wrong_one_gets_the_nearest() {
    let bench = Bench::plain();
    for reason in HaltReason::ALL {
        let told = bench.run(&["explain-halt", reason.as_str(), "--json"]).json();
        assert_eq!(told["reason_code"], reason.class().code());
        assert!(told["explanation"]["what"].as_str().unwrap().len() > 40);
    }
    let ran = bench.run(&["explain-halt", "no_progres"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("no_progress_detected"), "{ran:#?}");
    let ran = bench.run(&["explain-halt", "foo"]);
    assert_eq!(ran.code, Some(2));
    assert!(!ran.stderr.contains("nearest"), "{ran:#?}");
    let ran = bench.run(&["explain-halt"]);
    assert_eq!(ran.code, Some(30), "{ran:#?}");
}
