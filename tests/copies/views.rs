//! Layer, copies and patches on real folders and a real snapshot store.
//!
//! Delivery is tested in `delivery`.

use crate::snap::{self, Files, link, plain, script, snapshot, store, write_files};
use loopexec::error::Kind;
use loopexec::workspace::copies::{How, prepare, remove, remove_listed};
use loopexec::workspace::layer::{Layer, freeze};
use loopexec::workspace::patch::{measure_patch, write_patch};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

const OLD: Duration = Duration::new(1_600_000_000, 123_456_789);

fn make_old(path: &Path) {
    let time = SystemTime::UNIX_EPOCH + OLD;
    File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn age(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            age(&path);
        } else if kind.is_file() {
            make_old(&path);
        }
    }
    make_old(folder);
}

fn modified(path: &Path) -> (i64, i64) {
    let metadata = fs::symlink_metadata(path).unwrap();
    (metadata.mtime(), metadata.mtime_nsec())
}

fn is_old(path: &Path) -> bool {
    modified(path) == (OLD.as_secs() as i64, i64::from(OLD.subsec_nanos()))
}

fn is_ignored(path: &Path, _folder: bool) -> bool {
    path.file_name() == Some(OsStr::new("target")) || path.starts_with(".git")
}

struct Bench {
    folder: tempfile::TempDir,
    repo: git2::Repository,
    layer: Layer,
    frozen: String,
}

fn t0() -> Files {
    BTreeMap::from([
        ("src/a.rs".into(), plain(b"a\n")),
        ("src/b.rs".into(), plain(b"b\n")),
        ("src/deep/c.rs".into(), plain(b"c\n")),
        ("run.sh".into(), script(b"#!/bin/sh\n")),
        ("link".into(), link("src/a.rs")),
        ("becomes-folder".into(), plain(b"x")),
        ("becomes-file/one".into(), plain(b"1")),
        ("becomes-file/two".into(), plain(b"2")),
        ("goes/entirely/now".into(), plain(b"n")),
    ])
}

fn wanted() -> Files {
    let mut files = t0();
    files.insert("src/a.rs".into(), plain(b"changed\n"));
    files.insert("src/new.rs".into(), plain(b"new\n"));
    files.remove(Path::new("src/deep/c.rs"));
    files.insert("src/deep/keep.rs".into(), plain(b"k"));
    files.insert("run.sh".into(), plain(b"#!/bin/sh\n"));
    files.insert("link".into(), plain(b"no link\n"));
    files.remove(Path::new("becomes-folder"));
    files.insert("becomes-folder/in/it".into(), script(b"y"));
    files.remove(Path::new("becomes-file/one"));
    files.remove(Path::new("becomes-file/two"));
    files.insert("becomes-file".into(), link("src"));
    files.remove(Path::new("goes/entirely/now"));
    files.insert(PathBuf::from(OsStr::from_bytes(b"bytes \xff\n")), plain(b"z"));
    files
}

fn bench() -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let (workspace, home) = (folder.path().join("ws"), folder.path().join("home"));
    fs::create_dir(&home).unwrap();
    fs::create_dir(&workspace).unwrap();
    write_files(&workspace, &t0());
    fs::create_dir_all(workspace.join("goes/target")).unwrap();
    fs::write(workspace.join("goes/target/cache"), "cache").unwrap();
    fs::create_dir_all(workspace.join("target")).unwrap();
    fs::write(workspace.join("target/lib.o"), vec![7; 300_000]).unwrap();
    fs::hard_link(workspace.join("target/lib.o"), workspace.join("target/same.o")).unwrap();
    fs::create_dir(workspace.join(".git")).unwrap();
    fs::write(workspace.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(home.join(".cache"), "c").unwrap();
    fs::set_permissions(workspace.join("src/b.rs"), Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(workspace.join("src"), Permissions::from_mode(0o750)).unwrap();
    age(&workspace);
    age(&home);
    let repo = store(&folder.path().join("store"));
    let frozen = snapshot(&repo, &t0());
    let layer =
        freeze(&workspace, &home, &folder.path().join("layer"), &is_ignored, &|| false).unwrap();
    Bench { folder, repo, layer, frozen }
}

#[test]
fn the_layer_keeps_everything_and_shares_no_inode_with_the_workspace() {
    let bench = bench();
    let (from, to) = (bench.folder.path().join("ws"), &bench.layer.tree);
    for path in
        ["src/a.rs", "src/b.rs", "src", "target/lib.o", ".git/HEAD", "run.sh", "goes/target"]
    {
        let (a, b) = (
            fs::symlink_metadata(from.join(path)).unwrap(),
            fs::symlink_metadata(to.join(path)).unwrap(),
        );
        assert_eq!(
            (a.mode(), a.mtime(), a.mtime_nsec()),
            (b.mode(), b.mtime(), b.mtime_nsec()),
            "{path}"
        );
        assert_ne!(a.ino(), b.ino(), "{path}");
        assert!(
            a.is_dir() || fs::read(from.join(path)).unwrap() == fs::read(to.join(path)).unwrap()
        );
    }
    assert_eq!(modified(&from.join("link")), modified(&to.join("link")));
    assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("src/a.rs"));
    let inode = |path: &str| fs::metadata(to.join(path)).unwrap().ino();
    assert_eq!(
        inode("target/lib.o"),
        inode("target/same.o"),
        "hard links among its own files stay"
    );
    assert!(is_old(&bench.layer.home.join(".cache")));
    assert_eq!(bench.layer.digest.len(), 64);
}

#[test]
fn the_digest_follows_what_the_snapshot_does_not_hold_and_nothing_else() {
    let bench = bench();
    let (ws, home) = (bench.folder.path().join("ws"), bench.folder.path().join("home"));
    let mut count = 0;
    let mut digest = |why: &str| {
        count += 1;
        let dest = bench.folder.path().join(format!("layer-{count}"));
        let layer = freeze(&ws, &home, &dest, &is_ignored, &|| false);
        layer.unwrap_or_else(|e| panic!("{why}: {e}")).digest
    };
    let first = digest("again");
    assert_eq!(first, bench.layer.digest);
    fs::write(ws.join("src/a.rs"), "much longer than before").unwrap();
    fs::write(ws.join(".git/index"), "x").unwrap();
    assert_eq!(first, digest("a file of the snapshot and git's own"));
    fs::write(ws.join("target/lib.o"), "short").unwrap();
    let second = digest("a file of another size");
    assert_ne!(first, second);
    fs::set_permissions(home.join(".cache"), Permissions::from_mode(0o600)).unwrap();
    let third = digest("a mode in HOME");
    assert_ne!(second, third);
    symlink("elsewhere", ws.join("target/link")).unwrap();
    let fourth = digest("a new link");
    fs::remove_file(ws.join("target/link")).unwrap();
    symlink("elsewhen.", ws.join("target/link")).unwrap();
    assert_ne!(fourth, digest("a link's target"));
    assert_ne!(third, fourth);
}

#[test]
fn fifos_are_skipped_and_holes_stay_holes() {
    let bench = bench();
    let ws = bench.folder.path().join("ws");
    nix::unistd::mkfifo(&ws.join("target/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let hole = File::create(ws.join("target/hole")).unwrap();
    hole.set_len(1 << 36).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&hole, b"data", 1 << 30).unwrap();
    let dest = bench.folder.path().join("other");
    let home = bench.folder.path().join("home");
    let layer = freeze(&ws, &home, &dest, &is_ignored, &|| false).unwrap();
    assert_eq!(layer.skipped, [PathBuf::from("target/fifo")]);
    assert!(!dest.join("tree/target/fifo").exists());
    let copied = File::open(dest.join("tree/target/hole")).unwrap();
    assert_eq!(copied.metadata().unwrap().len(), 1 << 36);
    assert!(copied.metadata().unwrap().blocks() < 1000);
    let mut bytes = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&copied, &mut bytes, 1 << 30).unwrap();
    assert_eq!(&bytes, b"data");
}

#[test]
fn an_interrupted_freeze_leaves_nothing() {
    let bench = bench();
    let (ws, home) = (bench.folder.path().join("ws"), bench.folder.path().join("home"));
    let dest = bench.folder.path().join("other");
    let error = freeze(&ws, &home, &dest, &is_ignored, &|| true).unwrap_err();
    assert_eq!(error.kind, Kind::Interrupted);
    assert!(!dest.exists());
}

#[test]
fn a_real_copy_holds_the_wanted_snapshot_and_the_layer() {
    let bench = bench();
    let tree = snapshot(&bench.repo, &wanted());
    let dest = bench.folder.path().join("copy");
    let copy =
        prepare(&bench.repo, &bench.layer, &bench.frozen, &tree, &dest, How::Real, &|| false)
            .unwrap();
    assert!(copy.remove.is_empty() && copy.overlay.is_none());
    let mut held = snap::read_files(&copy.dir);
    held.retain(|path, _| !path.starts_with(".git") && !path.iter().any(|part| part == "target"));
    assert_eq!(held, wanted());
    assert!(copy.dir.join("goes/target/cache").exists(), "ignored files of a gone folder stay");
    assert!(!copy.dir.join("goes/entirely").exists());
    for path in ["src/b.rs", "target/lib.o", "goes/target/cache", ".git/HEAD"] {
        assert!(is_old(&copy.dir.join(path)), "{path} keeps its time");
    }
    for path in ["src/a.rs", "src/new.rs", "run.sh", "becomes-folder/in/it"] {
        assert!(!is_old(&copy.dir.join(path)), "{path} is written now");
    }
    assert_eq!(fs::read(copy.home.join(".cache")).unwrap(), b"c");
    assert!(is_old(&bench.layer.tree.join("src/a.rs")), "the layer is as it was");
    assert_eq!(fs::read(bench.layer.tree.join("src/a.rs")).unwrap(), b"a\n");
}

#[test]
fn an_overlay_holds_only_what_differs() {
    let bench = bench();
    let tree = snapshot(&bench.repo, &wanted());
    let dest = bench.folder.path().join("copy");
    let copy =
        prepare(&bench.repo, &bench.layer, &bench.frozen, &tree, &dest, How::Overlay, &|| false)
            .unwrap();
    let overlay = copy.overlay.unwrap();
    assert_eq!(overlay.lower, bench.layer.tree);
    let upper = snap::read_files(&overlay.upper);
    let mut differing = wanted();
    let t0 = t0();
    differing.retain(|path, file| t0.get(path) != Some(file));
    assert_eq!(upper, differing);
    let names = ["goes/entirely/now", "src/deep/c.rs", "goes/entirely", "goes"];
    assert_eq!(copy.remove, names.map(PathBuf::from));
    let src = fs::metadata(overlay.upper.join("src")).unwrap();
    assert_eq!(src.mode() & 0o7777, 0o750);
    assert!(fs::read_dir(&overlay.work).unwrap().next().is_none());
    assert!(fs::read_dir(&copy.dir).unwrap().next().is_none());
    assert_eq!(copy.home_overlay.unwrap().lower, bench.layer.home);
}

#[test]
fn a_folder_whose_names_stay_keeps_its_time_in_an_overlay() {
    let bench = bench();
    let mut files = t0();
    files.insert("src/deep/c.rs".into(), plain(b"other\n"));
    let tree = snapshot(&bench.repo, &files);
    let dest = bench.folder.path().join("copy");
    let copy =
        prepare(&bench.repo, &bench.layer, &bench.frozen, &tree, &dest, How::Overlay, &|| false)
            .unwrap();
    let upper = copy.overlay.unwrap().upper;
    for folder in ["", "src", "src/deep"] {
        assert!(is_old(&upper.join(folder)), "{folder:?}");
    }
    assert!(!is_old(&upper.join("src/deep/c.rs")));
    assert!(copy.remove.is_empty());
}

#[test]
fn an_empty_folder_of_a_snapshot_is_there() {
    let bench = bench();
    let tree = snap::snapshot_with_empty_folder(&bench.repo, &t0(), "hollow");
    let dest = bench.folder.path().join("copy");
    let how = How::Real;
    let copy =
        prepare(&bench.repo, &bench.layer, &bench.frozen, &tree, &dest, how, &|| false).unwrap();
    assert!(copy.dir.join("hollow").is_dir());
    let back = bench.folder.path().join("back");
    let copy =
        prepare(&bench.repo, &bench.layer, &tree, &bench.frozen, &back, How::Overlay, &|| false);
    assert_eq!(copy.unwrap().remove, [PathBuf::from("hollow")]);
}

#[test]
fn removing_never_leaves_the_root() {
    let bench = bench();
    let outside = bench.folder.path().join("outside");
    let root = bench.folder.path().join("root");
    fs::create_dir_all(root.join("folder/full")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "x").unwrap();
    symlink(&outside, root.join("way")).unwrap();
    let paths = ["way/file", "../outside/file", "absent", "folder", "folder/full"];
    remove_listed(&root, &paths.map(PathBuf::from)).unwrap();
    assert!(outside.join("file").exists());
    assert!(root.join("folder").exists() && !root.join("folder/full").exists());
}

#[test]
fn a_copy_with_closed_folders_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let dest = folder.path().join("copy");
    fs::create_dir_all(dest.join("work/work")).unwrap();
    fs::create_dir_all(dest.join("upper/a/b")).unwrap();
    fs::write(dest.join("upper/a/b/file"), "x").unwrap();
    for path in ["work/work", "upper/a/b", "upper/a"] {
        fs::set_permissions(dest.join(path), Permissions::from_mode(0o000)).unwrap();
    }
    remove(&dest).unwrap();
    assert!(!dest.exists());
    remove(&dest).unwrap();
}

#[test]
fn a_patch_is_as_long_as_it_is_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let repo = store(&folder.path().join("store"));
    let lines = |content: &[u8]| {
        let from = snapshot(&repo, &Files::from([("a".into(), plain(b""))]));
        let to = snapshot(&repo, &Files::from([("a".into(), plain(content))]));
        let facts = measure_patch(&repo, &from, &to).unwrap();
        assert_eq!((facts.files, facts.removed), (1, 0));
        facts.added
    };
    assert_eq!(lines(b"one\ntwo\n"), 2);
    assert_eq!(lines(b"one\n\0two\nthree"), 3, "a NUL byte hides nothing");
    assert_eq!(lines(&[b'x'; 5_000]), 5, "one long line is not one line to read");
}

#[test]
fn a_patch_applies_with_git_and_gives_the_wanted_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let repo = store(&folder.path().join("store"));
    let mut from = t0();
    let mut to = wanted();
    let binary: Vec<u8> = (0..5000u32).map(|i| (i * i % 251) as u8).collect();
    from.insert("image.bin".into(), plain(&binary));
    to.insert("image.bin".into(), plain(&binary[..4000]));
    to.insert("fresh.bin".into(), plain(&binary[1000..]));
    from.insert("gone.bin".into(), plain(&binary[7..]));
    to.insert("empty".into(), plain(b""));
    to.insert("with space/na\"me\ttab".into(), plain(b"no newline at end"));
    from.insert("crlf".into(), plain(b"a\r\nb\r\n"));
    to.insert("crlf".into(), plain(b"a\r\nc\r\n"));
    from.insert("only-mode".into(), plain(b"m\n"));
    to.insert("only-mode".into(), script(b"m\n"));
    from.insert("retarget".into(), link("one"));
    to.insert("retarget".into(), link("two"));
    let (a, b) = (snapshot(&repo, &from), snapshot(&repo, &to));
    let mut patch = Vec::new();
    let facts = write_patch(&repo, &a, &b, &mut patch).unwrap();
    let measured = measure_patch(&repo, &a, &b).unwrap();
    assert_eq!(measured.files, facts.files, "what is measured is what is written");
    assert!(measured.added > facts.added && measured.removed > facts.removed, "{measured:?}");
    assert!(facts.files >= 17 && facts.added >= 8 && facts.removed >= 8, "{facts:?}");
    let root = folder.path().join("caller");
    fs::create_dir(&root).unwrap();
    write_files(&root, &from);
    fs::write(folder.path().join("patch"), &patch).unwrap();
    let git = Command::new("git")
        .args(["apply", "--whitespace=nowarn"])
        .arg(folder.path().join("patch"))
        .current_dir(&root)
        .env("GIT_CEILING_DIRECTORIES", folder.path())
        .output()
        .unwrap();
    assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    assert_eq!(snap::read_files(&root), to);
    let mut none = Vec::new();
    assert_eq!(write_patch(&repo, &b, &b, &mut none).unwrap(), Default::default());
    assert!(none.is_empty());
}

#[test]
fn a_patch_on_a_full_disk_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let repo = store(&folder.path().join("store"));
    let (a, b) = (snapshot(&repo, &t0()), snapshot(&repo, &wanted()));
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = write_patch(&repo, &a, &b, &mut Full).unwrap_err();
    assert_eq!((error.kind, error.detail), (Kind::StorageExhausted, Some("disk_full")));
}

/// Writes folders in one another, the innermost with one file, as raw trees.
fn deep(repo: &git2::Repository, levels: usize) -> String {
    let odb = repo.odb().unwrap();
    let mut id = odb.write(git2::ObjectType::Blob, b"x").unwrap();
    let mut entry = b"100644 leaf\0".to_vec();
    for _ in 0..=levels {
        entry.extend(id.as_bytes());
        id = odb.write(git2::ObjectType::Tree, &entry).unwrap();
        entry = b"40000 d\0".to_vec();
    }
    id.to_string()
}

#[test]
fn a_deep_tree_is_compared_and_copied_and_one_too_deep_is_refused_in_a_few_words() {
    let bench = bench();
    let dest = bench.folder.path().join("deep");
    let made = |levels: usize| {
        let tree = deep(&bench.repo, levels);
        prepare(&bench.repo, &bench.layer, &bench.frozen, &tree, &dest, How::Real, &|| false)
    };
    let longest = usize::try_from(libc::PATH_MAX).unwrap();
    let prepared = made(longest / 3).unwrap();
    let leaf = prepared.dir.join(vec!["d"; longest / 3].join("/")).join("leaf");
    assert_eq!(fs::read(leaf).unwrap(), b"x");
    remove(&dest).unwrap();
    assert!(!dest.exists());
    let error = made(longest / 2 + 10).unwrap_err();
    assert_eq!(error.kind, Kind::WorkspaceInvalid);
    let said = error.to_string();
    assert!(
        said.contains(&format!("{} levels deep", longest / 2 + 1)) && said.len() < 400,
        "{said}"
    );
    assert!(!dest.exists());
}
