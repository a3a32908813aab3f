//! C#: xUnit, NUnit and MSTest methods; their assertions and those of FluentAssertions and Shouldly.

use std::collections::BTreeSet;

use super::literal::Operand;
use super::measure::{Check, Form, Found};
use super::tree::Tree;

const TESTS: [&str; 9] = [
    "Fact",
    "Theory",
    "Test",
    "TestCase",
    "TestCaseSource",
    "TestMethod",
    "DataTestMethod",
    "SkippableFact",
    "SkippableTheory",
];

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for node in 0..tree.nodes.len() {
        if tree.kind(node) == "method_declaration" {
            found.extend(item(tree, node));
        }
    }
    found
}

/// The attributes of a declaration, with or without the suffix.
fn attributes(tree: &Tree<'_>, declaration: usize) -> Vec<usize> {
    tree.children(declaration)
        .filter(|child| tree.kind(*child) == "attribute_list")
        .flat_map(|list| tree.named(list).filter(|child| tree.kind(*child) == "attribute"))
        .collect()
}

fn attribute_name<'text>(tree: &Tree<'text>, attribute: usize) -> &'text str {
    let name = tree.child(attribute, "name").map_or("", |name| tree.last_name(name));
    name.strip_suffix("Attribute").unwrap_or(name)
}

fn item(tree: &Tree<'_>, method: usize) -> Option<Found> {
    let names: Vec<&str> =
        attributes(tree, method).iter().map(|node| attribute_name(tree, *node)).collect();
    if !names.iter().any(|name| TESTS.contains(name)) {
        return None;
    }
    let name = tree.text(tree.child(method, "name")?);
    let mut markers = BTreeSet::new();
    add_markers(tree, method, &mut markers);
    let mut containers = Vec::new();
    for parent in tree.parents(method) {
        if matches!(
            tree.kind(parent),
            "class_declaration" | "struct_declaration" | "record_declaration"
        ) {
            containers.extend(tree.child(parent, "name").map(|name| tree.text(name).to_owned()));
            add_markers(tree, parent, &mut markers);
        }
    }
    containers.reverse();
    let pieces = ["parameters", "body"];
    Some(Found {
        name: name.to_owned(),
        containers,
        first: method,
        root: method,
        body: pieces
            .iter()
            .filter_map(|field| tree.child(method, field))
            .map(|piece| tree.subtree(piece))
            .collect(),
        markers,
        table: names.iter().any(|name| {
            matches!(*name, "Theory" | "TestCase" | "TestCaseSource" | "DataTestMethod")
                || name.ends_with("Data")
                || *name == "DataRow"
        }),
        expected: Vec::new(),
    })
}

fn add_markers(tree: &Tree<'_>, declaration: usize, markers: &mut BTreeSet<String>) {
    for attribute in attributes(tree, declaration) {
        let name = attribute_name(tree, attribute);
        if matches!(name, "Ignore" | "Explicit" | "ExpectedException") {
            markers.insert(name.to_owned());
        }
        let Some(list) = tree.child_of_kind(attribute, "attribute_argument_list") else { continue };
        for argument in tree.named(list) {
            let key = tree.child(argument, "name").map_or("", |key| tree.text(key));
            if matches!(
                key,
                "Skip" | "SkipWhen" | "SkipUnless" | "Ignore" | "IgnoreReason" | "Explicit"
            ) {
                markers.insert(key.to_owned());
            }
        }
    }
}

fn method<'text>(tree: &Tree<'text>, call: usize) -> Option<(&'text str, &'text str)> {
    if tree.kind(call) != "invocation_expression" {
        return None;
    }
    let function = tree.child(call, "function")?;
    let owner = tree.child(function, "expression").map_or("", |owner| tree.last_name(owner));
    let name = match tree.child(function, "name") {
        Some(name) if tree.kind(name) == "generic_name" => {
            tree.named(name).next().map_or("", |name| tree.text(name))
        }
        Some(name) => tree.text(name),
        None => tree.text(function),
    };
    Some((owner, name))
}

/// `Assert.Ignore()`, `Skip.If()`, `Assert.Inconclusive()`.
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    match method(tree, node)? {
        ("Assert", "Ignore" | "Inconclusive" | "Skip" | "SkipWhen" | "SkipUnless" | "Pass")
        | ("Skip", "If" | "IfNot") => Some("skip"),
        _ => None,
    }
}

fn arguments(tree: &Tree<'_>, call: usize) -> Vec<Operand> {
    tree.child(call, "arguments").map_or_else(Vec::new, |list| {
        tree.named(list).map(|argument| Operand::of(tree, argument)).collect()
    })
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    let (owner, name) = method(tree, node)?;
    if name == "Should" {
        return Some(fluent(tree, node));
    }
    let shouldly = name.starts_with("Should");
    let library = matches!(
        owner,
        "Assert" | "StringAssert" | "CollectionAssert" | "ClassicAssert" | "FileAssert"
    );
    let is_verify = name.starts_with("Verify") && !owner.is_empty();
    if !(shouldly || library || is_verify)
        || matches!(name, "Ignore" | "Inconclusive" | "Skip" | "Multiple" | "Pass")
    {
        return None;
    }
    let values = arguments(tree, node);
    let count = values.len();
    let mut values = values.into_iter();
    let form = match (name, values.next(), values.next()) {
        ("Equal" | "AreEqual" | "Same" | "AreSame", Some(left), Some(right)) if count == 2 => {
            Form::Equal(left, right)
        }
        ("True" | "IsTrue", Some(condition), _) => Form::Holds(condition),
        ("False" | "IsFalse", Some(condition), _) => Form::Fails(condition),
        ("That", Some(condition), None) => Form::Holds(condition),
        ("That", Some(left), Some(constraint)) => constrained(tree, left, &constraint),
        ("ShouldBe", Some(value), None) => tree
            .child(node, "function")
            .and_then(|function| tree.child(function, "expression"))
            .map_or(Form::Other, |subject| Form::Equal(Operand::of(tree, subject), value)),
        _ => Form::Other,
    };
    Some(Check::new(tree, node, form))
}

/// `Assert.That(x, Is.EqualTo(y))`
fn constrained(tree: &Tree<'_>, left: Operand, constraint: &Operand) -> Form {
    let Some(call) = constraint.single(tree) else { return Form::Other };
    match method(tree, call) {
        Some(("Is", "EqualTo")) => arguments(tree, call)
            .into_iter()
            .next()
            .map_or(Form::Other, |right| Form::Equal(left, right)),
        _ => match tree.text(call) {
            "Is.True" => Form::Holds(left),
            "Is.False" => Form::Fails(left),
            _ => Form::Other,
        },
    }
}

/// `x.Should().Be(y)`
fn fluent(tree: &Tree<'_>, should: usize) -> Check {
    let subject = tree
        .child(should, "function")
        .and_then(|function| tree.child(function, "expression"))
        .map(|subject| Operand::of(tree, subject));
    let mut whole = should;
    let mut form = Form::Other;
    let mut length = 0;
    for parent in tree.parents(should) {
        match tree.kind(parent) {
            "member_access_expression" | "conditional_access_expression" => {}
            "invocation_expression" if tree.child(parent, "function") == Some(whole) => {
                length += 1;
                let name = method(tree, parent).map_or("", |(_, name)| name);
                let value = arguments(tree, parent).into_iter().next();
                form = match (name, subject.clone(), value) {
                    ("Be" | "BeEquivalentTo", Some(subject), Some(value)) if length == 1 => {
                        Form::Equal(subject, value)
                    }
                    ("BeTrue", Some(subject), None) if length == 1 => Form::Holds(subject),
                    ("BeFalse", Some(subject), None) if length == 1 => Form::Fails(subject),
                    _ => Form::Other,
                };
            }
            _ => break,
        }
        whole = parent;
    }
    Check::new(tree, whole, form)
}
