//! What keeps a Python check from being red for a reason of its own: PYTHONPATH, the packages of
//! the person, a variable; each told apart from a module that is still to be written.
//!
//! The same for shells stands in `cli/diagnosis`.

#[path = "cli/bench.rs"]
#[expect(dead_code, reason = "the bench serves the whole command line, this target a part of it")]
mod bench;

use bench::{Bench, Ran, assert_untouched};
use std::path::PathBuf;
use std::process::Command;

const CHECK: &str = "python3 -m unittest -q test_it";

/// Writes a project whose one test imports a module and asks it for the answer.
fn project(import: &str, check: &str) -> Bench {
    let bench = Bench::new();
    bench.write(
        "test_it.py",
        format!(
            "import unittest\n{import}\nimport work\n\nclass It(unittest.TestCase):\n    def test_answer(self):\n        self.assertEqual(work.answer(), 42)\n"
        ),
    );
    bench.write("work.py", "def answer():\n    return 41\n");
    bench.write(".gitignore", "__pycache__/\n");
    bench.loop_file(&format!(
        "exec: touch '{}'; printf 'def answer():\\n    return 42\\n' > work.py; echo > helper_to_be.py\ncheck: {check}\n",
        bench.beside("exec-ran").display()
    ));
    bench.commit();
    bench
}

/// Returns the folder in which Python looks for packages of the person.
fn user_site(bench: &Bench) -> PathBuf {
    let output = Command::new("python3")
        .args(["-c", "import site; print(site.getusersitepackages())"])
        .env("HOME", bench.beside("home"))
        .env_remove("PYTHONUSERBASE")
        .output()
        .unwrap();
    assert!(output.status.success(), "python3 is missing");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn not_hermetic(bench: &Bench, dimension: &str, line: &str) {
    let before = bench.tree_hash();
    let ran = bench.run_loop(&[]);
    let object = ran.json();
    assert_eq!(object["halt_reason"], "check_not_hermetic", "{ran:#?}");
    assert_eq!((ran.code, &object["detail"]), (Some(14), &dimension.into()), "{ran:#?}");
    assert_eq!(object["iterations"], 0);
    let next = object["next"].as_str().unwrap();
    assert!(next.contains(line), "{next}");
    assert!(!bench.beside("exec-ran").exists(), "exec ran");
    assert!(bench.fold(&ran).end.is_some());
    assert_untouched(&before, &bench.tree_hash());
}

fn converges(bench: &Bench) -> Ran {
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "success_condition_met", "{ran:#?}");
    assert!(bench.beside("exec-ran").exists());
    ran
}

#[test]
fn a_module_found_only_through_pythonpath_names_pass_env() {
    let mut bench = project("import helper", CHECK);
    let library = bench.beside("library");
    std::fs::create_dir(&library).unwrap();
    std::fs::write(library.join("helper.py"), "").unwrap();
    bench.env("PYTHONPATH", &library.display().to_string());
    not_hermetic(&bench, "environment", "pass_env: [PYTHONPATH]");
    // What is lent for the diagnosis is as it was: other runs may use it too.
    assert_eq!(std::fs::read_dir(&library).unwrap().count(), 1, "bytecode was left in it");
}

#[test]
fn a_module_found_only_among_the_persons_packages_names_setup() {
    let bench = project("import helper", CHECK);
    let site = user_site(&bench);
    std::fs::create_dir_all(&site).unwrap();
    std::fs::write(site.join("helper.py"), "").unwrap();
    not_hermetic(&bench, "home", "setup:");
}

#[test]
fn a_variable_that_is_missing_names_pass_env() {
    let mut bench = project("import os\nos.environ['DATABASE_NAME']", CHECK);
    bench.env("DATABASE_NAME", "test");
    not_hermetic(&bench, "environment", "pass_env: [DATABASE_NAME]");
}

#[test]
fn a_module_that_is_missing_beside_one_that_is_to_be_written_is_told_all_the_same() {
    let mut bench = project("import helper\nimport helper_to_be", CHECK);
    let library = bench.beside("library");
    std::fs::create_dir(&library).unwrap();
    std::fs::write(library.join("helper.py"), "").unwrap();
    bench.env("PYTHONPATH", &library.display().to_string());
    not_hermetic(&bench, "environment", "pass_env: [PYTHONPATH]");
}

#[test]
fn a_module_that_is_still_to_be_written_is_an_ordinary_red() {
    let bench = project("import helper_to_be", CHECK);
    let ran = converges(&bench);
    assert_eq!(ran.json()["iterations"], 1);
}

#[test]
fn a_red_test_is_an_ordinary_red() {
    let mut bench = project("", CHECK);
    bench.env("PYTHONPATH", "/nonexistent");
    let ran = converges(&bench);
    assert_eq!(ran.json()["baseline"]["collected"], 1, "{ran:#?}");
}
