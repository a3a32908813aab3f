//! The workspace's own `.git`: HEAD of the caller, and one commit of what was uncommitted.
//!
//! Objects come through git's transport, so that no inode, remote, hook or setting of the caller's
//! comes along. It is made before an agent ever sees the workspace; afterwards nobody but the agent
//! runs git there.

use crate::error::{Error, Kind, Result};
use crate::workspace::caller::{Caller, CallerKind, Head, ObjectFormat};
use crate::workspace::gitcmd::{Git, Output, git_dir, refused};
use crate::workspace::scan::Scan;
use crate::workspace::store::Store;
use crate::workspace::{Stop, paths};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// How many commits the workspace's `.git` holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History {
    /// This many from HEAD, at least 1.
    Depth(u32),
    /// All the caller has.
    Full,
}

/// What the workspace's history is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryFact {
    /// Where HEAD comes from.
    pub kind: HistoryKind,
    /// Why it is synthetic.
    pub why: Option<String>,
    /// The workspace's HEAD commit.
    pub head: String,
}

/// Where the workspace's HEAD comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryKind {
    /// The caller's HEAD, with a commit on top where something was uncommitted.
    Real,
    /// One new commit of what the working tree holds.
    Synthetic,
}

/// Where the caller's HEAD is put while it is fetched.
const FETCHED: &str = "refs/loopexec/head";
/// The date of a synthetic commit, fixed so that equal trees give equal commits.
const EPOCH: &str = "946684800 +0000";

/// Makes the workspace's `.git`, and fills the store from it where the hashes agree.
pub(super) fn make(
    caller: &Caller,
    scan: &Scan,
    history: History,
    dest: &Path,
    store: &Store,
    stop: Stop<'_>,
) -> Result<HistoryFact> {
    let directory = dest.join(".git");
    let (format, head) = match &caller.kind {
        CallerKind::Git { object_format, head, .. } => (*object_format, head.clone()),
        CallerKind::Plain => (ObjectFormat::Sha1, Head::Unborn(b"main".to_vec())),
    };
    init(caller, &head, format, dest, stop)?;
    let mut work_tree = OsString::from("--work-tree=");
    work_tree.push(dest);
    let quiet = ["core.hooksPath=/dev/null", "core.logAllRefUpdates=false", "gc.auto=0"];
    let git = caller.bare_git().with([git_dir(&directory), work_tree]);
    let git = quiet.iter().fold(git, |git, setting| git.with(["-c", *setting]));
    let why = match &caller.kind {
        CallerKind::Plain => Some("there is no git repository".to_string()),
        _ if matches!(head, Head::Unborn(_)) => Some("HEAD has no commit yet".to_string()),
        _ => fetch(caller, &git, history, stop)?,
    };
    if why.is_none() {
        if format == ObjectFormat::Sha1 {
            store.fill_from(&directory)?;
        }
        let line = git.must("read what was fetched", ["rev-parse", FETCHED], b"", stop)?;
        let commit = os(line.line());
        let doing = "set HEAD of the workspace";
        git.must(doing, [os(b"update-ref"), os(b"HEAD"), commit], b"", stop)?;
        git.must("remove a ref", ["update-ref", "-d", FETCHED], b"", stop)?;
        git.must("read HEAD into an index", ["read-tree", "HEAD"], b"", stop)?;
        hide_absent(caller, &git, dest, stop)?;
        dissolve_submodules(scan, &git, stop)?;
    } else if head == Head::Detached {
        // A commit has to stand somewhere before HEAD can be detached at it.
        git.must("name a branch", ["symbolic-ref", "HEAD", "refs/heads/detached"], b"", stop)?;
    }
    write_exclude(scan, &directory)?;
    add_all(scan, &git, dest, stop)?;
    let commit = commit(&git, why.as_deref(), stop)?;
    if why.is_some() {
        // One pack instead of a file for every object, and the store is filled from it; deltas are
        // not worth their time.
        let pack = ["-c", "pack.compression=1", "repack", "-a", "-d", "-q", "--window=0"];
        git.must("pack the workspace's objects", pack, b"", stop)?;
        if format == ObjectFormat::Sha1 {
            store.fill_from(&directory)?;
        }
    }
    if why.is_some() && head == Head::Detached {
        let commit = commit.as_str();
        git.must("detach HEAD", ["update-ref", "--no-deref", "HEAD", commit], b"", stop)?;
        std::fs::write(directory.join("HEAD"), format!("{commit}\n")).map_err(cannot_write)?;
        git.must("remove a ref", ["update-ref", "-d", "refs/heads/detached"], b"", stop)?;
    }
    for (key, value) in [("gc.auto", "0"), ("maintenance.auto", "false")] {
        git.must("configure the workspace", ["config", "--local", key, value], b"", stop)?;
    }
    for left in
        ["FETCH_HEAD", "ORIG_HEAD", "description", "logs", "hooks", "branches", "refs/loopexec"]
    {
        crate::workspace::at::remove_tree(&directory.join(left))?;
    }
    let kind = if why.is_some() { HistoryKind::Synthetic } else { HistoryKind::Real };
    Ok(HistoryFact { kind, why, head: commit })
}

fn init(
    caller: &Caller,
    head: &Head,
    format: ObjectFormat,
    dest: &Path,
    stop: Stop<'_>,
) -> Result<()> {
    let mut branch = OsString::from("--initial-branch=");
    match head {
        Head::Branch(name) | Head::Unborn(name) => branch.push(os(name)),
        Head::Detached => branch.push("main"),
    }
    let arguments = [
        os(b"init"),
        os(b"-q"),
        os(b"--template="),
        OsString::from(format!("--object-format={}", format.name())),
        branch,
        dest.into(),
    ];
    let git = caller.bare_git();
    git.must("make a repository in the workspace", arguments, b"", stop)?;
    if *head == Head::Detached {
        // `update-ref HEAD` on a HEAD that names a commit moves HEAD alone.
        let zero = "0".repeat(if format == ObjectFormat::Sha1 { 40 } else { 64 });
        std::fs::write(dest.join(".git/HEAD"), format!("{zero}\n")).map_err(cannot_write)?;
    }
    Ok(())
}

/// Fetches the caller's HEAD; returns why it cannot be had.
fn fetch(caller: &Caller, git: &Git, history: History, stop: Stop<'_>) -> Result<Option<String>> {
    // A pack even for few objects: it is what the store is filled from.
    let git = git.clone().with(["-c", "fetch.unpackLimit=1", "-c", "protocol.file.allow=always"]);
    let mut arguments: Vec<OsString> = ["fetch", "-q"].map(OsString::from).to_vec();
    match history {
        History::Depth(depth) => arguments.push(format!("--depth={}", depth.max(1)).into()),
        History::Full => arguments.push("--update-shallow".into()),
    }
    let fixed = [
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
        "--upload-pack",
        "git -c 'safe.directory=*' upload-pack",
    ];
    arguments.extend(fixed.map(OsString::from));
    arguments.push(caller.root.clone().into());
    arguments.push(format!("+HEAD:{FETCHED}").into());
    let output = git.run(arguments, b"", stop)?;
    if output.code != 0 {
        let error = refused("fetch the caller's HEAD", &output);
        if error.kind == Kind::StorageExhausted {
            return Err(error);
        }
        return Ok(Some(format!("HEAD is not complete: {}", output.complaint())));
    }
    // A promisor's objects may be missing without the transport's noticing.
    let listing = git.run(["ls-tree", "-r", "-z", "--name-only", FETCHED], b"", stop)?;
    if listing.code != 0 {
        return Ok(Some(format!("HEAD's tree is not complete: {}", listing.complaint())));
    }
    Ok(None)
}

/// Keeps what a sparse checkout leaves out of the working tree from counting as removed.
fn hide_absent(caller: &Caller, git: &Git, dest: &Path, stop: Stop<'_>) -> Result<()> {
    let listing = caller.git().must("list its files", ["ls-files", "-z", "-t", "-c"], b"", stop)?;
    let known = listed(&git.must("list its files", ["ls-files", "-z"], b"", stop)?);
    let mut hidden = Vec::new();
    for entry in listing.stdout.split(|byte| *byte == 0) {
        let Some(path) = entry.strip_prefix(b"S ") else { continue };
        let place = dest.join(paths::as_path(path));
        if known.contains(path) && std::fs::symlink_metadata(place).is_err() {
            hidden.extend_from_slice(path);
            hidden.push(0);
        }
    }
    if !hidden.is_empty() {
        let arguments = ["update-index", "-z", "--skip-worktree", "--stdin"];
        git.must("hide what is not checked out", arguments, &hidden, stop)?;
    }
    Ok(())
}

/// Takes the submodules whose files were carried out of the index, so that their files fit in.
fn dissolve_submodules(scan: &Scan, git: &Git, stop: Stop<'_>) -> Result<()> {
    let mut carried = Vec::new();
    let staged = git.must("list its submodules", ["ls-files", "-z", "-s"], b"", stop)?;
    for entry in staged.stdout.split(|byte| *byte == 0) {
        let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
        let path = &entry[tab + 1..];
        if entry.starts_with(b"160000 ") && scan.nested.iter().any(|nested| nested == path) {
            carried.extend_from_slice(path);
            carried.push(0);
        }
    }
    if !carried.is_empty() {
        let arguments = ["update-index", "-z", "--force-remove", "--stdin"];
        git.must("dissolve the submodules", arguments, &carried, stop)?;
    }
    Ok(())
}

/// Gives the agent's git the rules that the caller's personal files hold.
fn write_exclude(scan: &Scan, directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory.join("info")).map_err(cannot_write)?;
    let text = scan.ignored.general_rules();
    std::fs::write(directory.join("info/exclude"), text).map_err(cannot_write)
}

fn add_all(scan: &Scan, git: &Git, dest: &Path, stop: Stop<'_>) -> Result<()> {
    // A name that git refuses (`.GIT`) stays untracked; every other file is added all the same.
    let added = git.run(["add", "-A", "--ignore-errors", "--", "."], b"", stop)?;
    if refused("", &added).kind == Kind::StorageExhausted {
        return Err(refused("add the working tree", &added));
    }
    let known = listed(&git.must("list its files", ["ls-files", "-z"], b"", stop)?);
    let mut kept = Vec::new();
    for path in scan.ignored.kept() {
        let place = dest.join(paths::as_path(path));
        let is_file = std::fs::symlink_metadata(place).is_ok_and(|found| !found.is_dir());
        if is_file && !known.contains(path) {
            kept.extend_from_slice(path);
            kept.push(0);
        }
    }
    if !kept.is_empty() {
        let arguments = [
            "--literal-pathspecs",
            "add",
            "-f",
            "--ignore-errors",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        ];
        git.run(arguments, &kept, stop)?;
    }
    Ok(())
}

/// Commits the index where it differs from HEAD; returns HEAD's commit.
fn commit(git: &Git, synthetic: Option<&str>, stop: Stop<'_>) -> Result<String> {
    let tree = git.must("write the tree", ["write-tree"], b"", stop)?;
    let tree = String::from_utf8_lossy(tree.line()).into_owned();
    let text = |output: &Output| String::from_utf8_lossy(output.line()).into_owned();
    let mut date = EPOCH.to_string();
    let mut arguments: Vec<String> =
        vec!["commit-tree".into(), "--no-gpg-sign".into(), tree.clone()];
    let message = if synthetic.is_none() {
        let shown = ["log", "-1", "--no-show-signature", "--format=%H %T %ct"];
        let head = text(&git.must("read HEAD", shown, b"", stop)?);
        let parts: Vec<&str> = head.split(' ').collect();
        let [id, head_tree, time] = parts[..] else {
            return Err(Error::new(Kind::Internal, "git described HEAD in an unknown form"));
        };
        if head_tree == tree {
            return Ok(id.to_string());
        }
        date = format!("{time} +0000");
        arguments.extend(["-p".into(), id.into()]);
        "Uncommitted changes at the start of the run\n"
    } else {
        "The working tree at the start of the run\n"
    };
    let named = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"];
    let mailed = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
    let dated = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"];
    let mut signed = git.clone();
    signed = named.iter().fold(signed, |git, name| git.variable(name, "loopexec"));
    signed = mailed.iter().fold(signed, |git, name| git.variable(name, "loopexec@localhost"));
    signed = dated.iter().fold(signed, |git, name| git.variable(name, &date));
    let made = signed.must("commit the working tree", arguments, message.as_bytes(), stop)?;
    let id = text(&made);
    git.must("set HEAD of the workspace", ["update-ref", "HEAD", id.as_str()], b"", stop)?;
    Ok(id)
}

fn listed(output: &Output) -> BTreeSet<Vec<u8>> {
    output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn cannot_write(source: std::io::Error) -> Error {
    Error::io(Kind::WorkspaceInvalid, "cannot write the workspace's .git", source)
}
