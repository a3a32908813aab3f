//! The few file operations everything durable goes through, as two traits and the real disk.
//!
//! The traits are the seam at which tests put a disk that is full, slow to admit it, or loses
//! power (`sim`). Which operation comes when is decided in `writer` and `recover`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How soon an append has to survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before it returns.
    #[default]
    Event,
    /// When the writer is told to sync, once an iteration.
    Iteration,
}

/// A file that grows at its end.
pub trait Log: Send {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// When the system cannot tell.
    fn read_len(&self) -> io::Result<u64>;
    /// Reads at an offset; 0 at the end.
    ///
    /// # Errors
    /// As the system reports.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Appends with one system call and returns how many bytes were taken.
    ///
    /// # Errors
    /// As the system reports; nothing was taken then.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Cuts the file to a length; space reserved beyond it may be lost.
    ///
    /// # Errors
    /// As the system reports.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// Makes what was appended survive a power cut.
    ///
    /// # Errors
    /// After which nothing is known about what survives.
    fn sync(&mut self) -> io::Result<()>;
    /// Takes space from the disk for the bytes from `from` up to `to` without growing the file.
    ///
    /// # Errors
    /// `Unsupported` where the file system has no such thing.
    fn reserve(&mut self, from: u64, to: u64) -> io::Result<()>;
    /// Tells whether the name still leads to this file, and not to none or another.
    fn is_in_place(&self) -> bool;
}

/// The folder of one run; names have no separator.
pub trait Disk: Send {
    /// Creates a log that must not exist, durably.
    ///
    /// # Errors
    /// `AlreadyExists`, or as the system reports.
    fn create_log(&self, name: &str) -> io::Result<Box<dyn Log>>;
    /// Opens a log that must exist; never through a symbolic link.
    ///
    /// # Errors
    /// `NotFound`, or as the system reports.
    fn open_log(&self, name: &str) -> io::Result<Box<dyn Log>>;
    /// Writes a file whole and durably, or leaves what was there.
    ///
    /// # Errors
    /// As the system reports.
    fn write_whole(&self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// Reads a file of at most `cap` bytes.
    ///
    /// # Errors
    /// When it is longer, or as the system reports.
    fn read_whole(&self, name: &str, cap: u64) -> io::Result<Vec<u8>>;
    /// Lists the names in the folder.
    ///
    /// # Errors
    /// As the system reports.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// As the system reports.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A folder on the real disk.
#[derive(Debug, Clone)]
pub struct Folder(pub PathBuf);

impl Disk for Folder {
    fn create_log(&self, name: &str) -> io::Result<Box<dyn Log>> {
        let file = options().read(true).append(true).create_new(true).open(self.0.join(name))?;
        sync_dir(&self.0)?;
        Ok(Box::new(RealLog { file, path: self.0.join(name) }))
    }

    fn open_log(&self, name: &str) -> io::Result<Box<dyn Log>> {
        let file = options().read(true).append(true).open(self.0.join(name))?;
        Ok(Box::new(RealLog { file: require_regular(file)?, path: self.0.join(name) }))
    }

    fn write_whole(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.0.join(format!(".{name}.tmp"));
        write_whole(&temporary, &self.0.join(name), bytes, Durability::Event)
    }

    fn read_whole(&self, name: &str, cap: u64) -> io::Result<Vec<u8>> {
        read_whole(&self.0.join(name), cap)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.0)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.0.join(name)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

struct RealLog {
    file: File,
    path: PathBuf,
}

impl Log for RealLog {
    fn read_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn reserve(&mut self, from: u64, to: u64) -> io::Result<()> {
        use nix::fcntl::{FallocateFlags, fallocate};
        let signed = |n: u64| i64::try_from(n).map_err(|_| io::ErrorKind::FileTooLarge);
        let (from, len) = (signed(from)?, signed(to.saturating_sub(from))?);
        fallocate(&self.file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, len).map_err(|e| match e {
            nix::Error::EOPNOTSUPP | nix::Error::ENOSYS => io::ErrorKind::Unsupported.into(),
            other => other.into(),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn reserve(&mut self, _from: u64, _to: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }
}

/// Reads a log from its start.
pub struct LogReader<'a> {
    log: &'a dyn Log,
    offset: u64,
}

impl<'a> LogReader<'a> {
    /// Starts at the first byte.
    pub fn new(log: &'a dyn Log) -> Self {
        Self { log, offset: 0 }
    }
}

impl Read for LogReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.log.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// Returns options that follow no link at the last name and block on no FIFO.
pub(super) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o644).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    options
}

/// Tells whether a path names this very file, not through a link.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(held), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (held.dev(), held.ino()) == (there.dev(), there.ino())
}

/// Refuses anything but a regular file.
pub(super) fn require_regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Reads a regular file of at most `cap` bytes, not through a link.
pub(super) fn read_whole(path: &Path, cap: u64) -> io::Result<Vec<u8>> {
    let file = require_regular(options().read(true).open(path)?)?;
    let mut bytes = Vec::new();
    file.take(cap.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > cap {
        return Err(io::Error::other(format!("it has more than {cap} bytes")));
    }
    Ok(bytes)
}

/// Writes a temporary file and renames it into place; a failure leaves what was there.
pub(super) fn write_whole(
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> io::Result<()> {
    replace_whole(temporary, path, bytes, durability)?;
    match (durability, path.parent()) {
        (Durability::Event, Some(parent)) => sync_dir(parent),
        _ => Ok(()),
    }
}

/// Does the same without a sync of the folder: a power cut may bring back what was there, whole.
pub(super) fn replace_whole(
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> io::Result<()> {
    // Only a crash leaves one behind, and the lock says that its writer is gone.
    match std::fs::remove_file(temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let written = (|| {
        let mut file = options().write(true).create_new(true).open(temporary)?;
        file.write_all(bytes)?;
        if durability == Durability::Event {
            file.sync_all()?;
        }
        std::fs::rename(temporary, path)
    })();
    if let Err(error) = written {
        // The first failure is the one to report.
        let _ = std::fs::remove_file(temporary);
        return Err(error);
    }
    Ok(())
}

/// Makes the names in a folder survive a power cut.
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // Some network file systems cannot sync a folder, and keep its names anyway.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP)) => Ok(()),
        other => other,
    }
}
