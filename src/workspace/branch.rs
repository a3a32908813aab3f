//! `deliver: branch`: the final state as one commit on a new branch of the caller's repository.
//!
//! The `git` program does it, for libgit2 opens neither reftable nor sha256 repositories: a
//! temporary index takes the files of the snapshot as `git add` would (line endings and clean filters
//! of the caller apply), and the new branch is created only if no such branch exists. The caller's
//! index, HEAD and working tree are not touched and no hook runs.

use super::copying::failed;
use super::delta::{Form, read_all, read_blob};
use crate::error::{Error, Kind, Result};
use git2::Repository;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A branch that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its name, `loopexec/RUN-ID`.
    pub name: String,
    /// The commit it points at, hexadecimal in the caller's object format.
    pub commit: String,
    /// Submodules, which stay at the commit the parent has; their changes are in the patch only.
    pub left_out: Vec<PathBuf>,
}

/// What a branch is made from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The snapshot store.
    pub repo: &'a Repository,
    /// The final snapshot, a hexadecimal tree id.
    pub tree: &'a str,
    /// The commit that was HEAD at t0; `None` on a branch without commits.
    pub head: Option<&'a str>,
    /// The run's id, which names the branch.
    pub run_id: &'a str,
    /// The message of the commit.
    pub message: &'a str,
    /// A folder for temporary files; emptied before, removed at the end.
    pub scratch: &'a Path,
}

/// Commits the final snapshot on t0's HEAD as the new branch `loopexec/RUN-ID`.
///
/// `root` is the top of the caller's working tree. Fails with `workspace_invalid` in a plain folder
/// and when the branch exists already with anything else: a branch is never moved.
pub fn create_branch(source: &Source<'_>, root: &Path) -> Result<Branch> {
    super::copies::remove(source.scratch)?;
    fs::create_dir_all(source.scratch).map_err(|e| failed("create", source.scratch, e))?;
    let branch = create(source, root);
    let removed = super::copies::remove(source.scratch);
    branch.and_then(|branch| removed.map(|()| branch))
}

fn create(source: &Source<'_>, root: &Path) -> Result<Branch> {
    let other_way = "Use `workspace: {deliver: patch}`, or apply the run's patch by hand.";
    let mut git = Git::new(root);
    let folder = git.read(&["rev-parse", "--absolute-git-dir"]).map_err(|e| {
        Error::new(
            Kind::WorkspaceInvalid,
            format!("{} is no git repository, so there can be no branch", root.display()),
        )
        .hint(other_way)
        .because(e)
    })?;
    if !git.read(&["rev-parse", "--show-cdup"])?.is_empty() {
        let what = format!("{} is not the top of its repository", root.display());
        return Err(Error::new(Kind::WorkspaceInvalid, what).hint(other_way));
    }
    let name = format!("loopexec/{}", source.run_id);
    let reference = format!("refs/heads/{name}");
    let there = git.read(&["rev-parse", "--verify", "--quiet", &reference]).ok().map(text);
    let hidden = read_skipped(&mut git)?;
    let work = source.scratch.join("tree");
    fs::create_dir(&work).map_err(|e| failed("create", &work, e))?;
    git.identify()?;
    git.work_in(OsString::from_vec(folder), &work, &source.scratch.join("index"));
    let head = source.head.map(|head| format!("{head}^{{commit}}"));
    match &head {
        Some(head) => git.read(&["read-tree", head])?,
        None => git.read(&["read-tree", "--empty"])?,
    };
    let left_out = read_submodules(&mut git)?;
    write_work(source, &work, &left_out)?;
    if !hidden.is_empty() {
        // Those that HEAD does not have are refused one by one, which is what they should be.
        let present = git.read(&["ls-files", "-z"])?;
        let present: BTreeSet<&[u8]> = present.split(|byte| *byte == 0).collect();
        let mut list: Vec<u8> = Vec::new();
        for path in hidden.iter().filter(|path| present.contains(&path[..])) {
            list.extend(path);
            list.push(0);
        }
        git.feed(&["update-index", "-z", "--skip-worktree", "--stdin"], &list)?;
    }
    git.read(&["add", "--all", "--force", "--", "."])?;
    let tree = text(git.read(&["write-tree", "--missing-ok"])?);
    if let Some(commit) = there {
        // A run that was killed behind this made it; its commit differs in nothing but the time.
        let made = text(git.read(&["log", "-1", "--format=%T %P%n%B", &commit])?);
        let ours = format!("{tree} {}\n{}", source.head.unwrap_or_default(), source.message);
        if made == ours.trim() {
            return Ok(Branch { name, commit, left_out });
        }
        let what = format!("the branch {name} exists already and is not moved");
        return Err(Error::new(Kind::WorkspaceInvalid, what).hint(other_way));
    }
    let mut arguments = vec!["commit-tree", &tree];
    if let Some(head) = source.head {
        arguments.extend(["-p", head]);
    }
    let commit = text(git.feed(&arguments, source.message.as_bytes())?);
    let none = "0".repeat(commit.len());
    git.read(&["update-ref", "-m", "loopexec: deliver", &reference, &commit, &none])
        .map_err(|e| e.hint(other_way))?;
    Ok(Branch { name, commit, left_out })
}

/// Reads the paths that a sparse checkout leaves out of the working tree.
fn read_skipped(git: &mut Git) -> Result<Vec<Vec<u8>>> {
    let listed = git.read(&["ls-files", "-t", "-z"])?;
    let entries = listed.split(|byte| *byte == 0);
    Ok(entries.filter_map(|entry| entry.strip_prefix(b"S ").map(<[u8]>::to_vec)).collect())
}

fn read_submodules(git: &mut Git) -> Result<Vec<PathBuf>> {
    let listed = git.read(&["ls-files", "--stage", "-z"])?;
    let entries = listed.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    let path = |entry: &[u8]| {
        let at = entry.iter().position(|byte| *byte == b'\t')?;
        Some(PathBuf::from(OsStr::from_bytes(&entry[at + 1..])))
    };
    Ok(entries.filter_map(path).collect())
}

/// Writes the final snapshot as files; a submodule is an empty folder, which git takes as unchanged.
fn write_work(source: &Source<'_>, work: &Path, submodules: &[PathBuf]) -> Result<()> {
    let all = read_all(source.repo, source.tree)?;
    let is_below = |path: &Path| submodules.iter().any(|module| path.starts_with(module));
    let folders = all.new_folders.iter().filter(|path| !is_below(path)).chain(submodules);
    for folder in folders {
        let folder = work.join(folder);
        fs::create_dir_all(&folder).map_err(|e| failed("create", &folder, e))?;
    }
    for change in all.changes.iter().filter(|change| !is_below(&change.path)) {
        let Some(held) = change.after else { continue };
        let bytes = read_blob(source.repo, held.blob, &change.path)?;
        let path = work.join(&change.path);
        let write = || {
            if held.form == Form::Link {
                return symlink(OsString::from_vec(bytes), &path);
            }
            let mode = if held.form == Form::Executable { 0o700 } else { 0o600 };
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode).open(&path)?.write_all(&bytes)
        };
        write().map_err(|e| failed("write", &path, e))?;
    }
    Ok(())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// The `git` program on the caller's repository: no hooks, no monitors, no maintenance, no prompts.
struct Git {
    folder: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Git {
    fn new(root: &Path) -> Self {
        Self { folder: root.to_owned(), variables: Vec::new() }
    }

    fn work_in(&mut self, git_folder: OsString, work: &Path, index: &Path) {
        self.folder = work.to_owned();
        self.variables.push(("GIT_DIR", git_folder));
        self.variables.push(("GIT_WORK_TREE", work.into()));
        self.variables.push(("GIT_INDEX_FILE", index.into()));
    }

    /// Takes the caller's name where one is configured, else loopexec's.
    fn identify(&mut self) -> Result<()> {
        for variable in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            // Without this setting git makes a name up from the machine's.
            if self.read(&["-c", "user.useConfigOnly=true", "var", variable]).is_ok() {
                continue;
            }
            let (name, email) = match variable {
                "GIT_AUTHOR_IDENT" => ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"),
                _ => ("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
            };
            self.variables.push((name, "loopexec".into()));
            self.variables.push((email, "loopexec@localhost".into()));
        }
        Ok(())
    }

    fn read(&mut self, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = self.feed(arguments, b"")?;
        Ok(output.strip_suffix(b"\n").unwrap_or(&output).to_vec())
    }

    fn feed(&mut self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            let name_bytes = name.as_bytes();
            let is_identity = name_bytes.starts_with(b"GIT_AUTHOR_")
                || name_bytes.starts_with(b"GIT_COMMITTER_")
                || name_bytes.starts_with(b"GIT_CONFIG_");
            if name_bytes.starts_with(b"GIT_") && !is_identity {
                command.env_remove(&name);
            }
        }
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.untrackedCache=false",
            "core.fileMode=true",
            "core.symlinks=true",
            "core.ignoreCase=false",
            "core.sparseCheckout=false",
            "core.safecrlf=false",
            "index.sparse=false",
            "core.splitIndex=false",
            "submodule.recurse=false",
            "gc.auto=0",
            "maintenance.auto=false",
            "advice.addEmbeddedRepo=false",
        ] {
            command.args(["-c", setting]);
        }
        command
            .args(arguments)
            .current_dir(&self.folder)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let problem = |e| Error::io(Kind::WorkspaceInvalid, "cannot run git", e);
        let mut child = command.spawn().map_err(problem)?;
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A git that reads no input closes the pipe; its exit code tells what matters.
                let _ = stdin.map(|mut stdin| stdin.write_all(input));
            });
            child.wait_with_output()
        })
        .map_err(problem)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: String = said.trim().chars().filter(|c| !c.is_control()).take(400).collect();
        let step = arguments.iter().find(|argument| !argument.contains(['-', '='])).copied();
        let what = format!("git {} failed: {said}", step.unwrap_or_default());
        Err(Error::new(Kind::WorkspaceInvalid, what))
    }
}
