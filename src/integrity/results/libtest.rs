//! Reads the text of `cargo test`: cargo's headings and libtest's blocks.
//!
//! Headings stand on standard error, blocks on standard output; both are told apart by order.
//! Format: the human output of libtest and cargo as of Rust 1.50 to 1.95; it has no specification.

use super::libtest_block::Block;
use super::lines::each_line;
use super::tally::{Detail, Outcome, Tally, bound};
use super::{Out, rustc};
use crate::domain::results::{Results, Runner, WHOLE};
use std::collections::BTreeSet;

/// The most headings that are kept.
const MAX_HEADINGS: usize = 10_000;

/// A streaming reader of `cargo test`.
#[derive(Debug)]
pub(super) struct Libtest {
    headings: Vec<String>,
    failed: BTreeSet<usize>,
    blocks: Vec<(usize, Block)>,
    current: Option<(usize, Out, Block)>,
    rustc: rustc::Errors,
    kept: usize,
    died: Option<String>,
    roots: Vec<String>,
}

impl Libtest {
    /// Starts a reader.
    pub(super) fn new(roots: &[String]) -> Self {
        Self {
            headings: Vec::new(),
            failed: BTreeSet::new(),
            blocks: Vec::new(),
            current: None,
            rustc: rustc::Errors::default(),
            kept: 0,
            died: None,
            roots: roots.to_vec(),
        }
    }

    /// Takes one line of a stream.
    pub(super) fn line(&mut self, out: Out, line: &str) {
        if let Some(heading) = heading(line) {
            // On its own stream a heading may be read before the end of the block before it.
            if self.current.as_ref().is_some_and(|(_, stream, _)| *stream == out) {
                self.close();
            }
            if self.headings.len() < MAX_HEADINGS {
                self.headings.push(bound(&heading, 256));
            }
            return;
        }
        if let Some(count) = running(line) {
            self.close();
            if self.blocks.len() < MAX_HEADINGS {
                self.current = Some((self.headings.len(), out, Block::new(count)));
            }
            return;
        }
        if let Some((_, stream, block)) = &mut self.current
            && *stream == out
        {
            block.line(line, &mut self.kept);
            if block.is_finished() {
                self.close();
            }
            // In one stream with cargo's talk the block may have been left by its process.
            if !is_cargo(line) {
                return;
            }
        }
        if line.starts_with("error: test failed") || line.starts_with("error: doctest failed") {
            self.failed.insert(self.headings.len());
        }
        if line.trim_start().starts_with("process didn't exit successfully") {
            self.died.get_or_insert_with(|| bound(line.trim(), 1024));
        }
        self.rustc.line(line);
    }

    fn close(&mut self) {
        if let Some((seen, _, block)) = self.current.take() {
            self.blocks.push((seen, block));
        }
    }

    /// Tells whether anything of `cargo test` was seen.
    pub(super) fn is_seen(&self) -> bool {
        !self.blocks.is_empty()
            || self.current.is_some()
            || !self.headings.is_empty()
            || self.rustc.is_fatal()
    }

    /// Returns what was read.
    ///
    /// `own` names the targets with a harness of their own; it is asked only where it matters.
    pub(super) fn finish(mut self, own: &dyn Fn() -> BTreeSet<String>) -> Results {
        self.close();
        let mut tally = Tally::new(Runner::Cargo, &self.roots);
        let places = self.places(own);
        let blocks = std::mem::take(&mut self.blocks);
        let mut with_block = BTreeSet::new();
        for ((_, block), at) in blocks.into_iter().zip(places) {
            with_block.insert(at);
            let label = self.headings.get(at).map(String::as_str).unwrap_or_default();
            file(&mut tally, label, block, self.died.as_deref());
        }
        // A binary with a harness of its own (`harness = false`) is one test.
        for (at, label) in self.headings.iter().enumerate() {
            if !with_block.contains(&at) {
                let failed = self.failed.contains(&(at + 1));
                let outcome = if failed { Outcome::Failed } else { Outcome::Passed };
                let message = self.died.clone().filter(|_| failed).unwrap_or_default();
                let detail = Detail { message, ..Detail::default() };
                tally.result(&format!("{label}::(binary)"), outcome, Some(detail));
            }
        }
        if let Some(message) = self.rustc.message() {
            tally.broken(&message);
        }
        tally.finish()
    }

    /// Returns for each block the index of its heading.
    fn places(&self, own: &dyn Fn() -> BTreeSet<String>) -> Vec<usize> {
        let (blocks, headings) = (self.blocks.len(), self.headings.len());
        if blocks == headings {
            return (0..blocks).collect();
        }
        let own = own();
        let standard: Vec<usize> = (0..headings)
            .filter(|at| {
                let label = self.headings[*at].as_str();
                label.split('[').next().is_none_or(|name| label == name || !own.contains(name))
            })
            .collect();
        if blocks == standard.len() {
            return standard;
        }
        let mut places = Vec::with_capacity(blocks);
        let mut next = 0;
        for (nth, (seen, _)) in self.blocks.iter().enumerate() {
            // What is left is the order of arrival: the latest heading seen, but never one too
            // late for the rest.
            let latest = headings.saturating_sub(blocks - nth);
            let at = seen.saturating_sub(1).clamp(next, latest.max(next));
            next = at + 1;
            places.push(at);
        }
        places
    }
}

/// Writes a block into the ledger under the name of its binary.
fn file(tally: &mut Tally, label: &str, block: Block, died: Option<&str>) {
    let name = |test: &str| {
        if label.is_empty() { test.to_owned() } else { format!("{label}::{test}") }
    };
    let shown = if label.is_empty() { "a test binary" } else { label };
    let (said, named) = (block.counts(), block.named());
    if block.cut {
        tally.unread();
    }
    for (test, outcome) in &block.results {
        let detail = (*outcome == Outcome::Failed).then(|| block.detail(test));
        tally.result(&name(&doctest(test)), *outcome, detail);
    }
    match said {
        None => {
            tally.incomplete(format_args!(
                "the process of {shown} left before all {} tests had a result.",
                block.announced
            ));
            let message = died.unwrap_or("The test process left before its last result.");
            let detail = Detail { message: message.to_owned(), ..Detail::default() };
            tally.result(&name("(process)"), Outcome::Failed, Some(detail));
        }
        // With `-q` passing tests have no names: the block as a whole stands for them.
        Some(counts) if block.is_quiet() => {
            if counts.failed == 0 {
                tally.result(&name(WHOLE), Outcome::Passed, None);
            } else {
                tally.collect(&name(WHOLE));
            }
            if counts.failed != named.failed {
                tally.problem(format!(
                    "{shown} counts {} failed tests and names {}.",
                    counts.failed, named.failed
                ));
            }
        }
        Some(counts) if counts != named => tally.problem(format!(
            "{shown} counts {} passed, {} failed, {} ignored; its lines say {}, {}, {}.",
            counts.passed, counts.failed, counts.skipped, named.passed, named.failed, named.skipped
        )),
        Some(_) => {}
    }
}

/// Removes the line number of a doctest, which moves with unrelated edits.
fn doctest(name: &str) -> String {
    let Some(at) = name.find(" (line ") else { return name.to_owned() };
    let Some(end) = name[at..].find(')') else { return name.to_owned() };
    format!("{}{}", &name[..at], &name[at + end + 1..])
}

/// Returns the label of a binary from cargo's heading.
fn heading(line: &str) -> Option<String> {
    let text = line.trim_start();
    if let Some(name) = text.strip_prefix("Doc-tests ") {
        return (line.len() > text.len()).then(|| format!("{}[doc]", name.trim()));
    }
    let rest = text.strip_prefix("Running ")?;
    if line.len() == text.len() {
        return None;
    }
    let (source, binary) = match rest.rsplit_once(" (") {
        Some((source, binary)) => (source, binary.strip_suffix(')')?),
        None => ("", rest.split_whitespace().next()?.trim_matches('`')),
    };
    let file = binary.rsplit(['/', '\\']).next()?;
    let file = file.strip_suffix(".exe").unwrap_or(file);
    let name = match file.rsplit_once('-') {
        Some((name, hash)) if hash.len() == 16 => name,
        _ => file,
    };
    let kind = match source.strip_prefix("unittests ") {
        Some(path) if path.ends_with("lib.rs") || path.is_empty() => "",
        Some(_) => "[bin]",
        None if source.is_empty() => "",
        None => "[test]",
    };
    Some(format!("{name}{kind}"))
}

/// Returns how many tests a block announces.
fn running(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("running ")?;
    rest.strip_suffix(" tests").or_else(|| rest.strip_suffix(" test"))?.parse().ok()
}

/// Tells whether a line is cargo's or rustc's own.
fn is_cargo(line: &str) -> bool {
    let text = line.trim_start();
    ["error", "Caused by:", "process didn't", "Compiling ", "Finished ", "warning", "Running "]
        .iter()
        .any(|start| text.starts_with(start))
}

/// Reads one text in which both streams stand in order.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut reader = Libtest::new(roots);
    each_line(bytes, &mut |line| reader.line(Out::Stdout, line));
    reader.finish(&BTreeSet::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_give_target_and_kind() {
        let of = |line: &str| heading(line).unwrap_or_default();
        assert_eq!(
            of("     Running unittests src/lib.rs (target/debug/deps/shop-507999230d6984fa)"),
            "shop"
        );
        assert_eq!(
            of("     Running unittests src/main.rs (target/debug/deps/shop-507999230d6984fa)"),
            "shop[bin]"
        );
        assert_eq!(
            of("     Running tests/it-x.rs (target/debug/deps/it_x-507999230d6984fa)"),
            "it_x[test]"
        );
        assert_eq!(of("     Running target/debug/deps/shop-507999230d6984fa"), "shop");
        assert_eq!(of("   Doc-tests shop"), "shop[doc]");
        assert_eq!(heading("Running late"), None);
    }
}
