//! The runners that entries need: from PyPI and npm by fixed versions, once below `target/`; what
//! Debian packages must be there. What cannot be had fails the test: it is there to use it.

use crate::entry::Runner;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const PYTHON: [&str; 3] = ["pytest==9.2.0", "pytest-cov==7.1.0", "pytest-rerunfailures==16.7"];
const JEST: [&str; 1] = ["jest@30.5.2"];
const VITEST: [&str; 1] = ["vitest@4.1.12"];
const MOCHA: [&str; 1] = ["mocha@12.0.3"];
const TYPESCRIPT: [&str; 1] = ["typescript@5.9.3"];

/// Where an entry's project stands and what it finds there.
pub(crate) struct Tools {
    /// Folders in front of PATH.
    pub(crate) path: Vec<PathBuf>,
    /// The folder that projects stand in, where they find their packages upward; else any will do.
    pub(crate) projects: Option<PathBuf>,
    /// Further variables, for the entry's setup.
    pub(crate) env: Vec<(&'static str, PathBuf)>,
}

/// Returns the tools of a runner, installing what is not there yet.
pub(crate) fn of(runner: Runner) -> Tools {
    // python3 writes the small edits of many scripts and runs pytest: one for all of them.
    let venv = python();
    let mut tools =
        Tools { path: vec![venv.join("bin")], projects: None, env: vec![("CORPUS_VENV", venv)] };
    let modules = match runner {
        Runner::Jest => Some(npm("jest", &JEST)),
        Runner::Vitest => Some(npm("vitest", &VITEST)),
        Runner::Mocha => Some(npm("mocha", &MOCHA)),
        Runner::Tsc => Some(npm("typescript", &TYPESCRIPT)),
        _ => None,
    };
    if let Some(folder) = modules {
        let projects = folder.join("projects");
        fs::create_dir_all(&projects).unwrap();
        tools.path.insert(0, folder.join("node_modules/.bin"));
        tools.env.push(("CORPUS_NODE_MODULES", folder.join("node_modules")));
        tools.projects = Some(projects);
    }
    for (program, package) in needed(runner) {
        assert!(has(program), "{program} is missing: install {package}");
    }
    tools
}

/// What a runner needs on PATH, and the package that brings it.
fn needed(runner: Runner) -> &'static [(&'static str, &'static str)] {
    match runner {
        Runner::Pytest | Runner::Unittest | Runner::Shell => &[],
        Runner::Cargo => &[("cargo", "rustup"), ("rustup", "rustup")],
        Runner::Nextest => &[("cargo", "rustup"), ("cargo-nextest", "cargo-nextest")],
        Runner::Go => &[("go", "golang-go")],
        Runner::Java => &[
            ("javac", "default-jdk-headless"),
            ("/usr/share/java/junit4.jar", "junit4"),
            ("/usr/share/java/hamcrest.jar", "libhamcrest-java"),
        ],
        Runner::Node
        | Runner::Jest
        | Runner::Vitest
        | Runner::Mocha
        | Runner::Npm
        | Runner::Tsc => &[("node", "nodejs"), ("npm", "npm")],
        Runner::Rspec => &[("rspec", "ruby-rspec")],
        Runner::Phpunit => &[("phpunit", "phpunit")],
        Runner::Ctest => &[("ctest", "cmake"), ("g++", "g++"), ("make", "make")],
        Runner::Gtest => {
            &[("g++", "g++"), ("make", "make"), ("/usr/include/gtest/gtest.h", "libgtest-dev")]
        }
        Runner::Bats => &[("bats", "bats")],
        Runner::Make => &[("make", "make")],
        Runner::Git => &[("git", "git")],
    }
}

fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    // Joining an absolute path gives that path.
    std::env::split_paths(&paths).any(|folder| folder.join(program).exists())
}

fn python() -> PathBuf {
    let folder = installed("corpus-python", &PYTHON, |folder| {
        run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(folder));
        let mut pip = Command::new(folder.join("venv/bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(PYTHON);
        pip
    });
    folder.join("venv")
}

fn npm(name: &str, packages: &[&str]) -> PathBuf {
    installed(&format!("corpus-{name}"), packages, |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(folder);
        npm.args(packages).current_dir(folder);
        npm
    })
}

/// Makes a folder with what a command puts there, unless an earlier test has with these versions.
fn installed(name: &str, packages: &[&str], install: impl FnOnce(&Path) -> Command) -> PathBuf {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools");
    let folder = tools.join(name);
    fs::create_dir_all(&tools).unwrap();
    let lock = File::create(tools.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let done = folder.join("installed");
    let versions = packages.join("\n");
    if fs::read_to_string(&done).ok().as_deref() != Some(&versions) {
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir(&folder).unwrap();
        run(&mut install(&folder));
        fs::write(done, versions).unwrap();
    }
    folder
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
