//! Where a value was written, and the text that shows a wrong one: place, line, caret, sentence.
//!
//! Which sentence is said is the duty of `tree`, `kind`, `settings` and `build`.

use super::workflow::Frame;
use crate::error::{Error, Kind};

/// Widest part of an offending line that is shown, in characters.
const WINDOW: usize = 96;

/// What kind of text a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A file, or a text that stands for one.
    File,
    /// A text that came without its file.
    Text,
    /// An environment variable.
    Env,
    /// A flag, as it was typed.
    Flag,
    /// The table of defaults.
    Default,
}

/// One text that values are read from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Its name in messages: a path, a variable or a flag.
    pub(crate) name: String,
    /// What kind of text it is.
    pub(crate) medium: Medium,
    /// The text.
    pub(crate) text: String,
    /// The file it stands in, where it is a part of one; `name` is that file's.
    pub(crate) frame: Option<Frame>,
}

/// A place in one of the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct At {
    /// Index of the source.
    pub(crate) source: usize,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
    /// Length in characters, at least 1.
    pub(crate) len: usize,
}

/// Every text of one load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(pub(crate) Vec<Source>);

impl Sources {
    /// Adds a text and returns its index.
    pub(crate) fn add(&mut self, name: impl Into<String>, medium: Medium, text: &str) -> usize {
        self.0.push(Source { name: name.into(), medium, text: text.to_owned(), frame: None });
        self.0.len() - 1
    }

    /// Adds a text that stands inside a file and returns its index.
    pub(crate) fn add_framed(
        &mut self,
        name: impl Into<String>,
        text: &str,
        frame: Option<Frame>,
    ) -> usize {
        self.0.push(Source {
            name: name.into(),
            medium: if frame.is_some() { Medium::File } else { Medium::Text },
            text: text.to_owned(),
            frame,
        });
        self.0.len() - 1
    }

    /// Returns the place that people are told: the one in the file, for a text inside it.
    pub(crate) fn shown(&self, at: At) -> At {
        match self.of(at).and_then(|source| source.frame.as_ref()) {
            Some(frame) => frame.place(at),
            None => at,
        }
    }

    /// Returns the source of a place.
    pub(crate) fn of(&self, at: At) -> Option<&Source> {
        self.0.get(at.source)
    }

    /// Makes the error that points at a place: one sentence, then the line and a caret under it.
    pub(crate) fn error(&self, at: At, sentence: &str) -> Error {
        let Some(source) = self.of(at) else {
            return Error::new(Kind::ConfigInvalid, sentence);
        };
        let name = printable(&source.name);
        let at = self.shown(at);
        let text = source.frame.as_ref().map_or(&source.text, |frame| &frame.text);
        let head = match source.medium {
            Medium::File | Medium::Text => {
                format!("{name}:{}:{}: {sentence}", at.line, at.column)
            }
            Medium::Env | Medium::Flag | Medium::Default => format!("{name}: {sentence}"),
        };
        // A platform may have put secrets into a text that came alone; nothing of it is quoted.
        let what = match source.medium {
            Medium::Text => head,
            _ => format!("{head}\n{}", snippet(text, at)),
        };
        let error = Error::new(Kind::ConfigInvalid, what);
        match source.medium {
            Medium::File => error.at(&source.name, at.line, at.column),
            Medium::Text | Medium::Env | Medium::Flag | Medium::Default => error,
        }
    }
}

/// Returns the line of a place with a caret under it.
fn snippet(text: &str, at: At) -> String {
    let line = text.split('\n').nth(at.line.saturating_sub(1)).unwrap_or("").trim_end_matches('\r');
    let count = line.chars().count();
    let column = at.column.max(1) - 1;
    let from = if column >= WINDOW { column - WINDOW / 2 } else { 0 };
    let shown: String = printable(&line.chars().skip(from).take(WINDOW).collect::<String>());
    let left = if from > 0 { "…" } else { "" };
    let right = if count > from + WINDOW { "…" } else { "" };
    let caret = column - from + left.chars().count();
    let room = (shown.chars().count() + left.chars().count()).saturating_sub(caret);
    let carets = "^".repeat(at.len.clamp(1, room.max(1)));
    let number = at.line.to_string();
    let gutter = " ".repeat(number.len());
    format!("{gutter} |\n{number} | {left}{shown}{right}\n{gutter} | {}{carets}", " ".repeat(caret))
}

/// Returns the text with every control and direction-changing character made visible as `?`, tabs as blanks.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '?',
            '\u{feff}' | '\u{2028}' | '\u{2029}' => '?',
            c if c.is_control() => '?',
            c => c,
        })
        .collect()
}

/// Returns a foreign text as it may stand between backticks in a sentence: printable and at most 60 characters.
pub(crate) fn quote(text: &str) -> String {
    let mut short: String = printable(text).replace('`', "'").chars().take(61).collect();
    if short.chars().count() > 60 {
        short = short.chars().take(59).chain(['…']).collect();
    }
    format!("`{short}`")
}

/// Returns the candidate nearest to a word, when one is near enough to be meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect::<String>().to_lowercase().replace('-', "_");
    let allowed = (word.chars().count() / 3).max(2);
    candidates
        .map(|c| (strsim::damerau_levenshtein(&word, &c.replace('-', "_")), c))
        .filter(|(distance, c)| *distance <= allowed && *distance < c.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_the_caret_and_control_characters_are_not_passed_on() {
        let mut sources = Sources::default();
        let text = format!("a: {}\u{1b}[31mX{}\n", "y".repeat(300), "z".repeat(300));
        let source = sources.add("loop.yml", Medium::File, &text);
        let error = sources.error(At { source, line: 1, column: 304, len: 5 }, "bad");
        let lines: Vec<&str> = error.what.lines().collect();
        assert_eq!(lines[0], "loop.yml:1:304: bad");
        assert!(lines[2].chars().count() < 110, "{}", lines[2]);
        assert!(!error.what.contains('\u{1b}'));
        let caret = lines[3].chars().position(|c| c == '^');
        assert_eq!(caret.and_then(|at| lines[2].chars().nth(at)), Some('?'));
    }

    #[test]
    fn only_a_near_word_is_offered() {
        assert_eq!(nearest("iteratons", ["iterations", "time"].into_iter()), Some("iterations"));
        assert_eq!(nearest("banana", ["iterations", "time"].into_iter()), None);
    }
}
