//! Python: what pytest and unittest collect, and what fails a test there.

use std::collections::BTreeSet;
use std::ops::Range;

use super::literal::{self, Operand};
use super::measure::{Check, Form, Found, always_runs};
use super::tree::Tree;

const MARKS: [&str; 7] =
    ["skip", "skipif", "xfail", "skipIf", "skipUnless", "expectedFailure", "skip_unless"];

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let file = block_markers(tree, 0);
    let mut found = Vec::new();
    for node in 0..tree.nodes.len() {
        if tree.kind(node) != "function_definition" {
            continue;
        }
        let Some(name) = tree.child(node, "name").map(|name| tree.text(name)) else { continue };
        if !name.starts_with("test") {
            continue;
        }
        let mut containers = Vec::new();
        let mut markers = file.clone();
        let mut is_item = true;
        for parent in tree.parents(node) {
            match tree.kind(parent) {
                "function_definition" | "lambda" => is_item = false,
                "class_definition" => {
                    is_item &= is_test_class(tree, parent);
                    if let Some(name) = tree.child(parent, "name") {
                        containers.push(tree.text(name).to_owned());
                    }
                    if let Some(body) = tree.child(parent, "body") {
                        markers.extend(block_markers(tree, body));
                    }
                    decorator_markers(tree, parent, &mut markers);
                }
                _ => {}
            }
        }
        if !is_item {
            continue;
        }
        containers.reverse();
        decorator_markers(tree, node, &mut markers);
        let decorated = decorated(tree, node);
        let table = decorators(tree, node)
            .iter()
            .any(|decorator| is_table(decorator_name(tree, *decorator)));
        let pieces = ["parameters", "return_type", "body"];
        let body = pieces
            .iter()
            .filter_map(|field| tree.child(node, field))
            .map(|piece| tree.subtree(piece))
            .collect();
        found.push(Found {
            name: name.to_owned(),
            containers,
            first: decorated.unwrap_or(node),
            root: node,
            body,
            markers,
            table,
            expected: if table { table_literals(tree, node) } else { Vec::new() },
        });
    }
    found
}

fn is_table(decorator: &str) -> bool {
    matches!(decorator, "parametrize" | "data" | "expand" | "given" | "parameterized" | "unpack")
}

fn is_test_class(tree: &Tree<'_>, class: usize) -> bool {
    let name = tree.child(class, "name").map_or("", |name| tree.text(name));
    name.contains("Test")
        || tree.child(class, "superclasses").is_some_and(|bases| tree.text(bases).contains("Test"))
}

/// The node that holds the decorators of a definition.
pub(super) fn decorated(tree: &Tree<'_>, definition: usize) -> Option<usize> {
    tree.parent(definition).filter(|parent| tree.kind(*parent) == "decorated_definition")
}

pub(super) fn decorators(tree: &Tree<'_>, definition: usize) -> Vec<usize> {
    decorated(tree, definition).map_or_else(Vec::new, |parent| {
        tree.children(parent).filter(|child| tree.kind(*child) == "decorator").collect()
    })
}

fn decorator_name<'text>(tree: &Tree<'text>, decorator: usize) -> &'text str {
    let Some(expression) = tree.named(decorator).next() else { return "" };
    tree.last_name(tree.child(expression, "function").unwrap_or(expression))
}

fn decorator_markers(tree: &Tree<'_>, definition: usize, markers: &mut BTreeSet<String>) {
    for decorator in decorators(tree, definition) {
        let name = decorator_name(tree, decorator);
        let lower = name.to_ascii_lowercase();
        if MARKS.contains(&name) || lower.contains("skip") || lower.contains("xfail") {
            markers.insert(name.to_owned());
        }
        marks(tree, decorator, markers);
    }
}

/// `pytest.mark.skip` anywhere below `node`, as in `pytest.param(.., marks=pytest.mark.skip)`.
fn marks(tree: &Tree<'_>, node: usize, markers: &mut BTreeSet<String>) {
    for inner in tree.subtree(node) {
        if tree.kind(inner) != "attribute" {
            continue;
        }
        let owner = tree.child(inner, "object").map_or("", |owner| tree.last_name(owner));
        let name = tree.child(inner, "attribute").map_or("", |name| tree.text(name));
        if matches!(owner, "mark" | "unittest" | "pytest") && MARKS.contains(&name) {
            markers.insert(name.to_owned());
        }
    }
}

/// Markers that a module or class puts on all that is in it.
fn block_markers(tree: &Tree<'_>, block: usize) -> BTreeSet<String> {
    let mut markers = BTreeSet::new();
    for statement in tree.named(block).filter(|node| tree.kind(*node) == "expression_statement") {
        let Some(inner) = tree.named(statement).next() else { continue };
        match tree.kind(inner) {
            "assignment" => {
                let name = tree.child(inner, "left").map_or("", |left| tree.text(left));
                match name {
                    "pytestmark" => marks(tree, inner, &mut markers),
                    "__test__" if is_false(tree, inner) => {
                        markers.insert("__test__".to_owned());
                    }
                    _ => {}
                }
            }
            "call" => {
                if let Some(name) = marker(tree, inner) {
                    markers.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }
    markers
}

/// Whether an assignment's value is `False`.
fn is_false(tree: &Tree<'_>, assignment: usize) -> bool {
    tree.child(assignment, "right").is_some_and(|right| tree.kind(right) == "false")
}

/// `pytest.skip()`, `self.skipTest()`, `raise SkipTest`.
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    match tree.kind(node) {
        "call" => {
            let function = tree.child(node, "function")?;
            let owner = tree.child(function, "object").map_or("", |owner| tree.text(owner));
            match (owner, tree.last_name(function)) {
                ("pytest", "skip") | (_, "skipTest") => Some("skip"),
                ("pytest", "xfail") => Some("xfail"),
                _ => None,
            }
        }
        "raise_statement" => {
            let raised = tree.named(node).next()?;
            let name = tree.last_name(tree.child(raised, "function").unwrap_or(raised));
            matches!(name, "SkipTest" | "Skipped").then_some("skip")
        }
        _ => None,
    }
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    match tree.kind(node) {
        "assert_statement" => {
            let condition = tree.named(node).next()?;
            // A tuple with something in it is true.
            if tree.kind(condition) == "tuple" && tree.named(condition).next().is_some() {
                return Some(Check::new(tree, node, Form::Idle));
            }
            if always_holds(tree, condition) {
                return Some(Check::new(tree, node, Form::Idle));
            }
            let whole = Operand::between(tree, node + 1, condition);
            Some(Check { whole, form: Form::Holds(Operand::of(tree, condition)) })
        }
        "raise_statement" => {
            let raised = tree.named(node).next()?;
            let name = tree.last_name(tree.child(raised, "function").unwrap_or(raised));
            (name == "AssertionError").then(|| Check::new(tree, node, Form::Other))
        }
        "call" => {
            let function = tree.child(node, "function")?;
            let name = tree.last_name(function);
            let owner = tree.child(function, "object").map_or("", |owner| tree.last_name(owner));
            let method = tree.kind(function) == "attribute";
            if owner == "pytest" && matches!(name, "raises" | "warns" | "fail" | "deprecated_call")
            {
                return Some(Check::new(tree, node, Form::Other));
            }
            let asserts = name.starts_with("assert") && (method || name.contains('_'))
                || method && owner == "self" && matches!(name, "fail" | "failUnless");
            asserts.then(|| Check::new(tree, node, form(tree, node, name)))
        }
        _ => None,
    }
}

/// `x or True`
fn always_holds(tree: &Tree<'_>, condition: usize) -> bool {
    tree.kind(condition) == "boolean_operator"
        && tree.child(condition, "operator").is_some_and(|sign| tree.kind(sign) == "or")
        && ["left", "right"].iter().any(|side| {
            tree.child(condition, side)
                .is_some_and(|side| literal::is_true(tree, &Operand::of(tree, side)))
        })
}

fn form(tree: &Tree<'_>, call: usize, name: &str) -> Form {
    let arguments: Vec<Operand> = tree.child(call, "arguments").map_or_else(Vec::new, |list| {
        tree.named(list)
            .filter(|argument| tree.kind(*argument) != "keyword_argument")
            .map(|argument| Operand::of(tree, argument))
            .collect()
    });
    let mut arguments = arguments.into_iter();
    match (name, arguments.next(), arguments.next()) {
        (
            "assertEqual"
            | "assertEquals"
            | "assertListEqual"
            | "assertTupleEqual"
            | "assertDictEqual"
            | "assertMultiLineEqual"
            | "assertAlmostEqual"
            | "assertSequenceEqual"
            | "assert_equal"
            | "assertIs",
            Some(left),
            Some(right),
        ) => Form::Equal(left, right),
        ("assertTrue" | "assert_" | "assert_true", Some(condition), _) => Form::Holds(condition),
        ("assertFalse" | "assert_false", Some(condition), _) => Form::Fails(condition),
        _ => Form::Other,
    }
}

/// The literals in the rows of `parametrize` at the place of a parameter that an assertion compares with.
fn table_literals(tree: &Tree<'_>, function: usize) -> Vec<Range<usize>> {
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for node in tree.subtree(function) {
        let Some(check) = check(tree, node) else { continue };
        if !always_runs(tree, node, function) {
            continue;
        }
        let sides = match &check.form {
            Form::Holds(condition) => literal::equality(tree, condition),
            Form::Equal(left, right) => Some((left.clone(), right.clone())),
            _ => None,
        };
        let Some((left, right)) = sides else { continue };
        let name = |side: &Operand| {
            side.single(tree).filter(|node| tree.kind(*node) == "identifier").map(|n| tree.text(n))
        };
        let (parameter, other) = match (name(&left), name(&right)) {
            (Some(parameter), None) => (parameter, right),
            (None, Some(parameter)) => (parameter, left),
            _ => continue,
        };
        if !other.nodes.clone().any(|node| tree.text(node) == parameter) {
            wanted.insert(parameter);
        }
    }
    let mut found = Vec::new();
    for decorator in decorators(tree, function) {
        if decorator_name(tree, decorator) != "parametrize" {
            continue;
        }
        let Some(call) = tree.named(decorator).next() else { continue };
        let Some(list) = tree.child(call, "arguments") else { continue };
        let mut arguments = tree.named(list);
        let (Some(names), Some(rows)) = (arguments.next(), arguments.next()) else { continue };
        let names = parameter_names(tree, names);
        for (index, _) in names.iter().enumerate().filter(|(_, name)| wanted.contains(*name)) {
            found.extend(tree.named(rows).filter_map(|row| cell(tree, row, index, names.len())));
        }
    }
    found
}

fn parameter_names<'text>(tree: &Tree<'text>, names: usize) -> Vec<&'text str> {
    let inside = |node: usize| {
        std::str::from_utf8(literal::between_quotes(tree.text(node).as_bytes())).unwrap_or_default()
    };
    match tree.kind(names) {
        "string" => inside(names).split(',').map(str::trim).collect(),
        "tuple" | "list" => tree.named(names).map(inside).collect(),
        _ => Vec::new(),
    }
}

fn cell(tree: &Tree<'_>, row: usize, index: usize, width: usize) -> Option<Range<usize>> {
    let cells = match tree.kind(row) {
        "call" => tree.child(row, "arguments")?,
        "tuple" | "list" if width > 1 => row,
        _ => {
            return (width == 1)
                .then(|| literal::whole(tree, &Operand::of(tree, row)))?
                .map(|(_, bytes)| bytes);
        }
    };
    let cell = tree.named(cells).nth(index)?;
    literal::whole(tree, &Operand::of(tree, cell)).map(|(_, bytes)| bytes)
}
