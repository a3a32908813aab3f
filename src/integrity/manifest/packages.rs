//! What a dependency is to the tests, and what a change of it means.
//!
//! Anything may be added that no runner loads by itself; what was there keeps its version unless
//! the task declares the file mutable; a runner is never changed.

use super::Mutable;
use super::walk::{Findings, Weight, text_of};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Where packages come from: names mean other things elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ecosystem {
    Python,
    Rust,
    Node,
    Go,
    Ruby,
    Php,
    Jvm,
    Dotnet,
}

/// What a package is to the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Runs tests.
    Runner,
    /// Changes a runner by being installed or configured.
    Plugin,
    /// Tests assert with it; it does nothing by merely being there.
    Assertions,
    Plain,
}

/// Says what a package is.
pub(super) fn role(ecosystem: Ecosystem, name: &str) -> Role {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    let starts = |list: &[&str]| list.iter().any(|start| name.starts_with(start));
    match ecosystem {
        Ecosystem::Python => {
            let name = name.replace(['_', '.'], "-");
            let runners =
                ["pytest", "pluggy", "iniconfig", "nose", "nose2", "tox", "nox", "coverage", "py"];
            if runners.contains(&name.as_str()) {
                Role::Runner
            } else if ["pytest-", "nose-", "tox-", "flaky", "pytest"]
                .iter()
                .any(|s| name.starts_with(s))
            {
                Role::Plugin
            } else if ["hypothesis", "mock", "assertpy", "sure", "expects"].contains(&name.as_str())
            {
                Role::Assertions
            } else {
                Role::Plain
            }
        }
        Ecosystem::Rust => {
            const ASSERT: &[&str] = &[
                "libtest-mimic",
                "datatest-stable",
                "rstest",
                "insta",
                "proptest",
                "quickcheck",
                "mockall",
                "pretty_assertions",
                "assert_cmd",
                "assert_fs",
                "trybuild",
                "criterion",
                "test-case",
                "serial_test",
                "googletest",
                "predicates",
                "expect-test",
            ];
            if ASSERT.contains(&name) { Role::Assertions } else { Role::Plain }
        }
        Ecosystem::Node => {
            const RUNNERS: &[&str] = &[
                "jest",
                "vitest",
                "mocha",
                "ava",
                "tap",
                "tape",
                "jasmine",
                "karma",
                "cypress",
                "nyc",
                "c8",
                "uvu",
                "ts-jest",
                "babel-jest",
                "expect",
                "chai",
                "sinon",
                "jasmine-core",
                "playwright",
            ];
            const PLUGINS: &[&str] = &[
                "jest-",
                "@jest/",
                "vitest-",
                "@vitest/",
                "mocha-",
                "chai-",
                "karma-",
                "jasmine-",
                "@sinonjs/",
                "@playwright/",
                "@cypress/",
                "sinon-",
            ];
            // Types and helpers without effect on a run.
            if starts(&["@types/"]) {
                Role::Plain
            } else if RUNNERS.contains(&name) {
                Role::Runner
            } else if starts(PLUGINS) || name.ends_with("-retry") {
                Role::Plugin
            } else if starts(&["@testing-library/"])
                || ["supertest", "should", "fast-check", "typescript", "ts-node", "tsx"]
                    .contains(&name)
            {
                Role::Assertions
            } else {
                Role::Plain
            }
        }
        Ecosystem::Go => {
            const ASSERT: &[&str] = &[
                "github.com/stretchr/testify",
                "github.com/onsi/",
                "gotest.tools",
                "github.com/google/go-cmp",
                "github.com/frankban/quicktest",
                "github.com/matryer/is",
                "github.com/golang/mock",
                "go.uber.org/mock",
            ];
            if starts(ASSERT) { Role::Assertions } else { Role::Plain }
        }
        Ecosystem::Ruby => {
            if ["rspec", "minitest", "test-unit", "cucumber", "simplecov"].contains(&name) {
                Role::Runner
            } else if starts(&["rspec-", "minitest-", "rspec_"]) {
                Role::Plugin
            } else {
                Role::Plain
            }
        }
        Ecosystem::Php => {
            if name.starts_with("phpunit/")
                || name == "pestphp/pest"
                || name == "codeception/codeception"
            {
                Role::Runner
            } else if starts(&["pestphp/", "brianium/paratest", "sebastian/", "codeception/"]) {
                Role::Plugin
            } else if starts(&["mockery/", "phpspec/"]) {
                Role::Assertions
            } else {
                Role::Plain
            }
        }
        Ecosystem::Jvm => {
            let runner = ["junit", "testng", "surefire", "failsafe", "jacoco", "spock", "kotest"];
            if runner.iter().any(|word| name.contains(word)) {
                Role::Runner
            } else if ["mockito", "assertj", "hamcrest", "truth"]
                .iter()
                .any(|word| name.contains(word))
            {
                Role::Assertions
            } else {
                Role::Plain
            }
        }
        Ecosystem::Dotnet => {
            if starts(&["microsoft.net.test.sdk", "xunit", "nunit", "mstest", "coverlet", "tunit"])
                || name.starts_with("microsoft.testing")
            {
                Role::Runner
            } else if starts(&["fluentassertions", "shouldly", "moq", "nsubstitute"]) {
                Role::Assertions
            } else {
                Role::Plain
            }
        }
    }
}

/// Whether a manifest was there at t0, and so might have been used by its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Old,
    /// Came in a folder of its own: no t0 test knew it.
    New,
}

/// The most dependencies of one manifest that are compared.
const MAX_ENTRIES: usize = 20_000;

/// One dependency as a manifest states it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// The table it stands in, as differences name it.
    pub(super) table: String,
    pub(super) name: String,
    /// The version or a table with `version`.
    pub(super) spec: Value,
}

/// Reads a table of dependencies.
pub(super) fn entries_of(table: &str, dependencies: Option<&Value>) -> Vec<Entry> {
    let Some(map) = dependencies.and_then(Value::as_object) else { return Vec::new() };
    map.iter()
        .map(|(name, spec)| Entry {
            table: table.to_owned(),
            name: name.clone(),
            spec: spec.clone(),
        })
        .collect()
}

/// Judges every dependency of two states of a manifest; a move between its tables is no loss.
pub(super) fn compare(
    ecosystem: Ecosystem,
    age: Age,
    before: &[Entry],
    after: &[Entry],
    findings: &mut Findings,
) {
    if before.len().max(after.len()) > MAX_ENTRIES && before != after {
        findings.add(Weight::Breach, "dependencies", None, Some("too many to compare"));
        return;
    }
    let (old, new) = (by_name(before), by_name(after));
    let kept = |role: Role, mutable: Mutable| match (role, mutable) {
        (Role::Plain, Mutable::Yes) => Weight::Allowed,
        _ => Weight::Breach,
    };
    for (name, was) in &old {
        let role = role(ecosystem, name);
        let is = new.get(name);
        for entry in was {
            let key = format!("{}.{}", entry.table, entry.name);
            let same_table = is.into_iter().flatten().find(|one| one.table == entry.table);
            let other = same_table.or_else(|| is.and_then(|all| all.first()));
            let Some(other) = other else {
                findings.add_values(kept(role, findings.mutable), key, Some(&entry.spec), None);
                continue;
            };
            match relation(&entry.spec, &other.spec) {
                Relation::Same if other.table == entry.table => {}
                Relation::Same => findings.add_values(
                    Weight::Allowed,
                    key,
                    Some(&entry.spec),
                    Some(&Value::from(format!("{} in {}", text_of(&other.spec), other.table))),
                ),
                Relation::Grew => {
                    findings.add_values(Weight::Allowed, key, Some(&entry.spec), Some(&other.spec));
                }
                Relation::Changed => findings.add_values(
                    kept(role, findings.mutable),
                    key,
                    Some(&entry.spec),
                    Some(&other.spec),
                ),
            }
        }
    }
    for (name, is) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        let weight = match (role(ecosystem, name), age, findings.mutable) {
            (Role::Runner | Role::Plugin, Age::Old, Mutable::No) => Weight::Breach,
            _ => Weight::Allowed,
        };
        for entry in is {
            let key = format!("{}.{}", entry.table, entry.name);
            findings.add_values(weight, key, None, Some(&entry.spec));
        }
    }
}

fn by_name(entries: &[Entry]) -> BTreeMap<&str, Vec<&Entry>> {
    let mut map: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        map.entry(&entry.name).or_default().push(entry);
    }
    map
}

#[derive(Debug, PartialEq, Eq)]
enum Relation {
    Same,
    /// Only features or extras were added.
    Grew,
    Changed,
}

fn relation(before: &Value, after: &Value) -> Relation {
    let (was, is) = (table(before), table(after));
    if was == is {
        return Relation::Same;
    }
    let own = |map: &Map<String, Value>| {
        map.contains_key("path") || map.get("workspace").is_some_and(|v| v == &Value::Bool(true))
    };
    let ours = own(&was) && own(&is) && was.get("path") == is.get("path");
    let mut grew = false;
    for key in was.keys().chain(is.keys()) {
        let (old, new) = (was.get(key), is.get(key));
        if old == new || (ours && key == "version") {
            continue;
        }
        if !matches!(key.as_str(), "features" | "extras")
            || super::walk::grows(old, new) == Weight::Breach
        {
            return Relation::Changed;
        }
        grew = true;
    }
    if grew { Relation::Grew } else { Relation::Same }
}

/// A version alone is a table with a version.
fn table(spec: &Value) -> Map<String, Value> {
    match spec {
        Value::Object(map) => map.clone(),
        Value::String(version) => {
            let bare: String = version.split_whitespace().collect();
            Map::from_iter([("version".to_owned(), Value::from(bare))])
        }
        other => Map::from_iter([("version".to_owned(), other.clone())]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Judged;
    use super::*;
    use serde_json::json;

    fn judged(ecosystem: Ecosystem, before: Value, after: Value, mutable: Mutable) -> Judged {
        let mut findings = Findings::new(mutable);
        let read = |value: &Value| -> Vec<Entry> {
            value
                .as_object()
                .unwrap()
                .iter()
                .flat_map(|(table, inner)| entries_of(table, Some(inner)))
                .collect()
        };
        compare(ecosystem, Age::Old, &read(&before), &read(&after), &mut findings);
        findings.judged()
    }

    #[test]
    fn added_features_and_moves_between_tables_are_allowed() {
        let before = json!({"dependencies": {"tokio": "1"}, "dev-dependencies": {"serde": "1"}});
        let after =
            json!({"dependencies": {"tokio": {"version": "1", "features": ["rt"]}, "serde": "1"}});
        assert!(matches!(judged(Ecosystem::Rust, before, after, Mutable::No), Judged::Allowed(_)));
    }

    #[test]
    fn a_runner_is_never_changed_and_others_only_where_declared() {
        let jest = (json!({"d": {"jest": "29"}}), json!({"d": {"jest": "30"}}));
        let other = (json!({"d": {"left-pad": "1"}}), json!({"d": {"left-pad": "2"}}));
        for mutable in [Mutable::No, Mutable::Yes] {
            let found = judged(Ecosystem::Node, jest.0.clone(), jest.1.clone(), mutable);
            assert!(matches!(found, Judged::Breach(_)));
        }
        assert!(matches!(
            judged(Ecosystem::Node, other.0.clone(), other.1.clone(), Mutable::No),
            Judged::Breach(_)
        ));
        assert!(matches!(
            judged(Ecosystem::Node, other.0, other.1, Mutable::Yes),
            Judged::Allowed(_)
        ));
    }

    #[test]
    fn plugins_that_load_themselves_are_not_added_silently() {
        let found = judged(
            Ecosystem::Python,
            json!({"d": {}}),
            json!({"d": {"pytest_rerunfailures": "1"}}),
            Mutable::No,
        );
        assert!(matches!(found, Judged::Breach(_)));
    }

    #[test]
    fn a_runner_that_was_never_named_may_come_where_that_is_declared() {
        let added = |mutable| {
            judged(Ecosystem::Ruby, json!({"d": {}}), json!({"d": {"rspec": "~> 3.12"}}), mutable)
        };
        assert!(matches!(added(Mutable::No), Judged::Breach(_)));
        assert!(matches!(added(Mutable::Yes), Judged::Allowed(_)));
    }
}
