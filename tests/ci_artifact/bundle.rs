//! The zip of a real run: the same bytes whatever surrounds it, and good for all that a run is for.

use crate::bench::Bench;
use crate::project::{bundle, contents, fill, project, redactor, text, wrong};
use loopexec::receipt::bundle::{Contents, unpack, write};
use loopexec::receipt::verify::verify;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// Copies a folder in the opposite order, with other times and modes.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, PermissionsExt::from_mode(0o770)).unwrap();
    let mut entries: Vec<_> = fs::read_dir(from).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries.into_iter().rev() {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::write(&target, fs::read(&path).unwrap()).unwrap();
            fs::set_permissions(&target, PermissionsExt::from_mode(0o640)).unwrap();
            let file = fs::File::options().write(true).open(&target).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400)).unwrap();
        }
    }
}

#[test]
fn the_bytes_depend_on_nothing_but_the_run() {
    let bench = project("exec: 'echo 1 > a'\n");
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let (zip, facts) = bundle(&bench, Contents::WithOutputs);
    let first = fs::read(&zip).unwrap();
    assert_eq!(facts.sha256, loopexec::domain::hex::sha256(&first));
    assert_eq!(facts.size, first.len() as u64);
    assert_eq!(facts.warnings, [""; 0]);
    let run = bench.runs().pop().unwrap();
    let other = bench.beside("other");
    copy(run.path(), &other);
    // The snapshots in other packs, and what only this machine needs.
    let store = other.join("snapshots.git");
    let trees: Vec<String> = contents(&zip).into_keys().collect();
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("--git-dir").arg(&store).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let packs: Vec<_> = fs::read_dir(store.join("objects/pack")).unwrap().collect();
    for pack in packs {
        let pack = pack.unwrap().path();
        if pack.extension().is_some_and(|e| e == "pack") {
            let bytes = fs::read(&pack).unwrap();
            fs::rename(store.join("objects/pack"), other.join("pack")).unwrap();
            let mut child = Command::new("git")
                .arg("--git-dir")
                .arg(&store)
                .args(["unpack-objects", "-q"])
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), &bytes).unwrap();
            assert!(child.wait().unwrap().success());
        }
    }
    assert!(git(&["count-objects", "-v"]).contains("in-pack: 0"), "still packed");
    fs::write(other.join("live.json"), "{}").unwrap();
    fs::write(other.join("blobs/.tmp"), "left by a crash").unwrap();
    let to = bench.beside("second.zip");
    let state = bench.path(".loop_state.json");
    let again = write(&other, Some(&state), &to, Contents::WithOutputs, &redactor(&[])).unwrap();
    assert_eq!(again, facts);
    assert!(fs::read(&to).unwrap() == first, "the second zip has other bytes");
    let names: Vec<&str> = trees.iter().map(String::as_str).collect();
    for name in [
        ".loop_state.json",
        "bundle.json",
        "patch.diff",
        "receipt.jsonl",
        "snapshots.git/HEAD",
        "snapshots.git/config",
        "snapshots.git/refs/",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    assert!(names.is_sorted_by_key(|name| name.trim_end_matches("refs/")) || names.is_sorted());
    assert!(!names.iter().any(|name| name.contains("pack") || name.contains("live.json")));
}

#[test]
fn elsewhere_it_verifies_replays_and_is_reported() {
    let more = "exec: 'echo said by the agent; echo 1 > a'\n";
    let bench = project(more);
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let (zip, facts) = bundle(&bench, Contents::Evidence);
    assert!(facts.left_out.iter().all(|left| left.path.starts_with("blobs/")));
    assert!(!facts.left_out.is_empty());
    let elsewhere = Bench::new();
    fill(&elsewhere, more);
    let unpacked = elsewhere.beside("unpacked");
    let found = unpack(&zip, &unpacked).unwrap();
    let verified = verify(&found.run, &mut |_| {}).unwrap();
    assert_eq!(verified.left_out, facts.left_out);
    // By hand, as `unzip` does it.
    let by_hand = elsewhere.beside("by-hand");
    for (name, bytes) in contents(&zip) {
        let path = by_hand.join(&name);
        if name.ends_with('/') {
            fs::create_dir_all(&path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    for which in [text(&zip), text(&unpacked), text(&by_hand)] {
        let verified = elsewhere.run(&["verify", "--json", "--run-id", which]);
        assert_eq!(verified.code, Some(0), "{which}: {verified:#?}");
        let left_out = verified.json()["left_out"].as_array().unwrap().len();
        assert_eq!(left_out, facts.left_out.len());
        let replayed = elsewhere.run(&["replay", "--json", "--run-id", which]);
        assert_eq!(replayed.code, Some(0), "{which}: {replayed:#?}");
        assert_eq!(replayed.json()["verdict"], "pass");
        let report = elsewhere.run(&["report", "--run-id", which]);
        assert_eq!(report.code, Some(0), "{which}: {report:#?}");
    }
    let said = elsewhere.run(&["verify", "--run-id", text(&zip)]).stdout;
    assert!(said.contains("outputs of commands (not in the bundle, not checked)"), "{said}");
    let left = fs::read_dir(elsewhere.beside("tmp")).unwrap().count();
    assert_eq!(left, 0, "an unpacked bundle was left behind");
}

#[test]
fn only_what_the_manifest_names_may_be_missing() {
    let bench = project("exec: 'echo said by the agent; echo 1 > a'\n");
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let (whole, facts) = bundle(&bench, Contents::WithOutputs);
    assert_eq!(facts.left_out, []);
    let folder = bench.beside("whole");
    unpack(&whole, &folder).unwrap();
    let blob = fs::read_dir(folder.join("blobs")).unwrap().next().unwrap().unwrap().path();
    let kept = fs::read(&blob).unwrap();
    fs::remove_file(&blob).unwrap();
    let which = text(&folder);
    let verified = bench.run(&["verify", "--json", "--run-id", which]);
    assert_eq!(verified.code, Some(13), "{verified:#?}");
    // Saying so is not enough for what is there and wrong, and covers no other file.
    let name = blob.file_name().unwrap().to_str().unwrap();
    let run = bench.runs().pop().unwrap().id().to_owned();
    let manifest = |path: &str| {
        format!(
            r#"{{"format":"loopexec.bundle.v1","run":"{run}","left_out":[{{"path":"{path}","why":"not_asked"}}]}}"#
        )
    };
    fs::write(folder.join("bundle.json"), manifest("patch.diff")).unwrap();
    assert_eq!(bench.run(&["verify", "--run-id", which]).code, Some(13));
    fs::write(folder.join("bundle.json"), manifest(&format!("blobs/{name}"))).unwrap();
    assert_eq!(bench.run(&["verify", "--run-id", which]).code, Some(0));
    fs::write(&blob, [&kept[..], b"more"].concat()).unwrap();
    assert_eq!(bench.run(&["verify", "--run-id", which]).code, Some(13));
    fs::write(&blob, &kept).unwrap();
    fs::remove_file(folder.join("patch.diff")).unwrap();
    assert_eq!(bench.run(&["verify", "--run-id", which]).code, Some(13));
}

#[test]
fn an_interrupted_run_goes_on_on_another_machine() {
    let more = "exec: 'if [ $LOOPEXEC_ITERATION = 1 ]; then echo more >> work; elif [ -e marker ]; then echo 1 > a; else sleep 600; fi'\n";
    let bench = project(more);
    let started = bench.start(&["run", "--json", "--run-id", "R"]);
    let receipt = bench.path(".loopexec/runs/R/receipt.jsonl");
    let until = SystemTime::now() + Duration::from_secs(60);
    while !fs::read_to_string(&receipt).is_ok_and(|text| text.contains(r#""type":"iteration""#)) {
        assert!(SystemTime::now() < until, "the first iteration did not end");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(300));
    let pid = nix::unistd::Pid::from_raw(started.pid());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let ran = started.wait();
    assert_eq!(ran.code, Some(21), "{ran:#?}");
    let (zip, _) = bundle(&bench, Contents::Evidence);
    let elsewhere = Bench::new();
    fill(&elsewhere, more);
    elsewhere.write("marker", "");
    let resumed = elsewhere.run_loop(&["--resume", text(&zip)]);
    assert_eq!(resumed.code, Some(10), "{resumed:#?}");
    assert_eq!(resumed.json()["run_id"], "R");
    assert_eq!(resumed.json()["iterations"], 2, "the first iteration still counts");
    assert_eq!(fs::read_to_string(elsewhere.path("a")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(elsewhere.path("work")).unwrap(), "more\n");
    assert_eq!(elsewhere.run(&["verify"]).code, Some(0));
    assert_eq!(elsewhere.run(&["replay"]).code, Some(0));
    // What went on is another receipt than the bundle's: the bundle does not replace it.
    let again = elsewhere.run_loop(&["--resume", text(&zip)]);
    assert_eq!(again.code, Some(30), "{again:#?}");
    assert!(wrong(&again).contains("there is a run R here already"), "{again:#?}");
    let names: Vec<_> = fs::read_dir(elsewhere.path(".loopexec/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, ["R"]);
    // A run that ended is imported and then not gone on with.
    let (zip, _) = bundle(&elsewhere, Contents::Evidence);
    let third = Bench::new();
    fill(&third, more);
    let ended = third.run_loop(&["--resume", text(&zip)]);
    assert_eq!((ended.code, &ended.json()["detail"]), (Some(30), &"ended".into()), "{ended:#?}");
}
