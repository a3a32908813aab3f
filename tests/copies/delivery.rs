//! Delivery into a caller's tree: all or nothing, through kills, changes and full disks.

use crate::snap::{self, Files, link, plain, script, snapshot, store, write_files};
use loopexec::error::{Error, Kind};
use loopexec::workspace::branch::{Source, create_branch};
use loopexec::workspace::deliver::{apply, drop_set_user_id, finish};
use loopexec::workspace::layer::freeze;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

struct Bench {
    folder: tempfile::TempDir,
    repo: git2::Repository,
    t0: String,
    wanted: String,
}

impl Bench {
    fn new(t0: &Files, wanted: &Files) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = store(&folder.path().join("store"));
        let (first, last) = (snapshot(&repo, t0), snapshot(&repo, wanted));
        fs::create_dir_all(folder.path().join("caller/.loopexec/runs/r1")).unwrap();
        write_files(&folder.path().join("caller"), t0);
        Self { folder, repo, t0: first, wanted: last }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("caller")
    }

    fn run(&self) -> PathBuf {
        self.root().join(".loopexec/runs/r1")
    }

    fn apply(&self) -> Result<(), Error> {
        apply(&self.repo, &self.t0, &self.wanted, &self.root(), &self.run()).map(|_| ())
    }

    fn held(&self) -> Files {
        let mut files = snap::read_files(&self.root());
        files.retain(|path, _| !path.starts_with(".loopexec"));
        files
    }

    fn refused(&self, naming: &str) {
        let before = self.held();
        let error = self.apply().unwrap_err();
        assert_eq!(
            (error.kind, error.detail),
            (Kind::WorkspaceInvalid, Some("caller_tree_changed"))
        );
        assert!(error.hints.iter().any(|hint| hint.starts_with(naming)), "{:?}", error.hints);
        assert_eq!(self.held(), before);
        assert!(fs::read_dir(self.run()).unwrap().next().is_none(), "no journal, no stage");
    }
}

fn t0() -> Files {
    BTreeMap::from([
        ("a.txt".into(), plain(b"a\n")),
        ("mode.sh".into(), plain(b"#!/bin/sh\n")),
        ("link".into(), link("a.txt")),
        ("file-to-folder".into(), plain(b"f")),
        ("folder-to-file/x".into(), plain(b"x")),
        ("folder-to-file/deep/y".into(), plain(b"y")),
        ("going/all/gone".into(), plain(b"g")),
        ("going/kept".into(), plain(b"k")),
        ("same".into(), plain(b"s")),
    ])
}

fn wanted() -> Files {
    let mut files = t0();
    files.insert("a.txt".into(), plain(b"b\n"));
    files.insert("mode.sh".into(), script(b"#!/bin/sh\n"));
    files.insert("link".into(), link("same"));
    files.remove(Path::new("file-to-folder"));
    files.insert("file-to-folder/in".into(), plain(b"i"));
    files.remove(Path::new("folder-to-file/x"));
    files.remove(Path::new("folder-to-file/deep/y"));
    files.insert("folder-to-file".into(), plain(b"F"));
    files.remove(Path::new("going/all/gone"));
    files.insert("new/deep/file".into(), script(b"n"));
    files.insert(PathBuf::from(OsStr::from_bytes(b"odd \xfe name")), plain(b""));
    files
}

#[test]
fn apply_brings_the_tree_to_the_wanted_snapshot() {
    let bench = Bench::new(&t0(), &wanted());
    fs::set_permissions(bench.root().join("a.txt"), Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(bench.root().join("mode.sh"), Permissions::from_mode(0o640)).unwrap();
    let same = fs::metadata(bench.root().join("same")).unwrap();
    fs::write(bench.root().join("untracked"), "the caller's own").unwrap();
    bench.apply().unwrap();
    let mut expected = wanted();
    expected.insert("untracked".into(), plain(b"the caller's own"));
    assert_eq!(bench.held(), expected);
    let mode = |path: &str| fs::metadata(bench.root().join(path)).unwrap().mode() & 0o777;
    assert_eq!((mode("a.txt"), mode("mode.sh")), (0o640, 0o750), "only the execute bit follows");
    assert!(!bench.root().join("going/all").exists());
    let now = fs::metadata(bench.root().join("same")).unwrap();
    assert_eq!((now.ino(), now.mtime_nsec()), (same.ino(), same.mtime_nsec()));
    assert!(finish(&bench.repo, &bench.root(), &bench.run()).unwrap().is_none(), "nothing is open");
    let left: Vec<_> = fs::read_dir(bench.run()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["delivered.json"]);
}

#[test]
fn a_folder_with_ignored_files_stays() {
    let bench = Bench::new(&t0(), &wanted());
    fs::write(bench.root().join("going/all/cache.o"), "ignored").unwrap();
    bench.apply().unwrap();
    assert!(bench.root().join("going/all/cache.o").exists());
    assert!(!bench.root().join("going/all/gone").exists());
}

#[test]
fn any_file_that_differs_from_t0_stops_the_whole_delivery() {
    type Edit<'a> = (&'a str, &'a dyn Fn(&Path));
    let edits: [Edit<'_>; 9] = [
        ("a.txt", &|root| fs::write(root.join("a.txt"), "mine").unwrap()),
        ("a.txt", &|root| fs::write(root.join("a.txt"), "b\n").unwrap()),
        ("a.txt", &|root| fs::remove_file(root.join("a.txt")).unwrap()),
        ("mode.sh", &|root| {
            fs::set_permissions(root.join("mode.sh"), Permissions::from_mode(0o755)).unwrap();
            fs::write(root.join("mode.sh"), "other").unwrap();
        }),
        ("link", &|root| {
            fs::remove_file(root.join("link")).unwrap();
            symlink("elsewhere", root.join("link")).unwrap();
        }),
        ("going/all/gone", &|root| fs::write(root.join("going/all/gone"), "edited").unwrap()),
        ("new/deep/file", &|root| {
            fs::create_dir_all(root.join("new/deep")).unwrap();
            fs::write(root.join("new/deep/file"), "there").unwrap();
        }),
        ("folder-to-file", &|root| {
            fs::write(root.join("folder-to-file/ignored.o"), "there").unwrap();
        }),
        ("a.txt", &|root| {
            fs::remove_file(root.join("a.txt")).unwrap();
            nix::unistd::mkfifo(&root.join("a.txt"), nix::sys::stat::Mode::S_IRWXU).unwrap();
            // Reading the tree back for the comparison would hang on it.
            fs::remove_file(root.join("a.txt")).unwrap();
            fs::create_dir(root.join("a.txt")).unwrap();
        }),
    ];
    for (naming, edit) in edits {
        let bench = Bench::new(&t0(), &wanted());
        edit(&bench.root());
        bench.refused(naming);
    }
}

#[test]
fn a_new_file_that_is_already_the_wanted_one_is_no_obstacle() {
    let bench = Bench::new(&t0(), &wanted());
    fs::create_dir_all(bench.root().join("new/deep")).unwrap();
    fs::write(bench.root().join("new/deep/file"), "n").unwrap();
    let mode = Permissions::from_mode(0o755);
    fs::set_permissions(bench.root().join("new/deep/file"), mode).unwrap();
    bench.apply().unwrap();
    assert_eq!(bench.held(), wanted());
}

#[test]
fn a_symlink_on_the_way_is_not_followed() {
    let bench = Bench::new(&t0(), &wanted());
    let outside = bench.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, bench.root().join("new")).unwrap();
    bench.refused("new/deep/file: new is no folder");
    assert!(fs::read_dir(&outside).unwrap().next().is_none());
}

#[test]
fn a_repositorys_own_files_and_loopexecs_state_are_never_delivered() {
    for path in [".git/hooks/pre-commit", "sub/.GIT/config", ".loopexec/x", ".loop_state.json"] {
        let mut files = t0();
        files.insert(path.into(), script(b"#!/bin/sh\n"));
        let bench = Bench::new(&t0(), &files);
        let error = bench.apply().unwrap_err();
        assert_eq!(error.kind, Kind::WorkspaceInvalid);
        assert!(error.what.contains("never delivered"), "{}", error.what);
        assert_eq!(bench.held(), t0());
    }
}

#[test]
fn finish_refuses_a_file_that_is_neither() {
    let bench = Bench::new(&t0(), &wanted());
    bench.apply().unwrap();
    fs::rename(bench.run().join("delivered.json"), bench.run().join("delivery.json")).unwrap();
    fs::write(bench.root().join("a.txt"), "a\n").unwrap();
    fs::write(bench.root().join("mode.sh"), "the caller's edit").unwrap();
    let error = finish(&bench.repo, &bench.root(), &bench.run()).unwrap_err();
    assert_eq!(error.detail, Some("caller_tree_changed"));
    assert!(error.hints[0].starts_with("mode.sh"), "{:?}", error.hints);
    assert_eq!(fs::read(bench.root().join("a.txt")).unwrap(), b"a\n");
    fs::write(bench.root().join("mode.sh"), "#!/bin/sh\n").unwrap();
    assert!(finish(&bench.repo, &bench.root(), &bench.run()).unwrap().is_some());
    assert_eq!(bench.held(), wanted());
}

fn many(version: &str) -> Files {
    let mut files = if version == "1" { t0() } else { wanted() };
    for index in 0..14 {
        let content = format!("{version} {index}\n").repeat(index * 20 + 1);
        files.insert(format!("many/{}/{index}", index % 7).into(), plain(content.as_bytes()));
        if (index % 2 == 0) == (version == "1") {
            files.insert(format!("some/{index}/only").into(), plain(version.as_bytes()));
        }
    }
    files
}

/// The body of the process that is killed; an ordinary test run passes it by.
#[test]
fn deliver_where_the_environment_says() {
    let Some(folder) = std::env::var_os("LOOPEXEC_TEST_DELIVERY") else { return };
    let folder = PathBuf::from(folder);
    let repo = git2::Repository::open_bare(folder.join("store")).unwrap();
    let trees = fs::read_to_string(folder.join("trees")).unwrap();
    let (t0, wanted) = trees.split_once(' ').unwrap();
    let (root, run) = (folder.join("caller"), folder.join("caller/.loopexec/runs/r1"));
    println!("begins");
    apply(&repo, t0, wanted, &root, &run).unwrap();
}

#[test]
fn killed_at_any_moment_each_file_is_t0s_or_the_delivered_one_and_finish_completes() {
    let (old, new) = (many("1"), many("2"));
    let (mut early, mut midway, mut late) = (0, 0, 0);
    let mut longest = Duration::from_millis(30);
    for round in 0..60u32 {
        let bench = Bench::new(&old, &new);
        let trees = format!("{} {}", bench.t0, bench.wanted);
        fs::write(bench.folder.path().join("trees"), trees).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "delivery::deliver_where_the_environment_says", "--nocapture"])
            .env("LOOPEXEC_TEST_DELIVERY", bench.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("begins") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut out, &mut line).unwrap() > 0);
        }
        let begun = std::time::Instant::now();
        // The first rounds run to their end to learn how long a delivery takes here; the others die
        // at moments that are spread over it, two of three once names are being exchanged.
        if round < 3 {
            child.wait().unwrap();
            longest = begun.elapsed();
        } else if round % 3 == 0 {
            std::thread::sleep(longest.mul_f64(f64::from(round) / 60.0));
        } else {
            let first = bench.root().join("a.txt");
            while fs::read(&first).unwrap()
                == b"a
" && child.try_wait().unwrap().is_none()
            {}
            std::thread::sleep(Duration::from_micros(u64::from(round % 20) * 20));
        }
        let _ = child.kill();
        child.wait().unwrap();
        let held = bench.held();
        for path in old.keys().chain(new.keys()) {
            let found = held.get(path);
            assert!(
                found == old.get(path) || found == new.get(path),
                "{}: {round}",
                path.display()
            );
        }
        for path in held.keys() {
            assert!(old.contains_key(path) || new.contains_key(path), "{}", path.display());
        }
        let begun = held != old || bench.run().join("delivery.json").exists();
        match (begun, held == new) {
            (_, true) => late += 1,
            (true, false) if held != old => midway += 1,
            _ => early += 1,
        }
        let finished = finish(&bench.repo, &bench.root(), &bench.run()).unwrap();
        if begun {
            assert_eq!(bench.held(), new, "{finished:?}");
        } else {
            assert_eq!(bench.held(), old);
            bench.apply().unwrap();
            assert_eq!(bench.held(), new);
        }
        assert!(finish(&bench.repo, &bench.root(), &bench.run()).unwrap().is_none());
        assert!(!bench.run().join("stage").exists());
    }
    println!("killed: {early} before the first change, {midway} midway, {late} after the last");
    assert!(midway >= 3, "{early} {midway} {late}");
}

/// The body of the process that may write small files only; an ordinary test run passes it by.
#[test]
fn deliver_and_freeze_where_large_files_do_not_fit() {
    let Some(folder) = std::env::var_os("LOOPEXEC_TEST_SMALL") else { return };
    let folder = PathBuf::from(folder);
    let repo = git2::Repository::open_bare(folder.join("store")).unwrap();
    let trees = fs::read_to_string(folder.join("trees")).unwrap();
    let (t0, wanted) = trees.split_once(' ').unwrap();
    let (root, run) = (folder.join("caller"), folder.join("caller/.loopexec/runs/r1"));
    let error = apply(&repo, t0, wanted, &root, &run).unwrap_err();
    assert_eq!((error.kind, error.detail), (Kind::StorageExhausted, Some("disk_full")), "{error}");
    let layer = folder.join("layer");
    let error = freeze(&folder.join("large"), &root, &layer, &|_, _| true, &|| false).unwrap_err();
    assert_eq!((error.kind, error.detail), (Kind::StorageExhausted, Some("disk_full")), "{error}");
    assert!(!layer.exists());
    fs::write(folder.join("was-here"), "").unwrap();
}

#[test]
fn where_there_is_no_room_nothing_changes_and_nothing_is_left() {
    let mut files = wanted();
    files.insert("z-large".into(), plain(&vec![b'l'; 3 << 20]));
    let bench = Bench::new(&t0(), &files);
    let folder = bench.folder.path();
    fs::create_dir(folder.join("large")).unwrap();
    fs::write(folder.join("large/file"), vec![b'l'; 3 << 20]).unwrap();
    fs::write(folder.join("trees"), format!("{} {}", bench.t0, bench.wanted)).unwrap();
    // A limit on the size of files fails as a full disk does, once its signal is ignored.
    let status = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "delivery::deliver_and_freeze_where_large_files_do_not_fit"])
        .env("LOOPEXEC_TEST_SMALL", folder)
        .status()
        .unwrap();
    assert!(status.success() && folder.join("was-here").exists());
    assert_eq!(bench.held(), t0());
    assert!(fs::read_dir(bench.run()).unwrap().next().is_none(), "no journal, no stage");
    bench.apply().unwrap();
    assert_eq!(bench.held(), files);
}

/// A caller whose filter is a file of the tree, with an agent that changed both it and what it applies to.
fn with_filter(attributes: &[u8], delivered: &[u8]) -> (Bench, String) {
    let before = BTreeMap::from([
        (".gitattributes".into(), plain(attributes)),
        ("a.nb".into(), plain(b"old\n")),
        ("tools/clean.sh".into(), script(b"#!/bin/sh\nsed 's/^/cleaned /'\n")),
    ]);
    let mut after = before.clone();
    after.insert(".gitattributes".into(), plain(delivered));
    after.insert("a.nb".into(), plain(b"new\n"));
    after.insert("b.nb".into(), script(b"more\n"));
    let planted = b"#!/bin/sh\necho planted\n";
    after.insert("tools/clean.sh".into(), script(planted));
    let bench = Bench::new(&before, &after);
    let root = bench.root();
    git(&root, &["init", "-q", "-b", "main"]);
    git(&root, &["config", "filter.nb.clean", "./tools/clean.sh"]);
    fs::write(root.join(".git/info/exclude"), ".loopexec\n").unwrap();
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "first"]);
    let head = git(&root, &["rev-parse", "HEAD"]);
    (bench, head)
}

#[test]
fn a_branch_is_filtered_by_the_callers_program_and_never_by_the_agents() {
    let (bench, head) = with_filter(b"*.nb filter=nb\n", b"*.nb filter=nb\n*.x -text\n");
    let root = bench.root();
    assert_eq!(git(&root, &["show", "HEAD:a.nb"]), "cleaned old", "a filter that works");
    deliver_branch(&bench, Some(&head)).unwrap();
    assert_eq!(git(&root, &["show", "loopexec/r1:a.nb"]), "cleaned new");
    assert_eq!(git(&root, &["show", "loopexec/r1:b.nb"]), "cleaned more");
    assert!(git(&root, &["ls-tree", "loopexec/r1", "b.nb"]).starts_with("100755 "));
    assert!(git(&root, &["show", "loopexec/r1:tools/clean.sh"]).contains("echo planted"));
    assert_eq!(git(&root, &["status", "--porcelain"]), "", "the caller's index and tree");
}

#[test]
fn a_filter_that_only_the_result_asks_for_or_that_fails_refuses_the_branch() {
    let (bench, head) = with_filter(b"", b"*.nb filter=nb\n");
    let error = deliver_branch(&bench, Some(&head)).unwrap_err();
    assert!(error.what.contains("the result gives \"a.nb\" the filter nb"), "{error}");
    let (bench, head) = with_filter(b"*.nb filter=nb\n", b"*.nb filter=nb\n");
    git(&bench.root(), &["config", "filter.nb.clean", "no-such-program-at-all"]);
    let error = deliver_branch(&bench, Some(&head)).unwrap_err();
    assert!(error.what.contains("the filter nb of your git configuration failed"), "{error}");
    assert_eq!(git(&bench.root(), &["branch", "--list", "loopexec/*"]), "");
}

#[test]
fn a_name_that_a_file_system_takes_for_gits_own_is_delivered_nowhere() {
    for name in [
        "x/.GIT/config",
        "w/git~1/config",
        ".git. ./config",
        ".git::$INDEX_ALLOCATION/config",
        "a\\.git\\config",
        ".g\u{200c}it/config",
        "x/.GiT\u{feff}",
    ] {
        let mut files = t0();
        files.insert(name.into(), plain(b"x"));
        let bench = Bench::new(&t0(), &files);
        let root = bench.root();
        git(&root, &["init", "-q", "-b", "main"]);
        git(&root, &["commit", "-q", "--allow-empty", "-m", "first"]);
        let head = git(&root, &["rev-parse", "HEAD"]);
        let (applied, branched) = (bench.apply(), deliver_branch(&bench, Some(&head)));
        for error in [applied.unwrap_err(), branched.unwrap_err()] {
            assert!(error.what.ends_with("is never delivered"), "{name}: {error}");
        }
    }
    for name in [".gitt", ".git x", "git~2", "x.git", ".github/x"] {
        let mut files = t0();
        files.insert(name.into(), plain(b"x"));
        Bench::new(&t0(), &files).apply().unwrap();
    }
}

#[test]
fn changed_bytes_are_never_set_user_id() {
    let before = BTreeMap::from([
        ("a.txt".into(), script(b"a\n")),
        ("mode.sh".into(), script(b"#!/bin/sh\n")),
    ]);
    let mut after = before.clone();
    after.insert("a.txt".into(), script(b"b\n"));
    let held = Bench::new(&before, &after);
    for name in ["mode.sh", "a.txt"] {
        fs::set_permissions(held.root().join(name), Permissions::from_mode(0o7755)).unwrap();
    }
    held.apply().unwrap();
    let mode = |name: &str| fs::metadata(held.root().join(name)).unwrap().mode() & 0o7777;
    assert_eq!(mode("a.txt"), 0o755, "its content changed");
    assert_eq!(mode("mode.sh"), 0o7755, "nothing of it changed");
    // The same where an agent wrote into the tree itself.
    fs::set_permissions(held.root().join("a.txt"), Permissions::from_mode(0o4755)).unwrap();
    drop_set_user_id(&held.repo, &held.t0, &held.wanted, &held.root()).unwrap();
    assert_eq!((mode("a.txt"), mode("mode.sh")), (0o755, 0o7755));
}

fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn deliver_branch(bench: &Bench, head: Option<&str>) -> Result<String, Error> {
    let source = Source {
        repo: &bench.repo,
        carried: &bench.t0,
        tree: &bench.wanted,
        head,
        run_id: "r1",
        message: "Fix it\n\nLoopexec-Run: r1\n",
        scratch: &bench.folder.path().join("scratch"),
    };
    let branch = create_branch(&source, &bench.root())?;
    assert_eq!(branch.name, "loopexec/r1");
    assert!(!source.scratch.exists());
    Ok(branch.commit)
}

#[test]
fn a_branch_holds_the_final_state_and_leaves_the_rest_alone() {
    for format in ["sha1", "sha256"] {
        let bench = Bench::new(&t0(), &wanted());
        let root = bench.root();
        git(&root, &["init", "-q", "-b", "main", "--object-format", format]);
        fs::write(root.join(".git/info/exclude"), ".loopexec\nnew\n").unwrap();
        git(&root, &["add", "-A"]);
        git(&root, &["commit", "-q", "-m", "first"]);
        let hook = root.join(".git/hooks/reference-transaction");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, "#!/bin/sh\ntouch ran\nexit 1\n").unwrap();
        fs::set_permissions(&hook, Permissions::from_mode(0o755)).unwrap();
        let head = git(&root, &["rev-parse", "HEAD"]);
        let index = fs::read(root.join(".git/index")).unwrap();
        let before = bench.held();
        let commit = deliver_branch(&bench, Some(&head)).unwrap();
        let own = |files: &Files| {
            let mut files = files.clone();
            files.retain(|path, _| !path.starts_with(".git"));
            files
        };
        assert_eq!(own(&bench.held()), own(&before));
        assert_eq!(fs::read(root.join(".git/index")).unwrap(), index);
        assert_eq!(git(&root, &["rev-parse", "HEAD"]), head);
        fs::remove_file(hook).unwrap();
        assert_eq!(git(&root, &["rev-parse", "loopexec/r1"]), commit);
        assert_eq!(git(&root, &["rev-parse", "loopexec/r1^"]), head);
        let other = bench.folder.path().join("other");
        git(&root, &["worktree", "add", "-q", "--detach", other.to_str().unwrap(), "loopexec/r1"]);
        let mut files = snap::read_files(&other);
        files.remove(Path::new(".git"));
        assert_eq!(files, wanted(), "{format}");
        git(&root, &["fsck", "--strict"]);
        // A run that was killed behind it finds what it made; anything else stays as it is.
        assert_eq!(deliver_branch(&bench, Some(&head)).unwrap(), commit);
        let error = deliver_branch(&bench, None).unwrap_err();
        assert!(error.what.contains("exists already"), "{}", error.what);
        assert_eq!(git(&root, &["rev-parse", "loopexec/r1"]), commit);
    }
}

#[test]
fn a_branch_keeps_sparse_paths_and_submodules_of_its_parent() {
    let bench = Bench::new(&t0(), &wanted());
    let root = bench.root();
    fs::create_dir(root.join("far")).unwrap();
    fs::write(root.join("far/away"), "far").unwrap();
    git(&root, &["init", "-q", "-b", "main"]);
    fs::write(root.join(".git/info/exclude"), ".loopexec\n").unwrap();
    git(&root, &["init", "-q", "module"]);
    fs::write(root.join("module/file"), "m").unwrap();
    git(&root.join("module"), &["add", "file"]);
    git(&root.join("module"), &["commit", "-q", "-m", "m"]);
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "first"]);
    git(&root, &["update-index", "--skip-worktree", "far/away"]);
    fs::remove_file(root.join("far/away")).unwrap();
    let head = git(&root, &["rev-parse", "HEAD"]);
    deliver_branch(&bench, Some(&head)).unwrap();
    let listed = git(&root, &["ls-tree", "-r", "loopexec/r1"]);
    assert!(listed.contains("far/away"), "{listed}");
    assert!(listed.contains("160000 commit"), "{listed}");
    assert!(listed.contains("new/deep/file"), "{listed}");
}

#[test]
fn a_branch_on_nothing_begins_with_what_was_there_and_a_plain_folder_is_pointed_to_the_patch() {
    let bench = Bench::new(&t0(), &wanted());
    let error = deliver_branch(&bench, None).unwrap_err();
    assert_eq!(error.kind, Kind::WorkspaceInvalid);
    assert!(error.hints[0].contains("deliver: patch"), "{:?}", error.hints);
    git(&bench.root(), &["init", "-q", "-b", "main"]);
    let commit = deliver_branch(&bench, None).unwrap();
    assert_eq!(git(&bench.root(), &["rev-list", "--count", "loopexec/r1"]), "2");
    let first = git(&bench.root(), &["log", "-1", "--format=%s", "loopexec/r1^"]);
    assert_eq!(first, "loopexec: uncommitted changes at the start");
    assert_eq!(deliver_branch(&bench, None).unwrap(), commit);
    assert_eq!(git(&bench.root(), &["rev-parse", "loopexec/r1"]), commit);
}
