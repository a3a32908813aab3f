//! Takes up a receipt after a crash: a torn tail is set aside and recorded, any other damage
//! refused.
//!
//! What the events mean for the run that goes on is left to the engine.

use super::blobs::BlobStore;
use super::disk::{Disk, Folder, LogReader};
use super::format::{self, Head};
use super::lock::Lock;
use super::reader::{Break, ChainFacts, Events, RECEIPT, check_chain};
use super::rundir::RunDir;
use super::writer::{Options, Writer};
use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The type of the event that records a torn tail.
pub const RECOVERED: &str = "recovered";

const TORN: &str = "receipt.torn-";

/// A tail that a crash cut, set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torn {
    /// The name of the file it was copied to, beside the receipt.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its sha256 in hexadecimal.
    pub sha256: String,
}

/// A receipt that is whole again.
#[derive(Debug)]
pub struct Recovered {
    /// Appends behind the last whole event.
    pub writer: Writer,
    /// What the chain showed before anything was appended; none when not one event survived.
    pub facts: Option<ChainFacts>,
    /// The tails that were recorded now.
    pub torn: Vec<Torn>,
}

/// Checks the receipt of a run, sets a torn tail aside, and opens it to go on.
///
/// `expected` is an event that must be part of it: the head that the state file knows.
///
/// # Errors
/// `objective_unverified` when any line but a torn last one is damaged or `expected` is missing,
/// `workspace_invalid` when there is no receipt, `storage_exhausted` when the disk is full.
pub fn recover(
    run: &RunDir,
    _lock: &Lock,
    expected: Option<&Head>,
    options: Options,
) -> Result<Recovered> {
    let blobs = BlobStore::new(run.blobs(), options.durability);
    recover_on(Box::new(Folder(run.path().to_owned())), blobs, run.id(), expected, options)
}

pub(super) fn recover_on(
    disk: Box<dyn Disk>,
    blobs: BlobStore,
    run: &str,
    expected: Option<&Head>,
    options: Options,
) -> Result<Recovered> {
    let broken = |e| Error::io(Kind::WorkspaceInvalid, format!("cannot take up the run {run}"), e);
    let full = |e| Error::io(Kind::StorageExhausted, format!("cannot mend the run {run}"), e);
    let mut log = disk.open_log(RECEIPT).map_err(broken)?;

    let mut facts = None;
    let mut recorded = BTreeSet::new();
    let mut holds_expected = expected.is_none();
    let mut events = Events::new(LogReader::new(&*log));
    let checked = check_chain(&mut events, |event| {
        holds_expected |= expected.is_some_and(|head| *head == event.head());
        if let (RECOVERED, Some(Value::String(file))) = (&*event.kind, event.body.get("file")) {
            recorded.insert(file.clone());
        }
        facts = Some(ChainFacts {
            run_id: event.run.clone(),
            events: event.seq + 1,
            head: event.head(),
            ended: event.kind == format::RUN_END,
            bytes: 0,
        });
    });
    let good = events.offset();
    if let Some(facts) = &mut facts {
        facts.bytes = good;
        if facts.run_id != run {
            let what = format!("the receipt of {run} belongs to the run {}", facts.run_id);
            return Err(Error::new(Kind::ObjectiveUnverified, what));
        }
    }
    match checked {
        Ok(_) => {}
        Err(found) if matches!(found.how, Break::Torn | Break::DamagedLast) => {}
        Err(found) => return Err(found.into()),
    }
    if !holds_expected {
        let seq = expected.map_or(0, |head| head.seq);
        let what = format!("the receipt of {run} does not hold the event {seq} the state names");
        return Err(Error::new(Kind::ObjectiveUnverified, what)
            .hint("its end was cut or rewritten; start a new run"));
    }

    let len = log.read_len().map_err(broken)?;
    if len > good {
        let tail = read_tail(&*log, good, len).map_err(broken)?;
        set_aside(&*disk, &tail).map_err(full)?;
        log.truncate(good).map_err(full)?;
        log.sync().map_err(full)?;
    }
    let torn = unrecorded(&*disk, &recorded).map_err(broken)?;
    let head = facts.as_ref().map(|facts| facts.head.clone());
    let mut writer = Writer::resume_on(disk, log, blobs, run, head, options)?;
    for torn in &torn {
        let mut body = Map::new();
        body.insert("file".into(), torn.file.clone().into());
        body.insert("bytes".into(), torn.bytes.into());
        body.insert("sha256".into(), torn.sha256.clone().into());
        writer.append(RECOVERED, body)?;
    }
    Ok(Recovered { writer, facts, torn })
}

fn read_tail(log: &dyn super::disk::Log, from: u64, to: u64) -> std::io::Result<Vec<u8>> {
    let mut tail = Vec::new();
    let mut buffer = [0; 8192];
    // The reader calls a line over the limit altered, so a tail never gets here that is longer.
    while from + (tail.len() as u64) < to && tail.len() <= format::MAX_LINE {
        let read = log.read_at(&mut buffer, from + tail.len() as u64)?;
        if read == 0 {
            break;
        }
        tail.extend_from_slice(&buffer[..read]);
    }
    Ok(tail)
}

/// Keeps the tail, unless a crash in an earlier repair already did.
fn set_aside(disk: &dyn Disk, tail: &[u8]) -> std::io::Result<()> {
    let last = torn_files(disk)?.pop();
    let number = match last {
        Some((_, name)) if disk.read_whole(&name, format::MAX_LINE as u64)? == tail => {
            return Ok(());
        }
        Some((number, _)) => number + 1,
        None => 1,
    };
    disk.write_whole(&format!("{TORN}{number}"), tail)
}

fn unrecorded(disk: &dyn Disk, recorded: &BTreeSet<String>) -> std::io::Result<Vec<Torn>> {
    let files = torn_files(disk)?.into_iter().map(|(_, name)| name);
    files
        .filter(|name| !recorded.contains(name))
        .map(|file| {
            let content = disk.read_whole(&file, format::MAX_LINE as u64)?;
            Ok(Torn { file, bytes: content.len() as u64, sha256: hex::sha256(&content) })
        })
        .collect()
}

/// Lists the tails set aside so far by number.
fn torn_files(disk: &dyn Disk) -> std::io::Result<Vec<(u64, String)>> {
    let numbered = |name: String| {
        let number = name.strip_prefix(TORN)?.parse().ok()?;
        (name == format!("{TORN}{number}")).then_some((number, name))
    };
    let mut files: Vec<_> = disk.names()?.into_iter().filter_map(numbered).collect();
    files.sort();
    Ok(files)
}
