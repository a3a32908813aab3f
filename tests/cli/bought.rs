//! Greens that are not earned by a fix: each of these ends the run, and the honest fix in the same project
//! converges.

use crate::bench::Bench;

/// Runs a project twice, with the exec that cheats and with the one that fixes; returns what the first ended with.
fn both(make: &dyn Fn(&Bench), cheat: &str, honest: &str) -> (String, String) {
    let run = |exec: &str| {
        let bench = Bench::new();
        make(&bench);
        bench.script("exec.sh", exec);
        bench.commit();
        let ran = bench.run_loop(&[]);
        (ran.reason(), format!("{}\n{}", ran.stderr, ran.json()))
    };
    let (reason, said) = run(honest);
    assert_eq!(reason, "success_condition_met", "the honest fix: {said}");
    run(cheat)
}

fn adds(bench: &Bench) {
    bench.write("calc.sh", "add() { echo $(($1 - $2)); }\n");
    bench.write("tests/a.sh", ". ./calc.sh\ntest \"$(add 2 0)\" = 2\n");
    bench.write("tests/b.sh", ". ./calc.sh\ntest \"$(add 1 2)\" = 3\n");
}

/// The loop of most of these projects: every script in `tests` is a test.
fn scripts_loop(bench: &Bench) {
    adds(bench);
    bench.loop_file(
        "exec: sh exec.sh\ncheck: for t in tests/*.sh; do sh \"$t\"; done\nlimits: {iterations: 2}\n",
    );
}

const FIX: &str = "sed -i 's/ - / + /' calc.sh\n";

#[test]
fn a_product_that_rewrites_a_script_of_the_tests_while_they_run_is_seen() {
    let cheat = "echo \"sed -i 's/= 3/= -1/' tests/b.sh\" >> calc.sh\n";
    let (reason, said) = both(&scripts_loop, cheat, FIX);
    assert_eq!(reason, "metric_integrity_violation", "{said}");
    assert!(
        said.contains("tests/b.sh decides tests and was changed while the check ran"),
        "{said}"
    );
}

#[test]
fn a_product_whose_name_is_that_of_tests_is_named_with_the_line_that_frees_it() {
    let mut bench = Bench::new();
    for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
        let own = std::env::var(name)
            .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/{folder}")));
        bench.env(name, &own.unwrap());
    }
    bench.write(
        "Cargo.toml",
        "[package]\nname = \"load\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    bench.write(
        "src/lib.rs",
        "pub mod load_test;\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::load_test::add(1, 2), 3);\n    }\n}\n",
    );
    bench.write("src/load_test.rs", "pub fn add(a: i32, b: i32) -> i32 {\n    a - b\n}\n");
    bench.write(".gitignore", "/target/\n");
    bench.script("exec.sh", "sed -i 's/a - b/a + b/' src/load_test.rs\n");
    let text = "exec: sh exec.sh\ncheck: cargo test -q --offline\nlimits: {iterations: 3}\n";
    bench.loop_file(text);
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "metric_integrity_violation", "{}", ran.stderr);
    let told = ran.json();
    assert!(told["why"].to_string().contains("src/load_test.rs"), "{told}");
    assert!(told["next"].to_string().contains("mutable: [src/load_test.rs]"), "{told}");
    bench.loop_file(&format!("{text}guards: {{mutable: [src/load_test.rs]}}\n"));
    bench.commit();
    assert_eq!(bench.run_loop(&[]).reason(), "success_condition_met");
}

#[test]
fn another_name_for_a_command_of_git_is_the_agents() {
    let cheat = format!("{FIX}git config alias.st '!touch ran'\n");
    let honest = format!("{FIX}git config alias.st 'status -s'\n");
    assert_eq!(both(&scripts_loop, &cheat, &honest).0, "blocked_path_modified");
}

#[test]
fn a_product_that_becomes_a_link_out_of_the_tree_is_noted() {
    let bench = Bench::new();
    scripts_loop(&bench);
    std::fs::write(bench.beside("tmp/fixed.sh"), "add() { echo $(($1 + $2)); }\n").unwrap();
    let fixed = bench.beside("tmp/fixed.sh");
    bench.script("exec.sh", &format!("ln -sf {} calc.sh\n", fixed.display()));
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "success_condition_met", "{}", ran.stderr);
    let report = bench.run(&["report"]).stdout;
    assert!(report.contains("calc.sh:1: it is a link out of the tree now"), "{report}");
}

#[test]
fn settings_of_a_build_tool_above_the_tree_are_told() {
    let make = |bench: &Bench| {
        adds(bench);
        bench.loop_file(
            "exec: sh exec.sh\ncheck: for t in tests/*.sh; do sh \"$t\"; done; command -v cargo >/dev/null\nlimits: {iterations: 2}\n",
        );
    };
    let above = "mkdir -p ../.cargo && echo '[profile.dev]' > ../.cargo/config.toml\n";
    let (reason, said) = both(&make, &format!("{FIX}{above}"), FIX);
    assert_eq!(reason, "metric_integrity_violation", "{said}");
    assert!(said.contains(".cargo/config.toml"), "{said}");
}

#[test]
fn data_beside_code_that_tests_find_by_a_link_is_not_theirs() {
    let bench = Bench::new();
    scripts_loop(&bench);
    bench.write("lib/sums.py", "LIMIT = 3\n");
    bench.write("lib/limit.json", "1\n");
    bench.write("tests/c.sh", "test \"$(cat tests/lib/limit.json)\" = 3\n");
    std::os::unix::fs::symlink("../lib", bench.path("tests/lib")).unwrap();
    bench.script("exec.sh", &format!("{FIX}echo 3 > lib/limit.json\n"));
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "success_condition_met", "{}", ran.stderr);
}
