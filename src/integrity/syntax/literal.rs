//! Literals: which nodes are one, of what sort, and what stands directly on one side of an equality.

use std::ops::Range;

use super::tree::Tree;

/// What a literal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Integer,
    Float,
    Text,
    Character,
    Boolean,
    Nothing,
}

/// Neighbouring subtrees that together are one operand or argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub nodes: Range<usize>,
    pub bytes: Range<usize>,
}

impl Operand {
    /// One subtree.
    pub fn of(tree: &Tree<'_>, node: usize) -> Self {
        Self { nodes: tree.subtree(node), bytes: tree.bytes(node) }
    }

    /// Siblings from `first` to `last`.
    pub fn between(tree: &Tree<'_>, first: usize, last: usize) -> Self {
        Self {
            nodes: first..tree.after(last),
            bytes: tree.bytes(first).start..tree.bytes(last).end,
        }
    }

    /// The node where the operand is a single one, parentheses around it taken off.
    pub fn single(&self, tree: &Tree<'_>) -> Option<usize> {
        let mut node = self.nodes.start;
        if tree.after(node) != self.nodes.end {
            return None;
        }
        while matches!(
            tree.kind(node),
            "parenthesized_expression"
                | "argument"
                | "literal_element"
                | "parenthesized_statements"
        ) {
            let mut inner = tree.named(node);
            match (inner.next(), inner.next()) {
                (Some(only), None) => node = only,
                _ => break,
            }
        }
        Some(node)
    }

    /// The top-level nodes of the operand.
    fn parts(&self, tree: &Tree<'_>) -> Vec<usize> {
        let start = match self.single(tree) {
            Some(node) if is_comparison(tree.kind(node)) => {
                return tree.children(node).filter(|node| !tree.is_comment(*node)).collect();
            }
            _ => self.nodes.start,
        };
        let mut parts = Vec::new();
        let mut node = start;
        while node < self.nodes.end {
            if !tree.is_comment(node) {
                parts.push(node);
            }
            node = tree.after(node);
        }
        parts
    }
}

fn is_comparison(kind: &str) -> bool {
    matches!(kind, "comparison_operator" | "binary_expression" | "binary" | "binary_operator")
}

/// Whether nodes of this kind are whole texts with their quotes.
pub(super) fn is_string(kind: &str) -> bool {
    matches!(
        kind,
        "string"
            | "string_literal"
            | "raw_string_literal"
            | "interpreted_string_literal"
            | "verbatim_string_literal"
            | "encapsed_string"
            | "template_string"
            | "interpolated_string_expression"
    )
}

pub(super) fn is_number(kind: &str) -> bool {
    matches!(
        kind,
        "integer"
            | "float"
            | "number"
            | "integer_literal"
            | "float_literal"
            | "int_literal"
            | "number_literal"
            | "real_literal"
            | "decimal_integer_literal"
            | "hex_integer_literal"
            | "octal_integer_literal"
            | "binary_integer_literal"
            | "decimal_floating_point_literal"
            | "hex_floating_point_literal"
    )
}

/// What stands between the quotes of a string literal, whatever its prefix and quotes are.
pub(super) fn between_quotes(text: &[u8]) -> &[u8] {
    match quotes(text) {
        Some(inner) => text.get(inner).unwrap_or_default(),
        None => text,
    }
}

/// Where the inside of a string literal is.
pub(super) fn quotes(text: &[u8]) -> Option<Range<usize>> {
    let prefix = text
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'#' | b'@' | b'$'))?;
    let quote = *text.get(prefix)?;
    let hashes = text.get(..prefix)?.iter().filter(|byte| **byte == b'#').count();
    let close = match quote {
        b'"' | b'\'' | b'`' => quote,
        _ => return None,
    };
    let rest = text.get(prefix..)?;
    let triple = rest.len() >= 6 && rest.iter().take(3).all(|byte| *byte == quote);
    let width = if triple && quote != b'`' { 3 } else { 1 };
    let end = text.len().checked_sub(width + hashes)?;
    let start = prefix + width;
    (start <= end && text.get(end) == Some(&close)).then_some(start..end)
}

/// What sort of literal `node` is.
pub(super) fn sort(tree: &Tree<'_>, node: usize) -> Option<Sort> {
    let kind = tree.kind(node);
    // `string` and `number` are also the keywords of types.
    if !tree.is_named(node) {
        return None;
    }
    if is_string(kind) {
        let plain = !tree.subtree(node).skip(1).any(|part| {
            matches!(
                tree.kind(part),
                "interpolation"
                    | "template_substitution"
                    | "variable_name"
                    | "dynamic_variable_name"
            )
        });
        return plain.then_some(Sort::Text);
    }
    if is_number(kind) {
        let text = tree.text(node).as_bytes();
        let hex = text.len() > 1 && text[0] == b'0' && matches!(text[1], b'x' | b'X');
        let float = kind.contains("float")
            || kind == "real_literal"
            || !hex && text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        return Some(if float { Sort::Float } else { Sort::Integer });
    }
    Some(match kind {
        "char_literal" | "rune_literal" | "character_literal" => Sort::Character,
        "true" | "false" | "boolean_literal" | "boolean" => Sort::Boolean,
        "none" | "null" | "nil" | "null_literal" => Sort::Nothing,
        _ => return None,
    })
}

/// The literal that the operand is, a minus sign before it included.
pub(super) fn whole(tree: &Tree<'_>, operand: &Operand) -> Option<(Sort, Range<usize>)> {
    if let Some(node) = operand.single(tree) {
        if let Some(sort) = sort(tree, node) {
            return Some((sort, tree.bytes(node)));
        }
        let unary = matches!(
            tree.kind(node),
            "unary_operator"
                | "unary_expression"
                | "prefix_unary_expression"
                | "unary_op_expression"
                | "unary"
        );
        if !unary {
            return None;
        }
        return negated(tree, &tree.children(node).collect::<Vec<_>>());
    }
    negated(tree, &operand.parts(tree))
}

fn negated(tree: &Tree<'_>, parts: &[usize]) -> Option<(Sort, Range<usize>)> {
    let [minus, number] = parts else { return None };
    let found = sort(tree, *number)?;
    (tree.kind(*minus) == "-" && matches!(found, Sort::Integer | Sort::Float))
        .then(|| (found, tree.bytes(*minus).start..tree.bytes(*number).end))
}

/// The two sides of `a == b`.
pub(super) fn equality(tree: &Tree<'_>, operand: &Operand) -> Option<(Operand, Operand)> {
    compared(tree, operand, &["==", "==="])
}

/// The two sides of `a != b`.
pub(super) fn inequality(tree: &Tree<'_>, operand: &Operand) -> Option<(Operand, Operand)> {
    compared(tree, operand, &["!=", "!=="])
}

fn compared(tree: &Tree<'_>, operand: &Operand, signs: &[&str]) -> Option<(Operand, Operand)> {
    let parts = operand.parts(tree);
    let is_sign = |node: &usize| signs.contains(&tree.kind(*node));
    let sign = parts.iter().position(is_sign)?;
    // More than one operator: what belongs to which side is not known without precedence.
    let others = ["&&", "||", "and", "or", "==", "!=", "===", "!==", "<", ">", "<=", ">="];
    if parts.iter().filter(|node| others.contains(&tree.kind(**node))).count() != 1 {
        return None;
    }
    let left = parts.get(..sign)?;
    let right = parts.get(sign + 1..)?;
    let side = |side: &[usize]| match side {
        [] => None,
        [first, .., last] => Some(Operand::between(tree, *first, *last)),
        [only] => Some(Operand::of(tree, *only)),
    };
    Some((side(left)?, side(right)?))
}

/// The literals directly inside a list, tuple or mapping; of a mapping its values.
pub(super) fn elements(tree: &Tree<'_>, operand: &Operand) -> Vec<Range<usize>> {
    let Some(node) = operand.single(tree) else { return Vec::new() };
    if !matches!(tree.kind(node), "list" | "tuple" | "dictionary" | "array" | "object") {
        return Vec::new();
    }
    tree.named(node)
        .filter_map(|element| match tree.kind(element) {
            "pair" => tree.child(element, "value"),
            _ => Some(element),
        })
        .filter_map(|element| whole(tree, &Operand::of(tree, element)))
        .map(|(_, bytes)| bytes)
        .collect()
}

/// The literals in one or the other side of an equality whose other side is not one.
pub(super) fn expected(tree: &Tree<'_>, left: &Operand, right: &Operand) -> Vec<Range<usize>> {
    let constant = |side: &Operand| {
        whole(tree, side).map_or_else(|| elements(tree, side), |(_, bytes)| vec![bytes])
    };
    let (left, right) = (constant(left), constant(right));
    match (left.is_empty(), right.is_empty()) {
        (false, true) => left,
        (true, false) => right,
        _ => Vec::new(),
    }
}

/// Whether the operand is a literal that a condition takes for true.
pub(super) fn is_true(tree: &Tree<'_>, operand: &Operand) -> bool {
    let Some((sort, bytes)) = whole(tree, operand) else { return false };
    let text = tree.text.get(bytes).unwrap_or_default();
    match sort {
        Sort::Boolean => text.eq_ignore_ascii_case(b"true"),
        Sort::Integer | Sort::Float => text.iter().any(|byte| matches!(byte, b'1'..=b'9')),
        Sort::Text => !between_quotes(text).is_empty(),
        Sort::Character => true,
        Sort::Nothing => false,
    }
}

/// Whether the operand is a literal that a condition takes for false.
pub(super) fn is_false(tree: &Tree<'_>, operand: &Operand) -> bool {
    let Some((sort, bytes)) = whole(tree, operand) else { return false };
    let text = tree.text.get(bytes).unwrap_or_default();
    match sort {
        Sort::Boolean => text.eq_ignore_ascii_case(b"false"),
        Sort::Nothing => true,
        Sort::Integer => text.iter().all(|byte| *byte == b'0'),
        Sort::Float | Sort::Text | Sort::Character => false,
    }
}

/// Whether both operands are the same literal.
pub(super) fn is_same(tree: &Tree<'_>, left: &Operand, right: &Operand) -> bool {
    let (Some((_, left)), Some((_, right))) = (whole(tree, left), whole(tree, right)) else {
        return false;
    };
    let text = |bytes| between_quotes(tree.text.get(bytes).unwrap_or_default());
    text(left) == text(right)
}
