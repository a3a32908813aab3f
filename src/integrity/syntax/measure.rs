//! From where the test items of a file stand to what they assert.
//!
//! A language file says what a test item and an assertion look like; reachability, helper functions,
//! swallowed assertions and hashes are the same for all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::literal::{self, Operand};
use super::tree::Tree;
use super::{Language, Scan, TestItem, tokens};
use super::{cpp, csharp, go, java, javascript, php, python, rows, ruby, rust};

/// A test item as a language file finds it.
pub(super) struct Found {
    pub name: String,
    pub containers: Vec<String>,
    /// Where the item begins: its first attribute or decorator.
    pub first: usize,
    /// The subtree that is the item.
    pub root: usize,
    /// What the body's hash covers.
    pub body: Vec<Range<usize>>,
    pub markers: BTreeSet<String>,
    /// Whether the item runs once per row of a table.
    pub table: bool,
    /// Literals that are compared by way of a table.
    pub expected: Vec<Range<usize>>,
}

/// An assertion as a language file finds it.
pub(super) struct Check {
    pub whole: Operand,
    pub form: Form,
}

/// What an assertion claims.
pub(super) enum Form {
    /// The first equals the second.
    Equal(Operand, Operand),
    Holds(Operand),
    Fails(Operand),
    Other,
    /// It can never fail.
    Idle,
}

impl Check {
    pub fn new(tree: &Tree<'_>, whole: usize, form: Form) -> Self {
        Self { whole: Operand::of(tree, whole), form }
    }

    /// With comparisons inside a condition taken for what they are.
    fn settled(self, tree: &Tree<'_>) -> Self {
        let form = match self.form {
            Form::Holds(condition) => match literal::equality(tree, &condition) {
                Some((left, right)) => Form::Equal(left, right),
                None => Form::Holds(condition),
            },
            other => other,
        };
        Self { form, ..self }
    }

    fn is_idle(&self, tree: &Tree<'_>) -> bool {
        match &self.form {
            Form::Idle => true,
            Form::Equal(left, right) => literal::is_same(tree, left, right),
            Form::Holds(condition) => literal::is_true(tree, condition),
            Form::Fails(condition) => literal::is_false(tree, condition),
            Form::Other => false,
        }
    }
}

pub(super) fn find(tree: &Tree<'_>) -> Vec<Found> {
    match tree.language {
        Language::Python => python::items(tree),
        Language::Rust => rust::items(tree),
        Language::Go => go::items(tree),
        Language::JavaScript | Language::TypeScript | Language::Tsx => javascript::items(tree),
        Language::Java => java::items(tree),
        Language::Ruby => ruby::items(tree),
        Language::CSharp => csharp::items(tree),
        Language::Php => php::items(tree),
        Language::Cpp => cpp::items(tree),
    }
}

fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    let check = match tree.language {
        Language::Python => python::check(tree, node),
        Language::Rust => rust::check(tree, node),
        Language::Go => go::check(tree, node),
        Language::JavaScript | Language::TypeScript | Language::Tsx => {
            javascript::check(tree, node)
        }
        Language::Java => java::check(tree, node),
        Language::Ruby => ruby::check(tree, node),
        Language::CSharp => csharp::check(tree, node),
        Language::Php => php::check(tree, node),
        Language::Cpp => cpp::check(tree, node),
    };
    check.map(|check| check.settled(tree))
}

/// The marker that a statement inside a test puts on it, such as `t.Skip()`.
fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    match tree.language {
        Language::Python => python::marker(tree, node),
        Language::Go => go::marker(tree, node),
        Language::JavaScript | Language::TypeScript | Language::Tsx => {
            javascript::marker(tree, node)
        }
        Language::Java => java::marker(tree, node),
        Language::Ruby => ruby::marker(tree, node),
        Language::CSharp => csharp::marker(tree, node),
        Language::Php => php::marker(tree, node),
        Language::Cpp => cpp::marker(tree, node),
        Language::Rust => None,
    }
}

/// How a handler's names are matched: what in this language catches a failed assertion.
fn swallowed(tree: &Tree<'_>, node: usize, root: usize) -> bool {
    match tree.language {
        Language::Rust => rust::swallowed(tree, node, root),
        Language::Go | Language::Cpp => false,
        _ => super::swallow::swallowed(tree, node, root),
    }
}

/// Finds and measures all test items.
pub(super) fn scan(tree: &Tree<'_>) -> Option<Scan> {
    let found = find(tree);
    let roots: BTreeSet<usize> = found.iter().map(|found| found.root).collect();
    let helpers = helpers(tree, &roots);
    let definitions = rows::definitions(tree);
    let items: Vec<TestItem> =
        found.into_iter().map(|found| measure(tree, found, &helpers, &definitions)).collect();
    if tree.exhausted() {
        return None;
    }
    Some(Scan { items: effective(tree.language, items), broken: tree.errors > 0, helpers })
}

/// The definition that counts where a later one takes the place of an earlier one.
fn effective(language: Language, items: Vec<TestItem>) -> Vec<TestItem> {
    if !matches!(language, Language::Python | Language::Ruby) {
        return items;
    }
    let mut last = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        last.insert((item.containers.clone(), item.name.clone()), index);
    }
    // The examples of RSpec may share a description.
    let described = |item: &TestItem| language == Language::Ruby && !item.name.starts_with("test_");
    items
        .into_iter()
        .enumerate()
        .filter(|(index, item)| {
            described(item)
                || last.get(&(item.containers.clone(), item.name.clone())) == Some(index)
        })
        .map(|(_, item)| item)
        .collect()
}

/// What one stretch of code asserts.
#[derive(Default)]
struct Count {
    assertions: u32,
    checks: Vec<u64>,
    expected: Vec<Range<usize>>,
    markers: BTreeSet<&'static str>,
    /// Names of what is called.
    calls: Vec<String>,
    /// Names of what is passed as an argument: among variables perhaps a function.
    passed: Vec<String>,
    swallows: bool,
    loops: bool,
}

fn count(tree: &Tree<'_>, root: usize, helpers: &BTreeMap<String, u32>) -> Count {
    let mut count = Count::default();
    let range = tree.subtree(root);
    let mut node = range.start;
    while node < range.end {
        if !tree.spend(1) {
            break;
        }
        if tree.is_comment(node) {
            node = tree.after(node);
            continue;
        }
        if let Some(end) = dead_from(tree, node) {
            // What the statement itself holds still runs.
            count_expression(tree, node, helpers, &mut count);
            node = end.max(node + 1).min(range.end);
            continue;
        }
        if is_never(tree, node) {
            node = tree.after(node);
            continue;
        }
        visit(tree, root, node, helpers, &mut count);
        node += 1;
    }
    count.checks.sort_unstable();
    count.calls.sort_unstable();
    count
}

fn count_expression(
    tree: &Tree<'_>,
    statement: usize,
    helpers: &BTreeMap<String, u32>,
    count: &mut Count,
) {
    for node in tree.subtree(statement) {
        if tree.spend(1) {
            visit(tree, statement, node, helpers, count);
        }
    }
}

fn visit(
    tree: &Tree<'_>,
    root: usize,
    node: usize,
    helpers: &BTreeMap<String, u32>,
    count: &mut Count,
) {
    if let Some(marker) = marker(tree, node) {
        count.markers.insert(marker);
    }
    count.loops |= matches!(
        tree.kind(node),
        "for_statement"
            | "for_in_statement"
            | "for_expression"
            | "foreach_statement"
            | "enhanced_for_statement"
            | "for_range_loop"
            | "while_statement"
            | "for"
            | "list_comprehension"
    );
    let callee = callee(tree, node);
    let local = callee.and_then(|name| helpers.get(name).copied());
    match check(tree, node) {
        Some(check) if local.is_none() => {
            if check.is_idle(tree) {
                return;
            }
            count.assertions = count.assertions.saturating_add(1);
            count.checks.push(tokens::hash(tree, check.whole.nodes.clone(), &[]));
            if let Form::Equal(left, right) = &check.form
                && always_runs(tree, node, root)
            {
                count.expected.extend(literal::expected(tree, left, right));
            }
            count.swallows |= swallowed(tree, node, root);
        }
        _ => {
            let Some(name) = callee.or_else(|| passed(tree, node)).filter(|name| name.len() < 200)
            else {
                return;
            };
            if let Some(number) = local.or_else(|| helpers.get(name).copied()) {
                count.assertions = count.assertions.saturating_add(number);
                if number > 0 {
                    count.checks.push(tokens::hash_text(name.as_bytes()));
                    count.swallows |= swallowed(tree, node, root);
                }
            } else if callee.is_some() {
                count.calls.push(name.to_owned());
            } else {
                count.passed.push(name.to_owned());
            }
        }
    }
}

/// Whether an assertion below `root` runs whenever the test passes: what stands in a branch, in a handler
/// or in a function that is handed on may not, and what has to fail proves nothing by failing.
pub(super) fn always_runs(tree: &Tree<'_>, node: usize, root: usize) -> bool {
    // Go asserts by a branch.
    let mut own_branch = tree.language == Language::Go;
    let mut child = node;
    for above in tree.parents(node).take_while(|above| *above > root) {
        let alternative = tree.child(above, "alternative") == Some(child);
        let runs = match tree.kind(above) {
            "if_statement" if own_branch && !alternative => {
                own_branch = false;
                true
            }
            "if_statement"
            | "if_expression"
            | "elif_clause"
            | "else_clause"
            | "else"
            | "elsif"
            | "if"
            | "unless"
            | "if_modifier"
            | "unless_modifier"
            | "conditional_expression"
            | "ternary_expression"
            | "match_statement"
            | "match_expression"
            | "match_arm"
            | "case_clause"
            | "case"
            | "when"
            | "switch_statement"
            | "switch_expression"
            | "expression_switch_statement"
            | "type_switch_statement"
            | "select_statement"
            | "try_statement"
            | "try_expression"
            | "except_clause"
            | "catch_clause"
            | "finally_clause"
            | "rescue"
            | "begin"
            | "while_statement"
            | "while_expression"
            | "while"
            | "until"
            | "lambda"
            | "lambda_expression"
            | "closure_expression"
            | "defer_statement"
            | "go_statement" => false,
            // The function that is handed to the test itself is the test.
            "arrow_function" | "function_expression" | "anonymous_function" | "do_block" => {
                is_handed_to(tree, above, root)
            }
            "block" if tree.language == Language::Ruby => is_handed_to(tree, above, root),
            "with_statement" => {
                let head = tree.child_of_kind(above, "with_clause").map(|head| tree.text(head));
                let fails = ["raises", "Raises", "warns", "Warns", "suppress"];
                head.is_some_and(|head| !fails.iter().any(|word| head.contains(word)))
            }
            _ => true,
        };
        if !runs {
            return false;
        }
        child = above;
    }
    true
}

fn is_handed_to(tree: &Tree<'_>, function: usize, root: usize) -> bool {
    tree.parents(function).take(3).any(|above| above <= root)
}

/// The name of what `node` calls.
pub(super) fn callee<'text>(tree: &Tree<'text>, node: usize) -> Option<&'text str> {
    let field = match tree.kind(node) {
        "call" => {
            if tree.language == Language::Ruby {
                "method"
            } else {
                "function"
            }
        }
        "call_expression" | "invocation_expression" | "function_call_expression" => "function",
        "macro_invocation" => "macro",
        "method_invocation" | "member_call_expression" | "scoped_call_expression" => "name",
        // Inside a macro a call is a name with a group after it.
        "identifier" if tree.language == Language::Rust => {
            let parent = tree.parent(node)?;
            let next = tree.next(node)?;
            return (tree.kind(parent) == "token_tree" && tree.kind(next) == "token_tree")
                .then(|| tree.text(node));
        }
        _ => return None,
    };
    Some(tree.last_name(tree.child(node, field)?))
}

/// The name of a function that is passed on as it stands: `cases.forEach(check)`.
fn passed<'text>(tree: &Tree<'text>, node: usize) -> Option<&'text str> {
    let parent = tree.parent(node)?;
    (matches!(tree.kind(node), "identifier" | "name" | "simple_symbol")
        && matches!(tree.kind(parent), "argument_list" | "arguments" | "argument"))
    .then(|| tree.text(node))
}

/// The end of what can no longer be reached after `node`, which leaves its block.
fn dead_from(tree: &Tree<'_>, node: usize) -> Option<usize> {
    let leaves = |node: usize| {
        matches!(
            tree.kind(node),
            "return_statement"
                | "raise_statement"
                | "throw_statement"
                | "return_expression"
                | "break_statement"
                | "continue_statement"
                | "return"
        ) && tree.is_named(node)
    };
    let statement = leaves(node)
        || tree.kind(node) == "expression_statement" && tree.named(node).next().is_some_and(leaves);
    let parent = tree.parent(node)?;
    let in_block = matches!(
        tree.kind(parent),
        "block"
            | "statement_block"
            | "statement_list"
            | "compound_statement"
            | "body_statement"
            | "block_body"
    );
    (statement && in_block).then(|| tree.after(parent))
}

/// Whether `node` is what a condition that is never true guards.
fn is_never(tree: &Tree<'_>, node: usize) -> bool {
    if !matches!(tree.field(node), "consequence" | "body") {
        return false;
    }
    let Some(parent) = tree.parent(node) else { return false };
    matches!(tree.kind(parent), "if_statement" | "if_expression" | "if" | "while_statement")
        && tree
            .child(parent, "condition")
            .is_some_and(|condition| literal::is_false(tree, &Operand::of(tree, condition)))
}

/// How many assertions each function of the file that is not a test comes to, by name.
fn helpers(tree: &Tree<'_>, roots: &BTreeSet<usize>) -> BTreeMap<String, u32> {
    let none = BTreeMap::new();
    let mut functions: BTreeMap<String, (u32, Vec<String>)> = BTreeMap::new();
    for node in 0..tree.nodes.len() {
        let Some(name) = function_name(tree, node) else { continue };
        let is_test = roots.contains(&node)
            || tree.parent(node).is_some_and(|parent| roots.contains(&parent));
        if is_test || name.is_empty() {
            continue;
        }
        let counted = count(tree, node, &none);
        let entry = functions.entry(name.to_owned()).or_default();
        entry.0 = entry.0.max(counted.assertions);
        entry.1.extend(counted.calls);
        entry.1.extend(counted.passed);
    }
    let mut counts: BTreeMap<String, u32> =
        functions.iter().map(|(name, (own, _))| (name.clone(), *own)).collect();
    // Helpers of helpers; deeper nesting than this is not followed.
    for _ in 0..4 {
        let next = functions
            .iter()
            .map(|(name, (own, mentions))| {
                let more = mentions
                    .iter()
                    .filter(|mention| *mention != name)
                    .filter_map(|mention| counts.get(mention))
                    .fold(*own, |sum, more| sum.saturating_add(*more));
                (name.clone(), more.min(1_000))
            })
            .collect();
        counts = next;
    }
    counts
}

/// The name that a function definition defines.
pub(super) fn function_name<'text>(tree: &Tree<'text>, node: usize) -> Option<&'text str> {
    let name = match tree.kind(node) {
        "function_definition" if tree.language == Language::Cpp => {
            let declarator = tree.child(node, "declarator")?;
            tree.last_name(tree.child(declarator, "declarator").unwrap_or(declarator))
        }
        "function_definition"
        | "function_item"
        | "function_declaration"
        | "generator_function_declaration"
        | "method_declaration"
        | "method_definition"
        | "method"
        | "singleton_method"
        | "local_function_statement"
        | "macro_definition" => tree.text(tree.child(node, "name")?),
        "variable_declarator" => {
            let value = tree.child(node, "value")?;
            if !matches!(tree.kind(value), "arrow_function" | "function_expression") {
                return None;
            }
            tree.text(tree.child(node, "name")?)
        }
        _ => return None,
    };
    Some(name)
}

fn measure(
    tree: &Tree<'_>,
    found: Found,
    helpers: &BTreeMap<String, u32>,
    definitions: &BTreeMap<&str, usize>,
) -> TestItem {
    let counted = count(tree, found.root, helpers);
    let mut markers = found.markers;
    markers.extend(counted.markers.iter().map(|marker| (*marker).to_owned()));
    let mut expected = found.expected;
    expected.extend(counted.expected);
    expected.sort_by_key(|bytes| (bytes.start, bytes.end));
    expected.dedup();
    let first = tree.bytes(found.first).start;
    let own = found.first..tree.after(found.root);
    let rows = rows::outside(tree, own.clone(), definitions);
    let mut literals: Vec<u64> = std::iter::once(own)
        .chain(rows.iter().cloned())
        .flat_map(|part| literals(tree, part))
        .collect();
    literals.sort_unstable();
    TestItem {
        line: tree.nodes.get(found.first).map_or(1, |node| node.line),
        span: first..tree.bytes(found.root).end,
        body: tokens::hash_all(tree, &found.body, &[]),
        assertions: counted.assertions,
        checks: counted.checks,
        markers: markers.into_iter().collect(),
        swallows: counted.swallows,
        expected,
        literals,
        calls: counted.calls,
        table: found.table || counted.loops || !rows.is_empty(),
        name: found.name,
        containers: found.containers,
    }
}

/// The hashes of all literals.
fn literals(tree: &Tree<'_>, nodes: Range<usize>) -> Vec<u64> {
    let mut found = Vec::new();
    let mut node = nodes.start;
    while node < nodes.end && tree.spend(1) {
        let says_nothing =
            tree.is_comment(node) || is_message(tree, node) || is_title(tree, node, nodes.start);
        if says_nothing {
            node = tree.after(node);
        } else if literal::sort(tree, node).is_some() {
            let text = tree.text.get(tree.bytes(node)).unwrap_or_default();
            found.push(tokens::hash_text(literal::between_quotes(text)));
            node = tree.after(node);
        } else {
            node += 1;
        }
    }
    found
}

/// Whether `node` is what the call that makes the test item `item` calls it.
fn is_title(tree: &Tree<'_>, node: usize, item: usize) -> bool {
    let Some(list) = tree.parent(node) else { return false };
    matches!(tree.kind(item), "call" | "call_expression")
        && tree.parent(list) == Some(item)
        && tree.field(list) == "arguments"
        && tree.named(list).next() == Some(node)
}

/// Whether `node` is what a failing call of Go prints: it repeats what the condition says.
fn is_message(tree: &Tree<'_>, node: usize) -> bool {
    tree.language == Language::Go
        && tree.kind(node) == "argument_list"
        && tree.parent(node).is_some_and(|call| go::fails(tree, call))
}
