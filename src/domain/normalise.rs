//! What stays of a message when everything that differs between two equal runs is masked.
//!
//! Not every number is noise: `-1 == 3` that turns into `2 == 3` is movement, so plain numbers stay.

use super::hex;
use super::results::Results;
use regex::{Captures, Regex};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The most lines of a message that make its class.
const CLASS_LINES: usize = 4;

/// Masks in the order in which they apply: a later one must not cut what an earlier one knows whole.
static MASKS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        (
            r#"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)(?:/[^\s'"`:,;()\[\]{}<>]*)?"#,
            "<tmp>",
        ),
        (
            r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
            "<uuid>",
        ),
        (
            r"\b\d{4}[-/]\d{2}[-/]\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?",
            "<time>",
        ),
        (r"\b\d{4}[-/]\d{2}[-/]\d{2}\b", "<date>"),
        (r"\b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b", "<time>"),
        (r"\b((?i:localhost)|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1?\]):\d{2,5}\b", "$1:<port>"),
        (r"(?i)\b(port)([\s=:]+)\d{2,5}\b", "$1$2<port>"),
        (r"(?i)\b(pid|process|tid|thread)([\s=:(#]+)\d+\b", "$1$2<pid>"),
        (r"\(\d+\) panicked", "(<pid>) panicked"),
        (r"==\d+==", "==<pid>=="),
        (
            r"\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?|mins?|minutes?)\b",
            "<duration>",
        ),
        (r"(\.[A-Za-z]{1,6}):\d+(?::\d+)?\b", "$1:<line>"),
        (r"(?i)\b(line|column|col)(\s+)\d+\b", "$1$2<line>"),
        (r"\b0x[0-9a-fA-F]{6,}\b", "<address>"),
    ]
    .into_iter()
    .filter_map(|(pattern, with)| Regex::new(pattern).ok().map(|regex| (regex, with)))
    .collect()
});

static HEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{7,128}\b").ok());

static ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"\b0x[0-9a-fA-F]{6,}\b").ok());

static ANSI: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // CSI sequences, OSC strings, then two-byte escapes (ECMA-48).
    Regex::new(
        r"\x1b(?:\[[0-9;:?<=>!]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Za-z]|[@-Z\\^_=>78])",
    )
    .ok()
});

/// Returns text without terminal escape sequences.
pub fn strip_ansi(text: &str) -> Cow<'_, str> {
    match ANSI.as_ref() {
        Some(regex) if text.contains('\u{1b}') => regex.replace_all(text, ""),
        _ => Cow::Borrowed(text),
    }
}

/// Returns text with memory addresses (`0x` and six digits or more) as `0x*`.
pub fn mask_addresses(text: &str) -> String {
    match ADDRESS.as_ref() {
        Some(regex) => regex.replace_all(text, "0x*").into_owned(),
        None => text.to_owned(),
    }
}

/// Returns text with everything masked that differs between two equal runs.
///
/// Masked are: `roots` and temporary paths, uuids, dates, times, durations, ports, process ids,
/// line and column numbers, addresses, hexadecimal digests.
pub fn mask(text: &str, roots: &[&str]) -> String {
    let mut text = strip_ansi(text).into_owned();
    for root in roots.iter().filter(|root| root.len() > 1) {
        if text.contains(*root) {
            text = text.replace(*root, "<root>");
        }
    }
    for (regex, with) in MASKS.iter() {
        if let Cow::Owned(masked) = regex.replace_all(&text, *with) {
            text = masked;
        }
    }
    if let Some(regex) = HEX.as_ref() {
        // A digest has digits and letters; a plain number or a word of a to f alone is neither.
        let masked = regex.replace_all(&text, |found: &Captures<'_>| {
            let word = &found[0];
            let digits = word.bytes().any(|b| b.is_ascii_digit());
            let letters = word.bytes().any(|b| b.is_ascii_alphabetic());
            if digits && letters { "<hash>".to_owned() } else { word.to_owned() }
        });
        text = masked.into_owned();
    }
    text
}

/// Returns the lines of a message from its first assertion or exception on, else all of it; no frames.
fn from_the_assertion(message: &str) -> Vec<String> {
    let message = strip_ansi(message);
    let mut lines: Vec<&str> =
        message.lines().map(str::trim).filter(|line| !line.is_empty() && !is_frame(line)).collect();
    let start = lines
        .iter()
        .position(|line| line.starts_with("E ") || line.contains(" panicked at "))
        .or_else(|| lines.iter().position(|line| is_exception(line)))
        .unwrap_or(0);
    let rest = lines.split_off(start);
    let bare = rest.into_iter().map(|line| line.strip_prefix("E ").unwrap_or(line));
    bare.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// Returns the class of a failure: its first assertion or exception with what it compares, masked.
pub fn class_of(message: &str, roots: &[&str]) -> String {
    let lines = from_the_assertion(message);
    let masked: Vec<String> =
        lines.iter().take(CLASS_LINES).map(|line| mask(line, roots)).collect();
    masked.join("\n")
}

/// Returns the line of a message that says most, bounded: the first assertion or exception, and what follows one
/// that ends with a colon; else its first line.
pub fn telling_line(message: &str, most: usize) -> String {
    let lines = from_the_assertion(message);
    let ends = lines.iter().position(|line| !line.ends_with(':')).map_or(lines.len(), |at| at + 1);
    lines.get(..ends).unwrap_or_default().join(" ").chars().take(most).collect()
}

/// Returns the sha256 of the sorted pairs of failed id and class of its failure.
pub fn failure_class(results: &Results) -> String {
    let mut text = String::new();
    for id in &results.failed {
        let class = results
            .failures
            .iter()
            .find(|failure| failure.id == *id)
            .map(|failure| class_of(&failure.message, &[]))
            .unwrap_or_default();
        push(&mut text, "failed", id);
        push(&mut text, "class", &class);
    }
    if let Some(broken) = &results.broken {
        push(&mut text, "broken", &class_of(broken, &[]));
    }
    hex::sha256(text.as_bytes())
}

/// Returns the sha256 of a run's verdict, exit and per-test results, equal for two equal runs.
///
/// `verdict` is the word of the contract (`pass`, `fail`, `error`), `exit` the exit code.
pub fn fingerprint(verdict: &str, exit: Option<i32>, results: &Results) -> String {
    let mut text = String::new();
    push(&mut text, "verdict", verdict);
    push(&mut text, "exit", &exit.map(|code| code.to_string()).unwrap_or_default());
    push(&mut text, "runner", &format!("{:?}", results.runner));
    let sets = [
        ("collected", &results.collected),
        ("passed", &results.passed),
        ("failed", &results.failed),
        ("skipped", &results.skipped),
    ];
    for (name, set) in sets {
        for id in set {
            push(&mut text, name, id);
        }
    }
    push(&mut text, "failures", &failure_class(results));
    hex::sha256(text.as_bytes())
}

/// Appends a field with its length, so that no two sequences of fields give the same text.
fn push(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name} {} {value}", value.len());
}

/// Tells whether a line is a frame of a stack trace: it moves when unrelated code moves.
fn is_frame(line: &str) -> bool {
    let numbered = line.split_once(": ").is_some_and(|(n, _)| {
        !n.is_empty() && n.len() < 4 && n.bytes().all(|b| b.is_ascii_digit())
    });
    numbered
        || line.starts_with("at ")
        || line.starts_with("File \"")
        || line == "stack backtrace:"
        || line.starts_with("note: ")
        || line.starts_with("goroutine ")
        || line == "Traceback (most recent call last):"
}

/// Tells whether a line names an exception or an assertion.
fn is_exception(line: &str) -> bool {
    let head = line.split([':', ' ', '[', '(']).next().unwrap_or_default();
    let named = head.ends_with("Error") || head.ends_with("Exception") || head == "error";
    named || line.starts_with("assert") || line.starts_with("panic: ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::results::{Failure, Runner};

    #[test]
    fn the_telling_line_is_what_was_compared() {
        let cases = [
            (
                "def test_total():\n>   assert total(1) == 2\nE   assert 1 == 2\nE    +  where",
                "assert 1 == 2",
            ),
            (
                "RSpec::Expectations::ExpectationNotMetError:\n  expected: 2\n       got: 1\n./spec/a_spec.rb:3",
                "RSpec::Expectations::ExpectationNotMetError: expected: 2",
            ),
            (
                "thread 'a' (1) panicked at src/lib.rs:3:5:\nassertion `left == right` failed\n left: 1",
                "thread 'a' (1) panicked at src/lib.rs:3:5: assertion `left == right` failed",
            ),
            ("want 3, got 4", "want 3, got 4"),
            ("", ""),
            ("only:", "only:"),
        ];
        for (message, wanted) in cases {
            assert_eq!(telling_line(message, 200), wanted);
        }
        assert_eq!(telling_line("E   äöü", 2), "äö");
    }

    #[test]
    fn noise_is_masked_and_numbers_are_not() {
        let pairs = [
            ("<O object at 0x7f3a11c0ffee>", "<O object at 0x7e00aa11bb22>"),
            ("worker pid 4711 died", "worker pid 9 died"),
            (
                "thread 't' (14299) panicked at src/a.rs:10:5:",
                "thread 't' (7) panicked at src/a.rs:9:1:",
            ),
            ("refused: 127.0.0.1:40211", "refused: 127.0.0.1:33107"),
            ("took 0.20s", "took 1.31s"),
            ("at 2026-11-29T16:38:57.007Z", "at 2025-01-02T03:04:05Z"),
            ("on 2026-11-29 at 16:38:57", "on 2025-01-02 at 01:02:03"),
            ("open /tmp/pytest-of-u/pytest-3/x0", "open /tmp/pytest-of-u/pytest-44/x0"),
            ("id 0f8fad5b-d9cb-469f-a165-70867728950e", "id 7c9e6679-7425-40de-944b-e07fc1f90ae7"),
            ("commit 03b132f1", "commit a23b0f5d"),
            ("/w/one/src/a.py", "/w/two/src/a.py"),
            ("File x.py, line 3", "File x.py, line 40"),
        ];
        for (one, two) in pairs {
            let roots = ["/w/one", "/w/two"];
            assert_eq!(mask(one, &roots), mask(two, &roots));
            assert_ne!(mask(one, &roots), one);
        }
        for text in ["assert -1 == 3", "left: 42", "1234567 items", "facade", "0xff", "v1.2.3"] {
            assert_eq!(mask(text, &[]), text);
        }
    }

    #[test]
    fn the_class_is_the_assertion_and_what_it_compares() {
        let one = "def test_a():\n>   assert add(1) == 3\nE   assert -1 == 3\nE    +  where -1 = add(1)\n\nt.py:4: AssertionError";
        assert!(class_of(one, &[]).starts_with("assert -1 == 3"));
        assert_ne!(class_of(one, &[]), class_of(&one.replace("-1", "2"), &[]));
        let rust = |line: &str, left: &str| {
            format!(
                "hello\n\nthread 't' (1{line}) panicked at src/lib.rs:{line}:3:\nassertion `left == right` failed\n  left: {left}\n right: 4\nstack backtrace:\n   0: std::x\n             at ./src/lib.rs:{line}:3\n"
            )
        };
        assert_eq!(class_of(&rust("10", "3"), &[]), class_of(&rust("99", "3"), &[]));
        assert_ne!(class_of(&rust("10", "3"), &[]), class_of(&rust("10", "5"), &[]));
        let trace = "Traceback (most recent call last):\n  File \"/w/t.py\", line 3, in f\n    g()\nValueError: bad\n";
        assert_eq!(class_of(trace, &[]), "ValueError: bad");
    }

    #[test]
    fn equal_runs_have_one_fingerprint() {
        let run = |message: &str| {
            let mut results = Results::new(Runner::Pytest);
            results.collected.insert("t.py::a".into());
            results.failed.insert("t.py::a".into());
            results.failures.push(Failure {
                id: "t.py::a".into(),
                message: message.into(),
                file: None,
                line: None,
            });
            results
        };
        let one = run("E   TimeoutError: after 1.20s at 0x7f00deadbeef");
        let two = run("E   TimeoutError: after 1.31s at 0x7f00deadbee0");
        assert_eq!(failure_class(&one), failure_class(&two));
        assert_eq!(fingerprint("fail", Some(1), &one), fingerprint("fail", Some(1), &two));
        assert_ne!(fingerprint("fail", Some(1), &one), fingerprint("fail", Some(2), &one));
        assert_ne!(failure_class(&one), failure_class(&run("E   KeyError: 'x'")));
    }

    #[test]
    fn escapes_go() {
        assert_eq!(strip_ansi("\u{1b}[1;31mred\u{1b}[0m \u{1b}]0;title\u{7}x\u{1b}(B"), "red x");
    }
}
