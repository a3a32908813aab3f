//! Readers of per-test results: recorded outputs, what must never be lost, and hostile bytes.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

use loopexec::domain::results::{IdSet, Results, Runner};
use loopexec::integrity::results::{Out, Probe, RunnerChoice, parse};
use proptest::prelude::*;
use std::path::Path;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/results").join(name);
    std::fs::read(path).unwrap()
}

fn roots() -> Vec<String> {
    vec!["/w".to_owned()]
}

#[track_caller]
fn is(r: &Results, passed: &[&str], failed: &[&str], skipped: &[&str]) {
    let set = |ids: &[&str]| ids.iter().map(|id| (*id).into()).collect::<IdSet>();
    assert_eq!(
        (&r.passed, &r.failed, &r.skipped),
        (&set(passed), &set(failed), &set(skipped)),
        "{r:#?}"
    );
}

#[track_caller]
fn place(r: &Results, id: &str, file: &str, line: u32) {
    let failure = r.failures.iter().find(|f| &*f.id == id).unwrap();
    assert_eq!((failure.file.as_deref(), failure.line), (Some(file), Some(line)), "{failure:#?}");
}

fn observe(parts: &[(Out, &[u8])], exit_ok: bool) -> Results {
    let dir = tempfile::tempdir().unwrap();
    let mut probe =
        Probe::prepare(RunnerChoice::Auto, &[], &|_| false, "make test", dir.path()).unwrap();
    for (out, bytes) in parts {
        for chunk in bytes.chunks(7) {
            probe.observe(*out, chunk);
        }
    }
    probe.collect(dir.path(), exit_ok)
}

#[test]
fn junit_of_every_producer_is_whole() {
    let r = parse::junit(&fixture("pytest.xml"), &roots());
    is(
        &r,
        &["test_x::test_good", "test_x::test_p[a]", "test_x::test_p[b]"],
        &["test_x::test_bad", "test_x::test_tear"],
        &["test_x::test_skip"],
    );
    assert!(r.problems.is_empty(), "{r:#?}");
    let r = parse::junit(&fixture("node.xml"), &roots());
    is(&r, &["suite::in", "top::sub"], &["b.test.js", "top::subbad"], &["suite::sk", "suite::td"]);
    assert!(r.problems.is_empty(), "{r:#?}");
    let r = parse::junit(&fixture("bats.xml"), &roots());
    is(&r, &["x.bats::adds one"], &["x.bats::takes two"], &["x.bats::later"]);
    assert!(r.problems.is_empty(), "{r:#?}");
}

#[test]
fn junit_statuses_and_shapes() {
    let xml = br#"<testsuite name="ctest" tests="4" failures="1">
      <testcase name="run" status="run"/><testcase name="bad" status="fail"><system-out>why</system-out></testcase>
      <testcase name="off" status="disabled"/><testcase name="not" status="notrun"/></testsuite>"#;
    let r = parse::junit(xml, &[]);
    is(&r, &["ctest::run"], &["ctest::bad"], &["ctest::not", "ctest::off"]);
    assert!(r.problems.is_empty() && r.failures[0].message == "why", "{r:#?}");
    // Surefire: reruns that failed, and flaky ones.
    let xml =
        br#"<testsuite name="s"><testcase classname="C" name="flaky"><flakyFailure/></testcase>
      <testcase classname="C" name="bad"><failure message="m">t</failure><rerunFailure/></testcase>
      <testcase classname="C" name="rerun"><rerunFailure/></testcase></testsuite>"#;
    is(&parse::junit(xml, &[]), &["C::flaky"], &["C::bad", "C::rerun"], &[]);
    // Suites in suites, cases beside suites, duplicates.
    let xml = br#"<testsuites><testcase name="root"/><testsuite name="a"><testsuite name="b"><testcase name="x"/><testcase name="x"><error/></testcase></testsuite></testsuite></testsuites>"#;
    is(&parse::junit(xml, &[]), &["root", "b::x"], &["b::x#2"], &[]);
    // A root without suites, control characters, bad UTF-8, a byte order mark.
    let r = parse::junit(b"\xef\xbb\xbf<testcase name=\"a\x1b[31m&#27;\xff\"/>", &[]);
    assert_eq!((r.passed.len(), r.problems.len()), (1, 0), "{r:#?}");
}

#[test]
fn junit_that_does_not_add_up_is_a_problem() {
    for bad in [
        &br#"<testsuite tests="2"><testcase name="a"/></testsuite>"#[..],
        br#"<testsuite failures="1"><testcase name="a"/></testsuite>"#,
        br#"<testsuite failures="0"><testcase name="a"><failure/></testcase></testsuite>"#,
        b"<testsuite><testcase name='a'>",
        b"",
        b"<html/>",
        b"<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><testsuite><testcase name='&b;'/></testsuite>",
        &[b"<a>".repeat(200_000), b"</a>".repeat(200_000)].concat(),
        &[b"<testsuite>".repeat(100), b"</testsuite>".repeat(100)].concat(),
    ] {
        let r = parse::junit(bad, &[]);
        assert!(!r.problems.is_empty(), "{}", String::from_utf8_lossy(&bad[..bad.len().min(200)]));
    }
}

#[test]
fn tap_streams_of_real_producers() {
    let r = parse::tap(&fixture("perl.tap"), &[]);
    is(&r, &["first", "inner > a"], &["inner", "inner > b", "second # not a directive"], &["3"]);
    assert!(r.problems.is_empty(), "{r:#?}");
    let r = parse::tap(&fixture("bats.tap"), &[]);
    is(&r, &["adds one"], &["takes two"], &["later"]);
    place(&r, "takes two", "x.bats", 2);
    let r = parse::tap(&fixture("node.tap"), &roots());
    is(
        &r,
        &["suite", "suite > in", "suite > td", "top > sub"],
        &["top", "top > subbad"],
        &["suite > sk"],
    );
    place(&r, "top > subbad", "a.test.js", 2);
}

#[test]
fn files_of_prove_stay_apart_and_its_own_verdicts_are_no_tests() {
    let passed = [
        "t/add.t > first",
        "t/add.t > two is even",
        "t/roman.t > first",
        "t/sub/warns.t > warned",
        "t/sum.t > first",
    ];
    let failed = [
        "t/roman.t > inner",
        "t/roman.t > inner > deep",
        "t/roman.t > two is even",
        "t/sum.t > 3",
        "t/sum.t > two is even",
    ];
    let (out, err) = (fixture("prove.out"), fixture("prove.err"));
    let apart = observe(&[(Out::Stdout, &out[..]), (Out::Stderr, &err[..])], false);
    let merged = observe(&[(Out::Stdout, &fixture("prove_merge.out"))], false);
    for r in [&apart, &merged] {
        is(r, &passed, &failed, &[]);
        assert!(r.problems.is_empty() && r.runner == Runner::Tap, "{r:#?}");
        place(r, "t/roman.t > two is even", "t/roman.t", 3);
        place(r, "t/roman.t > inner > deep", "t/roman.t", 4);
        place(r, "t/sum.t > two is even", "t/sum.t", 2);
        place(r, "t/sum.t > 3", "t/sum.t", 4);
        assert!(r.failures.iter().all(|failure| !failure.message.contains("Looks like")));
    }
    // A file that does not do what it plans is named, and does not spoil its neighbours.
    let text = b"t/a.t .. \n1..3\nok 1 - x\nDubious\nt/b.t .. \n1..1\nok 1 - x\nok\n";
    let r = observe(&[(Out::Stdout, text)], false);
    is(&r, &["t/a.t > x", "t/b.t > x"], &[], &[]);
    assert!(r.problems[0].starts_with("incomplete: t/a.t: The TAP stream plans 3"), "{r:#?}");
}

#[test]
fn lines_like_those_of_prove_change_no_plain_stream() {
    let text = b"src/a.c .. ok\nbuild.sh .. done\n1..2\nok 1 - a\nx.txt .. ok\nok 2 - b\nFiles=1, Tests=2\n";
    let r = observe(&[(Out::Stdout, text)], true);
    is(&r, &["a", "b"], &[], &[]);
    assert!(r.problems.is_empty(), "{r:#?}");
}

#[test]
fn prove_without_its_points_says_which_flag_is_missing() {
    let r = observe(&[(Out::Stdout, &fixture("prove_quiet.out"))], true);
    assert_eq!(r.runner, Runner::Command);
    assert_eq!(r.problems, ["No test point was seen; add -v to prove."]);
    let dir = tempfile::tempdir().unwrap();
    let one = RunnerChoice::One(Runner::Tap);
    let probe = Probe::prepare(one, &[], &|_| false, "prove -l t", dir.path()).unwrap();
    let problems = probe.collect(dir.path(), true).problems;
    assert!(problems.iter().any(|said| said.contains("add -v to prove")), "{problems:?}");
}

#[test]
fn tap_rules() {
    let tap = |text: &str| parse::tap(text.as_bytes(), &[]);
    let r = tap(
        "TAP version 14\nok\nnot ok - x # TODO soon\nok 3 x # todo\nok - y \\# z # Skip\n1..4\n",
    );
    is(&r, &["1", "x#2"], &[], &["x", "y # z"]);
    assert!(r.problems.is_empty(), "{r:#?}");
    assert!(!tap("1..3\nok 1\n").problems.is_empty());
    assert!(!tap("ok 1\n").problems.is_empty());
    assert!(!tap("1..2\nok 1\nok 3\n").problems.is_empty());
    assert!(tap("1..3\nok 1\nBail out! no disk\n").broken.unwrap().contains("no disk"));
    assert!(tap("1..0 # SKIP none\n").problems.is_empty());
    let r =
        tap("1..1\nnot ok 1 - a\n  ---\n  message: ok 2 - b\n  file: t/a.t\n  line: 7\n  ...\n");
    is(&r, &[], &["a"], &[]);
    place(&r, "a", "t/a.t", 7);
    // On its own only a text that begins as a stream is one.
    assert_eq!(observe(&[(Out::Stdout, b"building\n1..1\nok 1 - a\n")], true).runner, Runner::Tap);
    assert_eq!(observe(&[(Out::Stdout, b"ok 7 apples\nnot ok\n")], true).runner, Runner::Command);
    assert_eq!(observe(&[(Out::Stderr, b"1..1\nok 1\n")], true).runner, Runner::Command);
}

#[test]
fn cargo_streams_pair_headings_and_blocks() {
    let (out, err) = (fixture("cargo.out"), fixture("cargo.err"));
    for parts in [
        [(Out::Stdout, &out[..]), (Out::Stderr, &err[..])],
        [(Out::Stderr, &err[..]), (Out::Stdout, &out[..])],
    ] {
        let r = observe(&parts, false);
        is(
            &r,
            &[
                "quits[test]::a",
                "quits[test]::leaves",
                "shop::tests::good",
                "shop::tests::panics",
                "shop[doc]::src/lib.rs -",
            ],
            &["shop::tests::bad", "shop[doc]::src/lib.rs - add"],
            &["shop::tests::slow"],
        );
        assert!(r.problems.is_empty() && r.runner == Runner::Cargo, "{r:#?}");
        place(&r, "shop::tests::bad", "src/lib.rs", 10);
    }
}

#[test]
fn cargo_blocks_that_do_not_add_up() {
    let text = |body: &str, end: &str| {
        format!(
            "     Running unittests src/lib.rs (target/debug/deps/x-0123456789abcdef)\n\nrunning 2 tests\n{body}{end}"
        )
    };
    let cargo = |text: String| parse::cargo(text.as_bytes(), &[]);
    let end = "\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    assert!(cargo(text("test a ... ok\ntest b ... ok\n", end)).problems.is_empty());
    assert!(!cargo(text("test a ... ok\n", end)).problems.is_empty());
    assert!(
        !cargo(text("test a ... ok\ntest b ... ok\ntest fake ... ok\n", end)).problems.is_empty()
    );
    let r = cargo(text("test a ... ok\n", ""));
    is(&r, &["x::a"], &["x::(process)"], &[]);
    // The output of a test that is not captured stands between its name and its status.
    is(&cargo(text("test a ... hello\nok\ntest b ... ok\n", end)), &["x::a", "x::b"], &[], &[]);
}

#[test]
fn nextest_wants_the_harness_word() {
    let text = fixture("nextest.txt");
    let r = parse::nextest(&text, &[]);
    is(
        &r,
        &["shop::quits::a", "shop::tests::good", "shop::tests::panics"],
        &["shop::tests::bad"],
        &["shop::tests::slow"],
    );
    assert!(
        r.problems.iter().any(|p| p.starts_with("incomplete: shop::quits::leaves ended")),
        "{r:#?}"
    );
    place(&r, "shop::tests::bad", "src/lib.rs", 10);
    // What nextest captured is not taken for `cargo test`.
    let seen = observe(&[(Out::Stderr, &text)], false);
    assert_eq!((seen.runner, &seen.collected), (Runner::Nextest, &r.collected));
    let text = String::from_utf8(text).unwrap();
    let cut = text.split("     Summary").next().unwrap();
    assert!(parse::nextest(cut.as_bytes(), &[]).problems.iter().any(|p| p.contains("summary")));
    let lost = text
        .replace("SKIP [         ] shop tests::slow", "")
        .replace("PASS [   0.007s] shop tests::good", "");
    assert!(parse::nextest(lost.as_bytes(), &[]).problems.iter().any(|p| p.contains("counts 5")));
}

#[test]
fn nextest_words() {
    let run = |line: &str| parse::nextest(format!(" Nextest run ID x\n{line}\n").as_bytes(), &[]);
    for (line, set) in [
        ("     TIMEOUT [  60.001s] (2/3) shop::it slow one", 'f'),
        ("     SIGSEGV [   0.001s] (1/3) shop::it slow one", 'f'),
        ("  TRY 2 PASS [   0.001s] (1/3) shop::it slow one", 'p'),
        ("  TRY 2 FAIL [   0.001s] shop::it slow one", 'f'),
        ("        LEAK [   0.001s] shop::it slow one", 'p'),
        ("  SLOW [> 60.000s] shop::it slow one", '-'),
    ] {
        let r = run(line);
        assert_eq!(r.failed.contains("shop::it::slow one"), set == 'f', "{line} {r:#?}");
        assert_eq!(r.passed.contains("shop::it::slow one"), set == 'p', "{line} {r:#?}");
    }
}

#[test]
fn go_json_and_text() {
    let r = parse::go(&fixture("go.json"), &[]);
    is(
        &r,
        &["ex.org/shop.TestGood/a_b"],
        &["ex.org/shop.TestGood", "ex.org/shop.TestGood/x"],
        &["ex.org/shop.TestSkip"],
    );
    place(&r, "ex.org/shop.TestGood/x", "a_test.go", 3);
    assert!(r.broken.unwrap().contains("undefined1"));
    // Without `-v` only failures have names.
    let text = "--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\tex.org/a\t0.003s\nok  \tex.org/b\t0.002s\n?   \tex.org/c\t[no test files]\n";
    let r = parse::go(text.as_bytes(), &[]);
    is(&r, &["ex.org/b.(package)"], &["ex.org/a.TestA"], &[]);
    place(&r, "ex.org/a.TestA", "a_test.go", 3);
    let text =
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nexit status 3\nFAIL\tex.org/a\t0.003s\n";
    is(&parse::go(text.as_bytes(), &[]), &["ex.org/a.TestA"], &["ex.org/a.(package)"], &[]);
}

#[test]
fn json_lines_of_the_hooks() {
    let start = r#"{"k":"start","runner":"pytest","cwd":"/w/sub"}"#;
    let read =
        |lines: &str| parse::jsonl(format!("{start}\n{lines}").as_bytes(), &roots()).unwrap();
    let r = read(
        "{\"k\":\"collect\",\"id\":\"t.py::a\"}\n{\"k\":\"collect\",\"id\":\"t.py::a\"}\n{\"k\":\"result\",\"id\":\"t.py::a\",\"o\":\"failed\",\"m\":\"no\",\"f\":\"/w/sub/t.py\",\"l\":3}\n{\"k\":\"end\"}\n",
    );
    is(&r, &[], &["t.py::a"], &[]);
    assert!(r.collected.contains("t.py::a#2") && r.problems.is_empty(), "{r:#?}");
    place(&r, "t.py::a", "sub/t.py", 3);
    assert!(read("").problems.iter().any(|p| p.contains("left before")));
    assert!(read("nonsense\n{\"k\":\"end\"}\n").problems.iter().any(|p| p.contains("not results")));
    assert!(
        read("{\"k\":\"result\",\"id\":\"a\",\"o\":\"\"}\n{\"k\":\"end\"}").problems.len() == 1
    );
    assert!(parse::jsonl(b"{\"k\":\"end\"}", &[]).is_none());
}

#[test]
fn ids_are_stable_names() {
    let id = |name: &str| {
        let tap = format!("1..1\nok 1 - {name}\n");
        parse::tap(tap.as_bytes(), &roots()).passed.iter().next().unwrap().to_string()
    };
    assert_eq!(id("\u{1b}[31mred\u{1b}[0m\ttab"), "red tab");
    assert_eq!(id("f[<object at 0x7f0012345678>]"), "f[<object at 0x*>]");
    assert_eq!(id("/w/tests/a.js"), "tests/a.js");
    let long = id(&"é".repeat(900));
    assert!(long.len() <= 512 && long != id(&format!("{}x", "é".repeat(900))));
}

#[test]
fn exit_code_and_results_that_contradict_are_a_problem() {
    let red = b"1..1\nnot ok 1 - a\n";
    let green = b"1..1\nok 1 - a\n";
    let mismatch = |text: &[u8], ok: bool| {
        observe(&[(Out::Stdout, text)], ok)
            .problems
            .iter()
            .any(|p| p.starts_with("rc_results_mismatch"))
    };
    assert!(mismatch(red, true) && mismatch(green, false));
    assert!(!mismatch(red, false) && !mismatch(green, true));
    let r = observe(&[(Out::Stdout, b"anything")], false);
    is(&r, &[], &["check"], &[]);
    assert!(r.problems.is_empty() && r.runner == Runner::Command);
}

#[test]
fn variables_are_appended_to_what_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let probe =
        Probe::prepare(RunnerChoice::Auto, &[], &|name| name == "go.mod", "make", dir.path())
            .unwrap();
    let env = probe.env(&|name| Some(format!("own {name}")));
    let of = |name: &str| env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone()).unwrap();
    assert!(of("PYTHONPATH").ends_with("/python:own PYTHONPATH"));
    assert!(of("NODE_OPTIONS").starts_with("own NODE_OPTIONS --require="));
    assert_eq!(of("GOFLAGS"), "own GOFLAGS -test.v -count=1");
    let dir = tempfile::tempdir().unwrap();
    let one = RunnerChoice::One(Runner::Tap);
    let probe = Probe::prepare(one, &[], &|_| true, "go test", dir.path()).unwrap();
    assert!(probe.env(&|_| None).is_empty());
    assert!(
        Probe::prepare(RunnerChoice::One(Runner::Junit), &[], &|_| true, "x", dir.path()).is_err()
    );
}

/// The peak of resident memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line =
        status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default().to_owned();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or_default()
}

#[test]
fn a_flood_stays_in_bounds() {
    let before = peak();
    let dir = tempfile::tempdir().unwrap();
    let mut probe = Probe::prepare(RunnerChoice::Auto, &[], &|_| false, "x", dir.path()).unwrap();
    probe.observe(Out::Stdout, b"TAP version 13\n");
    let block = vec![b'x'; 1 << 16];
    for _ in 0..800 {
        probe.observe(Out::Stdout, &block);
    }
    let mut line = 0_u64;
    for _ in 0..40_000 {
        let mut text = String::new();
        for _ in 0..10 {
            line += 1;
            text.push_str(&format!(
                "not ok {line} - {line:060}\n=== RUN   T{line:060}\ntest {line:060} ... ok\n"
            ));
        }
        probe.observe(Out::Stdout, text.as_bytes());
        probe.observe(Out::Stderr, format!("     Running tests/{line}.rs (target/debug/deps/a{line:0200}-0123456789abcdef)\n# p{line:0300}\n").as_bytes());
    }
    let r = probe.collect(dir.path(), false);
    assert!(!r.problems.is_empty());
    let grown = peak().saturating_sub(before) >> 10;
    assert!(grown < 160, "grew by {grown} MiB");
}

fn all(bytes: &[u8]) {
    for read in [parse::junit, parse::tap, parse::cargo, parse::nextest, parse::go] {
        let r = read(bytes, &roots());
        assert!(r.failures.len() <= 200 && r.failures.iter().all(|f| f.message.len() <= 4200));
        assert!(r.collected.iter().all(|id| id.len() <= 530 && !id.contains('\n')));
        let sets = [&r.passed, &r.failed, &r.skipped];
        assert!(sets.iter().all(|set| set.is_subset(&r.collected)));
    }
    let _ = parse::jsonl(bytes, &roots());
    let r = observe(&[(Out::Stdout, bytes), (Out::Stderr, bytes)], true);
    let _ = loopexec::domain::normalise::fingerprint("pass", None, &r);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        all(&bytes);
    }

    #[test]
    fn no_mutation_of_a_real_output_panics(
        which in 0_usize..9, at in 0.0_f64..1.0, cut in 0.0_f64..1.0, put in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let names = ["pytest.xml", "node.xml", "bats.xml", "perl.tap", "node.tap", "cargo.out", "cargo.err", "nextest.txt", "go.json"];
        let mut bytes = fixture(names[which]);
        let at = (bytes.len() as f64 * at) as usize;
        let end = at + ((bytes.len() - at) as f64 * cut * 0.2) as usize;
        bytes.splice(at..end, put);
        all(&bytes);
    }
}
