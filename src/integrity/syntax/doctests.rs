//! Puts the examples in the documentation of one state of a source into another state of it: where a check
//! runs them they are tests, although they stand in what is tested.
//!
//! Lines are looked at and no syntax: an example belongs to the definition before it (Python) or behind it
//! (Rust), and only what is there in both states is put back.

use super::Language;
use std::collections::HashMap;

/// A run of lines that is one example, or one documentation comment with examples.
struct Block<'text> {
    /// The definition it belongs to, and the how many-th of this definition it is.
    key: Key,
    /// Its lines, from the first to the one behind the last.
    lines: std::ops::Range<usize>,
    /// What is run of it, without blanks around lines.
    code: Vec<&'text str>,
}

/// The `candidate` with the examples of `t0` in place of its own; none where none differs, or where a text
/// cannot be read.
pub fn splice_doctests(language: Language, t0: &[u8], candidate: &[u8]) -> Option<Vec<u8>> {
    let (then, now) = (std::str::from_utf8(t0).ok()?, std::str::from_utf8(candidate).ok()?);
    let (old_lines, new_lines): (Vec<&str>, Vec<&str>) =
        (then.split_inclusive('\n').collect(), now.split_inclusive('\n').collect());
    let (old, new) = (blocks(language, &old_lines)?, blocks(language, &new_lines)?);
    let before: HashMap<&Key, &Block<'_>> = old.iter().map(|block| (&block.key, block)).collect();
    let mut result = String::with_capacity(now.len());
    let (mut at, mut differs) = (0, false);
    for block in &new {
        let Some(was) = before.get(&block.key).filter(|was| was.code != block.code) else {
            continue;
        };
        result.extend(new_lines.get(at..block.lines.start)?.iter().copied());
        result.extend(old_lines.get(was.lines.clone())?.iter().copied());
        at = block.lines.end;
        differs = true;
    }
    result.extend(new_lines.get(at..)?.iter().copied());
    differs.then(|| result.into_bytes())
}

/// A definition, and the how many-th block of it.
type Key = (String, usize);

fn blocks<'text>(language: Language, lines: &[&'text str]) -> Option<Vec<Block<'text>>> {
    match language {
        Language::Python => Some(python(lines)),
        Language::Rust => Some(rust(lines)),
        _ => None,
    }
}

/// Counts the blocks of each definition.
#[derive(Default)]
struct Keys(HashMap<String, usize>);

impl Keys {
    fn next(&mut self, owner: &str) -> Key {
        let count = self.0.entry(owner.to_owned()).or_default();
        *count += 1;
        (owner.to_owned(), *count)
    }
}

/// Examples of Python's doctest: from a prompt to an empty line or the end of the text they stand in.
fn python<'text>(lines: &[&'text str]) -> Vec<Block<'text>> {
    let (mut found, mut keys) = (Vec::new(), Keys::default());
    let (mut owner, mut from) = (String::new(), None);
    for (number, line) in lines.iter().chain([&""]).enumerate() {
        let text = line.trim();
        let ends = text.is_empty() || text.starts_with("\"\"\"") || text.starts_with("'''");
        match from {
            None if text.starts_with(">>>") => from = Some(number),
            Some(start) if ends => {
                let code = lines.get(start..number).unwrap_or_default();
                let code = code.iter().map(|line| line.trim()).collect();
                found.push(Block { key: keys.next(&owner), lines: start..number, code });
                from = None;
            }
            _ => {}
        }
        let words = text.strip_prefix("async ").unwrap_or(text);
        if let (None, Some(rest)) =
            (from, words.strip_prefix("def ").or_else(|| words.strip_prefix("class ")))
        {
            owner = rest.split(['(', ':', '[']).next().unwrap_or_default().trim().to_owned();
        }
    }
    found
}

/// Documentation comments of Rust with code in them, of the item behind each, or of the file.
fn rust<'text>(lines: &[&'text str]) -> Vec<Block<'text>> {
    let (mut found, mut keys) = (Vec::new(), Keys::default());
    let mut number = 0;
    while number < lines.len() {
        let Some(mark) = mark_of(lines[number]) else {
            number += 1;
            continue;
        };
        let start = number;
        while number < lines.len() && mark_of(lines[number]) == Some(mark) {
            number += 1;
        }
        let code = fenced(lines.get(start..number).unwrap_or_default(), mark);
        if code.is_empty() {
            continue;
        }
        let mut behind = lines.get(number..).unwrap_or_default().iter().map(|line| line.trim());
        let item = behind.find(|line| !line.is_empty() && !line.starts_with("#["));
        let owner = match (mark, item) {
            ("//!", _) | (_, None) => String::new(),
            (_, Some(item)) => {
                item.split(['(', '{', ';', '<']).next().unwrap_or_default().trim().to_owned()
            }
        };
        found.push(Block { key: keys.next(&owner), lines: start..number, code });
    }
    found
}

fn mark_of(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    ["///", "//!"].into_iter().find(|mark| line.starts_with(mark) && !line.starts_with("////"))
}

/// The lines between fences, the fences among them.
fn fenced<'text>(lines: &[&'text str], mark: &str) -> Vec<&'text str> {
    let mut inside = false;
    let mut code = Vec::new();
    for line in lines {
        let text = line.trim().strip_prefix(mark).unwrap_or_default().trim();
        let is_fence = text.starts_with("```");
        if inside || is_fence {
            code.push(text);
        }
        inside ^= is_fence;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(language: Language, then: &str, now: &str) -> Option<String> {
        let done = splice_doctests(language, then.as_bytes(), now.as_bytes())?;
        Some(String::from_utf8(done).unwrap())
    }

    #[test]
    fn examples_of_the_start_stand_in_the_code_of_now() {
        let then = "def add(a, b):\n    \"\"\"Sum.\n\n    >>> add(1, 2)\n    3\n    \"\"\"\n    return a - b\n\n\ndef mul(a, b):\n    \"\"\"\n    >>> mul(1, 2)\n    2\n    \"\"\"\n";
        let now = then.replace("    3\n", "    -1\n").replace("Sum.", "The sum.");
        let fixed = then.replace("Sum.", "The sum.");
        assert_eq!(spliced(Language::Python, then, &now).unwrap(), fixed);
        assert_eq!(spliced(Language::Python, then, &then.replace("a - b", "a + b")), None);
        let moved = "def mul(a, b):\n    \"\"\"\n    >>> mul(1, 2)\n    2\n    \"\"\"\n";
        assert_eq!(spliced(Language::Python, then, moved), None, "what is gone has no place");

        let then = "/// Sum.\n///\n/// ```\n/// assert_eq!(x::add(1, 2), 3);\n/// ```\npub fn add(a: i32) {}\n/// None.\nfn other() {}\n";
        let now = then.replace("3)", "-1)").replace("fn add(a: i32) {}", "fn add(a: i64) { }");
        let fixed = now.replace("-1)", "3)");
        assert_eq!(spliced(Language::Rust, then, &now).unwrap(), fixed);
        assert_eq!(spliced(Language::Rust, then, &then.replace("Sum", "The sum")), None);
    }

    #[test]
    fn any_bytes_are_taken() {
        for text in ["", ">>>", "///", "/// ```", "\u{feff}>>> a\r\n", "def (\n>>> b\n'''"] {
            for language in [Language::Python, Language::Rust, Language::Go] {
                let _ = splice_doctests(language, text.as_bytes(), b">>> c\n/// ```\n/// d\n");
            }
        }
        assert_eq!(splice_doctests(Language::Python, b"\xff", b">>> a"), None);
    }
}
