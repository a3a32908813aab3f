//! What an agent leaves in its clone for whoever looks into it from outside: nothing of it is executed on the host,
//! nothing outside of the workspace changes, and nothing of the host comes in; through run, snapshot, delivery,
//! verification and replay.

use super::run::backend;
use super::{Ground, text};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// What may be found at the end of one attack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The run halts, and the caller's tree is as it was.
    Halts,
    /// The result is handed over, with what was planted in it as plain files.
    Converges,
}

/// The attacks: a name, what the agent does (`TRAP` is a program that leaves a mark, `BESIDE` a folder of the host),
/// and how the run ends. `done` says yes in each, so that nothing but a guard can stop it.
const ATTACKS: [(&str, &str, End); 25] = [
    ("a monitor in the configuration", "git config core.fsmonitor TRAP", End::Halts),
    (
        "a filter in the configuration",
        "git config filter.f.clean TRAP; git config filter.f.smudge TRAP; git config filter.f.process TRAP; echo '* filter=f' > .gitattributes",
        End::Halts,
    ),
    ("a differ in the configuration", "git config diff.external TRAP", End::Halts),
    (
        "hooks",
        "mkdir -p .git/hooks; for h in reference-transaction post-checkout post-index-change pre-commit update; do cp TRAP .git/hooks/$h; done",
        End::Halts,
    ),
    ("a hook of uploads", "git config uploadpack.packObjectsHook TRAP", End::Halts),
    (
        "a folder of hooks",
        "mkdir hooks; cp TRAP hooks/post-checkout; git config core.hooksPath hooks",
        End::Halts,
    ),
    ("a work tree elsewhere", "git config core.worktree BESIDE", End::Halts),
    ("another file taken in", "git config include.path BESIDE/secret", End::Halts),
    (
        "objects of elsewhere",
        "echo BESIDE/other/.git/objects > .git/objects/info/alternates",
        End::Halts,
    ),
    (
        "a HEAD that leads out",
        "echo 'ref: refs/heads/../../../../escaped' > .git/HEAD",
        End::Converges,
    ),
    (
        "a branch that leads out",
        "mkdir -p .git/refs/heads; ln -s ../../../../beside/secret .git/refs/heads/x",
        End::Converges,
    ),
    ("another place for git", "mv .git moved; echo 'gitdir: BESIDE/other/.git' > .git", End::Halts),
    ("a link for git", "rm -rf .git; ln -s BESIDE/other/.git .git", End::Halts),
    (
        "a bare repository as plain files",
        "mkdir -p b/objects b/refs; echo 'ref: refs/heads/main' > b/HEAD; printf '[core]\\n\\tbare = true\\n\\tfsmonitor = TRAP\\n' > b/config",
        End::Converges,
    ),
    (
        "a repository in the tree",
        "git init -q sub; git -C sub config core.fsmonitor TRAP; touch sub/x",
        End::Halts,
    ),
    (
        "submodules that are options",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./TRAP\\n' > .gitmodules",
        End::Converges,
    ),
    (
        "a submodule with a line end",
        "printf '[submodule \"x\"]\\n\\tpath = \"x\\r\"\\n\\turl = ./u\\n' > .gitmodules",
        End::Converges,
    ),
    ("attributes as a link", "ln -s BESIDE/secret .gitattributes", End::Halts),
    ("modules as a link", "ln -s BESIDE/secret .gitmodules", End::Converges),
    (
        "names that differ in case",
        "mkdir -p d D; echo 1 > d/a; echo 2 > d/A; echo 3 > D/a",
        End::Converges,
    ),
    ("a link in the place of a file", "ln -sf BESIDE/target file", End::Converges),
    ("a link in the place of a folder", "rm -rf folder; ln -s BESIDE folder", End::Converges),
    (
        "a file that runs as its owner",
        "cp TRAP own; chmod 4755 own 2>/dev/null; chmod 2755 own 2>/dev/null",
        End::Converges,
    ),
    (
        "a hard link to the host",
        "ln BESIDE/secret hard 2>/dev/null; ln /etc/passwd hard 2>/dev/null",
        End::Converges,
    ),
    (
        "a pipe, a socket, a device",
        "mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")' 2>/dev/null; mknod null c 1 3 2>/dev/null",
        End::Converges,
    ),
];

/// What lies below a folder: kind, mode, content.
fn listing(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            let (path, seen) = (entry.path(), fs::symlink_metadata(entry.path()).unwrap());
            let what = if seen.is_symlink() {
                format!("link {}", fs::read_link(&path).unwrap().display())
            } else if seen.is_dir() {
                pending.push(path.clone());
                "folder".to_owned()
            } else {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            };
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            found.insert(name, format!("{:o} {what}", seen.mode()));
        }
    }
    found
}

/// Returns what was not as it has to be about how the run ended; whatever reaches the host ends the test.
fn attack(name: &str, plant: &str, end: End, deliver: &str) -> Option<String> {
    let ground = Ground::new();
    let beside = ground.at("beside");
    fs::create_dir_all(beside.join("other")).unwrap();
    fs::write(beside.join("secret"), "[only = on the host\n").unwrap();
    fs::write(beside.join("target"), "of the host\n").unwrap();
    let inited = Command::new("git").args(["init", "-q"]).arg(beside.join("other")).status();
    assert!(inited.unwrap().success());
    let trap = ground.at("project/trap.sh");
    // Exec and the check may run it as often as they like: the mark is beside the tree, where no zone is.
    let marked = ground.at("marked");
    fs::write(
        &trap,
        format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat 2>/dev/null\n", marked.display()),
    )
    .unwrap();
    fs::set_permissions(&trap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(ground.at("project/folder")).unwrap();
    fs::write(ground.at("project/folder/x"), "x\n").unwrap();
    let plant = plant
        .replace("TRAP", &trap.display().to_string())
        .replace("BESIDE", &beside.display().to_string());
    let exec = format!("set +e\n{plant}\necho yes > done");
    ground.lines(
        backend(),
        &exec,
        "grep -q yes done",
        &format!("workspace: {{deliver: {deliver}}}\n"),
    );
    let (host, own) = (listing(&beside), listing(&ground.at("project/.git")));
    let (said, output) = ground.run(&[]);
    let reason = said["halt_reason"].as_str().unwrap().to_owned();
    let converged = reason == "success_condition_met";
    assert!(!text(&output).contains("panicked"), "{name}: {}", text(&output));
    let quiet = |when: &str| {
        assert!(!marked.exists(), "{name}, {when}: {:?}", fs::read_to_string(&marked));
        assert_eq!(listing(&beside), host, "{name}, {when}: the host changed");
    };
    quiet("run");
    let in_tree = |path: &str| ground.at("project").join(path);
    let handed = converged && deliver == "apply";
    assert_eq!(
        fs::read_to_string(in_tree("done")).unwrap(),
        if handed { "yes\n" } else { "no\n" },
        "{name}"
    );
    if deliver != "branch" {
        assert_eq!(listing(&in_tree(".git")), own, "{name}: git of the caller changed");
    }
    for odd in ["pipe", "s", "null", "sub/.git"] {
        assert!(in_tree(odd).symlink_metadata().is_err(), "{name}: {odd} was handed over");
    }
    if let Ok(seen) = fs::symlink_metadata(in_tree("own")) {
        assert_eq!(seen.mode() & 0o6000, 0, "{name}: it runs as its owner");
    }
    let kept = fs::read(in_tree(".loopexec")).is_err();
    assert!(kept, "the evidence is a folder");
    let receipt: String = ground.events().iter().map(ToString::to_string).collect();
    assert!(!receipt.contains("only = on the host"), "{name}: the host's file is in the receipt");
    for command in ["verify", "replay", "report", "status"] {
        let output = ground.command(&[]).arg(command).output().unwrap();
        assert!(!text(&output).contains("panicked"), "{name}: {}", text(&output));
        quiet(command);
        if command == "replay" && converged {
            assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output));
        }
    }
    (converged != (end == End::Converges))
        .then(|| format!("{name}, {deliver}: {reason}: {}", said["why"]))
}

#[test]
fn nothing_in_a_clone_reaches_the_host_through_run_and_delivery() {
    let wrong: Vec<String> = ATTACKS
        .iter()
        .filter_map(|(name, plant, end)| attack(name, plant, *end, "apply"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_in_a_clone_reaches_the_host_through_a_branch_or_a_patch() {
    let handed = ATTACKS.iter().filter(|(.., end)| *end == End::Converges);
    let branches =
        handed.clone().filter_map(|(name, plant, end)| attack(name, plant, *end, "branch"));
    let links = handed.filter(|(name, ..)| name.contains("link"));
    let patches = links.filter_map(|(name, plant, end)| attack(name, plant, *end, "patch"));
    let wrong: Vec<String> = branches.chain(patches).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Programs in the configuration of a repository that belongs to somebody else are that user's, not the caller's.
#[test]
fn a_repository_of_somebody_else_runs_none_of_its_filters() {
    for other in [false, true] {
        let ground = Ground::new();
        ground.project("echo yes > done", "");
        let marked = ground.at("marked");
        let filter = format!("touch {}; cat", marked.display());
        ground.git(&["config", "filter.f.clean", &filter]);
        fs::create_dir_all(ground.at("project/.git/info")).unwrap();
        fs::write(ground.at("project/.git/info/attributes"), "* filter=f\n").unwrap();
        // Git has to look at a file whose times are not those it knows.
        fs::write(ground.at("project/file"), "one\n").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let file = fs::File::options().write(true).open(ground.at("project/file")).unwrap();
        file.set_modified(old).unwrap();
        if other {
            let words = if super::is_root() { &["chown"][..] } else { &["sudo", "-n", "chown"] };
            let mut chown = Command::new(words[0]);
            chown.args(&words[1..]).args(["-R", "65534:65534"]).arg(ground.at("project/.git"));
            assert!(chown.status().unwrap().success(), "root has to give it away");
        }
        ground.command(&[]).arg("doctor").output().unwrap();
        // What git would run for the caller is run: the filter is one that git does run.
        assert_eq!(marked.exists(), !other);
    }
}
