//! `blocked_path_modified`: what no exec may touch, and what looks like it and is the agent's own.

use super::{agent, halts, text};
use crate::bench::Bench;
use loopexec::domain::reason::HaltReason;

fn bench_with(step: &str) -> Bench {
    let bench = Bench::new();
    bench.write(".gitignore", ".env\n.env.*\nnode_modules/\n");
    bench.write(".env", "TOKEN=1\n");
    bench.write("infra/main.tf", "resource {}\n");
    bench.write(".github/workflows/ci.yml", "on: push\n");
    bench.script("check.sh", "test -f done");
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    agent(&bench, &[], &format!("touch done; {step}"));
    bench.commit();
    bench
}

/// Asserts that a step halts, and that the breach names the path.
fn breaks(step: &str, path: &str) {
    let ran = halts(&bench_with(step), HaltReason::BlockedPathModified);
    let object = ran.json();
    let breaches = object["breaches"].to_string();
    assert!(breaches.contains(path), "{step}: {breaches}");
    assert!(text(&object["why"]).contains(path), "{step}: {object}");
    assert_eq!(object["iterations"], 1, "{step}");
}

fn is_allowed(step: &str) {
    let ran = halts(&bench_with(step), HaltReason::SuccessConditionMet);
    assert_eq!(ran.json()["breaches"].as_array().map(Vec::len), Some(0), "{step}");
}

#[test]
fn a_new_changed_or_removed_file_below_infra_is_blocked_path_modified() {
    breaks("echo more > infra/new.tf", "infra/new.tf");
    breaks("echo more >> infra/main.tf", "infra/main.tf");
    breaks("rm infra/main.tf", "infra/main.tf");
    breaks("chmod +x infra/main.tf", "infra/main.tf");
}

#[test]
fn an_ignored_env_file_is_blocked_all_the_same() {
    breaks("echo LEAK=1 >> .env", ".env");
    breaks("echo LEAK=1 > .env.local", ".env.local");
}

#[test]
fn an_example_of_an_env_file_is_the_agents() {
    is_allowed("echo NAME= > .env.example");
}

#[test]
fn a_ci_definition_is_blocked() {
    breaks("echo '# quiet' >> .github/workflows/ci.yml", ".github/workflows/ci.yml");
    breaks("touch .gitlab-ci.yml", ".gitlab-ci.yml");
}

#[test]
fn a_git_configuration_that_runs_programs_is_blocked() {
    breaks("git config core.hooksPath hooks", "core.hookspath");
    breaks("git config filter.x.clean 'touch owned'", "filter.x.clean");
}

#[test]
fn a_git_configuration_that_names_the_author_is_the_agents() {
    is_allowed("git config user.name 'An Agent'");
}

#[test]
fn commits_and_branches_are_the_agents() {
    is_allowed(
        "git checkout -q -b work; git add -A; git commit -q -m work; git tag t; git stash list",
    );
}

#[test]
fn a_git_hook_is_blocked() {
    breaks(
        "mkdir -p .git/hooks; echo '#!/bin/sh' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        ".git/hooks/pre-commit",
    );
    breaks("mkdir -p .git/info; echo '* -diff' > .git/info/attributes", ".git/info/attributes");
}

#[test]
fn a_nested_repository_is_blocked_but_not_in_an_ignored_folder() {
    breaks("git init -q sub", "sub/.git");
    is_allowed("mkdir -p node_modules/x; git init -q node_modules/x");
}

#[test]
fn the_loop_file_is_blocked() {
    breaks("echo 'limits: {iterations: 99}' >> loop.yml", "loop.yml");
}

#[test]
fn a_file_of_the_same_name_elsewhere_is_the_agents() {
    is_allowed(
        "mkdir sub; echo x > sub/loop.yml; echo x > sub/check.sh; mkdir -p src/infra; touch src/infra/x",
    );
}

#[test]
fn the_checks_own_script_is_blocked() {
    breaks("echo 'exit 0' > check.sh", "check.sh");
}

#[test]
fn loopexecs_own_files_in_the_workspace_are_blocked() {
    breaks("mkdir -p .loopexec/runs/x; touch .loopexec/runs/x/receipt.jsonl", ".loopexec");
    breaks("echo '{}' > .loop_state.json", ".loop_state.json");
}

#[test]
fn a_check_that_writes_a_blocked_path_is_a_breach_as_well() {
    let bench = Bench::new();
    bench.write("infra/main.tf", "resource {}\n");
    bench.script("lib.sh", "true");
    bench.script("check.sh", "./lib.sh; test -f done");
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    agent(&bench, &[], "touch done; echo 'echo owned > infra/main.tf' >> lib.sh");
    bench.commit();
    let ran = halts(&bench, HaltReason::BlockedPathModified);
    assert!(text(&ran.json()["why"]).contains("by the check"), "{ran:#?}");
}

#[test]
fn a_green_check_does_not_outrank_a_breach_and_nothing_is_delivered() {
    let ran = halts(&bench_with("echo x > infra/new.tf"), HaltReason::BlockedPathModified);
    assert_eq!(ran.json()["changed"], false);
}
