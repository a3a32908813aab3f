//! The GitLab component and the report files, held to the schemas that editors and scanners use, and
//! run by a program that runs GitLab's jobs on one machine.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

#[path = "support/subject.rs"]
mod subject;

use loopexec::ci::formats::{self, write_all};
use loopexec::domain::reason::HaltReason;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use subject::{HOSTILE, halted};

const TEMPLATE: &str = include_str!("../dist/gitlab/templates/loopexec.yml");

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn must(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

/// Makes a folder of tools once, whole or not at all.
fn tools(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if !place.is_dir() {
        let fresh = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        make(fresh.path());
        fs::rename(fresh.keep(), &place).unwrap();
    }
    place
}

fn check_jsonschema() -> PathBuf {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    let place = READY.get_or_init(|| {
        // Its programs name their interpreter by its whole path, so it is made where it stays.
        let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ci-venv");
        if !venv.join("ready").is_file() {
            must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
            let pip = venv.join("bin/pip");
            must(Command::new(pip).args(["install", "-q", "check-jsonschema==0.39.0"]));
            fs::write(venv.join("ready"), "").unwrap();
        }
        venv
    });
    place.join("bin/check-jsonschema")
}

/// Returns the schema of SARIF 2.1.0, which a crate ships beside its source.
fn sarif_schema() -> PathBuf {
    let place = tools("ci-sarif", |place| {
        fs::create_dir(place.join("src")).unwrap();
        fs::write(place.join("src/lib.rs"), "").unwrap();
        let manifest = "[package]\nname = \"schema\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\nserde-sarif = \"=0.8.0\"\n\n[workspace]\n";
        fs::write(place.join("Cargo.toml"), manifest).unwrap();
        must(Command::new(env!("CARGO")).arg("fetch").current_dir(place));
    });
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--format-version", "1", "--offline"]).current_dir(place);
    let output = metadata.output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "serde-sarif").unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    manifest.with_file_name("src/schema.json")
}

/// Returns gitlab-ci-local, in the last version that runs on Node 20.
fn gitlab_ci_local() -> PathBuf {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    let place = READY.get_or_init(|| {
        if Command::new("rsync").arg("--version").output().is_err() {
            let line = "export DEBIAN_FRONTEND=noninteractive; as=; [ \"$(id -u)\" = 0 ] || as='sudo -n'; $as apt-get update -q && $as apt-get install -yq rsync";
            must(Command::new("sh").args(["-c", line]));
        }
        tools("ci-npm", |place| {
            let install = ["install", "--no-audit", "--no-fund", "--prefix"];
            must(Command::new("npm").args(install).arg(place).arg("gitlab-ci-local@4.64.1"));
        })
    });
    place.join("node_modules/.bin/gitlab-ci-local")
}

/// Returns the job of the template as GitLab makes it from these inputs and the defaults.
fn job_part(inputs: &[(&str, &str)]) -> String {
    let (_, job) = TEMPLATE.split_once("\n---\n").unwrap();
    let defaults = [
        ("job-name", "loopexec"),
        ("stage", "test"),
        ("image", "debian"),
        ("binary", "loopexec"),
        ("allow-failure-exit-codes", "[255]"),
        ("expire-in", "1 week"),
    ];
    let mut job = job.to_owned();
    for (name, value) in inputs.iter().chain(&defaults) {
        job = job.replace(&format!("$[[ inputs.{name} ]]"), value);
    }
    for name in ["loop", "config", "working-directory", "accept-isolation", "version"] {
        job = job.replace(&format!("$[[ inputs.{name} ]]"), "");
    }
    assert!(!job.contains("$[["), "{job}");
    job
}

#[test]
fn the_job_of_the_component_is_valid() {
    let place = tempfile::tempdir().unwrap();
    let schema = |text: &str| {
        let file = place.path().join(".gitlab-ci.yml");
        fs::write(&file, text).unwrap();
        let mut command = Command::new(check_jsonschema());
        command.args(["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]);
        command.arg(file).output().unwrap()
    };
    let good = schema(&job_part(&[]));
    assert!(good.status.success(), "{}", said(&good));
    let bad = schema(&job_part(&[]).replace("when: always", "when: sometimes"));
    assert!(!bad.status.success(), "the schema sees nothing: {}", said(&bad));
}

#[test]
fn no_input_stands_in_a_script() {
    let (_, job) = TEMPLATE.split_once("\n---\n").unwrap();
    let script = job.split_once("  script:").unwrap().1.split_once("  allow_failure:").unwrap().0;
    assert!(!script.contains("$[["), "{script}");
    let mut variables =
        job.split_once("  variables:").unwrap().1.split_once("  script:").unwrap().0.lines();
    while let Some(line) = variables.next() {
        if line.contains("value:") {
            assert_eq!(variables.next().unwrap().trim(), "expand: false", "{line}");
        }
    }
}

#[test]
fn sarif_is_valid_also_for_hostile_text() {
    let place = tempfile::tempdir().unwrap();
    let check = |file: &Path| {
        let mut command = Command::new(check_jsonschema());
        command.args(["--regex-variant", "python", "--schemafile"]).arg(sarif_schema());
        command.arg(file).output().unwrap()
    };
    for reason in [HaltReason::NoProgressDetected, HaltReason::SuccessConditionMet] {
        let mut subject = halted(place.path(), reason, &["m", HOSTILE]);
        subject.key.name = HOSTILE.into();
        subject.findings[2].title = HOSTILE.into();
        subject.findings[2].file = Some("a b/ä?#%.py".into());
        assert!(write_all(&subject, "", place.path()).failed.is_empty());
        let output = check(&place.path().join(formats::SARIF));
        assert!(output.status.success(), "{}", said(&output));
    }
    let file = place.path().join(formats::SARIF);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"2.1.0\"", "\"2.2.0\"")).unwrap();
    assert!(!check(&file).status.success(), "the schema sees nothing");
}

/// A project whose one check wants the file `done` to be there.
struct Project {
    place: tempfile::TempDir,
}

impl Project {
    fn new(exec: &str) -> Self {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let root = place.path().join("project");
        fs::create_dir_all(root.join("templates")).unwrap();
        fs::write(root.join("templates/loopexec.yml"), TEMPLATE).unwrap();
        let text = format!(
            "version: 1\nmodel: none\nexec: {exec}\ncheck: test -e done\nlimits: {{no_progress: 1}}\n"
        );
        fs::write(root.join("loop.yml"), text).unwrap();
        fs::write(root.join(".gitignore"), ".gitlab-ci-local/\nloopexec-reports/\n").unwrap();
        Self { place }
    }

    fn root(&self) -> PathBuf {
        self.place.path().join("project")
    }

    /// Runs the component's job, and returns what gitlab-ci-local printed.
    fn run(&self, inputs: &str) -> String {
        let root = self.root();
        let binary = env!("CARGO_BIN_EXE_loopexec");
        let file = format!(
            "include:\n  - local: templates/loopexec.yml\n    inputs:\n      image: none\n      binary: {binary}\n{inputs}\nafter:\n  stage: deploy\n  needs: [loopexec]\n  script:\n    - echo \"later sees $LOOPEXEC_HALT_REASON\"\n"
        );
        fs::write(root.join(".gitlab-ci.yml"), file).unwrap();
        self.start()
    }

    /// Commits what is there, runs its jobs, and returns what gitlab-ci-local printed.
    fn start(&self) -> String {
        let root = self.root();
        let binary = Path::new(env!("CARGO_BIN_EXE_loopexec"));
        let path = std::env::var("PATH").unwrap();
        for arguments in [&["init", "-q"][..], &["add", "-A"], &["commit", "-qm", "as it is"]] {
            must(
                Command::new("git")
                    .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
                    .args(arguments)
                    .current_dir(&root),
            );
        }
        let output = Command::new(gitlab_ci_local())
            // It says that it is not GitLab.
            .args(["--force-shell-executor", "--variable", "GITLAB_CI=true"])
            .current_dir(&root)
            .env("LOOPEXEC_CACHE", self.place.path().join("cache"))
            .env("PATH", format!("{}:{path}", binary.parent().unwrap().display()))
            .output()
            .unwrap();
        let text = said(&output);
        eprintln!("{text}");
        // The colours that it paints its words with.
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once('\x1b') {
            plain.push_str(before);
            rest = after.split_once('m').map_or("", |(_, rest)| rest);
        }
        plain + rest
    }

    fn report(&self, name: &str) -> String {
        self.report_of("loopexec", name)
    }

    fn report_of(&self, job: &str, name: &str) -> String {
        let artifacts = self.root().join(".gitlab-ci-local/artifacts").join(job);
        fs::read_to_string(artifacts.join("loopexec-reports").join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

#[track_caller]
fn is(printed: &str, word: &str) {
    job_is(printed, word, "loopexec");
}

#[track_caller]
fn job_is(printed: &str, word: &str, job: &str) {
    let found = printed.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(word) && words.next() == Some(job)
    });
    assert!(found, "no line {word} {job}:\n{printed}");
}

#[test]
fn a_loop_that_converges_passes_and_later_jobs_know() {
    let project = Project::new("touch done");
    let printed = project.run("");
    is(&printed, "PASS");
    assert!(printed.contains("later sees success_condition_met"), "{printed}");
    assert!(project.report(formats::DOTENV).contains("LOOPEXEC_CONVERGED=true\n"));
    assert!(project.report(formats::JUNIT).contains("failures=\"0\""));
    assert_eq!(project.report(formats::CODE_QUALITY).trim(), "[]");
    let artifacts = project.root().join(".gitlab-ci-local/artifacts/loopexec");
    // Its own copies of the reports aside.
    let names: Vec<_> = fs::read_dir(&artifacts)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != ".gitlab-ci-reports")
        .collect();
    assert_eq!(names, ["loopexec-reports"], "nothing that exec or the check printed");
    let bundle = artifacts.join("loopexec-reports/loopexec-bundle.zip");
    must(Command::new(env!("CARGO_BIN_EXE_loopexec")).arg("verify").arg("--run-id").arg(bundle));
}

#[test]
fn a_loop_that_halts_fails_and_leaves_its_reports() {
    let project = Project::new("touch other");
    let printed = project.run("      config: loop.yml");
    is(&printed, "FAIL");
    assert!(project.report(formats::JUNIT).contains("<failure type="));
    assert!(project.report(formats::DOTENV).contains("LOOPEXEC_EXIT_CODE=17\n"));
    let quality: serde_json::Value =
        serde_json::from_str(&project.report(formats::CODE_QUALITY)).unwrap();
    assert!(!quality.as_array().unwrap().is_empty());
}

#[test]
fn an_exit_code_that_is_allowed_warns() {
    let printed = Project::new("touch other").run("      allow-failure-exit-codes: [12, 17]");
    is(&printed, "WARN");
}

#[test]
fn no_input_is_read_by_the_shell() {
    let project = Project::new("touch done");
    let printed = project.run("      config: \"$(touch stolen); `touch stolen`'\\\"\"");
    is(&printed, "FAIL");
    assert!(!project.root().join("stolen").exists(), "{printed}");
}

#[test]
fn another_version_than_the_named_one_is_refused() {
    let printed = Project::new("touch done").run("      version: 0.0.1");
    is(&printed, "FAIL");
    assert!(printed.contains("not of the version"), "{printed}");
}

#[test]
fn the_example_runs_the_plan_here_that_the_laptop_runs() {
    let project = Project::new("touch done");
    let root = project.root();
    fs::remove_file(root.join("loop.yml")).unwrap();
    fs::remove_dir_all(root.join("templates")).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for entry in fs::read_dir(examples.join("shell")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, root.join(path.file_name().unwrap())).unwrap();
    }
    fs::copy(examples.join("gitlab/.gitlab-ci.yml"), root.join(".gitlab-ci.yml")).unwrap();
    let printed = project.start();
    job_is(&printed, "PASS", "repair");
    let variables = project.report_of("repair", formats::DOTENV);
    let digest = |line: &str| line.strip_prefix("LOOPEXEC_LOOP_DIGEST=").map(str::to_owned);
    let digest = variables.lines().find_map(digest).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_loopexec"))
        .args(["run", "--workflow", ".gitlab-ci.yml", "--dry-run", "--json"])
        .current_dir(&root)
        .output()
        .unwrap();
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["loop_digest"], digest.as_str(), "{}", said(&output));
}
