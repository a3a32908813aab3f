//! PHP: PHPUnit methods and Pest calls, and their assertions.

use std::collections::BTreeSet;

use super::literal::{self, Operand};
use super::measure::{Check, Form, Found};
use super::tree::Tree;

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for node in 0..tree.nodes.len() {
        match tree.kind(node) {
            "method_declaration" => found.extend(method(tree, node)),
            "function_call_expression" => found.extend(pest(tree, node)),
            _ => {}
        }
    }
    found
}

fn attributes<'text>(tree: &Tree<'text>, declaration: usize) -> Vec<&'text str> {
    let Some(list) = tree.child(declaration, "attributes") else { return Vec::new() };
    tree.subtree(list)
        .filter(|node| tree.kind(*node) == "attribute")
        .filter_map(|attribute| tree.named(attribute).next())
        .map(|name| tree.last_name(name))
        .collect()
}

/// The comment before a declaration.
fn comment<'text>(tree: &Tree<'text>, declaration: usize) -> Option<(usize, &'text str)> {
    let before = tree.before(declaration).filter(|before| tree.is_comment(*before))?;
    Some((before, tree.text(before)))
}

fn method(tree: &Tree<'_>, method: usize) -> Option<Found> {
    let name = tree.text(tree.child(method, "name")?);
    let names = attributes(tree, method);
    let comment = comment(tree, method);
    let annotated =
        comment.is_some_and(|(_, text)| text.split_whitespace().any(|word| word == "@test"));
    if !name.starts_with("test") && !annotated && !names.contains(&"Test") {
        return None;
    }
    let mut containers = Vec::new();
    let mut markers = BTreeSet::new();
    let mut in_class = false;
    for parent in tree.parents(method).filter(|parent| tree.kind(*parent) == "class_declaration") {
        in_class = true;
        containers.extend(tree.child(parent, "name").map(|name| tree.text(name).to_owned()));
        add_markers(&attributes(tree, parent), &mut markers);
    }
    if !in_class {
        return None;
    }
    add_markers(&names, &mut markers);
    let annotation = |word: &str| comment.is_some_and(|(_, text)| text.contains(word));
    if annotation("@requires") {
        markers.insert("requires".to_owned());
    }
    if annotation("@doesNotPerformAssertions") {
        markers.insert("doesNotPerformAssertions".to_owned());
    }
    let pieces = ["parameters", "body"];
    Some(Found {
        name: name.to_owned(),
        containers,
        first: comment.filter(|_| annotated).map_or(method, |(node, _)| node),
        root: method,
        body: pieces
            .iter()
            .filter_map(|field| tree.child(method, field))
            .map(|piece| tree.subtree(piece))
            .collect(),
        markers,
        table: annotation("@dataProvider")
            || names.iter().any(|name| matches!(*name, "DataProvider" | "TestWith")),
        expected: Vec::new(),
    })
}

fn add_markers(names: &[&str], markers: &mut BTreeSet<String>) {
    for name in names {
        if name.starts_with("Requires") || *name == "DoesNotPerformAssertions" {
            markers.insert((*name).to_owned());
        }
    }
}

fn pest(tree: &Tree<'_>, call: usize) -> Option<Found> {
    let name = tree.text(tree.child(call, "function")?);
    if !matches!(name, "it" | "test") {
        return None;
    }
    let arguments = arguments(tree, call);
    let title = title(tree, arguments.first()?)?;
    let function = arguments.get(1)?.single(tree)?;
    let mut markers = BTreeSet::new();
    let mut table = false;
    let mut root = call;
    let mut containers = Vec::new();
    for parent in tree.parents(call) {
        if tree.kind(parent) == "member_call_expression"
            && tree.child(parent, "object") == Some(root)
        {
            root = parent;
            let name = tree.child(parent, "name").map_or("", |name| tree.text(name));
            match name {
                "skip" | "todo" | "only" | "throws" | "skipOnCI" | "fails" => {
                    markers.insert(name.to_owned());
                }
                "with" => table = true,
                _ => {}
            }
        } else if tree.kind(parent) == "expression_statement" && tree.parent(root) == Some(parent) {
            root = parent;
        } else if tree.child(parent, "function").is_some_and(|f| tree.text(f) == "describe") {
            containers
                .extend(self::arguments(tree, parent).first().and_then(|a| self::title(tree, a)));
        }
    }
    containers.reverse();
    let title = if name == "it" { format!("it {title}") } else { title };
    Some(Found {
        name: title,
        containers,
        first: root,
        root,
        body: vec![tree.subtree(function)],
        markers,
        table,
        expected: Vec::new(),
    })
}

fn title(tree: &Tree<'_>, argument: &Operand) -> Option<String> {
    let node = argument.single(tree)?;
    literal::is_string(tree.kind(node)).then(|| {
        String::from_utf8_lossy(literal::between_quotes(tree.text(node).as_bytes())).into_owned()
    })
}

fn called<'text>(tree: &Tree<'text>, node: usize) -> Option<&'text str> {
    match tree.kind(node) {
        "member_call_expression" | "scoped_call_expression" => {
            Some(tree.text(tree.child(node, "name")?))
        }
        "function_call_expression" => Some(tree.last_name(tree.child(node, "function")?)),
        _ => None,
    }
}

/// `$this->markTestSkipped()`
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    match called(tree, node)? {
        "markTestSkipped" => Some("skip"),
        "markTestIncomplete" => Some("markTestIncomplete"),
        "expectNotToPerformAssertions" => Some("expectNotToPerformAssertions"),
        _ => None,
    }
}

fn arguments(tree: &Tree<'_>, call: usize) -> Vec<Operand> {
    tree.child(call, "arguments").map_or_else(Vec::new, |list| {
        tree.named(list).map(|argument| Operand::of(tree, argument)).collect()
    })
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    let name = called(tree, node)?;
    if name == "expect" && tree.kind(node) == "function_call_expression" {
        return expectation(tree, node);
    }
    let asserts = name.starts_with("assert")
        || name == "fail"
        || name.starts_with("expectException")
        || name.starts_with("should") && tree.kind(node) == "member_call_expression";
    if !asserts {
        return None;
    }
    let mut values = arguments(tree, node).into_iter();
    let form = match (name, values.next(), values.next()) {
        ("assertEquals" | "assertSame", Some(left), Some(right)) => Form::Equal(left, right),
        ("assertTrue" | "assert", Some(condition), _) => Form::Holds(condition),
        ("assertFalse", Some(condition), _) => Form::Fails(condition),
        _ => Form::Other,
    };
    Some(Check::new(tree, node, form))
}

/// Pest's `expect($x)->toBe($y)`.
fn expectation(tree: &Tree<'_>, call: usize) -> Option<Check> {
    let subject = arguments(tree, call).into_iter().next();
    let mut whole = call;
    let mut form = Form::Other;
    let mut length = 0;
    for parent in tree.parents(call) {
        if tree.child(parent, "object") != Some(whole) {
            break;
        }
        whole = parent;
        length += 1;
        let name = tree.child(parent, "name").map_or("", |name| tree.text(name));
        let value = arguments(tree, parent).into_iter().next();
        form = match (name, subject.clone(), value) {
            ("toBe" | "toEqual", Some(subject), Some(value)) if length == 1 => {
                Form::Equal(subject, value)
            }
            ("toBeTrue" | "toBeTruthy", Some(subject), _) if length == 1 => Form::Holds(subject),
            ("toBeFalse" | "toBeFalsy", Some(subject), _) if length == 1 => Form::Fails(subject),
            _ => Form::Other,
        };
    }
    (whole != call).then(|| Check::new(tree, whole, form))
}
