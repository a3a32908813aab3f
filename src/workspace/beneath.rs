//! Files below a root, reached one folder at a time, so that no symlink leads out of it.
//!
//! Only names and bytes: which of them may change is the duty of `deliver`.

use crate::error::{Error, Kind, Result};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// A folder that everything stays below.
#[derive(Debug)]
pub struct Beneath {
    fd: OwnedFd,
    root: PathBuf,
}

/// What stands at a path.
#[derive(Debug)]
pub enum Found {
    /// Nothing, or its folder is not there either.
    Absent,
    /// A folder.
    Folder,
    /// A regular file, open for reading.
    File(File),
    /// A symlink and its target.
    Link(Vec<u8>),
    /// A FIFO, a socket or a device.
    Other,
    /// Nothing can stand there: this path above it is no folder (a symlink is none).
    Blocked(PathBuf),
}

/// A folder on the way to a path.
#[derive(Debug)]
pub enum Way {
    /// It is open.
    Open(OwnedFd),
    /// It, or one above it, is not there.
    Missing,
    /// It, or one above it, is no folder.
    Blocked(PathBuf),
}

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

impl Beneath {
    /// Opens the root, which may itself be reached through symlinks.
    pub fn open(root: &Path) -> Result<Self> {
        let fd = File::open(root).map_err(|e| failed("open", root, e))?.into();
        Ok(Self { fd, root: root.to_owned() })
    }

    /// Returns the full path of one below, for messages.
    pub fn full(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }

    /// Opens a folder below the root; the empty path is the root.
    pub fn open_folder(&self, path: &Path) -> Result<Way> {
        let mut fd = self.open_root()?;
        let mut at = PathBuf::new();
        for part in path.components() {
            let name = self.name(path, part)?;
            at.push(name);
            fd = match openat(&fd, name, FOLDER, Mode::empty()) {
                Ok(fd) => fd,
                Err(Errno::ENOENT) => return Ok(Way::Missing),
                Err(Errno::ENOTDIR | Errno::ELOOP) => return Ok(Way::Blocked(at)),
                Err(e) => return Err(failed("open", &self.full(&at), e)),
            };
        }
        Ok(Way::Open(fd))
    }

    /// Opens a folder below the root and makes what is missing on the way.
    pub fn make_folders(&self, path: &Path) -> Result<OwnedFd> {
        let mut fd = self.open_root()?;
        let mut at = PathBuf::new();
        for part in path.components() {
            let name = self.name(path, part)?;
            at.push(name);
            match mkdirat(&fd, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(e) => return Err(failed("create", &self.full(&at), e)),
            }
            fd = openat(&fd, name, FOLDER, Mode::empty())
                .map_err(|e| failed("open", &self.full(&at), e))?;
        }
        Ok(fd)
    }

    /// Reads what stands at a path.
    pub fn read_found(&self, path: &Path) -> Result<Found> {
        let (parent, name) = self.split(path)?;
        let parent = match self.open_folder(parent)? {
            Way::Open(fd) => fd,
            Way::Missing => return Ok(Found::Absent),
            Way::Blocked(at) => return Ok(Found::Blocked(at)),
        };
        let problem = |e| failed("read", &self.full(path), e);
        let stat = match fstatat(&parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => return Ok(Found::Absent),
            Err(e) => return Err(problem(e)),
        };
        let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        Ok(if kind == SFlag::S_IFDIR {
            Found::Folder
        } else if kind == SFlag::S_IFLNK {
            Found::Link(readlinkat(&parent, name).map_err(problem)?.into_vec())
        } else if kind == SFlag::S_IFREG {
            // Should a FIFO take its place meanwhile, opening it must not hang.
            let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            Found::File(openat(&parent, name, flags, Mode::empty()).map_err(problem)?.into())
        } else {
            Found::Other
        })
    }

    /// Removes a file or symlink; says whether it was there.
    pub fn remove_file(&self, path: &Path) -> Result<bool> {
        self.remove(path, UnlinkatFlags::NoRemoveDir)
    }

    /// Removes a folder if it is empty; says whether it did.
    pub fn remove_empty_folder(&self, path: &Path) -> Result<bool> {
        self.remove(path, UnlinkatFlags::RemoveDir)
    }

    fn remove(&self, path: &Path, flags: UnlinkatFlags) -> Result<bool> {
        let (parent, name) = self.split(path)?;
        let Way::Open(parent) = self.open_folder(parent)? else { return Ok(false) };
        match unlinkat(&parent, name, flags) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
            Err(Errno::ENOTDIR) if matches!(flags, UnlinkatFlags::RemoveDir) => Ok(false),
            Err(e) => Err(failed("remove", &self.full(path), e)),
        }
    }

    /// Splits a path into its folder and its name; a path with other parts is refused.
    pub fn split<'a>(&self, path: &'a Path) -> Result<(&'a Path, &'a OsStr)> {
        match (path.parent(), path.components().next_back()) {
            (Some(parent), Some(last)) => Ok((parent, self.name(path, last)?)),
            _ => Err(self.outside(path)),
        }
    }

    fn open_root(&self) -> Result<OwnedFd> {
        self.fd.as_fd().try_clone_to_owned().map_err(|e| failed("open", &self.root, e))
    }

    fn name<'a>(&self, path: &Path, part: Component<'a>) -> Result<&'a OsStr> {
        match part {
            Component::Normal(name) => Ok(name),
            _ => Err(self.outside(path)),
        }
    }

    fn outside(&self, path: &Path) -> Error {
        let root = self.root.display();
        Error::new(Kind::WorkspaceInvalid, format!("{:?} is no path below {root}", path.display()))
    }
}

/// Makes an error of a failed step: where, and `storage_exhausted` when a disk is full.
fn failed(verb: &str, path: &Path, source: impl Into<std::io::Error>) -> Error {
    super::copying::failed(verb, path, source.into())
}
