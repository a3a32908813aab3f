//! `deliver: branch`: what the loop changed as a commit on a new branch of the caller's repository.
//!
//! The `git` program does it, for libgit2 opens neither reftable nor sha256 repositories: a
//! temporary index takes the changed files as `git add` would (line endings and clean filters of
//! the caller apply), and the new branch is created only if no such branch exists. All else is as
//! HEAD has it: the caller's uncommitted changes stay out unless the loop changed the same files.
//! The caller's index, HEAD and working tree are not touched and no hook runs.

use super::copying::failed;
use super::deliver::refuse_own;
use super::delta::{Change, Form, Held, read_blob, read_delta};
use super::places::Surroundings;
use super::{filters, gitcmd, programs};
use crate::error::{Error, Kind, Result};
use git2::Repository;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

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
    let delta = read_delta(source.repo, source.carried, source.tree)?;
    refuse_own(&delta)?;
    let changes = delta.changes;
    git.identify()?;
    let filtering = Filtering::read(&mut git, root, &folder, source.scratch)?;
    let (index, empty) = (source.scratch.join("index"), source.scratch.join("empty"));
    fs::create_dir(&empty).map_err(|e| failed("create", &empty, e))?;
    git.work_in(OsString::from_vec(folder), &empty, &index);
    // From here on git works in folders that are not the caller's.
    git.options = filters::silenced(&filtering.names);
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
    let carried = write_tree(&mut git, source, &filtering, &base, &before, "before")?;
    let wanted = write_tree(&mut git, source, &filtering, &carried, &after, "after")?;
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
    filtering: &Filtering,
    base: &str,
    paths: &[(&Path, Option<Held>)],
    folder: &str,
) -> Result<String> {
    let work = source.scratch.join(folder);
    fs::create_dir(&work).map_err(|e| failed("create", &work, e))?;
    let (mut gone, mut there) = (Vec::new(), Vec::new());
    for (path, held) in paths {
        match held {
            None => gone.extend_from_slice(&listed(path)),
            Some(held) => {
                there.push((*path, *held));
                write_file(source.repo, *held, path, &work)?;
            }
        }
    }
    // An index that is read anew knows no times, so every file is looked at.
    git.read(&["read-tree", base])?;
    let empty = git.move_to(&work);
    git.feed(&["update-index", "-z", "--force-remove", "--stdin"], &gone)?;
    let (filtered, plain) = filtering.split(git, &there)?;
    let plain: Vec<u8> = plain.iter().flat_map(|(path, _)| listed(path)).collect();
    git.feed(&["update-index", "-z", "--add", "--replace", "--stdin"], &plain)?;
    git.move_to(&empty);
    let entries = filtering.write(source.repo, &filtered)?;
    git.feed(&["update-index", "-z", "--add", "--replace", "--index-info"], &entries)?;
    // Git leaves a name that it does not like out, and says so to nobody.
    let held = git.read(&["ls-files", "-z"])?;
    let held: BTreeSet<&[u8]> = held.split(|byte| *byte == 0).collect();
    if let Some((path, _)) = there.iter().find(|(p, _)| !held.contains(p.as_os_str().as_bytes())) {
        let what = format!("git takes no file called {:?} into a branch", path.display());
        return Err(Error::new(Kind::WorkspaceInvalid, what).hint(OTHER_WAY));
    }
    Ok(text(git.read(&["write-tree", "--missing-ok"])?))
}

/// Returns a path as lists of git take it.
fn listed(path: &Path) -> Vec<u8> {
    [path.as_os_str().as_bytes(), b"\0"].concat()
}

type Files<'a> = Vec<(&'a Path, Held)>;
type Filtered<'a> = Vec<(&'a Path, Held, Vec<u8>)>;

/// The filters that `git add` would send the caller's files through.
///
/// They are programs, and may be files of the tree (`./tools/clean.sh`). So they run in the caller's own tree,
/// never in a folder with the agent's files, and get the agent's bytes on standard input.
struct Filtering {
    /// Git in the caller's tree.
    git: Git,
    /// Those that run something.
    names: BTreeSet<Vec<u8>>,
}

impl Filtering {
    fn read(git: &mut Git, root: &Path, folder: &[u8], scratch: &Path) -> Result<Self> {
        let names = filters::read_names(&git.read(&filters::LIST)?);
        let mut own = git.clone();
        // Attributes come from the tree alone, as where a file is hashed, and the caller's index stays as it is.
        let no_index = scratch.join("no-index");
        own.work_in(OsString::from_vec(folder.to_vec()), root, &no_index);
        own.options = names.iter().map(|name| filters::required(name)).collect();
        Ok(Self { git: own, names })
    }

    /// Parts the files that a filter applies to, with its name, from those that git takes as they are.
    ///
    /// `git` works where the result's attributes are. One that the result alone gives a file is refused: it
    /// would run a program of the caller's on what an agent chose.
    fn split<'a>(
        &self,
        git: &mut Git,
        there: &[(&'a Path, Held)],
    ) -> Result<(Filtered<'a>, Files<'a>)> {
        let (mut filtered, mut plain) = (Vec::new(), Vec::new());
        let paths: Vec<u8> = there.iter().flat_map(|(path, _)| listed(path)).collect();
        let (wanted, own) =
            (read_filters(git, &paths)?, read_filters(&mut self.git.clone(), &paths)?);
        for ((path, held), (name, own)) in there.iter().zip(wanted.into_iter().zip(own)) {
            if held.form == Form::Link || !self.names.contains(&name) {
                plain.push((*path, *held));
            } else if name == own {
                filtered.push((*path, *held, name));
            } else {
                let what = format!(
                    "the result gives {:?} the filter {}, which the .gitattributes in your tree does not",
                    path.display(),
                    super::paths::escape(&name)
                );
                return Err(Error::new(Kind::WorkspaceInvalid, what).hint(OTHER_WAY));
            }
        }
        Ok((filtered, plain))
    }

    /// Writes what the filters make of these files and returns their entries of an index.
    fn write(&self, repo: &Repository, filtered: &Filtered<'_>) -> Result<Vec<u8>> {
        let mut entries = Vec::new();
        for (path, held, name) in filtered {
            let bytes = read_blob(repo, held.blob, path)?;
            let mut named = OsString::from("--path=");
            named.push(path);
            let arguments = ["hash-object".into(), "-w".into(), "--stdin".into(), named];
            let id = self.git.clone().feed(&arguments, &bytes).map_err(|e| {
                let what = format!(
                    "the filter {} of your git configuration failed for {:?}",
                    super::paths::escape(name),
                    path.display()
                );
                Error::new(Kind::WorkspaceInvalid, what).because(e).hint(OTHER_WAY)
            })?;
            let mode = if held.form == Form::Executable { "100755" } else { "100644" };
            entries.extend_from_slice(format!("{mode} {}\t", text(id)).as_bytes());
            entries.extend_from_slice(&listed(path));
        }
        Ok(entries)
    }
}

/// Reads which filter each of the paths has, in their order; one without has a name that is none.
fn read_filters(git: &mut Git, paths: &[u8]) -> Result<Vec<Vec<u8>>> {
    let said = git.feed(&["check-attr", "-z", "--stdin", "filter"], paths)?;
    let fields: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
    Ok(fields.chunks_exact(3).map(|fields| fields[2].to_vec()).collect())
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
#[derive(Clone)]
struct Git {
    /// Where it is looked for.
    path: OsString,
    folder: PathBuf,
    /// What stands before every command.
    options: Vec<OsString>,
    variables: Vec<(&'static str, OsString)>,
}

impl Git {
    fn new(root: &Path) -> Self {
        let surroundings = Surroundings::read(|name| std::env::var_os(name));
        let path = programs::search_path(root, &surroundings);
        let variables = filters::VARIABLES.map(|(name, value)| (name, value.into())).into();
        Self { path, folder: root.to_owned(), options: Vec::new(), variables }
    }

    fn work_in(&mut self, git_folder: OsString, work: &Path, index: &Path) {
        self.folder = work.to_owned();
        self.variables.push(("GIT_DIR", git_folder));
        self.variables.push(("GIT_WORK_TREE", work.into()));
        self.variables.push(("GIT_INDEX_FILE", index.into()));
    }

    /// Goes on with another working tree; returns the one before.
    fn move_to(&mut self, work: &Path) -> PathBuf {
        self.variables.retain(|(name, _)| *name != "GIT_WORK_TREE");
        self.variables.push(("GIT_WORK_TREE", work.into()));
        std::mem::replace(&mut self.folder, work.to_owned())
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

    fn feed<A: AsRef<OsStr>>(&mut self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>> {
        let mut command = programs::command("git", &self.path)?;
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
            .args(&self.options)
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
        let code = output.status.code().unwrap_or(-1);
        let output = gitcmd::Output { code, stdout: output.stdout, stderr: output.stderr };
        let what = format!("git {} failed: {}", step(arguments), output.complaint());
        Err(Error::new(Kind::WorkspaceInvalid, what))
    }
}

/// Returns the command among git's arguments.
fn step<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    let mut words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
    while let Some(word) = words.next() {
        match &*word {
            "-c" => drop(words.next()),
            _ if word.starts_with('-') => {}
            _ => return word.into_owned(),
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_command_and_is_one_line() {
        assert_eq!(step(&["-c", "user.useConfigOnly=true", "var", "X"]), "var");
        let folder = tempfile::tempdir().unwrap();
        let mut git = Git::new(folder.path());
        let error = git.read(&["rev-parse", "--absolute-git-dir"]).unwrap_err();
        assert!(error.what.starts_with("git rev-parse failed: fatal: "), "{}", error.what);
        assert!(!error.what.contains('\n'));
    }
}
