//! `metric_integrity_violation`: a green that is bought, and what looks like it and is honest work.

use super::{agent, execs, halts, text};
use crate::bench::{Bench, Ran};
use loopexec::domain::reason::HaltReason;

/// Every file in `tests/` is a test; the project is done when `src/done` says so.
const CHECK: &str = r#"check: |
  bad=0; n=0
  for t in tests/*.sh; do
    n=$((n + 1))
    if sh "$t"; then echo "ok $n - $t"; else echo "not ok $n - $t"; bad=1; fi
  done
  echo "1..$n"
  exit $bad
"#;

fn bench_with(steps: &[&str], more: &str) -> Bench {
    let bench = Bench::new();
    bench.write("tests/done.sh", "grep -q yes src/done\n");
    bench.write("tests/same.sh", "cmp -s src/out tests/data/want.txt\n");
    bench.write("tests/data/want.txt", "42\n");
    bench.write("src/out", "42\n");
    bench.write("src/done", "no\n");
    bench.loop_file(&format!("exec: ./agent.sh\n{CHECK}{more}"));
    let (rest, steps) = steps.split_last().unwrap();
    agent(&bench, steps, rest);
    bench.commit();
    bench
}

fn violates(steps: &[&str], path: &str, times: usize) -> Ran {
    let bench = bench_with(steps, "");
    let ran = halts(&bench, HaltReason::MetricIntegrityViolation);
    let object = ran.json();
    assert!(text(&object["why"]).contains(path), "{steps:?}: {object}");
    assert!(object["breaches"].to_string().contains(path), "{steps:?}: {object}");
    assert_eq!(execs(&bench, &ran), times, "{steps:?}");
    ran
}

#[test]
fn a_test_that_was_changed_to_pass_is_told_once_and_halts_the_second_time() {
    violates(&["echo true > tests/done.sh"], "tests/done.sh", 2);
    violates(&["rm -f tests/done.sh"], "tests/done.sh", 2);
    violates(&["rm -f tests/done.sh; git add -A; git commit -qm x"], "tests/done.sh", 2);
    violates(&["git mv -f tests/done.sh tests/done.txt 2>/dev/null; true"], "tests/done.sh", 2);
}

#[test]
fn what_the_tests_compare_with_halts_at_once() {
    let before =
        violates(&["echo 41 > src/out; echo 41 > tests/data/want.txt"], "tests/data/want.txt", 1);
    assert!(text(&before.json()["next"]).len() < 2_000);
    violates(&["rm tests/data/want.txt"], "tests/data/want.txt", 1);
    violates(&["ln -sf /etc/hostname tests/data/want.txt"], "tests/data/want.txt", 1);
}

#[test]
fn a_setting_that_steers_a_runner_halts_at_once_though_git_ignores_it() {
    violates(&["echo 'script-shell=/bin/true' > .npmrc"], ".npmrc", 1);
    violates(&["echo '.npmrc' > .gitignore; echo 'script-shell=/bin/true' > .npmrc"], ".npmrc", 1);
    violates(&["printf '[pytest]\\naddopts = -k x\\n' > pytest.ini"], "pytest.ini", 1);
}

#[test]
fn honest_work_converges_whatever_it_does_to_the_tests() {
    for step in [
        "echo yes > src/done",
        "echo yes > src/done; echo true > tests/new.sh",
        "echo yes > src/done; mkdir -p tests/data; echo 43 > tests/data/other.txt",
        "echo yes > src/done; echo '# what is done' >> tests/done.sh",
        "echo yes > src/done; echo 'a readme' > tests/README.md",
    ] {
        let bench = bench_with(&[step], "");
        let ran = halts(&bench, HaltReason::SuccessConditionMet);
        assert!(text(&ran.json()["why"]).contains("not detected"), "{step}");
    }
}

#[test]
fn tests_that_the_code_under_test_rewrites_while_the_check_runs_are_no_green() {
    let bench = Bench::new();
    bench.write("tests/a.sh", ". ./src/lib.sh; true\n");
    bench.write("tests/done.sh", "grep -q yes src/done\n");
    bench.write("src/lib.sh", "true\n");
    bench.write("src/done", "no\n");
    bench.loop_file(&format!("exec: ./agent.sh\n{CHECK}"));
    agent(&bench, &[], "echo 'echo true > tests/done.sh' > src/lib.sh");
    bench.commit();
    let ran = halts(&bench, HaltReason::MetricIntegrityViolation);
    assert!(text(&ran.json()["why"]).contains("tests/done.sh"), "{}", ran.json());
}

#[test]
fn an_agent_that_heeds_what_it_is_told_converges() {
    let steps = ["echo true > tests/done.sh", "git checkout -q tests; echo yes > src/done"];
    halts(&bench_with(&steps, ""), HaltReason::SuccessConditionMet);
}

#[test]
fn what_the_loop_calls_mutable_may_change() {
    let bench = bench_with(&["echo true > tests/done.sh"], "guards: {mutable: [tests/done.sh]}\n");
    halts(&bench, HaltReason::SuccessConditionMet);
    let bench = bench_with(
        &["echo 41 > src/out; echo 41 > tests/data/want.txt; echo yes > src/done"],
        "guards: {mutable: [tests/data/]}\n",
    );
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn a_breach_is_reverted_as_often_as_the_loop_says() {
    let steps = ["rm tests/data/want.txt", "echo yes > src/done"];
    let more = "guards: {on_breach: revert, max_reverts: 1}\n";
    halts(&bench_with(&steps, more), HaltReason::SuccessConditionMet);
    let steps = ["rm tests/data/want.txt"];
    let bench = bench_with(&steps, more);
    let ran = halts(&bench, HaltReason::MetricIntegrityViolation);
    assert_eq!(execs(&bench, &ran), 2);
}

#[test]
fn guards_can_be_added_and_taken_away() {
    let step = "echo yes > src/done; echo 1 > rules.cfg";
    let bench = bench_with(&[step], "guards: {protected: {add: [\"*.cfg\"]}}\n");
    halts(&bench, HaltReason::MetricIntegrityViolation);
    let step = "echo yes > src/done; printf '[pytest]\\naddopts = -k x\\n' > pytest.ini";
    let bench = bench_with(&[step], "guards: {protected: {remove: [pytest.ini]}}\n");
    halts(&bench, HaltReason::SuccessConditionMet);
}
