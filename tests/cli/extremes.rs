//! Trees that no tool is made for: deeper than any path, and with files that take long to read.

use crate::bench::Bench;
use crate::reasons::halts;
use loopexec::domain::reason::HaltReason;
use std::time::{Duration, Instant};

#[test]
fn what_lies_deeper_than_any_path_is_taken_out_and_told_and_the_run_goes_on() {
    let bench = Bench::new();
    // Two chains that are short enough to be named, one moved to the end of the other.
    bench.script(
        "agent.sh",
        "touch done; p=ddd; i=0; while [ $i -lt 900 ]; do p=$p/ddd; i=$((i+1)); done\n\
         mkdir -p one/$p two/$p && mv two one/$p/",
    );
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    let notes: String =
        bench.events(&ran).iter().map(|e| e["evidence"]["notes"].to_string()).collect();
    assert!(notes.contains("path of over 2048 bytes one/ddd/ddd"), "{notes}");
    assert!(ran.stderr.lines().all(|line| line.len() < 1000), "{}", ran.stderr);
    let left = std::fs::read_dir(bench.beside("cache")).into_iter().flatten().flatten();
    let left: Vec<_> = left.flat_map(|of| std::fs::read_dir(of.path())).flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_signal_ends_a_run_that_reads_a_huge_file() {
    let bench = Bench::new();
    let began = bench.beside("began");
    let agent = format!("truncate -s 6G huge; touch done '{}'", began.display());
    bench.script("agent.sh", &agent);
    bench.loop_file("exec: ./agent.sh\ncheck: test -f done\n");
    bench.commit();
    let started = bench.start(&["run", "--json"]);
    let begun = Instant::now();
    while !began.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "exec never ran");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Exec ends at once; then the file is read, which takes far longer than this.
    std::thread::sleep(Duration::from_secs(2));
    let told = Instant::now();
    let pid = nix::unistd::Pid::from_raw(started.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ran = started.wait();
    assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
    assert_eq!(ran.reason(), HaltReason::Interrupted.as_str(), "{ran:#?}");
    assert_eq!(ran.code, Some(21));
}
