//! Where a text stands inside a larger one: places in a scalar of a workflow file, as places of that file.
//!
//! A literal block (`|`) and a scalar of one line keep every character, so line and column are exact.
//! Folded and escaped scalars do not; there the line the scalar starts in is all that is said.

use crate::config::diagnostic::At;

/// A text that was filled in where an expression stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edit {
    /// Line of the filled text, from 1.
    pub(crate) line: usize,
    /// Column of the filled text in characters, from 1.
    pub(crate) column: usize,
    /// Characters it has now.
    pub(crate) new: usize,
    /// Characters the expression had.
    pub(crate) old: usize,
}

/// How the lines of a scalar lie in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lie {
    /// Line 1 lies in line `first` of the file, and each line `indent` characters further right.
    Exact { first: usize, indent: usize },
    /// Only the start is known.
    Start,
}

/// Where a scalar stands in a file.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The whole file.
    pub(crate) text: String,
    start: At,
    lie: Lie,
    edits: Vec<Edit>,
}

impl Frame {
    /// Finds out how a scalar lies in a file; `at` is where the YAML reader saw it start.
    pub(crate) fn of(file: &str, scalar: &str, at: At) -> Self {
        let lines: Vec<&str> = file.split('\n').map(|line| line.trim_end_matches('\r')).collect();
        let (start, lie) = aliased(&lines, scalar, at)
            .or_else(|| block(&lines, scalar, at).map(|lie| (at, lie)))
            .or_else(|| one_line(&lines, scalar, at).map(|lie| (at, lie)))
            .unwrap_or((at, Lie::Start));
        Self { text: file.to_owned(), start, lie, edits: Vec::new() }
    }

    /// Says which parts of the scalar were filled in afterwards.
    pub(crate) fn edited(mut self, edits: Vec<Edit>) -> Self {
        self.edits = edits;
        self
    }

    /// Gives up exact lines: what was filled in has several.
    pub(crate) fn inexact(mut self) -> Self {
        self.lie = Lie::Start;
        self
    }

    /// Says whether every place of the scalar is known.
    #[cfg(test)]
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.lie, Lie::Exact { .. })
    }

    /// Returns the place in the file of a place in the scalar.
    pub(crate) fn place(&self, at: At) -> At {
        let Lie::Exact { first, indent } = self.lie else {
            return At { source: at.source, len: 1, ..self.start };
        };
        let (column, len) = self.unedited(at);
        let mut place =
            At { line: first + at.line.saturating_sub(1), column: column + indent, len, ..at };
        // What is said of the end of the text lies in the last line there is.
        let last = self.text.split('\n').count().max(1);
        if place.line > last {
            place = At { line: last, column: 1, len: 1, ..place };
        }
        place
    }

    /// Returns column and length as they were before expressions were filled in.
    fn unedited(&self, at: At) -> (usize, usize) {
        let (mut column, mut len) = (at.column, at.len);
        let mut shift = 0_isize;
        for edit in self.edits.iter().filter(|edit| edit.line == at.line) {
            if edit.column + edit.new <= at.column {
                shift += signed(edit.old) - signed(edit.new);
            } else if edit.column <= at.column {
                // Inside of what was filled in: the expression is what stands there.
                shift -= signed(at.column - edit.column);
                len = edit.old;
            }
        }
        column = usize::try_from(signed(column) + shift).unwrap_or(1).max(1);
        (column, len)
    }
}

fn signed(number: usize) -> isize {
    isize::try_from(number).unwrap_or(isize::MAX)
}

/// Checks that a scalar lies in a file as a literal block whose first line with text is at `at`.
fn block(lines: &[&str], scalar: &str, at: At) -> Option<Lie> {
    let indent = at.column.checked_sub(1)?;
    let wanted: Vec<&str> = scalar.split('\n').collect();
    let blank = wanted.iter().take_while(|line| line.trim_matches([' ', '\t']).is_empty()).count();
    let first = at.line.checked_sub(blank).filter(|first| *first > 0)?;
    // The line above holds the `|`.
    let header = lines.get(first.checked_sub(2)?)?;
    if !is_literal_header(header) {
        return None;
    }
    let count = if scalar.ends_with('\n') { wanted.len() - 1 } else { wanted.len() };
    for (index, line) in wanted.iter().take(count).enumerate() {
        let found = lines.get(first - 1 + index)?;
        let margin = found.chars().take(indent).all(|c| c == ' ');
        let rest: String = found.chars().skip(indent).collect();
        if !margin || rest != *line {
            return None;
        }
    }
    Some(Lie::Exact { first, indent })
}

/// Says whether a line ends in the head of a literal block: `|`, then an indent, a chomp, a comment.
fn is_literal_header(line: &str) -> bool {
    let Some((_, rest)) = line.rsplit_once('|') else { return false };
    let mut parts = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '+');
    parts = parts.trim_start();
    parts.is_empty() || parts.starts_with('#')
}

/// Checks that a scalar lies in one line as it is, in quotes or without.
fn one_line(lines: &[&str], scalar: &str, at: At) -> Option<Lie> {
    if scalar.contains('\n') {
        return None;
    }
    let found = lines.get(at.line.checked_sub(1)?)?;
    let rest: String = found.chars().skip(at.column.checked_sub(1)?).collect();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let (rest, indent) = match quote {
        Some(quote) => (rest.strip_prefix(quote)?, at.column),
        None => (rest.as_str(), at.column - 1),
    };
    rest.starts_with(scalar).then_some(Lie::Exact { first: at.line, indent })
}

/// Finds the literal block that an alias stands for.
fn aliased(lines: &[&str], scalar: &str, at: At) -> Option<(At, Lie)> {
    let line = lines.get(at.line.checked_sub(1)?)?;
    let rest: String = line.chars().skip(at.column.checked_sub(1)?).collect();
    let name: String = rest.strip_prefix('*')?.chars().take_while(|c| is_anchor(*c)).collect();
    let anchor = format!("&{name}");
    let defined = (0..at.line.saturating_sub(1)).rev().find(|index| {
        lines.get(*index).and_then(|line| line.split_once(anchor.as_str())).is_some_and(
            |(_, rest)| !rest.starts_with(is_anchor) && rest.trim_start().starts_with('|'),
        )
    })?;
    let (offset, content) =
        lines.iter().enumerate().skip(defined + 1).find(|(_, line)| !line.trim().is_empty())?;
    let column = content.chars().take_while(|c| *c == ' ').count() + 1;
    let start = At { line: offset + 1, column, ..at };
    block(lines, scalar, start).map(|lie| (start, lie))
}

fn is_anchor(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ',' | '[' | ']' | '{' | '}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::diagnostic::{Medium, Sources};
    use crate::config::tree::{self, Node, Value};
    use proptest::prelude::*;

    fn child<'a>(node: &'a Node, key: &str) -> &'a Node {
        let Value::Map(entries) = &node.value else { panic!("no map") };
        &entries.iter().find(|(found, _)| found.text == key).unwrap().1
    }

    fn frame_of(file: &str, path: &[&str]) -> (Frame, String) {
        let mut sources = Sources::default();
        let source = sources.add("ci.yml", Medium::File, file);
        let root = tree::parse_foreign(&sources, source).unwrap().unwrap();
        let node = path.iter().fold(&root, |node, key| child(node, key));
        let Value::Text(text) = &node.value else { panic!("no text: {node:?}") };
        (Frame::of(file, text, node.at), text.clone())
    }

    fn at(line: usize, column: usize) -> At {
        At { line, column, len: 1, source: 0 }
    }

    /// Every character of the scalar, but line ends, is the character of the file at its place.
    fn lies(file: &str, path: &[&str]) {
        let (frame, text) = frame_of(file, path);
        assert!(frame.is_exact(), "{file}");
        let lines: Vec<&str> = file.split('\n').collect();
        for (row, line) in text.split('\n').enumerate() {
            for (column, c) in line.chars().enumerate() {
                let place = frame.place(at(row + 1, column + 1));
                let found = lines[place.line - 1].chars().nth(place.column - 1);
                assert_eq!(found, Some(c), "{row}:{column} of {file:?}");
            }
        }
    }

    #[test]
    fn places_of_literal_and_one_line_scalars_are_exact() {
        for file in [
            "a:\n  b: |\n    one\n     two\n\n    three\nc: 1\n",
            "a:\n  b: |2-  # said\n      one\n    two\n",
            "a:\n  b: |\n\n\n    one\n",
            "a:\r\n  b: |\r\n    one\r\n    two\r\n",
            "a:\n  b: 'one: 1'\n",
            "a: {b: \"one\"}\n",
            "a:\n  b: plain text # said\n",
            "x: &l |\n    one\n    two\na:\n  b: *l\n",
            "a:\n  b: |+\n    one\n\n\n",
            "a:\n  b: |\n    a | b\n    c",
        ] {
            lies(file, &["a", "b"]);
        }
    }

    #[test]
    fn a_folded_scalar_says_the_line_it_starts_in() {
        for (file, line) in [
            ("a:\n  b: >-\n    one\n    two\n", 3),
            ("a:\n  b: 'one\n    two'\n", 2),
            ("a:\n  b: \"o\\nne\"\n", 2),
        ] {
            let (frame, _) = frame_of(file, &["a", "b"]);
            assert!(!frame.is_exact(), "{file}");
            assert_eq!(frame.place(at(7, 9)).line, line, "{file}");
        }
    }

    #[test]
    fn what_was_filled_in_does_not_move_the_caret() {
        let file = "b: |\n  x: ${{ m.py }} y: z\n";
        let (frame, _) = frame_of(file, &["b"]);
        // `x: 3 y: z`
        let frame = frame.edited(vec![Edit { line: 1, column: 4, new: 1, old: 11 }]);
        assert_eq!(frame.place(at(1, 1)).column, 3);
        assert_eq!((frame.place(at(1, 4)).column, frame.place(at(1, 4)).len), (6, 11));
        assert_eq!(frame.place(at(1, 6)).column, 18);
    }

    proptest! {
        #[test]
        fn any_literal_block_lies_where_it_is(
            lines in prop::collection::vec("[a-z*&|>#'\"{}\\[\\]:, é-]{0,12}", 1..12),
            indent in 1_usize..8, outer in 0_usize..4, blank in 0_usize..3,
            keep in prop::sample::select(vec!["|", "|-", "|+"]),
            crlf in any::<bool>(),
        ) {
            prop_assume!(lines.iter().any(|line| !line.trim().is_empty()));
            let first = lines.iter().find(|line| !line.trim().is_empty()).unwrap();
            // What starts with blanks needs an indent that is written out.
            prop_assume!(!first.starts_with(' '));
            prop_assume!(lines.iter().take_while(|line| line.trim().is_empty()).all(|l| l.is_empty()));
            let end = if crlf { "\r\n" } else { "\n" };
            let pad = " ".repeat(outer);
            let mut file = format!("a:{end}{pad} b: {keep}{end}");
            for _ in 0..blank {
                file.push_str(end);
            }
            for line in &lines {
                if !line.is_empty() {
                    file.push_str(&" ".repeat(outer + 1 + indent));
                }
                file.push_str(line);
                file.push_str(end);
            }
            lies(&file, &["a", "b"]);
        }
    }
}
