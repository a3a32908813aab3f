//! The receipt on a real disk, as another program sees it: changed, cut, shared, killed.

#![expect(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

use loopexec::error::Kind;
use loopexec::receipt::format::{Head, RUN_END};
use loopexec::receipt::reader::{self, Break, RECEIPT, verify_chain};
use loopexec::receipt::recover::{RECOVERED, recover};
use loopexec::receipt::redact::Redactor;
use loopexec::receipt::rundir::{DEFAULT_DIR, Home, RunDir};
use loopexec::receipt::writer::{Options, Writer};
use loopexec::receipt::{blobs, disk::Durability, secrets};
use serde_json::{Map, Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

fn body(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn home(tree: &Path) -> Home {
    Home::create(tree, Path::new(DEFAULT_DIR)).unwrap()
}

/// Writes a run of twelve events and returns its folder.
fn twelve_events(tree: &Path) -> RunDir {
    let home = home(tree);
    let run = home.create_run("R").unwrap();
    let lock = home.acquire_lock("R").unwrap();
    let mut writer = Writer::create(&run, &lock, Options::default()).unwrap();
    writer.append("run_start", body(json!({"tool": "loopexec"}))).unwrap();
    for n in 1..=10 {
        writer.append("observed", body(json!({"iteration": n, "failing": ["a", "é"]}))).unwrap();
    }
    writer.append_final(body(json!({"halt_reason": "no_progress_detected"}))).unwrap();
    run
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

#[test]
fn a_whole_receipt_is_verified_and_every_flipped_byte_is_refused_at_its_line() {
    let tree = tempfile::tempdir().unwrap();
    let run = twelve_events(tree.path());
    let facts = verify_chain(run.path()).unwrap();
    assert_eq!((facts.events, facts.ended, &*facts.run_id), (12, true, "R"));
    let good = std::fs::read(run.receipt()).unwrap();
    assert_eq!(facts.bytes, good.len() as u64);

    let copy = tree.path().join("copy.jsonl");
    let mut line = 1;
    for place in 0..good.len() {
        for with in [good[place] ^ 1, b'\n', 0] {
            if with == good[place] {
                continue;
            }
            let mut bytes = good.clone();
            bytes[place] = with;
            std::fs::write(&copy, &bytes).unwrap();
            let broken = verify_chain(&copy).unwrap_err();
            assert_eq!(broken.line, line, "byte {place} as {with}: {broken:?}");
        }
        line += u64::from(good[place] == b'\n');
    }
}

#[test]
fn every_line_removed_doubled_or_swapped_is_refused_at_its_line() {
    let tree = tempfile::tempdir().unwrap();
    let run = twelve_events(tree.path());
    let good = lines(&std::fs::read(run.receipt()).unwrap());
    let refused_at = |lines: &[Vec<u8>]| {
        std::fs::write(run.receipt(), lines.concat()).unwrap();
        let broken = verify_chain(run.path()).unwrap_err();
        assert_eq!(broken.how, Break::Altered);
        usize::try_from(broken.line).unwrap()
    };
    for n in 0..good.len() {
        let mut doubled = good.clone();
        doubled.insert(n, good[n].clone());
        assert_eq!(refused_at(&doubled), n + 2);
        if n + 1 < good.len() {
            let mut removed = good.clone();
            removed.remove(n);
            assert_eq!(refused_at(&removed), n + 1);
        }
        for other in n + 1..good.len() {
            let mut swapped = good.clone();
            swapped.swap(n, other);
            assert_eq!(refused_at(&swapped), n + 1);
        }
    }
}

#[test]
fn a_tail_cut_at_any_byte_is_incomplete_and_no_change() {
    let tree = tempfile::tempdir().unwrap();
    let run = twelve_events(tree.path());
    let good = std::fs::read(run.receipt()).unwrap();
    for cut in 0..good.len() {
        std::fs::write(run.receipt(), &good[..cut]).unwrap();
        match verify_chain(run.path()) {
            Ok(facts) => assert!(!facts.ended && good[cut - 1] == b'\n', "{cut}"),
            Err(broken) => {
                assert_eq!(broken.how, Break::Torn, "{cut}");
                let newlines = good[..cut].iter().filter(|b| **b == b'\n').count();
                assert_eq!(broken.line, newlines as u64 + 1);
                let error = loopexec::error::Error::from(broken);
                assert_eq!(error.detail, Some("incomplete"));
            }
        }
    }
}

#[test]
fn a_torn_receipt_is_taken_up_and_the_tail_kept_beside_it() {
    let tree = tempfile::tempdir().unwrap();
    let run = twelve_events(tree.path());
    let good = std::fs::read(run.receipt()).unwrap();
    let home = home(tree.path());
    let lock = home.acquire_lock("R").unwrap();
    let last = good[..good.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for (n, cut) in (last + 1..good.len()).step_by(37).enumerate() {
        std::fs::write(run.receipt(), &good[..cut]).unwrap();
        for entry in std::fs::read_dir(run.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().contains("torn") {
                std::fs::remove_file(path).unwrap();
            }
        }
        let mut recovered = recover(&run, &lock, None, Options::default()).unwrap();
        assert_eq!(recovered.torn.len(), 1, "{n}");
        let kept = std::fs::read(run.path().join(&recovered.torn[0].file)).unwrap();
        assert_eq!(kept, &good[last..cut]);
        recovered.writer.append_final(Map::new()).unwrap();
        let facts = verify_chain(run.path()).unwrap();
        assert_eq!((facts.events, facts.ended), (13, true));
        let event = reader::read(run.path()).unwrap().nth(11).unwrap().unwrap();
        assert_eq!(event.kind, RECOVERED);
        assert_eq!(event.body["bytes"], json!(cut - last));
    }
    // An ended run that goes on has events after its run_end, and ends again.
    let mut again = recover(&run, &lock, None, Options::default()).unwrap();
    assert!(again.facts.as_ref().unwrap().ended && again.torn.is_empty());
    again.writer.append("run_start", Map::new()).unwrap();
    assert!(!verify_chain(run.path()).unwrap().ended);
}

#[test]
fn what_is_no_receipt_is_refused_in_a_sentence_without_waiting() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join(RECEIPT);
    assert_eq!(verify_chain(&path).unwrap_err().how, Break::Unreadable);
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(verify_chain(&path).unwrap_err().how, Break::Unreadable);
    std::fs::remove_file(&path).unwrap();
    // A sparse file without a newline must cost neither time nor memory.
    std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let broken = verify_chain(&path).unwrap_err();
    assert_eq!((broken.how, broken.line), (Break::Altered, 1));
    std::fs::write(&path, "").unwrap();
    assert_eq!(verify_chain(&path).unwrap_err().how, Break::Torn);
    std::fs::write(&path, "[".repeat(100_000) + "\n").unwrap();
    assert_eq!(verify_chain(&path).unwrap_err().line, 1);
}

#[test]
fn a_second_writer_is_refused() {
    let tree = tempfile::tempdir().unwrap();
    let home = home(tree.path());
    let _lock = home.acquire_lock("R").unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_writes", "--ignored", "--nocapture"])
        .env("RECEIPT_TREE", tree.path())
        .output()
        .unwrap();
    assert!(!child.status.success());
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(said.contains("locked") && said.contains(&std::process::id().to_string()), "{said}");
}

#[test]
fn a_receipt_removed_or_replaced_under_the_run_takes_no_event() {
    let tree = tempfile::tempdir().unwrap();
    let home = home(tree.path());
    let lock = home.acquire_lock("R").unwrap();
    for id in ["R", "S"] {
        let run = home.create_run(id).unwrap();
        let mut writer = Writer::create(&run, &lock, Options::default()).unwrap();
        writer.append("run_start", Map::new()).unwrap();
        std::fs::remove_file(run.receipt()).unwrap();
        if id == "S" {
            std::fs::write(run.receipt(), "").unwrap();
        }
        assert_eq!(writer.append_final(Map::new()).unwrap_err().kind, Kind::WorkspaceInvalid);
    }
}

#[test]
fn events_over_the_line_target_keep_their_large_values_in_blobs() {
    let tree = tempfile::tempdir().unwrap();
    let home = home(tree.path());
    let lock = home.acquire_lock("R").unwrap();
    let run = home.create_run("R").unwrap();
    let mut writer = Writer::create(&run, &lock, Options::default()).unwrap();
    let ids: Vec<String> = (0..5000).map(|n| format!("tests/test_{n}.py::test")).collect();
    let own = body(json!({"collected": ids, "verdict": "fail"}));
    writer.append("baseline", own.clone()).unwrap();
    let line = std::fs::read(run.receipt()).unwrap();
    assert!(line.len() <= 16 * 1024, "{}", line.len());
    let event = reader::read(run.path()).unwrap().next().unwrap().unwrap();
    assert_eq!(event.body["verdict"], "fail");
    assert_eq!(event.body["collected"]["count"], 5000);
    let store = blobs::BlobStore::new(run.blobs(), Durability::Event);
    assert_eq!(blobs::resolve(Value::Object(event.body), &store).unwrap(), Value::Object(own));
    let forged = body(json!({"x": {"blob": "sha256:00", "bytes": 1, "count": 1}}));
    assert_eq!(writer.append("observed", forged).unwrap_err().kind, Kind::Internal);
    assert!(writer.append("observed", body(json!({"x": 0.5}))).is_err());
    assert_eq!(writer.head().unwrap().seq, 0);
}

#[test]
fn no_secret_reaches_the_disk() {
    let tree = tempfile::tempdir().unwrap();
    let home = home(tree.path());
    let lock = home.acquire_lock("R").unwrap();
    let run = home.create_run("R").unwrap();
    let environment = [("SOME_TOKEN".into(), "hunter2/hunter2".into())];
    let redactor = Redactor::new(secrets::DEFAULT_NAMES, environment).unwrap();
    let options = Options { redactor: Some(Arc::new(redactor)), ..Options::default() };
    let mut writer = Writer::create(&run, &lock, options).unwrap();
    let output = "x hunter2/hunter2 aHVudGVyMi9odW50ZXIy ".repeat(1000);
    writer.append("observed", body(json!({"output": output, "hunter2/hunter2": 1}))).unwrap();
    writer.write_blob(output.as_bytes()).unwrap();
    writer.append_final(body(json!({"why": "hunter2%2Fhunter2"}))).unwrap();
    let mut files = vec![run.receipt()];
    files.extend(std::fs::read_dir(run.blobs()).unwrap().map(|entry| entry.unwrap().path()));
    assert_eq!(files.len(), 3);
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVy"));
        assert!(text.contains("[redacted:SOME_TOKEN]"));
    }
}

#[test]
fn a_writer_killed_at_any_time_has_lost_no_acknowledged_event() {
    let tree = tempfile::tempdir().unwrap();
    let home = home(tree.path());
    home.create_run("R").unwrap();
    let run = home.open_run("R").unwrap();
    let mut acknowledged = Vec::new();
    let mut random = 0x2545_F491_4F6C_DD1D_u64 ^ u64::from(std::process::id());
    for _ in 0..40 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes", "--ignored", "--nocapture"])
            .env("RECEIPT_TREE", tree.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let wait = std::time::Duration::from_micros(random % 20_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(wait);
            child.kill().unwrap();
            child.wait().unwrap();
        });
        while let Some(Ok(line)) = said.next() {
            let Some((_, rest)) = line.split_once("ack ") else { continue };
            // The pipe too may end inside a line.
            if let Some((seq, sha256)) = rest.split_once(' ')
                && sha256.len() == 64
            {
                let seq = seq.parse().unwrap();
                acknowledged.push(Head { seq, sha256: sha256.to_owned() });
            }
        }
        killer.join().unwrap();
    }
    let lock = home.acquire_lock("R").unwrap();
    recover(&run, &lock, acknowledged.last(), Options::default())
        .unwrap()
        .writer
        .append_final(Map::new())
        .unwrap();
    let held: Vec<Head> =
        reader::read(run.path()).unwrap().map(|event| event.unwrap().head()).collect();
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
    assert!(acknowledged.iter().all(|head| held.contains(head)));
    let facts = verify_chain(run.path()).unwrap();
    assert!(facts.ended && facts.events as usize == held.len());
    let last = reader::read(run.path()).unwrap().last().unwrap().unwrap();
    assert_eq!(last.kind, RUN_END);
}

#[test]
#[ignore = "the child of the tests above"]
fn child_that_writes() {
    let Some(tree) = std::env::var_os("RECEIPT_TREE") else { return };
    let home = home(Path::new(&tree));
    let lock = home.acquire_lock("R").map_err(|e| format!("{e} {:?}", e.detail)).unwrap();
    let run = home.open_run("R").unwrap();
    let mut writer = if run.receipt().exists() {
        recover(&run, &lock, None, Options::default()).unwrap().writer
    } else {
        Writer::create(&run, &lock, Options::default()).unwrap()
    };
    let mut out = std::io::stdout();
    for n in 0.. {
        let large = "x".repeat(n * 1013 % 40_000);
        let head = writer.append("observed", body(json!({"n": n, "large": large}))).unwrap();
        out.write_all(format!("ack {} {}\n", head.seq, head.sha256).as_bytes()).unwrap();
        out.flush().unwrap();
    }
}
