//! Finds the rows that a test runs over where they stand outside of it: in a loop around it, in a named
//! table, in a method that provides them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::tree::Tree;
use super::{Language, java};

/// How far around a test a loop is looked for.
const MOST_AROUND: usize = 12;

/// The values of the variables and constants of a file, by name.
pub(super) fn definitions<'text>(tree: &Tree<'text>) -> BTreeMap<&'text str, usize> {
    let mut found = BTreeMap::new();
    for node in 0..tree.nodes.len() {
        let (name, value) = match tree.kind(node) {
            "variable_declarator" | "const_item" | "static_item" => ("name", "value"),
            "assignment" => ("left", "right"),
            _ => continue,
        };
        if let (Some(name), Some(value)) = (tree.child(node, name), tree.child(node, value)) {
            found.entry(tree.text(name)).or_insert(value);
        }
    }
    found
}

/// Returns the subtrees with rows of a test, none of them inside it.
pub(super) fn outside(
    tree: &Tree<'_>,
    item: Range<usize>,
    definitions: &BTreeMap<&str, usize>,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut add = |rows: usize| {
        let rows = match tree.kind(rows) {
            "identifier" | "constant" => definitions.get(tree.text(rows)).copied(),
            _ => Some(rows),
        };
        let Some(rows) = rows.map(|rows| tree.subtree(rows)) else { return };
        let inside = item.contains(&rows.start) || rows.contains(&item.start);
        if !inside && !found.contains(&rows) {
            found.push(rows);
        }
    };
    for node in item.clone() {
        if !tree.spend(1) {
            break;
        }
        if let Some(rows) = iterated(tree, node) {
            add(rows);
        }
    }
    for around in tree.parents(item.start).take(MOST_AROUND) {
        if let Some(rows) = iterated(tree, around) {
            add(rows);
        }
    }
    if tree.language == Language::Java {
        java::providers(tree, item.start).into_iter().for_each(add);
    }
    found
}

/// What a loop, or a call that stands for one, runs over.
fn iterated(tree: &Tree<'_>, node: usize) -> Option<usize> {
    let each = |name: usize| {
        let names = ["each", "each_with_index", "each_pair", "map", "forEach"];
        names.contains(&tree.text(name))
    };
    match tree.kind(node) {
        "for_statement" | "for_in_statement" | "for_in_clause" | "for_range_loop" => {
            tree.child(node, "right")
        }
        "range_clause" => tree.child(node, "right"),
        "for_expression" | "for" | "enhanced_for_statement" => tree.child(node, "value"),
        "call" if tree.language == Language::Ruby => {
            tree.child(node, "method").filter(|name| each(*name))?;
            tree.child(node, "receiver")
        }
        "call_expression" => {
            let function = tree.child(node, "function")?;
            match tree.kind(function) {
                "member_expression" => {
                    tree.child(function, "property").filter(|name| each(*name))?;
                    tree.child(function, "object")
                }
                // `it.each(rows)('…', …)`
                "call_expression" => tree.named(tree.child(function, "arguments")?).next(),
                _ => None,
            }
        }
        // `@pytest.mark.parametrize('…', ROWS)`
        "argument_list" if tree.language == Language::Python => {
            let call = tree.parent(node)?;
            let decorated = tree.parent(call).is_some_and(|at| tree.kind(at) == "decorator");
            tree.named(node).nth(1).filter(|_| decorated)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Language, scan};

    fn is_table(language: Language, text: &str, literals: usize) {
        let scan = scan(language, text.as_bytes()).unwrap();
        let item = &scan.items[0];
        assert!(item.table, "{text}");
        assert!(item.literals.len() >= literals, "{text}");
    }

    #[test]
    fn rows_around_a_test_and_rows_with_a_name_are_its_own() {
        is_table(
            Language::JavaScript,
            "for (const {a, b} of [{a: 1, b: 2}, {a: 3, b: 4}]) { it(`x ${a}`, () => { expect(f(a)).toBe(b); }); }",
            4,
        );
        is_table(
            Language::JavaScript,
            "const ROWS = [[1, 2], [3, 4]];\nROWS.forEach(([a, b]) => { it('x', () => { expect(f(a)).toBe(b); }); });",
            4,
        );
        is_table(
            Language::Ruby,
            "RSpec.describe A do\n  { 1 => 2, 3 => 4 }.each do |a, b|\n    it(\"x #{a}\") { expect(f(a)).to eq(b) }\n  end\nend\n",
            4,
        );
        is_table(
            Language::Python,
            "ROWS = [(1, 2), (3, 4)]\n\n@pytest.mark.parametrize('a,b', ROWS)\ndef test_a(a, b):\n    assert f(a) == b\n",
            4,
        );
    }

    #[test]
    fn the_values_of_a_parametrised_class_are_those_of_its_tests() {
        is_table(
            Language::Java,
            "@RunWith(Parameterized.class)\npublic class T {\n  @Parameters public static Collection<Object[]> cases() { return Arrays.asList(new Object[][] {{3, 0}, {99, 10}}); }\n  @Test public void clamps() { assertEquals(want, Calc.clamp(value, 0, 10)); }\n}\n",
            6,
        );
    }
}
