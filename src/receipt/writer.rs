//! Appends events: one write and one sync each, with room kept for the event that ends the run.
//!
//! A full disk stops a run before it stops its last event. Taking up a receipt after a crash is
//! left to `recover`, what the events say to the engine.

use super::blobs::{self, BlobStore};
use super::disk::{Disk, Durability, Folder, Log};
use super::format::{self, Head, Header};
use super::lock::Lock;
use super::reader::RECEIPT;
use super::redact::Redactor;
use super::rundir::RunDir;
use crate::error::{Error, Kind, Result};
use serde_json::{Map, Value, json};
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// How far ahead of the end space is taken from the disk, in bytes.
pub const RESERVE: u64 = 64 * 1024;

/// The largest own part of the final event, in bytes.
pub const FINAL_BODY: usize = 8 * 1024;

/// What no event but the final one may use of the reserve, in bytes.
const FINAL_ROOM: u64 = 12 * 1024;

/// The header and the sum of a line are shorter than this, in bytes.
const HEADER_ROOM: usize = 512;

/// The file that holds space where it cannot be taken ahead of the end.
const RESERVE_FILE: &str = "reserve";

/// How a writer works.
#[derive(Clone)]
pub struct Options {
    /// When an append has to survive a power cut.
    pub durability: Durability,
    /// What is taken out of every event and blob.
    pub redactor: Option<Arc<Redactor>>,
    /// What tells the time.
    pub clock: fn() -> SystemTime,
}

impl Default for Options {
    fn default() -> Self {
        Self { durability: Durability::Event, redactor: None, clock: SystemTime::now }
    }
}

/// How the room for the final event is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spare {
    /// Taken ahead of the end, up to this offset.
    Ahead(u64),
    /// In a file of its own.
    File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Open,
    Ended,
    /// A sync or a repair failed, or the file is gone: nothing is known about what survives.
    Poisoned,
}

/// The one writer of a receipt.
pub struct Writer {
    /// Why nothing is written any more.
    first_failure: Option<(Kind, String)>,
    disk: Box<dyn Disk>,
    log: Box<dyn Log>,
    blobs: BlobStore,
    options: Options,
    run: String,
    head: Option<Head>,
    len: u64,
    spare: Spare,
    condition: Condition,
}

impl Writer {
    /// Creates the receipt of a new run; the lock shows that nobody else writes in this tree.
    ///
    /// # Errors
    /// `workspace_invalid` when there is one already, `storage_exhausted` when there is no room
    /// for the final event.
    pub fn create(run: &RunDir, _lock: &Lock, options: Options) -> Result<Self> {
        let blobs = BlobStore::new(run.blobs(), options.durability);
        Self::create_on(Box::new(Folder(run.path().to_owned())), blobs, run.id(), options)
    }

    pub(super) fn create_on(
        disk: Box<dyn Disk>,
        blobs: BlobStore,
        run: &str,
        options: Options,
    ) -> Result<Self> {
        let log = disk.create_log(RECEIPT).map_err(|e| {
            Error::io(Kind::WorkspaceInvalid, format!("cannot create the receipt of {run}"), e)
                .hint("choose another run id, or none")
        })?;
        Self::resume_on(disk, log, blobs, run, None, options)
    }

    /// Goes on behind `head`, which is the last of a log that was checked.
    pub(super) fn resume_on(
        disk: Box<dyn Disk>,
        log: Box<dyn Log>,
        blobs: BlobStore,
        run: &str,
        head: Option<Head>,
        options: Options,
    ) -> Result<Self> {
        let len = log.read_len().map_err(|e| failed("measure", run, e))?;
        let run = run.to_owned();
        let (spare, condition) = (Spare::Ahead(len), Condition::Open);
        let first_failure = None;
        let mut writer =
            Self { first_failure, disk, log, blobs, options, run, head, len, spare, condition };
        writer.reserve_room()?;
        Ok(writer)
    }

    /// Returns the last event that was appended.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Returns the run id.
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Writes bytes without secrets as a blob, and returns its name, `sha256:…`.
    ///
    /// # Errors
    /// `storage_exhausted` when the disk is full or fails.
    pub fn write_blob(&mut self, bytes: &[u8]) -> Result<String> {
        match &self.options.redactor {
            Some(redactor) => self.blobs.write(&redactor.redact(bytes)),
            None => self.blobs.write(bytes),
        }
    }

    /// Appends an event; when it returns, the event survives what the durability promises.
    ///
    /// # Errors
    /// `storage_exhausted` when the disk is full (the receipt is as before) or fails (nothing is
    /// written from then on); `internal_error` for an event the format does not allow.
    pub fn append(&mut self, kind: &str, body: Map<String, Value>) -> Result<Head> {
        if kind == format::RUN_END {
            return Err(defect("a run is ended with append_final".into()));
        }
        self.require_open()?;
        let mut body = Value::Object(body);
        self.clean(&mut body)?;
        blobs::externalize(&mut body, &mut self.blobs, format::TARGET_LINE - HEADER_ROOM)?;
        let Value::Object(body) = body else {
            return Err(defect("an event became a value".into()));
        };
        let line = self.encode(kind, &body)?;
        self.make_room(line.len() as u64)?;
        self.write_line(&line)?;
        if self.options.durability == Durability::Event {
            self.sync()?;
        }
        Ok(self.advance(&line))
    }

    /// Appends the event that ends the run into the room kept for it, and syncs.
    ///
    /// What is over [`FINAL_BODY`] gives way, the largest value first: `{"omitted": bytes}`.
    ///
    /// # Errors
    /// As `append`; a full disk is none.
    pub fn append_final(&mut self, body: Map<String, Value>) -> Result<Head> {
        self.require_open()?;
        let mut body = Value::Object(body);
        self.clean(&mut body)?;
        let Value::Object(mut body) = body else {
            return Err(defect("an event became a value".into()));
        };
        shorten(&mut body);
        let line = self.encode(format::RUN_END, &body)?;
        if self.spare == Spare::File {
            self.disk.remove(RESERVE_FILE).map_err(|e| failed("free room in", &self.run, e))?;
        }
        self.write_line(&line)?;
        self.sync()?;
        self.condition = Condition::Ended;
        // Gives the rest of the reserve back; without it the file only takes more than it shows.
        let _ = self.log.truncate(self.len + line.len() as u64);
        Ok(self.advance(&line))
    }

    /// Makes all that was appended survive a power cut.
    ///
    /// # Errors
    /// `storage_exhausted`; the writer refuses all further work then.
    pub fn sync(&mut self) -> Result<()> {
        if self.condition == Condition::Poisoned {
            return self.require_open();
        }
        let blobs = self.blobs.sync();
        let synced = self.log.sync().map_err(|e| failed("make durable", &self.run, e));
        blobs.and(synced).map_err(|error| self.poison(error))
    }

    /// Refuses all further work, for this reason.
    fn poison(&mut self, error: Error) -> Error {
        self.condition = Condition::Poisoned;
        self.first_failure.get_or_insert_with(|| (error.kind, error.what.clone()));
        error
    }

    fn require_open(&self) -> Result<()> {
        match self.condition {
            Condition::Open => Ok(()),
            Condition::Ended => Err(defect("the run has its final event".into())),
            Condition::Poisoned => {
                let (kind, what) = self.first_failure.clone().unwrap_or_else(|| {
                    (
                        Kind::StorageExhausted,
                        format!("the receipt of {} cannot be written", self.run),
                    )
                });
                Err(Error::new(kind, format!("{what}; no more is written")))
            }
        }
    }

    /// Takes secrets out, and refuses what could be taken for a value in a blob.
    fn clean(&self, body: &mut Value) -> Result<()> {
        if let Some(redactor) = &self.options.redactor {
            redactor.redact_value(body);
        }
        if has_reference(body) {
            return Err(defect("an event holds an object of the keys blob, bytes, count".into()));
        }
        Ok(())
    }

    fn encode(&self, kind: &str, body: &Map<String, Value>) -> Result<Vec<u8>> {
        let genesis;
        let (seq, prev) = match &self.head {
            Some(head) => (head.seq + 1, &head.sha256),
            None => {
                genesis = format::genesis(&self.run);
                (0, &genesis)
            }
        };
        let time = (self.options.clock)();
        let header = Header { seq, prev, run: &self.run, time, kind };
        format::encode(header, body).map_err(|why| defect(format!("the event {kind}: {why}")))
    }

    fn advance(&mut self, line: &[u8]) -> Head {
        let seq = self.head.as_ref().map_or(0, |head| head.seq + 1);
        let head = Head { seq, sha256: crate::domain::hex::sha256(line) };
        self.len += line.len() as u64;
        self.head = Some(head.clone());
        head
    }

    /// Keeps the final event possible after a line of this length, or refuses the line.
    fn make_room(&mut self, line: u64) -> Result<()> {
        let Spare::Ahead(until) = self.spare else { return Ok(()) };
        if until >= self.len + line + RESERVE {
            return Ok(());
        }
        let wanted = self.len + line + 2 * RESERVE;
        match self.log.reserve(until, wanted) {
            Ok(()) => self.spare = Spare::Ahead(wanted),
            Err(_) if until >= self.len + line + FINAL_ROOM => {}
            Err(e) => return Err(failed("keep room in", &self.run, e)),
        }
        Ok(())
    }

    /// Takes the room for the final event, ahead of the end where the file system can.
    fn reserve_room(&mut self) -> Result<()> {
        match self.log.reserve(self.len, self.len + RESERVE) {
            Ok(()) => self.spare = Spare::Ahead(self.len + RESERVE),
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {
                let room = incompressible(RESERVE);
                let kept = self.disk.write_whole(RESERVE_FILE, &room);
                kept.map_err(|e| failed("keep room beside", &self.run, e))?;
                self.spare = Spare::File;
            }
            Err(e) => return Err(failed("keep room in", &self.run, e)),
        }
        Ok(())
    }

    /// Writes a whole line or leaves the file as it was.
    fn write_line(&mut self, line: &[u8]) -> Result<()> {
        if !self.log.is_in_place() {
            let what = format!("the receipt of {} was removed or replaced under the run", self.run);
            let error = Error::new(Kind::WorkspaceInvalid, what)
                .hint("something outside loopexec writes in .loopexec; start a new run");
            return Err(self.poison(error));
        }
        let mut rest = line;
        let error = loop {
            if rest.is_empty() {
                return Ok(());
            }
            match self.log.append(rest) {
                Ok(0) => break io::ErrorKind::WriteZero.into(),
                Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => break e,
            }
        };
        let error = failed("append to", &self.run, error);
        if rest.len() < line.len() {
            if self.log.truncate(self.len).is_err() {
                return Err(self.poison(error));
            }
            if let Spare::Ahead(_) = self.spare {
                // Cutting gave the reserve away; on a disk this full it may not come back.
                self.spare = Spare::Ahead(self.len);
                let _ = self.reserve_room();
            }
        }
        Err(error)
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("run", &self.run)
            .field("head", &self.head)
            .field("condition", &self.condition)
            .finish_non_exhaustive()
    }
}

/// Replaces the largest values until the rest fits into the final event.
fn shorten(body: &mut Map<String, Value>) {
    while body.iter().map(|(k, v)| 6 * k.len() + 4 + blobs::json_len(v)).sum::<usize>() > FINAL_BODY
    {
        let sized = body.values_mut().map(|value| (blobs::json_len(value), value));
        match sized.max_by_key(|(len, _)| *len) {
            Some((len, value)) if len > 32 => *value = json!({"omitted": len}),
            // Only an event of very many or very long keys comes here.
            _ => match body.keys().next_back().cloned() {
                Some(key) => drop(body.shift_remove(&key)),
                None => return,
            },
        }
    }
}

fn has_reference(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(map) => blobs::is_reference(map) || map.values().any(has_reference),
        _ => false,
    }
}

/// Makes bytes that a compressing file system cannot store in less.
fn incompressible(len: u64) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes
}

fn failed(doing: &str, run: &str, source: io::Error) -> Error {
    Error::io(Kind::StorageExhausted, format!("cannot {doing} the receipt of {run}"), source)
        .hint("free space on the disk that holds .loopexec, then loopexec run --resume")
}

fn defect(what: String) -> Error {
    Error::new(Kind::Internal, what)
}
