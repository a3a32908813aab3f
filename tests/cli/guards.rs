//! `loopexec guards` shows the test surface before anything runs.

use crate::bench::Bench;

#[test]
fn the_surface_is_shown_by_class_and_patterns_that_match_nothing_are_named() {
    let bench = Bench::new();
    bench.write(
        "tests/test_cart.py",
        "def test_a():\n    assert 1\n\ndef test_b():\n    assert 2\n",
    );
    bench.write("tests/helpers.py", "def same(a, b):\n    assert a == b\n");
    bench.write("tests/data/want.json", "{}\n");
    bench.write("tests/prices.py", "prices = [1]\n");
    bench.write("pyproject.toml", "[tool.pytest.ini_options]\n");
    bench.write("src/cart.py", "total = 1\n");
    bench.write("tools/verify.sh", "true\n");
    bench.write("Makefile", "test:\n\t@sh tools/verify.sh\n");
    bench.loop_file(
        "exec: \"true\"\ncheck: make test\nguards:\n  mutable: [tests/prices.py, no/such/*.txt]\n  protected: {remove: [gone.toml]}\n",
    );
    bench.commit();
    let ran = bench.run(&["guards", "--json"]);
    let surface = &ran.json()["surface"];
    assert_eq!(surface["tests"][0]["path"], "tests/test_cart.py", "{surface}");
    assert_eq!(surface["tests"][0]["tests"], 2, "{surface}");
    assert_eq!(surface["support"], serde_json::json!(["tests/helpers.py", "tools/verify.sh"]));
    assert_eq!(surface["fixtures"], serde_json::json!(["tests/data/want.json"]));
    assert_eq!(surface["settings"], serde_json::json!(["Makefile", "pyproject.toml"]));
    assert_eq!(surface["mutable"], serde_json::json!(["tests/prices.py"]));
    let idle = ["guards.mutable: no/such/*.txt", "guards.protected.remove: gone.toml"];
    assert_eq!(surface["idle"], serde_json::json!(idle));
    let text = bench.run(&["guards"]).stdout;
    assert!(text.contains("2 tests in 1 file\n"), "{text}");
    assert!(text.contains("guards.mutable: no/such/*.txt matches no file"), "{text}");
    assert!(!bench.path(".loopexec").exists(), "it leaves nothing behind");
}
