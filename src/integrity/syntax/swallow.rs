//! Whether a failed assertion is caught and forgotten by the code around it.

use super::Language;
use super::tree::Tree;

/// Whether an assertion at `node` stands, inside `root`, in a `try` whose handler catches and drops it.
///
/// A handler that does anything but print, return or go on is given the benefit of the doubt, and so is
/// one inside a loop, which is how people retry.
pub(super) fn swallowed(tree: &Tree<'_>, node: usize, root: usize) -> bool {
    let mut inner = node;
    let mut found = false;
    for parent in tree.parents(node) {
        let is_loop = matches!(
            tree.kind(parent),
            "for_statement"
                | "while_statement"
                | "for_in_statement"
                | "do_statement"
                | "while"
                | "until"
                | "for"
                | "enhanced_for_statement"
                | "foreach_statement"
        );
        if is_loop {
            return false;
        }
        found |= match tree.kind(parent) {
            "try_statement" | "try_with_resources_statement" | "begin" | "body_statement" => {
                let guarded = !is_handler(tree.kind(inner)) && tree.kind(inner) != "finally_clause";
                guarded && tree.children(parent).any(|child| drops(tree, child))
            }
            "with_statement" if tree.language == Language::Python => {
                tree.field(inner) == "body" && suppresses(tree, parent)
            }
            _ => false,
        };
        if parent == root {
            break;
        }
        inner = parent;
    }
    found
}

fn is_handler(kind: &str) -> bool {
    matches!(kind, "except_clause" | "catch_clause" | "rescue" | "except_group_clause")
}

/// `with suppress(AssertionError):`
fn suppresses(tree: &Tree<'_>, with: usize) -> bool {
    let Some(clause) = tree.child_of_kind(with, "with_clause") else { return false };
    tree.subtree(clause).any(|node| {
        tree.kind(node) == "call"
            && tree.child(node, "function").is_some_and(|name| tree.last_name(name) == "suppress")
            && tree
                .child(node, "arguments")
                .is_some_and(|names| tree.named(names).any(|name| catches(tree, name)))
    })
}

/// Whether a handler catches failed assertions and forgets them.
fn drops(tree: &Tree<'_>, handler: usize) -> bool {
    if !is_handler(tree.kind(handler)) {
        return false;
    }
    let body = match tree.language {
        Language::Python => tree.child_of_kind(handler, "block"),
        _ => tree.child(handler, "body"),
    };
    let head = handler + 1..body.unwrap_or_else(|| tree.after(handler));
    let names: Vec<usize> = head
        .filter(|node| {
            matches!(tree.kind(*node), "identifier" | "type_identifier" | "name" | "constant")
                && !matches!(tree.field(*node), "name" | "parameter")
                && tree.parent(*node).is_none_or(|parent| {
                    !matches!(
                        tree.kind(parent),
                        "as_pattern_target" | "variable_name" | "exception_variable"
                    )
                })
        })
        .collect();
    let scripted =
        matches!(tree.language, Language::JavaScript | Language::TypeScript | Language::Tsx);
    let bare = names.is_empty() && tree.language != Language::Ruby;
    if !(scripted || bare || names.iter().any(|name| catches(tree, *name))) {
        return false;
    }
    body.is_none_or(|body| tree.subtree(body).all(|node| is_idle(tree, node)))
}

/// Whether an exception of this name is, or is above, a failed assertion.
fn catches(tree: &Tree<'_>, name: usize) -> bool {
    let name = tree.last_name(name);
    match tree.language {
        Language::Python => {
            matches!(name, "AssertionError" | "Exception" | "BaseException" | "Failed")
        }
        Language::Java => {
            matches!(name, "AssertionError" | "Throwable" | "Error" | "AssertionFailedError")
        }
        Language::Ruby => {
            matches!(name, "Exception" | "Assertion" | "ExpectationNotMetError")
        }
        Language::CSharp => {
            matches!(
                name,
                "Exception" | "XunitException" | "AssertionException" | "AssertFailedException"
            )
        }
        Language::Php => matches!(
            name,
            "Throwable" | "Exception" | "AssertionFailedError" | "ExpectationFailedException"
        ),
        _ => true,
    }
}

/// Whether `node`, by itself, does nothing with what was caught.
fn is_idle(tree: &Tree<'_>, node: usize) -> bool {
    match tree.kind(node) {
        "raise_statement"
        | "throw_statement"
        | "throw_expression"
        | "assert_statement"
        | "assignment"
        | "assignment_expression"
        | "augmented_assignment"
        | "augmented_assignment_expression"
        | "operator_assignment"
        | "if_statement"
        | "if"
        | "update_expression"
        | "delete_statement"
        | "yield"
        | "await" => !tree.is_named(node),
        "call"
        | "call_expression"
        | "method_invocation"
        | "invocation_expression"
        | "member_call_expression"
        | "function_call_expression"
        | "scoped_call_expression" => {
            let text = tree.text(node);
            let root = text.split(['.', '(', '-', ':', ' ', '!']).next().unwrap_or_default();
            matches!(
                root.to_ascii_lowercase().as_str(),
                "print"
                    | "println"
                    | "console"
                    | "log"
                    | "logger"
                    | "logging"
                    | "warn"
                    | "warnings"
                    | "puts"
                    | "echo"
                    | "p"
                    | "system"
                    | "str"
                    | "repr"
            ) && !text.contains("exit")
        }
        _ => true,
    }
}
