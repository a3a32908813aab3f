//! Honest edits that must pass and weakenings that must be found, per language.

use super::{Comparison, Language, Weakening, compare, digest, scan};

fn differ(before: &[(&str, &str)], after: &[(&str, &str)]) -> Comparison {
    let scans = |files: &[(&str, &str)]| {
        files
            .iter()
            .map(|(path, text)| {
                let language = Language::of(path).unwrap();
                ((*path).to_owned(), scan(language, text.as_bytes()).unwrap())
            })
            .collect::<Vec<_>>()
    };
    compare(&scans(before), &scans(after))
}

fn edit(path: &str, before: &str, after: &str) -> Comparison {
    differ(&[(path, before)], &[(path, after)])
}

/// What is lost and in which ways the rest is weaker.
fn found(comparison: &Comparison) -> (Vec<&str>, Vec<Weakening>) {
    (
        comparison.lost.iter().map(|at| at.name.as_str()).collect(),
        comparison.weakened.iter().map(|weakened| weakened.kind).collect(),
    )
}

const PYTHON: &str = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n\n\ndef test_sub():\n    assert add(5, -3) == 2\n";

#[test]
fn honest_edits_of_python_tests_are_neither_lost_nor_weaker() {
    let cases = [
        (
            "a docstring and comments",
            "def test_add():\n    \"\"\"Adds.\"\"\"\n    # sums\n    assert add(1, 2) == 3  # three\n    assert add(0, 0) == 0\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "a rename",
            "def test_add_sums():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "parametrised",
            "@pytest.mark.parametrize('a,b,want', [(1, 2, 3), (0, 0, 0)])\ndef test_add(a, b, want):\n    assert add(a, b) == want\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "a loop over a table",
            "def test_add():\n    for a, b, want in [(1, 2, 3), (0, 0, 0)]:\n        assert add(a, b) == want\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "all in one table of another name",
            "@pytest.mark.parametrize('a,b,want', [(1, 2, 3), (0, 0, 0), (5, -3, 2)])\ndef test_sums(a, b, want):\n    assert add(a, b) == want\n",
        ),
        (
            "a helper",
            "def check(a, b, want):\n    assert add(a, b) == want\n\ndef test_add():\n    check(1, 2, 3)\n    check(0, 0, 0)\n\ndef test_sub():\n    check(5, -3, 2)\n",
        ),
        (
            "a helper elsewhere",
            "from tests.support import check_sum\n\ndef test_add():\n    check_sum(1, 2, 3)\n    check_sum(0, 0, 0)\n\ndef test_sub():\n    check_sum(5, -3, 2)\n",
        ),
        (
            "split",
            "def test_add_some():\n    assert add(1, 2) == 3\n\ndef test_add_none():\n    assert add(0, 0) == 0\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "split off",
            "def test_add():\n    assert add(1, 2) == 3\n\ndef test_add_none():\n    assert add(0, 0) == 0\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "merged",
            "def test_add():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n    assert add(5, -3) == 2\n",
        ),
        (
            "one more assertion",
            "def test_add():\n    assert add(1, 2) == 3\n    assert add(0, 0) == 0\n    assert add(9, 9) == 18\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "several values at once",
            "def test_add():\n    assert (add(1, 2), add(0, 0)) == (3, 0)\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "moved into a table with a name",
            "ROWS = [(1, 2, 3), (0, 0, 0)]\n\n@pytest.mark.parametrize('a,b,want', ROWS)\ndef test_sums(a, b, want):\n    assert add(a, b) == want\n\ndef test_sub():\n    assert add(5, -3) == 2\n",
        ),
        (
            "a class around",
            "class TestAll:\n    def test_add(self):\n        assert add(1, 2) == 3\n        assert add(0, 0) == 0\n\n    def test_sub(self):\n        assert add(5, -3) == 2\n",
        ),
    ];
    for (name, after) in cases {
        let comparison = edit("tests/test_calc.py", PYTHON, after);
        assert_eq!(found(&comparison), (vec![], vec![]), "{name}: {comparison:?}");
    }
}

#[test]
fn moved_and_renamed_tests_are_told_as_the_same() {
    let moved = differ(&[("tests/test_calc.py", PYTHON)], &[("tests/unit/test_calc.py", PYTHON)]);
    assert_eq!(moved.same.len(), 2);
    assert_eq!(found(&moved), (vec![], vec![]));
    let renamed = edit("t.py", PYTHON, &PYTHON.replace("test_sub", "test_difference"));
    assert_eq!(renamed.same.len(), 1);
    assert_eq!(
        (renamed.same[0].0.name.as_str(), renamed.same[0].1.name.as_str()),
        ("test_sub", "test_difference")
    );
}

#[test]
fn weaker_python_tests_are_found() {
    use Weakening::{Assertions, Marker, Swallowed};
    let sub = "\n\ndef test_sub():\n    assert add(5, -3) == 2\n";
    let cases: [(&str, String, Vec<&str>, Vec<Weakening>); 11] = [
        ("deleted", sub.to_owned(), vec!["test_add"], vec![]),
        ("deleted, trivial ones added", format!("def test_a():\n    assert True\n\ndef test_b():\n    assert 1 == 1\n{sub}"), vec!["test_add"], vec![]),
        ("skipped", PYTHON.replace("def test_sub", "@pytest.mark.skip\ndef test_sub"), vec![], vec![Marker]),
        ("expected to fail", PYTHON.replace("def test_sub", "@pytest.mark.xfail(reason='x')\ndef test_sub"), vec![], vec![Marker]),
        ("file skipped", format!("pytestmark = pytest.mark.skipif(True)\n{PYTHON}"), vec![], vec![Marker, Marker]),
        ("renamed and skipped", PYTHON.replace("def test_sub", "@unittest.skip('x')\ndef test_less"), vec![], vec![Marker]),
        ("commented out", PYTHON.replace("assert add(1, 2)", "# assert add(1, 2)"), vec![], vec![Assertions]),
        ("always true", PYTHON.replace("assert add(1, 2) == 3", "assert True"), vec![], vec![Assertions]),
        ("unreachable", PYTHON.replace("    assert add(1, 2)", "    return\n    assert add(1, 2)"), vec![], vec![Assertions]),
        ("swallowed", PYTHON.replace("    assert add(5, -3) == 2", "    try:\n        assert add(5, -3) == 2\n    except AssertionError:\n        pass"), vec![], vec![Swallowed]),
        ("shadowed", format!("{PYTHON}\ndef test_add():\n    pass\n"), vec![], vec![Assertions]),
    ];
    for (name, after, lost, weakened) in cases {
        let comparison = edit("test_calc.py", PYTHON, &after);
        assert_eq!(found(&comparison), (lost, weakened), "{name}: {comparison:?}");
    }
}

#[test]
fn a_handler_that_fails_in_its_own_way_swallows_nothing() {
    for handler in
        ["raise RuntimeError('x')", "errors.append(1)", "failed = True", "pytest.fail('x')"]
    {
        let after = PYTHON.replace(
            "    assert add(5, -3) == 2",
            &format!("    try:\n        assert add(5, -3) == 2\n    except AssertionError:\n        {handler}"),
        );
        assert_eq!(found(&edit("t.py", PYTHON, &after)), (vec![], vec![]), "{handler}");
    }
}

/// Path, a file, an honest edit, and weakenings with what each is.
type Case =
    (&'static str, &'static str, &'static str, &'static [(&'static str, &'static str, Weakening)]);

const CASES: &[Case] = &[
    (
        "src/lib.rs",
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(add(1, 2), 3);\n        assert!(add(0, 0) == 0);\n    }\n}\n",
        "#[cfg(test)]\nmod tests {\n    /// Doc.\n    #[test]\n    fn adds_well() {\n        // c\n        assert_eq!(\n            add(1, 2),\n            3,\n        );\n        assert!(add(0, 0) == 0);\n    }\n}\n",
        &[
            ("#[test]", "#[test]\n    #[ignore]", Weakening::Marker),
            ("#[test]", "#[test]\n    #[should_panic]", Weakening::Marker),
            ("assert_eq!(add(1, 2), 3)", "assert!(true)", Weakening::Assertions),
            ("assert_eq!(add(1, 2), 3);", "let _ = add(1, 2) == 3;", Weakening::Assertions),
            (
                "assert_eq!(add(1, 2), 3);",
                "let _ = std::panic::catch_unwind(|| assert_eq!(add(1, 2), 3));",
                Weakening::Swallowed,
            ),
        ],
    ),
    (
        "calc_test.go",
        "package calc\n\nimport \"testing\"\n\nfunc TestAdd(t *testing.T) {\n\tif got := Add(1, 2); got != 3 {\n\t\tt.Errorf(\"got %d\", got)\n\t}\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal(\"x\")\n\t}\n}\n",
        "package calc\n\nimport \"testing\"\n\n// Adds.\nfunc TestSum(t *testing.T) {\n\tif got := Add(1, 2); got != 3 { t.Errorf(\"got %d\", got) }\n\tif Add(0, 0) != 0 {\n\t\tt.Fatal(\"x\")\n\t}\n}\n",
        &[
            ("t.Errorf", "t.Logf", Weakening::Assertions),
            ("\tif got", "\tt.Skip(\"later\")\n\tif got", Weakening::Marker),
            ("package calc", "//go:build integration\n\npackage calc", Weakening::Marker),
            ("if Add(0, 0) != 0", "if false", Weakening::Assertions),
        ],
    ),
    (
        "calc.test.ts",
        "describe('calc', () => {\n  it('adds', () => {\n    expect(add(1, 2)).toBe(3);\n    expect(add(0, 0)).toBe(0);\n  });\n});\n",
        "describe(\"calc\", () => {\n  it(\"adds numbers\", () => {\n    // c\n    expect(add(1, 2)).toBe(\n      3,\n    )\n    expect(add(0, 0)).toBe(0)\n  })\n})\n",
        &[
            ("it('adds'", "it.skip('adds'", Weakening::Marker),
            ("it('adds'", "xit('adds'", Weakening::Marker),
            ("it('adds'", "test.fails('adds'", Weakening::Marker),
            ("describe('calc'", "describe.skip('calc'", Weakening::Marker),
            ("expect(add(1, 2)).toBe(3)", "expect(true).toBe(true)", Weakening::Assertions),
            (
                "expect(add(1, 2)).toBe(3);",
                "try { expect(add(1, 2)).toBe(3); } catch (e) {}",
                Weakening::Swallowed,
            ),
        ],
    ),
    (
        "src/test/java/CalcTest.java",
        "class CalcTest {\n  @Test\n  void adds() {\n    assertEquals(3, Calc.add(1, 2));\n    assertThat(Calc.add(0, 0)).isEqualTo(0);\n  }\n}\n",
        "class CalcTest {\n  /** Doc. */\n  @Test\n  void addsWell() {\n    assertEquals(\n        3, Calc.add(1, 2)); // c\n    assertThat(Calc.add(0, 0)).isEqualTo(0);\n  }\n}\n",
        &[
            ("@Test", "@Test @Disabled", Weakening::Marker),
            ("class", "@Ignore class", Weakening::Marker),
            ("assertEquals(3, Calc.add(1, 2))", "assertTrue(true)", Weakening::Assertions),
            (
                "assertEquals(3, Calc.add(1, 2));",
                "try { assertEquals(3, Calc.add(1, 2)); } catch (AssertionError e) { }",
                Weakening::Swallowed,
            ),
        ],
    ),
    (
        "spec/calc_spec.rb",
        "RSpec.describe Calc do\n  it 'adds' do\n    expect(add(1, 2)).to eq(3)\n    expect(add(0, 0)).to eq(0)\n  end\nend\n",
        "RSpec.describe Calc do\n  # c\n  it \"adds well\" do\n    expect(add(1, 2)).to eq(3)\n\n    expect(add(0, 0)).to eq(0)\n  end\nend\n",
        &[
            ("it 'adds'", "xit 'adds'", Weakening::Marker),
            ("it 'adds'", "it 'adds', :skip", Weakening::Marker),
            ("    expect(add(1, 2))", "    skip 'later'\n    expect(add(1, 2))", Weakening::Marker),
            ("expect(add(1, 2)).to eq(3)", "# gone", Weakening::Assertions),
        ],
    ),
    (
        "CalcTests.cs",
        "public class CalcTests {\n  [Fact]\n  public void Adds() {\n    Assert.Equal(3, Calc.Add(1, 2));\n    Calc.Add(0, 0).Should().Be(0);\n  }\n}\n",
        "public class CalcTests\n{\n  [Fact]\n  public void AddsWell()\n  {\n    // c\n    Assert.Equal(3, Calc.Add(1, 2));\n    Calc.Add(0, 0).Should().Be(0);\n  }\n}\n",
        &[
            ("[Fact]", "[Fact(Skip = \"x\")]", Weakening::Marker),
            ("Assert.Equal(3, Calc.Add(1, 2))", "Assert.True(true)", Weakening::Assertions),
            (
                "Assert.Equal(3, Calc.Add(1, 2));",
                "try { Assert.Equal(3, Calc.Add(1, 2)); } catch { }",
                Weakening::Swallowed,
            ),
        ],
    ),
    (
        "tests/CalcTest.php",
        "<?php\nclass CalcTest extends TestCase {\n  public function testAdds() {\n    $this->assertSame(3, add(1, 2));\n    self::assertEquals(0, add(0, 0));\n  }\n}\n",
        "<?php\nclass CalcTest extends TestCase\n{\n  // c\n  public function testAddsWell()\n  {\n    $this->assertSame(3, add(1, 2));\n    self::assertEquals(0, add(0, 0));\n  }\n}\n",
        &[
            ("    $this", "    $this->markTestSkipped('x');\n    $this", Weakening::Marker),
            (
                "    $this",
                "    $this->expectNotToPerformAssertions();\n    $this",
                Weakening::Marker,
            ),
            ("$this->assertSame(3, add(1, 2))", "$this->assertTrue(true)", Weakening::Assertions),
        ],
    ),
    (
        "calc_test.cc",
        "TEST(Calc, Add) {\n  EXPECT_EQ(add(1, 2), 3);\n  ASSERT_TRUE(add(0, 0) == 0);\n}\n",
        "// c\nTEST(Calc, Adds)\n{\n  EXPECT_EQ(add(1, 2), 3);\n  ASSERT_TRUE(add(0, 0) == 0);\n}\n",
        &[
            ("TEST(Calc, Add)", "TEST(Calc, DISABLED_Add)", Weakening::Marker),
            ("  EXPECT_EQ", "  GTEST_SKIP();\n  EXPECT_EQ", Weakening::Marker),
            ("EXPECT_EQ(add(1, 2), 3)", "EXPECT_TRUE(true)", Weakening::Assertions),
        ],
    ),
];

#[test]
fn every_language_tells_honest_edits_from_weakening() {
    for (path, before, honest, weakenings) in CASES {
        let comparison = edit(path, before, honest);
        assert_eq!(found(&comparison), (vec![], vec![]), "{path}: {comparison:?}");
        assert_eq!(comparison.same.len(), 1, "{path}: renamed");
        for (from, to, kind) in *weakenings {
            let after = before.replacen(from, to, 1);
            assert_ne!(*before, after);
            let comparison = edit(path, before, &after);
            assert_eq!(found(&comparison), (vec![], vec![*kind]), "{path}: {to}: {comparison:?}");
        }
        let gone = differ(&[(path, before)], &[]);
        assert_eq!(gone.lost.len(), 1, "{path}");
    }
}

#[test]
fn a_formatter_does_not_change_the_digest_and_another_value_does() {
    let cases = [
        (
            "a.py",
            "x = {'a': 1,}\ndef f(a): return (a)\n",
            "# c\nx = {\n    \"a\": 1\n}\n\n\ndef f(a):\n    return a\n",
            "x = {'a': 2}\ndef f(a): return a\n",
        ),
        (
            "a.js",
            "const f = x => ({'a': 1});\n",
            "const f = (x) => ({ a: 1 })\n",
            "const f = (x) => ({ a: 2 })\n",
        ),
        (
            "a.rs",
            "fn f() { g(1, 2) }\n",
            "fn f() {\n    // c\n    g(\n        1,\n        2,\n    )\n}\n",
            "fn f() { g(1, 3) }\n",
        ),
        (
            "a.go",
            "package a\nfunc f() { g(1); h() }\n",
            "package a\n\nfunc f() {\n\tg(1)\n\th()\n}\n",
            "package a\nfunc f() { g(2); h() }\n",
        ),
        ("a.py", "x = (a + b) * c\n", "x = (a + b)  *  c\n", "x = a + b * c\n"),
    ];
    for (path, text, formatted, other) in cases {
        let language = Language::of(path).unwrap();
        let hash = |text: &str| digest(language, text.as_bytes()).unwrap();
        assert_eq!(hash(text), hash(formatted), "{path}");
        assert_ne!(hash(text), hash(other), "{path}");
    }
    assert_eq!(digest(Language::Python, b"def f(:\n"), None);
}

#[test]
fn an_expectation_of_rspec_counts_once_wherever_it_stands() {
    let spec =
        |body: &str| format!("RSpec.describe Cart do\n  it 'adds' do\n    {body}\n  end\nend\n");
    let before = spec("expect(total([1, 2])).to eq(3)");
    let helper = "def sum_is(list, want)\n  expect(total(list)).to eq(want)\nend\n\n";
    let own = format!("{helper}{}", spec("sum_is([1, 2], 3)"));
    for after in [own, spec("sum_is([1, 2], 3)"), spec("check_sum([1, 2], 3)")] {
        let comparison = edit("spec/cart_spec.rb", &before, &after);
        assert_eq!(found(&comparison), (vec![], vec![]), "{after}: {comparison:?}");
    }
    let less = edit("spec/cart_spec.rb", &before, &spec("total([1, 2])"));
    assert_eq!(found(&less).1, [Weakening::Assertions]);
}
