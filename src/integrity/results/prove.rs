//! The lines that `prove` prints around the TAP of each file, and what a test says on stderr.
//!
//! Format: TAP::Formatter of TAP::Harness; `prove -v` prints `t/x.t .. `, the file's own stream, and a
//! verdict of its own. What the streams mean is the duty of `tap`.

use super::tally::{MAX_FAILURES, MAX_MESSAGE, bound};
use super::tap_line::perl_place;

/// A line that `prove` begins a file with.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Banner<'a> {
    /// The file, as it was named.
    pub(super) file: &'a str,
    /// What follows the dots: nothing where the file's own stream follows.
    pub(super) rest: &'a str,
}

/// What `prove` says of a file behind the dots, where it does not show the file's stream.
const SAYS: [&str; 5] = ["ok", "skipped", "Dubious, ", "Failed ", "All "];

/// Reads `t/x.t .. `, with the time that `--timer` puts before it.
pub(super) fn banner(line: &str) -> Option<Banner<'_>> {
    let line = match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((time, rest)) if time.bytes().all(|b| b.is_ascii_digit() || b == b':') => rest,
        _ => line,
    };
    let (file, after) = line.split_once(' ')?;
    let dots = after.bytes().take_while(|b| *b == b'.').count();
    let rest = after.get(dots..)?;
    let named = file.contains(['.', '/']) && !file.starts_with('#');
    let ours = rest.trim().is_empty() || SAYS.iter().any(|word| rest.trim().starts_with(word));
    (named && ours && dots >= 2 && rest.starts_with(' '))
        .then(|| Banner { file, rest: rest.trim() })
}

/// Tells whether `prove` says this of a file: `ok`, with the time that `--timer` adds.
pub(super) fn is_verdict(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("ok") else { return text.trim_end() == "not ok" };
    let words: Vec<&str> = rest.split_whitespace().take(3).collect();
    match words.as_slice() {
        [] => true,
        [time, "ms" | "s", more @ ..] => {
            time.parse::<f64>().is_ok() && more.iter().all(|word| word.starts_with('('))
        }
        _ => false,
    }
}

/// Tells whether this line ends what `prove` has to say.
pub(super) fn is_sum(text: &str) -> bool {
    text.starts_with("Files=") && text.contains(", Tests=")
}

/// What one failed test said on stderr.
#[derive(Debug, Default)]
struct Said {
    name: String,
    text: String,
    taken: bool,
}

/// Collects the comments about failed tests that do not stand in the stream itself.
#[derive(Debug, Default)]
pub(super) struct Comments {
    said: Vec<Said>,
    open: bool,
}

impl Comments {
    /// Takes one line of stderr.
    pub(super) fn line(&mut self, line: &str) {
        let Some(text) = line.trim_start().strip_prefix("#   ") else {
            self.open = false;
            return;
        };
        if let Some(rest) = text.strip_prefix("Failed test") {
            self.open = self.said.len() < MAX_FAILURES;
            if self.open {
                let quoted = rest.trim().strip_prefix('\'').and_then(|r| r.strip_suffix('\''));
                let name = bound(quoted.unwrap_or_default(), 512);
                self.said.push(Said { name, ..Said::default() });
            }
        }
        if let Some(said) = self.said.last_mut().filter(|_| self.open)
            && said.text.len() + text.len() < MAX_MESSAGE
        {
            said.text.push_str(text);
            said.text.push('\n');
        }
    }

    /// Takes what was said about a failed test of a file; each comment belongs to one test.
    pub(super) fn take(&mut self, file: Option<&str>, name: &str) -> Option<String> {
        let fits = |said: &Said| !said.taken && said.name == name;
        let here = |said: &Said| file.is_some() && perl_place(&said.text).0.as_deref() == file;
        let at = self.said.iter().position(|said| fits(said) && here(said)).or_else(|| {
            // Without a name there is nothing to go by but the file.
            self.said.iter().position(|said| !name.is_empty() && fits(said))
        })?;
        let said = self.said.get_mut(at)?;
        said.taken = true;
        Some(std::mem::take(&mut said.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banner_is_a_file_and_dots() {
        let file = |line| banner(line).map(|found| (found.file, found.rest));
        assert_eq!(file("t/x.t .. "), Some(("t/x.t", "")));
        assert_eq!(file("[12:34:56] t/x.t ....... "), Some(("t/x.t", "")));
        assert_eq!(file("t/x.t .. skipped: none"), Some(("t/x.t", "skipped: none")));
        for none in [
            "Loading .. ",
            "t/x.t . ",
            "ok 1 - a .. b",
            "# t/x.t .. ",
            "x.sh .. done",
            "t/x.t ..",
            "a.b c",
        ] {
            assert_eq!(file(none), None, "{none}");
        }
    }

    #[test]
    fn a_verdict_has_no_number_and_no_name() {
        for yes in ["ok", "ok ", "not ok", "ok       23 ms", "ok  7 ms ( 0.00 usr"] {
            assert!(is_verdict(yes), "{yes}");
        }
        for no in ["ok 1", "ok 2 ms - a", "ok - a", "not ok 1"] {
            assert!(!is_verdict(no), "{no}");
        }
    }
}
