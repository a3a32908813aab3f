//! `--json` prints exactly one object on stdout, on every path of every command.

use crate::bench::{Bench, Ran};

/// Holds an outcome to the contract of the object and returns its first error's kind.
fn hold(ran: &Ran, code: i32) -> String {
    let told = ran.json();
    assert_eq!(ran.code, Some(code), "{ran:#?}");
    assert_eq!(told["tool"], "loopexec");
    for key in ["version", "format", "command", "status", "errors", "exit_class", "exit_code"] {
        assert!(told.get(key).is_some(), "{key} is missing: {told:#}");
    }
    assert_eq!(told["process_exit"], code);
    assert_eq!(ran.stdout.matches('\n').count(), 1, "{ran:#?}");
    assert!(ran.stdout.ends_with('\n'));
    let errors = told["errors"].as_array().unwrap();
    assert_eq!(told["status"] == "error", !errors.is_empty(), "{told:#}");
    errors.first().map_or(String::new(), |error| {
        assert!(!error["what"].as_str().unwrap().is_empty());
        error["kind"].as_str().unwrap().to_owned()
    })
}

#[test]
fn success_and_a_halt() {
    let bench = Bench::new();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    bench.commit();
    assert_eq!(hold(&bench.run_loop(&[]), 10), "");
    bench.loop_file("exec: touch x\ncheck: test -f y\nlimits: {iterations: 1}\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(hold(&ran, 12), "");
    assert_eq!(ran.json()["status"], "halted");
    for command in ["status", "report", "explain-halt"] {
        assert_eq!(hold(&bench.run(&[command, "--json"]), 0), "", "{command}");
    }
}

#[test]
fn files_keys_flags_and_commands_that_are_wrong() {
    let bench = Bench::new();
    assert_eq!(hold(&bench.run_loop(&[]), 30), "config_invalid");
    assert_eq!(hold(&bench.run_loop(&["nowhere.yml"]), 30), "config_invalid");
    bench.loop_file("exec: x\nchekc: y\n");
    assert_eq!(hold(&bench.run_loop(&[]), 30), "config_invalid");
    for args in [
        &["run", "--no-such-flag", "--json"][..],
        &["run", "--max-iterations"],
        &["nosuch"],
        &[],
        &["run", "a", "b"],
        &["completions", "noshell"],
        &["status", "--quiet", "--verbose"],
        &["explain-halt", "no_such_reason"],
    ] {
        let ran = bench.run(&[&["--json"], args].concat());
        assert_eq!(hold(&ran, 2), "usage", "{args:?}");
    }
    assert_eq!(bench.run(&["--json", "status", "--nope"]).json()["command"], "status");
    assert_eq!(
        hold(&bench.run(&["status", "--json", "--workdir", "/nonexistent/x"]), 30),
        "workspace_invalid"
    );
}

#[test]
fn folders_that_cannot_be_written_and_folders_without_git() {
    let bench = Bench::plain();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    assert_eq!(hold(&bench.run_loop(&[]), 10), "");
    // Nobody makes a folder in /proc, root neither.
    let args = [
        "run",
        "--json",
        "--workdir",
        "/proc",
        "--exec",
        "true",
        "--check",
        "false",
        "--model",
        "none",
    ];
    assert_eq!(hold(&bench.run(&args), 30), "workspace_invalid");
    assert_eq!(
        hold(&bench.run(&["init", "--json", "--workdir", "/proc"]), 30),
        "workspace_invalid"
    );
    hold(&bench.run(&["doctor", "--json", "--workdir", "/proc"]), 30);
    assert_eq!(hold(&bench.run(&["man", "--json", "--dir", "/proc/x"]), 30), "workspace_invalid");
}

#[test]
fn hostile_run_ids() {
    let bench = Bench::new();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    bench.commit();
    let long = "a".repeat(300);
    for id in ["../../x", "", long.as_str(), "a\nb", "\x1b[31m", "-x", "..", "a/b", "ü"] {
        let flag = format!("--run-id={id}");
        let ran = bench.run_loop(&[&flag]);
        assert_eq!(hold(&ran, 2), "usage", "{id:?}");
        for command in ["status", "report", "explain-halt", "verify"] {
            let ran = bench.run(&[command, &flag, "--json"]);
            let code = ran.code.unwrap();
            assert!(matches!(code, 2 | 30), "{id:?}: {ran:#?}");
            hold(&ran, code);
        }
    }
    assert!(!bench.path(".loopexec").exists());
    assert!(!bench.beside("x").exists());
}

#[test]
fn commands_that_only_print() {
    let bench = Bench::plain();
    for args in [
        &["version"][..],
        &["schema"],
        &["man"],
        &["completions", "bash"],
        &["help"],
        &["help", "run"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        let ran = bench.run(&[args, &["--json"]].concat());
        assert_eq!(hold(&ran, 0), "", "{args:?}");
    }
    let help = bench.run(&["help", "--json"]).json();
    assert!(help["text"].as_str().unwrap().contains("explain-halt"));
}
