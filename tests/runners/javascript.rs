//! jest, vitest and mocha.

use super::packages::link;
use super::project::Project;
use loopexec::domain::results::Runner;

/// Says what a test of each dialect imports before the same body.
fn suite(head: &str) -> String {
    format!(
        "{head}
describe('suite', () => {{
  it('in', () => {{ expect(1).toBe(1); expect(2).toBe(2); }});
  it('bad', () => {{ expect(1).toBe(2); }});
  it.skip('sk', () => {{}});
  it.each([1, 2])('case %i', (n) => {{ expect(n).toBeGreaterThan(0); }});
  it.todo('td');
}});
it('größe', () => {{}});
"
    )
}

const PASSED: [&str; 4] = [
    "t/a.test.js > größe",
    "t/a.test.js > suite > case 1",
    "t/a.test.js > suite > case 2",
    "t/a.test.js > suite > in",
];
const FAILED: [&str; 1] = ["t/a.test.js > suite > bad"];
const SKIPPED: [&str; 2] = ["t/a.test.js > suite > sk", "t/a.test.js > suite > td"];

#[test]
fn jest_names_files_suites_and_tests() {
    let project = Project::new(&[
        ("package.json", "{\"scripts\": {\"test\": \"jest t\"}}"),
        ("t/a.test.js", ""),
    ]);
    link(project.root.path());
    project.write("t/a.test.js", &suite(""));
    for command in [
        "npm test",
        "npx jest t -w 2",
        "npx jest t --json",
        "node node_modules/jest29/bin/jest.js t",
    ] {
        let ran = project.run(command);
        ran.is(Runner::Jest, &PASSED, &FAILED, &SKIPPED).clean().failure(
            FAILED[0],
            "Expected: 2",
            "t/a.test.js",
            4,
        );
        let executed = &ran.results.executed;
        assert_eq!(executed.get("t/a.test.js > suite > in"), Some(&2), "{executed:?}");
        assert_eq!(executed.get("t/a.test.js > größe"), Some(&0), "{executed:?}");
    }
    // The reporters that a project has stay.
    project.write("jest.config.js", "module.exports = {reporters: ['<rootDir>/own.js']};");
    project.write(
        "own.js",
        "module.exports = class { onRunComplete() { console.log('OWN REPORTER'); } };",
    );
    let ran = project.run("npx jest t");
    ran.is(Runner::Jest, &PASSED, &FAILED, &SKIPPED).clean();
    assert!(ran.stdout.contains("OWN REPORTER") && !ran.stderr.contains("Test Suites"));
}

#[test]
fn jest_that_cannot_load_a_file_or_leaves_says_so() {
    let project = Project::new(&[
        ("package.json", "{}"),
        ("bad.test.js", "throw new Error('crash')"),
        ("quit.test.js", "it('one', () => {}); it('two', () => process.exit(0));"),
    ]);
    link(project.root.path());
    for jest in ["npx jest", "node node_modules/jest29/bin/jest.js"] {
        project.run(&format!("{jest} bad")).broken("crash").broken("bad.test.js");
        let ran = project.run(&format!("{jest} quit"));
        assert!(ran.ok && ran.results.passed.is_empty(), "{:#?}", ran.results);
        ran.problem("incomplete: ");
    }
}

#[test]
fn vitest_names_files_suites_and_tests() {
    let project = Project::new(&[
        ("package.json", "{\"scripts\": {\"test\": \"vitest run\"}}"),
        ("t/a.test.js", ""),
    ]);
    link(project.root.path());
    project.write("t/a.test.js", &suite("import {describe, it, expect} from 'vitest';"));
    let versions = [
        "npx vitest run",
        "node node_modules/vitest3/vitest.mjs run",
        "node node_modules/vitest2/vitest.mjs run",
    ];
    let is = |command: &str| {
        let ran = project.run(command);
        ran.is(Runner::Vitest, &PASSED, &FAILED, &SKIPPED).clean().failure(
            FAILED[0],
            "expected 1 to be 2",
            "t/a.test.js",
            4,
        );
        ran
    };
    is("npm test");
    for vitest in versions {
        let ran = is(vitest);
        assert!(ran.stdout.contains("Test Files"), "{}", ran.stdout);
        let ran = is(&format!("{vitest} --reporter=json --pool=threads"));
        assert!(ran.stdout.contains("\"numTotalTests\""), "{}", ran.stdout);
        assert!(project.run(&vitest.replace("run", "list")).results.runner == Runner::Command);
    }
    project.write(
        "vitest.config.mjs",
        "export default {test: {reporters: ['dot', ['junit', {outputFile: 'own.xml'}]]}};",
    );
    for vitest in versions {
        is(vitest);
        std::fs::remove_file(project.root.path().join("own.xml")).unwrap();
    }
    project.write("vitest.config.mjs", "export default {};");
    project.write("t/a.test.js", "throw new Error('crash');");
    for vitest in versions {
        project.run(vitest).broken("crash").broken("t/a.test.js");
    }
    let quit = "import {it} from 'vitest'; it('one', () => {}); it('two', () => process.exit(0));";
    project.write("t/a.test.js", quit);
    for vitest in versions {
        let ran = project.run(vitest);
        assert!(!ran.ok || !ran.results.problems.is_empty(), "{:#?}", ran.results);
        assert!(!ran.results.passed.contains("t/a.test.js > two"), "{:#?}", ran.results);
    }
}

const MOCHA: &str = "const assert = require('assert');
describe('suite', () => {
  it('in', () => {});
  it('bad', () => { assert.equal(1, 2); });
  it.skip('sk', () => {});
  for (const n of [1, 2]) it(`case ${n}`, () => {});
});
describe('hooked', () => { before(() => { throw new Error('no hook'); }); it('never', () => {}); });
it('größe', () => {});
";

#[test]
fn mocha_names_files_suites_and_tests() {
    let project = Project::new(&[
        ("package.json", "{\"scripts\": {\"test\": \"mocha t\"}}"),
        ("t/a.js", MOCHA),
        (
            "t/quit.cjs",
            "it('one', () => {}); it('two', () => process.exit(0)); it('three', () => {});",
        ),
    ]);
    link(project.root.path());
    for command in [
        "npm test -- --extension js",
        "npx mocha t/a.js --reporter dot",
        "npx mocha t/a.js --reporter tap",
        "npx mocha t/a.js --v8-expose-gc",
        "npx mocha t/a.js --parallel",
        "node node_modules/mocha10/bin/mocha.js t/a.js",
    ] {
        let ran = project.run(command);
        ran.is(
            Runner::Mocha,
            &[
                "t/a.js > größe",
                "t/a.js > suite > case 1",
                "t/a.js > suite > case 2",
                "t/a.js > suite > in",
            ],
            &["t/a.js > hooked > \"before all\" hook for \"never\"", "t/a.js > suite > bad"],
            &["t/a.js > suite > sk"],
        )
        .clean()
        .failure("t/a.js > suite > bad", "1 == 2", "t/a.js", 4);
    }
    let ran = project.run("npx mocha t/a.js --grep case");
    assert_eq!(ran.results.collected.len(), 2, "{:#?}", ran.results);
    assert_eq!(project.run("npx mocha t/a.js --dry-run").results.runner, Runner::Command);
    for mocha in ["npx mocha", "node node_modules/mocha10/bin/mocha.js"] {
        let ran = project.run(&format!("{mocha} t/quit.cjs"));
        assert!(ran.ok);
        ran.is(Runner::Mocha, &["t/quit.cjs > one"], &[], &[]).problem("incomplete: ");
        assert_eq!(ran.results.unknown().len(), 2);
    }
}

#[test]
fn tests_that_run_a_runner_do_not_look_like_tests() {
    let project = Project::new(&[
        ("package.json", "{}"),
        (
            "outer.js",
            "it('outer', () => { require('child_process').execSync('npx mocha inner.js; npx jest inner'); });",
        ),
        ("inner.js", "it('inner', () => {});"),
        ("inner.test.js", "it('inner', () => {});"),
    ]);
    link(project.root.path());
    project
        .run("npx mocha --timeout 60000 outer.js")
        .is(Runner::Mocha, &["outer.js > outer"], &[], &[])
        .clean();
}
