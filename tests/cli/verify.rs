//! `verify`: what a real run left is accepted, and nothing else is.

use crate::bench::{Bench, Ran, events_of};
use loopexec::commands::recorded;
use loopexec::domain::hex::sha256;
use loopexec::error::{Error, Kind};
use loopexec::receipt::format::SUM_TAIL;
use loopexec::receipt::own_words::is_own_word;
use loopexec::receipt::rundir::RunDir;
use std::path::{Path, PathBuf};

/// Runs a loop that mends in its second iteration, with outputs and a setup.
fn ran() -> (Bench, Ran) {
    let bench = Bench::new();
    bench.write("count", "0\n");
    bench.loop_file(
        "setup: 'echo set up'\nexec: 'n=$(cat count); echo $((n + 1)) > count; echo worked'\ncheck: 'echo looked; grep -q 2 count'\n",
    );
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    (bench, ran)
}

/// Copies a run's folder to a place of its own.
fn bundle(bench: &Bench, ran: &Ran) -> PathBuf {
    let to = bench.beside("bundle");
    copy(bench.run_of(ran).path(), &to);
    to
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), &to).unwrap();
        }
    }
}

fn verify(folder: &Path) -> Result<(), Error> {
    let run = RunDir::open(folder)?;
    let verified = recorded::verify(&run, &mut |_| {})?;
    recorded::require_end(&verified.folded)
}

/// Writes other bytes for a receipt and returns how it is refused.
fn refused(folder: &Path, bytes: &[u8], what: &str) -> Error {
    std::fs::write(folder.join("receipt.jsonl"), bytes).unwrap();
    match verify(folder) {
        Ok(()) => panic!("{what} was accepted"),
        Err(error) => error,
    }
}

fn names_line(error: &Error, line: usize) -> bool {
    error.what.contains(&format!("line {line} of the receipt"))
        || error.what.contains(&format!("with line {line},"))
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

#[test]
fn a_whole_run_is_verified_wherever_it_lies_and_nothing_is_written() {
    let (bench, ran) = ran();
    let id = ran.json()["run_id"].as_str().unwrap().to_owned();
    let folder = bundle(&bench, &ran);
    let receipt = folder.join("receipt.jsonl");
    let before = std::fs::read(&receipt).unwrap();
    for args in [
        vec!["verify", "--json"],
        vec!["verify", "--json", "--run-id", &id],
        vec!["verify", "--json", "--run-id", folder.to_str().unwrap()],
        vec!["verify", "--json", "--run-id", receipt.to_str().unwrap()],
    ] {
        let verified = bench.run(&args);
        assert_eq!(verified.code, Some(0), "{verified:#?}");
        let json = verified.json();
        assert_eq!(json["verified"], true);
        assert_eq!(json["recorded"]["halt_reason"], "success_condition_met");
        assert_eq!(json["recorded"]["iterations"], 2);
        assert_eq!(json["run_id"], id.as_str());
        assert!(json["blobs"].as_u64().unwrap() > 4, "{json:#}");
    }
    assert_eq!(std::fs::read(&receipt).unwrap(), before);
    let lock = bench.path(".loopexec/lock");
    assert_eq!(std::fs::read(lock).unwrap(), b"", "the lock was taken");
    let below = bench.path("some/folder");
    std::fs::create_dir_all(&below).unwrap();
    let elsewhere = bench.run(&["verify", "--workdir", below.to_str().unwrap()]);
    assert_eq!(elsewhere.code, Some(0), "{elsewhere:#?}");
}

#[test]
fn a_receipt_under_another_name_is_read_itself() {
    let (bench, ran) = ran();
    let folder = bundle(&bench, &ran);
    let other = folder.join("copy.jsonl");
    let bytes = std::fs::read(folder.join("receipt.jsonl")).unwrap();
    std::fs::write(&other, &bytes[..bytes.len() - 5]).unwrap();
    let cut = bench.run(&["verify", "--json", "--run-id", other.to_str().unwrap()]);
    assert_eq!(cut.code, Some(30), "{cut:#?}");
    assert_eq!(cut.json()["detail"], "incomplete");
}

#[test]
fn no_run_and_no_such_run_are_told_apart() {
    let bench = Bench::new();
    let none = bench.run(&["verify", "--json"]);
    assert_eq!((none.code, &none.json()["detail"]), (Some(30), &"no_run".into()));
    let (bench, _) = ran();
    assert_eq!(bench.run(&["verify", "--run-id", "NOPE"]).code, Some(30));
    assert_eq!(bench.run(&["verify", "--run-id", "a b"]).code, Some(2));
    assert_eq!(bench.run(&["verify", "--run-id", "/no/such/place"]).code, Some(30));
}

#[test]
fn every_flipped_byte_is_found_and_its_line_named() {
    let bench = Bench::new();
    bench.loop_file("exec: 'true'\ncheck: echo looked\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let folder = bundle(&bench, &ran);
    let good = std::fs::read(folder.join("receipt.jsonl")).unwrap();
    verify(&folder).unwrap();
    let mut line = 1;
    let last = lines(&good).len();
    for place in 0..good.len() {
        let mut bytes = good.clone();
        bytes[place] ^= 1 << (place % 8);
        let error = refused(&folder, &bytes, &format!("a flip at {place} in line {line}"));
        let cut = place + 1 == good.len();
        let kind = if cut { Kind::WorkspaceInvalid } else { Kind::ObjectiveUnverified };
        assert_eq!(error.kind, kind, "byte {place} of line {line}: {error}");
        assert!(names_line(&error, line), "byte {place} of line {line}: {error}");
        line += usize::from(good[place] == b'\n');
    }
    assert_eq!(line, last + 1);
}

#[test]
fn every_removed_doubled_or_swapped_line_is_found_and_named() {
    let (bench, ran) = ran();
    let folder = bundle(&bench, &ran);
    let good = std::fs::read(folder.join("receipt.jsonl")).unwrap();
    let all = lines(&good);
    assert!(all.len() > 6);
    for at in 0..all.len() {
        let mut without = all.clone();
        without.remove(at);
        let error = refused(&folder, &without.concat(), &format!("without line {}", at + 1));
        let tail = at + 1 == all.len();
        assert_eq!(error.detail == Some("incomplete"), tail, "{error}");
        assert!(names_line(&error, if tail { at } else { at + 1 }), "{error}");
        let mut twice = all.clone();
        twice.insert(at, all[at]);
        let error = refused(&folder, &twice.concat(), &format!("line {} twice", at + 1));
        assert_eq!(error.kind, Kind::ObjectiveUnverified);
        assert!(names_line(&error, at + 2), "{error}");
        for other in at + 1..all.len() {
            let mut swapped = all.clone();
            swapped.swap(at, other);
            let error = refused(&folder, &swapped.concat(), &format!("{at} and {other} swapped"));
            assert_eq!(error.kind, Kind::ObjectiveUnverified);
            assert!(names_line(&error, at + 1), "{error}");
        }
    }
}

#[test]
fn every_cut_is_incomplete() {
    let (bench, ran) = ran();
    let folder = bundle(&bench, &ran);
    let good = std::fs::read(folder.join("receipt.jsonl")).unwrap();
    let mut ends = Vec::new();
    let mut end = 0;
    for line in lines(&good) {
        ends.extend([end + 1, end + line.len() / 3, end + line.len() - 1]);
        end += line.len();
        ends.push(end);
    }
    ends.pop();
    ends.push(0);
    for end in ends {
        let error = refused(&folder, &good[..end], &format!("cut to {end} bytes"));
        assert_eq!(error.kind, Kind::WorkspaceInvalid, "{end}: {error}");
        assert_eq!(error.detail, Some("incomplete"), "{end}: {error}");
        assert!(error.what.contains("line "), "{end}: {error}");
    }
}

/// Writes every line of a receipt anew after `change`, so that the chain fits.
pub(crate) fn rewrite(receipt: &Path, change: impl Fn(usize, &str) -> String) {
    let text = std::fs::read_to_string(receipt).unwrap();
    let (mut out, mut old, mut new) = (String::new(), None::<String>, None::<String>);
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let mut covered = change(at + 1, &line[..line.len() - SUM_TAIL]);
        if let (Some(old), Some(new)) = (&old, &new) {
            covered = covered.replacen(old, new, 1);
        }
        let made = format!("{covered},\"sum\":\"{}\"}}\n", sha256(covered.as_bytes()));
        old = Some(sha256(line.as_bytes()));
        new = Some(sha256(made.as_bytes()));
        out.push_str(&made);
    }
    std::fs::write(receipt, out).unwrap();
}

#[test]
fn a_decision_that_does_not_follow_is_found_though_the_chain_fits() {
    let (bench, ran) = ran();
    let events = bench.events(&ran);
    let line_of = |kind: &str| 1 + events.iter().position(|e| e["type"] == kind).unwrap();
    for (kind, from, to) in [
        ("observed", r#""path":"count""#, r#""path":".env""#),
        ("iteration", r#""verdict":"fail""#, r#""verdict":"pass""#),
        ("iteration", r#""from":"tip""#, r#""from":"accepted""#),
        ("run_end", r#""reason":"success_condition_met""#, r#""reason":"no_progress_detected""#),
        ("run_end", r#""iterations":2"#, r#""iterations":1"#),
        ("run_start", r#""confirm":2"#, r#""confirm":3"#),
    ] {
        let folder = bundle(&bench, &ran);
        let at = line_of(kind);
        rewrite(&folder.join("receipt.jsonl"), |line, text| {
            if line != at {
                return text.to_owned();
            }
            assert!(text.contains(from), "{kind}: {text}");
            text.replace(from, to)
        });
        let error = verify(&folder).expect_err(&format!("{from} -> {to}"));
        assert_eq!(error.kind, Kind::ObjectiveUnverified, "{error}");
        assert!(error.what.starts_with("line "), "{error}");
    }
    let folder = bundle(&bench, &ran);
    rewrite(&folder.join("receipt.jsonl"), |_, text| text.to_owned());
    verify(&folder).expect("a chain written anew without a change is the same");
}

#[test]
fn a_blob_or_patch_that_is_changed_or_gone_is_found() {
    let (bench, ran) = ran();
    let folder = bundle(&bench, &ran);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder.join("blobs")).unwrap().map(|e| e.unwrap().path()).collect();
    files.push(folder.join("patch.diff"));
    assert!(files.len() > 2, "{files:?}");
    for file in files {
        let good = std::fs::read(&file).unwrap();
        let mut bad = good.clone();
        bad[0] ^= 1;
        std::fs::write(&file, &bad).unwrap();
        let changed = verify(&folder).expect_err("a changed file");
        std::fs::remove_file(&file).unwrap();
        let gone = verify(&folder).expect_err("a missing file");
        for error in [changed, gone] {
            assert_eq!(error.kind, Kind::ObjectiveUnverified, "{error}");
            assert!(error.what.starts_with("line "), "{error}");
        }
        std::fs::write(&file, &good).unwrap();
    }
    verify(&folder).unwrap();
}

#[test]
fn a_secret_in_a_test_id_is_nowhere_and_the_fold_still_holds() {
    let mut bench = Bench::new();
    let secret = "hunter2-hunter2";
    bench.env("MY_TOKEN", secret);
    bench.env("MAX_THINKING_TOKENS", "128000");
    bench.write("names", format!("{secret}\n"));
    bench.loop_file(
        "limits: {iterations: 2}\nexec: 'echo more >> work'\ncheck:\n  runner: tap\n  run: |\n    echo 1..2\n    echo \"ok 1 - limit 128000\"\n    echo \"not ok 2 - knows $(cat names)\"\n    echo \"$(cat names)\" >&2\n    exit 1\n",
    );
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_ne!(ran.code, Some(50), "{ran:#?}");
    let run = bench.run_of(&ran);
    verify(run.path()).unwrap();
    let text = format!("{:?}", events_of(&run));
    assert!(text.contains("knows [redacted:MY_TOKEN]"), "{text}");
    assert!(text.contains("limit 128000"), "{text}");
    let mut pending = vec![run.path().to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // Snapshots hold the repository's own files, and those are compressed.
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!found, "{} holds the secret", path.display());
        }
    }
    let state = std::fs::read_to_string(bench.path(".loop_state.json")).unwrap();
    assert!(!state.contains(secret));
    assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{ran:#?}");
}

#[test]
fn a_value_that_is_a_word_of_the_format_takes_no_receipt_apart() {
    let mut bench = Bench::new();
    for (at, word) in
        ["workspace", "observation", "passed", "success_condition_met"].iter().enumerate()
    {
        bench.env(&format!("PASSWORD_{at}"), word);
    }
    bench.loop_file("exec: touch done\ncheck: test -f done\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    verify(bench.run_of(&ran).path()).unwrap();
}

#[test]
fn every_key_of_a_receipt_is_among_our_own_words() {
    fn keys(value: &serde_json::Value, all: &mut Vec<String>) {
        match value {
            serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, all)),
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    // Environments and control facts are keyed by names from outside.
                    if key != "control" && key != "env" {
                        keys(value, all);
                    }
                    all.push(key.clone());
                }
            }
            _ => {}
        }
    }
    let (bench, ran) = ran();
    let mut all = Vec::new();
    bench.events(&ran).iter().for_each(|event| keys(event, &mut all));
    let state = std::fs::read_to_string(bench.path(".loop_state.json")).unwrap();
    keys(&serde_json::from_str(&state).unwrap(), &mut all);
    all.retain(|key| key.len() >= 6 && !is_own_word(key.as_bytes()));
    assert!(all.is_empty(), "add to receipt::own_words: {all:?}");
}
