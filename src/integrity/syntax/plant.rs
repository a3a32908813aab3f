//! Writes one test that must fail into a file with tests: whoever forges results does not know its name.

use super::measure::{self, Found};
use super::tree::Tree;
use super::{Language, cpp, go, javascript, plant_class};

/// A file with a test in it that asserts a falsehood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planted {
    /// The whole file.
    pub text: Vec<u8>,
    /// The last part of the id under which the runner reports the test.
    pub name: String,
}

/// Bytes to insert at a place.
pub(super) struct Insertion {
    pub at: usize,
    pub text: String,
    pub name: String,
}

/// Plants one failing test next to the file's own, with the assertions that they use.
///
/// `nonce` is of small letters and digits and becomes part of the name. None where the file has no test to
/// stand beside or would no longer parse.
pub fn plant_sentinel(language: Language, text: &[u8], nonce: &str) -> Option<Planted> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if nonce.is_empty() || !nonce.bytes().all(is_plain) {
        return None;
    }
    let tree = Tree::parse(language, text)?;
    let items = measure::find(&tree);
    let insertion = match language {
        Language::Python => python(&tree, &items, nonce),
        Language::Rust => rust(&tree, &items, nonce),
        Language::Go => go_function(&tree, &items, nonce),
        Language::JavaScript | Language::TypeScript | Language::Tsx => script(&tree, &items, nonce),
        Language::Java => plant_class::java(&tree, &items, nonce),
        Language::CSharp => plant_class::csharp(&tree, &items, nonce),
        Language::Php => plant_class::php(&tree, &items, nonce),
        Language::Ruby => plant_class::ruby(&tree, &items, nonce),
        Language::Cpp => macros(&tree, &items, nonce),
    }?;
    let mut planted = text.to_vec();
    planted.splice(insertion.at..insertion.at, insertion.text.bytes());
    Tree::parse(language, &planted).filter(|planted| planted.errors <= tree.errors)?;
    Some(Planted { text: planted, name: insertion.name })
}

/// The blanks before a node where nothing else is before it on its line.
pub(super) fn indent<'text>(tree: &Tree<'text>, node: usize) -> Option<&'text str> {
    let start = tree.bytes(node).start;
    let before = tree.text.get(..start)?;
    let line = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let blanks = std::str::from_utf8(before.get(line..)?).ok()?;
    blanks.chars().all(char::is_whitespace).then_some(blanks)
}

/// The end of the line in which a node ends, so that a comment behind it stays whole.
pub(super) fn line_end(tree: &Tree<'_>, node: usize) -> usize {
    let end = tree.bytes(node).end;
    let rest = tree.text.get(end..).unwrap_or_default();
    rest.iter().position(|byte| *byte == b'\n').map_or(tree.text.len(), |at| end + at)
}

/// Whether the items' own text holds `word`.
pub(super) fn uses(tree: &Tree<'_>, items: &[Found], word: &str) -> bool {
    items.iter().any(|item| tree.text(item.root).contains(word))
}

fn python(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    let name = format!("test_loopexec_{nonce}");
    let free =
        items.iter().rfind(|item| item.containers.is_empty() && tree.parent(item.first) == Some(0));
    if let Some(item) = free {
        let text = format!("\n\n\ndef {name}():\n    assert len(\"a\") == 2\n");
        return Some(Insertion { at: line_end(tree, item.first), text, name });
    }
    let in_class = |item: &&Found| !item.containers.is_empty();
    let item = items
        .iter()
        .rfind(|item| in_class(item) && item.markers.is_empty())
        .or_else(|| items.iter().rfind(in_class))?;
    let indent = indent(tree, item.first)?;
    let class = tree.parents(item.root).find(|parent| tree.kind(*parent) == "class_definition")?;
    let is_unittest = tree.child(class, "superclasses").is_some_and(|bases| {
        let bases = tree.text(bases);
        bases.contains("TestCase") || bases.contains("unittest")
    }) || tree.text(item.root).contains("self.assert");
    let assertion =
        if is_unittest { "self.assertEqual(len(\"a\"), 2)" } else { "assert len(\"a\") == 2" };
    let step = if indent.contains('\t') { "\t" } else { "    " };
    let text = format!("\n\n{indent}def {name}(self):\n{indent}{step}{assertion}\n");
    Some(Insertion { at: line_end(tree, item.first), text, name })
}

fn rust(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    let name = format!("loopexec_{nonce}");
    let item = items
        .iter()
        .filter(|item| tree.kind(item.root) == "function_item")
        .min_by_key(|item| !item.markers.is_empty())
        .or_else(|| items.first())?;
    // What stands in a macro gets its neighbour behind the macro.
    let place = std::iter::once(item.root).chain(tree.parents(item.root)).find(|node| {
        tree.parent(*node)
            .is_some_and(|parent| matches!(tree.kind(parent), "source_file" | "declaration_list"))
    })?;
    let indent = indent(tree, place).unwrap_or_default();
    let text = format!(
        "\n\n{indent}#[test]\n{indent}fn {name}() {{\n{indent}    assert_eq!(1, 2);\n{indent}}}"
    );
    Some(Insertion { at: tree.bytes(place).end, text, name })
}

fn go_function(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    items.first()?;
    let import = tree.subtree(0).find(|node| {
        tree.kind(*node) == "import_spec"
            && tree.child(*node, "path").is_some_and(|path| tree.text(path) == "\"testing\"")
    })?;
    let testing = match tree.child(import, "name").map(|name| tree.text(name)) {
        None => "testing.",
        Some(".") => "",
        Some("_") => return None,
        Some(alias) => &format!("{alias}."),
    };
    let name = format!("TestLoopexec{nonce}");
    let assertion = go::assertion(tree, items);
    let text = format!("\n\nfunc {name}(t *{testing}T) {{\n{assertion}}}\n");
    Some(Insertion { at: tree.text.len(), text, name })
}

fn script(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    let is_statement = |item: &&Found| {
        tree.kind(item.first) == "expression_statement"
            && tree
                .parent(item.first)
                .is_some_and(|parent| matches!(tree.kind(parent), "program" | "statement_block"))
    };
    let focused = items.iter().any(|item| item.markers.contains("only"));
    let item = items
        .iter()
        .filter(is_statement)
        .find(|item| if focused { item.markers.contains("only") } else { item.markers.is_empty() })
        .or_else(|| items.iter().find(is_statement))?;
    let call = tree.named(item.first).next()?;
    let base = match javascript::head(tree, call)?.base {
        "Deno" => "Deno.test",
        "xit" => "it",
        "xtest" => "test",
        "xspecify" => "specify",
        base => base,
    };
    let modifier = if focused && !base.starts_with('f') { ".only" } else { "" };
    let text = tree.text(item.first);
    let has = |word: &str| text.contains(word) || uses(tree, items, word);
    let (parameters, assertion) = if has("expect(") {
        let chai = has(").to.") || has(").not.to.") || has(").eql(");
        ("", if chai { "expect(1).to.equal(2)" } else { "expect(1).toBe(2)" })
    } else if has("assert.") {
        ("", "assert.strictEqual(1, 2)")
    } else if has("assertEquals(") {
        ("", "assertEquals(1, 2)")
    } else if has("strictEqual(") && !has(".strictEqual(") {
        ("", "strictEqual(1, 2)")
    } else if has("t.is(") {
        ("t", "t.is(1, 2)")
    } else if has("t.equal(") {
        ("t", "t.equal(1, 2)")
    } else {
        ("", "throw new Error('1 is not 2')")
    };
    let name = format!("loopexec {nonce}");
    let indent = indent(tree, item.first).unwrap_or_default();
    let text =
        format!("{base}{modifier}('{name}', ({parameters}) => {{ {assertion}; }});\n{indent}");
    Some(Insertion { at: tree.bytes(item.first).start, text, name })
}

fn macros(tree: &Tree<'_>, items: &[Found], nonce: &str) -> Option<Insertion> {
    let plain = items.iter().find_map(|item| {
        let (kind, suite, _) = cpp::test_macro(tree, item.root)?;
        (kind == "TEST" || kind == "TEST_F").then_some((item, kind, suite))
    });
    let name = format!("Loopexec{nonce}");
    if let Some((item, kind, suite)) = plain {
        let text = format!("\n\n{kind}({suite}, {name}) {{\n  EXPECT_EQ(1, 2);\n}}");
        return Some(Insertion { at: tree.bytes(item.root).end, text, name });
    }
    let item = items.iter().find(|item| tree.kind(item.root) == "compound_statement")?;
    let name = format!("loopexec {nonce}");
    let text = format!("\n\nTEST_CASE(\"{name}\") {{\n  REQUIRE(1 == 2);\n}}");
    Some(Insertion { at: tree.bytes(item.root).end, text, name })
}

#[cfg(test)]
mod tests {
    use super::super::scan;
    use super::*;

    #[test]
    fn the_planted_test_stands_beside_the_others_and_is_one_more() {
        let cases = [
            (
                "a.py",
                "def test_a():\n    assert f()  # c\n\nif __name__ == '__main__':\n    main()\n",
                "test_loopexec_n1",
            ),
            (
                "a.py",
                "class A(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue(f())\n",
                "test_loopexec_n1",
            ),
            (
                "a.rs",
                "#[cfg(test)]\nmod tests {\n    mod deep {\n        #[tokio::test]\n        async fn a() {}\n    }\n}\n",
                "loopexec_n1",
            ),
            (
                "a_test.go",
                "package a\n\nimport tt \"testing\"\n\nfunc TestA(t *tt.T) {}\n",
                "TestLoopexecn1",
            ),
            (
                "a.ts",
                "describe('a', () => {\n  it('b', () => { expect(1).toBe(1) })\n})\n",
                "loopexec n1",
            ),
            (
                "A.java",
                "class A {\n  @Test\n  void a() { assertEquals(1, f()); }\n}\n",
                "testLoopexecn1",
            ),
            (
                "a.rb",
                "describe 'a' do\n  it 'b' do\n    expect(f).to eq 1\n  end\nend\n",
                "loopexec n1",
            ),
            (
                "a.rb",
                "class A < Minitest::Test\n  def test_a\n    assert f\n  end\nend\n",
                "test_loopexec_n1",
            ),
            (
                "A.cs",
                "class A {\n  [Test]\n  public void B() { Assert.That(f(), Is.EqualTo(1)); }\n}\n",
                "TestLoopexecn1",
            ),
            (
                "A.php",
                "<?php\nclass A extends TestCase {\n  public function testA() {}\n}\n",
                "testLoopexecn1",
            ),
            ("a.cc", "TEST_F(S, A) {\n  EXPECT_EQ(1, f());\n}\n", "Loopexecn1"),
            ("a.cc", "TEST_CASE(\"a\") {\n  REQUIRE(f() == 1);\n}\n", "loopexec n1"),
        ];
        for (path, text, name) in cases {
            let language = Language::of(path).unwrap();
            let planted = plant_sentinel(language, text.as_bytes(), "n1").unwrap();
            assert_eq!(planted.name, name, "{path}");
            let (before, after) =
                (scan(language, text.as_bytes()).unwrap(), scan(language, &planted.text).unwrap());
            assert_eq!(after.items.len(), before.items.len() + 1, "{path}");
            let new =
                after.items.iter().find(|item| item.name.to_lowercase().contains("n1")).unwrap();
            assert_eq!(new.containers, before.items[0].containers, "{path}");
            for old in &before.items {
                assert!(
                    after.items.iter().any(|item| item.name == old.name && item.body == old.body)
                );
            }
        }
        assert_eq!(plant_sentinel(Language::Python, b"x = 1\n", "n1"), None);
        assert_eq!(plant_sentinel(Language::Python, b"def test_a(): pass\n", "N 1"), None);
    }
}
