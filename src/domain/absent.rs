//! Lines in which a program says that it did not find something, or that nobody answered or let it.
//!
//! A run without tests has no failing set to compare; that it stops saying so when a denial is
//! lifted tells that the denial was in its way. What follows from it is `judge_baseline`'s.

use super::normalise::mask;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The longest line that is compared, in characters.
const LONGEST: usize = 400;

/// What such lines hold, in lower case; gathered from shells, interpreters, loaders and compilers.
const SIGNS: [&str; 18] = [
    "no such file",
    "not found",
    "cannot find",
    "can't find",
    "could not find",
    "couldn't find",
    "cannot open",
    "can't open",
    "cannot access",
    "cannot load",
    "can't locate",
    "no module named",
    "does not exist",
    "unbound variable",
    "not set",
    "keyerror",
    "missing",
    "required",
];

/// What lines hold that say that nobody answers or something is not allowed, in lower case.
const DENIALS: [&str; 22] = [
    "connection refused",
    "connection reset",
    "could not resolve",
    "couldn't resolve",
    "couldn't connect",
    "eacces",
    "eai_again",
    "econnrefused",
    "ehostunreach",
    "enetunreach",
    "enotfound",
    "eperm",
    "erofs",
    "failed to connect",
    "getaddrinfo",
    "name or service not known",
    "name resolution",
    "network is unreachable",
    "no route to host",
    "no such host",
    "operation not permitted",
    "read-only file system",
];

/// A path, of which only the last part stays: HOME is another folder in each zone.
static PATHS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?:~|\.{0,2})/(?:[^\s'"`:,;()/]*/)*([^\s'"`:,;()/]*)"#).ok());

/// Returns the lines of an output that say that something is missing, masked so that they can be
/// compared with those of another run.
pub fn absent_lines(text: &str) -> BTreeSet<String> {
    lines_with(text, |line| SIGNS.iter().any(|sign| line.contains(sign)))
}

/// Returns the lines that say that nobody answered or that something was not allowed, masked alike.
pub fn denied_lines(text: &str) -> BTreeSet<String> {
    lines_with(text, |line| DENIALS.iter().any(|sign| begins_a_word(line, sign)))
}

/// Says whether a line holds a sign where a word begins: `FileNotFoundError` holds no `ENOTFOUND`.
fn begins_a_word(line: &str, sign: &str) -> bool {
    let before = |at: usize| line[..at].chars().next_back();
    line.match_indices(sign).any(|(at, _)| before(at).is_none_or(|c| !c.is_alphanumeric()))
}

fn lines_with(text: &str, is_one: impl Fn(&str) -> bool) -> BTreeSet<String> {
    text.lines()
        .map(str::trim)
        .filter(|line| {
            let lower = line.to_lowercase();
            is_one(&lower)
        })
        .map(|line| {
            let short: String = line.chars().take(LONGEST).collect();
            let bare = match PATHS.as_ref() {
                Some(paths) => paths.replace_all(&short, "<path>/$1").into_owned(),
                None => short,
            };
            mask(&bare, &[])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_a_word_and_no_part_of_one() {
        for line in ["FileNotFoundError: [Errno 2] No such file or directory", "the preeperm"] {
            assert!(denied_lines(line).is_empty(), "{line}");
        }
        for line in ["Error: getaddrinfo ENOTFOUND a.example", "code=EPERM", "(EACCES)"] {
            assert_eq!(denied_lines(line).len(), 1, "{line}");
        }
    }

    #[test]
    fn lines_that_miss_something_are_found_and_others_are_not() {
        for line in [
            "check.sh: 2: SERVICE_MODE: parameter not set",
            "bash: line 1: MY_LIB: unbound variable",
            "sh: 1: .: cannot open lib.sh: No such file",
            "ModuleNotFoundError: No module named 'helper'",
            "Error: Cannot find module 'left-pad'",
            "KeyError: 'DATABASE_URL'",
            "error while loading shared libraries: libx.so: cannot open shared object file",
        ] {
            assert_eq!(absent_lines(line).len(), 1, "{line}");
        }
        for line in ["", "assert 1 == 2", "ok 1 - a", "FAILED tests/a.py::test_b"] {
            assert!(absent_lines(line).is_empty(), "{line}");
        }
    }

    #[test]
    fn the_same_file_below_another_home_is_the_same_line() {
        let one = absent_lines("cat: /cache/x/h/exec/.config/tool: No such file or directory");
        let other = absent_lines("cat: /caller/.config/tool: No such file or directory");
        assert_eq!(one, other);
        assert_ne!(one, absent_lines("cat: /caller/.config/other: No such file or directory"));
    }
}
