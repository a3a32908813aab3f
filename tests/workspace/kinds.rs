//! Every kind of repository a caller can have.

use crate::bench::{
    Bench, NEVER, Workspace, assert_same, describe, git, git_command, options, write,
};
use loopexec::error::Kind;
use loopexec::workspace::caller::{Caller, CallerKind, Head};
use loopexec::workspace::carry::Carry;
use loopexec::workspace::history::{History, HistoryKind};
use loopexec::workspace::make::OnDirty;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

/// Fills a repository with a commit and something uncommitted of each sort.
fn fill(bench: &Bench) {
    bench.write("src/lib.rs", "pub fn f() {}\n");
    bench.write("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(bench.caller.join("run.sh"), PermissionsExt::from_mode(0o755))
        .unwrap();
    symlink("src/lib.rs", bench.caller.join("link")).unwrap();
    bench.write("with space/ü.txt", "x\n");
    write(&bench.caller, b"not-utf8-\xff", b"y\n");
    bench.write("gone.txt", "soon\n");
    bench.write(".gitignore", "*.log\n/build/\n");
    bench.commit();
    edit(bench);
}

fn edit(bench: &Bench) {
    bench.write("src/lib.rs", "pub fn f() { changed() }\n");
    bench.write("new.txt", "untracked\n");
    bench.write("build/out.o", "binary");
    bench.write("a.log", "log");
    std::fs::create_dir(bench.caller.join("empty")).unwrap();
    let _ = std::fs::remove_file(bench.caller.join("gone.txt"));
}

/// Makes a workspace and holds it to what is true for every kind.
fn hold(bench: &Bench, kind: HistoryKind) -> Workspace {
    let before = describe(&bench.caller, &[]);
    let mut workspace = bench.make();
    assert_same(&before, &describe(&bench.caller, &[]), "the caller's tree");
    let nested: Vec<String> = before
        .keys()
        .filter_map(|p| p.to_str())
        .filter(|p| p.ends_with("/.git"))
        .map(str::to_string)
        .collect();
    let mut skip: Vec<&str> = nested.iter().map(String::as_str).collect();
    skip.push(".git");
    assert_same(&describe(&bench.caller, &skip), &describe(&workspace.root, &[".git"]), "the copy");
    for name in ["src/lib.rs", "build/out.o"] {
        let inode = |root: &Path| std::fs::metadata(root.join(name)).map(|found| found.ino()).ok();
        assert!(inode(&workspace.root).is_none_or(|i| Some(i) != inode(&bench.caller)));
    }
    assert_eq!(workspace.made.history.kind, kind, "{:?}", workspace.made.history);
    assert_eq!(workspace.git(&["status", "--porcelain"]), "");
    assert_eq!(workspace.git(&["remote"]), "");
    assert_eq!(workspace.git(&["rev-parse", "HEAD"]), workspace.made.history.head);
    workspace.git(&["fsck", "--no-dangling"]);
    assert_eq!(workspace.git(&["config", "gc.auto"]), "0");
    assert_eq!(workspace.git(&["config", "maintenance.auto"]), "false");
    for gone in ["hooks", "logs", "description", "FETCH_HEAD", "refs/loopexec"] {
        assert!(!workspace.root.join(".git").join(gone).exists(), "{gone}");
    }
    let tree = workspace.take();
    assert_eq!(workspace.take(), tree);
    workspace
}

fn branch_of(workspace: &Workspace) -> String {
    workspace.git(&["symbolic-ref", "-q", "--short", "HEAD"])
}

fn is_detached(folder: &Path) -> bool {
    !git_command(folder).args(["symbolic-ref", "-q", "HEAD"]).status().unwrap().success()
}

#[test]
fn an_ordinary_repository_with_uncommitted_changes() {
    let bench = Bench::git_repository();
    fill(&bench);
    let workspace = hold(&bench, HistoryKind::Real);
    assert!(workspace.made.dirty);
    assert_eq!(branch_of(&workspace), "main");
    assert_eq!(workspace.git(&["rev-parse", "HEAD~1"]), bench.git(&["rev-parse", "HEAD"]));
    let mut carried = workspace.made.carried.clone();
    carried.sort();
    assert_eq!(carried, ["a.log", "build"]);
    // The store was filled from HEAD before any snapshot.
    let blob = bench.git(&["rev-parse", "HEAD:src/lib.rs"]);
    git(workspace.store.path(), &["cat-file", "-e", &blob]);
}

#[test]
fn a_clean_repository_keeps_its_commit_and_starts_below_its_top() {
    let bench = Bench::git_repository();
    bench.write("sub/a", "a");
    bench.commit();
    let workspace = hold(&bench, HistoryKind::Real);
    assert!(!workspace.made.dirty);
    assert_eq!(workspace.made.history.head, bench.git(&["rev-parse", "HEAD"]));
    let below = Caller::discover(&bench.caller.join("sub"), &bench.surroundings(), &NEVER).unwrap();
    assert_eq!((below.root, below.prefix.as_path()), (bench.caller.clone(), Path::new("sub")));
}

#[test]
fn a_plain_folder_whose_gitignore_counts() {
    let bench = Bench::new();
    edit(&bench);
    bench.write(".gitignore", "*.log\n/build/\n");
    let mut workspace = hold(&bench, HistoryKind::Synthetic);
    assert_eq!(workspace.made.history.why.as_deref(), Some("there is no git repository"));
    let tree = workspace.take();
    let listed = git(workspace.store.path(), &["ls-tree", "-r", "--name-only", &tree]);
    assert_eq!(listed, ".gitignore\nnew.txt\nsrc/lib.rs");
}

#[test]
fn an_unborn_branch() {
    let bench = Bench::git_repository();
    bench.git(&["symbolic-ref", "HEAD", "refs/heads/topic/one"]);
    edit(&bench);
    let workspace = hold(&bench, HistoryKind::Synthetic);
    assert_eq!(branch_of(&workspace), "topic/one");
}

#[test]
fn a_detached_head() {
    let bench = Bench::git_repository();
    fill(&bench);
    bench.git(&["stash", "-q", "-u"]);
    bench.git(&["checkout", "-q", "--detach"]);
    let workspace = hold(&bench, HistoryKind::Real);
    assert!(is_detached(&workspace.root));
    let CallerKind::Git { head, .. } = bench.discover().kind else { panic!() };
    assert_eq!(head, Head::Detached);
}

/// Makes the caller a clone of a repository with two commits.
fn cloned(arguments: &[&str]) -> Bench {
    let bench = Bench::new();
    let origin = bench.path("origin");
    std::fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "-q", "-b", "main"]);
    git(&origin, &["config", "uploadpack.allowFilter", "true"]);
    for (name, content) in
        [("src/lib.rs", "one\n"), ("docs/a.md", "docs\n"), ("src/lib.rs", "two\n")]
    {
        write(&origin, name.as_bytes(), content.as_bytes());
        git(&origin, &["add", "-A"]);
        git(&origin, &["commit", "-q", "-m", name]);
    }
    let mut all = vec!["clone", "-q"];
    all.extend_from_slice(arguments);
    let url = format!("file://{}", origin.display());
    all.extend([url.as_str(), bench.caller.to_str().unwrap()]);
    git(bench.folder.path(), &all);
    bench
}

#[test]
fn a_shallow_clone_at_any_depth_of_history() {
    for history in [History::Depth(1), History::Depth(9), History::Full] {
        let bench = cloned(&["--depth", "1"]);
        edit(&bench);
        let before = describe(&bench.caller, &[]);
        let mut options = options();
        options.history = history;
        let workspace = bench.make_with(&options);
        assert_same(&before, &describe(&bench.caller, &[]), "the caller's tree");
        assert_eq!(workspace.made.history.kind, HistoryKind::Real, "{history:?}");
        assert_eq!(workspace.git(&["rev-list", "--count", "HEAD"]), "2", "{history:?}");
    }
}

#[test]
fn the_history_that_is_asked_for() {
    for (history, count) in
        [(History::Depth(1), "1"), (History::Depth(2), "2"), (History::Full, "3")]
    {
        let bench = cloned(&[]);
        let mut options = options();
        options.history = history;
        let workspace = bench.make_with(&options);
        assert_eq!(workspace.git(&["rev-list", "--count", "HEAD"]), count, "{history:?}");
    }
}

#[test]
fn a_partial_clone_whose_remote_is_gone() {
    let bench = cloned(&["--filter=blob:none"]);
    std::fs::remove_dir_all(bench.path("origin")).unwrap();
    hold(&bench, HistoryKind::Real);
}

#[test]
fn a_sparse_partial_clone_whose_remote_is_gone_is_synthetic() {
    let bench = cloned(&["--filter=blob:none", "--sparse"]);
    bench.git(&["sparse-checkout", "set", "src"]);
    std::fs::remove_dir_all(bench.path("origin")).unwrap();
    let workspace = hold(&bench, HistoryKind::Synthetic);
    assert!(workspace.made.history.why.as_deref().unwrap().contains("not complete"));
    assert!(!workspace.root.join("docs").exists());
}

#[test]
fn a_sparse_checkout_does_not_remove_what_it_leaves_out() {
    let bench = cloned(&["--sparse"]);
    bench.git(&["sparse-checkout", "set", "src"]);
    assert!(!bench.caller.join("docs").exists());
    let workspace = hold(&bench, HistoryKind::Real);
    assert_eq!(workspace.made.history.head, bench.git(&["rev-parse", "HEAD"]));
    assert_eq!(workspace.git(&["ls-files", "docs"]), "docs/a.md");
}

#[test]
fn initialised_submodules_become_plain_files() {
    let bench = cloned(&[]);
    let library = bench.path("library");
    std::fs::create_dir(&library).unwrap();
    git(&library, &["init", "-q"]);
    write(&library, b"code.c", b"int x;\n");
    write(&library, b".gitignore", b"*.o\nkept/\n");
    write(&library, b"kept/file", b"k\n");
    git(&library, &["add", "-A", "-f"]);
    git(&library, &["commit", "-q", "-m", "x"]);
    bench.git(&["submodule", "add", "-q", library.to_str().unwrap(), "dep"]);
    bench.git(&["submodule", "add", "-q", library.to_str().unwrap(), "absent"]);
    bench.commit();
    bench.git(&["submodule", "deinit", "-q", "-f", "absent"]);
    bench.write("dep/built.o", "ignored there");
    let mut workspace = hold(&bench, HistoryKind::Real);
    assert!(!workspace.root.join("dep/.git").exists());
    assert!(workspace.git(&["ls-files", "-s", "dep/code.c"]).starts_with("100644"));
    assert!(workspace.git(&["ls-files", "-s", "absent"]).starts_with("160000"));
    let tree = workspace.take();
    let listed = git(workspace.store.path(), &["ls-tree", "-r", "--name-only", &tree, "dep/"]);
    assert_eq!(listed, "dep/.gitignore\ndep/code.c\ndep/kept/file");
}

#[test]
fn large_file_pointers_and_their_smudged_bytes() {
    let bench = Bench::git_repository();
    bench.write(
        ".gitattributes",
        "*.bin filter=lfs diff=lfs merge=lfs -text\n*.txt text eol=crlf\n",
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    bench.write("a.bin", pointer);
    bench.write("b.bin", pointer);
    bench.write("t.txt", "one\r\ntwo\r\n");
    bench.commit();
    bench.write("a.bin", "the bytes");
    let mut workspace = hold(&bench, HistoryKind::Real);
    let tree = workspace.take();
    let shown = |name: &str| git(workspace.store.path(), &["show", &format!("{tree}:{name}")]);
    assert_eq!(shown("a.bin"), "the bytes");
    assert_eq!(shown("b.bin"), pointer.trim_end());
    // Raw bytes: no filter and no line ending is converted.
    assert_eq!(shown("t.txt"), "one\r\ntwo");
}

#[test]
fn a_linked_worktree() {
    let bench = Bench::git_repository();
    fill(&bench);
    let linked = bench.path("linked tree");
    bench.git(&["stash", "-q", "-u"]);
    bench.git(&["worktree", "add", "-q", "-b", "side", linked.to_str().unwrap()]);
    write(&linked, b"more.txt", b"m");
    let before = describe(&bench.caller, &[]);
    let side = Bench { folder: tempfile::tempdir().unwrap(), caller: linked };
    let workspace = hold(&side, HistoryKind::Real);
    assert_eq!(branch_of(&workspace), "side");
    assert!(workspace.root.join(".git").is_dir());
    assert_same(&before, &describe(&bench.caller, &[]), "the main tree");
}

#[test]
fn reftable_and_sha256() {
    let version = git(Path::new("/"), &["version"]);
    let numbers: Vec<u32> =
        version.split([' ', '.']).filter_map(|part| part.parse().ok()).collect();
    // git learnt to make reftables with 2.45.
    let reftable = numbers[..] >= [2, 45][..];
    for (argument, supported) in
        [("--ref-format=reftable", reftable), ("--object-format=sha256", true)]
    {
        let bench = Bench::new();
        let made = git_command(&bench.caller)
            .args(["init", "-q", "-b", "main", argument])
            .output()
            .unwrap();
        assert_eq!(made.status.success(), supported, "{version} {argument}");
        if !supported {
            continue;
        }
        fill(&bench);
        let mut workspace = hold(&bench, HistoryKind::Real);
        assert_eq!(branch_of(&workspace), "main");
        let tree = workspace.take();
        assert_eq!(tree.len(), 40);
        assert_eq!(
            workspace.git(&["rev-parse", "--show-object-format"]),
            bench.git(&["rev-parse", "--show-object-format"])
        );
    }
}

#[test]
fn another_owners_repository() {
    let bench = Bench::git_repository();
    fill(&bench);
    if nix::unistd::geteuid().is_root() {
        let status = std::process::Command::new("chown")
            .args(["-R", "65534:65534"])
            .arg(&bench.caller)
            .status()
            .unwrap();
        assert!(status.success());
        let refused = std::process::Command::new("git")
            .args(["status"])
            .current_dir(&bench.caller)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(!refused.status.success(), "git itself refuses it");
    }
    hold(&bench, HistoryKind::Real);
}

/// Gives a repository a filter in its configuration that leaves a mark, and a file that git has to look at.
fn plant_filter(bench: &Bench, at: &Path, name: &str) -> std::path::PathBuf {
    let mark = bench.path(&format!("ran-{name}"));
    let command = format!("touch '{}'; cat", mark.display());
    git(at, &["config", &format!("filter.{name}=x.clean"), &command]);
    std::fs::create_dir_all(at.join(".git/info")).unwrap();
    std::fs::write(at.join(".git/info/attributes"), format!("* filter={name}=x\n")).unwrap();
    mark
}

fn disturb(file: &Path) {
    let then = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::options().write(true).open(file).unwrap().set_modified(then).unwrap();
}

#[test]
fn a_filter_of_another_owners_repository_is_never_run() {
    // Only root can give a repository away here; `zones` has it done for whoever runs the tests.
    let owners = if nix::unistd::geteuid().is_root() { &[false, true][..] } else { &[false] };
    for &other in owners {
        let bench = Bench::git_repository();
        bench.write("a", "a\n");
        let below = bench.caller.join("below");
        std::fs::create_dir(&below).unwrap();
        git(&below, &["init", "-q", "-b", "main"]);
        write(&below, b"b", b"b\n");
        git(&below, &["add", "-A"]);
        git(&below, &["commit", "-q", "-m", "b"]);
        bench.commit();
        let mark = plant_filter(&bench, &bench.caller, "top");
        let nested = plant_filter(&bench, &below, "below");
        for file in ["a", "below/b"] {
            disturb(&bench.caller.join(file));
        }
        if other {
            let owner = ["-R", "65534:65534"];
            let mut chown = std::process::Command::new("chown");
            assert!(chown.args(owner).arg(&bench.caller).status().unwrap().success());
        }
        let caller = bench.discover();
        let _ = caller.read_dirty(&NEVER).unwrap();
        // What git would run for the person is run: so the filters are ones that git does run.
        assert_eq!((mark.exists(), nested.exists()), (!other, !other));
        let _ = bench.make();
        assert_eq!((mark.exists(), nested.exists()), (!other, !other));
    }
}

#[test]
fn a_git_directory_that_does_not_know_the_tree_is_not_followed() {
    let private = Bench::git_repository();
    private.write("secret", "private words\n");
    private.commit();
    let theirs = private.caller.join(".git");
    let refused = |bench: &Bench| {
        let error = Caller::discover(&bench.caller, &bench.surroundings(), &NEVER).unwrap_err();
        assert_eq!(error.kind, Kind::WorkspaceInvalid, "{error}");
        assert!(error.what.contains("does not name this tree as its own"), "{error}");
        assert!(error.what.contains(theirs.to_str().unwrap()), "{error}");
    };
    let bench = Bench::new();
    std::fs::write(bench.caller.join(".git"), format!("gitdir: {}\n", theirs.display())).unwrap();
    refused(&bench);
    let bench = Bench::new();
    symlink(&theirs, bench.caller.join(".git")).unwrap();
    refused(&bench);
    let bench = Bench::git_repository();
    let common = format!("{}\n", theirs.display());
    std::fs::write(bench.caller.join(".git/commondir"), common).unwrap();
    refused(&bench);
    // A place of its own, in the tree or named by the repository, is followed.
    let bench = Bench::new();
    let apart = bench.path("apart");
    bench.git(&["init", "-q", "--separate-git-dir", apart.to_str().unwrap()]);
    assert!(Caller::discover(&bench.caller, &bench.surroundings(), &NEVER).is_err());
    bench.git(&["config", "core.worktree", bench.caller.to_str().unwrap()]);
    bench.discover();
    let bench = Bench::new();
    let inside = bench.caller.join("inside");
    bench.git(&["init", "-q", "--separate-git-dir", inside.to_str().unwrap()]);
    bench.discover();
}

#[test]
fn a_folder_inside_a_git_directory_and_a_missing_one_are_refused() {
    let bench = Bench::git_repository();
    for (place, says) in [(".git", "inside a git directory"), ("nowhere", "no folder")] {
        let error = Caller::discover(&bench.caller.join(place), &bench.surroundings(), &NEVER);
        let error = error.unwrap_err();
        assert_eq!(error.kind, Kind::WorkspaceInvalid);
        assert!(error.what.contains(says), "{error}");
    }
}

#[test]
fn uncommitted_changes_can_be_refused_and_our_own_state_is_none() {
    let bench = Bench::git_repository();
    bench.write("a", "a");
    bench.commit();
    bench.write(".loopexec/runs/x/receipt.jsonl", "{}");
    bench.write(".loop_state.json", "{}");
    // As another run beside this one writes it.
    bench.write(".loop_state.json.01M8QM2Q9REXPEP9A6FX0C7VY1.tmp", "{}");
    let mut options = options();
    options.on_dirty = OnDirty::Refuse;
    let mut workspace = bench.make_with(&options);
    assert!(!workspace.made.dirty);
    assert!(!workspace.root.join(".loopexec").exists());
    assert!(!workspace.root.join(".loop_state.json").exists());
    let written = ".loop_state.json.01M8QM2Q9REXPEP9A6FX0C7VY1.tmp";
    assert!(!workspace.root.join(written).exists());
    let tree = workspace.take();
    assert_eq!(git(workspace.store.path(), &["ls-tree", "--name-only", &tree]), "a");

    let bench = Bench::git_repository();
    bench.write("a", "a");
    assert_eq!(bench.try_make(&options).err().unwrap().detail, Some("dirty"));
}

#[test]
fn secrets_stay_behind_and_dependencies_do_not() {
    let bench = Bench::git_repository();
    bench.write(".gitignore", ".env*\n*.key\nnode_modules/\n.npmrc\nconf/\n");
    for name in [
        ".env",
        ".env.example",
        "tls/server.key",
        "node_modules/x/test.key",
        "conf/id_rsa",
        "conf/plain",
    ] {
        bench.write(name, "content");
    }
    bench.write(".npmrc", "//registry/:_authToken=abc\n");
    bench.commit();
    let workspace = bench.make();
    let here = |name: &str| workspace.root.join(name).exists();
    assert!(here(".env.example") && here("node_modules/x/test.key") && here("conf/plain"));
    assert!(!here(".env") && !here("tls/server.key") && !here(".npmrc") && !here("conf/id_rsa"));
    let mut behind: Vec<_> =
        workspace.made.left_behind.iter().map(|(path, _)| path.as_str()).collect();
    behind.sort_unstable();
    assert_eq!(behind, [".env", ".npmrc", "conf/id_rsa", "tls/server.key"]);
}

#[test]
fn carrying_by_list_by_nothing_and_over_the_limit() {
    let prepare = || {
        let bench = Bench::git_repository();
        bench.write(".gitignore", "deps/\n.env\nout/\n");
        bench.write("deps/a/b", &"x".repeat(5000));
        bench.write("out/c", "c");
        bench.write(".env", "TOKEN=1");
        bench.commit();
        bench
    };
    let mut options = options();
    options.carry = Carry::List(vec!["/deps/a".into(), ".env".into()]);
    let workspace = prepare().make_with_kept(&options);
    let here = |name: &str| workspace.1.root.join(name).exists();
    assert!(here("deps/a/b") && here(".env") && !here("out"));

    options.carry = Carry::None;
    let workspace = prepare().make_with_kept(&options);
    let here = |name: &str| workspace.1.root.join(name).exists();
    assert!(!here("deps") && !here(".env") && !here("out"));

    options.carry = Carry::Auto;
    options.carry_max = 1000;
    let bench = prepare();
    match bench.try_make(&options) {
        Err(error) => {
            assert_eq!(
                (error.kind, error.detail),
                (Kind::WorkspaceInvalid, Some("carry_too_large"))
            );
            assert!(error.what.contains("deps/a (1 MiB)"), "{error}");
            assert!(error.hints[0].contains("carry_max: 1GiB"));
        }
        // Where the file system clones, nothing counts as copied.
        Ok(workspace) => assert!(workspace.root.join("deps/a/b").exists()),
    }
}

impl Bench {
    fn make_with_kept(
        self,
        options: &loopexec::workspace::make::WorkspaceOptions,
    ) -> (Self, Workspace) {
        let workspace = self.make_with(options);
        (self, workspace)
    }
}

#[test]
fn carried_paths_that_name_the_old_place_are_told() {
    let bench = Bench::git_repository();
    bench.write(".gitignore", "/.venv\n/target\n/node_modules\n/loose\n");
    let root = bench.caller.to_str().unwrap().to_string();
    bench.write(".venv/pyvenv.cfg", "home = /usr/bin\n");
    bench.write(".venv/lib/python3/site-packages/__editable__.x.pth", &format!("{root}/src\n"));
    bench.write("target/.rustc_info.json", "{}");
    bench.write("node_modules/a/index.js", "1");
    symlink(bench.caller.join("src"), bench.caller.join("loose")).unwrap();
    bench.commit();
    let workspace = bench.make();
    assert_eq!(workspace.made.old_place, [".venv", "loose", "target"]);
}

#[test]
fn a_stopped_make_ends_as_interrupted() {
    let bench = Bench::git_repository();
    fill(&bench);
    let caller = bench.discover();
    let store = loopexec::workspace::store::Store::create(&bench.path("store")).unwrap();
    let stop = || true;
    let error = loopexec::workspace::make::make(
        &caller,
        &options(),
        &bench.path("workspace"),
        &store,
        &stop,
    );
    assert_eq!(error.unwrap_err().kind, Kind::Interrupted);
}
