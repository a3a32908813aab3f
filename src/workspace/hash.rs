//! Files become objects: a few threads read, hash and, where it is wanted, write.
//!
//! Which files are to be read is decided by `walk`.

use crate::error::{Error, Kind, Result};
use crate::workspace::gitcmd::interrupted;
use crate::workspace::store::failure;
use crate::workspace::{Stop, paths};
use git2::{ObjectType, Odb, Oid};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock};

/// Larger files are streamed, so that memory stays bounded.
const STREAMED: u64 = 8 << 20;
/// Files that may be open and waiting.
const WAITING: usize = 64;

/// Whether objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hashing {
    /// They go into the store where they are missing.
    Store,
    /// Their ids are enough.
    Only,
}

impl Hashing {
    /// Returns an object's id, after writing it where that is wanted.
    pub(super) fn object(
        self,
        odb: &Odb<'_>,
        kind: ObjectType,
        bytes: &[u8],
        store: &Path,
    ) -> Result<Oid> {
        let done = match self {
            Self::Store => odb.write(kind, bytes),
            Self::Only => Oid::hash_object(kind, bytes),
        };
        done.map_err(|source| failure(store, "cannot write into the snapshot store", source))
    }
}

/// Where a file's id belongs: the folder's place and the entry's in it.
pub(super) type Slot = (usize, usize);

struct Job {
    slot: Slot,
    file: File,
    path: Vec<u8>,
}

/// Takes files to hash.
pub(super) struct Hasher<'a> {
    odb: &'a Odb<'a>,
    hashing: Hashing,
    store: &'a Path,
    jobs: SyncSender<Job>,
    /// Starts one more thread where there is work for it: a tree that did not change needs none.
    start: &'a dyn Fn(),
}

impl Hasher<'_> {
    /// Runs `feed` with hashing threads beside it; returns the ids of all the files it sent. Once
    /// `stop` says so it fails with `interrupted`, in the middle of a large file too.
    pub(super) fn scope(
        odb: &Odb<'_>,
        hashing: Hashing,
        store: &Path,
        stop: Stop<'_>,
        feed: impl FnOnce(&Hasher<'_>) -> Result<()>,
    ) -> Result<Vec<(Slot, Oid)>> {
        let threads = threads();
        let (jobs, queue) = sync_channel(WAITING);
        let queue = Mutex::new(queue);
        std::thread::scope(|scope| {
            let workers = RefCell::new(Vec::new());
            let start = || {
                let mut workers = workers.borrow_mut();
                if workers.len() < threads {
                    workers.push(scope.spawn(|| work(&queue, odb, hashing, store, stop)));
                }
            };
            // The sender goes with the hasher at the end of this statement, which ends the workers.
            let fed = feed(&Hasher { odb, hashing, store, jobs, start: &start });
            let mut ids = Vec::new();
            let mut failed = Ok(());
            for worker in workers.take() {
                match worker.join() {
                    Ok(Ok(done)) => ids.extend(done),
                    Ok(Err(error)) => failed = failed.and(Err(error)),
                    Err(_) => failed = failed.and(Err(gone())),
                }
            }
            fed.and(failed).map(|()| ids)
        })
    }

    /// Sends a file to be hashed.
    pub(super) fn send(&self, slot: Slot, file: File, path: Vec<u8>) -> Result<()> {
        (self.start)();
        self.jobs.send(Job { slot, file, path }).map_err(|_| gone())
    }

    /// Hashes bytes at once.
    pub(super) fn hash_bytes(&self, kind: ObjectType, bytes: &[u8]) -> Result<Oid> {
        self.hashing.object(self.odb, kind, bytes, self.store)
    }
}

/// Returns how many threads hash at the most.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 4))
}

fn work(
    queue: &Mutex<Receiver<Job>>,
    odb: &Odb<'_>,
    hashing: Hashing,
    store: &Path,
    stop: Stop<'_>,
) -> Result<Vec<(Slot, Oid)>> {
    let mut ids = Vec::new();
    let mut failed = Ok(());
    let mut buffer = Vec::new();
    loop {
        let job = match queue.lock() {
            Ok(queue) => queue.recv(),
            Err(_) => return Err(gone()),
        };
        let Ok(mut job) = job else { break };
        // After a failure the queue is still emptied: the walk must not wait for ever.
        if failed.is_ok() {
            match hash_file(&mut job, &mut buffer, odb, hashing, store, stop) {
                Ok(id) => ids.push((job.slot, id)),
                Err(error) => failed = Err(error),
            }
        }
    }
    failed.map(|()| ids)
}

fn hash_file(
    job: &mut Job,
    buffer: &mut Vec<u8>,
    odb: &Odb<'_>,
    hashing: Hashing,
    store: &Path,
    stop: Stop<'_>,
) -> Result<Oid> {
    if stop() {
        return Err(interrupted());
    }
    let unreadable = |source| {
        let what = format!("cannot read the file {}", paths::shown(&job.path));
        Error::io(Kind::WorkspaceInvalid, what, source)
    };
    let size = job.file.metadata().map_err(unreadable)?.len();
    if size <= STREAMED {
        buffer.clear();
        let limit = STREAMED * 2;
        (&job.file).take(limit).read_to_end(buffer).map_err(unreadable)?;
        return hashing.object(odb, ObjectType::Blob, buffer, store);
    }
    let bytes = usize::try_from(size).map_err(|_| changed(&job.path))?;
    let failed = |source| failure(store, "cannot write into the snapshot store", source);
    let mut writer = odb.writer(bytes, ObjectType::Blob).map_err(failed)?;
    buffer.resize(1 << 20, 0);
    let mut left = size;
    while left > 0 {
        if stop() {
            return Err(interrupted());
        }
        let length = (&job.file).read(buffer).map_err(unreadable)?;
        let part = u64::try_from(length).unwrap_or(left);
        if length == 0 || part > left {
            return Err(changed(&job.path));
        }
        writer.write_all(&buffer[..length]).map_err(|source| {
            Error::io(Kind::WorkspaceInvalid, "cannot write into the snapshot store", source)
        })?;
        left -= part;
    }
    writer.finalize().map_err(failed)
}

fn changed(path: &[u8]) -> Error {
    let what = format!("{} changed while it was read", paths::shown(path));
    Error::new(Kind::WorkspaceInvalid, what).hint("nothing may write to the tree between two steps")
}

fn gone() -> Error {
    Error::new(Kind::Internal, "a hashing thread ended early")
}
