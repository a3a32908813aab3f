//! The examples that need python or node, and a package registry.

#[path = "support/examples.rs"]
mod examples;

use examples::{Project, out_of_reach, stands_in_place};

#[test]
fn python_with_an_editable_install() {
    let project = Project::of("python");
    let check = ".venv/bin/python -m pytest -q";
    let check = match stands_in_place() {
        true => out_of_reach(&project, check),
        false => check.to_owned(),
    };
    project.converges(&["--check", &check], &[" M src/calc/__init__.py", "?? .loop_state.json"]);
}

#[test]
fn node_with_a_dependency() {
    Project::of("node").converges(&[], &[" M src/wait.js", "?? .loop_state.json"]);
}
