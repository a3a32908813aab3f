//! What a test file says, read without running it: its tests, what they assert, and how two states differ.
//!
//! Pure functions on bytes. `tree` parses, the language files say what a test and an assertion look like,
//! `measure` counts, `compare` matches the tests of two states, `shift`, `plant` and `splice` write the
//! texts that canary runs need. What cannot be read is unknown, never zero.

mod compare;
#[cfg(test)]
mod compare_tests;
mod cpp;
mod csharp;
mod doctests;
mod go;
mod java;
mod javascript;
mod literal;
mod measure;
mod outline;
mod php;
mod plant;
mod plant_class;
mod python;
mod rows;
mod ruby;
mod rust;
mod shift;
mod splice;
mod swallow;
mod tokens;
mod tree;

use std::collections::BTreeMap;
use std::ops::Range;

pub use compare::{At, Comparison, Weakened, Weakening, compare};
pub use doctests::splice_doctests;
pub use outline::{Function, Outline, functions};
pub use plant::{Planted, plant_sentinel};
pub use shift::shift_expected;
pub use splice::{has_inline_tests, inline_items, splice_tests};

use tree::Tree;

/// A language whose tests can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// pytest, unittest.
    Python,
    /// libtest and the attributes that build on it.
    Rust,
    /// go test, testify.
    Go,
    /// jest, vitest, mocha, node, Deno.
    JavaScript,
    /// As JavaScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// JUnit, AssertJ.
    Java,
    /// RSpec, minitest.
    Ruby,
    /// xUnit, NUnit, MSTest.
    CSharp,
    /// PHPUnit, Pest.
    Php,
    /// C and C++: googletest, Catch2, doctest.
    Cpp,
}

impl Language {
    /// The language of a file by its extension.
    pub fn of(path: &str) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        Some(match extension {
            "py" | "pyi" => Self::Python,
            "rs" => Self::Rust,
            "go" => Self::Go,
            "js" | "mjs" | "cjs" | "jsx" => Self::JavaScript,
            "ts" | "mts" | "cts" => Self::TypeScript,
            "tsx" => Self::Tsx,
            "java" => Self::Java,
            "rb" => Self::Ruby,
            "cs" => Self::CSharp,
            "php" => Self::Php,
            "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" => Self::Cpp,
            _ => return None,
        })
    }
}

/// One test as its file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestItem {
    /// As the last part of the runner's id: `test_add`, `TestAdd`, `adds two numbers`.
    pub name: String,
    /// Classes, modules, describes from outside in.
    pub containers: Vec<String>,
    /// Of the first decorator or attribute, from 1.
    pub line: u32,
    /// Bytes, decorators and attributes included.
    pub span: Range<usize>,
    /// Hash of the parameters and the body without name, decorators, comments, docstrings, layout, quote
    /// style and trailing commas.
    pub body: u64,
    /// Reachable assertions that can fail, those of helper functions of the same file included.
    pub assertions: u32,
    /// Sorted hashes of all assertions, helpers not expanded.
    pub checks: Vec<u64>,
    /// Sorted names of what keeps the test from running or turns its result round, on the item, a container
    /// or the file.
    pub markers: Vec<String>,
    /// Whether a failed assertion is caught and forgotten.
    pub swallows: bool,
    /// Bytes of the literals that an equality assertion compares with directly.
    pub expected: Vec<Range<usize>>,
    /// Sorted hashes of all literals, those of decorators included.
    pub literals: Vec<u64>,
    /// Sorted names of what the test calls and this file does not define.
    pub calls: Vec<String>,
    /// Whether the test runs over a table or in a loop.
    pub table: bool,
}

/// The tests of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// In reading order.
    pub items: Vec<TestItem>,
    /// The file has syntax errors: what was counted may be too little.
    pub broken: bool,
    /// How many assertions each function that is not a test comes to, by name.
    pub helpers: BTreeMap<String, u32>,
}

/// A file that was parsed, for whoever wants both its hash and its tests: parsing is most of the work.
pub struct Parsed<'text>(Tree<'text>);

impl<'text> Parsed<'text> {
    /// Parses a file.
    ///
    /// None where the text is over 4 MiB or would take more work than a real file does. Bytes that are not
    /// UTF-8 are tolerated.
    pub fn of(language: Language, text: &'text [u8]) -> Option<Self> {
        Tree::parse(language, text).map(Self)
    }

    /// As [`scan`].
    pub fn scan(&self) -> Option<Scan> {
        self.0.refuel();
        measure::scan(&self.0)
    }

    /// As [`digest`].
    pub fn digest(&self) -> Option<u64> {
        let tree = &self.0;
        tree.refuel();
        let digest = tokens::hash(tree, 0..tree.nodes.len(), &[]);
        (tree.errors == 0 && !tree.exhausted()).then_some(digest)
    }
}

/// Reads the tests of a file.
///
/// None where it cannot be parsed, or is too much work to read.
pub fn scan(language: Language, text: &[u8]) -> Option<Scan> {
    Parsed::of(language, text)?.scan()
}

/// Hash of a file's tokens without comments, layout, quote style and trailing commas.
///
/// None where the file has syntax errors or cannot be read.
pub fn digest(language: Language, text: &[u8]) -> Option<u64> {
    Parsed::of(language, text)?.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_nesting_and_wide_files_neither_overflow_nor_hang() {
        let languages = [Language::Python, Language::Rust, Language::Go, Language::JavaScript];
        for language in languages {
            for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
                let text = format!("x = {}1{}", open.repeat(25_000), close.repeat(25_000));
                assert_eq!(digest(language, text.as_bytes()), None);
                scan(language, text.as_bytes());
            }
        }
        let nested = "it('a', () => { expect(a).toBe(1); ".repeat(2_000);
        assert!(scan(Language::JavaScript, nested.as_bytes()).is_none_or(|scan| scan.broken));
        assert_eq!(scan(Language::Python, &vec![b' '; (4 << 20) + 1]), None);
    }

    #[test]
    fn bytes_that_are_not_utf_8_do_not_hide_tests() {
        let scan = scan(Language::Python, b"def test_a():\n    assert f() == '\xff'\n").unwrap();
        assert_eq!((scan.items.len(), scan.items[0].assertions), (1, 1));
    }

    #[test]
    fn functions_and_the_rest_of_a_file_are_told_apart() {
        let text = b"import a\n\n@fixture\ndef one():\n    return 1\n\nclass B:\n    def two(self): pass\n";
        let outline = functions(Language::Python, text).unwrap();
        let names: Vec<&str> = outline.functions.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["one", "B.two"]);
        assert_eq!(outline.functions[0].decorators, ["@fixture"]);
        let more = [&text[..], b"\n\ndef three(): pass\n"].concat();
        let added = functions(Language::Python, &more).unwrap();
        assert_eq!(added.rest, outline.rest);
        assert_eq!(added.functions[..2], outline.functions[..]);
    }
}
