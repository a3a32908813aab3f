//! A parsed file as one flat list of nodes in reading order.
//!
//! A subtree is a range of that list, so that every walk in this module is a loop: nothing recurses over a
//! depth that the author of a file chooses. What a node means is for the language files to say.

use std::cell::Cell;
use std::ops::{ControlFlow, Range};
use std::sync::OnceLock;

use tree_sitter::{ParseOptions, ParseState, Parser};

use super::Language;

/// Larger files are not read.
const MOST_BYTES: usize = 4 << 20;
/// About half of what 4 MiB of dense code come to.
const MOST_NODES: usize = 3_000_000;
/// Far above what people write, far below what would make climbing to the root dear.
const MOST_DEPTH: usize = 20_000;
/// How many parents are looked at when the surroundings of a node matter.
const MOST_CLIMB: usize = 512;

/// The parser reports once per hundred steps. Dense code takes a report per 40 bytes, most code one per 160;
/// text made to be ambiguous takes one per byte or two.
const BYTES_PER_CALL: usize = 12;
/// A second or two of work; reached only by dense files of over a megabyte and by texts made to be slow.
const MOST_CALLS: usize = 40_000;

/// How many brackets may be open at once, `<` counted as one.
const MOST_OPEN: usize = 3_000;

/// How much memory a parse may add: some ambiguous texts of 200 KB take many gigabytes, and a parser that
/// gets no memory ends the process. Looked at between steps only: one step of the Java grammar at the end of
/// a text such as `a => a => ..` can still take more.
const MOST_MIB: usize = 200;

/// No node: the parent of the root, the sibling before the first.
pub(super) const NONE: usize = u32::MAX as usize;

/// One node of the syntax tree.
pub(super) struct Node {
    /// The grammar's name of it; for tokens without a name their text.
    pub kind: &'static str,
    /// Its role in the parent, empty where the grammar gives none.
    pub field: &'static str,
    /// Bytes.
    pub start: u32,
    /// Bytes, exclusive.
    pub end: u32,
    /// From 1.
    pub line: u32,
    parent: u32,
    before: u32,
    last: u32,
    /// Whether the grammar names it, as opposed to punctuation and keywords.
    pub named: bool,
}

/// The nodes of one file.
pub(super) struct Tree<'text> {
    pub text: &'text [u8],
    pub nodes: Vec<Node>,
    /// How many error and missing nodes there are.
    pub errors: usize,
    pub language: Language,
    fuel: Cell<usize>,
}

/// Kept for the life of the process: kinds and fields borrow their names from here.
fn grammar(language: Language) -> &'static tree_sitter::Language {
    static GRAMMARS: [OnceLock<tree_sitter::Language>; 11] = [const { OnceLock::new() }; 11];
    let (place, function) = match language {
        Language::Python => (0, tree_sitter_python::LANGUAGE),
        Language::Rust => (1, tree_sitter_rust::LANGUAGE),
        Language::Go => (2, tree_sitter_go::LANGUAGE),
        Language::JavaScript => (3, tree_sitter_javascript::LANGUAGE),
        Language::TypeScript => (4, tree_sitter_typescript::LANGUAGE_TYPESCRIPT),
        Language::Tsx => (5, tree_sitter_typescript::LANGUAGE_TSX),
        Language::Java => (6, tree_sitter_java::LANGUAGE),
        Language::Ruby => (7, tree_sitter_ruby::LANGUAGE),
        Language::CSharp => (8, tree_sitter_c_sharp::LANGUAGE),
        Language::Php => (9, tree_sitter_php::LANGUAGE_PHP),
        Language::Cpp => (10, tree_sitter_cpp::LANGUAGE),
    };
    GRAMMARS[place].get_or_init(|| function.into())
}

/// Whether more brackets are open somewhere than in any real file.
///
/// An error below tens of thousands of open brackets that could also be comparisons takes the parser
/// gigabytes in one step, between two calls of its progress callback. This reads bytes, not tokens: a `<` that
/// compares is forgotten where a statement or a bracket ends.
fn nests_deeply(text: &[u8]) -> bool {
    let mut open: Vec<u8> = Vec::new();
    for byte in text {
        match byte {
            b'(' | b'[' | b'{' | b'<' => {
                open.push(*byte);
                if open.len() > MOST_OPEN {
                    return true;
                }
            }
            b'>' if open.last() == Some(&b'<') => {
                open.pop();
            }
            b';' | b')' | b']' | b'}' => {
                while open.last() == Some(&b'<') {
                    open.pop();
                }
                if *byte != b';' {
                    open.pop();
                }
            }
            _ => {}
        }
    }
    false
}

/// The memory that this process holds, in MiB; 0 where the system does not tell.
fn held_mib() -> usize {
    // Fields in pages: size, resident, ..
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<usize>().ok());
    pages.unwrap_or_default() / 256
}

impl<'text> Tree<'text> {
    /// Parses `text`. None where it is too large or deep, or takes more work than any real file does.
    pub fn parse(language: Language, text: &'text [u8]) -> Option<Self> {
        if text.len() > MOST_BYTES || nests_deeply(text) {
            return None;
        }
        let mut parser = Parser::new();
        let rules = grammar(language);
        parser.set_language(rules).ok()?;
        // Counted in calls and not in seconds: a busy machine must not change what is found.
        let mut calls = 0_usize;
        let most = (1_000 + text.len() / BYTES_PER_CALL).min(MOST_CALLS);
        let most_mib = held_mib() + MOST_MIB;
        let mut progress = |_: &ParseState| {
            calls += 1;
            if calls > most || held_mib() > most_mib {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut progress);
        let parsed = parser.parse_with_options(
            &mut |at, _| text.get(at..).unwrap_or_default(),
            None,
            Some(options),
        )?;
        let (nodes, errors) = flatten(&parsed, rules)?;
        let errors = errors - if language == Language::Cpp { bare_macros(text, &nodes) } else { 0 };
        let tree = Self { text, nodes, errors, language, fuel: Cell::new(0) };
        tree.refuel();
        Some(tree)
    }

    /// Lets the walks that follow cost as much as those over a tree that was just parsed.
    pub fn refuel(&self) {
        self.fuel.set(1_000_000 + 64 * self.nodes.len());
    }

    /// Takes `steps` from what all walks over this tree together may cost; false when it is used up.
    pub fn spend(&self, steps: usize) -> bool {
        let left = self.fuel.get();
        self.fuel.set(left.saturating_sub(steps));
        left > steps
    }

    /// Whether a walk was cut short, so that what was found is not all.
    pub fn exhausted(&self) -> bool {
        self.fuel.get() == 0
    }

    pub fn kind(&self, node: usize) -> &'static str {
        self.nodes.get(node).map_or("", |node| node.kind)
    }

    pub fn is_named(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|node| node.named)
    }

    pub fn field(&self, node: usize) -> &'static str {
        self.nodes.get(node).map_or("", |node| node.field)
    }

    pub fn bytes(&self, node: usize) -> Range<usize> {
        self.nodes.get(node).map_or(0..0, |node| node.start as usize..node.end as usize)
    }

    /// The text of a node; empty where it is not UTF-8.
    pub fn text(&self, node: usize) -> &'text str {
        let bytes = self.text.get(self.bytes(node)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The first node after the subtree of `node`.
    pub fn after(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(self.nodes.len(), |node| node.last as usize)
    }

    pub fn parent(&self, node: usize) -> Option<usize> {
        let parent = self.nodes.get(node)?.parent as usize;
        (parent != NONE).then_some(parent)
    }

    /// The sibling before `node`, tokens included.
    pub fn before(&self, node: usize) -> Option<usize> {
        let before = self.nodes.get(node)?.before as usize;
        (before != NONE).then_some(before)
    }

    /// The sibling after `node`, tokens included.
    pub fn next(&self, node: usize) -> Option<usize> {
        let next = self.after(node);
        (next < self.nodes.len() && self.parent(next) == self.parent(node)).then_some(next)
    }

    /// The children of `node`, tokens included.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.after(node);
        let mut next = node + 1;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let child = next;
            next = self.after(child);
            Some(child)
        })
    }

    /// The named children of `node` without comments.
    pub fn named(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        self.children(node).filter(|child| self.nodes[*child].named && !self.is_comment(*child))
    }

    pub fn child(&self, node: usize, field: &str) -> Option<usize> {
        self.children(node).find(|child| self.field(*child) == field)
    }

    pub fn child_of_kind(&self, node: usize, kind: &str) -> Option<usize> {
        self.children(node).find(|child| self.kind(*child) == kind)
    }

    /// The nodes of a subtree in reading order, the node itself first.
    pub fn subtree(&self, node: usize) -> Range<usize> {
        node..self.after(node)
    }

    /// The parents of `node` from the inside out; a bounded number of them.
    pub fn parents(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.parent(node), |node| self.parent(*node)).take(MOST_CLIMB)
    }

    pub fn is_leaf(&self, node: usize) -> bool {
        self.after(node) == node + 1
    }

    pub fn is_comment(&self, node: usize) -> bool {
        matches!(
            self.kind(node),
            "comment" | "line_comment" | "block_comment" | "html_comment" | "hash_bang_line"
        )
    }

    /// The last identifier below `node`: `b` of `a.b`, `x::b`, `a->b`.
    pub fn last_name(&self, node: usize) -> &'text str {
        let mut name = node;
        // Down the last named child, which in every grammar here is where the name stands.
        while let Some(child) = self.named(name).last() {
            if matches!(
                self.kind(child),
                "arguments"
                    | "argument_list"
                    | "type_arguments"
                    | "type_argument_list"
                    | "template_argument_list"
            ) {
                match self.named(name).filter(|other| *other != child).last() {
                    Some(other) => name = other,
                    None => break,
                }
            } else {
                name = child;
            }
        }
        self.text(name)
    }
}

fn flatten(
    parsed: &tree_sitter::Tree,
    grammar: &'static tree_sitter::Language,
) -> Option<(Vec<Node>, usize)> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut errors = 0;
    let mut open: Vec<u32> = Vec::new();
    let mut before = u32::MAX;
    let mut cursor = parsed.walk();
    loop {
        let node = cursor.node();
        let index = u32::try_from(nodes.len()).ok()?;
        if nodes.len() >= MOST_NODES || open.len() >= MOST_DEPTH {
            return None;
        }
        errors += usize::from(node.is_error() || node.is_missing());
        nodes.push(Node {
            kind: grammar.node_kind_for_id(node.kind_id()).unwrap_or("ERROR"),
            field: cursor
                .field_id()
                .and_then(|id| grammar.field_name_for_id(id.get()))
                .unwrap_or_default(),
            start: u32::try_from(node.start_byte()).ok()?,
            end: u32::try_from(node.end_byte()).ok()?,
            line: u32::try_from(node.start_position().row).ok()?.saturating_add(1),
            parent: open.last().copied().unwrap_or(u32::MAX),
            before,
            last: index + 1,
            named: node.is_named(),
        });
        if cursor.goto_first_child() {
            open.push(index);
            before = u32::MAX;
            continue;
        }
        let mut done = index;
        loop {
            if cursor.goto_next_sibling() {
                before = done;
                break;
            }
            let Some(parent) = open.pop() else { return Some((nodes, errors)) };
            cursor.goto_parent();
            let end = u32::try_from(nodes.len()).ok()?;
            if let Some(node) = nodes.get_mut(parent as usize) {
                node.last = end;
            }
            done = parent;
        }
    }
}

/// How many missing semicolons are none: Catch2's and doctest's macros have a block after them.
fn bare_macros(text: &[u8], nodes: &[Node]) -> usize {
    nodes
        .iter()
        .filter(|node| node.kind == ";" && node.start == node.end)
        .filter_map(|node| nodes.get(node.before as usize))
        .filter_map(|call| text.get(call.start as usize..call.end as usize))
        .filter(|call| {
            [&b"TEST_CASE"[..], b"SECTION", b"SUBCASE", b"SCENARIO", b"GIVEN", b"WHEN", b"THEN"]
                .iter()
                .any(|name| call.starts_with(name))
        })
        .count()
}
