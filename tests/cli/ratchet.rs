//! `ratchet`: the accepted frontier, and clearing what the state file keeps of it.

use crate::bench::Bench;
use serde_json::Value;

fn tap(bench: &Bench) {
    bench.write("a", "0\n");
    bench.write("b", "0\n");
    bench.script(
        "tests.sh",
        "echo 1..2\nn=0\nfor t in a b; do n=$((n + 1)); if grep -q 1 $t; then echo \"ok $n - $t\"; else echo \"not ok $n - $t\"; bad=1; fi; done\nexit ${bad:-0}",
    );
}

#[test]
fn the_frontier_is_the_last_accepted_snapshot() {
    let bench = Bench::new();
    tap(&bench);
    bench.loop_file(
        "limits: {iterations: 2}\nexec: 'echo 1 > a'\ncheck: {run: ./tests.sh, runner: tap}\n",
    );
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_ne!(ran.code, Some(10), "{ran:#?}");
    let shown = bench.run(&["ratchet", "--json"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    let accepted = shown.json()["accepted"].clone();
    assert_eq!(accepted["passing"], 1);
    assert_eq!(accepted["failing"].as_array().unwrap().len(), 1);
    assert_eq!(accepted["best_remaining"], 1);
    let history = bench.fold(&ran);
    assert_eq!(accepted["tree"], history.history().unwrap().accepted.tree.as_str());
}

#[test]
fn reset_clears_the_last_green_state_and_changes_no_evidence() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done\ncheck: test -f done\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let reset = bench.run(&["ratchet", "reset", "--json"]);
    assert_eq!(reset.code, Some(0), "{reset:#?}");
    let green = bench.fold(&ran).history().unwrap().accepted.tree.clone();
    assert_eq!(reset.json()["cleared"], green.as_str());
    let state: Value =
        serde_json::from_slice(&std::fs::read(bench.path(".loop_state.json")).unwrap()).unwrap();
    assert_eq!(state["last_green_commit"], Value::Null);
    assert_eq!(state["halt_reason"], "success_condition_met");
    assert_eq!(bench.run(&["check"]).code, Some(0));
    assert_eq!(bench.run(&["ratchet", "reset", "--run-id", "X"]).code, Some(2));
}

#[test]
fn without_a_run_there_is_no_frontier() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["ratchet"]).code, Some(30));
    assert_eq!(bench.run(&["ratchet", "reset"]).code, Some(30));
    bench.whole_loop_file("version: 2\n");
    assert_eq!(bench.run_loop(&[]).code, Some(30));
    let shown = bench.run(&["ratchet", "--json"]);
    assert_eq!((shown.code, &shown.json()["detail"]), (Some(30), &"no_baseline".into()));
}
