//! Snapshots, going back to them, and what differs between them.

use crate::bench::{Bench, NEVER, Workspace, describe, git, git_tree_of, write};
use loopexec::workspace::changes::{ChangeKind, changes};
use loopexec::workspace::ignored::Ignored;
use loopexec::workspace::restore::{Restored, checkout, restore};
use loopexec::workspace::snapshot::Snapshotter;
use loopexec::workspace::walk::Specials;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

fn made(files: &[(&str, &str)]) -> (Bench, Workspace) {
    let bench = Bench::git_repository();
    for (name, content) in files {
        bench.write(name, content);
    }
    bench.commit();
    let workspace = bench.make();
    (bench, workspace)
}

fn back(workspace: &mut Workspace, tree: &str) -> Restored {
    let Workspace { root, store, snapshotter, .. } = workspace;
    restore(snapshotter, root, store, tree, &NEVER).unwrap()
}

fn age(path: &Path, seconds: u64) {
    let then = SystemTime::now() - Duration::from_secs(seconds);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
}

#[test]
fn a_snapshot_is_the_tree_git_makes() {
    let (bench, mut workspace) =
        made(&[("a", "1"), ("d/e/f", "2"), ("d.x", "3"), ("d-x", "4"), ("d0", "5")]);
    workspace.write("run", "#!/bin/sh\n");
    std::fs::set_permissions(workspace.root.join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("d/e", workspace.root.join("link")).unwrap();
    symlink("/nowhere/\n", workspace.root.join("dangling")).unwrap();
    write(&workspace.root, b"by\xff\xfetes\n\t\\", b"6");
    write(&workspace.root, b"big", &vec![7; 9 << 20]);
    write(&workspace.root, b"none", b"");
    let tree = workspace.take();
    assert_eq!(tree, git_tree_of(&workspace.root, bench.folder.path()));
    git(workspace.store.path(), &["fsck", "--no-dangling"]);
    // A snapshotter that saw nothing says the same.
    let mut other = Snapshotter::new(workspace.made.ignored.clone());
    assert_eq!(other.take(&workspace.root, &workspace.store, &NEVER).unwrap().tree, tree);
}

#[test]
fn only_what_changed_is_read_again() {
    let (_bench, mut workspace) = made(&[("a", "1"), ("b/c", "2"), ("b/d", "3")]);
    workspace.take();
    std::thread::sleep(Duration::from_millis(40));
    workspace.take();
    workspace.write("b/c", "4");
    let snapshot = workspace.snapshotter.take(&workspace.root, &workspace.store, &NEVER).unwrap();
    assert_eq!((snapshot.hashed, snapshot.files, snapshot.bytes), (1, 3, 3));
}

#[test]
fn a_change_of_equal_size_and_faked_time_is_seen() {
    let (_bench, mut workspace) = made(&[("a", "1")]);
    let path = workspace.root.join("a");
    let mut trees = std::collections::BTreeSet::new();
    for round in 0..50 {
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, format!("{round:04}")).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        trees.insert(workspace.take());
    }
    assert_eq!(trees.len(), 50);
}

#[test]
fn names_that_git_refuses_and_folders_without_files_are_kept() {
    let (bench, mut workspace) = made(&[("a", "1")]);
    for name in [".GIT/config", "git~1/x", "sub/.gitmodules", "con", "a:b", "-x", "…/\u{202e}y"] {
        workspace.write(name, name);
    }
    std::fs::create_dir_all(workspace.root.join("empty/inner")).unwrap();
    let tree = workspace.take();
    let dest = bench.path("copy");
    checkout(&workspace.store, &tree, &dest, &NEVER).unwrap();
    let strip = |root: &Path| -> Vec<_> {
        describe(root, &[".git"])
            .into_iter()
            .map(|(n, d)| (n, d.rsplit(' ').next().unwrap().to_string()))
            .collect()
    };
    assert_eq!(strip(&dest), strip(&workspace.root));
    assert!(dest.join("empty/inner").is_dir() && dest.join(".GIT/config").is_file());
}

#[test]
fn special_files_are_removed_and_reported_and_nested_repositories_told() {
    let (_bench, mut workspace) = made(&[("a", "1"), (".gitignore", "skip/\n")]);
    let plain = workspace.take();
    std::fs::create_dir(workspace.root.join("skip")).unwrap();
    for name in ["pipe", "skip/pipe"] {
        nix::unistd::mkfifo(&workspace.root.join(name), nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(workspace.root.join("sock")).unwrap();
    workspace.write("sub/.git/config", "[core]\n");
    workspace.write("sub/file", "x");
    workspace.write("skip/.git/config", "[core]\n");
    let snapshot = workspace.snapshotter.take(&workspace.root, &workspace.store, &NEVER).unwrap();
    assert_eq!(
        snapshot.specials_removed,
        [("pipe".to_string(), "fifo"), ("sock".to_string(), "socket")]
    );
    assert_eq!(snapshot.nested_git, ["sub/.git"]);
    assert!(!workspace.root.join("pipe").exists() && workspace.root.join("skip/pipe").exists());
    let found = changes(&workspace.store, &plain, &snapshot.tree).unwrap();
    assert_eq!(found.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), ["sub/file"]);
}

#[test]
fn in_the_callers_own_tree_special_files_stay() {
    let bench = Bench::git_repository();
    bench.write("a", "1");
    nix::unistd::mkfifo(&bench.caller.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let store = loopexec::workspace::store::Store::create(&bench.path("store")).unwrap();
    let scan = loopexec::workspace::scan::read_scan(&bench.discover(), &NEVER).unwrap();
    let mut snapshotter = Snapshotter::new(scan.ignored).with_specials(Specials::Keep);
    let snapshot = snapshotter.take(&bench.caller, &store, &NEVER).unwrap();
    assert_eq!(snapshot.specials_removed.len(), 1);
    assert!(bench.caller.join("pipe").exists());
    assert_eq!(git(store.path(), &["ls-tree", "--name-only", &snapshot.tree]), "a");
}

#[test]
fn an_agents_gitignore_hides_and_reveals_nothing() {
    let (_bench, mut workspace) = made(&[
        (".gitignore", "*.log\n"),
        ("sub/.gitignore", "cache/\n"),
        ("a", "1"),
        ("old.log", "x"),
    ]);
    let before = workspace.take();
    workspace.write(".gitignore", "*\n!*.log\n");
    workspace.write("sub/.gitignore", "");
    workspace.write("new.txt", "hidden?");
    workspace.write("new.log", "revealed?");
    workspace.write("sub/cache/x", "revealed?");
    workspace.write(".git/info/exclude", "*\n");
    let after = workspace.take();
    let found = changes(&workspace.store, &before, &after).unwrap();
    let paths: Vec<_> = found.iter().map(|c| (c.path.as_str(), c.kind)).collect();
    let expected = [
        (".gitignore", ChangeKind::Modified),
        ("new.txt", ChangeKind::Added),
        ("sub/.gitignore", ChangeKind::Modified),
    ];
    assert_eq!(paths, expected);
    // The rules come back from their record.
    let text = serde_json::to_string(&workspace.made.ignored).unwrap();
    let ignored: Ignored = serde_json::from_str(&text).unwrap();
    let mut again = Snapshotter::new(ignored);
    assert_eq!(again.take(&workspace.root, &workspace.store, &NEVER).unwrap().tree, after);
}

#[test]
fn what_git_ignores_is_what_we_ignore() {
    let bench = Bench::git_repository();
    bench.write(
        ".gitignore",
        "*.o\n!keep.o\n/top\nbuild/\n**/gen/*.c\n\\#odd\ntrail \nfoo/*\n!foo/bar\n",
    );
    bench.write(".git/info/exclude", "excluded\n");
    std::fs::create_dir_all(bench.path("home/.config/git")).unwrap();
    std::fs::write(bench.path("home/.config/git/ignore"), "*.swp\n").unwrap();
    for name in [
        "a.o",
        "keep.o",
        "top",
        "sub/top",
        "build/x",
        "sub/build/x",
        "gen/a.c",
        "q/gen/a.c",
        "q/gen/a.h",
        "#odd",
        "trail",
        "foo/bar",
        "foo/baz",
        "excluded",
        "x.swp",
        "only/a.o",
        "only/b.o",
        "mixed/a.o",
        "mixed/b.c",
        "forced/build/kept",
        "forced/build/not",
    ] {
        bench.write(name, name);
    }
    bench.git(&["add", "-f", "forced/build/kept"]);
    let excludes = format!("core.excludesFile={}", bench.path("home/.config/git/ignore").display());
    let listed = bench.git(&["-c", &excludes, "ls-files", "-o", "-c", "--exclude-standard"]);
    let mut expected: Vec<&str> = listed.lines().collect();
    expected.sort_unstable();
    let mut workspace = bench.make();
    let tree = workspace.take();
    let found = git(workspace.store.path(), &["ls-tree", "-r", "--name-only", &tree]);
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    assert_eq!(workspace.git(&["status", "--porcelain"]), "");
    // A folder that held ignored files alone is not ignored itself.
    workspace.write("only/new.c", "x");
    workspace.write("forced/build/new", "x");
    let after = workspace.take();
    let found = changes(&workspace.store, &tree, &after).unwrap();
    assert_eq!(found.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), ["only/new.c"]);
}

#[test]
fn going_back_writes_what_differs_with_the_present_time_and_leaves_the_rest() {
    let (_bench, mut workspace) = made(&[
        (".gitignore", "*.pyc\n"),
        ("same", "1"),
        ("changed", "2"),
        ("gone/deep/file", "3"),
        ("mode", "4"),
        ("file-to-folder", "5"),
        ("folder-to-file/x", "6"),
        ("file-to-link", "7"),
    ]);
    let root = workspace.root.clone();
    let old = |name: &str| std::fs::metadata(root.join(name)).unwrap();
    for name in ["same", "changed", "mode"] {
        age(&root.join(name), 1_000_000);
    }
    let tree = workspace.take();
    let (inode, time) = (old("same").ino(), old("same").modified().unwrap());

    std::fs::write(root.join("changed"), "x").unwrap();
    age(&root.join("changed"), 2_000_000);
    std::fs::remove_dir_all(root.join("gone")).unwrap();
    std::fs::set_permissions(root.join("mode"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::remove_file(root.join("file-to-folder")).unwrap();
    workspace.write("file-to-folder/inner/x", "x");
    std::fs::remove_dir_all(root.join("folder-to-file")).unwrap();
    workspace.write("folder-to-file", "x");
    std::fs::remove_file(root.join("file-to-link")).unwrap();
    symlink("same", root.join("file-to-link")).unwrap();
    workspace.write("new/folder/file", "x");
    workspace.write("new/folder/module.pyc", "cache");
    workspace.write("kept.pyc", "cache");
    std::fs::hard_link(root.join("kept.pyc"), root.join("hard")).unwrap();

    let restored = back(&mut workspace, &tree);
    assert_eq!(restored, Restored { written: 6, removed: 2 });
    assert_eq!(workspace.take(), tree);
    assert_eq!((old("same").ino(), old("same").modified().unwrap()), (inode, time));
    let age_of = |name: &str| old(name).modified().unwrap().elapsed().unwrap_or_default();
    assert!(age_of("changed") < Duration::from_secs(60));
    assert_eq!(old("mode").permissions().mode() & 0o111, 0);
    assert_eq!(workspace.read("gone/deep/file"), "3");
    assert_eq!(workspace.read("new/folder/module.pyc"), "cache");
    assert_eq!(workspace.read("kept.pyc"), "cache");
    assert_eq!(back(&mut workspace, &tree), Restored::default());
}

#[test]
fn a_file_that_shares_its_inode_is_replaced_not_written_through() {
    let (_bench, mut workspace) = made(&[(".gitignore", "*.pyc\n"), ("a", "1")]);
    let tree = workspace.take();
    std::fs::remove_file(workspace.root.join("a")).unwrap();
    workspace.write("x.pyc", "mine");
    std::fs::hard_link(workspace.root.join("x.pyc"), workspace.root.join("a")).unwrap();
    back(&mut workspace, &tree);
    assert_eq!((workspace.read("a"), workspace.read("x.pyc")), ("1".into(), "mine".into()));
}

#[test]
fn caches_in_empty_and_hollow_folders_do_not_change_the_tree() {
    let (_bench, mut workspace) = {
        let bench = Bench::git_repository();
        bench.write(".gitignore", "*.log\n");
        bench.write("hollow/a.log", "x");
        std::fs::create_dir(bench.caller.join("logs")).unwrap();
        bench.commit();
        let workspace = bench.make();
        (bench, workspace)
    };
    let tree = workspace.take();
    workspace.write("logs/run.log", "x");
    workspace.write("fresh/run.log", "x");
    assert_eq!(workspace.take(), tree);
    std::fs::remove_file(workspace.root.join("hollow/a.log")).unwrap();
    assert_eq!(workspace.take(), tree);
}

#[test]
fn folders_nobody_may_enter_and_files_nobody_may_read_are_recorded() {
    let (_bench, mut workspace) = made(&[("locked/file", "1"), ("secret", "2")]);
    let tree = workspace.take();
    for (name, mode) in [("secret", 0o000), ("locked", 0o000)] {
        std::fs::set_permissions(workspace.root.join(name), PermissionsExt::from_mode(mode))
            .unwrap();
    }
    let mut fresh = Snapshotter::new(workspace.made.ignored.clone());
    assert_eq!(fresh.take(&workspace.root, &workspace.store, &NEVER).unwrap().tree, tree);
    assert_eq!(
        std::fs::metadata(workspace.root.join("secret")).unwrap().permissions().mode() & 0o777,
        0
    );
}

#[test]
fn a_tree_deeper_than_any_path_is_recorded_restored_and_removed() {
    let (bench, mut workspace) = made(&[("a", "1")]);
    let shallow = workspace.take();
    let name = "d".repeat(50);
    let mut at = nix::fcntl::open(
        &workspace.root,
        nix::fcntl::OFlag::O_DIRECTORY,
        nix::sys::stat::Mode::empty(),
    )
    .unwrap();
    for _ in 0..4096 {
        nix::sys::stat::mkdirat(&at, name.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        at = nix::fcntl::openat(
            &at,
            name.as_str(),
            nix::fcntl::OFlag::O_DIRECTORY,
            nix::sys::stat::Mode::empty(),
        )
        .unwrap();
    }
    drop(at);
    let deep = workspace.take();
    assert_ne!(deep, shallow);
    assert_eq!(changes(&workspace.store, &shallow, &deep).unwrap().len(), 1);
    back(&mut workspace, &shallow);
    assert!(!workspace.root.join(&name).exists());
    let copy = bench.path("copy");
    checkout(&workspace.store, &deep, &copy, &NEVER).unwrap();
    let mut other = Snapshotter::new(Ignored::default());
    assert_eq!(other.take(&copy, &workspace.store, &NEVER).unwrap().tree, deep);
    loopexec::workspace::at::remove_tree(&copy).unwrap();
    assert!(!copy.exists());
}

#[test]
fn changes_name_their_kind() {
    let (_bench, mut workspace) = made(&[("mod", "1"), ("del", "2"), ("mode", "3"), ("type", "4")]);
    let before = workspace.take();
    workspace.write("mod", "x");
    std::fs::remove_file(workspace.root.join("del")).unwrap();
    std::fs::set_permissions(workspace.root.join("mode"), PermissionsExt::from_mode(0o755))
        .unwrap();
    std::fs::remove_file(workspace.root.join("type")).unwrap();
    symlink("mod", workspace.root.join("type")).unwrap();
    write(&workspace.root, b"a\n\xff", b"new");
    std::fs::create_dir(workspace.root.join("void")).unwrap();
    let after = workspace.take();
    let found = changes(&workspace.store, &before, &after).unwrap();
    let kinds: Vec<_> = found.iter().map(|c| (c.path.as_str(), c.kind)).collect();
    use ChangeKind::{Added, Deleted, Mode, Modified, Type};
    let expected = [
        ("a\\x0a\\xff", Added),
        ("del", Deleted),
        ("mod", Modified),
        ("mode", Mode),
        ("type", Type),
        ("void", Added),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(found[0].bytes(), b"a\n\xff");
}

#[test]
fn a_stopped_snapshot_leaves_nothing_half_known() {
    let (_bench, mut workspace) = made(&[("a", "1"), ("b", "2")]);
    let tree = workspace.take();
    let error = workspace.snapshotter.take(&workspace.root, &workspace.store, &|| true);
    assert_eq!(error.unwrap_err().kind, loopexec::error::Kind::Interrupted);
    assert_eq!(workspace.take(), tree);
}

#[test]
fn a_snapshot_stops_in_the_middle_of_a_large_file() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let (_bench, mut workspace) = made(&[("a", "1")]);
    let tree = workspace.take();
    let large = workspace.root.join("large");
    std::fs::File::create(&large).unwrap().set_len(4 << 30).unwrap();
    let asked = AtomicU32::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 10;
    let begun = std::time::Instant::now();
    let error = workspace.snapshotter.take(&workspace.root, &workspace.store, &stop);
    assert_eq!(error.unwrap_err().kind, loopexec::error::Kind::Interrupted);
    // All of it takes minutes in a build for tests.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    std::fs::remove_file(&large).unwrap();
    assert_eq!(workspace.take(), tree);
}
