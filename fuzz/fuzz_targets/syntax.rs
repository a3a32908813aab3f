//! Feeds any bytes to the readers of test files, the language chosen by the first byte: they must not panic,
//! places lie inside the text, and a file compared with itself, or put into itself, is that file.
//!
//! Run it with `-max_len=4096`: texts made to be ambiguous let one step of tree-sitter's Java grammar take
//! gigabytes at 20 KiB, and no limit of ours comes between.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopexec::integrity::syntax::{
    Language, TestItem, compare, digest, functions, has_inline_tests, plant_sentinel, scan,
    shift_expected, splice_doctests, splice_tests,
};

const LANGUAGES: [Language; 11] = [
    Language::Python,
    Language::Rust,
    Language::Go,
    Language::JavaScript,
    Language::TypeScript,
    Language::Tsx,
    Language::Java,
    Language::Ruby,
    Language::CSharp,
    Language::Php,
    Language::Cpp,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((which, text)) = bytes.split_first() else { return };
    let language = LANGUAGES[usize::from(*which) % LANGUAGES.len()];
    assert_eq!(digest(language, text), digest(language, text));
    if let Some(outline) = functions(language, text) {
        for function in &outline.functions {
            assert!(text.get(function.span.clone()).is_some(), "{function:?}");
        }
    }
    if language == Language::Rust {
        has_inline_tests(text);
        assert!(splice_tests(text, text).is_none_or(|spliced| spliced == text));
        let (one, other) = text.split_at(text.len() / 2);
        splice_tests(one, other);
    }
    assert_eq!(splice_doctests(language, text, text), None);
    let (one, other) = text.split_at(text.len() / 2);
    splice_doctests(language, one, other);
    if let Some(planted) = plant_sentinel(language, text, "k7") {
        assert!(planted.text.len() > text.len() && planted.name.contains("k7"), "{planted:?}");
    }
    let Some(found) = scan(language, text) else { return };
    for item in &found.items {
        assert!(text.get(item.span.clone()).is_some(), "{item:?}");
        assert!(item.line > 0, "{item:?}");
        for place in &item.expected {
            assert!(text.get(place.clone()).is_some(), "{item:?}");
        }
    }
    let items: Vec<&TestItem> = found.items.iter().collect();
    if let Some(shifted) = shift_expected(language, text, &items) {
        assert_ne!(shifted, text);
    }
    let side = [("t".to_owned(), found)];
    let compared = compare(&side, &side);
    assert!(compared.lost.is_empty() && compared.weakened.is_empty(), "{compared:?}");
});
