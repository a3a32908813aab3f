//! Per-test results of the real runners: pytest, unittest, cargo, nextest, go, node, tox, make, jest,
//! vitest, mocha, RSpec, PHPUnit, CTest, GoogleTest, bats.
//!
//! Needs python3 with venv and a package index, cargo-nextest, go, node, npm and make; from Debian
//! ruby-rspec, phpunit, cmake, g++, libgtest-dev and bats.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

#[path = "runners/debian.rs"]
mod debian;
#[path = "runners/javascript.rs"]
mod javascript;
#[path = "runners/packages.rs"]
mod packages;
#[path = "runners/project.rs"]
mod project;

use loopexec::domain::normalise;
use loopexec::domain::results::Runner;
use loopexec::integrity::results::RunnerChoice;
use project::Project;
use std::process::Command;

const PYTEST: &str = "import os, pytest\n\
def test_good():\n    assert 1 + 1 == 2\n\
def test_bad():\n    assert 1 + 1 == 3\n\
@pytest.mark.skip\ndef test_skip():\n    pass\n\
@pytest.mark.xfail\ndef test_xfail():\n    assert False\n\
@pytest.mark.parametrize('v', ['a b', 'ü', 'x/y', ''])\ndef test_param(v):\n    assert v != 'x/y'\n\
@pytest.fixture\ndef broken():\n    raise RuntimeError('no fixture')\n\
def test_setup(broken):\n    pass\n\
@pytest.fixture\ndef late():\n    yield\n    raise RuntimeError('late')\n\
def test_teardown(late):\n    pass\n";

#[test]
fn pytest_names_every_outcome() {
    let project = Project::new(&[
        ("tests/test_a.py", PYTEST),
        ("Makefile", "test:\n\tpython -m pytest -q tests\n"),
    ]);
    let run = |command: &str| {
        let ran = project.run(command);
        ran.is(
            Runner::Pytest,
            &[
                "tests/test_a.py::test_good",
                "tests/test_a.py::test_param[a b]",
                "tests/test_a.py::test_param[\\xfc]",
                "tests/test_a.py::test_param[]",
            ],
            &[
                "tests/test_a.py::test_bad",
                "tests/test_a.py::test_param[x/y]",
                "tests/test_a.py::test_setup",
                "tests/test_a.py::test_teardown",
            ],
            &["tests/test_a.py::test_skip", "tests/test_a.py::test_xfail"],
        )
        .clean()
        .failure("tests/test_a.py::test_bad", "assert (1 + 1) == 3", "tests/test_a.py", 5);
        let executed = |id: &str| ran.results.executed.get(id).copied();
        assert_eq!(executed("tests/test_a.py::test_good"), Some(1), "{command}");
        assert_eq!(executed("tests/test_a.py::test_bad"), None, "{command}");
        normalise::fingerprint("fail", Some(1), &ran.results)
    };
    let one = run("pytest tests");
    assert_eq!(one, run("pytest tests"));
    for command in [
        "python -m pytest -q tests",
        "make test",
        "pytest -n 2 tests",
        "pytest tests -p no:terminal",
    ] {
        run(command);
    }
    // Options that leave tests out: what is deselected is not collected.
    let ran = project.run("pytest tests -k good");
    ran.is(Runner::Pytest, &["tests/test_a.py::test_good"], &[], &[]).clean();
    let ran = project.run("pytest -x tests");
    assert!(ran.results.unknown().len() > 3, "{:#?}", ran.results);
}

#[test]
fn pytest_that_cannot_collect_is_broken() {
    let project = Project::new(&[
        ("test_a.py", "import absent_module\n"),
        ("test_b.py", "def test_b(): pass\n"),
    ]);
    let ran = project.run("pytest");
    ran.broken("absent_module");
    assert!(ran.results.failed.is_empty());
    project.run("pytest absent.py").broken("refused its arguments");
    project.run("pytest --absent-option").broken("absent-option");
    project.run("pytest test_b.py -k nothing").broken("collected no test");
    project.write("conftest.py", "raise ValueError('in conftest')\n");
    project.run("pytest test_b.py").broken("in conftest");
    project.write("conftest.py", "");
    project.run("pytest test_b.py").is(Runner::Pytest, &["test_b.py::test_b"], &[], &[]).clean();
}

#[test]
fn pytest_that_leaves_early_is_incomplete() {
    let project = Project::new(&[(
        "test_a.py",
        "import os\ndef test_a(): pass\ndef test_b(): os._exit(0)\ndef test_c(): pass\n",
    )]);
    let ran = project.run("pytest -q");
    assert!(ran.ok);
    ran.is(Runner::Pytest, &["test_a.py::test_a"], &[], &[])
        .problem("left before")
        .problem("no result");
    assert_eq!(ran.results.unknown().len(), 2);
}

#[test]
fn a_file_that_calls_itself_pytest_is_not_pytest() {
    let project = Project::new(&[("pytest.py", "print('7 passed')\n")]);
    let ran = project.run("python -m pytest");
    assert!(ran.ok && ran.results.passed.is_empty(), "{:#?}", ran.results);
    ran.problem("incomplete: pytest is ");
}

#[test]
fn executed_assertions_are_counted_where_they_run() {
    let project = Project::new(&[
        ("helper.py", "def holds(x):\n    assert x\n"),
        (
            "test_a.py",
            "import unittest\nfrom helper import holds\n\
def test_loop():\n    for n in range(3):\n        assert n < 3, 'big'\n    holds(1)\n\
def test_none(): pass\n\
class TestU(unittest.TestCase):\n    def test_u(self):\n        self.assertEqual({}, {})\n        with self.assertRaises(ValueError): raise ValueError\n",
        ),
    ]);
    let ran = project.run("pytest -q");
    let of = |id: &str| ran.results.executed.get(id).copied();
    // Only modules of tests are rewritten: what a plain module asserts nobody sees.
    assert_eq!(of("test_a.py::test_loop"), Some(3));
    assert_eq!(of("test_a.py::test_none"), Some(0));
    assert_eq!(of("test_a.py::TestU::test_u"), Some(2));
    let ran = project.run("python -m unittest -q test_a");
    assert_eq!(ran.results.executed.get("test_a.TestU.test_u"), Some(&2));
    // What is kept of the rewritten module is not read back by a run without us.
    let plain = Command::new("sh")
        .args(["-c", "find . -name '*-loopexec*.pyc' | wc -l; find . -name '*pytest*.pyc' | grep -v loopexec | wc -l"])
        .current_dir(project.root.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&plain.stdout).lines().nth(1) == Some("0"));
}

#[test]
fn the_projects_own_start_up_and_nested_runs_stay_what_they_are() {
    let project = Project::new(&[
        ("lib/sitecustomize.py", "import builtins\nbuiltins.own_start_up = 7\n"),
        ("sub/test_inner.py", "def test_inner(): assert False\n"),
        (
            "test_a.py",
            "import subprocess, sys, unittest\n\
def test_own(): assert own_start_up == 7\n\
def test_nested(): assert subprocess.call([sys.executable, '-m', 'pytest', '-q', 'sub']) == 1\n\
class TestU(unittest.TestCase):\n    def test_u(self): self.assertTrue(True)\n",
        ),
    ]);
    let lib = project.root.path().join("lib").display().to_string();
    let project = project.set("PYTHONPATH", &lib);
    let ran = project.run("pytest -q test_a.py");
    ran.is(
        Runner::Pytest,
        &["test_a.py::TestU::test_u", "test_a.py::test_nested", "test_a.py::test_own"],
        &[],
        &[],
    )
    .clean();
    // Isolated from our folder, pytest must run as ever.
    let ran = project.run("python -I -m pytest -q sub");
    assert!(!ran.ok && ran.stdout.contains("1 failed"), "{}{}", ran.stdout, ran.stderr);
    ran.is(Runner::Command, &[], &["check"], &[]);
}

#[test]
fn two_thousand_tests_and_two_runs_are_counted() {
    let project = Project::new(&[
        (
            "a/test_many.py",
            "import pytest\n@pytest.mark.parametrize('n', range(2000))\ndef test_n(n): assert n != 77\n",
        ),
        ("b/test_one.py", "def test_one(): pass\n"),
    ]);
    let ran = project.run("pytest -q b; pytest -q a");
    assert_eq!(ran.results.collected.len(), 2001);
    assert_eq!(
        ran.results.failed.iter().map(|id| &**id).collect::<Vec<_>>(),
        ["a/test_many.py::test_n[77]"]
    );
    ran.clean();
}

const UNITTEST: &str = "import unittest
class TestA(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.assertEqual(1, 2)
    @unittest.skip('later')
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_xfail(self): self.fail()
    @unittest.expectedFailure
    def test_xpass(self): pass
    def test_sub(self):
        for n in range(3):
            with self.subTest(n=n): self.assertNotEqual(n, 1)
class TestB(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError('class')
    def test_never(self): pass
";

#[test]
fn unittest_names_every_outcome() {
    let project = Project::new(&[("tests/__init__.py", ""), ("tests/test_u.py", UNITTEST)]);
    let ran = project.run("python -m unittest");
    ran.is(
        Runner::Unittest,
        &["tests.test_u.TestA.test_good"],
        &[
            "setUpClass (tests.test_u.TestB)",
            "tests.test_u.TestA.test_bad",
            "tests.test_u.TestA.test_sub",
            "tests.test_u.TestA.test_xpass",
        ],
        &["tests.test_u.TestA.test_skip", "tests.test_u.TestA.test_xfail"],
    )
    .clean()
    .failure("tests.test_u.TestA.test_bad", "1 != 2", "tests/test_u.py", 4);
    assert_eq!(ran.results.unknown().len(), 1);
    project.write("tests/test_x.py", "import absent_module\n");
    project.run("python -m unittest").broken("absent_module");
    project.write(
        "tests/test_x.py",
        "import os, unittest\nclass T(unittest.TestCase):\n    def test_x(self): os._exit(0)\n",
    );
    let ran = project.run("python -m unittest tests.test_x");
    assert!(ran.ok);
    ran.problem("left before").problem("no result");
    // A result class that does not call its base.
    project.write("run.py", "import unittest, sys\n\
class R(unittest.TestResult):\n    def addSuccess(self, test): pass\n    def addFailure(self, test, err): self.bad = True\n    addError = addFailure\n    def addSkip(self, test, reason): pass\n\
suite = unittest.defaultTestLoader.loadTestsFromNames(['tests.test_u.TestA.test_good', 'tests.test_u.TestA.test_bad'])\n\
suite.run(R()); sys.exit(1)\n");
    project.run("python run.py").is(
        Runner::Unittest,
        &["tests.test_u.TestA.test_good"],
        &["tests.test_u.TestA.test_bad"],
        &[],
    );
}

#[test]
fn tox_passes_what_the_hooks_need() {
    let project = Project::new(&[
        (
            "tox.ini",
            "[tox]\nskipsdist = true\nenvlist = t\n[testenv]\nallowlist_externals = python\ncommands = python -m unittest -q test_u\n",
        ),
        ("test_u.py", "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"),
    ]);
    project.run("tox -q").is(Runner::Unittest, &["test_u.T.test_a"], &[], &[]).clean();
}

fn shop() -> Project {
    Project::new(&[
        (
            "Cargo.toml",
            "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n[[test]]\nname = \"own\"\nharness = false\n",
        ),
        ("src/main.rs", "fn main() {}\n#[test] fn in_bin() {}\n"),
        (
            "src/lib.rs",
            "//! ```\n//! assert_eq!(shop::add(1, 2), 3);\n//! ```\n/// ```\n/// assert_eq!(shop::add(1, 2), 4);\n/// ```\npub fn add(a: i32, b: i32) -> i32 { a + b }\n\
#[cfg(test)] mod tests {\n\
    #[test] fn good() { assert_eq!(super::add(1, 2), 3) }\n\
    #[test] fn bad() { println!(\"hello\"); assert_eq!(super::add(1, 2), 4, \"sum\") }\n\
    #[test] #[ignore = \"slow\"] fn slow() {}\n\
    #[test] #[should_panic] fn panics() { panic!(\"x\") }\n\
    #[test] fn größe() {}\n}\n",
        ),
        (
            "tests/own.rs",
            "fn main() { if std::env::var_os(\"OWN\").is_some() { std::process::exit(3) } }\n",
        ),
        (
            "tests/quits.rs",
            "#[test] fn a() {}\n#[test] fn leaves() { if std::env::var_os(\"QUIT\").is_some() { std::process::exit(0) } }\n",
        ),
    ])
}

#[test]
fn cargo_test_names_targets_and_tests() {
    let project = shop();
    let passed = [
        "own[test]::(binary)",
        "quits[test]::a",
        "quits[test]::leaves",
        "shop::tests::good",
        "shop::tests::größe",
        "shop::tests::panics",
        "shop[bin]::in_bin",
        "shop[doc]::src/lib.rs - ",
    ]
    .map(str::trim_end);
    let failed = ["shop::tests::bad", "shop[doc]::src/lib.rs - add"];
    let run = |command: &str| {
        let ran = project.run(command);
        ran.is(Runner::Cargo, &passed, &failed, &["shop::tests::slow"]).clean().failure(
            "shop::tests::bad",
            "left: 3",
            "src/lib.rs",
            10,
        );
        normalise::fingerprint("fail", Some(101), &ran.results)
    };
    let one = run("cargo test --no-fail-fast");
    assert_eq!(one, run("cargo test --no-fail-fast"));
    run("cargo test --no-fail-fast 2>&1");
    let ran = project.run("cargo test -q --no-fail-fast");
    assert!(ran.results.failed.contains("tests::bad"), "{:#?}", ran.results);
    ran.clean();
    let ran = project.run("cargo test -q --test quits");
    assert_eq!(ran.results.passed.len(), 1);
    ran.clean();
    let ran = project.run("QUIT=1 cargo test --test quits -- --test-threads=1");
    assert!(ran.ok && ran.results.failed.contains("quits[test]::(process)"), "{:#?}", ran.results);
    ran.problem("left before").problem("rc_results_mismatch");
    let ran = project.run("OWN=1 cargo test --no-fail-fast");
    assert!(ran.results.failed.contains("own[test]::(binary)"), "{:#?}", ran.results);
    project.write("tests/quits.rs", "#[test] fn a() { let x: u8 = \"\"; }\n");
    project.run("cargo test").broken("mismatched types").broken("tests/quits.rs:1:");
    project.run("cargo nextest run").broken("mismatched types");
}

#[test]
fn nextest_names_binaries_and_tests() {
    let project = shop();
    project.write("tests/own.rs", "fn main() {}\n");
    let command = "cargo nextest run --no-fail-fast --lib --bins --test quits";
    let passed = [
        "shop::bin/shop::in_bin",
        "shop::quits::a",
        "shop::quits::leaves",
        "shop::tests::good",
        "shop::tests::größe",
        "shop::tests::panics",
    ];
    let ran = project.run(command);
    ran.is(Runner::Nextest, &passed, &["shop::tests::bad"], &["shop::tests::slow"])
        .clean()
        .failure("shop::tests::bad", "left: 3", "src/lib.rs", 10);
    let coloured = project.run(&format!("{command} --color always"));
    assert_eq!(coloured.results.failed, ran.results.failed);
    assert_eq!(coloured.results.passed, ran.results.passed);
    let ran = project.run(&format!("QUIT=1 {command}"));
    ran.problem("shop::quits::leaves ended with exit 0");
    assert!(!ran.results.passed.contains("shop::quits::leaves"));
    // Options that rule out ours.
    for more in [
        "--no-capture",
        "--no-run",
        "--success-output never",
        "--status-level fail",
        "--hide-progress-bar",
    ] {
        let ran = project.run(&format!("cargo nextest run --test quits {more}"));
        assert!(ran.ok, "{more}: {}", ran.stderr);
    }
    project
        .write("tests/quits.rs", "#[test] fn a() { std::process::abort() }\n#[test] fn b() {}\n");
    let ran = project.run("cargo nextest run --no-fail-fast --test quits");
    ran.is(Runner::Nextest, &["shop::quits::b"], &["shop::quits::a"], &[]).clean();
}

#[test]
fn go_names_packages_and_tests() {
    let project = Project::new(&[
        ("go.mod", "module ex.org/shop\ngo 1.19\n"),
        ("a.go", "package shop\n"),
        (
            "a_test.go",
            "package shop\nimport \"testing\"\n\
func TestGood(t *testing.T) { t.Run(\"a b\", func(t *testing.T) {}) }\n\
func TestBad(t *testing.T) { t.Run(\"x\", func(t *testing.T) { t.Error(\"no x\") }) }\n\
func TestSkip(t *testing.T) { t.Skip(\"later\") }\n\
func TestÜ(t *testing.T) { println(\"noise\") }\n",
        ),
        ("sub/s_test.go", "package sub\nimport \"testing\"\nfunc TestSub(t *testing.T) {}\n"),
        ("Makefile", "test:\n\tgo test $$(go list ./...)\n"),
    ]);
    for command in ["go test ./...", "make test", "go test -v ./...", "go test -json ./..."] {
        let ran = project.run(command);
        ran.is(
            Runner::Go,
            &[
                "ex.org/shop.TestGood",
                "ex.org/shop.TestGood/a_b",
                "ex.org/shop.TestÜ",
                "ex.org/shop/sub.TestSub",
            ],
            &["ex.org/shop.TestBad", "ex.org/shop.TestBad/x"],
            &["ex.org/shop.TestSkip"],
        )
        .clean()
        .failure("ex.org/shop.TestBad/x", "no x", "a_test.go", 4);
    }
    project.write(
        "sub/s_test.go",
        "package sub\nimport \"testing\"\nfunc TestSub(t *testing.T) { undefined1() }\n",
    );
    for command in ["go test ./...", "go test -json ./..."] {
        let ran = project.run(command);
        ran.broken("undefined1").broken("ex.org/shop/sub does not build");
        assert!(ran.results.failed.contains("ex.org/shop.TestBad"), "{:#?}", ran.results);
    }
    project.write("sub/s_test.go", "package sub\nimport (\"os\"; \"testing\")\nfunc TestSub(t *testing.T) { os.Exit(0) }\nfunc TestNext(t *testing.T) {}\n");
    let ran = project.run("go test ./sub");
    assert!(!ran.results.passed.contains("ex.org/shop/sub.TestSub"), "{:#?}", ran.results);
    project.write("sub/s_test.go", "package sub\nimport \"testing\"\nfunc TestSub(t *testing.T) { panic(\"boom\") }\nfunc TestNext(t *testing.T) {}\n");
    let ran = project.run("go test ./sub");
    ran.is(Runner::Go, &[], &["ex.org/shop/sub.TestSub"], &[]).clean();
    assert!(ran.results.failures[0].message.contains("boom"), "{:#?}", ran.results);
}

#[test]
fn node_names_files_suites_and_tests() {
    let project = Project::new(&[
        (
            "test/a.test.js",
            "const { test, describe, it } = require('node:test');\nconst assert = require('assert');\n\
test('top', async (t) => {\n  await t.test('sub', () => {});\n  await t.test('sub bad', () => { assert.equal(1, 2); });\n});\n\
describe('suite', () => { it('in', () => {}); it.skip('sk', () => {}); it.todo('td', () => { throw 1; }); });\n\
test('größe', () => {});\n",
        ),
        ("test/b.test.js", "throw new Error('crash')\n"),
        ("package.json", "{\"scripts\": {\"test\": \"node --test test/*.test.js\"}}\n"),
    ]);
    for command in [
        "node --test test/*.test.js",
        "npm test",
        "node --test --test-reporter=dot test/*.test.js",
        "node --test --test-reporter=spec --test-reporter-destination=out.txt test/*.test.js",
    ] {
        let ran = project.run(command);
        ran.is(
            Runner::Node,
            &[
                "test/a.test.js > größe",
                "test/a.test.js > suite > in",
                "test/a.test.js > top > sub",
            ],
            &["test/a.test.js > top", "test/a.test.js > top > sub bad", "test/b.test.js"],
            &["test/a.test.js > suite > sk", "test/a.test.js > suite > td"],
        )
        .clean()
        .failure("test/a.test.js > top > sub bad", "1 == 2", "test/a.test.js", 5);
    }
    // What the command prints is what it prints without us.
    let plain = Command::new("sh")
        .args(["-c", "node --test --test-reporter=dot test/*.test.js | head -1"])
        .current_dir(project.root.path())
        .output()
        .unwrap();
    let ran = project.run("node --test --test-reporter=dot test/*.test.js");
    assert_eq!(ran.stdout.lines().next(), String::from_utf8_lossy(&plain.stdout).lines().next());
    let ran = project.run("node test/a.test.js");
    assert_eq!(ran.results.runner, Runner::Node);
    assert!(ran.results.failed.contains("test/a.test.js > top > sub bad"));
    project.write("test/c.test.js", "const { test } = require('node:test');\ntest('one', () => {}); test('quit', () => process.exit(0)); test('three', () => {});\n");
    let ran = project.run("node --test test/c.test.js");
    assert!(ran.ok);
    ran.problem("without reporting a test");
    let ran = project.run("node -e 'process.exit(4)' || node --test test/c.test.js");
    assert!(ran.ok);
}

#[test]
fn a_check_of_two_runners_is_one_set() {
    let project = Project::new(&[
        ("test_a.py", "def test_a(): pass\n"),
        ("a.test.js", "require('node:test').test('js', () => {});\n"),
        (
            "run",
            "echo 'TAP version 13'; echo 1..2; echo 'ok 1 - shell'; echo 'not ok 2 - shell bad'; exit 1\n",
        ),
    ]);
    let ran = project.run("pytest -q; node --test a.test.js; sh ./run");
    ran.is(Runner::Tap, &["a.test.js > js", "shell", "test_a.py::test_a"], &["shell bad"], &[]);
}

#[test]
fn reports_are_read_where_they_are_declared() {
    let mut project =
        Project::new(&[("test_a.py", "def test_a(): pass\ndef test_b(): assert 0\n")]);
    project.globs = vec!["out/*.xml".to_owned()];
    project.choice = RunnerChoice::One(Runner::Junit);
    let ran = project.run("pytest -q --junitxml=out/r.xml");
    ran.is(Runner::Junit, &["test_a::test_a"], &["test_a::test_b"], &[]).clean();
    // A report of an earlier run is gone.
    let ran = project.run("true");
    ran.problem("No report matches").is(Runner::Command, &["check"], &[], &[]);
}
