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

#[test]
fn a_program_outside_of_the_workspace_that_the_check_uses_is_told_and_halts() {
    let mut bench = Bench::new();
    let bin = bench.beside("bin");
    std::fs::create_dir(&bin).unwrap();
    let tool = bin.join("judge-it");
    std::fs::write(&tool, "#!/bin/sh\ngrep -q yes src/done\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&tool, mode).unwrap();
    bench.write("src/done", "no\n");
    bench.loop_file("exec: ./agent.sh\ncheck: judge-it\n");
    agent(&bench, &[], &format!("printf '#!/bin/sh\\nexit 0\\n' > '{}'", tool.display()));
    bench.commit();
    bench.env("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let ran = halts(&bench, HaltReason::MetricIntegrityViolation);
    assert!(text(&ran.json()["why"]).contains("judge-it lies outside of the workspace"));
    assert!(text(&ran.json()["next"]).contains("`setup`"), "{}", ran.json());
    assert_eq!(execs(&bench, &ran), 2);
}

#[test]
fn a_folder_of_tests_that_is_a_link_to_another_place_is_watched_there() {
    for (agent_does, reason) in [
        ("echo true > \"$(readlink tests)/done.sh\"", HaltReason::MetricIntegrityViolation),
        ("echo yes > src/done", HaltReason::SuccessConditionMet),
    ] {
        let bench = Bench::new();
        let tests = bench.beside("shared-tests");
        std::fs::create_dir(&tests).unwrap();
        std::fs::write(tests.join("done.sh"), "grep -q yes src/done\n").unwrap();
        std::os::unix::fs::symlink(&tests, bench.path("tests")).unwrap();
        bench.write("src/done", "no\n");
        bench.loop_file(&format!("exec: ./agent.sh\n{CHECK}"));
        agent(&bench, &[], agent_does);
        bench.commit();
        halts(&bench, reason);
    }
}

#[test]
fn a_script_that_a_recipe_or_another_script_starts_to_check_is_taken_from_t0() {
    let bench_with = |step: &str| {
        let bench = Bench::new();
        bench.write("ci/all.sh", ". \"$(dirname \"$0\")/../tools/verify.sh\"\nverify src/done\n");
        bench.write("tools/verify.sh", "verify() { grep -q yes \"$1\"; }\n");
        bench.write("src/done", "no\n");
        bench.loop_file("exec: ./agent.sh\ncheck: sh ci/all.sh\n");
        agent(&bench, &[], step);
        bench.commit();
        bench
    };
    let bench = bench_with("echo 'verify() { true; }' > tools/verify.sh");
    let ran = halts(&bench, HaltReason::MetricIntegrityViolation);
    assert!(text(&ran.json()["why"]).contains("tools/verify.sh"), "{}", ran.json());
    let bench = bench_with("echo yes > src/done; echo '# how it is seen' >> tools/verify.sh");
    halts(&bench, HaltReason::SuccessConditionMet);
}

#[test]
fn tests_that_a_threshold_asks_for_may_come_in_a_file_of_t0() {
    let ends = |step: &str, reason: HaltReason| {
        let bench = Bench::new();
        bench.write("tests/test_sum.py", "def test_sum():\n    assert read('sum') == 42\n");
        bench.write("src/sum", "42\n");
        bench.loop_file(
            "exec: ./agent.sh\ncheck: |\n  echo 1..1; echo ok 1 - sum\n  [ $(cat tests/*.py | grep -c assert) -ge 2 ]\n",
        );
        agent(&bench, &[], step);
        bench.commit();
        halts(&bench, reason)
    };
    let more = "def test_size():\\n    assert size('sum') == 3\\n";
    ends(&format!("printf \"\\n{more}\" >> tests/test_sum.py"), HaltReason::SuccessConditionMet);
    ends(&format!("printf \"{more}\" > tests/test_size.py"), HaltReason::SuccessConditionMet);
    let less = format!("printf \"{more}    assert True\\n\" > tests/test_sum.py");
    ends(&less, HaltReason::MetricIntegrityViolation);
}

#[test]
fn a_threshold_whose_figure_moves_is_not_the_same_failure() {
    let bench = Bench::new();
    bench.write("src/lines", "");
    bench.loop_file(
        "exec: ./agent.sh\nlimits: {no_progress: 9}\ncheck: |\n  echo 1..1; echo ok 1 - sum\n  \
         echo \"covered: $(wc -l < src/lines)\"\n  [ $(wc -l < src/lines) -ge 5 ]\n",
    );
    agent(&bench, &[], "echo more >> src/lines");
    bench.commit();
    let ran = halts(&bench, HaltReason::SuccessConditionMet);
    assert_eq!(execs(&bench, &ran), 5);
}
