//! The failing test for languages whose tests are methods of a class, and for Ruby's and Pest's blocks.

use super::measure::Found;
use super::plant::{Insertion, indent, line_end, uses};
use super::tree::Tree;
use super::{java as java_items, ruby as ruby_items};

/// Where a method goes that is to stand last in the class of `item`, and the indentation of methods.
fn class_end<'text>(tree: &Tree<'text>, item: &Found) -> Option<(usize, &'text str)> {
    let class = tree.parents(item.root).find(|parent| {
        matches!(
            tree.kind(*parent),
            "class_declaration" | "record_declaration" | "struct_declaration"
        )
    })?;
    let end = tree.bytes(tree.child(class, "body")?).end.checked_sub(1)?;
    Some((end, indent(tree, item.root).unwrap_or("    ")))
}

pub(super) fn java(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    let item = items.iter().min_by_key(|item| !item.markers.is_empty())?;
    let (at, indent) = class_end(tree, item)?;
    let file = tree.text(0);
    let annotated = !java_items::annotations(tree, item.root).is_empty();
    let annotation = if !annotated {
        String::new()
    } else if uses(tree, items, "@Test") {
        "@Test ".to_owned()
    } else if file.contains("org.junit.jupiter") {
        "@org.junit.jupiter.api.Test ".to_owned()
    } else {
        return None;
    };
    let assertion = if uses(tree, items, "assertThat(") && file.contains("org.assertj") {
        "assertThat(1).isEqualTo(2);"
    } else if uses(tree, items, "Assertions.assertEquals(") {
        "Assertions.assertEquals(1, 2);"
    } else if uses(tree, items, "Assert.assertEquals(") {
        "Assert.assertEquals(1, 2);"
    } else if uses(tree, items, "assertEquals(") {
        "assertEquals(1, 2);"
    } else if file.contains("org.junit.jupiter") {
        "org.junit.jupiter.api.Assertions.assertEquals(1, 2);"
    } else if file.contains("org.junit.") {
        "org.junit.Assert.assertEquals(1, 2);"
    } else {
        "throw new AssertionError(\"1 is not 2\");"
    };
    let name = format!("testLoopexec{nonce}");
    let text = format!("\n{indent}{annotation}public void {name}() {{ {assertion} }}\n");
    Some(Insertion { at, text, name })
}

pub(super) fn csharp(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    let item = items.iter().min_by_key(|item| !item.markers.is_empty())?;
    let (at, indent) = class_end(tree, item)?;
    let own = |word: &str| uses(tree, items, word);
    let (attribute, plain) = if own("Fact") || own("Theory") {
        ("Fact", "Assert.Equal(1, 2);")
    } else if own("TestMethod") {
        ("TestMethod", "Assert.AreEqual(1, 2);")
    } else {
        ("Test", "Assert.That(1, Is.EqualTo(2));")
    };
    let assertion = if own(".Should()") && !own("Assert.") { "1.Should().Be(2);" } else { plain };
    let name = format!("TestLoopexec{nonce}");
    let text = format!("\n{indent}[{attribute}]\n{indent}public void {name}() {{ {assertion} }}\n");
    Some(Insertion { at, text, name })
}

pub(super) fn php(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    if let Some(item) = items.iter().find(|item| tree.kind(item.root) == "method_declaration") {
        let (at, indent) = class_end(tree, item)?;
        let name = format!("testLoopexec{nonce}");
        let text = format!(
            "\n{indent}public function {name}(): void\n{indent}{{\n{indent}    $this->assertSame(1, 2);\n{indent}}}\n"
        );
        return Some(Insertion { at, text, name });
    }
    let item = items.iter().find(|item| tree.kind(item.root) == "expression_statement")?;
    let (word, name) = if item.name.starts_with("it ") {
        ("it", format!("it loopexec {nonce}"))
    } else {
        ("test", format!("loopexec {nonce}"))
    };
    let indent = indent(tree, item.first).unwrap_or_default();
    let text =
        format!("{word}('loopexec {nonce}', function () {{ expect(1)->toBe(2); }});\n{indent}");
    Some(Insertion { at: tree.bytes(item.first).start, text, name })
}

pub(super) fn ruby(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    let item = items.iter().find(|item| item.markers.is_empty()).or_else(|| items.first())?;
    let indent = indent(tree, item.first)?;
    let own = |word: &str| uses(tree, items, word);
    if tree.kind(item.root) == "method" {
        let name = format!("test_loopexec_{nonce}");
        let text = format!("\n\n{indent}def {name}\n{indent}  assert_equal 1, 2\n{indent}end");
        return Some(Insertion { at: line_end(tree, item.root), text, name });
    }
    let assertion = if own("expect") || own("is_expected") {
        "expect(1).to eq(2)"
    } else if own("assert") || own("must_") {
        "assert_equal 1, 2"
    } else {
        "raise '1 is not 2'"
    };
    let rails = ruby_items::own_call(tree, item.root) == Some("test");
    let (word, name) = if rails {
        ("test", format!("test_loopexec_{nonce}"))
    } else {
        ("it", format!("loopexec {nonce}"))
    };
    let text = format!("{word} \"loopexec {nonce}\" do {assertion} end\n{indent}");
    Some(Insertion { at: tree.bytes(item.first).start, text, name })
}
