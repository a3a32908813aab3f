//! The examples that need nothing but a shell and cargo, and the demo; the others stand in
//! `examples_toolchains`.

#[path = "support/examples.rs"]
mod examples;

use examples::{Project, out_of_reach, stands_in_place};
use serde_json::Value;
use std::fs;
use std::process::Command;

#[test]
fn shell_with_tap() {
    Project::of("shell").converges(&[], &[" M duration.sh", "?? .loop_state.json"]);
}

#[test]
fn rust_workspace_that_reads_a_fixture_by_its_absolute_path() {
    let project = Project::of("rust");
    let check = match stands_in_place() {
        true => out_of_reach(&project, "cargo test --workspace --no-fail-fast"),
        false => "cargo test --workspace --no-fail-fast".to_owned(),
    };
    project.converges(&["--check", &check], &[" M money/src/lib.rs"]);
}

#[test]
fn the_callers_tree_would_be_seen_if_it_were_in_reach() {
    let project = Project::of("shell");
    fs::create_dir(project.root().join(".loopexec")).unwrap();
    let status = Command::new("sh")
        .args(["-ec", &out_of_reach(&project, "true")])
        .current_dir(project.root())
        .status()
        .unwrap();
    assert!(!status.success());
}

#[test]
fn the_demo_ends_as_it_promises_and_leaves_what_it_names() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_loopexec"))
        .args(["demo", "--json", "--quiet"])
        .env("TMPDIR", place.path())
        // None of these may reach the demo's own loops.
        .env("LOOPEXEC_SET_LIMITS__ITERATIONS", "1")
        .env("GIT_DIR", place.path().join("elsewhere"))
        .output()
        .unwrap();
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{object:#}");
    let shown: Vec<(&str, &str, u64)> = object["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let word = |key: &str| run[key].as_str().unwrap();
            assert!(fs::metadata(word("receipt")).unwrap().len() > 0);
            (word("agent"), word("halt_reason"), run["exit_code"].as_u64().unwrap())
        })
        .collect();
    let expected = [
        ("honest", "success_condition_met", 10),
        ("lying", "no_progress_detected", 17),
        ("trespassing", "blocked_path_modified", 13),
    ];
    assert_eq!(shown, expected);
    let evidence = &object["evidence"];
    assert_eq!(evidence["run_id"], object["runs"][0]["run_id"]);
    assert_eq!((&evidence["verified"], &evidence["reproduced"]), (&true.into(), &true.into()));
    assert_eq!(evidence["verdict"], "pass");
    let inside: Vec<_> = fs::read_dir(place.path()).unwrap().collect();
    assert_eq!(inside.len(), 1, "one folder: {inside:?}");
    let honest = object["runs"][0]["project"].as_str().unwrap().to_owned();
    assert!(fs::read_to_string(honest + "/price.sh").unwrap().contains("$2 * $3"));
    let tricked = object["runs"][2]["project"].as_str().unwrap().to_owned();
    assert!(fs::read_to_string(tricked + "/price.sh").unwrap().contains("$2 + $3"));
}
