//! The supervisor's own bare git directory, which no zone can reach.
//!
//! Snapshots are written into it by `snapshot`, made durable by `durable`, read by `changes` and
//! `restore`. It is always sha1, whatever the caller's repository is.

use crate::error::{Error, Kind, Result};
use crate::workspace::tree;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;

/// A git tree's id: 40 hexadecimal digits.
pub type TreeId = String;

/// The supervisor's own git directory.
///
/// libgit2 writes an object whole under its name, but does not wait for the disk. Once a receipt
/// is to name a snapshot, [`Store::make_durable`] waits: the first time for the whole file system of
/// the store (one `syncfs`, which also covers the packs of the caller's HEAD), later for the few
/// files that are new. What is written beside snapshots (commits, deliveries) can be made again.
pub struct Store {
    repository: git2::Repository,
    path: PathBuf,
    /// Since when objects may have been written that are not durable; none before the first time.
    pub(super) durable_until: Cell<Option<SystemTime>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Store {
    /// Makes an empty store in a folder that does not exist yet or is empty.
    pub fn create(path: &Path) -> Result<Self> {
        forget_configuration();
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).no_reinit(true).external_template(false);
        let repository = git2::Repository::init_opts(path, &options)
            .map_err(|source| failure(path, "cannot make the snapshot store", source))?;
        Ok(Self { repository, path: path.to_path_buf(), durable_until: Cell::new(None) })
    }

    /// Makes an empty store that reads what it lacks from another one, which is never written to.
    pub fn create_over(path: &Path, base: &Path) -> Result<Self> {
        let store = Self::create(path)?;
        let objects = std::fs::canonicalize(base).map(|base| base.join("objects"));
        let objects = objects.ok().filter(|objects| objects.is_dir()).ok_or_else(|| {
            Error::new(Kind::WorkspaceInvalid, format!("no snapshots in {}", base.display()))
                .detail("no_snapshots")
                .hint("take the whole folder of the run from where its receipt comes from")
        })?;
        let text = objects.to_str().ok_or_else(|| {
            Error::new(Kind::WorkspaceInvalid, format!("{} is not UTF-8", objects.display()))
        })?;
        store
            .odb()?
            .add_disk_alternate(text)
            .map_err(|e| failure(base, "cannot read the snapshots in", e))?;
        Ok(store)
    }

    /// Opens a store that [`Store::create`] made; one that came in a zip has lost its empty folders.
    pub fn open(path: &Path) -> Result<Self> {
        forget_configuration();
        if path.join("HEAD").is_file() {
            for empty in ["refs/heads", "objects/pack"] {
                let folder = path.join(empty);
                std::fs::create_dir_all(&folder).map_err(|source| {
                    let what = format!("cannot make {}", folder.display());
                    Error::io(Kind::WorkspaceInvalid, what, source)
                })?;
            }
        }
        let repository = git2::Repository::open_bare(path)
            .map_err(|source| failure(path, "cannot open the snapshot store", source))?;
        Ok(Self { repository, path: path.to_path_buf(), durable_until: Cell::new(None) })
    }

    /// Returns the store's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the repository, for callers that write commits or diffs of their own.
    pub fn repository(&self) -> &git2::Repository {
        &self.repository
    }

    /// Copies the pack files of another git directory in, as bytes of their own.
    pub fn fill_from(&self, git_dir: &Path) -> Result<()> {
        let from = git_dir.join("objects/pack");
        let to = self.path.join("objects/pack");
        let failed = |source| {
            let what = format!("cannot copy objects into the snapshot store {}", to.display());
            Error::io(Kind::WorkspaceInvalid, what, source)
        };
        let Ok(listing) = std::fs::read_dir(&from) else { return Ok(()) };
        let mut packs = Vec::new();
        for entry in listing {
            packs.push(entry.map_err(failed)?.file_name());
        }
        // The index goes last: a pack counts once its index stands beside it.
        packs.sort_by_key(|name| Path::new(name).extension().is_some_and(|e| e == "idx"));
        std::fs::create_dir_all(&to).map_err(failed)?;
        for name in packs {
            std::fs::copy(from.join(&name), to.join(&name)).map_err(failed)?;
        }
        self.odb()?.refresh().map_err(|e| failure(&self.path, "cannot read the snapshot store", e))
    }

    /// Returns the object database.
    pub fn odb(&self) -> Result<git2::Odb<'_>> {
        self.repository
            .odb()
            .map_err(|source| failure(&self.path, "cannot open the snapshot store", source))
    }

    /// Returns the content of a blob.
    pub fn read_blob(&self, id: git2::Oid) -> Result<Vec<u8>> {
        let odb = self.odb()?;
        let object = odb.read(id).map_err(|e| failure(&self.path, "cannot read a file of", e))?;
        Ok(object.data().to_vec())
    }

    /// Returns the entries of a tree.
    pub fn read_tree(&self, id: git2::Oid) -> Result<Vec<tree::Entry>> {
        let odb = self.odb()?;
        let object = odb.read(id).map_err(|e| failure(&self.path, "cannot read a folder of", e))?;
        if object.kind() != git2::ObjectType::Tree {
            return Err(damaged(&self.path, &format!("{id} is no tree")));
        }
        tree::decode(object.data())
            .ok_or_else(|| damaged(&self.path, &format!("the tree {id} is malformed")))
    }

    /// Returns the id as libgit2 holds it.
    pub fn parse(id: &str) -> Result<git2::Oid> {
        if id.len() != 40 {
            return Err(Error::new(Kind::ObjectiveUnverified, format!("no tree id: {id:?}")));
        }
        git2::Oid::from_str(id).map_err(|source| {
            Error::new(Kind::ObjectiveUnverified, format!("no tree id: {id:?}")).because(source)
        })
    }
}

/// Returns the id of the tree without entries.
pub fn empty_tree() -> Result<git2::Oid> {
    git2::Oid::hash_object(git2::ObjectType::Tree, b"")
        .map_err(|source| Error::new(Kind::Internal, "cannot hash an empty tree").because(source))
}

/// Makes an error of a libgit2 failure; a full disk is told apart by its text, as libgit2 has no
/// code for it.
pub fn failure(path: &Path, what: &str, source: git2::Error) -> Error {
    let text = source.message();
    let full = ["No space left", "Disk quota", "File too large"].iter().any(|t| text.contains(t));
    let kind = if full { Kind::StorageExhausted } else { Kind::WorkspaceInvalid };
    let error = Error::new(kind, format!("{what} {}", path.display())).because(source);
    if full { error.detail("disk_full") } else { error }
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::new(
        Kind::ObjectiveUnverified,
        format!("the snapshot store {} is damaged: {why}", path.display()),
    )
}

/// Blanks libgit2's search paths: a person's git configuration has no say in the store.
fn forget_configuration() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        use git2::ConfigLevel as Level;
        for level in [Level::System, Level::Global, Level::XDG, Level::ProgramData] {
            #[expect(unsafe_code, reason = "git2 has no safe way to blank libgit2's search paths")]
            // SAFETY: `Once` orders this before every other use of libgit2 in this program that reads
            // a search path: those come through a Store. `receipt::bundle` opens bare object folders,
            // for which none is read.
            let _ = unsafe { git2::opts::set_search_path(level, "") };
        }
    });
}
