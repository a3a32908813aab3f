//! Reads a receipt line by line in constant memory and checks that each line follows the last.
//!
//! What one line must look like is `format`'s; mending a torn tail is left to `recover`, judging
//! what the events say to `verify`.

use super::disk;
use super::format::{self, Event, Flaw, Head};
use crate::error::{Error, Kind, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The name of the receipt in the folder of a run.
pub const RECEIPT: &str = "receipt.jsonl";

/// In which way a receipt is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// The last line has no newline, or there is no line: a cut, not a change.
    Torn,
    /// The last line is whole and its sum does not fit.
    DamagedLast,
    /// A line is changed, missing, doubled or out of place.
    Altered,
    /// The file cannot be read on.
    Unreadable,
}

/// Where and how a receipt stops being one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// In which way.
    pub how: Break,
    /// The line, from 1.
    pub line: u64,
    /// How many bytes of whole, chained lines stand before it.
    pub offset: u64,
    /// What is wrong with it, as a clause.
    pub why: String,
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        let what = format!("line {} of the receipt: {}", broken.line, broken.why);
        match broken.how {
            Break::Torn => Error::new(Kind::WorkspaceInvalid, what)
                .detail("incomplete")
                .hint("a crash cuts a receipt so; loopexec run --resume takes it up"),
            Break::DamagedLast | Break::Altered => Error::new(Kind::ObjectiveUnverified, what)
                .hint("compare it with the copy your CI kept; nothing after this line counts"),
            Break::Unreadable => Error::new(Kind::WorkspaceInvalid, what),
        }
    }
}

/// What a whole chain shows without judging what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainFacts {
    /// The run it belongs to.
    pub run_id: String,
    /// How many events it has.
    pub events: u64,
    /// Its last event.
    pub head: Head,
    /// Whether the last event ends the run; if not, the receipt is incomplete.
    pub ended: bool,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The events of a receipt, in order, up to the first line that breaks the chain.
#[derive(Debug)]
pub struct Events<R> {
    input: BufReader<R>,
    buffer: Vec<u8>,
    lines: u64,
    offset: u64,
    last: Option<Event>,
    over: bool,
}

impl<R: Read> Events<R> {
    /// Reads from the first byte of a receipt.
    pub fn new(input: R) -> Self {
        let input = BufReader::with_capacity(32 * 1024, input);
        Self { input, buffer: Vec::new(), lines: 0, offset: 0, last: None, over: false }
    }

    /// Returns how many bytes of whole, chained lines were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn read_event(&mut self) -> Result<Option<Event>, Broken> {
        self.buffer.clear();
        let mut limited = (&mut self.input).take(format::MAX_LINE as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.buffer);
        read.map_err(|e| self.broken(Break::Unreadable, format!("cannot be read: {e}")))?;
        if self.buffer.is_empty() {
            return match self.last {
                Some(_) => Ok(None),
                None => Err(self.broken(Break::Torn, "there is no event".into())),
            };
        }
        if self.buffer.len() > format::MAX_LINE {
            let why = format!("it is longer than {} bytes", format::MAX_LINE);
            return Err(self.broken(Break::Altered, why));
        }
        if self.buffer.last() != Some(&b'\n') {
            let how = if self.holds_two_lines() { Break::Altered } else { Break::Torn };
            return Err(self.broken(how, "it was cut before its end".into()));
        }
        let event = match format::decode(&self.buffer) {
            Ok(event) => event,
            Err(Flaw::Foreign(why)) => return Err(self.broken(Break::Altered, why)),
            Err(Flaw::Damaged(why)) => {
                let followed = self.input.fill_buf().is_ok_and(|rest| !rest.is_empty());
                let altered = followed || self.holds_two_lines();
                let how = if altered { Break::Altered } else { Break::DamagedLast };
                return Err(self.broken(how, why));
            }
        };
        self.check_place(&event).map_err(|why| self.broken(Break::Altered, why))?;
        self.lines += 1;
        self.offset += self.buffer.len() as u64;
        Ok(Some(event))
    }

    fn check_place(&self, event: &Event) -> Result<(), String> {
        if event.seq != self.lines {
            return Err(format!("its seq is {} where {} follows", event.seq, self.lines));
        }
        let (run, prev) = match &self.last {
            None => (event.run.clone(), format::genesis(&event.run)),
            Some(last) => (last.run.clone(), last.sha256.clone()),
        };
        if event.run != run {
            return Err(format!("it belongs to the run {}, not to {run}", event.run));
        }
        if event.prev != prev {
            return Err("its prev is not the sha256 of the line before".into());
        }
        Ok(())
    }

    /// Tells whether the newline between two lines was changed, which no torn write does.
    fn holds_two_lines(&self) -> bool {
        const START: &[u8] = br#"{"v":1,"seq":"#;
        let mut windows = self.buffer.windows(START.len() + 3);
        windows.any(|window| window.starts_with(b"\"}") && window.ends_with(START))
    }

    fn broken(&self, how: Break, why: String) -> Broken {
        Broken { how, line: self.lines + 1, offset: self.offset, why }
    }
}

impl<R: Read> Iterator for Events<R> {
    type Item = Result<Event, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = self.read_event().transpose();
        match &item {
            // The body may be large and only the place of the event matters for the next.
            Some(Ok(event)) => {
                self.last = Some(Event { body: serde_json::Map::new(), ..event.clone() });
            }
            _ => self.over = true,
        }
        item
    }
}

/// Opens a receipt, given as its file or the folder it stands in.
///
/// # Errors
/// `workspace_invalid` when there is none.
pub fn read(path: &Path) -> Result<Events<File>> {
    Ok(Events::new(open(path)?))
}

/// Reads a receipt to its end and checks the chain.
///
/// # Errors
/// The first line that breaks it; a file that cannot be opened is line 0.
pub fn verify_chain(path: &Path) -> Result<ChainFacts, Broken> {
    let file = open(path).map_err(|e| Broken {
        how: Break::Unreadable,
        line: 0,
        offset: 0,
        why: e.to_string(),
    })?;
    check_chain(&mut Events::new(file), |_| {})
}

/// Reads events to their end, shows each to `visit`, and returns what the chain shows.
///
/// # Errors
/// The first line that breaks the chain.
pub fn check_chain<R: Read>(
    events: &mut Events<R>,
    mut visit: impl FnMut(&Event),
) -> Result<ChainFacts, Broken> {
    let mut facts = None;
    while let Some(event) = events.next() {
        let event = event?;
        visit(&event);
        facts = Some(ChainFacts {
            head: event.head(),
            ended: event.kind == format::RUN_END,
            events: event.seq + 1,
            bytes: events.offset(),
            run_id: event.run,
        });
    }
    facts.ok_or_else(|| events.broken(Break::Torn, "there is no event".into()))
}

/// Returns the file of a receipt given as its file or the folder it stands in.
pub fn receipt_path(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(RECEIPT) } else { path.to_owned() }
}

fn open(path: &Path) -> Result<File> {
    let path = receipt_path(path);
    // A link to a receipt is the reader's choice; a FIFO would wait for ever.
    let target = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let opened = disk::options().read(true).open(target).and_then(disk::require_regular);
    opened.map_err(|e| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot read the receipt {}", path.display()), e)
            .hint("name a receipt.jsonl or the folder of a run")
    })
}
