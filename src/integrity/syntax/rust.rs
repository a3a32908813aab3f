//! Rust: functions under a test attribute, and the assertion macros.

use std::collections::BTreeSet;

use super::literal::Operand;
use super::measure::{Check, Form, Found};
use super::tree::Tree;

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    let file = inner_markers(tree, 0);
    for node in 0..tree.nodes.len() {
        if tree.kind(node) == "function_item" {
            let attributes = attributes(tree, node);
            if !attributes.iter().any(|attribute| is_test(tree, *attribute)) {
                continue;
            }
            let Some(name) = tree.child(node, "name") else { continue };
            let mut markers = file.clone();
            let (containers, inherited) = modules(tree, node);
            markers.extend(inherited);
            markers.extend(attributes.iter().filter_map(|attribute| marker(tree, *attribute)));
            let table = attributes.iter().any(|attribute| {
                matches!(
                    attribute_name(tree, *attribute),
                    "case" | "test_case" | "values" | "apply"
                )
            }) || tree
                .child(node, "parameters")
                .is_some_and(|parameters| tree.child_of_kind(parameters, "parameter").is_some());
            let pieces = ["parameters", "return_type", "body"];
            found.push(Found {
                name: tree.text(name).trim_start_matches("r#").to_owned(),
                containers,
                first: attributes.last().copied().unwrap_or(node),
                root: node,
                body: pieces
                    .iter()
                    .filter_map(|field| tree.child(node, field))
                    .map(|piece| tree.subtree(piece))
                    .collect(),
                markers,
                table,
                expected: Vec::new(),
            });
        } else if tree.kind(node) == "token_tree" {
            found.extend(in_macro(tree, node, &file));
        }
    }
    found
}

/// `#[test] fn name(..) {..}` inside a macro such as `proptest!`, where all is tokens; `group` is the body.
fn in_macro(tree: &Tree<'_>, group: usize, file: &BTreeSet<String>) -> Option<Found> {
    if !tree.text(group).starts_with('{') {
        return None;
    }
    // Backwards: `{..}`, perhaps a return type, `(..)`, name, `fn`.
    let mut node = tree.before(group)?;
    for _ in 0..12 {
        if tree.kind(node) == "token_tree" && tree.text(node).starts_with('(') {
            break;
        }
        node = tree.before(node)?;
    }
    let name = tree.before(node)?;
    let keyword = tree.before(name)?;
    if tree.kind(name) != "identifier" || tree.kind(keyword) != "fn" {
        return None;
    }
    let mut first = keyword;
    let mut is_item = false;
    let mut markers = file.clone();
    while let Some(before) = tree.before(first) {
        if tree.is_comment(before) {
            first = before;
            continue;
        }
        if !tree.text(before).starts_with('[') {
            break;
        }
        let Some(hash) = tree.before(before).filter(|hash| tree.kind(*hash) == "#") else { break };
        let attribute = tree.named(before).last().map_or("", |name| tree.text(name));
        let head = tree.named(before).next().map_or("", |name| tree.text(name));
        is_item |= attribute == "test";
        if matches!(head, "ignore" | "should_panic") {
            markers.insert(head.to_owned());
        }
        first = hash;
    }
    let (containers, inherited) = modules(tree, group);
    markers.extend(inherited);
    is_item.then(|| Found {
        name: tree.text(name).to_owned(),
        containers,
        first,
        root: group,
        body: vec![tree.subtree(node), tree.subtree(group)],
        markers,
        table: true,
        expected: Vec::new(),
    })
}

/// The attributes before an item, nearest first.
pub(super) fn attributes(tree: &Tree<'_>, item: usize) -> Vec<usize> {
    let mut found = Vec::new();
    let mut before = tree.before(item);
    while let Some(node) = before {
        if tree.kind(node) == "attribute_item" {
            found.push(node);
        } else if !tree.is_comment(node) {
            break;
        }
        before = tree.before(node);
    }
    found
}

/// The last segment of an attribute's path.
pub(super) fn attribute_name<'text>(tree: &Tree<'text>, attribute: usize) -> &'text str {
    let Some(inner) = tree.child_of_kind(attribute, "attribute") else { return "" };
    let Some(path) = tree.named(inner).next() else { return "" };
    match tree.child(path, "name") {
        Some(name) => tree.text(name),
        None => tree.text(path),
    }
}

/// The text of an attribute's arguments without blanks.
pub(super) fn arguments(tree: &Tree<'_>, attribute: usize) -> String {
    tree.child_of_kind(attribute, "attribute")
        .and_then(|inner| tree.child(inner, "arguments"))
        .map(|arguments| tree.text(arguments).split_whitespace().collect())
        .unwrap_or_default()
}

/// Whether an attribute makes a function a test.
pub(super) fn is_test(tree: &Tree<'_>, attribute: usize) -> bool {
    matches!(
        attribute_name(tree, attribute),
        "test"
            | "rstest"
            | "test_case"
            | "proptest"
            | "quickcheck"
            | "wasm_bindgen_test"
            | "test_log"
            | "googletest"
            | "apply"
            | "traced_test"
    )
}

/// Whether an attribute is `#[cfg(test)]`, alone or as one of several conditions.
pub(super) fn is_cfg_test(tree: &Tree<'_>, attribute: usize) -> bool {
    attribute_name(tree, attribute) == "cfg" && {
        let arguments = arguments(tree, attribute);
        arguments == "(test)" || arguments.starts_with("(all(test,")
    }
}

fn marker(tree: &Tree<'_>, attribute: usize) -> Option<String> {
    match attribute_name(tree, attribute) {
        name @ ("ignore" | "should_panic") => Some(name.to_owned()),
        name @ ("cfg" | "cfg_attr") => {
            let arguments = arguments(tree, attribute);
            let harmless = name == "cfg" && arguments == "(test)"
                || name == "cfg_attr"
                    && !arguments.contains("ignore")
                    && !arguments.contains("cfg");
            (!harmless).then(|| format!("{name}{arguments}"))
        }
        _ => None,
    }
}

/// `#![cfg(..)]` at the top of a file or module.
fn inner_markers(tree: &Tree<'_>, block: usize) -> BTreeSet<String> {
    tree.children(block)
        .filter(|node| tree.kind(*node) == "inner_attribute_item")
        .filter_map(|attribute| marker(tree, attribute))
        .collect()
}

/// The modules around an item from outside in, and the markers they bring.
fn modules(tree: &Tree<'_>, item: usize) -> (Vec<String>, BTreeSet<String>) {
    let mut names = Vec::new();
    let mut markers = BTreeSet::new();
    for parent in tree.parents(item).filter(|parent| tree.kind(*parent) == "mod_item") {
        if let Some(name) = tree.child(parent, "name") {
            names.push(tree.text(name).to_owned());
        }
        markers.extend(attributes(tree, parent).iter().filter_map(|a| marker(tree, *a)));
        if let Some(body) = tree.child(parent, "body") {
            markers.extend(inner_markers(tree, body));
        }
    }
    names.reverse();
    (names, markers)
}

/// The argument groups of a macro, split at the commas of its own level.
fn macro_arguments(tree: &Tree<'_>, group: usize) -> Vec<Operand> {
    let inner: Vec<usize> = tree.children(group).filter(|node| !tree.is_comment(*node)).collect();
    let inner = inner.get(1..inner.len().saturating_sub(1)).unwrap_or_default();
    inner
        .split(|node| tree.kind(*node) == ",")
        .filter_map(|part| match part {
            [] => None,
            [only] => Some(Operand::of(tree, *only)),
            [first, .., last] => Some(Operand::between(tree, *first, *last)),
        })
        .collect()
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    let (whole, name, group) = match tree.kind(node) {
        "macro_invocation" => {
            let name = tree.last_name(tree.child(node, "macro")?);
            (Operand::of(tree, node), name, tree.child_of_kind(node, "token_tree")?)
        }
        "identifier" => {
            if tree.kind(tree.parent(node)?) != "token_tree" {
                return None;
            }
            let mark = tree.next(node).filter(|mark| tree.kind(*mark) == "!")?;
            let group = tree.next(mark).filter(|group| tree.kind(*group) == "token_tree")?;
            (Operand::between(tree, node, group), tree.text(node), group)
        }
        _ => return None,
    };
    let asserts = name.starts_with("assert")
        || name.starts_with("debug_assert")
        || name.starts_with("prop_assert")
        || matches!(name, "panic" | "expect_that" | "verify_that" | "unreachable")
        || name.starts_with("expect_");
    if !asserts {
        return None;
    }
    let mut arguments = macro_arguments(tree, group).into_iter();
    let form = match (name, arguments.next(), arguments.next()) {
        ("assert_eq" | "debug_assert_eq" | "prop_assert_eq", Some(left), Some(right)) => {
            Form::Equal(left, right)
        }
        ("assert" | "debug_assert" | "prop_assert", Some(condition), _) => Form::Holds(condition),
        _ => Form::Other,
    };
    Some(Check { whole, form })
}

/// Whether a panic at `node` is caught by a `catch_unwind` whose result is thrown away.
pub(super) fn swallowed(tree: &Tree<'_>, node: usize, root: usize) -> bool {
    for parent in tree.parents(node).take_while(|parent| *parent != root) {
        let catches = tree.kind(parent) == "call_expression"
            && tree.child(parent, "function").is_some_and(|f| tree.last_name(f) == "catch_unwind");
        if !catches {
            continue;
        }
        let Some(around) = tree.parent(parent) else { return false };
        return match tree.kind(around) {
            "expression_statement" => true,
            "let_declaration" => {
                tree.child(around, "pattern").is_some_and(|pattern| tree.text(pattern) == "_")
            }
            _ => false,
        };
    }
    false
}
