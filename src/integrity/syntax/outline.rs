//! The functions of a file and what stands outside them, so that additions can be told from changes.

use std::ops::Range;

use super::tree::Tree;
use super::{Language, measure, python, rust, tokens};

/// One function or method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Class and function, joined by a dot: `Base.set_up`.
    pub name: String,
    /// From 1.
    pub line: u32,
    /// Bytes, decorators and attributes included.
    pub span: Range<usize>,
    /// Hash of the definition, decorators included, without comments and layout.
    pub body: u64,
    /// The decorators or attributes as written, without blanks.
    pub decorators: Vec<String>,
}

/// A file as its functions and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// In reading order; functions inside functions belong to the outer one.
    pub functions: Vec<Function>,
    /// Hash of all that is outside of functions.
    pub rest: u64,
}

/// Splits a file into its functions and the rest. None where it has syntax errors or cannot be read.
pub fn functions(language: Language, text: &[u8]) -> Option<Outline> {
    let tree = Tree::parse(language, text)?;
    let mut functions = Vec::new();
    let mut without = Vec::new();
    let mut node = 0;
    while node < tree.nodes.len() {
        let Some(name) = measure::function_name(&tree, node) else {
            node += 1;
            continue;
        };
        let attributes = attributes(&tree, node);
        let outer = python::decorated(&tree, node).unwrap_or(node);
        let first = attributes.first().copied().unwrap_or(outer).min(outer);
        let mut names: Vec<&str> = tree
            .parents(node)
            .filter(|parent| {
                matches!(
                    tree.kind(*parent),
                    "class_definition" | "class_declaration" | "class" | "module" | "mod_item"
                )
            })
            .filter_map(|parent| tree.child(parent, "name"))
            .map(|name| tree.text(name))
            .collect();
        names.reverse();
        names.push(name);
        functions.push(Function {
            name: names.join("."),
            line: tree.nodes.get(first).map_or(1, |node| node.line),
            span: tree.bytes(first).start..tree.bytes(outer).end,
            body: tokens::hash(&tree, first..tree.after(outer), &[]),
            decorators: attributes
                .iter()
                .map(|attribute| tree.text(*attribute).split_whitespace().collect())
                .collect(),
        });
        without.extend(attributes);
        without.push(outer);
        node = tree.after(node);
    }
    // Sorted, so that leaving them out is one pass.
    without.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for skip in without {
        if skip >= from {
            pieces.push(from..skip);
            from = tree.after(skip);
        }
    }
    pieces.push(from..tree.nodes.len());
    let rest = tokens::hash_all(&tree, &pieces, &[]);
    (tree.errors == 0 && !tree.exhausted()).then_some(Outline { functions, rest })
}

fn attributes(tree: &Tree<'_>, function: usize) -> Vec<usize> {
    match tree.language {
        Language::Python => python::decorators(tree, function),
        Language::Rust => {
            let mut found = rust::attributes(tree, function);
            found.reverse();
            found
        }
        _ => tree
            .children(function)
            .filter(|child| {
                matches!(tree.kind(*child), "modifiers" | "attribute_list" | "decorator")
            })
            .collect(),
    }
}
