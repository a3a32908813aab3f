//! Reads `go test`: its JSON stream (`-json`), and its text with and without `-v`.
//!
//! Formats: `go doc test2json`; the text as of Go 1.15 to 1.25. A package's lines stand together
//! and end with `ok`, `FAIL` or `?` and the package's name.

use super::Out;
use super::lines::each_line;
use super::tally::{
    Detail, MAX_FAILURES, MAX_ID_BYTES, MAX_IDS, MAX_MESSAGE, Outcome, Tally, bound,
};
use crate::domain::results::{Results, Runner};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The most bytes of a test's name.
const MAX_NAME: usize = 1024;
/// Stands for a package that names none of its tests.
const WHOLE: &str = "(package)";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default, alias = "ImportPath")]
    package: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

/// A streaming reader of `go test`.
#[derive(Debug)]
pub(super) struct Go {
    // By package and test; `None` where a test began and has not ended.
    tests: BTreeMap<(String, String), Option<Outcome>>,
    messages: BTreeMap<(String, String), String>,
    bytes: usize,
    cut: bool,
    // Build errors stand on the other stream than the tests.
    texts: [Text; 2],
    at: usize,
    broken: Vec<String>,
    seen: bool,
    roots: Vec<String>,
}

/// What the text of one stream said about the package whose name stands in its last line.
#[derive(Debug, Default)]
struct Text {
    open: Vec<(String, Option<Outcome>)>,
    began: BTreeSet<String>,
    current: String,
    said: BTreeMap<String, String>,
    build: Option<String>,
}

impl Go {
    /// Starts a reader.
    pub(super) fn new(roots: &[String]) -> Self {
        Self {
            tests: BTreeMap::new(),
            messages: BTreeMap::new(),
            bytes: 0,
            cut: false,
            texts: [Text::default(), Text::default()],
            at: 0,
            broken: Vec::new(),
            seen: false,
            roots: roots.to_vec(),
        }
    }

    /// Takes one line of a stream.
    pub(super) fn line(&mut self, out: Out, line: &str) {
        self.at = usize::from(out == Out::Stderr);
        if line.starts_with("{\"")
            && let Ok(event) = serde_json::from_str::<Event>(line)
        {
            self.event(&event);
        } else {
            self.text(line);
        }
    }

    /// Tells whether anything of `go test` was seen.
    pub(super) fn is_seen(&self) -> bool {
        self.seen
    }

    fn event(&mut self, event: &Event) {
        let outcome = match event.action.as_str() {
            "run" => None,
            "pass" | "bench" => Some(Outcome::Passed),
            "fail" => Some(Outcome::Failed),
            "skip" => Some(Outcome::Skipped),
            "output" | "build-output" => {
                self.output(event);
                return;
            }
            "build-fail" => {
                self.seen = true;
                self.fail_build(&event.package);
                return;
            }
            _ => return,
        };
        if event.package.is_empty() {
            return;
        }
        self.seen = true;
        let key = (event.package.clone(), event.test.clone());
        if !event.test.is_empty() {
            self.record(key, outcome);
        } else if outcome == Some(Outcome::Failed) {
            self.fail_package(&event.package);
        }
    }

    fn output(&mut self, event: &Event) {
        if event.action == "build-output" || event.output.contains("[build failed]") {
            self.text(event.output.trim_end_matches('\n'));
            return;
        }
        let key = (event.package.clone(), event.test.clone());
        self.say(key, &event.output);
    }

    fn say(&mut self, key: (String, String), text: &str) {
        if self.messages.len() >= 4 * MAX_FAILURES && !self.messages.contains_key(&key) {
            return;
        }
        let message = self.messages.entry(key).or_default();
        if message.len() + text.len() < MAX_MESSAGE {
            message.push_str(text);
        }
    }

    fn record(&mut self, key: (String, String), outcome: Option<Outcome>) {
        if outcome != Some(Outcome::Failed) && outcome.is_some() {
            self.messages.remove(&key);
        }
        if !self.tests.contains_key(&key) {
            self.bytes += key.0.len() + key.1.len();
            if self.tests.len() >= MAX_IDS || self.bytes > MAX_ID_BYTES {
                self.cut = true;
                return;
            }
        }
        self.tests.insert(key, outcome);
    }

    fn text(&mut self, line: &str) {
        let line = line.strip_prefix('\u{16}').unwrap_or(line);
        if let Some(name) = line.strip_prefix("=== RUN ") {
            self.seen = true;
            self.texts[self.at].build = None;
            self.texts[self.at].current = bound(name.trim(), MAX_NAME);
            let name = self.texts[self.at].current.clone();
            self.begin(name, None);
        } else if let Some(name) =
            line.strip_prefix("=== CONT ").or_else(|| line.strip_prefix("=== NAME "))
        {
            self.texts[self.at].current = bound(name.trim(), MAX_NAME);
        } else if let Some((outcome, name)) = result(line) {
            self.ended(outcome, &bound(name, MAX_NAME));
        } else if let Some((word, package)) = package_line(line) {
            self.package(word, package, line);
        } else if let Some(package) = line.strip_prefix("# ") {
            self.texts[self.at].build =
                Some(package.split(' ').next().unwrap_or(package).to_owned());
        } else if let Some(package) = self.texts[self.at].build.clone() {
            self.say((package, String::new()), &format!("{line}\n"));
        } else if !self.texts[self.at].current.is_empty()
            && self.texts[self.at].said.len() < 4 * MAX_FAILURES
        {
            let said =
                self.texts[self.at].said.entry(self.texts[self.at].current.clone()).or_default();
            if said.len() + line.len() < MAX_MESSAGE {
                said.push_str(line);
                said.push('\n');
            }
        }
    }

    fn begin(&mut self, name: String, outcome: Option<Outcome>) {
        let room =
            self.texts[self.at].open.len() < MAX_IDS && self.bytes + name.len() <= MAX_ID_BYTES;
        self.cut |= !room;
        if room && self.texts[self.at].began.insert(name.clone()) {
            self.bytes += name.len();
            self.texts[self.at].open.push((name, outcome));
        }
    }

    fn ended(&mut self, outcome: Outcome, name: &str) {
        self.seen = true;
        if outcome != Outcome::Failed {
            self.texts[self.at].said.remove(name);
        }
        if !self.texts[self.at].began.contains(name) {
            self.begin(name.to_owned(), Some(outcome));
            // Without `-v` the messages follow the line.
            name.clone_into(&mut self.texts[self.at].current);
        } else if let Some(test) =
            self.texts[self.at].open.iter_mut().rev().find(|(known, _)| known == name)
        {
            test.1 = Some(outcome);
            // A panic's text follows the line.
            name.clone_into(&mut self.texts[self.at].current);
        }
    }

    fn package(&mut self, word: &str, package: &str, line: &str) {
        self.seen = true;
        self.texts[self.at].build = None;
        if word == "ok" && self.texts[self.at].open.is_empty() && !line.contains("[no test") {
            self.record((package.to_owned(), WHOLE.to_owned()), Some(Outcome::Passed));
        }
        for (test, outcome) in std::mem::take(&mut self.texts[self.at].open) {
            self.bytes = self.bytes.saturating_sub(test.len());
            let key = (package.to_owned(), test.clone());
            if let Some(said) = self.texts[self.at].said.remove(&test)
                && outcome != Some(Outcome::Passed)
                && outcome != Some(Outcome::Skipped)
            {
                self.say(key.clone(), &said);
            }
            self.record(key, outcome);
        }
        self.texts[self.at].began.clear();
        self.texts[self.at].said.clear();
        self.texts[self.at].current.clear();
        if line.ends_with("[build failed]") || line.ends_with("[setup failed]") {
            self.fail_build(package);
        } else if word == "FAIL" {
            self.fail_package(package);
        }
    }

    fn fail_build(&mut self, package: &str) {
        let package = package.split(' ').next().unwrap_or(package);
        if self.broken.len() < 32 && !self.broken.iter().any(|known| known == package) {
            self.broken.push(package.to_owned());
        }
    }

    /// Names the package as failed where none of its tests is: `TestMain`, an exit, a panic.
    fn fail_package(&mut self, package: &str) {
        let named = self
            .tests
            .iter()
            .any(|((of, _), outcome)| of == package && *outcome == Some(Outcome::Failed));
        if !named && !self.broken.iter().any(|known| known == package) {
            let key = (package.to_owned(), WHOLE.to_owned());
            if let Some(said) = self.messages.remove(&(package.to_owned(), String::new())) {
                self.say(key.clone(), &said);
            }
            self.record(key, Some(Outcome::Failed));
        }
    }

    /// Returns what was read.
    pub(super) fn finish(mut self) -> Results {
        for at in 0..self.texts.len() {
            self.at = at;
            if !self.texts[at].open.is_empty() {
                self.package("", "", "");
            }
        }
        let mut tally = Tally::new(Runner::Go, &self.roots);
        if self.cut {
            tally.unread();
        }
        for ((package, test), outcome) in &self.tests {
            let id = if package.is_empty() { test.clone() } else { format!("{package}.{test}") };
            match outcome {
                None => tally.collect(&id),
                Some(outcome) => {
                    let message = self.messages.get(&(package.clone(), test.clone()));
                    let detail = (*outcome == Outcome::Failed)
                        .then(|| detail(message.map(String::as_str).unwrap_or_default()));
                    tally.result(&id, *outcome, detail);
                }
            }
        }
        if !self.broken.is_empty() {
            let mut text = String::new();
            for package in &self.broken {
                text.push_str(&format!("{package} does not build\n"));
                let key = (package.clone(), String::new());
                text.push_str(self.messages.get(&key).map(String::as_str).unwrap_or_default());
            }
            tally.broken(&text);
        }
        tally.finish()
    }
}

/// Makes a message without the lines that every test has, and finds `file_test.go:3:`.
fn detail(message: &str) -> Detail {
    let lines: Vec<&str> = message
        .lines()
        .filter(|line| !line.starts_with("=== ") && result(line).is_none())
        .collect();
    let place = lines.iter().find_map(|line| {
        let mut parts = line.trim().splitn(3, ':');
        let (file, row) = (parts.next()?, parts.next()?);
        (file.ends_with(".go") && !file.contains(' ')).then_some(())?;
        Some((file.to_owned(), row.parse().ok()?))
    });
    let (file, line) = place.map_or((None, None), |(f, l)| (Some(f), Some(l)));
    Detail { message: lines.join("\n"), file, line, ..Detail::default() }
}

/// Returns outcome and name of `--- PASS: TestA/b (0.00s)`.
fn result(line: &str) -> Option<(Outcome, &str)> {
    let text = line.trim_start().strip_prefix("--- ")?;
    let (word, rest) = text.split_once(": ")?;
    let outcome = match word {
        "PASS" | "BENCH" => Outcome::Passed,
        "FAIL" => Outcome::Failed,
        "SKIP" => Outcome::Skipped,
        _ => return None,
    };
    let (name, time) = rest.rsplit_once(" (")?;
    time.ends_with("s)").then_some((outcome, name))
}

/// Returns the word and the package of a package's last line.
fn package_line(line: &str) -> Option<(&str, &str)> {
    let (word, rest) = line.split_once('\t')?;
    let word = word.trim_end();
    if !matches!(word, "ok" | "FAIL" | "?" | "---") {
        return None;
    }
    // A time or a note in brackets always follows.
    if !rest.contains('\t') && !rest.ends_with(']') {
        return None;
    }
    let package = rest.split(['\t', ' ']).next()?;
    (!package.is_empty()).then_some((word, package))
}

/// Reads one text.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut reader = Go::new(roots);
    each_line(bytes, &mut |line| reader.line(Out::Stdout, line));
    reader.finish()
}
