//! `check`: state and receipt hold and agree, and the loop's check is not run.

use crate::bench::Bench;
use serde_json::{Value, json};

fn ran() -> Bench {
    let bench = Bench::new();
    bench.write("count", "0\n");
    bench.loop_file(
        "exec: 'echo 1 > count'\ncheck: 'date >> \"$TMPDIR/../ran\"; grep -q 1 count'\n",
    );
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    bench
}

fn change(bench: &Bench, key: &str, value: Value) {
    let path = bench.path(".loop_state.json");
    let mut state: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    state[key] = value;
    std::fs::write(&path, state.to_string()).unwrap();
}

#[test]
fn what_a_run_leaves_agrees() {
    let bench = ran();
    let checked = bench.run(&["check", "--json"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    let json = checked.json();
    assert_eq!((&json["phase"], &json["small"]), (&json!("ended"), &json!(false)));
    std::fs::create_dir(bench.path(".small")).unwrap();
    assert_eq!(bench.run(&["check", "--json"]).json()["small"], true);
}

#[test]
fn a_state_that_says_something_else_is_named() {
    for (key, value) in [
        ("iteration", json!(7)),
        ("phase", json!("exec")),
        ("halt_reason", json!("no_progress_detected")),
        ("loop_digest", json!("sha256:00")),
        ("receipt_head", json!({"seq": 3, "sha256": "00"})),
        ("receipt_head", Value::Null),
    ] {
        let bench = ran();
        change(&bench, key, value.clone());
        let checked = bench.run(&["check", "--json"]);
        assert_eq!(checked.code, Some(30), "{key} {value}: {checked:#?}");
        assert_eq!(checked.json()["detail"], "state_differs", "{key}");
    }
}

#[test]
fn a_broken_state_a_missing_one_and_an_altered_receipt_are_told_apart() {
    let bench = ran();
    std::fs::write(bench.path(".loop_state.json"), "{").unwrap();
    assert_eq!(bench.run(&["check"]).code, Some(30));
    std::fs::remove_file(bench.path(".loop_state.json")).unwrap();
    assert_eq!(bench.run(&["check"]).code, Some(30));
    let bench = ran();
    let receipt = bench.runs()[0].receipt();
    let text = std::fs::read_to_string(&receipt).unwrap();
    std::fs::write(&receipt, text.replacen("\"fail\"", "\"pass\"", 1)).unwrap();
    let checked = bench.run(&["check", "--json"]);
    assert_eq!(checked.code, Some(13), "{checked:#?}");
    assert!(checked.json()["errors"][0]["what"].as_str().unwrap().starts_with("line "));
}

#[test]
fn a_run_that_could_not_start_leaves_a_receipt_that_holds_by_itself() {
    let bench = Bench::new();
    bench.whole_loop_file("version: 1\nmodel: none\nexec: x\nchekc: y\n");
    assert_eq!(bench.run_loop(&[]).code, Some(30));
    let checked = bench.run(&["check", "--json"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    assert_eq!(bench.run(&["verify"]).code, Some(0));
}

#[test]
fn a_folder_without_a_run_is_refused() {
    let bench = Bench::new();
    let checked = bench.run(&["check", "--json"]);
    assert_eq!((checked.code, &checked.json()["detail"]), (Some(30), &json!("no_run")));
}
