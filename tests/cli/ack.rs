//! `ack` and what `run --resume` makes of an answer: only one that fits opens a gate.

use crate::bench::{Bench, Ran, assert_untouched};
use crate::reasons::escalation_pending::{changed_check, gated};
use crate::reasons::{execs, holds, text};
use loopexec::domain::reason::HaltReason;
use loopexec::receipt::own_words::is_own_word;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};

fn yes(bench: &Bench) -> Ran {
    let ran = bench.run(&["ack", "--json", "--gate", "deliver", "--yes", "--by", "a person"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    ran
}

fn asked() -> (Bench, Ran) {
    let bench = gated();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.reason(), "escalation_pending", "{ran:#?}");
    (bench, ran)
}

fn ack_file(bench: &Bench, ran: &Ran) -> PathBuf {
    bench.run_of(ran).path().join("ack-deliver.json")
}

/// Resumes and expects that nothing was run or written.
fn still_waits(bench: &Bench, ran: &Ran, why: &str) {
    let receipt = bench.run_of(ran).receipt();
    let before = (std::fs::read(&receipt).unwrap(), bench.tree_hash());
    let again = bench.run_loop(&["--resume"]);
    assert_eq!(again.code, Some(16), "{again:#?}");
    let object = again.json();
    assert_eq!(text(&object["halt_reason"]), "escalation_pending");
    assert_eq!(text(&object["detail"]), "deliver");
    assert!(text(&object["answer"]["why"]).contains(why), "{why}: {object:#}");
    assert_eq!(std::fs::read(&receipt).unwrap(), before.0, "{why}");
    assert_untouched(&before.1, &bench.tree_hash());
    assert!(!bench.path("done.txt").exists());
}

#[test]
fn a_yes_is_taken_up_and_the_result_is_delivered_without_another_exec() {
    let (bench, ran) = asked();
    let said = yes(&bench).json();
    assert_eq!(said["answer"]["head"], ran.json()["head"]);
    assert_eq!(said["answer"]["subject"], ran.json()["question"]["subject"]);
    let done = bench.run_loop(&["--resume"]);
    holds(&bench, &done, HaltReason::SuccessConditionMet);
    assert_eq!((execs(&bench, &done), text(&done.json()["delivery"]["state"])), (1, "applied"));
    assert_eq!(std::fs::read(bench.path("done.txt")).unwrap(), b"done\n");
    let verified = bench.run(&["verify", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:#?}");
    assert_eq!(verified.json()["answers"][0]["by"], "a person");
    let kinds: Vec<String> = bench.events(&done).iter().map(|e| text(&e["type"]).into()).collect();
    let ends = kinds.iter().filter(|kind| *kind == "run_end").count();
    assert_eq!((kinds.iter().filter(|kind| *kind == "ack").count(), ends), (1, 2), "{kinds:?}");
    assert_eq!(bench.run(&["check"]).code, Some(0));
    assert_eq!(bench.run(&["replay"]).code, Some(0));
    assert_eq!(bench.run_loop(&["--resume"]).code, Some(30), "it is over");
}

#[test]
fn without_an_answer_the_halt_is_the_same_and_nothing_is_written() {
    let (bench, ran) = asked();
    let before = std::fs::read(bench.run_of(&ran).receipt()).unwrap();
    let again = bench.run_loop(&["--resume"]);
    assert_eq!((again.code, again.reason()), (Some(16), "escalation_pending".to_owned()));
    assert_eq!(again.json()["head"], ran.json()["head"]);
    assert_eq!(again.json()["question"], ran.json()["question"]);
    assert_eq!(std::fs::read(bench.run_of(&ran).receipt()).unwrap(), before);
}

#[test]
fn an_answer_with_another_head_subject_gate_or_run_counts_for_nothing() {
    let (bench, ran) = asked();
    yes(&bench);
    let path = ack_file(&bench, &ran);
    let right: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let other = "0".repeat(64);
    for (key, value, why) in [
        ("/answer/head", other.as_str(), "another end"),
        ("/answer/subject", other.as_str(), "something else"),
        ("/answer/gate", "protected_change", "another gate"),
        ("/answer/gate", "large_patch", "another gate"),
        ("/answer/gate", "huge_patch", "broken"),
        ("/answer/reply", "maybe", "broken"),
        ("/run", "OTHER", "another run"),
    ] {
        let mut wrong = right.clone();
        *wrong.pointer_mut(key).unwrap() = value.into();
        std::fs::write(&path, wrong.to_string()).unwrap();
        still_waits(&bench, &ran, why);
    }
    std::fs::write(&path, "{\"version\":1,\"version\":1}").unwrap();
    still_waits(&bench, &ran, "broken");
    std::fs::write(&path, right.to_string()).unwrap();
    holds(&bench, &bench.run_loop(&["--resume"]), HaltReason::SuccessConditionMet);
}

#[test]
fn an_answer_is_given_only_to_what_was_asked() {
    let (bench, _) = asked();
    for (args, detail) in [
        (vec!["ack", "--gate", "protected_change", "--yes", "--json"], "not_asked"),
        (vec!["ack", "--gate", "large_patch", "--yes", "--json"], "not_asked"),
        (vec!["ack", "--gate", "huge_patch", "--yes", "--json"], ""),
        (vec!["ack", "--gate", "deliver", "--json"], ""),
        (vec!["ack", "--gate", "deliver", "--yes", "--no", "--json"], ""),
        (vec!["ack", "--gate", "deliver", "--yes", "--by", "\u{1b}[2J", "--json"], ""),
    ] {
        let ran = bench.run(&args);
        let wanted = if detail.is_empty() { 2 } else { 30 };
        assert_eq!(ran.code, Some(wanted), "{args:?}: {ran:#?}");
        assert_eq!(text(&ran.json()["detail"]), detail, "{args:?}");
    }
    let free = Bench::new();
    free.loop_file("exec: touch done\ncheck: test -f done\n");
    free.commit();
    assert_eq!(free.run_loop(&[]).code, Some(10));
    assert_eq!(free.run(&["ack", "--gate", "deliver", "--yes"]).code, Some(30));
}

#[test]
fn a_receipt_that_is_altered_is_not_answered() {
    let (bench, ran) = asked();
    let (receipt, answer) = (bench.run_of(&ran).receipt(), ack_file(&bench, &ran));
    let text = std::fs::read_to_string(&receipt).unwrap();
    std::fs::write(&receipt, text.replacen("\"iterations\":10", "\"iterations\":99", 1)).unwrap();
    let said = bench.run(&["ack", "--gate", "deliver", "--yes"]);
    assert_eq!(said.code, Some(13), "{said:#?}");
    assert!(!answer.exists());
}

#[test]
fn a_result_that_no_longer_holds_is_not_handed_over_by_a_yes() {
    let bench = Bench::new();
    let broken = bench.beside("broken");
    bench.script("check.sh", &format!("test -f done && ! test -f '{}'", broken.display()));
    bench.loop_file("exec: touch done\ncheck: ./check.sh\nhuman: {approve: [deliver]}\n");
    bench.commit();
    assert_eq!(bench.run_loop(&[]).reason(), "escalation_pending");
    yes(&bench);
    std::fs::write(broken, "").unwrap();
    let ran = bench.run_loop(&["--resume"]);
    holds(&bench, &ran, HaltReason::ObjectiveUnverified);
    assert!(!bench.path("done").exists());
    assert_eq!(bench.run(&["verify"]).code, Some(0));
}

#[test]
fn a_forged_answer_in_the_receipt_is_found_by_verify() {
    let (bench, _) = asked();
    yes(&bench);
    let ran = bench.run_loop(&["--resume"]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    let head = bench
        .events(&ran)
        .iter()
        .find(|event| event["type"] == "ack")
        .map(|event| text(&event["answer"]["head"]).to_owned())
        .unwrap();
    for (from, to) in [
        (format!("\"head\":\"{head}\""), format!("\"head\":\"{}\"", "0".repeat(64))),
        ("\"reply\":\"yes\"".to_owned(), "\"reply\":\"no\"".to_owned()),
        (
            "\"gate\":\"deliver\",\"reply\"".to_owned(),
            "\"gate\":\"protected_change\",\"reply\"".to_owned(),
        ),
    ] {
        let folder = bench.beside("forged");
        let _ = std::fs::remove_dir_all(&folder);
        copy(bench.run_of(&ran).path(), &folder);
        rechain(&folder.join("receipt.jsonl"), &from, &to);
        let verified = bench.run(&["verify", "--run-id", folder.to_str().unwrap()]);
        assert_eq!(verified.code, Some(13), "{from}: {verified:#?}");
        assert!(verified.stderr.contains("answer"), "{from}: {verified:#?}");
    }
}

/// Changes the event of the answer and writes the chain behind it anew.
fn rechain(receipt: &Path, from: &str, to: &str) {
    use loopexec::domain::hex::sha256;
    let text = std::fs::read_to_string(receipt).unwrap();
    let (mut out, mut prev, mut changed) = (String::new(), String::new(), false);
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let mut body = line[..line.len() - 74].to_owned();
        if event["type"] == "ack" {
            assert!(body.contains(from), "{body}");
            body = body.replacen(from, to, 1);
            changed = true;
        }
        if changed && !prev.is_empty() {
            body = body.replacen(event["prev"].as_str().unwrap(), &prev, 1);
        }
        let line = format!("{body},\"sum\":\"{}\"}}\n", sha256(body.as_bytes()));
        prev = sha256(line.as_bytes());
        out.push_str(&line);
    }
    assert!(changed);
    std::fs::write(receipt, out).unwrap();
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

#[test]
fn every_key_of_an_answered_run_is_among_our_own_words() {
    fn keys(value: &Value, all: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| keys(item, all)),
            Value::Object(map) => {
                for (key, value) in map {
                    if key != "control" && key != "env" {
                        keys(value, all);
                    }
                    all.push(key.clone());
                }
            }
            _ => {}
        }
    }
    let bench = changed_check("protected_change, deliver");
    assert_eq!(bench.run_loop(&["--base", "base"]).reason(), "escalation_pending");
    assert_eq!(bench.run(&["ack", "--gate", "protected_change", "--yes"]).code, Some(0));
    let ran = bench.run_loop(&["--resume", "latest", "--base", "base"]);
    assert_eq!(ran.reason(), "escalation_pending", "the second gate: {ran:#?}");
    yes(&bench);
    let ran = bench.run_loop(&["--resume", "latest", "--base", "base"]);
    holds(&bench, &ran, HaltReason::SuccessConditionMet);
    let mut all = Vec::new();
    bench.events(&ran).iter().for_each(|event| keys(event, &mut all));
    all.retain(|key| key.len() >= 6 && !is_own_word(key.as_bytes()));
    assert!(all.is_empty(), "add to receipt::own_words: {all:?}");
    assert_eq!(bench.run(&["verify"]).code, Some(0));
}

/// Writes a zip of a run as CI would keep it.
fn zip(bench: &Bench, ran: &Ran, extra: &[(&str, &[u8])]) -> PathBuf {
    let path = bench.beside("bundle.zip");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    let root = bench.run_of(ran).path().to_owned();
    let mut pending = vec![root.clone()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            writer.start_file(format!("run/{name}"), options).unwrap();
            writer.write_all(&std::fs::read(path).unwrap()).unwrap();
        }
    }
    for (name, bytes) in extra {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
    path
}

#[test]
fn a_bundle_is_answered_into_a_new_one_that_another_checkout_takes_up() {
    let (bench, ran) = asked();
    let bundle = zip(&bench, &ran, &[]);
    let before = std::fs::read(&bundle).unwrap();
    let file = bundle.to_str().unwrap();
    let args = ["ack", "--bundle", file, "--gate", "deliver", "--yes", "--json"];
    let said = bench.run(&args);
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert_eq!(std::fs::read(&bundle).unwrap(), before, "the bundle stays as it was");
    assert_eq!(bench.run(&args).code, Some(30), "nothing is overwritten");
    let fresh = PathBuf::from(said.json()["bundle"].as_str().unwrap());
    let verified = bench.run(&["verify", "--run-id", fresh.to_str().unwrap()]);
    assert_eq!(verified.code, Some(0), "a bundle may stand in a folder: {verified:#?}");
    let folder = bench.beside("unpacked");
    zip::ZipArchive::new(std::fs::File::open(fresh).unwrap()).unwrap().extract(&folder).unwrap();
    std::fs::remove_dir_all(bench.path(".loopexec")).unwrap();
    std::fs::remove_file(bench.path(".loop_state.json")).unwrap();
    let run = folder.join("run");
    let done = bench.run_loop(&["--resume", run.to_str().unwrap()]);
    assert_eq!(done.code, Some(10), "{done:#?}");
    assert_eq!(std::fs::read(bench.path("done.txt")).unwrap(), b"done\n");
    assert_eq!(bench.run(&["verify", "--run-id", run.to_str().unwrap()]).code, Some(0));
}

#[test]
fn a_zip_that_is_no_bundle_is_refused_and_nothing_is_left() {
    let (bench, ran) = asked();
    for (extra, why) in [
        (&[("../outside", b"x".as_slice())], "leads out of it"),
        (&[("other/receipt.jsonl", b"x".as_slice())], "more than one"),
    ] {
        let bundle = zip(&bench, &ran, extra);
        let said = bench.run(&[
            "ack",
            "--bundle",
            bundle.to_str().unwrap(),
            "--gate",
            "deliver",
            "--yes",
            "--json",
        ]);
        assert_eq!((said.code, text(&said.json()["detail"])), (Some(30), "no_bundle"), "{said:#?}");
        assert!(said.json().to_string().contains(why), "{why}: {said:#?}");
        assert!(!bench.beside("bundle-answered.zip").exists());
        assert!(!bench.beside("outside").exists());
    }
}

#[test]
fn the_command_that_goes_on_is_the_one_that_is_told() {
    let bench = changed_check("protected_change");
    let ran = bench.run_loop(&["--base", "base"]);
    assert_eq!(ran.reason(), "escalation_pending", "{ran:#?}");
    let wrong = bench.run(&["ack", "--gate", "protected_change", "--no", "--by", "one", "--json"]);
    assert_eq!(wrong.code, Some(0), "{wrong:#?}");
    let said = bench.run(&["ack", "--gate", "protected_change", "--yes"]);
    assert!(said.stdout.contains("instead  of the no by one"), "{said:#?}");
    let next = said.stdout.lines().find_map(|line| line.trim().strip_prefix("next ")).unwrap();
    let question = bench.run_of(&ran).path().join("question.md");
    let question = std::fs::read_to_string(question).unwrap();
    assert!(question.contains(next.trim()), "{next}: {question}");
    let explained = bench.run(&["explain-halt"]);
    assert!(explained.stdout.contains(next.trim()), "{next}: {explained:#?}");
    let forgotten = bench.run_loop(&["--resume"]);
    assert!(forgotten.stdout.contains("run --base base --resume ID"), "{forgotten:#?}");
    let words: Vec<&str> = next.split_whitespace().skip(1).chain(["--json"]).collect();
    let ran = bench.run(&words);
    assert_ne!(ran.reason(), "escalation_pending", "{ran:#?}");
    assert!(ran.json()["iterations"].as_u64().unwrap() > 0, "{ran:#?}");
}

#[test]
fn runs_that_were_refused_push_none_out_that_did_something() {
    let (bench, ran) = asked();
    for _ in 0..21 {
        assert_eq!(bench.run(&["run", "--timeout", "1"]).code, Some(30));
    }
    let said = yes(&bench);
    assert_eq!(said.json()["run_id"], ran.json()["run_id"], "the latest that waits is answered");
    let kept = std::fs::read_dir(bench.path(".loopexec/runs")).unwrap().count();
    assert_eq!(kept, 22, "20 refused ones, the last of them all, and the one that asks");
}
