//! Zips that were made to deceive: nothing is written outside, nothing without end, nothing believed.

use crate::bench::Bench;
use crate::project::{bundle, contents, project, text, wrong, zip_of};
use loopexec::error::Kind;
use loopexec::receipt::bundle::{Contents, MAX_UNPACKED, unpack};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

fn bundled() -> (Bench, PathBuf) {
    let bench = project("exec: 'echo 1 > a'\n");
    assert_eq!(bench.run_loop(&[]).code, Some(10));
    let (zip, _) = bundle(&bench, Contents::WithOutputs);
    (bench, zip)
}

/// Fails unless a zip is refused without a trace; returns why.
fn refusal(bench: &Bench, zip: &Path) -> String {
    let to = bench.beside("refused");
    let before = names(&bench.beside("."));
    let error = unpack(zip, &to).unwrap_err();
    assert!(!to.exists(), "{error}: something was left");
    assert_eq!(names(&bench.beside(".")), before);
    let ran = bench.run(&["verify", "--json", "--run-id", text(zip)]);
    assert!(matches!(ran.code, Some(13 | 30)), "{ran:#?}");
    error.to_string()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn names_that_lead_out_links_doubles_and_strangers_are_refused() {
    let (bench, zip) = bundled();
    let whole = contents(&zip);
    let files = || whole.iter().map(|(name, bytes)| (name.as_str(), &bytes[..]));
    let bad = bench.beside("bad.zip");
    for name in ["../evil", "/tmp/evil", "blobs/../../evil", "a\\..\\evil", "C:/evil"] {
        zip_of(&bad, files().chain([(name, &b"evil"[..])]));
        assert!(refusal(&bench, &bad).contains("leads out of it"), "{name}");
    }
    let file = fs::File::create(&bad).unwrap();
    let mut linked = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::DEFAULT;
    linked.add_symlink("receipt.jsonl", "/etc/passwd", options).unwrap();
    linked.finish().unwrap();
    assert!(refusal(&bench, &bad).contains("neither a file nor a folder"));
    fs::write(&bad, "no zip at all").unwrap();
    assert!(refusal(&bench, &bad).contains("no bundle of a run"));
    zip_of(&bad, [("README", &b"hello"[..])]);
    assert!(refusal(&bench, &bad).contains("no receipt.jsonl"));
    zip_of(&bad, files().map(|(name, bytes)| (name, &bytes[..bytes.len() / 2])));
    refusal(&bench, &bad);
    let bytes = fs::read(&zip).unwrap();
    for cut in [0, 1, 21, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&bad, &bytes[..cut]).unwrap();
        refusal(&bench, &bad);
    }
    // Both halves of a doubled name are one zip's: made by writing over the name of the other.
    zip_of(&bad, files().chain([("receipt.torn-1", &b"one"[..]), ("receipt.torn-2", b"two")]));
    let doubled = replace(&fs::read(&bad).unwrap(), b"receipt.torn-2", b"receipt.torn-1");
    fs::write(&bad, doubled).unwrap();
    assert!(refusal(&bench, &bad).contains("have one name"));
}

#[test]
fn bombs_are_refused_by_what_they_say_and_by_what_they_are() {
    let (bench, _) = bundled();
    let bad = bench.beside("bomb.zip");
    let zeros = vec![0; 4 << 20];
    let names: Vec<String> =
        (0..3).map(|n| format!("blobs/{}", n.to_string().repeat(64))).collect();
    let receipt = ("receipt.jsonl", &b"{}\n"[..]);
    // By what it says: three times nearly four gibibytes.
    zip_of(&bad, names.iter().map(|name| (name.as_str(), &zeros[..])).chain([receipt]));
    let said = u32::try_from(zeros.len()).unwrap().to_le_bytes();
    let lying =
        replace_in_directory(&fs::read(&bad).unwrap(), &said, &0xFFFF_FFF0_u32.to_le_bytes());
    fs::write(&bad, lying).unwrap();
    const { assert!(3 * 0xFFFF_FFF0_u64 > MAX_UNPACKED) };
    assert!(refusal(&bench, &bad).contains("more than a bundle may have"));
    // By what it is: it says a few bytes and goes on.
    zip_of(&bad, [(names[0].as_str(), &zeros[..]), receipt]);
    let lying = replace_in_directory(&fs::read(&bad).unwrap(), &said, &10_u32.to_le_bytes());
    fs::write(&bad, lying).unwrap();
    let why = refusal(&bench, &bad);
    assert!(why.contains("longer than it says") || why.contains("no bundle"), "{why}");
    // By the number of its files, before room is made for them.
    zip_of(&bad, [receipt]);
    let mut bytes = fs::read(&bad).unwrap();
    let end = bytes.len() - 22;
    bytes[end + 8..end + 12].copy_from_slice(&[0xFF; 4]);
    fs::write(&bad, bytes).unwrap();
    refusal(&bench, &bad);
}

#[test]
fn evidence_that_was_altered_in_the_zip_does_not_hold() {
    let (bench, zip) = bundled();
    let whole = contents(&zip);
    let bad = bench.beside("altered.zip");
    for (changed, expected) in [
        ("receipt.jsonl", Kind::ObjectiveUnverified),
        ("patch.diff", Kind::ObjectiveUnverified),
        ("blobs/", Kind::ObjectiveUnverified),
    ] {
        let mut files = whole.clone();
        let (_, bytes) = files.iter_mut().find(|(name, _)| name.starts_with(changed)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        zip_of(&bad, files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])));
        let to = bench.beside("altered");
        assert_eq!(unpack(&bad, &to).unwrap_err().kind, expected, "{changed}");
        assert!(!to.exists());
        let ran = bench.run_loop(&["--resume", text(&bad)]);
        assert_eq!(ran.code, Some(13), "{changed}: {ran:#?}");
    }
    let mut files = whole.clone();
    files.remove("patch.diff");
    zip_of(&bad, files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])));
    assert!(unpack(&bad, &bench.beside("altered")).is_err());
}

#[test]
fn gits_configuration_is_ours_whatever_the_zip_brings() {
    let (bench, zip) = bundled();
    let mut files = contents(&zip);
    let store = bench.beside("elsewhere.git/objects");
    for (name, bytes) in [
        ("snapshots.git/config", "[core]\n\tfsmonitor = /bin/evil\n".to_owned()),
        ("snapshots.git/objects/info/alternates", format!("{}\n", store.display())),
        ("snapshots.git/hooks/post-checkout", "#!/bin/sh\n".to_owned()),
        ("snapshots.git/HEAD", "ref: ../../evil\n".to_owned()),
        ("live.json", "{}".to_owned()),
        ("lock", "{}".to_owned()),
    ] {
        files.insert(name.to_owned(), bytes.into_bytes());
    }
    let to = bench.beside("evil.zip");
    zip_of(&to, files.iter().map(|(name, bytes)| (name.as_str(), &bytes[..])));
    let folder = bench.beside("clean");
    unpack(&to, &folder).unwrap();
    assert!(!fs::read_to_string(folder.join("snapshots.git/config")).unwrap().contains("evil"));
    assert_eq!(fs::read(folder.join("snapshots.git/HEAD")).unwrap(), b"ref: refs/heads/main\n");
    for name in ["snapshots.git/objects/info", "snapshots.git/hooks", "live.json", "lock"] {
        assert!(!folder.join(name).exists(), "{name}");
    }
    // Into a folder that is there nothing is unpacked.
    assert!(unpack(&to, &folder).is_err());
    assert!(folder.join("receipt.jsonl").exists());
    let missing = bench.run(&["verify", "--json", "--run-id", "none.zip"]);
    assert_eq!(missing.code, Some(30), "{missing:#?}");
    assert!(wrong(&missing).contains("none.zip"));
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for at in 0..=out.len() - from.len() {
        if &out[at..at + from.len()] == from {
            out[at..at + to.len()].copy_from_slice(to);
        }
    }
    out
}

/// Replaces only behind the last local file, where the directory of the zip begins.
fn replace_in_directory(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let start = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    let mut out = bytes[..start].to_vec();
    out.write_all(&replace(&bytes[start..], from, to)).unwrap();
    out
}
