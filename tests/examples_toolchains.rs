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

#[test]
fn all_examples_in_zones() {
    let backend = if nix::unistd::geteuid().is_root() { "root" } else { "namespaces" };
    let lines = format!("isolation: {{backend: {backend}}}\n");
    for (example, changed) in [
        ("shell", "duration.sh"),
        ("rust", "money/src/lib.rs"),
        ("python", "src/calc/__init__.py"),
        ("node", "src/wait.js"),
    ] {
        let project = Project::with(example, &lines);
        let object = project.runs(&[]);
        let shown = project.git(&["status", "--porcelain"]);
        assert!(shown.contains(changed), "{example}: {shown}");
        assert_eq!(object["isolation"]["degraded"], false, "{example}: {object:#}");
    }
}
