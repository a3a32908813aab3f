//! Copies a folder with everything in it: times, modes, symlinks, hard links among its own files.
//!
//! Nothing here is fsync'd: what is copied can be made again. What a copy is for is the duty of
//! `layer` and `copies`.

use crate::error::{Error, Kind, Result};
use crate::workspace::paths;
use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// At most this many skipped paths are named.
const SKIPPED_NAMED: usize = 100;

/// What was met on the way, one for each path that was copied.
#[derive(Debug)]
pub struct Met<'a> {
    /// The path below the folder that is copied.
    pub path: &'a Path,
    /// What the source says about it.
    pub metadata: &'a Metadata,
    /// The target of a symlink.
    pub target: Option<&'a Path>,
}

/// What a copy took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// Sum of the sizes of regular files, in bytes.
    pub bytes: u64,
    /// Number of regular files and symlinks.
    pub files: u64,
    /// Paths that hold no bytes to copy (FIFOs, sockets, devices) or may not be read, at most 100.
    pub skipped: Vec<PathBuf>,
}

/// Copies `from` to `to`, which must not exist.
///
/// Bytes are shared copy-on-write where the file system can. Modes, times to the nanosecond and, as
/// root, owners are kept; extended attributes are not. `meet` sees every path, from two threads in
/// no particular order. `stop` is asked now and then; once it says so the copy ends with
/// `interrupted`. What was copied until an error stays for the caller to remove.
pub fn copy_tree(
    from: &Path,
    to: &Path,
    stop: &(dyn Fn() -> bool + Sync),
    meet: &(dyn Fn(&Met<'_>) + Sync),
) -> Result<Taken> {
    let metadata = fs::symlink_metadata(from).map_err(|e| failed("read", from, e))?;
    create_folder(to)?;
    let copying = Copying {
        from,
        to,
        stop,
        meet,
        as_root: nix::unistd::geteuid().is_root(),
        reflinks: AtomicBool::new(true),
        work: Mutex::new(Work { folders: vec![PathBuf::new()], busy: 0, error: None }),
        changed: Condvar::new(),
        links: Mutex::new(HashMap::new()),
        done: Mutex::new((vec![(to.to_owned(), metadata)], Taken::default())),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| copying.work());
        copying.work();
    });
    let work = copying.work.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = work.error {
        return Err(error);
    }
    let (folders, taken) = copying.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Last, for every file that is written moves the time of its folder; modes may forbid writing.
    for (folder, metadata) in folders.iter().rev() {
        if copying.as_root {
            let _ = lchown(folder, Some(metadata.uid()), Some(metadata.gid()));
        }
        let file = File::open(folder).map_err(|e| failed("finish", folder, e))?;
        set_times(&file, metadata).map_err(|e| failed("finish", folder, e))?;
        file.set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))
            .map_err(|e| failed("finish", folder, e))?;
    }
    Ok(taken)
}

/// Creates a folder that only the owner may enter until its mode is set.
pub fn create_folder(path: &Path) -> Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|e| failed("create", path, e))
}

/// Makes an error of a failed copy: where, and `storage_exhausted` when a disk is full.
pub fn failed(verb: &str, path: &Path, source: io::Error) -> Error {
    Error::io(
        Kind::WorkspaceInvalid,
        format!("cannot {verb} {}", paths::shown(paths::as_bytes(path))),
        source,
    )
}

fn set_times(file: &File, metadata: &Metadata) -> io::Result<()> {
    let (accessed, modified) = (metadata.accessed()?, metadata.modified()?);
    file.set_times(fs::FileTimes::new().set_accessed(accessed).set_modified(modified))
}

struct Work {
    folders: Vec<PathBuf>,
    busy: usize,
    error: Option<Error>,
}

struct Copying<'a> {
    from: &'a Path,
    to: &'a Path,
    stop: &'a (dyn Fn() -> bool + Sync),
    meet: &'a (dyn Fn(&Met<'_>) + Sync),
    as_root: bool,
    reflinks: AtomicBool,
    work: Mutex<Work>,
    changed: Condvar,
    links: Mutex<HashMap<(u64, u64), PathBuf>>,
    done: Mutex<(Vec<(PathBuf, Metadata)>, Taken)>,
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Copying<'_> {
    fn work(&self) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let mut work = hold(&self.work);
            let folder = loop {
                if work.error.is_some() {
                    return;
                }
                if let Some(folder) = work.folders.pop() {
                    break folder;
                }
                if work.busy == 0 {
                    return;
                }
                work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
            };
            work.busy += 1;
            drop(work);
            let result = self.copy_folder(&folder, &mut buffer);
            let mut work = hold(&self.work);
            work.busy -= 1;
            if let Err(error) = result {
                work.error.get_or_insert(error);
            }
            self.changed.notify_all();
        }
    }

    fn copy_folder(&self, folder: &Path, buffer: &mut [u8]) -> Result<()> {
        let from = self.from.join(folder);
        let entries = match fs::read_dir(&from) {
            Ok(entries) => entries,
            Err(e) if is_unreadable(&e) => {
                self.skip(folder);
                return Ok(());
            }
            Err(e) => return Err(failed("read", &from, e)),
        };
        let (mut folders, mut taken, mut below) = (Vec::new(), Taken::default(), Vec::new());
        for (index, entry) in entries.enumerate() {
            if index % 64 == 0 && (self.stop)() {
                return Err(stopped());
            }
            let entry = entry.map_err(|e| failed("read", &from, e))?;
            let path = folder.join(entry.file_name());
            let (source, dest) = (self.from.join(&path), self.to.join(&path));
            let metadata = match fs::symlink_metadata(&source) {
                Ok(metadata) => metadata,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(failed("read", &source, e)),
            };
            let kind = metadata.file_type();
            let mut target = None;
            if kind.is_dir() {
                create_folder(&dest)?;
                folders.push((dest, metadata.clone()));
                below.push(path.clone());
            } else if kind.is_symlink() {
                let link = fs::read_link(&source).map_err(|e| failed("read", &source, e))?;
                self.make_link(&link, &dest, &metadata)?;
                target = Some(link);
                taken.files += 1;
            } else if kind.is_file() {
                if !self.copy_file(&source, &dest, &metadata, buffer)? {
                    self.skip(&path);
                    continue;
                }
                taken.files += 1;
                taken.bytes += metadata.size();
            } else {
                self.skip(&path);
                continue;
            }
            (self.meet)(&Met { path: &path, metadata: &metadata, target: target.as_deref() });
        }
        let mut done = hold(&self.done);
        done.0.append(&mut folders);
        done.1.files += taken.files;
        done.1.bytes += taken.bytes;
        drop(done);
        if !below.is_empty() {
            hold(&self.work).folders.append(&mut below);
            self.changed.notify_all();
        }
        Ok(())
    }

    fn skip(&self, path: &Path) {
        let skipped = &mut hold(&self.done).1.skipped;
        if skipped.len() < SKIPPED_NAMED {
            skipped.push(path.to_owned());
        }
    }

    fn make_link(&self, target: &Path, dest: &Path, metadata: &Metadata) -> Result<()> {
        use nix::sys::stat::{UtimensatFlags, utimensat};
        use nix::sys::time::TimeSpec;
        symlink(target, dest).map_err(|e| failed("create", dest, e))?;
        if self.as_root {
            let _ = lchown(dest, Some(metadata.uid()), Some(metadata.gid()));
        }
        let accessed = TimeSpec::new(metadata.atime(), metadata.atime_nsec());
        let modified = TimeSpec::new(metadata.mtime(), metadata.mtime_nsec());
        utimensat(nix::fcntl::AT_FDCWD, dest, &accessed, &modified, UtimensatFlags::NoFollowSymlink)
            .map_err(|e| failed("set the time of", dest, e.into()))
    }

    /// Copies a regular file; says false when it may not be read.
    fn copy_file(
        &self,
        source: &Path,
        dest: &Path,
        metadata: &Metadata,
        buffer: &mut [u8],
    ) -> Result<bool> {
        if metadata.nlink() > 1 {
            // The lock is held until the first copy exists under its name: a second name joins it.
            let mut links = hold(&self.links);
            let inode = (metadata.dev(), metadata.ino());
            if let Some(first) = links.get(&inode)
                && fs::hard_link(first, dest).is_ok()
            {
                return Ok(true);
            }
            let copied = self.copy_bytes(source, dest, metadata, buffer)?;
            if copied {
                links.insert(inode, dest.to_owned());
            }
            return Ok(copied);
        }
        self.copy_bytes(source, dest, metadata, buffer)
    }

    fn copy_bytes(
        &self,
        source: &Path,
        dest: &Path,
        metadata: &Metadata,
        buffer: &mut [u8],
    ) -> Result<bool> {
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(source);
        let mut input = match opened {
            Ok(input) => input,
            Err(e) if is_unreadable(&e) => return Ok(false),
            Err(e) => return Err(failed("read", source, e)),
        };
        let large = metadata.size() > buffer.len() as u64;
        let shared = large
            && self.reflinks.load(Ordering::Relaxed)
            && match reflink_copy::reflink(source, dest) {
                Ok(()) => true,
                Err(_) => {
                    self.reflinks.store(false, Ordering::Relaxed);
                    false
                }
            };
        let output = if shared {
            OpenOptions::new().write(true).open(dest)
        } else {
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(dest)
        };
        let mut output = output.map_err(|e| failed("create", dest, e))?;
        if !shared {
            let sparse = large && metadata.blocks() * 512 < metadata.size();
            let copied = if sparse {
                self.copy_sparse(&mut input, &mut output, metadata.size())
            } else if large {
                self.copy_parts(&mut input, &mut output, u64::MAX)
            } else {
                copy_small(&mut input, &mut output, buffer)
            };
            copied
                .map_err(|e| if (self.stop)() { stopped() } else { failed("copy to", dest, e) })?;
        }
        if self.as_root {
            let _ = fchown(&output, Some(metadata.uid()), Some(metadata.gid()));
        }
        output
            .set_permissions(Permissions::from_mode(metadata.mode() & 0o7777))
            .and_then(|()| set_times(&output, metadata))
            .map_err(|e| failed("finish", dest, e))?;
        Ok(true)
    }

    /// Copies up to `length` bytes, and looks between its parts whether it is to stop.
    fn copy_parts(&self, input: &mut File, output: &mut File, length: u64) -> io::Result<()> {
        const PART: u64 = 16 * 1024 * 1024;
        let mut left = length;
        while left > 0 {
            if (self.stop)() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let part = left.min(PART);
            if io::copy(&mut Read::by_ref(input).take(part), output)? < part {
                break;
            }
            left -= part;
        }
        Ok(())
    }

    /// Copies only the parts that hold data, so that a hole stays one.
    fn copy_sparse(&self, input: &mut File, output: &mut File, size: u64) -> io::Result<()> {
        use nix::unistd::{Whence, lseek};
        output.set_len(size)?;
        let mut at = 0i64;
        loop {
            let start = match lseek(&*input, at, Whence::SeekData) {
                Ok(start) => start,
                Err(nix::errno::Errno::ENXIO) => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            let end = lseek(&*input, start, Whence::SeekHole)?;
            let (from, length) = (start.unsigned_abs(), (end - start).unsigned_abs());
            input.seek(SeekFrom::Start(from))?;
            output.seek(SeekFrom::Start(from))?;
            self.copy_parts(input, output, length)?;
            at = end;
        }
    }
}

fn stopped() -> Error {
    Error::new(Kind::Interrupted, "copying the workspace was interrupted")
}

fn is_unreadable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

fn copy_small(input: &mut File, output: &mut File, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        let count = input.read(buffer)?;
        if count == 0 {
            return Ok(());
        }
        output.write_all(&buffer[..count])?;
        if count < buffer.len() {
            // A short read of a regular file is its end.
            return Ok(());
        }
    }
}
