//! Test files and settings that are too large, too deep or no text, and changes of bytes that mean nothing.

use super::{converges, project, violates};

const TESTS: &[(&str, &str)] = &[
    ("tests/test_a.py", "def test_a():\n    assert 1 + 1 == 2\n"),
    ("tests/a.rs", "#[test]\nfn a() {\n    assert_eq!(1 + 1, 2);\n}\n"),
    (
        "src/lib.rs",
        "pub fn a() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn b() {\n        assert!(true);\n    }\n}\n",
    ),
    (
        "a_test.go",
        "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif 1+1 != 2 {\n\t\tt.Fatal()\n\t}\n}\n",
    ),
    ("tests/a.test.js", "test('a', () => {\n  expect(1 + 1).toBe(2);\n});\n"),
    ("tests/a.test.ts", "test('a', () => {\n  expect(1 + 1).toBe(2);\n});\n"),
    (
        "src/test/java/ATest.java",
        "class ATest {\n    @Test\n    void a() {\n        assertEquals(2, 1 + 1);\n    }\n}\n",
    ),
    ("spec/a_spec.rb", "describe 'a' do\n  it 'b' do\n    expect(1 + 1).to eq(2)\n  end\nend\n"),
    (
        "tests/ATest.php",
        "<?php\nclass ATest extends TestCase {\n    function testA() {\n        $this->assertSame(2, 1 + 1);\n    }\n}\n",
    ),
    (
        "A.Tests/ATests.cs",
        "class ATests {\n    [Fact]\n    public void A() {\n        Assert.Equal(2, 1 + 1);\n    }\n}\n",
    ),
    ("tests/a_test.cpp", "TEST(A, B) {\n  EXPECT_EQ(2, 1 + 1);\n}\n"),
    ("tests/helper.py", "def two():\n    return 2\n"),
    ("tests/data/a.json", "{\n  \"a\": 1\n}\n"),
    ("conftest.py", "import os\n\nDATA = os.sep\n"),
    ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-q\"\n"),
    ("pytest.ini", "[pytest]\naddopts = -q\n"),
    ("package.json", "{\n  \"scripts\": {\n    \"test\": \"jest\"\n  }\n}\n"),
    ("tox.ini", "[testenv]\ncommands = pytest\n"),
    ("Makefile", "test:\n\techo\n"),
    ("go.mod", "module a\n\ngo 1.22\n"),
    ("pom.xml", "<project>\n  <artifactId>a</artifactId>\n</project>\n"),
];

#[test]
fn other_line_ends_and_a_byte_order_mark_accuse_nobody() {
    for change in [
        r"sed -i 's/$/\r/'",
        // PHP prints what stands before its first tag.
        r"for f; do case $f in *.php) ;; *) { printf '\357\273\277'; cat $f; } > t; cat t > $f; esac; done; rm -f t; :",
    ] {
        let names: Vec<&str> = TESTS.iter().map(|(name, _)| *name).collect();
        let bench = project(&format!(
            "set -- {}\nif ! grep -q yes src/done; then {change} \"$@\"; fi\necho yes > src/done",
            names.join(" ")
        ));
        for (name, content) in TESTS {
            bench.write(name, content);
        }
        converges(&bench);
    }
}

#[test]
fn a_test_file_of_fifty_megabytes_is_no_obstacle_to_honest_work() {
    let line = "def test_a():\n    assert 1 + 1 == 2\n\n\n";
    let huge = line.repeat(50_000_000 / line.len());
    let bench = project("echo yes > src/done");
    bench.write("tests/test_big.py", &huge);
    converges(&bench);
    // One that came, and one that grew.
    let grow = "i=0; while [ $i -lt 21 ]; do cat tests/test_big.py tests/test_big.py > t && mv t tests/test_big.py; i=$((i+1)); done";
    let bench = project(&format!("{grow}; echo yes > src/done"));
    bench.write("tests/test_big.py", &line[..25]);
    converges(&bench);
}

#[test]
fn a_huge_test_that_was_changed_to_pass_is_told() {
    let mut huge = "# a comment that goes on\n".repeat(2_000_000);
    huge.push_str("grep -q yes src/done\n");
    let bench = project("echo true > tests/big.sh; echo yes > src/done2");
    std::fs::remove_file(bench.path("tests/done.sh")).unwrap();
    bench.write("tests/big.sh", &huge);
    violates(&bench, "tests/big.sh");
}

#[test]
fn bytes_that_are_no_text_and_a_line_without_end_are_read() {
    for step in [
        "printf '\\000\\000\\377\\n' >> tests/test_a.py",
        "head -c 20000000 /dev/zero | tr '\\0' x > tests/test_b.py",
        "{ printf 'x = \"'; head -c 20000000 /dev/zero | tr '\\0' y; echo '\"'; } > tests/test_b.py",
        "head -c 3000000 /dev/zero | tr '\\0' '(' > tests/test_b.py",
        "head -c 3000000 /dev/zero > tests/test_b.rs",
        "head -c 300000 /dev/urandom > tests/b.test.js",
    ] {
        let bench = project(&format!("{step}; echo yes > src/done"));
        bench.write("tests/test_a.py", "def test_a():\n    assert 1 + 1 == 2\n");
        converges(&bench);
    }
    // What is binary at the start stays so for honest work, and is no hiding place.
    let binary = b"\0\xff\xfe\n".repeat(1_000);
    let bench = project("echo yes > src/done");
    bench.write("tests/test_a.py", &binary);
    converges(&bench);
    let bench = project("rm tests/data.bin; echo yes > src/done");
    bench.write("tests/data.bin", &binary);
    violates(&bench, "tests/data.bin");
}

#[test]
fn settings_nested_without_end_are_a_clear_breach() {
    for (name, before, open) in [
        ("package.json", "{\"scripts\": {\"test\": \"jest\"}}\n", "["),
        ("tests/data/a.json", "{\"a\": 1}\n", "{\"a\":"),
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = \"-q\"\n", "a = [["),
        ("pnpm-workspace.yaml", "packages: [a]\n", "["),
        ("pom.xml", "<project><artifactId>a</artifactId></project>\n", "<a>"),
        ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true}}\n", "[/**/"),
    ] {
        let deep = format!("yes '{open}' | head -n 200000 | tr -d '\\n' > {name}");
        let bench = project(&format!("{deep}; echo yes > src/done"));
        bench.write(name, before);
        violates(&bench, name);
    }
}

#[test]
fn settings_that_grow_by_themselves_are_a_clear_breach() {
    let mut yaml = "a: &a [x,x,x,x,x,x,x,x,x]\\n".to_owned();
    for (one, next) in ('a'..='y').zip('b'..='z') {
        yaml.push_str(&format!("{next}: &{next} [{}]\\n", vec![format!("*{one}"); 9].join(",")));
    }
    let bench = project(&format!("printf '{yaml}' > pnpm-workspace.yaml; echo yes > src/done"));
    bench.write("pnpm-workspace.yaml", "packages: [a]\n");
    violates(&bench, "pnpm-workspace.yaml");
    let xml = "<!DOCTYPE a [<!ENTITY a \"x\"><!ENTITY b \"&a;&a;&a;\">]><project>&b;</project>";
    let bench = project(&format!("echo '{xml}' > pom.xml; echo yes > src/done"));
    bench.write("pom.xml", "<project><artifactId>a</artifactId></project>\n");
    violates(&bench, "pom.xml");
}
