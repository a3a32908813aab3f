//! The receipt on a real file system that is full; needs root, to mount a small one.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it cannot go on")]

use loopexec::error::Kind;
use loopexec::receipt::reader::verify_chain;
use loopexec::receipt::recover::recover;
use loopexec::receipt::rundir::{DEFAULT_DIR, Home};
use loopexec::receipt::state::{LoopState, read_state, write_state};
use loopexec::receipt::writer::{Options, Writer};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

fn body(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

/// Mounts a tmpfs that only this thread sees and that goes with it.
fn small_disk(options: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    unshare(CloneFlags::CLONE_NEWNS).expect("this test needs root");
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
    dir
}

/// Takes every byte of a disk.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path.join("filler")).unwrap();
    for size in [65_536, 4096, 1] {
        while file.write_all(&vec![7; size]).is_ok() {}
    }
}

#[test]
fn on_a_full_disk_the_run_still_gets_its_final_event_and_keeps_its_old_state() {
    let disk = small_disk("size=512k");
    let tree = disk.path();
    let home = Home::create(tree, Path::new(DEFAULT_DIR)).unwrap();
    let lock = home.acquire_lock("R").unwrap();
    let run = home.create_run("R").unwrap();
    let mut writer = Writer::create(&run, &lock, Options::default()).unwrap();
    writer.append("run_start", Map::new()).unwrap();
    let old = LoopState::new("R", "sha256:00", ".loopexec/runs/R");
    write_state(tree, &old, None).unwrap();

    fill(tree);
    let large = body(json!({"failing": vec!["tests/test_a.py::test"; 5000]}));
    let error = writer.append("observed", large).unwrap_err();
    assert_eq!((error.kind, error.detail), (Kind::StorageExhausted, Some("disk_full")));
    let mut events = 1;
    let error = loop {
        match writer.append("observed", body(json!({"text": "x".repeat(3000)}))) {
            Ok(_) => events += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind, error.detail), (Kind::StorageExhausted, Some("disk_full")));
    assert!(events > 10, "{events}");
    let mut new = old.clone();
    new.open_failures = vec!["x".repeat(10_000)];
    let error = write_state(tree, &new, None).unwrap_err();
    assert_eq!(error.kind, Kind::StorageExhausted);
    assert_eq!(read_state(tree).unwrap(), Some(old));

    writer.append_final(body(json!({"why": "y".repeat(7000)}))).unwrap();
    let facts = verify_chain(run.path()).unwrap();
    assert_eq!((facts.ended, facts.events), (true, events + 1));
    let strays = std::fs::read_dir(home.path()).unwrap().count();
    assert_eq!(strays, 3, "only .gitignore, lock and runs");

    std::fs::remove_file(tree.join("filler")).unwrap();
    let mut again = recover(&run, &lock, Some(&facts.head), Options::default()).unwrap();
    again.writer.append_final(Map::new()).unwrap();
    assert!(verify_chain(run.path()).unwrap().ended);
}

#[test]
fn without_inodes_no_blob_is_written_and_the_run_ends_in_order() {
    let disk = small_disk("size=8m,nr_inodes=12");
    let tree = disk.path();
    let home = Home::create(tree, Path::new(DEFAULT_DIR)).unwrap();
    let lock = home.acquire_lock("R").unwrap();
    let run = home.create_run("R").unwrap();
    let mut writer = Writer::create(&run, &lock, Options::default()).unwrap();
    let error = loop {
        let text = "x".repeat(20_000 + writer.head().map_or(0, |head| head.seq as usize));
        if let Err(error) = writer.append("observed", body(json!({"text": text}))) {
            break error;
        }
    };
    assert_eq!(error.kind, Kind::StorageExhausted);
    writer.append_final(Map::new()).unwrap();
    assert!(verify_chain(run.path()).unwrap().ended);
}
