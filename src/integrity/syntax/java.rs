//! Java: JUnit 3 to 5 and TestNG methods; JUnit, AssertJ, Hamcrest and Mockito assertions.

use std::collections::BTreeSet;

use super::literal::Operand;
use super::measure::{Check, Form, Found};
use super::tree::Tree;

const TESTS: [&str; 5] =
    ["Test", "ParameterizedTest", "RepeatedTest", "TestFactory", "TestTemplate"];

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for node in 0..tree.nodes.len() {
        if tree.kind(node) == "method_declaration" {
            found.extend(item(tree, node));
        }
    }
    found
}

fn item(tree: &Tree<'_>, method: usize) -> Option<Found> {
    let name = tree.text(tree.child(method, "name")?);
    let names: Vec<&str> =
        annotations(tree, method).iter().map(|node| annotation_name(tree, *node)).collect();
    let is_annotated = names.iter().any(|name| TESTS.contains(name));
    if !(is_annotated || name.starts_with("test") && in_test_case(tree, method)) {
        return None;
    }
    let mut markers = BTreeSet::new();
    add_markers(tree, method, &mut markers);
    let mut containers = Vec::new();
    for parent in tree.parents(method).filter(|parent| is_class(tree.kind(*parent))) {
        containers.extend(tree.child(parent, "name").map(|name| tree.text(name).to_owned()));
        add_markers(tree, parent, &mut markers);
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
        table: names.iter().any(|name| matches!(*name, "ParameterizedTest" | "TestFactory")),
        expected: Vec::new(),
    })
}

/// The methods that give a test its values: those of a parametrised class, those that it names.
pub(super) fn providers(tree: &Tree<'_>, test: usize) -> Vec<usize> {
    let Some(class) = tree.parents(test).find(|parent| is_class(tree.kind(*parent))) else {
        return Vec::new();
    };
    let said = |declaration: usize, name: &str| {
        annotations(tree, declaration)
            .into_iter()
            .find(|node| annotation_name(tree, *node) == name)
            .map(|node| tree.text(node))
    };
    let own = tree.child(test, "name").map_or("", |name| tree.text(name));
    let source = said(test, "MethodSource");
    let runs = said(class, "RunWith").is_some_and(|text| text.contains("Parameterized"));
    let Some(body) = tree.child(class, "body") else { return Vec::new() };
    tree.named(body)
        .filter(|node| tree.kind(*node) == "method_declaration" && *node != test)
        .filter(|method| {
            let name = tree.child(*method, "name").map_or("", |name| tree.text(name));
            let named = source.is_some_and(|text| {
                text.contains(&format!("\"{name}\"")) || !text.contains('"') && name == own
            });
            named || runs && said(*method, "Parameters").is_some()
        })
        .collect()
}

fn is_class(kind: &str) -> bool {
    matches!(kind, "class_declaration" | "record_declaration" | "interface_declaration")
}

fn in_test_case(tree: &Tree<'_>, method: usize) -> bool {
    tree.parents(method)
        .find(|parent| is_class(tree.kind(*parent)))
        .and_then(|class| tree.child(class, "superclass"))
        .is_some_and(|base| tree.text(base).contains("TestCase"))
}

pub(super) fn annotations(tree: &Tree<'_>, declaration: usize) -> Vec<usize> {
    let Some(modifiers) = tree.child_of_kind(declaration, "modifiers") else { return Vec::new() };
    tree.named(modifiers)
        .filter(|node| matches!(tree.kind(*node), "marker_annotation" | "annotation"))
        .collect()
}

fn annotation_name<'text>(tree: &Tree<'text>, annotation: usize) -> &'text str {
    tree.child(annotation, "name").map_or("", |name| tree.last_name(name))
}

fn add_markers(tree: &Tree<'_>, declaration: usize, markers: &mut BTreeSet<String>) {
    for annotation in annotations(tree, declaration) {
        let name = annotation_name(tree, annotation);
        if name == "Ignore" || name.starts_with("Disabled") || name.starts_with("Enabled") {
            markers.insert(name.to_owned());
        }
        let text: String = tree.text(annotation).split_whitespace().collect();
        if name == "Test" && text.contains("expected=") {
            markers.insert("expected".to_owned());
        }
        if name == "Test" && text.contains("enabled=false") {
            markers.insert("enabled=false".to_owned());
        }
    }
}

/// `Assumptions.abort()`, `assumeTrue(false)`.
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    if tree.kind(node) != "method_invocation" {
        return None;
    }
    let name = tree.text(tree.child(node, "name")?);
    match name {
        "abort" if tree.child(node, "object").is_some_and(|o| tree.text(o) == "Assumptions") => {
            Some("skip")
        }
        "assumeTrue" | "assumeFalse" | "assumeThat" => Some("assume"),
        _ => None,
    }
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    match tree.kind(node) {
        "assert_statement" => {
            let condition = Operand::of(tree, tree.named(node).next()?);
            Some(Check::new(tree, node, Form::Holds(condition)))
        }
        "object_creation_expression" => {
            let is_failure =
                tree.child(node, "type").map(|kind| tree.text(kind)) == Some("AssertionError");
            is_failure.then(|| Check::new(tree, node, Form::Other))
        }
        "method_invocation" => {
            let name = tree.text(tree.child(node, "name")?);
            let arguments = arguments(tree, node);
            if matches!(name, "assertThat" | "then" | "expectThat" | "assertThatThrownBy") {
                return Some(chained(tree, node, arguments));
            }
            let asserts = name.starts_with("assert")
                || matches!(name, "fail" | "verify" | "verifyNoMoreInteractions" | "andExpect")
                || name.starts_with("expectMsg");
            asserts.then(|| Check::new(tree, node, form(name, arguments)))
        }
        _ => None,
    }
}

fn arguments(tree: &Tree<'_>, call: usize) -> Vec<Operand> {
    tree.child(call, "arguments").map_or_else(Vec::new, |list| {
        tree.named(list).map(|argument| Operand::of(tree, argument)).collect()
    })
}

fn form(name: &str, arguments: Vec<Operand>) -> Form {
    let count = arguments.len();
    let mut arguments = arguments.into_iter();
    match (name, arguments.next(), arguments.next()) {
        // With three arguments the first may be a message (JUnit 4) or the last one (JUnit 5) or a delta.
        ("assertEquals" | "assertSame", Some(left), Some(right)) if count == 2 => {
            Form::Equal(left, right)
        }
        ("assertTrue", Some(condition), None) => Form::Holds(condition),
        ("assertFalse", Some(condition), None) => Form::Fails(condition),
        _ => Form::Other,
    }
}

/// `assertThat(x).isEqualTo(y)`
fn chained(tree: &Tree<'_>, call: usize, subject: Vec<Operand>) -> Check {
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
        let argument = arguments(tree, parent).into_iter().next();
        form = match (name, argument, subject.first()) {
            ("isEqualTo" | "isSameAs", Some(argument), Some(subject)) if length == 1 => {
                Form::Equal(subject.clone(), argument)
            }
            ("isTrue", None, Some(subject)) if length == 1 => Form::Holds(subject.clone()),
            ("isFalse", None, Some(subject)) if length == 1 => Form::Fails(subject.clone()),
            _ => Form::Other,
        };
    }
    Check::new(tree, whole, form)
}
