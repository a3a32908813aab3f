//! `interrupted`: a signal ends the run in under two seconds, with every child and a final event.

use super::workspace_invalid::wait_for;
use super::{halts_with, holds};
use crate::bench::{Bench, assert_untouched};
use loopexec::domain::reason::HaltReason;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::{Duration, Instant};

/// Asserts that a file that a process keeps writing to has come to rest.
fn is_still(heartbeat: &Path) {
    let before = std::fs::metadata(heartbeat).unwrap().len();
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(before, std::fs::metadata(heartbeat).unwrap().len(), "a child still lives");
}

/// A command that ignores every polite signal and beats until it is killed.
fn beating(heartbeat: &Path) -> String {
    format!(
        "trap '' TERM INT HUP; (trap '' TERM INT HUP; while :; do echo beat >> '{0}'; sleep 0.05; done) &\n\
         while :; do echo beat >> '{0}'; sleep 0.05; done",
        heartbeat.display()
    )
}

fn stopped_by(signal: Signal, bench: &Bench, heartbeat: &Path) {
    let before = bench.tree_hash();
    let run = bench.start(&["run", "--json"]);
    wait_for(heartbeat);
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    kill(Pid::from_raw(run.pid()), signal).unwrap();
    let ran = run.wait();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{signal}: {took:?}");
    is_still(heartbeat);
    holds(bench, &ran, HaltReason::Interrupted);
    assert_untouched(&before, &bench.tree_hash());
}

#[test]
fn each_of_three_signals_in_exec_ends_the_run_in_under_two_seconds() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let bench = Bench::new();
        let heartbeat = bench.beside("heartbeat");
        bench.script("agent.sh", &beating(&heartbeat));
        bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
        bench.commit();
        stopped_by(signal, &bench, &heartbeat);
    }
}

#[test]
fn a_signal_during_the_baseline_or_setup_ends_the_run_as_well() {
    for line in ["check: ./slow.sh\n", "check: test -f done\nsetup: ./slow.sh\n"] {
        let bench = Bench::new();
        let heartbeat = bench.beside("heartbeat");
        bench.script("slow.sh", &beating(&heartbeat));
        bench.loop_file(&format!("exec: touch done\n{line}"));
        bench.commit();
        stopped_by(Signal::SIGTERM, &bench, &heartbeat);
    }
}

#[test]
fn a_signal_that_never_comes_leaves_the_same_loop_to_its_cap() {
    let bench = Bench::new();
    bench.loop_file("exec: {run: sleep 300, timeout: 1s}\ncheck: test -f done\n");
    bench.commit();
    halts_with(&bench, &["--max-iterations", "1"], HaltReason::MaxIterationsReached);
}
