//! A disk for tests: full at a byte, short in its writes, failing at a sync, gone at an operation.

use super::disk::{Disk, Log};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a file system does about space ahead of the end of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    Supported,
    Unsupported,
}

#[derive(Debug, Clone, Default)]
pub(super) struct SimFile {
    /// What survives a power cut for certain.
    pub(super) synced: Vec<u8>,
    /// What a reader sees.
    pub(super) current: Vec<u8>,
    reserved: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) files: BTreeMap<String, SimFile>,
    pub(super) capacity: u64,
    pub(super) largest_write: usize,
    /// Which sync of a log, counted from now, fails.
    pub(super) failing_sync: Option<u32>,
    /// After how many more operations that change something the power goes.
    pub(super) operations_left: u32,
    ahead: Ahead,
}

impl State {
    fn free(&self) -> u64 {
        let used = self.files.values().map(|f| f.reserved.max(f.current.len() as u64)).sum::<u64>();
        self.capacity.saturating_sub(used)
    }

    fn operate(&mut self) -> io::Result<()> {
        let left = self.operations_left.checked_sub(1);
        self.operations_left = left.ok_or_else(|| io::Error::other("the power is gone"))?;
        Ok(())
    }

    fn file(&mut self, name: &str) -> io::Result<&mut SimFile> {
        self.files.get_mut(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// One folder on the simulated disk; a clone is the same disk.
#[derive(Debug, Clone)]
pub(super) struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    pub(super) fn new(ahead: Ahead) -> Self {
        Self(Arc::new(Mutex::new(State {
            files: BTreeMap::new(),
            capacity: u64::MAX,
            largest_write: usize::MAX,
            failing_sync: None,
            operations_left: u32::MAX,
            ahead,
        })))
    }

    /// Makes a disk that holds one file, after a power cut.
    pub(super) fn holding(name: &str, content: &[u8]) -> Self {
        let disk = Self::new(Ahead::Supported);
        let file = SimFile { synced: content.to_vec(), current: content.to_vec(), reserved: 0 };
        disk.state().files.insert(name.to_owned(), file);
        disk
    }

    /// Copies what is there after a power cut that kept all that was written.
    pub(super) fn after_power_cut(&self) -> Self {
        let disk = Self::new(self.state().ahead);
        disk.state().files = self.state().files.clone();
        disk
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn current(&self, name: &str) -> Vec<u8> {
        self.state().files[name].current.clone()
    }
}

impl Disk for SimDisk {
    fn create_log(&self, name: &str) -> io::Result<Box<dyn Log>> {
        let mut state = self.state();
        state.operate()?;
        if state.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.insert(name.to_owned(), SimFile::default());
        Ok(Box::new(SimLog(self.clone(), name.to_owned())))
    }

    fn open_log(&self, name: &str) -> io::Result<Box<dyn Log>> {
        self.state().file(name)?;
        Ok(Box::new(SimLog(self.clone(), name.to_owned())))
    }

    fn write_whole(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        if state.free() < bytes.len() as u64 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = SimFile { synced: bytes.to_vec(), current: bytes.to_vec(), reserved: 0 };
        state.files.insert(name.to_owned(), file);
        Ok(())
    }

    fn read_whole(&self, name: &str, _cap: u64) -> io::Result<Vec<u8>> {
        Ok(self.state().file(name)?.current.clone())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.state().files.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.operate()?;
        state.files.remove(name);
        Ok(())
    }
}

struct SimLog(SimDisk, String);

impl Log for SimLog {
    fn read_len(&self) -> io::Result<u64> {
        Ok(self.0.state().file(&self.1)?.current.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.0.state();
        let content = &state.file(&self.1)?.current;
        let rest = content.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        state.operate()?;
        let (free, largest) = (state.free(), state.largest_write);
        let file = state.file(&self.1)?;
        let own = file.reserved.saturating_sub(file.current.len() as u64);
        let room = usize::try_from(free.saturating_add(own)).unwrap_or(usize::MAX);
        let taken = bytes.len().min(largest).min(room);
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.current.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.0.state();
        state.operate()?;
        let file = state.file(&self.1)?;
        file.current.truncate(usize::try_from(len).unwrap());
        file.reserved = 0;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.0.state();
        state.operate()?;
        match &mut state.failing_sync {
            // The kernel reports a failed write-back once; a second sync would lie.
            Some(0) => {
                state.failing_sync = None;
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let file = state.file(&self.1)?;
        file.synced = file.current.clone();
        Ok(())
    }

    fn is_in_place(&self) -> bool {
        self.0.state().files.contains_key(&self.1)
    }

    fn reserve(&mut self, _from: u64, to: u64) -> io::Result<()> {
        let mut state = self.0.state();
        if state.ahead == Ahead::Unsupported {
            return Err(io::ErrorKind::Unsupported.into());
        }
        state.operate()?;
        let free = state.free();
        let file = state.file(&self.1)?;
        let held = file.reserved.max(file.current.len() as u64);
        if to.saturating_sub(held) > free {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.reserved = file.reserved.max(to);
        Ok(())
    }
}
