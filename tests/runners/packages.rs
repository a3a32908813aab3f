//! The JavaScript runners, several versions of each, installed once below `target/`.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

const PACKAGES: [&str; 7] = [
    "jest@30",
    "jest29@npm:jest@29",
    "mocha@12",
    "mocha10@npm:mocha@10",
    "vitest@4",
    "vitest3@npm:vitest@3",
    "vitest2@npm:vitest@2",
];

/// Gives a project a link to the folder that holds all packages.
pub(super) fn link(project: &Path) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools").join("js-runners");
    fs::create_dir_all(&folder).unwrap();
    // Tests run at the same time, in threads and in processes.
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if !folder.join("installed").exists() {
        fs::write(folder.join("package.json"), "{\"name\": \"js-runners\"}").unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--legacy-peer-deps"])
            .args(PACKAGES);
        assert!(npm.current_dir(&folder).status().unwrap().success());
        fs::write(folder.join("installed"), "").unwrap();
    }
    std::os::unix::fs::symlink(folder.join("node_modules"), project.join("node_modules")).unwrap();
}
