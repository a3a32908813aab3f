//! Named commands that tests may be started by: which of them a test reaches, and what an added
//! one may take over.

use super::walk::{Findings, Weight, text_of};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Beginnings of the names under which checks are started.
const STARTS: &[&str] = &[
    "test",
    "check",
    "ci",
    "lint",
    "typecheck",
    "type-check",
    "types",
    "tsc",
    "coverage",
    "verify",
    "validate",
    "spec",
    "unit",
    "integration",
    "e2e",
];

/// Hooks a package manager runs when it installs.
const INSTALL: &[&str] = &["preinstall", "install", "postinstall", "prepare"];

/// Judges the scripts of `package.json` or `composer.json`.
pub(super) fn compare(before: Option<&Value>, after: Option<&Value>, findings: &mut Findings) {
    let (old, new) = (commands(before), commands(after));
    let reached = reached(&old);
    for name in &reached {
        let (was, is) = (old.get(name), new.get(name));
        if was != is {
            findings.add(
                Weight::Breach,
                format!("scripts.{name}"),
                was.map(String::as_str),
                is.map(String::as_str),
            );
        }
    }
    let texts: Vec<Vec<&str>> =
        reached.iter().filter_map(|name| old.get(name)).map(|text| words(text)).collect();
    for (name, is) in &new {
        if reached.contains(name) {
            continue;
        }
        let was = old.get(name);
        if was == Some(is) {
            continue;
        }
        // It wraps a script of the tests, is called by one that named it in vain, or is the one
        // that `npm test` looks for.
        let wraps = ["pre", "post"].iter().any(|hook| {
            name.strip_prefix(hook).is_some_and(|inner| reached.contains(inner) || inner == "test")
        });
        let called = was.is_none()
            && texts.iter().any(|words| calls(words) && words.iter().any(|word| word == name));
        let steers = wraps
            || called
            || (was.is_none() && name == "test")
            || INSTALL.contains(&name.as_str());
        let weight = if steers { Weight::Breach } else { Weight::Allowed };
        findings.add(weight, format!("scripts.{name}"), was.map(String::as_str), Some(is));
    }
    for (name, was) in &old {
        if !new.contains_key(name) && !reached.contains(name) {
            let steers = INSTALL.contains(&name.as_str());
            let weight = if steers { Weight::Breach } else { Weight::Allowed };
            findings.add(weight, format!("scripts.{name}"), Some(was), None);
        }
    }
}

fn commands(scripts: Option<&Value>) -> BTreeMap<String, String> {
    let none = Map::new();
    let scripts = scripts.and_then(Value::as_object).unwrap_or(&none);
    scripts
        .iter()
        .map(|(name, command)| {
            let text = text_of(command);
            (name.clone(), text.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

fn is_start(name: &str) -> bool {
    let first = name.split([':', '.', '_']).next().unwrap_or(name);
    STARTS.contains(&first) || first.starts_with("test")
}

/// The scripts that a test-like name leads to, hooks included.
fn reached(scripts: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut queue: Vec<&str> =
        scripts.keys().map(String::as_str).filter(|name| is_start(name)).collect();
    let mut reached = BTreeSet::new();
    while let Some(name) = queue.pop() {
        let Some((name, command)) = scripts.get_key_value(name) else { continue };
        if !reached.insert(name.clone()) {
            continue;
        }
        for hook in ["pre", "post"] {
            if let Some((hook, _)) = scripts.get_key_value(&format!("{hook}{name}")) {
                queue.push(hook);
            }
        }
        let words = words(command);
        if !calls(&words) {
            continue;
        }
        for word in words {
            if let Some((called, _)) = scripts.get_key_value(word) {
                queue.push(called);
            } else if let Some(prefix) = word.strip_suffix('*').filter(|prefix| !prefix.is_empty())
            {
                queue.extend(
                    scripts.keys().map(String::as_str).filter(|name| name.starts_with(prefix)),
                );
            }
        }
    }
    reached
}

/// The words of a command, with what npm-run-all and Composer write before a script's name left out.
fn words(command: &str) -> Vec<&str> {
    let split = |c: char| c.is_whitespace() || "\"'`;&|()[],".contains(c);
    command
        .split(split)
        .map(|word| word.strip_prefix("npm:").unwrap_or(word).trim_start_matches('@'))
        .filter(|word| !word.is_empty())
        .collect()
}

/// Whether a command may start other scripts.
fn calls(words: &[&str]) -> bool {
    const CALLERS: &[&str] = &[
        "npm",
        "yarn",
        "pnpm",
        "bun",
        "run-s",
        "run-p",
        "npm-run-all",
        "npm-run-all2",
        "concurrently",
        "wireit",
        "turbo",
        "nx",
        "--run",
        "composer",
        "lerna",
        "npx",
    ];
    words.iter().any(|word| CALLERS.contains(word)) || words.len() == 1
}

#[cfg(test)]
mod tests {
    use super::super::{Judged, Mutable};
    use super::*;
    use serde_json::json;

    fn judged(before: Value, after: Value) -> Judged {
        let mut findings = Findings::new(Mutable::No);
        compare(Some(&before), Some(&after), &mut findings);
        findings.judged()
    }

    #[test]
    fn scripts_that_no_test_reaches_are_free() {
        let before = json!({"test": "jest", "build": "tsc", "start": "node ."});
        let after = json!({"test": " jest ", "build": "tsc -b", "dev": "node --watch ."});
        assert!(matches!(judged(before, after), Judged::Allowed(_)));
    }

    #[test]
    fn what_a_test_reaches_is_not() {
        let before =
            json!({"test": "npm run build && run-s unit:*", "build": "tsc", "unit:a": "jest"});
        for (name, command) in [("build", "true"), ("unit:a", "true"), ("test", "exit 0")] {
            let mut after = before.clone();
            after[name] = Value::from(command);
            let Judged::Breach(found) = judged(before.clone(), after) else { panic!("{name}") };
            assert_eq!(found[0].key, format!("scripts.{name}"));
        }
        for name in ["pretest", "posttest", "prebuild", "postinstall"] {
            let mut after = before.clone();
            after[name] = Value::from("true");
            assert!(matches!(judged(before.clone(), after), Judged::Breach(_)), "{name}");
        }
    }

    #[test]
    fn scripts_that_call_each_other_end() {
        let ring = json!({"test": "npm run a", "a": "npm run test"});
        assert_eq!(judged(ring.clone(), ring), Judged::Same);
    }
}
