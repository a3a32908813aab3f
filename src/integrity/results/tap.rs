//! Reads a TAP stream: versions 12, 13 and 14 with subtests.
//!
//! Format: <https://testanything.org/tap-version-14-specification.html>. A subtest is indented by
//! four spaces and stands before the test point that sums it up. The lines that `prove` puts between
//! the streams of its files are read by `prove`.

use super::lines::each_line;
use super::prove::{Comments, banner, is_sum, is_verdict};
use super::tally::{
    Detail, INCOMPLETE, MAX_FAILURES, MAX_ID_BYTES, MAX_IDS, MAX_MESSAGE, Outcome, Tally, bound,
};
use super::tap_line::{directive, is_point, is_version, number, place, plan};
use crate::domain::results::{Results, Runner};

/// The deepest subtest that is read as such.
const MAX_DEPTH: usize = 16;
/// The most streams of one output.
const MAX_STREAMS: usize = 1_000;

/// What makes a text a TAP stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// The caller says that it is one.
    Declared,
    /// Only a stream that begins as one.
    Recognised,
}

/// What happens to streams that node's own reporter wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Echo {
    /// They are results like any other.
    Keep,
    /// They repeat what is known from elsewhere.
    Drop,
}

/// One finished stream.
#[derive(Debug, Default)]
struct Stream {
    // The file that `prove` named before the stream.
    file: Option<String>,
    points: Vec<Point>,
    problems: Vec<String>,
    // Node writes `# Subtest: name` before a point and `# cancelled N` at the end.
    subtests: bool,
    cancelled: bool,
}

#[derive(Debug)]
struct Point {
    path: Vec<String>,
    // Its number stands for its name.
    unnamed: bool,
    outcome: Outcome,
    message: String,
}

#[derive(Debug, Default)]
struct Level {
    points: Vec<Point>,
    seen: u64,
    plan: Option<u64>,
    begun: bool,
}

/// A streaming reader of TAP.
#[derive(Debug)]
pub(super) struct Tap {
    want: Want,
    state: State,
    levels: Vec<Level>,
    stream: Stream,
    done: Vec<Stream>,
    yaml: Option<usize>,
    bytes: usize,
    count: usize,
    cut: bool,
    messages: usize,
    bail: Option<String>,
    comments: Comments,
    proved: bool,
    roots: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Undecided,
    Tap,
    Not,
}

impl Tap {
    /// Starts a reader.
    pub(super) fn new(want: Want, roots: &[String]) -> Self {
        Self {
            want,
            state: State::Undecided,
            levels: vec![Level::default()],
            stream: Stream::default(),
            done: Vec::new(),
            yaml: None,
            bytes: 0,
            count: 0,
            cut: false,
            messages: 0,
            bail: None,
            comments: Comments::default(),
            proved: false,
            roots: roots.to_vec(),
        }
    }

    /// Tells whether the text is a TAP stream.
    pub(super) fn is_seen(&self) -> bool {
        self.state == State::Tap
    }

    /// Tells whether `prove` summed up test files.
    pub(super) fn is_proved(&self) -> bool {
        self.proved
    }

    /// Takes one line of stderr, where tests say why they failed unless `prove` merges it.
    pub(super) fn comment(&mut self, line: &str) {
        self.comments.line(line);
    }

    /// Takes one line.
    pub(super) fn line(&mut self, line: &str) {
        if let Some(found) = banner(line) {
            // Only a file that `prove` began has an end that it says; any other stream goes on.
            if found.rest.is_empty() || self.stream.file.is_some() {
                self.end_file();
            }
            if found.rest.is_empty() {
                self.state = State::Tap;
                self.stream.file = Some(bound(found.file, 256));
            }
            return;
        }
        if is_sum(line) {
            self.proved = true;
            if self.stream.file.is_some() {
                self.end_file();
            }
            return;
        }
        if self.state == State::Not && !line.starts_with("TAP version ") {
            return;
        }
        let text = line.trim_start_matches(' ');
        let indent = line.len() - text.len();
        if let Some(at) = self.yaml {
            if text.trim_end() == "..." && indent <= at {
                self.yaml = None;
                return;
            }
            if !(indent < at && is_point(text)) {
                self.diagnose(text, at / 4);
                return;
            }
            self.yaml = None;
        }
        if self.state != State::Tap && !self.decide(text, indent) {
            return;
        }
        if text.trim_end() == "---" && indent % 4 == 2 {
            self.yaml = Some(indent);
            return;
        }
        let depth = indent / 4;
        if !indent.is_multiple_of(4) || depth > MAX_DEPTH {
            return;
        }
        if indent == 0 && is_version(text) {
            self.end_stream();
        } else if text.starts_with("# Subtest: ") {
            self.stream.subtests = true;
        } else if text.starts_with("# cancelled ") {
            self.stream.cancelled = true;
        } else if text.starts_with("# Looks like you ") {
            // Test::More counts at the end of a file; no word about the last point.
        } else if let Some(comment) = text.strip_prefix("# ") {
            self.diagnose(comment, depth);
        } else if let Some(rest) = text.strip_prefix("Bail out!") {
            self.bail.get_or_insert_with(|| format!("Bail out! {}", bound(rest.trim(), 1024)));
        } else if let Some(plan) = plan(text) {
            let level = self.level(depth);
            level.plan.get_or_insert(plan);
            level.begun = true;
        } else if is_point(text) && !(depth == 0 && is_verdict(text) && self.is_fulfilled()) {
            self.point(text, depth);
        }
    }

    /// Decides by the first lines whether this is TAP.
    fn decide(&mut self, text: &str, indent: usize) -> bool {
        if indent == 0 && is_version(text) {
            self.state = State::Tap;
            return false;
        }
        let begins =
            indent == 0 && (plan(text).is_some() || (is_point(text) && number(text).0 == Some(1)));
        if begins || self.want == Want::Declared && is_point(text) {
            self.state = State::Tap;
            return true;
        }
        // Comments, blank lines and the banner of npm or make may stand before a stream.
        let banner = text.is_empty() || text.starts_with(['#', '>']) || text.starts_with("make");
        if self.want == Want::Recognised && !banner {
            self.count += 1;
            // A `TAP version` line later is still believed; a bare point is not.
            if self.count > 20 {
                self.state = State::Not;
            }
        }
        false
    }

    /// Tells whether `prove` named this stream's file and all planned points are there.
    fn is_fulfilled(&self) -> bool {
        let fulfilled = |level: &Level| level.plan.is_some_and(|plan| level.seen >= plan);
        self.stream.file.is_some() && self.levels.first().is_some_and(fulfilled)
    }

    fn level(&mut self, depth: usize) -> &mut Level {
        if self.levels.len() <= depth {
            self.levels.resize_with(depth + 1, Level::default);
        }
        &mut self.levels[depth]
    }

    /// Adds a line about the last point of a depth: YAML, or the comments of producers without it.
    fn diagnose(&mut self, text: &str, depth: usize) {
        let Some(point) = self.levels.get_mut(depth).and_then(|level| level.points.last_mut())
        else {
            return;
        };
        if point.outcome == Outcome::Failed
            && self.messages <= MAX_FAILURES
            && point.message.len() + text.len() < MAX_MESSAGE
        {
            point.message.push_str(text);
            point.message.push('\n');
        }
    }

    fn point(&mut self, text: &str, depth: usize) {
        let (number, rest) = number(text);
        let (description, directive) = directive(rest);
        let failed = text.starts_with("not ok");
        let directive = directive.to_ascii_lowercase();
        let outcome = if directive.starts_with("skip") || (failed && directive.starts_with("todo"))
        {
            Outcome::Skipped
        } else if failed {
            Outcome::Failed
        } else {
            Outcome::Passed
        };
        self.messages += usize::from(outcome == Outcome::Failed);
        let seen = {
            let level = self.level(depth);
            level.seen += 1;
            level.begun = true;
            level.seen
        };
        if number.is_some_and(|number| number != seen) {
            self.problem("Test points of the TAP stream are not numbered in order.");
        }
        let unnamed = description.is_empty();
        let name = match bound(&description, 512) {
            name if name.is_empty() => number.unwrap_or(seen).to_string(),
            name => name,
        };
        let children = self.close_below(depth);
        for mut child in children {
            if self.keep(&name) {
                child.path.insert(0, name.clone());
                self.level(depth).points.push(child);
            }
        }
        self.count += 1;
        if self.count <= MAX_IDS && self.keep(&name) {
            let point = Point { path: vec![name], unnamed, outcome, message: String::new() };
            self.level(depth).points.push(point);
        } else {
            self.cut = true;
        }
    }

    fn keep(&mut self, name: &str) -> bool {
        let length = name.len() + self.stream.file.as_ref().map_or(0, String::len);
        let room = self.bytes + length <= MAX_ID_BYTES;
        if room {
            self.bytes += length;
        }
        self.cut |= !room;
        room
    }

    /// Ends the subtests below a depth and returns their points.
    fn close_below(&mut self, depth: usize) -> Vec<Point> {
        let mut points = Vec::new();
        while self.levels.len() > depth + 1 {
            let Some(level) = self.levels.pop() else { break };
            self.check(&level);
            points.splice(0..0, level.points);
        }
        points
    }

    fn check(&mut self, level: &Level) {
        match level.plan {
            Some(plan) if plan != level.seen && self.bail.is_none() => {
                let missing = if level.seen < plan { INCOMPLETE } else { "" };
                self.problem(format!(
                    "{missing}The TAP stream plans {plan} test points and has {}.",
                    level.seen
                ));
            }
            // A plan may stand at the end.
            None if level.begun => {
                self.problem(format!("{INCOMPLETE}The TAP stream has no plan."));
            }
            _ => {}
        }
    }

    fn problem(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        let problems = &mut self.stream.problems;
        if problems.len() < 16 && !problems.contains(&sentence) {
            problems.push(sentence);
        }
    }

    /// Ends the stream of a file that `prove` named, or what stood before it.
    fn end_file(&mut self) {
        self.end_stream();
        self.yaml = None;
        self.stream.file = None;
    }

    /// Ends a stream: another one may follow on the same output, of the same file unless one is named.
    fn end_stream(&mut self) {
        let mut points = self.close_below(0);
        if !points.is_empty() {
            self.problem("A subtest of the TAP stream has no test point that sums it up.");
        }
        let level = self.levels.pop().unwrap_or_default();
        self.levels.push(Level::default());
        self.check(&level);
        points.extend(level.points);
        let next = Stream { file: self.stream.file.clone(), ..Stream::default() };
        let mut stream = std::mem::replace(&mut self.stream, next);
        stream.points = points;
        if self.done.len() < MAX_STREAMS && (level.begun || !stream.points.is_empty()) {
            self.done.push(stream);
        }
    }

    /// Returns what was read; `runner` wrote the stream.
    pub(super) fn finish(mut self, runner: Runner, echo: Echo) -> Results {
        self.end_stream();
        let mut tally = Tally::new(runner, &self.roots);
        for stream in std::mem::take(&mut self.done) {
            if echo == Echo::Drop && stream.subtests && stream.cancelled {
                continue;
            }
            let named = stream.file.as_deref();
            for mut point in stream.points {
                if point.outcome == Outcome::Failed && point.message.is_empty() {
                    let name = if point.unnamed { "" } else { point.path.last().map_or("", |n| n) };
                    point.message = self.comments.take(named, name).unwrap_or_default();
                }
                let (file, line) = place(&point.message);
                let detail = Detail { message: point.message, file, line, ..Detail::default() };
                let path: Vec<&str> =
                    named.into_iter().chain(point.path.iter().map(String::as_str)).collect();
                tally.result(&path.join(" > "), point.outcome, Some(detail));
            }
            for problem in stream.problems {
                tally.problem(match named {
                    Some(file) => match problem.strip_prefix(INCOMPLETE) {
                        Some(missing) => format!("{INCOMPLETE}{file}: {missing}"),
                        None => format!("{file}: {problem}"),
                    },
                    None => problem,
                });
            }
        }
        if self.cut {
            tally.unread();
        }
        if let Some(bail) = &self.bail {
            tally.broken(bail);
        }
        tally.finish()
    }
}

/// Reads one text that is declared to be TAP.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut reader = Tap::new(Want::Declared, roots);
    each_line(bytes, &mut |line| reader.line(line));
    reader.finish(Runner::Tap, Echo::Keep)
}
