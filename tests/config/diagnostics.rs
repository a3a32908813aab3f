//! Diagnostics as they are printed.

use crate::support::*;
use insta::assert_snapshot;

fn after(rest: &str) -> String {
    said(&format!("{BASE}{rest}"))
}

#[test]
fn an_unknown_key() {
    assert_snapshot!(after("limits:\n  iteratons: 5\n"), @r#"
    loop.yml:6:3: there is no key `limits.iteratons`
      |
    6 |   iteratons: 5
      |   ^^^^^^^^^
      = did you mean `limits.iterations`?
    "#);
}

#[test]
fn a_key_under_the_wrong_group() {
    assert_snapshot!(after("iterations: 5\n"), @r#"
    loop.yml:5:1: there is no key `iterations`
      |
    5 | iterations: 5
      | ^^^^^^^^^^
      = did you mean `limits.iterations`?
    "#);
}

#[test]
fn a_key_written_with_a_dot() {
    assert_snapshot!(after("limits.time: 5m\n"), @r#"
    loop.yml:5:1: there is no key `limits.time`
      |
    5 | limits.time: 5m
      | ^^^^^^^^^^^
      = a dot is not part of a key: write the key below its group
    "#);
}

#[test]
fn a_key_that_stands_twice() {
    assert_snapshot!(after("goal: a\nlimits: {time: 5m}\ngoal: b\n"), @r#"
    loop.yml:7:1: the key `goal` stands here for the second time
      |
    7 | goal: b
      | ^^^^
      = the first one is in line 5; keep one of them
    "#);
}

#[test]
fn a_value_of_the_wrong_type() {
    assert_snapshot!(after("limits: {iterations: many}\n"), @r#"
    loop.yml:5:22: `limits.iterations` must be a whole number from 1 to 1000000, here is a text
      |
    5 | limits: {iterations: many}
      |                      ^^^^
    "#);
}

#[test]
fn a_duration_without_a_unit() {
    assert_snapshot!(after("limits: {time: 90}\n"), @r#"
    loop.yml:5:16: `limits.time` cannot be `90`: a duration is written like `90s`, `10m`, `2h` or `1h30m`, with a unit
      |
    5 | limits: {time: 90}
      |                ^^
    "#);
}

#[test]
fn a_word_that_is_not_in_the_list() {
    assert_snapshot!(after("workspace: {mode: detachd}\n"), @r#"
    loop.yml:5:19: `workspace.mode` cannot be `detachd`: it is `detached` or `in_place`
      |
    5 | workspace: {mode: detachd}
      |                   ^^^^^^^
      = did you mean `detached`?
    "#);
}

#[test]
fn a_pattern_that_no_matcher_reads() {
    assert_snapshot!(after("guards:\n  mutable:\n    - tests/[a\n"), @r#"
    loop.yml:7:7: `guards.mutable` cannot be `tests/[a`: it is no pattern: a `[` is not closed; for itself it is `\[`
      |
    7 |     - tests/[a
      |       ^^^^^^^^
    "#);
}

#[test]
fn an_unknown_key_of_a_command_below_a_group() {
    assert_snapshot!(after("guards: {judge: {run: ./judge.sh, timout: 5m}}\n"), @r#"
    loop.yml:5:35: there is no key `guards.judge.timout`
      |
    5 | guards: {judge: {run: ./judge.sh, timout: 5m}}
      |                                   ^^^^^^
      = did you mean `guards.judge.timeout`?
    "#);
}

#[test]
fn a_key_of_a_later_release() {
    assert_snapshot!(after("gateway:\n  upstream: https://example.org\n"), @r#"
    loop.yml:5:1: `gateway` is not available in this release: the model gateway comes later
      |
    5 | gateway:
      | ^^^^^^^
    "#);
}

#[test]
fn a_word_of_a_later_release() {
    assert_snapshot!(after("isolation: {backend: seatbelt}\n"), @r#"
    loop.yml:5:22: `isolation.backend: seatbelt` is not available in this release: isolating agent and check in zones comes later
      |
    5 | isolation: {backend: seatbelt}
      |                      ^^^^^^^^
    "#);
}

#[test]
fn a_folder_outside_the_workspace() {
    assert_snapshot!(after("setup: {run: make, cwd: ../up}\n"), @r#"
    loop.yml:5:25: `setup.cwd` cannot be `../up`: it is a relative path without `..`
      |
    5 | setup: {run: make, cwd: ../up}
      |                         ^^^^^
    "#);
}

#[test]
fn a_model_without_its_pins() {
    assert_snapshot!(said(&BASE.replace("none", "anthropic/the-model")), @r#"
    loop.yml:2:8: cost and sampling of the model are not known to the receipt, and the loop does not say that it does without
      |
    2 | model: anthropic/the-model
      |        ^^^^^^^^^^^^^^^^^^^
      = receipt: {unpinned: [cost, sampling]}
    "#);
}

#[test]
fn a_loop_without_a_model() {
    assert_snapshot!(said(&BASE.replace("model: none\n", "")), @r#"
    loop.yml:1:1: a loop must say which model it runs, or that it runs none
      |
    1 | version: 1
      | ^
      = add the line `model: none                    # or provider/id`
    "#);
}

#[test]
fn a_tab() {
    assert_snapshot!(after("limits:\n\ttime: 5m\n"), @r#"
    loop.yml:6:1: YAML is indented with spaces, this is a tab
      |
    6 |  time: 5m
      | ^
      = replace the tab with spaces
    "#);
}

#[test]
fn a_second_document() {
    assert_snapshot!(after("---\nversion: 1\n"), @r#"
    loop.yml:6:1: a loop file holds one YAML document, here a second one starts
      |
    6 | version: 1
      | ^
      = remove the `---` line and what follows it
    "#);
}

#[test]
fn a_bracket_that_is_not_closed() {
    assert_snapshot!(after("limits: {time: 5m\n"), @r#"
    loop.yml:5:9: this is not well-formed YAML: unclosed bracket '{'
      |
    5 | limits: {time: 5m
      |         ^
    "#);
}

#[test]
fn a_list_instead_of_a_map() {
    assert_snapshot!(said("- version: 1\n"), @r#"
    loop.yml:1:1: a loop file is a map of keys, here is a list
      |
    1 | - version: 1
      | ^
      = start it with `version: 1`
    "#);
}

#[test]
fn an_empty_file() {
    assert_snapshot!(said("# to be written\n"), @r#"
    loop.yml:1:1: the loop file is empty
      |
    1 | # to be written
      | ^
      = `loopexec init` writes one for the project it finds
    "#);
}

#[test]
fn hostile_text() {
    assert_snapshot!(after("\"\\e[31mred`\": 1\n\"li\u{202e}mits\": 2\n"), @r#"
    loop.yml:5:1: there is no key `?[31mred'`
      |
    5 | "\e[31mred`": 1
      | ^^^^^^^^^^^^
      = the keys are: version, name, mode, goal, model, exec, check, setup, workspace, limits, guards, ratchet, isolation, gateway, context, human, receipt, exit_codes, fail_on, ci, tasks
    "#);
}
