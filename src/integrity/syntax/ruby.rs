//! Ruby: RSpec examples, minitest and test-unit methods, and their assertions.

use std::collections::BTreeSet;

use super::literal::{self, Operand};
use super::measure::{Check, Form, Found};
use super::tree::Tree;

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for node in 0..tree.nodes.len() {
        match tree.kind(node) {
            "call" => found.extend(example(tree, node)),
            "method" => found.extend(method(tree, node)),
            _ => {}
        }
    }
    found
}

/// The method a call names where it has no receiver, or RSpec as one.
pub(super) fn own_call<'text>(tree: &Tree<'text>, node: usize) -> Option<&'text str> {
    if tree.kind(node) != "call" {
        return None;
    }
    let free = tree
        .child(node, "receiver")
        .is_none_or(|receiver| matches!(tree.text(receiver), "RSpec" | "::RSpec"));
    free.then(|| tree.child(node, "method").map(|method| tree.text(method)))?
}

fn is_example(name: &str) -> bool {
    matches!(
        name,
        "it" | "specify"
            | "example"
            | "xit"
            | "fit"
            | "xspecify"
            | "fspecify"
            | "xexample"
            | "fexample"
            | "scenario"
            | "xscenario"
            | "its"
            | "test"
            | "should"
    )
}

fn is_group(name: &str) -> bool {
    matches!(
        name,
        "describe"
            | "context"
            | "feature"
            | "xdescribe"
            | "xcontext"
            | "fdescribe"
            | "fcontext"
            | "shared_examples"
            | "shared_context"
    )
}

fn block(tree: &Tree<'_>, call: usize) -> Option<usize> {
    tree.child(call, "block").filter(|block| matches!(tree.kind(*block), "do_block" | "block"))
}

fn example(tree: &Tree<'_>, call: usize) -> Option<Found> {
    let name = own_call(tree, call).filter(|name| is_example(name))?;
    let block = block(tree, call);
    let title = title(tree, call);
    let mut markers = BTreeSet::new();
    add_markers(tree, call, name, &mut markers);
    let (containers, in_group) = surroundings(tree, call, &mut markers);
    if !in_group || matches!(name, "test" | "should") && title.is_none() {
        return None;
    }
    // Without a block an example is pending.
    if block.is_none() {
        title.as_ref()?;
        markers.insert("pending".to_owned());
    }
    Some(Found {
        name: title.unwrap_or_default(),
        containers,
        first: call,
        root: call,
        body: block.into_iter().map(|block| tree.subtree(block)).collect(),
        markers,
        table: false,
        expected: Vec::new(),
    })
}

fn method(tree: &Tree<'_>, method: usize) -> Option<Found> {
    let name = tree.text(tree.child(method, "name")?);
    if !name.starts_with("test_") {
        return None;
    }
    let mut markers = BTreeSet::new();
    let (containers, in_group) = surroundings(tree, method, &mut markers);
    if !in_group {
        return None;
    }
    let body = tree.child(method, "body");
    Some(Found {
        name: name.to_owned(),
        containers,
        first: method,
        root: method,
        body: body.into_iter().map(|body| tree.subtree(body)).collect(),
        markers,
        table: false,
        expected: Vec::new(),
    })
}

/// The groups and classes around `node` from outside in, and whether there is one.
fn surroundings(
    tree: &Tree<'_>,
    node: usize,
    markers: &mut BTreeSet<String>,
) -> (Vec<String>, bool) {
    let mut containers = Vec::new();
    for parent in tree.parents(node) {
        if matches!(tree.kind(parent), "class" | "module") {
            containers.extend(tree.child(parent, "name").map(|name| tree.text(name).to_owned()));
        } else if let Some(name) = own_call(tree, parent).filter(|name| is_group(name)) {
            containers.push(title(tree, parent).unwrap_or_default());
            add_markers(tree, parent, name, markers);
        }
    }
    containers.reverse();
    let inside = !containers.is_empty();
    (containers, inside)
}

fn title(tree: &Tree<'_>, call: usize) -> Option<String> {
    let first = tree.named(tree.child(call, "arguments")?).next()?;
    match tree.kind(first) {
        "string" => {
            let text = literal::between_quotes(tree.text(first).as_bytes());
            Some(String::from_utf8_lossy(text).replace("\\'", "'").replace("\\\"", "\""))
        }
        "constant" | "scope_resolution" => Some(tree.text(first).to_owned()),
        _ => None,
    }
}

fn add_markers(tree: &Tree<'_>, call: usize, name: &str, markers: &mut BTreeSet<String>) {
    if name.starts_with('x') {
        markers.insert("skip".to_owned());
    }
    if matches!(name, "fit" | "fspecify" | "fexample" | "fdescribe" | "fcontext") {
        markers.insert("focus".to_owned());
    }
    let Some(list) = tree.child(call, "arguments") else { return };
    for argument in tree.named(list) {
        let (key, value) = match tree.kind(argument) {
            "simple_symbol" => (tree.text(argument), None),
            "pair" => (
                tree.child(argument, "key").map_or("", |key| tree.text(key)),
                tree.child(argument, "value"),
            ),
            _ => continue,
        };
        let key = key.trim_matches(':');
        let off = value.is_some_and(|value| matches!(tree.kind(value), "false" | "nil"));
        if matches!(key, "skip" | "pending" | "focus" | "if" | "unless") && !off {
            markers.insert(key.to_owned());
        }
    }
}

/// `skip`, `pending` and `omit` inside an example.
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    let name = match tree.kind(node) {
        "call" => own_call(tree, node)?,
        // Without arguments it looks like a variable.
        "identifier" => tree
            .parent(node)
            .filter(|parent| {
                matches!(tree.kind(*parent), "body_statement" | "block_body" | "if_modifier")
            })
            .map(|_| tree.text(node))?,
        _ => return None,
    };
    match name {
        "skip" | "omit" => Some("skip"),
        "pending" | "pend" => Some("pending"),
        _ => None,
    }
}

fn arguments(tree: &Tree<'_>, call: usize) -> Vec<Operand> {
    tree.child(call, "arguments").map_or_else(Vec::new, |list| {
        tree.named(list).map(|argument| Operand::of(tree, argument)).collect()
    })
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    if tree.kind(node) != "call" {
        return None;
    }
    let name = tree.text(tree.child(node, "method")?);
    if let Some(receiver) = tree.child(node, "receiver") {
        if matches!(name, "to" | "not_to" | "to_not") {
            return expectation(tree, node, receiver, name);
        }
        let spec = name.starts_with("must_") || name.starts_with("wont_");
        let mut values = arguments(tree, node).into_iter();
        return spec.then(|| {
            let form = match (name, values.next()) {
                ("must_equal", Some(value)) => Form::Equal(Operand::of(tree, receiver), value),
                _ => Form::Other,
            };
            Check::new(tree, node, form)
        });
    }
    let asserts = name == "assert"
        || name == "refute"
        || name == "flunk"
        || name.starts_with("assert_")
        || name.starts_with("refute_");
    if !asserts {
        return None;
    }
    let mut values = arguments(tree, node).into_iter();
    let form = match (name, values.next(), values.next()) {
        ("assert_equal" | "assert_same", Some(left), Some(right)) => Form::Equal(left, right),
        ("assert", Some(condition), _) => Form::Holds(condition),
        ("refute", Some(condition), _) => Form::Fails(condition),
        _ => Form::Other,
    };
    Some(Check::new(tree, node, form))
}

/// `expect(x).to eq(y)`, `is_expected.to eq(y)`
fn expectation(tree: &Tree<'_>, call: usize, receiver: usize, name: &str) -> Option<Check> {
    let subject = match tree.kind(receiver) {
        "identifier" if tree.text(receiver) == "is_expected" => None,
        "call" => {
            let method = tree.child(receiver, "method").map(|method| tree.text(method))?;
            if !matches!(method, "expect" | "is_expected" | "allow") || method == "allow" {
                return None;
            }
            arguments(tree, receiver).into_iter().next()
        }
        _ => return None,
    };
    let matcher = tree.child(call, "arguments").and_then(|list| tree.named(list).next());
    let mut form = Form::Other;
    if let Some(matcher) = matcher.filter(|_| name == "to") {
        let matches = tree.child(matcher, "method").map_or("", |method| tree.text(method));
        let value = arguments(tree, matcher).into_iter().next();
        let subject = subject.unwrap_or_else(|| Operand::of(tree, receiver));
        form = match (matches, value) {
            ("eq" | "eql" | "be" | "equal", Some(value)) => Form::Equal(subject, value),
            _ => match tree.text(matcher) {
                "be_truthy" => Form::Holds(subject),
                "be_falsey" | "be_falsy" => Form::Fails(subject),
                _ => Form::Other,
            },
        };
    }
    Some(Check::new(tree, call, form))
}
