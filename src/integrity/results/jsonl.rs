//! Reads the JSON lines that our own plugins and hooks write (`assets/`).
//!
//! One object a line. `k` says which: `start` (runner, cwd), `collect` (id), `result` (id or file
//! and path, o, m, f, l, a), `broken` (m), `problem` (m), `end` (rc). A file without `end` is that of
//! a process that left before its runner had finished.

use super::lines::Lines;
use super::tally::{Detail, Outcome, Tally, relative};
use crate::domain::results::{Results, Runner};
use serde::Deserialize;
use std::io::Read;

/// The longest record; the hooks cut names and messages far below it.
const MAX_RECORD: usize = 256 << 10;

#[derive(Deserialize)]
struct Line {
    k: String,
    #[serde(default)]
    runner: Option<Runner>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    path: Vec<String>,
    #[serde(default)]
    o: Option<String>,
    #[serde(default)]
    m: Option<String>,
    #[serde(default)]
    f: Option<String>,
    #[serde(default)]
    l: Option<u32>,
    #[serde(default)]
    a: Option<u32>,
}

/// A reader of one or several files of the same runner, in the order in which they were begun.
#[derive(Debug)]
pub(super) struct Jsonl {
    tally: Tally,
    ended: Ended,
    unread: usize,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Ended {
    Yes,
    No,
}

impl Jsonl {
    /// Starts a reader for a runner.
    pub(super) fn new(runner: Runner, roots: &[String]) -> Self {
        Self { tally: Tally::new(runner, roots), ended: Ended::No, unread: 0 }
    }

    /// Reads one file to its end; a read error ends it early.
    pub(super) fn read(&mut self, mut source: impl Read) {
        self.ended = Ended::No;
        let mut lines = Lines::with_limit(MAX_RECORD);
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = source.read(&mut buffer) {
            lines.push(&buffer[..count], &mut |line| self.line(line));
        }
        lines.finish(&mut |line| self.line(line));
        if self.ended == Ended::No {
            self.tally.incomplete("the runner's process left before the runner had finished.");
        }
        if self.unread > 0 {
            self.tally.problem("A results file holds lines that are not results.");
            self.unread = 0;
        }
    }

    /// Returns what all files said.
    pub(super) fn finish(self) -> Results {
        self.tally.finish()
    }

    fn line(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            self.unread += 1;
            return;
        };
        match line.k.as_str() {
            "start" => {
                if let Some(cwd) = &line.cwd {
                    self.tally.add_root(cwd);
                }
            }
            "collect" => {
                if let Some(id) = self.id(&line) {
                    self.tally.collect(&id);
                }
            }
            "result" => self.result(&line),
            "broken" => self.tally.broken(line.m.as_deref().unwrap_or("The collection failed.")),
            "problem" => self.tally.problem(line.m.unwrap_or_default()),
            "end" => self.ended = Ended::Yes,
            _ => self.unread += 1,
        }
    }

    fn result(&mut self, line: &Line) {
        let outcome = match line.o.as_deref() {
            Some("passed") => Outcome::Passed,
            Some("failed") => Outcome::Failed,
            Some("skipped") => Outcome::Skipped,
            _ => {
                self.unread += 1;
                return;
            }
        };
        let Some(id) = self.id(line) else { return };
        let detail = Detail {
            message: line.m.clone().unwrap_or_default(),
            file: line.f.clone(),
            line: line.l.filter(|n| *n > 0),
            executed: line.a,
        };
        self.tally.result(&id, outcome, Some(detail));
    }

    /// Returns the id as written, or `file > name > sub` from a file and a path of names.
    fn id(&self, line: &Line) -> Option<String> {
        if let Some(id) = &line.id {
            return Some(id.clone());
        }
        let file = line.f.as_deref()?;
        let mut id = relative(file, self.tally.roots());
        for name in &line.path {
            id.push_str(" > ");
            id.push_str(name);
        }
        Some(id)
    }
}

/// Reads one file; the runner is the one that its first line names.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Option<Results> {
    let mut reader = Jsonl::new(runner_of(bytes)?, roots);
    reader.read(bytes);
    Some(reader.finish())
}

/// Returns the runner that the first line of a file names.
pub(super) fn runner_of(bytes: &[u8]) -> Option<Runner> {
    let first = bytes.split(|b| *b == b'\n').next()?;
    let line: Line = serde_json::from_slice(first).ok()?;
    if line.k == "start" { line.runner } else { None }
}
