//! The ways in which runners leave results out, and reports that are not what they seem: each a test.

use super::parse;
use super::probe::{Out, Probe, RunnerChoice};
use super::reports::{default_globs, remove_reports};
use crate::domain::results::{Results, Runner};
use std::path::Path;

fn ids(results: &Results) -> [String; 3] {
    [&results.passed, &results.failed, &results.skipped]
        .map(|set| set.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" "))
}

fn observe(command: &str, out: &[u8], exit_ok: bool) -> Results {
    let dir = tempfile::tempdir().unwrap();
    let mut probe =
        Probe::prepare(RunnerChoice::Auto, &[], &|_| false, command, dir.path()).unwrap();
    probe.observe(Out::Stdout, out);
    probe.collect(dir.path(), exit_ok)
}

/// Reads a workspace whose check wrote nothing to its streams.
fn collect(root: &Path, globs: &[String], files: &[&str]) -> Results {
    let dir = tempfile::tempdir().unwrap();
    let has = |name: &str| files.contains(&name);
    let probe = Probe::prepare(RunnerChoice::Auto, globs, &has, "make", dir.path()).unwrap();
    probe.collect(root, true)
}

fn says(results: &Results, start: &str) -> bool {
    results.problems.iter().any(|problem| problem.starts_with(start))
}

#[test]
fn under_nextest_an_exit_with_0_is_no_pass_even_where_every_test_does_it() {
    let test = |name: &str, said: &str| {
        format!(
            "        PASS [   0.007s] shop tests::{name}\n  stdout ───\n\n    running 1 test\n{said}\n"
        )
    };
    let text = format!(
        " Nextest run ID x\n{}{}     Summary [   0.1s] 2 tests run: 2 passed, 0 skipped\n",
        test("a", ""),
        test("b", "    test tests::other ... ok")
    );
    let r = parse::nextest(text.as_bytes(), &[]);
    assert_eq!((ids(&r), r.unknown().len()), (["", "", ""].map(str::to_owned), 2));
    assert!(says(&r, "incomplete: shop::tests::a ended with exit 0"), "{r:#?}");
    // What the test prints may stand between its name and `ok`.
    let honest = "    test tests::a ... hello\n    ok\n\n    test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out";
    let text = format!(
        " Nextest run ID x\n{}     Summary [ 0.1s] 1 test run: 1 passed\n",
        test("a", honest)
    );
    let r = parse::nextest(text.as_bytes(), &[]);
    assert_eq!(ids(&r)[0], "shop::tests::a");
}

#[test]
fn go_packages_without_tests_cached_or_with_a_lying_main_are_no_pass() {
    let r = parse::go(b"?   \tex.org/c\t[no test files]\n", &[]);
    assert!(r.collected.is_empty(), "{r:#?}");
    let r = parse::go(b"ok  \tex.org/c\t0.1s [no tests to run]\n", &[]);
    assert!(r.collected.is_empty(), "{r:#?}");
    let r = parse::go(b"=== RUN   TestA\n--- PASS: TestA (0.00s)\nok  \tex.org/a\t(cached)\n", &[]);
    assert_eq!(ids(&r)[0], "ex.org/a.TestA");
    let lying = b"=== RUN   TestA\n--- FAIL: TestA (0.00s)\nok  \tex.org/a\t0.01s\n";
    let r = observe("go test", lying, true);
    assert_eq!(ids(&r)[1], "ex.org/a.TestA");
    assert!(says(&r, "rc_results_mismatch: "), "{r:#?}");
    let json = b"{\"Action\":\"run\",\"Package\":\"p\",\"Test\":\"TestA\"}\n{\"Action\":\"pass\",\"Package\":\"p\"}\n";
    let r = observe("go test", json, true);
    assert_eq!(r.unknown().len(), 1);
    assert!(says(&r, "rc_results_mismatch: "), "{r:#?}");
}

#[test]
fn a_hook_that_was_cut_off_and_a_status_that_nobody_knows_are_no_pass() {
    let start = "{\"k\":\"start\",\"runner\":\"rspec\",\"cwd\":\"/w\"}\n";
    let text = format!("{start}{{\"k\":\"result\",\"id\":\"a\",\"o\":\"\"}}\n{{\"k\":\"end\"}}\n");
    let r = parse::jsonl(text.as_bytes(), &[]).unwrap();
    assert!(r.passed.is_empty() && !r.problems.is_empty(), "{r:#?}");
    let text = format!("{start}{{\"k\":\"result\",\"id\":\"a\",\"o\":\"passed\",\"a\":3}}\n");
    let r = parse::jsonl(text.as_bytes(), &[]).unwrap();
    assert_eq!(r.executed.get("a"), Some(&3));
    assert!(says(&r, "incomplete: "), "{r:#?}");
}

#[test]
fn junit_of_any_shape_loses_no_case() {
    let read = |text: &str| parse::junit(text.as_bytes(), &[]);
    // node writes cases directly below the root, ctest has one suite as the root, PHPUnit nests.
    let r = read(
        "<testsuites><testcase name='top' classname='test'/><testsuite name='s'><testcase name='in'/></testsuite></testsuites>",
    );
    assert_eq!(ids(&r)[0], "s::in top");
    let r = read(
        "<testsuite name='x' tests='2' failures='1'><testcase name='a' classname='a' status='run'/><testcase name='b' classname='b' status='fail'/></testsuite>",
    );
    assert_eq!(ids(&r), ["a::a", "b::b", ""].map(str::to_owned));
    let r = read(
        "<testsuites><testsuite name='A'><testsuite name='A::p'><testcase class='A' classname='A' name='p #0' assertions='2'/></testsuite></testsuite></testsuites>",
    );
    assert_eq!(ids(&r)[0], "A::p #0");
    assert_eq!(r.executed.get("A::p #0"), Some(&2));
    // bats writes a time without a zone.
    let r = read(
        "<testsuites time='0'><testsuite name='t.bats' tests='1' timestamp='2026-11-01T00:00:00'><testcase classname='t.bats' name='a'/></testsuite></testsuites>",
    );
    assert!(r.problems.is_empty() && r.passed.len() == 1, "{r:#?}");
    let r = read("<testsuite tests='3'><testcase name='a'/><testcase name='a'/></testsuite>");
    assert_eq!(ids(&r)[0], "a a#2");
    assert!(says(&r, "incomplete: The report report counts 3 tests and holds 2"), "{r:#?}");
    let r = read("<testsuite tests='1' failures='1'><testcase name='a'/></testsuite>");
    assert!(r.problems[0].contains("counts 1 failures and errors and holds 0"), "{r:#?}");
    assert!(says(&read("<testsuite tests='1'><testcase name='a'/>"), "incomplete: "));
}

#[test]
fn reports_that_are_no_plain_files_are_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    nix::unistd::mkfifo(&at("pipe.xml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::create_dir(at("folder.xml")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero.xml")).unwrap();
    let globs = ["*.xml".to_owned()];
    let r = collect(root.path(), &globs, &[]);
    assert!(r.runner == Runner::Command && says(&r, "No report matches"), "{r:#?}");
    std::fs::write(at("empty.xml"), " \n").unwrap();
    let r = collect(root.path(), &globs, &[]);
    assert!(says(&r, "incomplete: the report empty.xml is empty"), "{r:#?}");
}

#[test]
fn hostile_reports_are_bounded() {
    let bomb = "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;'>]><testsuite><testcase name='&b;'/></testsuite>";
    let r = parse::junit(bomb.as_bytes(), &[]);
    assert!(r.collected.is_empty() && says(&r, "incomplete: "), "{r:#?}");
    let deep = format!("{}<testcase name='a'/>", "<testsuite>".repeat(1 << 20));
    let r = parse::junit(deep.as_bytes(), &[]);
    assert!(r.problems[0].contains("nested deeper"), "{r:#?}");
    let r = parse::junit(&vec![b' '; 50 << 20], &[]);
    assert!(r.problems[0].contains("larger than"), "{r:#?}");
    let r = parse::junit(b"<testsuite><testcase name='\xff\xfe'/></testsuite>", &[]);
    assert_eq!(ids(&r)[0], "\u{fffd}\u{fffd}");
    let start = "{\"k\":\"start\",\"runner\":\"jest\"}\n";
    let nested = format!("{start}{}\n{{\"k\":\"end\"}}\n", "[".repeat(200_000));
    let r = parse::jsonl(nested.as_bytes(), &[]).unwrap();
    assert!(r.problems[0].contains("not results"), "{r:#?}");
}

#[test]
fn more_ids_than_are_read_are_cut_off_and_said() {
    let mut text = "Test project /w\n".to_owned();
    for n in 0..150_000 {
        text.push_str(&format!("{n}/9 Test #{n}: t{n} ...   Passed    0.01 sec\n"));
    }
    let r = parse::ctest(text.as_bytes(), &[]);
    assert!(r.collected.len() <= 100_000 && !r.problems.is_empty());
}

const SUREFIRE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" version="3.0" name="org.shop.CalcTest" time="0.05" tests="4" errors="1" skipped="1" failures="1">
  <properties><property name="user.dir" value="/w"/></properties>
  <testcase name="adds" classname="org.shop.CalcTest" time="0.01"/>
  <testcase name="subtracts" classname="org.shop.CalcTest" time="0.01"><failure message="expected: &lt;1&gt; but was: &lt;3&gt;" type="org.opentest4j.AssertionFailedError"><![CDATA[org.opentest4j.AssertionFailedError: expected: <1> but was: <3>
	at org.shop.CalcTest.subtracts(CalcTest.java:17)]]></failure></testcase>
  <testcase name="divides(int)[1]" classname="org.shop.CalcTest" time="0.01"><error type="java.lang.ArithmeticException">boom</error></testcase>
  <testcase name="later" classname="org.shop.CalcTest" time="0"><skipped message="not yet"/></testcase>
</testsuite>"#;

#[test]
fn reports_of_maven_and_gradle_are_found_without_being_declared() {
    for (file, folder, runner) in [
        ("pom.xml", "core/target/surefire-reports", Runner::Maven),
        ("pom.xml", "target/failsafe-reports", Runner::Maven),
        ("build.gradle.kts", "build/test-results/test", Runner::Gradle),
    ] {
        let root = tempfile::tempdir().unwrap();
        let globs = default_globs(RunnerChoice::Auto, &|name| name == file);
        let silent = collect(root.path(), &globs, &[file]);
        assert!(silent.problems.is_empty(), "{silent:#?}");
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
        std::fs::write(root.path().join(folder).join("TEST-x.xml"), SUREFIRE).unwrap();
        let r = collect(root.path(), &globs, &[file]);
        assert_eq!(r.runner, runner);
        assert_eq!(
            ids(&r),
            [
                "org.shop.CalcTest::adds",
                "org.shop.CalcTest::divides(int)[1] org.shop.CalcTest::subtracts",
                "org.shop.CalcTest::later"
            ]
            .map(str::to_owned)
        );
        assert!(says(&r, "rc_results_mismatch: "), "{r:#?}");
        // What an earlier run left is gone before the next.
        assert_eq!(remove_reports(root.path(), &globs).unwrap(), 1);
    }
    assert!(default_globs(RunnerChoice::Auto, &|_| false).is_empty());
    assert_eq!(default_globs(RunnerChoice::One(Runner::Gradle), &|_| false).len(), 1);
}

#[test]
fn bats_is_named_where_the_check_names_it() {
    let text =
        b"1..2\nok 1 adds\nnot ok 2 bad\n# (in test file t/a.bats, line 3)\n#   `false' failed\n";
    let r = observe("bats t", text, false);
    assert_eq!((r.runner, ids(&r)), (Runner::Bats, ["adds", "bad", ""].map(str::to_owned)));
    assert_eq!(observe("make test", text, false).runner, Runner::Tap);
    let r = observe("bats t", b"1..3\nok 1 adds\n", true);
    assert!(says(&r, "incomplete: The TAP stream plans 3"), "{r:#?}");
}
