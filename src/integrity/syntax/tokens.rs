//! The tokens of a piece of code without what a formatter or a comment changes, and their hash.

use std::ops::Range;

use sha2::{Digest as _, Sha256};

use super::tree::Tree;
use super::{Language, literal};

/// Hashes what stands in `nodes` (whole subtrees), leaving out the subtrees of `without`.
pub(super) fn hash(tree: &Tree<'_>, nodes: Range<usize>, without: &[usize]) -> u64 {
    let mut hasher = Sha256::new();
    each(tree, nodes, without, |token| write(&mut hasher, token));
    finish(hasher)
}

/// Hashes several pieces one after the other.
pub(super) fn hash_all(tree: &Tree<'_>, pieces: &[Range<usize>], without: &[usize]) -> u64 {
    let mut hasher = Sha256::new();
    for piece in pieces {
        each(tree, piece.clone(), without, |token| write(&mut hasher, token));
    }
    finish(hasher)
}

/// The hash of one text.
pub(super) fn hash_text(text: &[u8]) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(text);
    finish(hasher)
}

fn finish(hasher: Sha256) -> u64 {
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

fn write(hasher: &mut Sha256, token: Token<'_>) {
    // The length keeps neighbouring tokens apart.
    match token {
        Token::Plain(text) => {
            hasher.update([b'.']);
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        Token::Number(text) => {
            hasher.update([b'n']);
            hasher.update((text.len() as u64).to_le_bytes());
            hasher.update(text.to_ascii_lowercase());
        }
        Token::Quoted(text) => {
            let plain = unescaped_quotes(text);
            hasher.update([b's']);
            hasher.update((plain.len() as u64).to_le_bytes());
            hasher.update(plain);
        }
    }
}

/// A formatter that changes the quotes changes which quotes inside need a backslash.
fn unescaped_quotes(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().peekable();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' {
            match bytes.next() {
                Some(quote @ (b'"' | b'\'')) => plain.push(*quote),
                Some(other) => plain.extend([b'\\', *other]),
                None => plain.push(b'\\'),
            }
        } else {
            plain.push(*byte);
        }
    }
    plain
}

/// One token that counts.
pub(super) enum Token<'text> {
    Plain(&'text [u8]),
    Number(&'text [u8]),
    /// What stands between the quotes.
    Quoted(&'text [u8]),
}

/// Calls `take` for every token in `nodes` that counts.
pub(super) fn each<'text>(
    tree: &Tree<'text>,
    nodes: Range<usize>,
    without: &[usize],
    mut take: impl FnMut(Token<'text>),
) {
    if !tree.spend(nodes.len()) {
        return;
    }
    let mut node = nodes.start;
    while node < nodes.end {
        if without.contains(&node) || tree.is_comment(node) || is_docstring(tree, node) {
            node = tree.after(node);
            continue;
        }
        let bytes = tree.bytes(node);
        let text = tree.text.get(bytes).unwrap_or_default();
        if tree.is_named(node) && literal::is_string(tree.kind(node)) {
            take(Token::Quoted(literal::between_quotes(text)));
            node = tree.after(node);
            continue;
        }
        if tree.is_leaf(node) {
            if is_key(tree, node) {
                take(Token::Quoted(text));
            } else if literal::is_number(tree.kind(node)) {
                take(Token::Number(text));
            } else if !text.is_empty() && !is_layout(tree, node, text) {
                take(Token::Plain(text));
            }
        }
        node += 1;
    }
}

/// Whether `node` is a statement that consists of a text only.
fn is_docstring(tree: &Tree<'_>, node: usize) -> bool {
    tree.language == Language::Python
        && tree.kind(node) == "expression_statement"
        && tree.after(node) > node + 1
        && matches!(tree.kind(node + 1), "string" | "concatenated_string")
        && tree.after(node + 1) == tree.after(node)
}

/// `a` in `{a: 1}` is the same as `'a'`.
fn is_key(tree: &Tree<'_>, node: usize) -> bool {
    tree.kind(node) == "property_identifier" && tree.field(node) == "key"
}

fn is_layout(tree: &Tree<'_>, node: usize, text: &[u8]) -> bool {
    let scripted = matches!(
        tree.language,
        Language::JavaScript
            | Language::TypeScript
            | Language::Tsx
            | Language::Python
            | Language::Ruby
            | Language::Go
    );
    match text {
        b"\n" | b"\r\n" => true,
        b";" => scripted,
        b"," => is_trailing_comma(tree, node),
        b"(" | b")" => is_spare_parenthesis(tree, node),
        _ => text.iter().all(u8::is_ascii_whitespace),
    }
}

fn is_trailing_comma(tree: &Tree<'_>, node: usize) -> bool {
    let mut next = tree.next(node);
    while let Some(comment) = next.filter(|next| tree.is_comment(*next)) {
        next = tree.next(comment);
    }
    let closes = match next {
        Some(next) => matches!(tree.kind(next), ")" | "]" | "}" | ">" | "|"),
        // Some grammars put the closing token one level up.
        None => tree.language != Language::Python,
    };
    // `(1,)` is a tuple because of its comma.
    let makes_tuple = tree.parent(node).is_some_and(|parent| {
        matches!(tree.kind(parent), "tuple" | "tuple_expression" | "tuple_type" | "tuple_pattern")
            && tree.named(parent).count() == 1
    });
    closes && !makes_tuple
}

/// Parentheses around a whole statement's value, which formatters add and take away; inside an expression
/// they decide what it means.
fn is_spare_parenthesis(tree: &Tree<'_>, node: usize) -> bool {
    let Some(parent) = tree.parent(node) else { return false };
    match tree.kind(parent) {
        "parenthesized_expression" => {
            let around = tree.parent(parent).map_or("", |around| tree.kind(around));
            matches!(
                around,
                "expression_statement"
                    | "assignment"
                    | "return_statement"
                    | "assert_statement"
                    | "if_statement"
                    | "elif_clause"
                    | "while_statement"
                    | "for_statement"
                    | "argument_list"
                    | "arguments"
                    | "variable_declarator"
                    | "arrow_function"
                    | "parenthesized_expression"
            )
        }
        "import_from_statement" | "with_clause" => true,
        "formal_parameters" => {
            tree.named(parent).count() == 1
                && tree.named(parent).all(|child| tree.kind(child) == "identifier")
                && tree.parent(parent).is_some_and(|around| tree.kind(around) == "arrow_function")
        }
        _ => false,
    }
}
