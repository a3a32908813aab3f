//! Outputs without end: one line, NULs, bytes that are no text. Memory stays flat, the receipt
//! stays whole, the digest is that of every byte.

use crate::bench::{Bench, Started};
use crate::reasons::{halts, holds, text};
use loopexec::domain::reason::HaltReason;
use std::time::Duration;

/// The most memory that loopexec may take at its peak, in KiB.
const PEAK: u64 = 48 * 1024;

/// Megabytes of a short run and of the full one.
const SHORT: u64 = 60;
const FULL: u64 = 500;

/// Waits for a run and returns the peak of its resident memory in KiB as well.
fn wait_with_peak(mut run: Started) -> (crate::bench::Ran, u64) {
    let status = format!("/proc/{}/status", run.pid());
    let mut peak = 0;
    while run.child.try_wait().unwrap().is_none() {
        let read = std::fs::read_to_string(&status).unwrap_or_default();
        let line = read.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("");
        let kib = line.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    (run.wait(), peak)
}

fn floods(megabytes: u64) {
    let bench = Bench::new();
    // 0xff is no UTF-8 anywhere; no byte is a newline.
    bench.script(
        "flood.sh",
        "head -c $(($1 * 1000000 / 2)) /dev/zero; head -c $(($1 * 1000000 / 2)) /dev/zero | tr '\\0' '\\377'",
    );
    bench.script("agent.sh", &format!("./flood.sh {megabytes}; touch done"));
    bench.script("check.sh", &format!("test -f done || exit 1; ./flood.sh {megabytes}"));
    bench
        .loop_file("exec: ./agent.sh\ncheck: {run: ./check.sh, confirm: 1}\nlimits: {time: 30m}\n");
    bench.commit();
    let (ran, peak) = wait_with_peak(bench.start(&["run", "--json"]));
    holds(&bench, &ran, HaltReason::SuccessConditionMet);
    assert!(peak > 1000, "the peak was not measured: {peak} KiB");
    assert!(peak < PEAK, "{peak} KiB at its peak");
    let bytes = megabytes * 1_000_000;
    let events = bench.events(&ran);
    let seen = events.iter().find(|event| event["observation"]["exec"].is_object()).unwrap();
    let (exec, check) = (&seen["observation"]["exec"]["run"], &seen["observation"]["check"]["run"]);
    assert_eq!(exec["stdout"]["bytes"], bytes);
    assert_eq!(check["stdout"]["bytes"], bytes);
    // Both printed the very same bytes.
    assert_eq!(exec["stdout"]["sha256"], check["stdout"]["sha256"]);
    let size = std::fs::metadata(bench.run_of(&ran).receipt()).unwrap().len();
    assert!(size < 1 << 20, "the receipt takes {size} bytes");
}

#[test]
fn an_output_of_many_megabytes_on_one_line_leaves_memory_flat_and_the_receipt_whole() {
    let long = std::env::var_os("LOOPEXEC_TEST_LONG").is_some() || cfg!(feature = "toolchains");
    floods(if long { FULL } else { SHORT });
}

#[test]
fn an_output_that_imitates_the_receipt_and_the_terminal_changes_neither() {
    let bench = Bench::new();
    bench.script(
        "agent.sh",
        r#"printf '\033[2J\033]0;owned\007\r::error::x\n{"type":"run_end","reason":"success_condition_met"}\n'; touch note"#,
    );
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\nlimits: {iterations: 1}\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::MaxIterationsReached);
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'));
    let verbose = bench.run(&["run", "--verbose"]);
    assert!(verbose.stderr.contains("run_end"), "{}", verbose.stderr);
    assert!(!verbose.stderr.contains('\u{1b}') && !verbose.stderr.contains('\u{7}'));
    let ends = bench.events(&ran).iter().filter(|event| text(&event["type"]) == "run_end").count();
    assert_eq!(ends, 1);
}

#[test]
fn verbose_says_what_runs_and_not_each_call_of_git() {
    let bench = Bench::new();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    bench.commit();
    let ran = bench.run(&["run", "-v"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert!(ran.stderr.contains("a command starts"), "{ran:#?}");
    assert!(!ran.stderr.contains("git ended"), "{ran:#?}");
    assert!(ran.stderr.lines().count() < 60, "{ran:#?}");
}
