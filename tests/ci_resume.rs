//! `resume: latest` in a job: the bundle of the run before is fetched, and an answer in a comment counts
//! only from somebody who may write, and only after the question.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

#[path = "cli/bench.rs"]
#[expect(dead_code, reason = "shared with tests that use more of it")]
mod bench;
#[path = "support/fake_github.rs"]
#[expect(dead_code, reason = "shared with tests that use more of it")]
mod fake_github;
#[path = "support/github_job.rs"]
mod github_job;

use bench::{Bench, Ran};
use fake_github::{FakeGitHub, RUNTIME_TOKEN, UPLOADED};
use github_job::{on_github, values};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A job on a branch whose loop asks before it delivers, and the server that keeps what it uploads.
fn job() -> (Bench, FakeGitHub) {
    let mut bench = Bench::new();
    bench.script("agent.sh", "echo ran >> runs; echo good > state");
    bench.script("check.sh", "grep -q good state");
    bench.write("state", "bad\n");
    bench.loop_file(
        "exec: ./agent.sh\ncheck: ./check.sh\nhuman: {approve: [deliver]}\nworkspace: {deliver: apply}\n",
    );
    bench.commit();
    let server = FakeGitHub::start();
    server.answer_after(0);
    let payload =
        json!({"repository": {"id": 1, "full_name": "acme/shop"}, "ref": "refs/heads/topic"});
    let event = bench.beside("event.json");
    std::fs::write(&event, payload.to_string()).unwrap();
    on_github(&mut bench);
    for (name, value) in [
        ("GITHUB_EVENT_PATH", event.to_str().unwrap()),
        ("GITHUB_REF", "refs/heads/topic"),
        ("GITHUB_WORKFLOW_REF", "acme/shop/.github/workflows/l.yml@refs/heads/topic"),
        ("GITHUB_API_URL", server.address()),
        ("GITHUB_TOKEN", "ghs_jobtoken"),
        ("ACTIONS_RESULTS_URL", server.address()),
        ("ACTIONS_RUNTIME_TOKEN", RUNTIME_TOKEN),
        ("INPUT_PR-NUMBER", "7"),
        ("INPUT_RESUME", "latest"),
    ] {
        bench.env(name, value);
    }
    (bench, server)
}

fn said(login: &str, time: &str, body: &str) -> Value {
    json!({"id": 900, "body": body, "created_at": time, "updated_at": time,
        "html_url": "https://github.com/acme/shop/pull/7#issuecomment-900",
        "user": {"login": login, "type": "User", "id": 5}})
}

/// Runs the job as the next attempt, on a machine that has nothing of the one before.
fn next(bench: &mut Bench, attempt: u32) -> Ran {
    for name in [".loopexec", ".loop_state.json"] {
        let path = bench.path(name);
        let _ =
            if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    }
    bench.env("GITHUB_RUN_ATTEMPT", &attempt.to_string());
    bench.run(&["ci", "--action"])
}

fn outputs(bench: &Bench) -> BTreeMap<String, String> {
    values(bench, "output")
}

#[test]
fn the_answer_of_somebody_who_may_write_delivers_what_an_earlier_job_made() {
    let (mut bench, server) = job();
    let first = next(&mut bench, 1);
    assert_eq!(first.code, Some(16), "{first:#?}");
    assert!(first.stderr.contains("a new run starts"), "{first:#?}");
    let run = outputs(&bench)["run-id"].clone();
    assert_eq!(server.look(|kept| kept.artifacts.len()), 1);
    server.tell(said("eve", "2026-11-29T08:00:01Z", "/loopexec ack deliver yes"));
    server.tell(said("ada", UPLOADED, "/loopexec ack deliver yes"));
    server.tell(said("ada", "2026-11-29T08:00:02Z", "I would say /loopexec ack deliver yes"));
    let second = next(&mut bench, 2);
    assert_eq!(second.code, Some(16), "nobody who counts has answered: {second:#?}");
    assert!(second.stderr.contains("eve has no write access"), "{second:#?}");
    assert_eq!(outputs(&bench)["run-id"], run, "it is the same run");
    assert_eq!(std::fs::read(bench.path("state")).unwrap(), b"bad\n");
    server.tell(said("ada", "2026-11-29T08:00:03Z", "/loopexec ack deliver yes"));
    let third = next(&mut bench, 3);
    assert_eq!(third.code, Some(0), "{third:#?}");
    assert!(third.stderr.contains("ada answered deliver"), "{third:#?}");
    let told = outputs(&bench);
    assert_eq!((&*told["run-id"], &*told["halt-reason"]), (&*run, "success_condition_met"));
    assert_eq!(std::fs::read(bench.path("state")).unwrap(), b"good\n");
    assert_eq!(std::fs::read(bench.path("runs")).unwrap(), b"ran\n", "exec ran once in all");
    assert_eq!(bench.run(&["verify"]).code, Some(0));
    let report = bench.run(&["report"]);
    assert!(report.stdout.contains("yes to deliver by ada"), "{report:#?}");
    let summary = std::fs::read_to_string(bench.beside("summary")).unwrap();
    assert!(summary.contains("yes to deliver by ada"), "{summary}");
}

#[test]
fn a_no_ends_it_and_what_has_ended_is_not_gone_on_with() {
    let (mut bench, server) = job();
    assert_eq!(next(&mut bench, 1).code, Some(16));
    server.tell(said("ada", "2026-11-29T08:00:03Z", "/loopexec ack deliver no"));
    let declined = next(&mut bench, 2);
    assert_eq!(outputs(&bench)["halt-reason"], "human_required", "{declined:#?}");
    let run = outputs(&bench)["run-id"].clone();
    let third = next(&mut bench, 3);
    assert!(third.stderr.contains("has ended (human_required)"), "{third:#?}");
    assert_ne!(outputs(&bench)["run-id"], run);
    assert_eq!(std::fs::read(bench.path("state")).unwrap(), b"bad\n");
}
