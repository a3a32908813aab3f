//! Go: `TestXxx`, `FuzzXxx` and `ExampleXxx`, failing calls on the testing value, and testify.

use std::collections::BTreeSet;
use std::ops::Range;

use super::literal::{self, Operand};
use super::measure::{Check, Form, Found};
use super::tree::Tree;

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let file = constraint(tree);
    let mut found = Vec::new();
    for node in tree.children(0).filter(|node| tree.kind(*node) == "function_declaration") {
        let Some(name) = tree.child(node, "name").map(|name| tree.text(name)) else { continue };
        if !is_test_name(name) || name == "TestMain" {
            continue;
        }
        let body = tree.child(node, "body");
        found.push(Found {
            name: name.to_owned(),
            containers: Vec::new(),
            first: node,
            root: node,
            body: body.into_iter().map(|body| tree.subtree(body)).collect(),
            markers: file.clone(),
            table: false,
            expected: body.map(|body| rows(tree, body)).unwrap_or_default(),
        });
    }
    found
}

/// The rule of the go command: the letter after the prefix is not a small one.
fn is_test_name(name: &str) -> bool {
    ["Test", "Fuzz", "Example"].iter().any(|prefix| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| !rest.chars().next().is_some_and(char::is_lowercase))
    })
}

/// `//go:build` before the package clause.
fn constraint(tree: &Tree<'_>) -> BTreeSet<String> {
    tree.children(0)
        .take_while(|node| tree.kind(*node) != "package_clause")
        .map(|node| tree.text(node))
        .filter(|text| text.starts_with("//go:build") || text.starts_with("// +build"))
        .map(|text| text.trim_start_matches('/').trim().to_owned())
        .collect()
}

fn method<'text>(tree: &Tree<'text>, call: usize) -> Option<(&'text str, &'text str)> {
    if tree.kind(call) != "call_expression" {
        return None;
    }
    let function = tree.child(call, "function")?;
    let owner = tree.child(function, "operand")?;
    Some((tree.text(owner), tree.text(tree.child(function, "field")?)))
}

/// `t.Skip()`
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    let (_, name) = method(tree, node)?;
    matches!(name, "Skip" | "Skipf" | "SkipNow").then_some("skip")
}

pub(super) fn fails(tree: &Tree<'_>, call: usize) -> bool {
    method(tree, call).is_some_and(|(owner, name)| {
        matches!(name, "Error" | "Errorf" | "Fatal" | "Fatalf" | "Fail" | "FailNow")
            && !matches!(owner, "fmt" | "log" | "slog" | "errors" | "logger" | "http" | "err")
    })
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    let (owner, name) = method(tree, node)?;
    if fails(tree, node) {
        return Some(failing(tree, node));
    }
    let library = matches!(owner, "assert" | "require" | "is" | "qt" | "must" | "check")
        || owner.ends_with(".Require()")
        || owner.ends_with(".Assert()")
        || owner == "cmp" && name != "Diff" && name != "Equal";
    let is_suite = matches!(
        name,
        "Equal" | "NoError" | "True" | "False" | "Nil" | "NotNil" | "EqualError" | "ErrorIs"
    ) && matches!(owner, "s" | "suite" | "a" | "r");
    if !(library || is_suite) || matches!(name, "New" | "Diff") {
        return None;
    }
    let mut arguments: Vec<Operand> = tree
        .named(tree.child(node, "arguments")?)
        .map(|argument| Operand::of(tree, argument))
        .collect();
    // testify passes the testing value first, its suites do not.
    let passes_t = arguments.first().and_then(|first| first.single(tree)).is_some_and(|first| {
        tree.kind(first) == "identifier" && matches!(tree.text(first), "t" | "tt" | "b" | "f" | "c")
            || tree.text(first).ends_with(".T()")
    });
    if passes_t {
        arguments.remove(0);
    }
    let mut arguments = arguments.into_iter();
    let form = match (name, arguments.next(), arguments.next()) {
        ("Equal" | "Equalf" | "EqualValues" | "Exactly", Some(left), Some(right)) => {
            Form::Equal(left, right)
        }
        ("True" | "Truef", Some(condition), _) => Form::Holds(condition),
        ("False" | "Falsef", Some(condition), _) => Form::Fails(condition),
        _ => Form::Other,
    };
    Some(Check::new(tree, node, form))
}

/// A failing call together with the condition it hangs on.
fn failing(tree: &Tree<'_>, call: usize) -> Check {
    for parent in tree.parents(call) {
        match tree.kind(parent) {
            "expression_statement" | "statement_list" | "block" => {}
            "if_statement" => {
                let Some(condition) = tree.child(parent, "condition") else { break };
                let in_body = tree
                    .child(parent, "consequence")
                    .is_some_and(|body| tree.subtree(body).contains(&call));
                if !in_body {
                    break;
                }
                let condition = Operand::of(tree, condition);
                let form = if literal::is_false(tree, &condition) {
                    Form::Idle
                } else {
                    literal::inequality(tree, &condition)
                        .map_or(Form::Other, |(left, right)| Form::Equal(left, right))
                };
                return Check { whole: condition, form };
            }
            _ => break,
        }
    }
    Check::new(tree, call, Form::Other)
}

/// The literals in rows of tables that are called, or stand where, what is wanted.
fn rows(tree: &Tree<'_>, body: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for node in tree.subtree(body).filter(|node| tree.kind(*node) == "composite_literal") {
        let is_slice = tree
            .child(node, "type")
            .filter(|kind| matches!(tree.kind(*kind), "slice_type" | "array_type" | "map_type"))
            .and_then(|kind| tree.child(kind, "element").or_else(|| tree.child(kind, "value")))
            // Rows of plain lists are as likely to be what goes in.
            .is_some_and(|row| !matches!(tree.kind(row), "slice_type" | "array_type" | "map_type"));
        let Some(value) = tree.child(node, "body").filter(|_| is_slice) else { continue };
        for row in tree.named(value) {
            let row = match tree.kind(row) {
                "keyed_element" => tree.child(row, "value"),
                _ => Some(row),
            };
            let Some(row) = row.and_then(|row| tree.named(row).next()) else { continue };
            if tree.kind(row) == "literal_value" {
                found.extend(wanted(tree, row));
            }
        }
    }
    found
}

fn wanted(tree: &Tree<'_>, row: usize) -> Option<Range<usize>> {
    let keyed = tree.named(row).find(|element| {
        tree.kind(*element) == "keyed_element"
            && tree.child(*element, "key").is_some_and(|key| {
                matches!(
                    tree.text(key),
                    "want" | "expected" | "exp" | "expect" | "out" | "output" | "res" | "result"
                )
            })
    });
    let cell = match keyed {
        Some(element) => tree.child(element, "value")?,
        None => tree.named(row).last().filter(|last| tree.kind(*last) == "literal_element")?,
    };
    literal::whole(tree, &Operand::of(tree, cell)).map(|(_, bytes)| bytes)
}

/// A statement that fails a test by the means that the file's own tests use.
pub(super) fn assertion(tree: &Tree<'_>, items: &[Found]) -> &'static str {
    let uses = |word: &str| items.iter().any(|item| tree.text(item.root).contains(word));
    if uses("require.") {
        "\trequire.Equal(t, 1, 2)\n"
    } else if uses("assert.") {
        "\tassert.Equal(t, 1, 2)\n"
    } else {
        "\tif got := 1; got != 2 {\n\t\tt.Errorf(\"got %d, want 2\", got)\n\t}\n"
    }
}
