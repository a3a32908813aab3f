//! `status`: what a run is doing, from outside, while it does it, after it ended, after it was killed.

use crate::bench::{Bench, Started};
use std::time::{Duration, Instant};

/// A loop whose three tests are mended one an iteration; each exec waits for a file of its number.
fn stepwise() -> Bench {
    let bench = Bench::new();
    bench.write("n", "0\n");
    bench.script(
        "check.sh",
        "echo 1..3; red=0\nfor i in 1 2 3; do\n  if [ \"$(cat n)\" -ge $i ]; then echo \"ok $i - t$i\"; else echo \"not ok $i - t$i\"; red=1; fi\ndone\nexit $red",
    );
    let gate = bench.beside("gate");
    bench.loop_file(&format!(
        "exec: |\n  i=$LOOPEXEC_ITERATION\n  while [ ! -e {gate}$i ]; do sleep 0.05; done\n  echo $i > n\ncheck: ./check.sh\n",
        gate = gate.display()
    ));
    bench.commit();
    bench
}

fn open(bench: &Bench, iteration: u32) {
    std::fs::write(bench.beside(&format!("gate{iteration}")), "").unwrap();
}

/// Waits until `status` says what is wanted.
fn wait_for(bench: &Bench, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let ran = bench.run(&["status", "--json"]);
        if ran.code == Some(0) && wanted(&ran.json()["run"]) {
            return ran.json()["run"].clone();
        }
        assert!(Instant::now() < until, "{ran:#?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn start(bench: &Bench) -> Started {
    bench.start(&["run", "--run-id", "R1", "-q"])
}

#[test]
fn a_running_run_is_followed_to_its_end_without_cursor_codes() {
    let bench = stepwise();
    let run = start(&bench);
    let now = wait_for(&bench, |run| run["phase"] == "exec" && run["iteration"] == 1);
    assert_eq!(now["running"], true);
    assert_eq!(now["pid"], run.pid());
    assert_eq!(now["iterations_max"], 10);
    assert_eq!((&now["failing"], &now["baseline_failing"]), (&3.into(), &3.into()));
    open(&bench, 1);
    // Phase and failing set stand in two files, and a look may fall between the two.
    let now = wait_for(&bench, |run| {
        run["phase"] == "exec" && run["iteration"] == 2 && run["failing"] == 2
    });
    assert_eq!(now["best_failing"], 2);
    assert_eq!(now["last_decision"], "continue");
    assert_eq!(now["next_limit"], "iterations, 8 left");
    assert_eq!(now["open_failures"], serde_json::json!(["t2", "t3"]));
    let follow = bench.start(&["status", "--follow"]);
    let follow_json = bench.start(&["status", "--follow", "--json"]);
    std::thread::sleep(Duration::from_millis(700));
    open(&bench, 2);
    open(&bench, 3);
    assert_eq!(run.wait().code, Some(10));
    let followed = follow.wait();
    assert_eq!(followed.code, Some(0));
    assert!(followed.stdout.contains("iteration 2 of 10 · exec · 2 failing"), "{followed:#?}");
    assert!(followed.stdout.contains("ended: success_condition_met"), "{followed:#?}");
    assert!(!followed.stdout.contains(['\x1b', '\r']), "{followed:#?}");
    let last = follow_json.wait().json();
    assert_eq!(
        (&last["halt_reason"], &last["iterations"]),
        (&"success_condition_met".into(), &3.into())
    );
    assert_eq!(last["run"]["running"], false);
    assert_eq!(last["run"]["failing"], 0);
}

#[test]
fn a_killed_run_is_incomplete_and_the_way_on_is_named() {
    let bench = stepwise();
    let mut run = start(&bench);
    wait_for(&bench, |run| run["phase"] == "exec");
    run.child.kill().unwrap();
    run.wait();
    let ran = bench.run(&["status"]);
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.contains("incomplete: its process is gone"), "{ran:#?}");
    assert!(ran.stdout.contains("loopexec run --resume R1"), "{ran:#?}");
    let ran = bench.run(&["report", "--json"]);
    assert_eq!(ran.json()["standing"], "incomplete");
    let ran = bench.run(&["explain-halt", "--json"]);
    assert_eq!(
        (ran.code, ran.json()["next"].as_str()),
        (Some(0), Some("loopexec run --resume R1"))
    );
    // --follow of what nobody works on ends at once.
    assert_eq!(bench.run(&["status", "--follow"]).code, Some(0));
    for n in 1..=3 {
        open(&bench, n);
    }
    assert_eq!(bench.run(&["run", "--resume", "R1", "-q"]).code, Some(10));
}

#[test]
fn an_older_run_is_told_from_its_receipt() {
    let bench = Bench::new();
    bench.loop_file(
        "exec: test -n \"$LOOPEXEC_RUN_ID\"\ncheck: test -f never\nlimits: {iterations: 2}\n",
    );
    bench.commit();
    let first = bench.run(&["run", "--json", "--run-id", "first"]);
    bench.write("loop.yml", "version: 1\nmodel: none\nexec: touch x\ncheck: test -f x\n");
    assert_eq!(bench.run(&["run", "--json", "--run-id", "second"]).code, Some(10));
    let old = bench.run(&["status", "--json", "--run-id", "first"]).json();
    assert_eq!(old["halt_reason"].as_str(), Some(first.reason().as_str()));
    assert_eq!((&old["run"]["iteration"], &old["run"]["failing"]), (&2.into(), &1.into()));
    assert_eq!(bench.run(&["status", "--json"]).json()["run_id"], "second");
}
