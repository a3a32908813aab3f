//! Fills new files beside the walk that makes them: bytes, mode and times, in a thread or two.
//!
//! Which files there are and where they stand is the duty of `make`.

use crate::error::{Error, Kind, Result};
use crate::workspace::gitcmd::interrupted;
use crate::workspace::make::{accessed, modified, permissions};
use crate::workspace::{Stop, paths};
use nix::sys::stat::{FileStat, fchmod, futimens};
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Files that may be open and waiting; each takes two descriptors.
const WAITING: usize = 32;
/// Files up to this size are read and written at once.
const SMALL: usize = 64 * 1024;
/// Bytes of a larger file between two looks at whether the run was told to stop.
const PART: u64 = 16 << 20;

/// A file to fill.
pub(super) struct Filling {
    /// The caller's file.
    pub(super) source: File,
    /// The new and empty one.
    pub(super) target: File,
    /// The caller's mode and times.
    pub(super) stat: FileStat,
    /// Where it stands, for messages.
    pub(super) path: Vec<u8>,
}

/// Takes files to fill.
pub(super) struct Filler<'a> {
    jobs: SyncSender<Filling>,
    failed: &'a AtomicBool,
}

impl Filler<'_> {
    /// Sends a file to be filled; an error says that an earlier one could not be.
    pub(super) fn send(&self, file: Filling) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(gone());
        }
        self.jobs.send(file).map_err(|_| gone())
    }
}

/// Runs `feed` with filling threads beside it, and returns once every file it sent is filled; fails
/// with `interrupted` once `stop` says so.
pub(super) fn scope<T>(stop: Stop<'_>, feed: impl FnOnce(&Filler<'_>) -> Result<T>) -> Result<T> {
    // The walk itself keeps one processor busy with opening and creating.
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = all.saturating_sub(1).clamp(1, 2);
    let (jobs, queue) = sync_channel(WAITING);
    let queue = Mutex::new(queue);
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| work(&queue, &failed, stop))).collect();
        // The sender goes with the filler at the end of this statement, which ends the workers.
        let fed = feed(&Filler { jobs, failed: &failed });
        let mut filled = Ok(());
        for worker in workers {
            filled = filled.and(worker.join().unwrap_or_else(|_| Err(gone())));
        }
        // A file that could not be filled is why the walk stopped, not the other way round.
        filled.and(fed)
    })
}

fn work(queue: &Mutex<Receiver<Filling>>, failed: &AtomicBool, stop: Stop<'_>) -> Result<()> {
    let mut buffer = vec![0; SMALL];
    let mut done = Ok(());
    loop {
        let file = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return Err(gone()),
        };
        let Ok(mut file) = file else { return done };
        // After a failure the queue is still emptied: the walk must not wait for ever.
        if done.is_ok() && !failed.load(Ordering::Relaxed) {
            done = fill(&mut file, &mut buffer, stop);
            if done.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Copies bytes, mode and times; the kernel shares the extents of large files where it can.
fn fill(file: &mut Filling, buffer: &mut [u8], stop: Stop<'_>) -> Result<()> {
    let path = || paths::shown(&file.path);
    let small = usize::try_from(file.stat.st_size).is_ok_and(|size| size < buffer.len());
    let copied = if small {
        copy_small(&mut file.source, &mut file.target, buffer)
    } else {
        loop {
            if stop() {
                return Err(interrupted());
            }
            match io::copy(&mut Read::by_ref(&mut file.source).take(PART), &mut file.target) {
                Ok(PART) => {}
                other => break other.map(|_| ()),
            }
        }
    };
    copied.map_err(|e| Error::io(Kind::WorkspaceInvalid, format!("cannot copy {}", path()), e))?;
    let (mode, stat) = (permissions(&file.stat), &file.stat);
    fchmod(&file.target, mode)
        .and_then(|()| futimens(&file.target, &accessed(stat), &modified(stat)))
        .map_err(|e| {
            let what = format!("cannot set mode and times of {}", path());
            Error::io(Kind::WorkspaceInvalid, what, e.into())
        })
}

fn copy_small(source: &mut File, target: &mut File, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        match source.read(buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => target.write_all(&buffer[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn gone() -> Error {
    Error::new(Kind::Internal, "a copying thread ended early")
}
