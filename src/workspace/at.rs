//! Folders by file descriptor: names are resolved one at a time, links are never followed, and a
//! tree deeper than `PATH_MAX` is walked in bounded descriptors and without recursion.
//!
//! What is done with the files found belongs to `walk`, `make` and `restore`.

use crate::error::{Error, Kind, Result};
use crate::workspace::paths;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Folders kept open at once while descending; deeper ones are reopened through `..` on the way up.
const OPEN_FOLDERS: usize = 64;

/// What an lstat found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A folder.
    Folder,
    /// A FIFO, a socket or a device: its name.
    Special(&'static str),
}

/// Returns what sort of thing a stat describes.
pub fn kind_of(stat: &FileStat) -> Sort {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFREG => Sort::File,
        libc::S_IFLNK => Sort::Link,
        libc::S_IFDIR => Sort::Folder,
        libc::S_IFIFO => Sort::Special("fifo"),
        libc::S_IFSOCK => Sort::Special("socket"),
        libc::S_IFCHR => Sort::Special("character device"),
        libc::S_IFBLK => Sort::Special("block device"),
        _ => Sort::Special("unknown"),
    }
}

/// A place in a tree, with the open folders that lead to it.
#[derive(Debug)]
pub struct Descent {
    top: PathBuf,
    levels: Vec<Level>,
    path: Vec<u8>,
}

#[derive(Debug)]
struct Level {
    folder: Option<OwnedFd>,
    identity: (u64, u64),
    path_length: usize,
}

impl Descent {
    /// Opens the folder at the top.
    pub fn open(top: &Path) -> Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = nix::fcntl::open(top, flags, Mode::empty())
            .map_err(|e| failure(top, b"", "cannot open the folder", e))?;
        let identity = identity(&folder).map_err(|e| failure(top, b"", "cannot stat", e))?;
        let level = Level { folder: Some(folder), identity, path_length: 0 };
        Ok(Self { top: top.to_path_buf(), levels: vec![level], path: Vec::new() })
    }

    /// Returns the path of the present folder relative to the top, empty at the top.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns how many folders below the top the present one is.
    pub fn depth(&self) -> usize {
        self.levels.len() - 1
    }

    /// Returns the present folder.
    pub fn folder(&self) -> BorrowedFd<'_> {
        // The last level always holds its descriptor: `enter` and `leave` see to it.
        match self.levels.last().and_then(|level| level.folder.as_ref()) {
            Some(folder) => folder.as_fd(),
            None => nix::fcntl::AT_FDCWD,
        }
    }

    /// Makes an error that names an entry of the present folder.
    pub fn failure(&self, name: &[u8], what: &str, errno: Errno) -> Error {
        failure(&self.top, &paths::join(&self.path, name), what, errno)
    }

    /// Goes into a folder of the present one that is the supervisor's to open up: where its mode
    /// keeps its owner out, the owner's bits are set and stay so.
    pub fn enter_own(&mut self, name: &CStr, mode: libc::mode_t) -> Result<()> {
        if mode & libc::S_IRWXU != libc::S_IRWXU {
            // Without the right to change it, entering says what is wrong.
            let _ = self.change_mode(name, mode | libc::S_IRWXU);
        }
        self.enter(name)
    }

    /// Goes into a folder of the present one.
    pub fn enter(&mut self, name: &CStr) -> Result<()> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = openat(self.folder(), name, flags, Mode::empty())
            .map_err(|e| self.failure(name.to_bytes(), "cannot open the folder", e))?;
        let identity =
            identity(&folder).map_err(|e| self.failure(name.to_bytes(), "cannot stat", e))?;
        let path_length = self.path.len();
        self.path = paths::join(&self.path, name.to_bytes());
        self.levels.push(Level { folder: Some(folder), identity, path_length });
        if let Some(distant) = self.levels.len().checked_sub(OPEN_FOLDERS + 1).filter(|at| *at > 0)
        {
            self.levels[distant].folder = None;
        }
        Ok(())
    }

    /// Goes back to the folder above; at the top it stays there.
    pub fn leave(&mut self) -> Result<()> {
        if self.levels.len() < 2 {
            return Ok(());
        }
        let Some(level) = self.levels.pop() else { return Ok(()) };
        let child = self.path.clone();
        self.path.truncate(level.path_length);
        let Some(above) = self.levels.last_mut() else { return Ok(()) };
        if above.folder.is_none() {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let reopened = level.folder.ok_or(Errno::EBADF).and_then(|child| {
                let folder = openat(&child, c"..", flags, Mode::empty())?;
                // A folder that was moved meanwhile has another parent.
                if identity(&folder)? == above.identity { Ok(folder) } else { Err(Errno::ESTALE) }
            });
            let top = &self.top;
            above.folder =
                Some(reopened.map_err(|e| failure(top, &child, "cannot leave the folder", e))?);
        }
        Ok(())
    }

    /// Returns the names in the present folder, sorted by their bytes.
    pub fn read_names(&self) -> Result<Vec<CString>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let failed = |e| self.failure(b"", "cannot list the folder", e);
        let mut folder = Dir::openat(self.folder(), c".", flags, Mode::empty()).map_err(failed)?;
        let mut names = Vec::new();
        for entry in folder.iter() {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns what lstat says of a name in the present folder.
    pub fn read_stat(&self, name: &CStr) -> Result<FileStat> {
        fstatat(self.folder(), name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|e| self.failure(name.to_bytes(), "cannot stat", e))
    }

    /// Opens a file of the present folder for reading; a link or a FIFO in its place is refused
    /// without waiting.
    pub fn open_file(&self, name: &CStr) -> Result<File, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        openat(self.folder(), name, flags, Mode::empty()).map(File::from)
    }

    /// Opens a file of the present folder for reading, lending its owner the right for a moment
    /// where the mode denies it.
    pub fn open_own_file(&self, name: &CStr, mode: libc::mode_t) -> Result<File> {
        let mut opened = self.open_file(name);
        if opened.as_ref().is_err_and(|e| *e == Errno::EACCES) {
            let lent = self.change_mode(name, mode | libc::S_IRUSR);
            opened = lent.and_then(|()| self.open_file(name));
            let _ = self.change_mode(name, mode);
        }
        opened.map_err(|e| self.failure(name.to_bytes(), "cannot read the file", e))
    }

    /// Sets the permission bits of a file or folder (never of what a link points at).
    pub fn change_mode(&self, name: &CStr, mode: libc::mode_t) -> Result<(), Errno> {
        let mode = Mode::from_bits_truncate(mode & 0o7777);
        fchmodat(self.folder(), name, mode, FchmodatFlags::FollowSymlink)
    }

    /// Removes a file, link or special file of the present folder.
    pub fn remove_file(&self, name: &CStr) -> Result<()> {
        unlinkat(self.folder(), name, UnlinkatFlags::NoRemoveDir)
            .map_err(|e| self.failure(name.to_bytes(), "cannot remove", e))
    }

    /// Removes an empty folder of the present folder; tells whether it was empty.
    pub fn remove_empty_folder(&self, name: &CStr) -> Result<bool> {
        match unlinkat(self.folder(), name, UnlinkatFlags::RemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(false),
            Err(e) => Err(self.failure(name.to_bytes(), "cannot remove the folder", e)),
        }
    }

    /// Removes whatever stands under a name of the present folder, folders with all they hold.
    pub fn remove_all(&mut self, name: &CStr) -> Result<u64> {
        let stat = self.read_stat(name)?;
        if kind_of(&stat) != Sort::Folder {
            self.remove_file(name)?;
            return Ok(1);
        }
        let mut removed = 0;
        let mut pending = vec![(name.to_owned(), self.enter_to_remove(name, &stat)?)];
        while let Some((folder, names)) = pending.last_mut() {
            let Some(child) = names.pop() else {
                let folder = std::mem::take(folder);
                pending.pop();
                self.leave()?;
                self.remove_empty_folder(&folder)?;
                continue;
            };
            let stat = self.read_stat(&child)?;
            if kind_of(&stat) == Sort::Folder {
                let names = self.enter_to_remove(&child, &stat)?;
                pending.push((child, names));
            } else {
                self.remove_file(&child)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn enter_to_remove(&mut self, name: &CStr, stat: &FileStat) -> Result<Vec<CString>> {
        self.enter_own(name, stat.st_mode)?;
        self.read_names()
    }
}

/// Removes a folder with all it holds, however deep; a folder that is not there is no error.
pub fn remove_tree(folder: &Path) -> Result<()> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(Error::new(Kind::Internal, format!("cannot remove {}", folder.display())));
    };
    if std::fs::symlink_metadata(folder).is_err() {
        return Ok(());
    }
    let name = CString::new(paths::as_bytes(Path::new(name)))
        .map_err(|e| Error::new(Kind::Internal, "a name holds a NUL byte").because(e))?;
    let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
    Descent::open(above)?.remove_all(&name).map(|_| ())
}

fn identity(folder: &OwnedFd) -> Result<(u64, u64), Errno> {
    fstat(folder).map(|stat| (stat.st_dev, stat.st_ino))
}

/// Makes an error that names a path below a folder.
pub fn failure(top: &Path, path: &[u8], what: &str, errno: Errno) -> Error {
    let place = top.join(paths::as_path(path));
    let what = format!("{what} {}", paths::shown(paths::as_bytes(&place)));
    let mut error = Error::io(Kind::WorkspaceInvalid, what, std::io::Error::from(errno));
    if errno == Errno::ENAMETOOLONG {
        error = error.hint("shorten the path");
    }
    error
}
