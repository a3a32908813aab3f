//! Feeds any bytes to a whole run as it is read: both streams, cut anywhere, what hooks wrote, and declared
//! reports, for every choice of a runner. It must not panic, and what it says must fit together.
//!
//! This is the way to what has no reader of its own among the others: the words of prove, hook files of
//! PHPUnit and GoogleTest, and the joining of several runners.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopexec::domain::results::Runner;
use loopexec::integrity::results::{Out, Probe, RunnerChoice};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const CHOICES: [RunnerChoice; 12] = [
    RunnerChoice::Auto,
    RunnerChoice::Auto,
    RunnerChoice::One(Runner::Tap),
    RunnerChoice::One(Runner::Junit),
    RunnerChoice::One(Runner::Bats),
    RunnerChoice::One(Runner::Cargo),
    RunnerChoice::One(Runner::Nextest),
    RunnerChoice::One(Runner::Go),
    RunnerChoice::One(Runner::Ctest),
    RunnerChoice::One(Runner::Phpunit),
    RunnerChoice::One(Runner::Pytest),
    RunnerChoice::One(Runner::Maven),
];

/// Files of hooks and reports; those that come first are fed more often.
const FILES: [&str; 6] = [
    "hooks/out/1.jsonl",
    "root/reports/a.xml",
    "hooks/out/2.teamcity",
    "hooks/out/gtest/p.xml",
    "hooks/out/2.junit",
    "hooks/out/premature",
];

/// A folder for all runs of this process: each run clears what the one before it left.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("loopexec-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("root/reports")).unwrap();
    folder
});

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fuzz_target!(|bytes: &[u8]| {
    let [which, how, bytes @ ..] = bytes else { return };
    let choice = CHOICES[usize::from(*which) % CHOICES.len()];
    let (exit_ok, proves) = (how & 1 == 0, how & 2 != 0);
    let globs = ["reports/*.xml".to_owned()];
    let declared = how & 4 != 0 || choice == RunnerChoice::One(Runner::Junit);
    let globs = if declared { &globs[..] } else { &[] };
    let command = if proves { "prove -v" } else { "make test" };
    let hooks = FOLDER.join("hooks");
    let at_root = |_: &str| how & 8 != 0;
    let mut probe = Probe::prepare(choice, globs, &at_root, command, &hooks)
        .unwrap()
        .with_roots(&[Path::new("/w")]);
    let mut parts = bytes.split(|byte| *byte == 0);
    for stream in [Out::Stdout, Out::Stderr] {
        for chunk in parts.next().unwrap_or_default().chunks(usize::from(how >> 4) * 5 + 1) {
            probe.observe(stream, chunk);
        }
    }
    let _ = std::fs::remove_file(FOLDER.join(FILES[1]));
    for (name, part) in FILES.iter().zip(parts) {
        if name.ends_with(".jsonl") {
            let start = b"{\"k\":\"start\",\"runner\":\"pytest\",\"cwd\":\"/w\"}\n";
            write(&FOLDER, name, &[&start[..], part].concat());
        } else {
            write(&FOLDER, name, part);
        }
    }
    let results = probe.collect(&FOLDER.join("root"), exit_ok);
    assert!(
        !results.collected.is_empty() || results.broken.is_some() || !results.problems.is_empty()
    );
    for set in [&results.passed, &results.failed, &results.skipped] {
        assert!(set.is_subset(&results.collected));
    }
    assert!(results.executed.keys().all(|id| results.passed.contains(id)));
    assert!(results.collected.iter().all(|id| id.len() <= 560));
    assert!(results.failures.iter().all(|failure| failure.message.len() <= 4200));
});
