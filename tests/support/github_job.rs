//! What a step of a job on GitHub is started with, and how its runner reads what the step leaves.

use crate::bench::Bench;
use std::collections::BTreeMap;

/// Gives the bench the variables and the files of a step.
pub fn on_github(bench: &mut Bench) {
    for name in ["output", "state", "summary"] {
        std::fs::write(bench.beside(name), "").unwrap();
    }
    let sha = bench.git(&["rev-parse", "HEAD"]);
    let file = |name: &str| bench.beside(name).to_string_lossy().into_owned();
    let variables = [
        ("GITHUB_ACTIONS", "true".to_owned()),
        ("GITHUB_EVENT_NAME", "push".to_owned()),
        ("GITHUB_REPOSITORY", "acme/shop".to_owned()),
        ("GITHUB_SHA", sha),
        ("GITHUB_SERVER_URL", "https://github.com".to_owned()),
        ("GITHUB_JOB", "mend".to_owned()),
        ("GITHUB_RUN_ID", "7".to_owned()),
        ("GITHUB_RUN_ATTEMPT", "1".to_owned()),
        ("GITHUB_WORKFLOW_REF", "acme/shop/.github/workflows/l.yml@refs/heads/main".to_owned()),
        ("GITHUB_OUTPUT", file("output")),
        ("GITHUB_STATE", file("state")),
        ("GITHUB_STEP_SUMMARY", file("summary")),
    ];
    for (name, value) in variables {
        bench.env(name, &value);
    }
}

/// Reads a file of values as the runner does.
pub fn values(bench: &Bench, name: &str) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(bench.beside(name)).unwrap();
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let (key, delimiter) = line.split_once("<<").expect("a block");
        let mut value = Vec::new();
        loop {
            let line = lines.next().expect("the delimiter comes");
            if line == delimiter {
                break;
            }
            value.push(line);
        }
        found.insert(key.to_owned(), value.join("\n"));
    }
    found
}
