//! C and C++: googletest, Catch2 and doctest macros.

use std::collections::BTreeSet;

use super::literal::{self, Operand};
use super::measure::{Check, Form, Found};
use super::tree::Tree;

pub(super) fn items(tree: &Tree<'_>) -> Vec<Found> {
    let mut found = Vec::new();
    for node in 0..tree.nodes.len() {
        match tree.kind(node) {
            "function_definition" => found.extend(googletest(tree, node)),
            "expression_statement" => found.extend(catch(tree, node)),
            _ => {}
        }
    }
    found
}

/// The macro and its arguments of `TEST(Suite, Name) {..}`, which reads like a function.
pub(super) fn test_macro<'text>(
    tree: &Tree<'text>,
    function: usize,
) -> Option<(&'text str, &'text str, &'text str)> {
    let declarator = tree.child(function, "declarator")?;
    let name = tree.text(tree.child(declarator, "declarator")?);
    if !matches!(name, "TEST" | "TEST_F" | "TEST_P" | "TYPED_TEST" | "TYPED_TEST_P" | "FRIEND_TEST")
    {
        return None;
    }
    let mut arguments = tree.named(tree.child(declarator, "parameters")?);
    Some((name, tree.text(arguments.next()?), tree.text(arguments.next()?)))
}

fn googletest(tree: &Tree<'_>, function: usize) -> Option<Found> {
    let (kind, suite, name) = test_macro(tree, function)?;
    let mut markers = BTreeSet::new();
    if name.starts_with("DISABLED_") || suite.starts_with("DISABLED_") {
        markers.insert("DISABLED".to_owned());
    }
    let body = tree.child(function, "body")?;
    Some(Found {
        name: name.to_owned(),
        containers: vec![suite.to_owned()],
        first: function,
        root: function,
        body: vec![tree.subtree(body)],
        markers,
        table: kind.contains("_P") || kind.starts_with("TYPED"),
        expected: Vec::new(),
    })
}

/// `TEST_CASE("name", "[tag]") {..}`: a call without its semicolon and a block.
fn catch(tree: &Tree<'_>, statement: usize) -> Option<Found> {
    let call = tree.named(statement).next().filter(|call| tree.kind(*call) == "call_expression")?;
    let name = tree.text(tree.child(call, "function")?);
    if !matches!(name, "TEST_CASE" | "SCENARIO" | "TEST_CASE_TEMPLATE" | "TEMPLATE_TEST_CASE") {
        return None;
    }
    let body = tree.next(statement).filter(|body| tree.kind(*body) == "compound_statement")?;
    let mut arguments = tree.named(tree.child(call, "arguments")?);
    let inside = |node: usize| {
        String::from_utf8_lossy(literal::between_quotes(tree.text(node).as_bytes())).into_owned()
    };
    let title = arguments.next().map(inside)?;
    let mut markers = BTreeSet::new();
    if let Some(tags) = arguments.next().map(inside) {
        for tag in ["!shouldfail", "!mayfail", "[.", "!hide"] {
            if tags.contains(tag) {
                markers.insert(tag.trim_start_matches(['[', '!']).to_owned());
            }
        }
    }
    Some(Found {
        name: title,
        containers: Vec::new(),
        first: statement,
        root: body,
        body: vec![tree.subtree(body)],
        markers,
        table: name.contains("TEMPLATE"),
        expected: Vec::new(),
    })
}

fn called<'text>(tree: &Tree<'text>, node: usize) -> Option<&'text str> {
    (tree.kind(node) == "call_expression")
        .then(|| tree.child(node, "function"))?
        .map(|f| tree.text(f))
}

/// `GTEST_SKIP()`
pub(super) fn marker(tree: &Tree<'_>, node: usize) -> Option<&'static str> {
    matches!(called(tree, node)?, "GTEST_SKIP" | "SKIP").then_some("skip")
}

pub(super) fn check(tree: &Tree<'_>, node: usize) -> Option<Check> {
    let name = called(tree, node)?;
    let asserts =
        ["EXPECT_", "ASSERT_", "REQUIRE", "CHECK", "CU_ASSERT", "TEST_ASSERT", "ck_assert"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || matches!(name, "assert" | "FAIL" | "ADD_FAILURE" | "GTEST_FAIL" | "cr_assert");
    if !asserts {
        return None;
    }
    let arguments: Vec<Operand> = tree.child(node, "arguments").map_or_else(Vec::new, |list| {
        tree.named(list).map(|argument| Operand::of(tree, argument)).collect()
    });
    let mut arguments = arguments.into_iter();
    let form = match (name, arguments.next(), arguments.next()) {
        (
            "EXPECT_EQ" | "ASSERT_EQ" | "EXPECT_STREQ" | "ASSERT_STREQ" | "EXPECT_DOUBLE_EQ"
            | "EXPECT_FLOAT_EQ" | "CHECK_EQ" | "REQUIRE_EQ",
            Some(left),
            Some(right),
        ) => Form::Equal(left, right),
        ("EXPECT_TRUE" | "ASSERT_TRUE" | "REQUIRE" | "CHECK" | "assert", Some(condition), _) => {
            Form::Holds(condition)
        }
        ("EXPECT_FALSE" | "ASSERT_FALSE" | "REQUIRE_FALSE" | "CHECK_FALSE", Some(condition), _) => {
            Form::Fails(condition)
        }
        _ => Form::Other,
    };
    Some(Check::new(tree, node, form))
}
