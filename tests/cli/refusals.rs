//! Every halt after the arguments leaves a receipt that ends, whatever kept the run from starting.

use crate::bench::{Bench, Ran};
use loopexec::receipt::record::{Compare, fold};
use std::os::unix::fs::symlink;

/// A loop that would converge at once.
fn bench(rest: &str) -> Bench {
    let bench = Bench::new();
    bench.loop_file(&format!("exec: touch done.txt\ncheck: test -f done.txt\n{rest}"));
    bench.commit();
    bench
}

/// Asserts the reason, the exit code, one clear sentence, and a receipt from start to end.
fn assert_refused(bench: &Bench, ran: &Ran, reason: &str, detail: &str) {
    assert_eq!((ran.code, &*ran.reason()), (Some(30), reason), "{ran:#?}");
    assert_no_panic(ran);
    let runs = bench.runs();
    let run = runs.last().expect("a run's folder");
    let folded = fold(run, Compare::Strict, &mut |_| Ok(())).unwrap();
    let end = folded.end.expect("a final event");
    assert_eq!((end.halt.reason.as_str(), &*end.halt.detail), (reason, detail), "{ran:#?}");
    assert!(!end.halt.why.is_empty() && !end.halt.hints.is_empty(), "{end:?}");
    assert!(!bench.path("done.txt").exists());
}

fn assert_no_panic(ran: &Ran) {
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
}

#[test]
fn a_bad_loop_file_leaves_two_events() {
    let bench = bench("unknown_key: 1\n");
    let ran = bench.run_loop(&[]);
    assert_refused(&bench, &ran, "config_invalid", "");
    assert_eq!(bench.events(&ran).len(), 2);
}

#[test]
fn an_uncommitted_change_that_is_not_wanted_ends_the_run() {
    let bench = bench("workspace: { on_dirty: refuse }\n");
    bench.write("dirty.txt", "x");
    let ran = bench.run_loop(&[]);
    assert_refused(&bench, &ran, "workspace_invalid", "dirty");
}

#[test]
fn too_much_to_carry_names_the_folder() {
    let bench = bench("workspace: { carry_max: 1KiB }\n");
    bench.write(".gitignore", "big/\n");
    bench.commit();
    bench.write("big/file", vec![7; 100_000]);
    let ran = bench.run_loop(&[]);
    if ran.code == Some(10) {
        // The disk shares blocks, so that nothing is copied byte by byte.
        return;
    }
    assert_refused(&bench, &ran, "workspace_invalid", "carry_too_large");
    assert!(ran.json()["why"].as_str().unwrap().contains("big"), "{ran:#?}");
}

#[test]
fn a_setup_that_fails_is_recorded_with_what_it_said() {
    let bench = bench("setup: echo no compiler here >&2; exit 3\n");
    let ran = bench.run_loop(&[]);
    assert_refused(&bench, &ran, "workspace_invalid", "setup_failed");
    assert!(ran.json()["why"].as_str().unwrap().contains("no compiler here"), "{ran:#?}");
    let events = bench.events(&ran);
    let baseline = events.iter().find(|event| event["type"] == "baseline").unwrap();
    assert_eq!(baseline["observation"]["setup"]["exit"]["code"], 3, "{baseline:#}");
}

#[test]
fn a_cache_that_cannot_be_made_ends_the_run() {
    let mut bench = bench("");
    let file = bench.beside("file");
    std::fs::write(&file, "").unwrap();
    bench.env("LOOPEXEC_CACHE", file.to_str().unwrap());
    let ran = bench.run_loop(&[]);
    assert_refused(&bench, &ran, "workspace_invalid", "");
    let inside = bench.path("inside");
    bench.env("LOOPEXEC_CACHE", inside.to_str().unwrap());
    let ran = bench.run_loop(&[]);
    assert_refused(&bench, &ran, "workspace_invalid", "");
}

#[test]
fn a_place_for_receipts_that_is_no_folder_is_refused_in_one_sentence() {
    for link in [false, true] {
        let bench = bench("");
        let elsewhere = bench.beside("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        match link {
            true => symlink(&elsewhere, bench.path(".loopexec")).unwrap(),
            false => std::fs::write(bench.path(".loopexec"), "mine").unwrap(),
        }
        let ran = bench.run_loop(&[]);
        assert_eq!(ran.code, Some(30), "{ran:#?}");
        assert_no_panic(&ran);
        let error = ran.json()["errors"][0].clone();
        assert_eq!(error["kind"], "workspace_invalid", "{ran:#?}");
        assert!(error.to_string().contains(".loopexec"), "{error}");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
        assert!(!bench.path("done.txt").exists());
    }
}

#[test]
fn a_state_file_that_is_no_file_ends_the_run_and_is_left_alone() {
    let bench = bench("");
    std::fs::create_dir(bench.path(".loop_state.json")).unwrap();
    let ran = bench.run_loop(&[]);
    assert_refused(&bench, &ran, "workspace_invalid", "");
    assert!(bench.path(".loop_state.json").is_dir());
}
