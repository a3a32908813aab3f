//! Guesses what kind of project a folder holds, and which runner a check starts.
//!
//! `init` writes a loop file from it, `doctor` says it. Results of a real run are never guessed:
//! that is `integrity`'s.

use crate::foreign::{self, Links};
use std::path::Path;

/// A kind of project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Python with pytest.
    Pytest,
    /// Python with unittest.
    Unittest,
    /// Rust with `cargo test`.
    Cargo,
    /// Rust with cargo-nextest.
    Nextest,
    /// Go.
    Go,
    /// Node with its own test runner.
    Node,
    /// A package with a test script.
    Npm,
    /// A Makefile with a test target.
    Make,
    /// Tests in bats.
    Bats,
    /// Scripts that print TAP, for `prove`.
    Tap,
    /// Anything else.
    Generic,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Pytest,
        Self::Unittest,
        Self::Cargo,
        Self::Nextest,
        Self::Go,
        Self::Node,
        Self::Npm,
        Self::Make,
        Self::Bats,
        Self::Tap,
        Self::Generic,
    ];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pytest => "pytest",
            Self::Unittest => "unittest",
            Self::Cargo => "cargo",
            Self::Nextest => "nextest",
            Self::Go => "go",
            Self::Node => "node",
            Self::Npm => "npm",
            Self::Make => "make",
            Self::Bats => "bats",
            Self::Tap => "tap",
            Self::Generic => "generic",
        }
    }
}

/// Guesses the kind of the project in a folder.
pub fn read_kind(root: &Path) -> Kind {
    let has = |name: &str| root.join(name).symlink_metadata().is_ok();
    if has("Cargo.toml") {
        let nextest = has(".config/nextest.toml") || has("nextest.toml");
        return if nextest { Kind::Nextest } else { Kind::Cargo };
    }
    if has("go.mod") || has("go.work") {
        return Kind::Go;
    }
    if has("package.json") {
        return read_node(root);
    }
    if let Some(kind) = read_python(root) {
        return kind;
    }
    let makefile = ["GNUmakefile", "makefile", "Makefile"].iter().find_map(|name| read(root, name));
    if makefile.is_some_and(|text| has_target(&text, "test")) {
        return Kind::Make;
    }
    for folder in ["test", "tests", "t", "."] {
        if holds(&root.join(folder), |name| name.ends_with(".bats")) {
            return Kind::Bats;
        }
        if folder != "." && holds(&root.join(folder), |name| name.ends_with(".t")) {
            return Kind::Tap;
        }
    }
    Kind::Generic
}

fn read_node(root: &Path) -> Kind {
    let package = read(root, "package.json")
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let script = package
        .as_ref()
        .and_then(|package| package.pointer("/scripts/test"))
        .and_then(serde_json::Value::as_str);
    match script {
        // What `npm init` writes is no test.
        Some(script) if !script.contains("no test specified") => Kind::Npm,
        _ => Kind::Node,
    }
}

/// Tells whether a folder's package.json names packages that have to be installed.
pub fn needs_packages(root: &Path) -> bool {
    let package = read(root, "package.json")
        .and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
    let named = |key| {
        let list = package.as_ref().and_then(|package| package.get(key));
        list.and_then(serde_json::Value::as_object).is_some_and(|list| !list.is_empty())
    };
    named("dependencies") || named("devDependencies")
}

/// Tells whether the tests of a folder find their modules in `lib`.
pub fn has_lib(root: &Path) -> bool {
    root.join("lib").is_dir()
}

fn read_python(root: &Path) -> Option<Kind> {
    let has = |name: &str| root.join(name).symlink_metadata().is_ok();
    let says = |name: &str| read(root, name).is_some_and(|text| text.contains("pytest"));
    let configured = has("pytest.ini") || has("conftest.py") || has("tests/conftest.py");
    let named = ["pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt"]
        .iter()
        .chain(&["requirements-dev.txt", "dev-requirements.txt", "Pipfile", "noxfile.py"])
        .any(|name| says(name));
    let python = ["pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "requirements.txt"];
    let is_test = |name: &str| {
        name.ends_with("_test.py") || (name.starts_with("test") && name.ends_with(".py"))
    };
    let tests: Vec<String> = ["tests", "test", "."]
        .iter()
        .flat_map(|folder| names(&root.join(folder)).into_iter().map(move |n| (folder, n)))
        .filter(|(_, name)| is_test(name))
        .filter_map(|(folder, name)| read(&root.join(folder), &name))
        .collect();
    if configured || named {
        return Some(Kind::Pytest);
    }
    if tests.is_empty() {
        return python.iter().any(|name| has(name)).then_some(Kind::Pytest);
    }
    let unittest = tests.iter().all(|text| text.contains("unittest"));
    Some(if unittest { Kind::Unittest } else { Kind::Pytest })
}

/// Guesses from a check's text and the project which runner's results will be found.
pub fn guess_runner(check: &str, project: Kind) -> Option<&'static str> {
    let words: Vec<&str> = check
        .split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .filter(|word| !word.is_empty())
        .collect();
    let has = |word: &str| words.contains(&word);
    let follows = |a: &str, b: &str| words.windows(2).any(|pair| pair == [a, b]);
    let named = [
        (has("pytest") || has("py.test"), "pytest"),
        (has("unittest"), "unittest"),
        (has("nextest"), "nextest"),
        (follows("cargo", "test") || follows("cargo", "t"), "cargo"),
        (follows("go", "test"), "go"),
        (follows("node", "--test"), "node"),
        (has("bats") || has("prove"), "tap"),
        (has("rspec"), "rspec"),
        (has("jest"), "jest"),
        (has("vitest"), "vitest"),
        (has("mocha"), "mocha"),
        (has("phpunit"), "phpunit"),
        (has("ctest"), "ctest"),
        (has("mvn") || has("mvnw") || has("gradle") || has("gradlew"), "junit"),
    ];
    if let Some((_, runner)) = named.iter().find(|(holds, _)| *holds) {
        return Some(runner);
    }
    let wrapped = ["npm", "pnpm", "yarn", "make", "tox", "nox", "just"].iter().any(|w| has(w));
    match project {
        _ if !wrapped => None,
        Kind::Pytest | Kind::Unittest | Kind::Cargo | Kind::Nextest | Kind::Go | Kind::Node => {
            Some(project.name())
        }
        _ => None,
    }
}

/// Reads the start of a file, where it is one.
fn read(root: &Path, name: &str) -> Option<String> {
    let bytes = foreign::read_start(&root.join(name), Links::Follow, 256 * 1024).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn names(folder: &Path) -> Vec<String> {
    let listing = std::fs::read_dir(folder).into_iter().flatten().flatten().take(2000);
    listing.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn holds(folder: &Path, fits: impl Fn(&str) -> bool) -> bool {
    names(folder).iter().any(|name| fits(name))
}

fn has_target(makefile: &str, target: &str) -> bool {
    makefile.lines().any(|line| {
        line.split_once(':').is_some_and(|(targets, rest)| {
            !rest.starts_with('=') && targets.split_whitespace().any(|name| name == target)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(files: &[(&str, &str)]) -> Kind {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        read_kind(dir.path())
    }

    #[test]
    fn every_kind_is_found_by_what_marks_it() {
        let pytest = "[tool.pytest.ini_options]\n";
        for (files, kind) in [
            (vec![("pyproject.toml", pytest)], Kind::Pytest),
            (vec![("tests/test_a.py", "def test_a(): pass\n")], Kind::Pytest),
            (vec![("test_a.py", "import unittest\n")], Kind::Unittest),
            (vec![("Cargo.toml", "")], Kind::Cargo),
            (vec![("Cargo.toml", ""), (".config/nextest.toml", "")], Kind::Nextest),
            (vec![("go.mod", "module x\n")], Kind::Go),
            (vec![("package.json", r#"{"scripts":{"test":"jest"}}"#)], Kind::Npm),
            (
                vec![(
                    "package.json",
                    r#"{"scripts":{"test":"echo \"Error: no test specified\""}}"#,
                )],
                Kind::Node,
            ),
            (vec![("package.json", "{")], Kind::Node),
            (vec![("Makefile", "all: x\ntest: all\n\ttrue\n")], Kind::Make),
            (vec![("Makefile", "test:=1\n")], Kind::Generic),
            (vec![("test/a.bats", "")], Kind::Bats),
            (vec![("t/a.t", "")], Kind::Tap),
            (vec![("README", "")], Kind::Generic),
        ] {
            assert_eq!(kind_of(&files), kind, "{files:?}");
        }
    }

    #[test]
    fn the_runner_is_read_from_the_text_before_the_project() {
        assert_eq!(guess_runner("python -m pytest -q", Kind::Generic), Some("pytest"));
        assert_eq!(guess_runner("cargo test --workspace", Kind::Npm), Some("cargo"));
        assert_eq!(guess_runner("make test", Kind::Go), Some("go"));
        assert_eq!(guess_runner("bundle exec rspec", Kind::Generic), Some("rspec"));
        assert_eq!(guess_runner("./mvnw -q test", Kind::Generic), Some("junit"));
        assert_eq!(guess_runner("./check.sh", Kind::Go), None);
        assert_eq!(guess_runner("npm test", Kind::Npm), None);
    }
}
