//! Foreign text as Markdown that it cannot leave: code spans, fences, prose.
//!
//! Escaping with backslashes does not hold what platforms look for after Markdown: mentions,
//! references to issues and commits, addresses, emoji, formulas. None of them is looked for in
//! code. So only plain words stand outside of it; all else becomes a code span.

use crate::domain::normalise::strip_ansi;
use crate::report::text::{clean, one_line};

/// Digits from which on a word may be the id of a commit (GitHub links seven or more).
const COMMIT_DIGITS: usize = 7;

/// Returns foreign text of at most so many characters as one code span.
pub fn code(text: &str, most: usize) -> String {
    span(&flat(text, most))
}

/// Returns one line without terminal escapes, at most so many characters long.
fn flat(text: &str, most: usize) -> String {
    one_line(&strip_ansi(text), most)
}

/// Returns one line as a code span.
fn span(line: &str) -> String {
    if line.trim().is_empty() {
        return "(empty)".to_owned();
    }
    let ticks = "`".repeat(longest_run(line) + 1);
    // One blank at both ends is taken away again (CommonMark 0.31, 6.1).
    let pad = match line.starts_with(['`', ' ']) || line.ends_with(['`', ' ']) {
        true => " ",
        false => "",
    };
    format!("{ticks}{pad}{line}{pad}{ticks}")
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Returns foreign lines as a block of code; lines and characters of a line beyond `lines` and
/// `most` are left out.
pub fn fenced(text: &str, lines: usize, most: usize) -> String {
    let text = clean(&strip_ansi(text));
    let all: Vec<&str> = text.trim_matches('\n').split('\n').collect();
    let shown: Vec<String> = all.iter().take(lines).map(|line| one_line_kept(line, most)).collect();
    let mut body = shown.join("\n");
    if all.len() > lines {
        body.push_str(&format!("\n… {} more lines", all.len() - lines));
    }
    let ticks = "`".repeat(longest_run(&body).max(2) + 1);
    format!("{ticks}text\n{body}\n{ticks}\n")
}

/// Returns a line with its tabs, cut at its end.
fn one_line_kept(line: &str, most: usize) -> String {
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Returns a sentence that may quote foreign text as a paragraph of plain words and code spans, at
/// most so many characters long.
///
/// What stands between two backticks becomes a code span, as our sentences mean it.
pub fn prose(text: &str, most: usize) -> String {
    let line = flat(text, most);
    let mut prose = Prose::default();
    let mut rest = line.as_str();
    while let Some((before, inside, after)) = quoted(rest) {
        prose.words(before);
        prose.flush();
        prose.push(&span(inside));
        rest = after;
    }
    prose.words(rest);
    prose.flush();
    prose.out
}

/// Splits at the first pair of single backticks with something between them.
fn quoted(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (inside, after) = rest.split_once('`')?;
    (!inside.trim().is_empty() && !after.starts_with('`')).then_some((before, inside, after))
}

/// A paragraph under construction.
#[derive(Debug, Default)]
struct Prose {
    out: String,
    /// Words that wait to become one code span.
    risky: String,
    /// Whether a blank stands before the next piece.
    space: bool,
}

impl Prose {
    fn words(&mut self, text: &str) {
        for (at, word) in text.split(' ').enumerate() {
            self.space |= at > 0;
            if !word.is_empty() {
                self.word(word);
            }
        }
    }

    fn word(&mut self, word: &str) {
        let core = word.strip_prefix('(').unwrap_or(word);
        let core = core.trim_end_matches(['.', ',', ';', ':', '!', '?', ')']);
        let lead = if word.starts_with('(') && !core.is_empty() { "(" } else { "" };
        let tail = &word[lead.len() + core.len()..];
        if word == "(" {
            self.flush();
            self.push(word);
            return;
        }
        // It closes what stands right before it, as after a code span of ours.
        if word == tail && !self.space && self.risky.is_empty() && !self.out.is_empty() {
            self.out.push_str(word);
            return;
        }
        // At the head of a line it would be the number of a list.
        let is_list = self.is_at_head() && core.bytes().all(|byte| byte.is_ascii_digit());
        if core.is_empty() || (is_list && !tail.is_empty()) {
            self.risk("", word);
        } else if is_plain(core) {
            self.flush();
            self.push(&format!("{lead}{core}{tail}"));
        } else {
            self.risk(lead, core);
            if !tail.is_empty() {
                self.flush();
                self.out.push_str(tail);
            }
        }
    }

    fn is_at_head(&self) -> bool {
        self.out.is_empty() && self.risky.is_empty()
    }

    /// Adds what is not plain, to the code span before it where one is open.
    fn risk(&mut self, lead: &str, core: &str) {
        if !lead.is_empty() || (!self.risky.is_empty() && !self.space) {
            self.flush();
        }
        if !lead.is_empty() {
            self.push(lead);
        }
        if !self.risky.is_empty() {
            self.risky.push(' ');
            self.space = false;
        } else if std::mem::take(&mut self.space) && !self.out.is_empty() {
            self.out.push(' ');
        }
        self.risky.push_str(core);
    }

    fn flush(&mut self) {
        if !self.risky.is_empty() {
            let span = span(&std::mem::take(&mut self.risky));
            let space = std::mem::take(&mut self.space);
            self.push(&span);
            self.space = space;
        }
    }

    fn push(&mut self, piece: &str) {
        let space = std::mem::take(&mut self.space) && !self.out.is_empty();
        // Two code spans without a blank between them would be one with other ends.
        if space || (self.out.ends_with('`') && piece.starts_with('`')) {
            self.out.push(' ');
        }
        self.out.push_str(piece);
    }
}

/// Tells whether a word means nothing to any platform: letters and digits, but neither a commit's
/// id nor, as `GH-1` does, a key with a number.
fn is_plain(word: &str) -> bool {
    if matches!(word, "→" | "…" | "–" | "—" | "·" | "%") {
        return true;
    }
    let is_commit = |part: &str| {
        part.len() >= COMMIT_DIGITS && part.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    if word.split(|c: char| !c.is_ascii_alphanumeric()).any(is_commit) {
        return false;
    }
    let has_key = word.as_bytes().windows(2).any(|two| two[0] == b'-' && two[1].is_ascii_digit());
    let is_decimal = word.split_once('.').is_some_and(|(whole, part)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits(whole) && digits(part)
    });
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '\'' | '’' | '-');
    let starts = word.starts_with(char::is_alphanumeric);
    is_decimal || (starts && !has_key && word.chars().all(inner))
}

/// Returns inline Markdown as the cell of a table.
///
/// Pipes stand only in code spans here. A backslash before one would be read differently by
/// different readers, so such a pipe is shown broken.
pub fn cell(inline: &str) -> String {
    inline.replace("\\|", "\\¦").replace('|', "\\|")
}

/// Returns a link to an address of the platform; none for one that could end the link or, with an
/// entity, be another address.
pub fn link(label: &str, address: &str) -> Option<String> {
    let is_web = address.starts_with("https://") || address.starts_with("http://");
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@!$&+,=%".contains(c);
    (is_web && address.len() <= 2_048 && address.chars().all(is_safe))
        .then(|| format!("[{label}]({address})"))
}
