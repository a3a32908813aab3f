//! Inputs that no honest project has: whatever the tree, the test files and the reports are, a run ends in
//! time, with a reason and one clear sentence, and never by a panic.

mod endless;
mod files;
mod reports;
mod trees;

use crate::bench::{Bench, Ran};
use crate::reasons::{holds, text};
use loopexec::domain::reason::HaltReason;
use std::time::{Duration, Instant};

/// Far longer than any of these takes, on a machine that does much else: what is still there hangs.
const HANGS: Duration = Duration::from_secs(300);

/// The same for the long forms: 100,000 files take half of the above alone, and they share two processors with
/// the tests that kill.
const LONG_HANGS: Duration = Duration::from_secs(600);

/// Every script in `tests/` is a test; the project is done when `src/done` says so.
pub(super) const CHECK: &str = r#"check: |
  bad=0; n=0
  for t in tests/*.sh; do
    [ -e "$t" ] || continue
    n=$((n + 1))
    if sh "$t"; then echo "ok $n - $t"; else echo "not ok $n - $t"; bad=1; fi
  done
  echo "1..$n"
  exit $bad
"#;

/// A project with two tests, and an agent that does the same in every iteration.
pub(super) fn project(step: &str) -> Bench {
    let bench = Bench::new();
    bench.write("tests/done.sh", "grep -q yes src/done\n");
    bench.write("tests/same.sh", "test -e src/done\n");
    bench.write("src/done", "no\n");
    bench.loop_file(&format!("exec: ./agent.sh\n{CHECK}"));
    bench.script("agent.sh", step);
    bench
}

/// Commits and runs the loop, and holds its end to a reason; what hangs is killed and fails.
pub(super) fn ends(bench: &Bench, reason: HaltReason) -> Ran {
    ends_with_peak(bench, reason).0
}

/// The same, with the most memory that loopexec had at once, in KiB.
pub(super) fn ends_with_peak(bench: &Bench, reason: HaltReason) -> (Ran, u64) {
    bench.commit();
    let mut started = bench.start(&["run", "--json"]);
    let status = format!("/proc/{}/status", started.pid());
    let begun = Instant::now();
    let mut peak = 0;
    let hangs = if is_long() { LONG_HANGS } else { HANGS };
    while started.child.try_wait().unwrap().is_none() {
        peak = std::fs::read_to_string(&status).ok().and_then(|text| high(&text)).unwrap_or(peak);
        if begun.elapsed() > hangs {
            started.child.kill().unwrap();
            panic!("still there after {hangs:?}: {:#?}", started.wait());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran = started.wait();
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    holds(bench, &ran, reason);
    let why = ran.json()["why"].clone();
    assert!(text(&why).len() < 2_000, "{why}");
    (ran, peak)
}

fn high(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// The same as `ends` for a green that was bought: the sentence names what was done.
pub(super) fn violates(bench: &Bench, named: &str) {
    let ran = ends(bench, HaltReason::MetricIntegrityViolation);
    assert!(text(&ran.json()["why"]).contains(named), "{named}: {}", ran.json());
}

/// The same for honest work.
pub(super) fn converges(bench: &Bench) -> Ran {
    ends(bench, HaltReason::SuccessConditionMet)
}

/// Whether the long forms are wanted, as in `.ci/run full`.
pub(super) fn is_long() -> bool {
    std::env::var_os("LOOPEXEC_TEST_LONG").is_some()
}
