//! The caller's tree: where it is, and what sort of repository it belongs to.
//!
//! It is asked of the `git` program alone and never written to. What git ignores in it is read by
//! `ignored`, its history by `history`.

use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use crate::workspace::Stop;
use crate::workspace::gitcmd::{Configuration, Git, Output, refused};
use crate::workspace::places::Surroundings;
use crate::workspace::programs::search_path;
use crate::workspace::{filters, gitconfig, paths};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The hash that names a repository's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 digits.
    Sha1,
    /// 64 digits.
    Sha256,
}

impl ObjectFormat {
    /// Returns the name git knows it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }
}

/// What HEAD is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// A branch with a commit; its name without `refs/heads/`, as git spells it.
    Branch(Vec<u8>),
    /// A commit without a branch.
    Detached,
    /// A branch without a commit yet.
    Unborn(Vec<u8>),
}

/// What sort of tree it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallerKind {
    /// The working tree of a git repository.
    Git {
        /// The git directory of this working tree (of a linked worktree: its own).
        git_dir: PathBuf,
        /// The git directory that holds the objects.
        common_dir: PathBuf,
        /// How objects are named.
        object_format: ObjectFormat,
        /// What HEAD is.
        head: Head,
    },
    /// A folder outside any repository.
    Plain,
}

/// The tree loopexec was started in.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The top of the working tree, without links on the way.
    pub root: PathBuf,
    /// The folder the run was started in, relative to the top; empty at the top.
    pub prefix: PathBuf,
    /// What sort of tree it is.
    pub kind: CallerKind,
    surroundings: Surroundings,
    trust: Trust,
}

/// Whether git itself would open the repository for who called.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Trust {
    /// It is their own, or they named it in `safe.directory`.
    Own,
    /// It is somebody else's: git is told not to run its filters.
    Foreign {
        /// The options that say so.
        silenced: Vec<OsString>,
    },
}

impl Caller {
    /// Finds the tree a folder belongs to.
    pub fn discover(start: &Path, surroundings: &Surroundings, stop: Stop<'_>) -> Result<Self> {
        let start = std::fs::canonicalize(start).map_err(|source| {
            Error::io(Kind::WorkspaceInvalid, format!("no folder {}", start.display()), source)
        })?;
        let path = search_path(&start, surroundings);
        let surroundings = &Surroundings { path, ..surroundings.clone() };
        let git = trusting(Git::new(&surroundings.path), &start);
        let top = git.run(["rev-parse", "--show-toplevel"], b"", stop)?;
        if top.code != 0 {
            return Self::without_top(start, &top, surroundings);
        }
        let root = std::fs::canonicalize(paths::as_path(top.line())).map_err(|source| {
            Error::io(Kind::WorkspaceInvalid, "cannot find the top of the working tree", source)
        })?;
        let Ok(prefix) = start.strip_prefix(&root).map(Path::to_path_buf) else {
            let what = format!(
                "git says that the tree of {} is {}, which does not hold it",
                start.display(),
                root.display()
            );
            return Err(Error::new(Kind::WorkspaceInvalid, what)
                .hint("look at core.worktree in .git/config, or start in the tree itself"));
        };
        let git = trusting(Git::new(&surroundings.path), &root);
        let asked = |argument: &str| {
            let arguments = ["rev-parse", "--path-format=absolute", argument];
            git.must("tell where its folder is", arguments, b"", stop)
                .map(|output| paths::as_path(output.line()).to_path_buf())
        };
        let git_dir = asked("--git-dir")?;
        let common_dir = asked("--git-common-dir")?;
        refuse_foreign_place(&root, &git_dir, &common_dir)?;
        let format = git.run(["rev-parse", "--show-object-format"], b"", stop)?;
        let object_format = match format.line() {
            b"sha256" => ObjectFormat::Sha256,
            _ => ObjectFormat::Sha1,
        };
        let branch = git.run(["symbolic-ref", "-q", "HEAD"], b"", stop)?;
        let born = git.run(["rev-parse", "-q", "--verify", "HEAD"], b"", stop)?.code == 0;
        let name = branch.line().strip_prefix(b"refs/heads/").unwrap_or(branch.line()).to_vec();
        let head = match (branch.code, born) {
            (0, true) => Head::Branch(name),
            (0, false) => Head::Unborn(name),
            _ => Head::Detached,
        };
        let kind = CallerKind::Git { git_dir, common_dir, object_format, head };
        let mut caller =
            Self { root, prefix, kind, surroundings: surroundings.clone(), trust: Trust::Own };
        let opened = caller.own_git().run(["rev-parse", "--git-dir"], b"", stop)?.code == 0;
        if !opened {
            let listed = caller.personal_git().run(filters::LIST, b"", stop)?;
            if listed.code != 0 {
                return Err(refused(
                    "list the configuration of a repository of another user",
                    &listed,
                ));
            }
            let silenced = filters::silenced(&filters::read_names(&listed.stdout));
            caller.trust = Trust::Foreign { silenced };
        }
        Ok(caller)
    }

    /// Returns the folder the run was started in.
    pub fn start(&self) -> PathBuf {
        // Joining an empty path would leave a slash at the end, which people see in messages.
        match self.prefix.as_os_str().is_empty() {
            true => self.root.clone(),
            false => self.root.join(&self.prefix),
        }
    }

    /// Returns git, set up to read this tree with nobody's configuration but the repository's.
    pub fn git(&self) -> Git {
        let git = trusting(Git::new(&self.surroundings.path), &self.root);
        let Trust::Foreign { silenced } = &self.trust else { return git };
        let variables = filters::VARIABLES.into_iter();
        variables.fold(git, |git, (name, value)| git.variable(name, value)).with(silenced)
    }

    /// Returns git as the person who called would run it here, without locks, hooks and watchers.
    pub fn personal_git(&self) -> Git {
        self.git().configured(self.personal())
    }

    /// Returns git as the person who called would run it here, which refuses what is somebody else's.
    fn own_git(&self) -> Git {
        let git = quiet(Git::new(&self.surroundings.path), &self.root).configured(self.personal());
        match &self.surroundings.sudo_uid {
            Some(uid) => git.variable("SUDO_UID", uid),
            None => git,
        }
    }

    fn personal(&self) -> Configuration {
        Configuration::Personal {
            home: self.surroundings.home.clone(),
            xdg: self.surroundings.xdg_config_home.clone(),
        }
    }

    /// Returns git without any repository, for new ones.
    pub fn bare_git(&self) -> Git {
        Git::new(&self.surroundings.path)
    }

    /// Returns the variables and folders around the caller.
    pub fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }

    /// Tells whether something is uncommitted, our own state apart.
    pub fn read_dirty(&self, stop: Stop<'_>) -> Result<bool> {
        if self.kind == CallerKind::Plain {
            return Ok(true);
        }
        let mut arguments = vec!["status"];
        let git = match self.trust {
            Trust::Own => self.own_git(),
            Trust::Foreign { .. } => {
                // In a submodule git starts another git, which has filters of its own.
                arguments.push("--ignore-submodules=dirty");
                self.personal_git()
            }
        };
        arguments.extend([
            "--porcelain",
            "-z",
            "--untracked-files=normal",
            "--no-renames",
            "--",
            ".",
            ":(exclude,top,literal).loopexec",
            ":(exclude,top,literal).loop_state.json",
            ":(exclude,top,glob).loop_state.json.*.tmp",
        ]);
        let output = git.run(arguments, b"", stop)?;
        // A treeless clone cannot compare with a HEAD it does not hold.
        Ok(output.code != 0 || !output.stdout.is_empty())
    }

    fn without_top(start: PathBuf, top: &Output, surroundings: &Surroundings) -> Result<Self> {
        let said = String::from_utf8_lossy(&top.stderr);
        if said.contains("not a git repository (or any") {
            let surroundings = surroundings.clone();
            return Ok(Self {
                root: start,
                prefix: PathBuf::new(),
                kind: CallerKind::Plain,
                surroundings,
                trust: Trust::Own,
            });
        }
        if said.contains("must be run in a work tree") {
            let what = format!("{} is inside a git directory", start.display());
            return Err(Error::new(Kind::WorkspaceInvalid, what)
                .hint("run loopexec inside a working tree of the repository"));
        }
        Err(refused("open the repository", top).hint("see what `git status` says here"))
    }
}

/// Refuses a git directory that the tree leads to and that does not know it: another repository's content would
/// be shown as this one's.
///
/// It lies in the tree, or it names the tree: a worktree's by its `gitdir`, a submodule's by `core.worktree`.
fn refuse_foreign_place(root: &Path, git_dir: &Path, common_dir: &Path) -> Result<()> {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (git_dir, common_dir) = (real(git_dir), real(common_dir));
    let worktree = git_dir.starts_with(common_dir.join("worktrees"));
    let known = git_dir.starts_with(root) || names_tree(&git_dir, root);
    if known && (git_dir == common_dir || worktree) {
        return Ok(());
    }
    let place = if known { &common_dir } else { &git_dir };
    let what = format!(
        "{} leads to the repository {}, which does not name this tree as its own",
        root.join(".git").display(),
        place.display()
    );
    let own = format!(
        "if it is this tree's: git --git-dir={} config core.worktree {}",
        place.display(),
        root.display()
    );
    Err(Error::new(Kind::WorkspaceInvalid, what).hint(own))
}

/// Bytes of a file of git's own that is read.
const GITS_MAX: u64 = 1 << 20;

/// Says whether a git directory names a tree as the one it belongs to.
fn names_tree(git_dir: &Path, root: &Path) -> bool {
    let is_root = |path: &Path| std::fs::canonicalize(git_dir.join(path)).is_ok_and(|p| p == root);
    if let Ok(text) = foreign::read(&git_dir.join("gitdir"), Links::Follow, GITS_MAX) {
        let link = paths::as_path(text.trim_ascii_end());
        if link.ends_with(".git") && link.parent().is_some_and(is_root) {
            return true;
        }
    }
    ["config", "config.worktree"].iter().any(|name| {
        let settings = foreign::read(&git_dir.join(name), Links::Follow, GITS_MAX)
            .ok()
            .and_then(|t| gitconfig::parse(&t));
        let worktree = settings.into_iter().flatten().rfind(|s| s.key == "core.worktree");
        worktree.and_then(|s| s.value).is_some_and(|value| is_root(Path::new(&value)))
    })
}

/// Sets git up for a repository of any owner, with nothing in it that runs programs but its filters.
fn trusting(git: Git, folder: &Path) -> Git {
    quiet(git, folder).with(["-c", "safe.directory=*"])
}

/// Sets git up without hooks and watchers.
fn quiet(git: Git, folder: &Path) -> Git {
    let mut git = git.with(["-C"]).with([folder]);
    for setting in [
        "core.fsmonitor=false",
        "core.untrackedCache=false",
        "core.hooksPath=/dev/null",
        "core.quotePath=false",
    ] {
        git = git.with(["-c", setting]);
    }
    git
}
