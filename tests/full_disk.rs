//! Full and read-only disks: a reason, a final event, the caller's tree untouched. Needs root to
//! mount.

#[path = "cli/bench.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest of it")]
mod bench;

use bench::{Bench, Ran, assert_untouched};
use loopexec::domain::observation::Observation;
use loopexec::receipt::record::{Compare, Folded, Step, fold};
use loopexec::receipt::rundir::RunDir;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::path::{Path, PathBuf};

/// A small disk that goes away with the test.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path, options: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        mount(Some("loopexec-test"), at, Some("tmpfs"), MsFlags::empty(), Some(options))
            .unwrap_or_else(|e| panic!("this test mounts a small disk and needs root: {e}"));
        Self(at.to_owned())
    }

    fn read_only(&self) {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        // What git tidies up in the background may hold a file open for a moment.
        let start = std::time::Instant::now();
        while let Err(e) = mount(None::<&str>, &self.0, None::<&str>, flags, None::<&str>) {
            assert!(e == Errno::EBUSY && start.elapsed().as_secs() < 20, "{e}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Takes all but so many KiB.
    fn fill_but(&self, kib: usize) {
        let free = nix::sys::statvfs::statvfs(&self.0).unwrap();
        let bytes = (free.blocks_available() * free.fragment_size()) as usize;
        let file = self.0.join("filler");
        std::fs::write(file, vec![1; bytes.saturating_sub(kib * 1024)]).unwrap();
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn read(run: &Path) -> (Folded, Vec<Observation>) {
    let run = RunDir::open(run).unwrap();
    let mut observed = Vec::new();
    let folded = fold(&run, Compare::Strict, &mut |step| {
        if let Step::Observed(observation) = step {
            observed.push(observation.clone());
        }
        Ok(())
    });
    (folded.unwrap(), observed)
}

fn assert_storage(ran: &Ran) {
    assert_eq!((ran.code, &*ran.reason()), (Some(30), "storage_exhausted"), "{ran:#?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    assert!(!ran.json()["why"].as_str().unwrap().is_empty(), "{ran:#?}");
}

/// A loop of which every exec prints much that no other prints.
fn talker(bench: &Bench, exec: &str) {
    bench.write("agent.sh", exec);
    bench.loop_file(concat!(
        "exec: sh agent.sh\n",
        "check: test -f done.txt\n",
        "limits: { iterations: 200, no_progress: 200, same_failure: 200 }\n",
    ));
    bench.commit();
}

#[test]
fn a_full_disk_under_the_receipt_ends_the_run_with_its_final_event_and_it_can_go_on() {
    let bench = Bench::new();
    // Each iteration adds an incompressible file, which goes into the store of snapshots.
    let flag = bench.beside("go");
    talker(
        &bench,
        &format!(
            "test -e '{}' && touch done.txt; head -c 100000 /dev/urandom > big$LOOPEXEC_ITERATION",
            flag.display()
        ),
    );
    let disk = Disk::mount(&bench.path(".loopexec"), "size=3m");
    let before = bench.tree_hash();
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_storage(&ran);
    assert_untouched(&before, &bench.tree_hash());
    let (folded, observed) = read(&bench.path(".loopexec/runs/R"));
    assert_eq!(folded.end.unwrap().halt.reason.as_str(), "storage_exhausted");
    assert!(observed.len() > 1, "{}", observed.len());

    // With room again it goes on from where it was.
    let options = Some("size=64m");
    mount(None::<&str>, &disk.0, None::<&str>, MsFlags::MS_REMOUNT, options).unwrap();
    std::fs::write(flag, "").unwrap();
    let ran = bench.run_loop(&["--resume", "R"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert!(bench.path("done.txt").exists());
    read(&bench.path(".loopexec/runs/R"));
}

#[test]
fn a_disk_without_room_for_a_receipt_starts_nothing() {
    for kib in [0, 8, 40, 80, 120, 160, 200, 240] {
        let bench = Bench::new();
        talker(&bench, "touch done.txt");
        let disk = Disk::mount(&bench.path(".loopexec"), "size=1m");
        disk.fill_but(kib);
        let before = bench.tree_hash();
        let ran = bench.run_loop(&["--run-id", "R"]);
        if ran.code == Some(10) {
            assert!(kib >= 160, "{kib}: {ran:#?}");
            continue;
        }
        assert_storage_or_error(&ran, kib);
        assert_untouched(&before, &bench.tree_hash());
        // Either there is no run, or one that ends.
        if bench.path(".loopexec/runs/R").exists() {
            let (folded, _) = read(&bench.path(".loopexec/runs/R"));
            assert_eq!(folded.end.unwrap().halt.reason.as_str(), "storage_exhausted", "{kib}");
        }
        disk.free();
        std::fs::remove_dir_all(bench.path(".loopexec/runs/R")).ok();
        let ran = bench.run_loop(&["--run-id", "S"]);
        assert_eq!(ran.code, Some(10), "{kib}: {ran:#?}");
    }
}

fn assert_storage_or_error(ran: &Ran, kib: usize) {
    assert_eq!(ran.code, Some(30), "{kib}: {ran:#?}");
    assert!(!ran.stderr.contains("panicked"), "{kib}: {ran:#?}");
    assert!(ran.stdout.contains("storage_exhausted"), "{kib}: {ran:#?}");
}

#[test]
fn a_full_disk_under_the_workspace_is_seen_by_the_step_that_filled_it() {
    let mut bench = Bench::new();
    let disk = Disk::mount(&bench.beside("small"), "size=4m");
    bench.env("LOOPEXEC_CACHE", disk.0.to_str().unwrap());
    let fill = "head -c 9000000 /dev/zero > filler 2>> said; cat said; ";
    // exec fails by its own rule three times; nothing is delivered.
    talker(&bench, &format!("{fill} exit 7"));
    let before = bench.tree_hash();
    let ran = bench.run_loop(&["--run-id", "exec"]);
    assert_untouched(&before, &bench.tree_hash());
    let (folded, observed) = read(&bench.path(".loopexec/runs/exec"));
    let end = folded.end.unwrap().halt.reason;
    assert!(["execution_failure", "storage_exhausted"].contains(&end.as_str()), "{ran:#?}");
    assert_eq!(ran.reason(), end.as_str());
    assert!([Some(30), Some(40)].contains(&ran.code), "{ran:#?}");
    assert!(!observed.is_empty());

    // setup says what it met, and the run does not start.
    bench.loop_file(&format!("setup: {fill} exit 1\nexec: 'true'\ncheck: test -f done.txt\n"));
    bench.commit();
    let before = bench.tree_hash();
    let ran = bench.run_loop(&["--run-id", "setup"]);
    assert_eq!(ran.code, Some(30), "{ran:#?}");
    assert!(["workspace_invalid", "storage_exhausted"].contains(&&*ran.reason()), "{ran:#?}");
    assert_untouched(&before, &bench.tree_hash());
    assert!(read(&bench.path(".loopexec/runs/setup")).0.end.is_some());
}

#[test]
fn a_workspace_that_does_not_fit_ends_the_run_before_anything_ran() {
    let mut bench = Bench::new();
    let disk = Disk::mount(&bench.beside("small"), "size=2m");
    bench.env("LOOPEXEC_CACHE", disk.0.to_str().unwrap());
    for n in 0..4 {
        bench.write(&format!("big{n}"), vec![n; 1_000_000]);
    }
    talker(&bench, "touch done.txt");
    let before = bench.tree_hash();
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_storage(&ran);
    assert_untouched(&before, &bench.tree_hash());
    assert!(read(&bench.path(".loopexec/runs/R")).0.end.is_some());
}

#[test]
fn a_delivery_that_does_not_fit_leaves_the_tree_as_it_was_and_can_be_finished() {
    let bench = Bench::plain();
    let disk = Disk::mount(&bench.root(), "size=8m");
    bench.git(&["init", "-q", "-b", "main"]);
    bench.write("README.md", "a project\n");
    let flag = bench.beside("filled");
    // The loop's result takes room in the store, and again where it is staged.
    bench.write("agent.sh", "head -c 400000 /dev/urandom > a; head -c 400000 /dev/urandom > b\n");
    let wait = format!("test -f a || exit 1; test -e '{}' || sleep 3\n", flag.display());
    bench.write("check.sh", wait);
    bench.loop_file("exec: sh agent.sh\ncheck: sh check.sh\n");
    bench.commit();
    let before = bench.tree_hash();
    let started = bench.start(&["run", "--json", "--run-id", "R"]);
    let live = bench.path(".loopexec/runs/R/live.json");
    while !std::fs::read_to_string(&live).is_ok_and(|text| text.contains("confirmation")) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    disk.fill_but(300);
    std::fs::write(&flag, "").unwrap();
    let ran = started.wait();
    assert_storage(&ran);
    disk.free();
    let root = |mut tree: std::collections::BTreeMap<PathBuf, String>| {
        tree.remove(Path::new("filler"));
        tree
    };
    assert_untouched(&before, &root(bench.tree_hash()));
    assert!(read(&bench.path(".loopexec/runs/R")).0.end.is_some());

    let ran = bench.run_loop(&["--resume", "R"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(std::fs::metadata(bench.path("a")).unwrap().len(), 400_000);
    assert_eq!(std::fs::metadata(bench.path("b")).unwrap().len(), 400_000);
}

#[test]
fn a_read_only_tree_or_cache_is_refused_in_one_sentence() {
    let mut bench = Bench::plain();
    let disk = Disk::mount(&bench.root(), "size=4m");
    bench.git(&["init", "-q", "-b", "main"]);
    talker(&bench, "touch done.txt");
    disk.read_only();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(30), "{ran:#?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:#?}");
    let error = ran.json()["errors"][0].clone();
    assert_eq!(error["kind"], "workspace_invalid", "{error}");
    assert!(error.to_string().contains(".loopexec"), "{error}");
    drop(disk);

    let cache = Disk::mount(&bench.beside("readonly"), "size=1m");
    cache.read_only();
    bench.env("LOOPEXEC_CACHE", cache.0.to_str().unwrap());
    bench.git(&["init", "-q", "-b", "main"]);
    talker(&bench, "touch done.txt");
    let ran = bench.run_loop(&["--run-id", "R"]);
    assert_eq!((ran.code, &*ran.reason()), (Some(30), "workspace_invalid"), "{ran:#?}");
    assert!(read(&bench.path(".loopexec/runs/R")).0.end.is_some());
    assert!(!bench.path("done.txt").exists());
}

#[test]
fn a_full_disk_leaves_no_half_of_a_block_in_the_file_of_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::mount(&folder.path().join("disk"), "size=64k");
    let file = disk.0.join("output");
    // The last page of the disk is the file's own: some of a block would still fit.
    std::fs::write(&file, format!("before={}\n", "x".repeat(3800))).unwrap();
    disk.fill_but(0);
    let before = std::fs::read(&file).unwrap();
    let values = [("long".to_owned(), "y".repeat(8000))];
    let error = loopexec::ci::github::files::append_values(&file, &values).unwrap_err();
    assert_eq!(error.kind, loopexec::error::Kind::StorageExhausted, "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    disk.free();
    loopexec::ci::github::files::append_values(&file, &values).unwrap();
    assert!(std::fs::read(&file).unwrap().ends_with(b"\n"));
}
