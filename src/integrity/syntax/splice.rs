//! Puts the inline tests of one state of a Rust file into another state of it.

use std::ops::Range;

use super::tree::Tree;
use super::{Language, rust, tokens};

/// An item that exists only for tests.
struct Part {
    /// The modules around it from outside in.
    path: Vec<String>,
    bytes: Range<usize>,
    hash: u64,
}

struct Parts {
    items: Vec<Part>,
    /// Where each module that is not only for tests ends, before its brace.
    modules: Vec<(Vec<String>, usize)>,
    /// `#![cfg(test)]`: all of the file is only for tests.
    whole: bool,
}

/// Whether a Rust file holds tests or items that exist only for tests.
pub fn has_inline_tests(text: &[u8]) -> bool {
    Tree::parse(Language::Rust, text).is_some_and(|tree| {
        let parts = parts(&tree);
        parts.whole || !parts.items.is_empty()
    })
}

/// A hash of each item that exists only for tests, in reading order.
pub fn inline_items(text: &[u8]) -> Vec<u64> {
    let Some(tree) = Tree::parse(Language::Rust, text) else { return Vec::new() };
    parts(&tree).items.iter().map(|part| part.hash).collect()
}

/// The `candidate` with the test items of `t0` in place of its own.
///
/// They go where the candidate's stood, else at the end of the module of the same path, else they are left
/// out with their module. Where the test items are equal but for layout, the candidate stays as it is. None
/// where a text has syntax errors or cannot be read.
pub fn splice_tests(t0: &[u8], candidate: &[u8]) -> Option<Vec<u8>> {
    let old_tree = Tree::parse(Language::Rust, t0).filter(|tree| tree.errors == 0)?;
    let new_tree = Tree::parse(Language::Rust, candidate).filter(|tree| tree.errors == 0)?;
    let (old, new) = (parts(&old_tree), parts(&new_tree));
    if old_tree.exhausted() || new_tree.exhausted() {
        return None;
    }
    if old.whole {
        return Some(t0.to_vec());
    }
    if new.whole {
        return None;
    }
    let key = |part: &Part| (part.path.clone(), part.hash);
    if old.items.iter().map(key).eq(new.items.iter().map(key)) {
        return Some(candidate.to_vec());
    }
    // (where, whether it takes the place of an item, text)
    let mut edits: Vec<(Range<usize>, Vec<u8>)> =
        new.items.iter().map(|part| (with_line_end(candidate, &part.bytes), Vec::new())).collect();
    for (path, end) in &new.modules {
        let mut insert = Vec::new();
        for part in old.items.iter().filter(|part| part.path == *path) {
            insert.extend(text_of(t0, &part.bytes));
        }
        if insert.is_empty() {
            continue;
        }
        let first = new.items.iter().position(|part| part.path == *path);
        match first.and_then(|first| edits.get_mut(first)) {
            Some(edit) => edit.1 = insert,
            None => {
                let needs_break = *end > 0 && candidate.get(*end - 1) != Some(&b'\n');
                let mut text = if needs_break { b"\n".to_vec() } else { Vec::new() };
                text.push(b'\n');
                text.extend(insert);
                edits.push((*end..*end, text));
            }
        }
    }
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut result = Vec::with_capacity(t0.len() + candidate.len());
    let mut from = 0;
    for (range, text) in edits {
        if range.start < from {
            continue;
        }
        result.extend_from_slice(candidate.get(from..range.start)?);
        result.extend(text);
        from = range.end;
    }
    result.extend_from_slice(candidate.get(from..)?);
    Tree::parse(Language::Rust, &result).filter(|tree| tree.errors == 0)?;
    Some(result)
}

/// The item from the start of its line with one line end after it.
fn text_of(text: &[u8], bytes: &Range<usize>) -> Vec<u8> {
    let mut start = bytes.start;
    while start > 0 && matches!(text.get(start - 1), Some(b' ' | b'\t')) {
        start -= 1;
    }
    let mut item = text.get(start..bytes.end).unwrap_or_default().to_vec();
    item.push(b'\n');
    item
}

/// Blanks before an item and the line end after it go with it.
fn with_line_end(text: &[u8], bytes: &Range<usize>) -> Range<usize> {
    let mut start = bytes.start;
    while start > 0 && matches!(text.get(start - 1), Some(b' ' | b'\t')) {
        start -= 1;
    }
    let mut end = bytes.end;
    while matches!(text.get(end), Some(b' ' | b'\t' | b'\r')) {
        end += 1;
    }
    if text.get(end) == Some(&b'\n') { start..end + 1 } else { start..bytes.end }
}

fn parts(tree: &Tree<'_>) -> Parts {
    let mut found = Parts { items: Vec::new(), modules: Vec::new(), whole: false };
    let mut open: Vec<(usize, Vec<String>)> = vec![(0, Vec::new())];
    while let Some((block, path)) = open.pop() {
        let end =
            if block == 0 { tree.text.len() } else { tree.bytes(block).end.saturating_sub(1) };
        found.modules.push((path.clone(), end));
        for item in tree.named(block) {
            match tree.kind(item) {
                "inner_attribute_item" => {
                    found.whole |= block == 0 && rust::is_cfg_test(tree, item);
                    continue;
                }
                "attribute_item" => continue,
                _ => {}
            }
            let attributes = rust::attributes(tree, item);
            let only_tests = attributes.iter().any(|attribute| {
                rust::is_cfg_test(tree, *attribute)
                    || tree.kind(item) == "function_item" && rust::is_test(tree, *attribute)
            });
            if only_tests {
                found.items.push(part(tree, item, &attributes, &path));
            } else if tree.kind(item) == "mod_item"
                && path.len() < 64
                && let (Some(name), Some(body)) =
                    (tree.child(item, "name"), tree.child(item, "body"))
            {
                let mut path = path.clone();
                path.push(tree.text(name).to_owned());
                open.push((body, path));
            }
        }
    }
    found
}

fn part(tree: &Tree<'_>, item: usize, attributes: &[usize], path: &[String]) -> Part {
    let mut first = attributes.last().copied().unwrap_or(item);
    // Doc comments belong to the item.
    while let Some(before) = tree.before(first) {
        let is_doc = tree.is_comment(before) && tree.child(before, "outer").is_some();
        if !is_doc {
            break;
        }
        first = before;
    }
    // A doc comment ends with its line, the macro call of an item with a semicolon of its own.
    let mut last = item;
    if let Some(next) = tree.next(item).filter(|next| tree.kind(*next) == "empty_statement") {
        last = next;
    }
    Part {
        path: path.to_vec(),
        bytes: tree.bytes(first).start..tree.bytes(last).end,
        hash: tokens::hash(tree, first..tree.after(last), &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: &str = "pub fn add(a: u8, b: u8) -> u8 {\n    a - b\n}\n\npub mod inner {\n    pub fn one() -> u8 {\n        1\n    }\n\n    #[test]\n    fn is_one() {\n        assert_eq!(one(), 1);\n    }\n}\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n    }\n}\n";

    fn spliced(candidate: &str) -> String {
        String::from_utf8(splice_tests(T0.as_bytes(), candidate.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn tests_of_t0_take_the_place_of_the_candidates_and_the_code_stays() {
        let fixed = T0.replace("a - b", "a + b");
        assert_eq!(spliced(&fixed), fixed, "equal tests leave the candidate as it is");
        let laid_out =
            fixed.replace("assert_eq!(one(), 1);", "// c\n        assert_eq!(one(), 1,);");
        assert_eq!(spliced(&laid_out), laid_out);
        for (from, to) in [
            ("#[test]\n    fn adds", "#[test]\n    #[ignore]\n    fn adds"),
            ("assert_eq!(one(), 1)", "assert!(true)"),
            ("    #[test]\n    fn is_one() {\n        assert_eq!(one(), 1);\n    }\n", ""),
        ] {
            let restored = spliced(&fixed.replace(from, to));
            assert_eq!(
                restored.split_whitespace().collect::<String>(),
                fixed.split_whitespace().collect::<String>(),
                "{to}"
            );
        }
    }

    #[test]
    fn tests_that_are_gone_come_back_at_the_end_and_added_ones_go() {
        let (code, _) = T0.split_once("#[cfg(test)]").unwrap();
        let restored = spliced(code);
        assert!(restored.trim_end().ends_with("assert_eq!(add(1, 2), 3);\n    }\n}"));
        let added = format!("{T0}\n#[cfg(test)]\nmod more {{}}\n\n#[test]\nfn other() {{}}\n");
        let restored = spliced(&added);
        assert!(!restored.contains("more") && !restored.contains("other"));
        assert!(has_inline_tests(T0.as_bytes()));
        assert!(!has_inline_tests(b"fn a() {}\n"));
        assert_eq!(splice_tests(T0.as_bytes(), b"fn a( {"), None);
    }
}
