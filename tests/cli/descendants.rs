//! A grandchild that wants to outlive its step: dead before the check starts, named in the
//! receipt, and nobody waited for it.

use crate::bench::Bench;
use crate::reasons::{halts, text};
use loopexec::domain::reason::HaltReason;
use serde_json::Value;
use std::time::{Duration, Instant};

/// A daemon: its own session, forked twice, deaf to polite signals, with the pipes of exec open.
/// It beats five times a second and would go on for minutes.
fn daemon(heartbeat: &str) -> String {
    format!(
        "(setsid sh -c 'trap \"\" TERM HUP INT; (i=0; while [ $i -lt 1500 ]; do echo beat >> \"{heartbeat}\"; sleep 0.2; i=$((i+1)); done) & ' &)\n\
         while [ ! -s '{heartbeat}' ]; do sleep 0.02; done\n"
    )
}

/// A check that is red while the heartbeat goes on.
fn silence(heartbeat: &str) -> String {
    format!(
        "test -f done || exit 1\na=$(wc -c < '{heartbeat}'); sleep 0.7; b=$(wc -c < '{heartbeat}')\n\
         [ \"$a\" = \"$b\" ] || {{ echo it still beats; exit 1; }}"
    )
}

fn survivors(events: &[Value]) -> Vec<Value> {
    events
        .iter()
        .filter_map(|event| event["observation"]["exec"]["run"]["survivors"].as_array().cloned())
        .flatten()
        .collect()
}

#[test]
fn a_daemonised_grandchild_is_dead_before_the_check_named_and_delays_nothing() {
    let bench = Bench::new();
    let heartbeat = bench.beside("heartbeat").display().to_string();
    bench.script("agent.sh", &format!("{}touch done", daemon(&heartbeat)));
    bench.script("check.sh", &silence(&heartbeat));
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    bench.commit();
    let begun = Instant::now();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    assert_eq!(ran.json()["iterations"], 1, "{ran:#?}");
    let events = bench.events(&ran);
    let named = survivors(&events);
    assert!(!named.is_empty(), "nobody is named");
    assert!(named.iter().any(|one| text(&one["name"]).contains("sh")), "{named:?}");
    let exec = events.iter().find(|event| event["observation"]["exec"].is_object()).unwrap();
    let wall = exec["observation"]["exec"]["run"]["wall_ms"].as_u64().unwrap();
    assert!(wall < 15_000, "exec was waited for: {wall} ms");
    assert!(ran.stderr.contains("killed"), "{}", ran.stderr);
}

#[test]
fn an_exec_that_waits_for_its_children_leaves_nobody_behind() {
    let bench = Bench::new();
    bench.script("agent.sh", "sleep 0.1 & sleep 0.2 & wait; touch done");
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(survivors(&bench.events(&ran)), Vec::<Value>::new());
}

#[test]
fn a_daemon_of_the_check_is_dead_before_the_next_exec() {
    let bench = Bench::new();
    let heartbeat = bench.beside("heartbeat").display().to_string();
    bench.script("check.sh", &format!("test -f done && exit 0\n{}exit 1", daemon(&heartbeat)));
    bench.script("agent.sh", &format!("touch done\n{}", silence(&heartbeat)));
    bench.loop_file("exec: {run: ./agent.sh, max_failures: 1}\ncheck: ./check.sh\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["iterations"], 1);
}
