//! `deliver: branch`: what the loop changed as a commit on a new branch of the caller's repository.
//!
//! The `git` program does it, for libgit2 opens neither reftable nor sha256 repositories: a
//! temporary index takes the changed files as `git add` would (line endings and clean filters of
//! the caller apply), and the new branch is created only if no such branch exists. All else is as
//! HEAD has it: the caller's uncommitted changes stay out unless the loop changed the same files.
//! The caller's index, HEAD and working tree are not touched and no hook runs.

use super::copying::failed;
use super::delta::{Change, Form, Held, read_blob, read_delta};
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

/// What to do where a branch cannot be.
const OTHER_WAY: &str = "use `workspace: {deliver: patch}`";

/// The message of the commit that holds what was uncommitted in the files the loop changed.
const UNCOMMITTED: &str = "loopexec: uncommitted changes at the start";

/// A branch that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its name, `loopexec/RUN-ID`.
    pub name: String,
    /// The commit it points at, hexadecimal in the caller's object format.
    pub commit: String,
}

/// What a branch is made from.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The snapshot store.
    pub repo: &'a Repository,
    /// The snapshot of what the caller had, a hexadecimal tree id.
    pub carried: &'a str,
    /// The snapshot that is delivered, a hexadecimal tree id.
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

/// Says before anything is run whether a branch could be made at all.
///
/// `root` is the top of the caller's working tree; without `run_id` its name is not looked at.
///
/// # Errors
/// `workspace_invalid` in a plain folder, without a commit to stand on, and where the branch's name
/// is taken or none that git allows.
pub fn check_possible(root: &Path, run_id: Option<&str>) -> Result<()> {
    let mut git = Git::new(root);
    open(&mut git, root)?;
    let no = |what: String| Err(Error::new(Kind::WorkspaceInvalid, what).hint(OTHER_WAY));
    if git.read(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).is_err() {
        return no("`deliver: branch` needs a commit to stand on, and there is none yet".into());
    }
    let is_there = |git: &mut Git, name: &str| {
        let reference = format!("refs/heads/{name}");
        git.read(&["rev-parse", "--verify", "--quiet", &reference]).is_ok()
    };
    if is_there(&mut git, "loopexec") {
        return no("a branch called loopexec is there, so loopexec/RUN-ID cannot be made".into());
    }
    let Some(id) = run_id else { return Ok(()) };
    let name = format!("loopexec/{id}");
    if git.read(&["check-ref-format", &format!("refs/heads/{name}")]).is_err() {
        return no(format!("git takes no branch called {name}; choose another run id"));
    }
    if is_there(&mut git, &name) {
        return no(format!("the branch {name} exists already and is not moved"));
    }
    Ok(())
}

/// Commits what differs from `carried` to `tree` on t0's HEAD as the new branch `loopexec/RUN-ID`.
///
/// `root` is the top of the caller's working tree. Where a changed file was uncommitted at t0, a
/// first commit brings those files to what the caller had. Fails with `workspace_invalid` in a plain
/// folder, when the change touches a submodule, and when the branch exists already with anything
/// else: a branch is never moved.
pub fn create_branch(source: &Source<'_>, root: &Path) -> Result<Branch> {
    super::copies::remove(source.scratch)?;
    fs::create_dir_all(source.scratch).map_err(|e| failed("create", source.scratch, e))?;
    let branch = create(source, root);
    let removed = super::copies::remove(source.scratch);
    branch.and_then(|branch| removed.map(|()| branch))
}

/// Returns the git folder of the tree whose top is `root`.
fn open(git: &mut Git, root: &Path) -> Result<Vec<u8>> {
    let folder = git.read(&["rev-parse", "--absolute-git-dir"]).map_err(|e| {
        Error::new(
            Kind::WorkspaceInvalid,
            format!("{} is no git repository, so there can be no branch", root.display()),
        )
        .hint(OTHER_WAY)
        .because(e)
    })?;
    if !git.read(&["rev-parse", "--show-cdup"])?.is_empty() {
        let what = format!("{} is not the top of its repository", root.display());
        return Err(Error::new(Kind::WorkspaceInvalid, what).hint(OTHER_WAY));
    }
    Ok(folder)
}

fn create(source: &Source<'_>, root: &Path) -> Result<Branch> {
    let mut git = Git::new(root);
    let folder = open(&mut git, root)?;
    let name = format!("loopexec/{}", source.run_id);
    let reference = format!("refs/heads/{name}");
    let there = git.read(&["rev-parse", "--verify", "--quiet", &reference]).ok().map(text);
    let hidden = read_skipped(&mut git)?;
    let changes = read_delta(source.repo, source.carried, source.tree)?.changes;
    git.identify()?;
    let index = source.scratch.join("index");
    git.work_in(OsString::from_vec(folder), source.scratch, &index);
    match source.head {
        Some(head) => git.read(&["read-tree", &format!("{head}^{{commit}}")])?,
        None => git.read(&["read-tree", "--empty"])?,
    };
    refuse_submodules(&read_submodules(&mut git)?, &changes)?;
    let base = text(git.read(&["write-tree", "--missing-ok"])?);
    // What a sparse checkout leaves out is not there, and yet nobody removed it.
    let was_there = |change: &&Change| {
        change.before.is_some() || !hidden.contains(change.path.as_os_str().as_bytes())
    };
    let before: Vec<_> =
        changes.iter().filter(was_there).map(|change| (&*change.path, change.before)).collect();
    let after: Vec<_> = changes.iter().map(|change| (&*change.path, change.after)).collect();
    let carried = write_tree(&mut git, source, &base, &before, "before")?;
    let wanted = write_tree(&mut git, source, &carried, &after, "after")?;
    let mut commits = Vec::new();
    if carried != base {
        commits.push((carried, UNCOMMITTED));
    }
    commits.push((wanted, source.message));
    if let Some(commit) = there {
        if is_made(&mut git, &commit, &commits, source.head)? {
            return Ok(Branch { name, commit });
        }
        let what = format!("the branch {name} exists already and is not moved");
        return Err(Error::new(Kind::WorkspaceInvalid, what).hint(OTHER_WAY));
    }
    let mut parent = source.head.map(str::to_owned);
    for (tree, message) in &commits {
        let mut arguments = vec!["commit-tree", tree];
        if let Some(parent) = &parent {
            arguments.extend(["-p", parent]);
        }
        parent = Some(text(git.feed(&arguments, message.as_bytes())?));
    }
    let commit = parent.unwrap_or_default();
    let none = "0".repeat(commit.len());
    git.read(&["update-ref", "-m", "loopexec: deliver", &reference, &commit, &none])
        .map_err(|e| e.hint(OTHER_WAY))?;
    Ok(Branch { name, commit })
}

/// Says whether a killed run made just these commits; they differ in nothing but the time then.
fn is_made(
    git: &mut Git,
    commit: &str,
    commits: &[(String, &str)],
    head: Option<&str>,
) -> Result<bool> {
    let mut at = commit.to_owned();
    for (tree, message) in commits.iter().rev() {
        let made = text(git.read(&["log", "-1", "--format=%T%n%P%n%B", &at])?);
        let mut lines = made.splitn(3, '\n');
        let (its_tree, parents) = (lines.next(), lines.next().unwrap_or_default().to_owned());
        if its_tree != Some(tree) || lines.next().map(str::trim) != Some(message.trim()) {
            return Ok(false);
        }
        at = parents;
    }
    Ok(at == head.unwrap_or_default())
}

/// Reads the paths that a sparse checkout leaves out of the working tree.
fn read_skipped(git: &mut Git) -> Result<BTreeSet<Vec<u8>>> {
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

/// Refuses a change that no commit of this repository can hold.
fn refuse_submodules(submodules: &[PathBuf], changes: &[Change]) -> Result<()> {
    let is_touched = |module: &&PathBuf| {
        changes.iter().any(|change| {
            change.path.starts_with(module)
                || (change.after.is_some() && module.starts_with(&change.path))
        })
    };
    let touched: Vec<String> =
        submodules.iter().filter(is_touched).map(|module| module.display().to_string()).collect();
    if touched.is_empty() {
        return Ok(());
    }
    let what = format!(
        "the change touches {} {}, which a branch cannot carry",
        if touched.len() == 1 { "the submodule" } else { "the submodules" },
        touched.join(", ")
    );
    Err(Error::new(Kind::WorkspaceInvalid, what).detail("submodule").hint(OTHER_WAY))
}

/// Writes the tree `base` with these paths as they are held, or without them.
fn write_tree(
    git: &mut Git,
    source: &Source<'_>,
    base: &str,
    paths: &[(&Path, Option<Held>)],
    folder: &str,
) -> Result<String> {
    let work = source.scratch.join(folder);
    fs::create_dir(&work).map_err(|e| failed("create", &work, e))?;
    let (mut gone, mut there) = (Vec::new(), Vec::new());
    for (path, held) in paths {
        let list = if held.is_some() { &mut there } else { &mut gone };
        list.extend_from_slice(path.as_os_str().as_bytes());
        list.push(0);
        if let Some(held) = held {
            write_file(source.repo, *held, path, &work)?;
        }
    }
    // An index that is read anew knows no times, so every file is looked at.
    git.read(&["read-tree", base])?;
    git.move_to(&work);
    git.feed(&["update-index", "-z", "--force-remove", "--stdin"], &gone)?;
    git.feed(&["update-index", "-z", "--add", "--replace", "--stdin"], &there)?;
    Ok(text(git.read(&["write-tree", "--missing-ok"])?))
}

fn write_file(repo: &Repository, held: Held, path: &Path, work: &Path) -> Result<()> {
    let bytes = read_blob(repo, held.blob, path)?;
    let path = work.join(path);
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(work))?;
        if held.form == Form::Link {
            return symlink(OsString::from_vec(bytes), &path);
        }
        let mode = if held.form == Form::Executable { 0o700 } else { 0o600 };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode).open(&path)?.write_all(&bytes)
    };
    write().map_err(|e| failed("write", &path, e))
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

    /// Goes on with another working tree.
    fn move_to(&mut self, work: &Path) {
        self.folder = work.to_owned();
        self.variables.retain(|(name, _)| *name != "GIT_WORK_TREE");
        self.variables.push(("GIT_WORK_TREE", work.into()));
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
