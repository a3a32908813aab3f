//! `init`: a loop file for the project found, never over one that is there.

use crate::bench::Bench;

#[test]
fn the_written_file_is_what_run_and_doctor_read() {
    for (file, text, kind) in [
        ("Cargo.toml", "[package]\nname = \"x\"\n", "cargo"),
        ("go.mod", "module x\n", "go"),
        ("pytest.ini", "[pytest]\n", "pytest"),
        ("package.json", "{\"scripts\": {\"test\": \"mocha\"}}", "npm"),
        ("Makefile", "test:\n\ttrue\n", "make"),
        ("test/a.bats", "", "bats"),
        ("notes.txt", "", "generic"),
    ] {
        let bench = Bench::new();
        bench.write(file, text);
        let ran = bench.run(&["init", "--json"]);
        assert_eq!((ran.code, ran.json()["kind"].as_str()), (Some(0), Some(kind)), "{ran:#?}");
        let plan = bench.run(&["run", "--dry-run", "--json"]);
        assert_eq!(plan.code, Some(0), "{plan:#?}");
        assert!(!bench.path(".loopexec").exists());
    }
}

#[test]
fn what_has_to_be_edited_is_said_and_prove_shows_its_points() {
    let bench = Bench::new();
    let written = |bench: &Bench| {
        let said = bench.run(&["init", "--force"]).stdout;
        (said, std::fs::read_to_string(bench.path("loop.yml")).unwrap())
    };
    let (said, text) = written(&bench);
    assert!(said.contains("your tests into `check`") && text.contains("edit this line too"));
    bench.write("t/a.t", "");
    let (said, text) = written(&bench);
    assert!(!said.contains("`check`") && text.contains("\ncheck: prove --merge -rv t\n"), "{text}");
    bench.write("lib/A.pm", "");
    assert!(written(&bench).1.contains("\ncheck: prove --merge -lrv t\n"));
    bench.write("pytest.ini", "[pytest]\n");
    assert!(written(&bench).1.contains("# setup: python3 -m venv .venv && .venv/bin/pip install"));
}

#[test]
fn a_loop_file_at_the_top_of_the_tree_is_named_and_not_taken() {
    let bench = Bench::new();
    bench.write("a/b/x", "");
    let below = bench.path("a/b");
    let dry = ["run", "--dry-run", "--workdir", below.to_str().unwrap()];
    let ran = bench.run(&dry);
    assert!(ran.stderr.contains("loopexec init"), "{ran:#?}");
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    let ran = bench.run(&dry);
    assert_eq!(ran.code, Some(30));
    for part in ["loopexec run --workdir ../..`", "loopexec run ../../loop.yml`"] {
        assert!(ran.stderr.contains(part), "{ran:#?}");
    }
}

#[test]
fn a_dry_run_shows_every_blocked_path() {
    let bench = Bench::new();
    bench.loop_file("exec: touch x\ncheck: test -f x\n");
    let ran = bench.run(&["run", "--dry-run"]);
    for (pattern, _) in loopexec::config::DEFAULT_BLOCKED {
        assert!(ran.stdout.contains(&format!("\"{pattern}\"")), "{pattern}: {}", ran.stdout);
    }
}

#[test]
fn a_file_that_is_there_stays_unless_forced_and_a_link_is_not_followed() {
    let bench = Bench::new();
    bench.write("loop.yml", "mine\n");
    let ran = bench.run(&["init", "--json"]);
    assert_eq!((ran.code, ran.json()["detail"].as_str()), (Some(30), Some("exists")));
    assert_eq!(std::fs::read_to_string(bench.path("loop.yml")).unwrap(), "mine\n");
    std::fs::remove_file(bench.path("loop.yml")).unwrap();
    bench.write("target.txt", "kept\n");
    std::os::unix::fs::symlink(bench.path("target.txt"), bench.path("loop.yml")).unwrap();
    assert_eq!(bench.run(&["init", "--force"]).code, Some(0));
    assert_eq!(std::fs::read_to_string(bench.path("target.txt")).unwrap(), "kept\n");
    assert!(std::fs::read_to_string(bench.path("loop.yml")).unwrap().contains("version: 1"));
    // A second loop file of another name would make both unusable.
    std::fs::rename(bench.path("loop.yml"), bench.path(".loopexec.yml")).unwrap();
    assert_eq!(bench.run(&["init", "--force"]).code, Some(30));
}
