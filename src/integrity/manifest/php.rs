//! What decides tests in Composer's manifest and PHPUnit's configuration.

use super::packages::{Ecosystem, Entry, compare, entries_of};
use super::plain::{parse_both, presence};
use super::walk::{Findings, Rule, Weight, turns_on, walk};
use super::{Pair, scripts, tree};
use serde_json::Value;

/// Compares `composer.json`.
pub(super) fn composer(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::json, findings) else { return };
    let read = |manifest: &Value| -> Vec<Entry> {
        let tables = ["require", "require-dev", "replace", "provide"];
        tables.iter().flat_map(|table| entries_of(table, manifest.get(*table))).collect()
    };
    compare(Ecosystem::Php, pair.age(), &read(&before), &read(&after), findings);
    scripts::compare(before.get("scripts"), after.get("scripts"), findings);
    let rule = |path: &[&str]| match path {
        ["config" | "repositories" | "autoload-dev"] => Rule::Into,
        ["config", "sort-packages" | "optimize-autoloader" | "preferred-install"] => Rule::Notes,
        ["autoload-dev", "psr-4" | "psr-0"] => Rule::Into,
        ["autoload-dev", _, _] => Rule::Adds,
        ["config" | "repositories" | "autoload-dev", ..] => Rule::Into,
        _ => Rule::Skip,
    };
    walk(&before, &after, &rule, findings);
}

/// Compares `phpunit.xml`; one that came outranks `phpunit.xml.dist`.
pub(super) fn phpunit(pair: &Pair<'_>, findings: &mut Findings) {
    presence(pair, findings);
    let Some((before, after)) = parse_both(pair, tree::xml, findings) else { return };
    let rule = |path: &[&str]| match path {
        [.., name] if name.starts_with("@failOn") || name.starts_with("@beStrict") => {
            Rule::Judge(turns_on)
        }
        [
            ..,
            "@colors"
            | "@verbose"
            | "@testdox"
            | "@cacheDirectory"
            | "@cacheResult"
            | "@noNamespaceSchemaLocation",
        ] => Rule::Notes,
        ["phpunit", "logging", ..] => Rule::Notes,
        // A suite or a folder more only runs more.
        ["phpunit", "testsuites", suite] if suite.starts_with("testsuite") => {
            Rule::Judge(|before, after| match (before, after) {
                (None, Some(_)) => Weight::Allowed,
                (Some(before), Some(after)) if only_more(before, after) => Weight::Allowed,
                _ => Weight::Breach,
            })
        }
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}

/// Whether a suite only gained folders and files.
fn only_more(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return false };
    before.iter().all(|(key, value)| after.get(key) == Some(value))
        && after
            .keys()
            .filter(|key| !before.contains_key(*key))
            .all(|key| key.starts_with("directory") || key.starts_with("file"))
}
