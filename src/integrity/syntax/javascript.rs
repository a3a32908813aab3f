//! JavaScript and TypeScript: `test` and `it` calls of jest, vitest, mocha, node and Deno, and their assertions.

use std::collections::BTreeSet;

use super::literal::{self, Operand};
use super::measure::{Check, Form, Found};
use super::tree::Tree;

/// What a call of the runner's own functions says.
pub(super) struct Head<'text> {
    /// `it` of `it.each(..)(..)`.
    pub base: &'text str,
    /// `each` and `skip` of `it.skip.each(..)`.
    modifiers: Vec<&'text str>,
    tables: Vec<usize>,
}

pub(super) fn head<'text>(tree: &Tree<'text>, call: usize) -> Option<Head<'text>> {
    let mut node = tree.child(call, "function")?;
    let mut head = Head { base: "", modifiers: Vec::new(), tables: Vec::new() };
    // `describe.skip.each(..)(..)` is as deep as this gets.
    for _ in 0..8 {
        match tree.kind(node) {
            "identifier" => {
                head.base = tree.text(node);
                return Some(head);
            }
            "member_expression" => {
                head.modifiers.push(tree.text(tree.child(node, "property")?));
                node = tree.child(node, "object")?;
            }
            "call_expression" => {
                head.tables.extend(tree.child(node, "arguments"));
                node = tree.child(node, "function")?;
            }
            _ => return None,
        }
    }
    None
}

const MODIFIERS: [&str; 14] = [
    "skip",
    "only",
    "todo",
    "fails",
    "failing",
    "skipIf",
    "runIf",
    "each",
    "concurrent",
    "sequential",
    "for",
    "serial",
    "parallel",
    "extend",
];

fn is_test(head: &Head<'_>) -> bool {
    let known = head.modifiers.iter().all(|modifier| MODIFIERS.contains(modifier));
    matches!(head.base, "test" | "it" | "specify" | "fit" | "xit" | "xtest" | "xspecify" | "ftest")
        && known
        || matches!(head.base, "Deno" | "Bun") && head.modifiers.last() == Some(&"test")
}

fn is_group(head: &Head<'_>) -> bool {
    matches!(head.base, "describe" | "context" | "suite" | "xdescribe" | "fdescribe" | "xcontext")
        && head.modifiers.iter().all(|modifier| MODIFIERS.contains(modifier))
}

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for node in 0..tree.nodes.len() {
        if tree.kind(node) == "call_expression" {
            found.extend(item(tree, node));
        }
    }
    found
}

fn item(tree: &Tree<'_>, call: usize) -> Option<Found> {
    let head = head(tree, call).filter(is_test)?;
    let list = tree.child(call, "arguments").filter(|list| tree.kind(*list) == "arguments")?;
    let arguments: Vec<usize> = tree.named(list).collect();
    let name = title(tree, *arguments.first()?)?;
    let mut markers = BTreeSet::new();
    add_markers(tree, call, &head, &mut markers);
    let mut containers = Vec::new();
    for parent in tree.parents(call).filter(|parent| tree.kind(*parent) == "call_expression") {
        let Some(group) = self::head(tree, parent) else { continue };
        if is_group(&group) {
            let arguments = tree.child(parent, "arguments");
            let first = arguments.and_then(|list| tree.named(list).next());
            containers.push(first.and_then(|first| title(tree, first)).unwrap_or_default());
            add_markers(tree, parent, &group, &mut markers);
        }
    }
    containers.reverse();
    // The statement, so that its semicolon goes with it.
    let first = tree
        .parent(call)
        .filter(|parent| tree.kind(*parent) == "expression_statement")
        .unwrap_or(call);
    let body = arguments
        .iter()
        .skip(1)
        .filter(|argument| is_function(tree.kind(**argument)))
        .map(|function| tree.subtree(*function))
        .collect();
    Some(Found {
        name,
        containers,
        first,
        root: first,
        body,
        markers,
        table: head.modifiers.iter().any(|modifier| matches!(*modifier, "each" | "for")),
        expected: Vec::new(),
    })
}

fn is_function(kind: &str) -> bool {
    matches!(kind, "arrow_function" | "function_expression" | "call_expression" | "object")
}

/// The text of a test's name; for Deno's form with an object the one under `name`.
fn title(tree: &Tree<'_>, node: usize) -> Option<String> {
    match tree.kind(node) {
        "string" | "template_string" => {
            let text = literal::between_quotes(tree.text(node).as_bytes());
            let mut plain = String::new();
            let mut escaped = false;
            for letter in String::from_utf8_lossy(text).chars() {
                if escaped || letter != '\\' {
                    plain.push(letter);
                    escaped = false;
                } else {
                    escaped = true;
                }
            }
            Some(plain)
        }
        "object" => tree
            .named(node)
            .filter(|pair| tree.child(*pair, "key").is_some_and(|key| tree.text(key) == "name"))
            .find_map(|pair| title_text(tree, tree.child(pair, "value")?)),
        "binary_expression" | "identifier" | "member_expression" => {
            Some(tree.text(node).to_owned())
        }
        _ => None,
    }
}

fn title_text(tree: &Tree<'_>, node: usize) -> Option<String> {
    (tree.kind(node) == "string").then(|| {
        String::from_utf8_lossy(literal::between_quotes(tree.text(node).as_bytes())).into_owned()
    })
}

fn add_markers(tree: &Tree<'_>, call: usize, head: &Head<'_>, markers: &mut BTreeSet<String>) {
    if head.base.starts_with('x') {
        markers.insert("skip".to_owned());
    }
    if matches!(head.base, "fit" | "fdescribe" | "ftest") {
        markers.insert("only".to_owned());
    }
    for modifier in &head.modifiers {
        if matches!(
            *modifier,
            "skip" | "only" | "todo" | "fails" | "failing" | "skipIf" | "runIf" | "ignore"
        ) {
            markers.insert((*modifier).to_owned());
        }
    }
    // `it('x', {skip: true}, ..)`
    let Some(list) = tree.child(call, "arguments") else { return };
    for object in tree.named(list).filter(|argument| tree.kind(*argument) == "object") {
        for pair in tree.named(object) {
            let key = tree.child(pair, "key").map_or("", |key| tree.text(key));
            let off = tree.child(pair, "value").is_none_or(|value| tree.kind(value) == "false");
            if matches!(key, "skip" | "only" | "todo" | "fails" | "ignore") && !off {
                markers.insert(key.to_owned());
            }
        }
    }
}

/// `this.skip()`, `t.skip()`, `pending()`.
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    if tree.kind(node) != "call_expression" {
        return None;
    }
    let function = tree.child(node, "function")?;
    if tree.kind(function) == "identifier" {
        return (tree.text(function) == "pending").then_some("skip");
    }
    let owner = tree.text(tree.child(function, "object")?);
    let name = tree.text(tree.child(function, "property")?);
    match (owner, name) {
        ("this" | "t" | "ctx" | "context", "skip") => Some("skip"),
        ("this" | "t" | "ctx" | "context", "todo") => Some("todo"),
        _ => None,
    }
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    if tree.kind(node) == "member_expression" {
        return should(tree, node);
    }
    if tree.kind(node) != "call_expression" {
        return None;
    }
    let function = tree.child(node, "function")?;
    let arguments: Vec<Operand> = tree
        .child(node, "arguments")
        .filter(|list| tree.kind(*list) == "arguments")
        .map(|list| tree.named(list).map(|argument| Operand::of(tree, argument)).collect())
        .unwrap_or_default();
    if tree.kind(function) == "identifier" {
        return match tree.text(function) {
            "expect" | "expectTypeOf" => expectation(tree, node, arguments.into_iter().next()),
            "assert" | "ok" => {
                let form = arguments.into_iter().next().map_or(Form::Other, Form::Holds);
                Some(Check::new(tree, node, form))
            }
            name if name.starts_with("assert") => Some(plain(tree, node, name, arguments)),
            "strictEqual" | "deepStrictEqual" | "deepEqual" | "fail" => {
                Some(plain(tree, node, tree.text(function), arguments))
            }
            _ => None,
        };
    }
    let owner = tree.text(tree.child(function, "object")?);
    let name = tree.text(tree.child(function, "property")?);
    let library = matches!(owner, "assert" | "assert.strict" | "chai.assert" | "sinon.assert")
        || owner == "t" && is_tap(name)
        || owner.starts_with("expect") && matches!(name, "fail" | "unreachable");
    (library && !matches!(name, "plan" | "strict")).then(|| plain(tree, node, name, arguments))
}

/// The assertions of tap-like testing values.
fn is_tap(name: &str) -> bool {
    matches!(
        name,
        "is" | "not"
            | "equal"
            | "same"
            | "ok"
            | "true"
            | "false"
            | "deepEqual"
            | "throws"
            | "pass"
            | "fail"
            | "match"
            | "like"
            | "truthy"
            | "falsy"
            | "notThrows"
            | "strictEqual"
    )
}

fn plain(tree: &Tree<'_>, call: usize, name: &str, arguments: Vec<Operand>) -> Check {
    let mut arguments = arguments.into_iter();
    let form = match (name, arguments.next(), arguments.next()) {
        (
            "equal" | "strictEqual" | "deepEqual" | "deepStrictEqual" | "is" | "same"
            | "assertEquals" | "assertStrictEquals" | "eql",
            Some(left),
            Some(right),
        ) => Form::Equal(left, right),
        ("ok" | "isTrue" | "isOk" | "true" | "truthy" | "assertTrue", Some(condition), _) => {
            Form::Holds(condition)
        }
        ("isFalse" | "false" | "falsy", Some(condition), _) => Form::Fails(condition),
        ("pass", _, _) => Form::Idle,
        _ => Form::Other,
    };
    Check::new(tree, call, form)
}

/// `expect(x)` with the matchers chained to it.
fn expectation(tree: &Tree<'_>, call: usize, subject: Option<Operand>) -> Option<Check> {
    let mut whole = call;
    let mut matcher = "";
    let mut negated = false;
    let mut argument = None;
    for parent in tree.parents(call) {
        let below = whole;
        match tree.kind(parent) {
            "member_expression" if tree.child(parent, "object") == Some(below) => {
                matcher = tree.child(parent, "property").map_or("", |name| tree.text(name));
                negated |= matcher == "not";
            }
            "call_expression" if tree.child(parent, "function") == Some(below) => {
                argument = tree.child(parent, "arguments").and_then(|list| tree.named(list).next());
            }
            _ => break,
        }
        whole = parent;
    }
    if whole == call {
        return None;
    }
    let argument = argument.map(|argument| Operand::of(tree, argument));
    let form = match (matcher, negated, subject, argument) {
        (
            "toBe" | "toEqual" | "toStrictEqual" | "equal" | "eql" | "equals" | "eq",
            false,
            Some(subject),
            Some(argument),
        ) => Form::Equal(subject, argument),
        ("toBeTruthy" | "ok" | "true", false, Some(subject), _) => Form::Holds(subject),
        ("toBeFalsy" | "false", false, Some(subject), _) => Form::Fails(subject),
        _ => Form::Other,
    };
    Some(Check::new(tree, whole, form))
}

/// chai's `x.should.equal(y)`.
fn should(tree: &Tree<'_>, node: usize) -> Option<Check> {
    let property = tree.child(node, "property")?;
    if tree.text(property) != "should" {
        return None;
    }
    let mut whole = node;
    for parent in tree.parents(node) {
        let chained = tree.child(parent, "object") == Some(whole)
            || tree.child(parent, "function") == Some(whole);
        if !chained {
            break;
        }
        whole = parent;
    }
    (whole != node).then(|| Check::new(tree, whole, Form::Other))
}
