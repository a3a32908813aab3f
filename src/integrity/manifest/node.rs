//! What decides tests in `package.json`, workspaces and the configuration of package managers.

use super::packages::{Age, Ecosystem, Entry, compare, entries_of};
use super::plain::{parse_both, parser_of, whole};
use super::walk::{Findings, Rule, Weight, rises, turns_on, walk};
use super::{Pair, scripts, tree};
use serde_json::{Map, Value, json};

const TABLES: &[&str] =
    &["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

/// Compares `package.json`.
pub(super) fn package(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::json, findings) else { return };
    if pair.before.is_some() && pair.after.is_none() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let age = pair.age();
    compare(Ecosystem::Node, age, &dependencies(&before), &dependencies(&after), findings);
    match age {
        Age::Old => {
            scripts::compare(before.get("scripts"), after.get("scripts"), findings);
            walk(&before, &after, &package_rule, findings);
        }
        // Only what Babel takes from every folder above a file reaches tests that were there.
        Age::New => walk(
            &before,
            &after,
            &|path| if path == ["babel"] { Rule::Steers } else { Rule::Skip },
            findings,
        ),
    }
}

fn dependencies(package: &Value) -> Vec<Entry> {
    let mut all: Vec<Entry> =
        TABLES.iter().flat_map(|table| entries_of(table, package.get(*table))).collect();
    all.extend(entries_of("overrides", package.get("overrides")));
    all.extend(entries_of("resolutions", package.get("resolutions")));
    for table in ["overrides", "patchedDependencies"] {
        all.extend(entries_of(&format!("pnpm.{table}"), tree::at(package, &["pnpm", table])));
    }
    for entry in &mut all {
        // `jest>expect` and `expect@30` redirect `expect`.
        if entry.table.starts_with("over") || entry.table.starts_with("pnpm.") {
            let last = entry.name.rsplit('>').next().unwrap_or(&entry.name);
            let at = last.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
            entry.name = last[..at.unwrap_or(last.len())].to_owned();
        } else if entry.table == "resolutions" {
            let parts: Vec<&str> = entry.name.split('/').collect();
            let scoped = parts.len() > 1 && parts[parts.len() - 2].starts_with('@');
            entry.name = parts[parts.len().saturating_sub(if scoped { 2 } else { 1 })..].join("/");
        }
    }
    all
}

fn package_rule(path: &[&str]) -> Rule {
    match path {
        ["jest" | "c8" | "nyc", ..] => measured_rule(&path[1..]),
        ["mocha" | "ava" | "vitest" | "babel" | "tap" | "volta" | "wireit", ..] => Rule::Into,
        ["type"] => Rule::Judge(module_type),
        ["workspaces"] => Rule::Grows,
        // Package managers write it by themselves where it is missing.
        ["packageManager"] => Rule::Adds,
        _ => Rule::Skip,
    }
}

/// CommonJS is what a package without a type is.
fn module_type(before: Option<&Value>, after: Option<&Value>) -> Weight {
    let of = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("commonjs").to_owned();
    if of(before) == of(after) { Weight::Allowed } else { Weight::Breach }
}

/// Runners that also measure coverage: bars may rise, what is only shown is free.
fn measured_rule(path: &[&str]) -> Rule {
    match path.last() {
        Some(&("lines" | "branches" | "functions" | "statements")) => Rule::Judge(rises),
        Some(&("check-coverage" | "checkCoverage" | "all" | "per-file" | "perFile")) => {
            Rule::Judge(turns_on)
        }
        Some(
            &("verbose" | "displayName" | "coverageReporters" | "coverageDirectory" | "reporter"
            | "report-dir" | "notify" | "silent" | "collectCoverage"),
        ) => Rule::Notes,
        _ => Rule::Into,
    }
}

/// Compares nyc's and c8's own files.
pub(super) fn thresholds(pair: &Pair<'_>, findings: &mut Findings) {
    if matches!(pair.name.rsplit_once('.'), Some((_, "js" | "cjs" | "mjs"))) {
        super::plain::raw(pair, findings);
        return;
    }
    let parser = if pair.name.matches('.').count() < 2 { tree::json } else { parser_of(pair.name) };
    if let Some((before, after)) = parse_both(pair, parser, findings) {
        walk(&before, &after, &measured_rule, findings);
    }
}

/// Compares `pnpm-workspace.yaml`.
pub(super) fn pnpm_workspace(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::yaml, findings) else { return };
    let entries = |workspace: &Value| {
        let mut all = entries_of("catalog", workspace.get("catalog"));
        all.extend(entries_of("overrides", workspace.get("overrides")));
        let catalogs = workspace.get("catalogs").and_then(Value::as_object);
        for (name, catalog) in catalogs.into_iter().flatten() {
            all.extend(entries_of(&format!("catalogs.{name}"), Some(catalog)));
        }
        all
    };
    compare(Ecosystem::Node, pair.age(), &entries(&before), &entries(&after), findings);
    let rule = |path: &[&str]| match path {
        ["packages"] => Rule::Grows,
        ["catalog" | "catalogs" | "overrides", ..] => Rule::Skip,
        ["onlyBuiltDependencies" | "ignoredBuiltDependencies" | "minimumReleaseAge"] => Rule::Notes,
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}

/// Compares `.npmrc` and Yarn's files: nearly every key chooses what runs or where packages come
/// from.
pub(super) fn package_manager(pair: &Pair<'_>, findings: &mut Findings) {
    fn lines(bytes: &[u8]) -> Option<Value> {
        let mut map = Map::new();
        for line in tree::text(bytes)?.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let (key, value) = line.split_once(['=', ' ']).unwrap_or((line, "true"));
            let value = json!(value.trim().trim_matches('"'));
            match map.get_mut(key.trim()) {
                Some(Value::Array(list)) => list.push(value),
                _ => {
                    map.insert(key.trim().to_owned(), Value::Array(vec![value]));
                }
            }
        }
        Some(Value::Object(map))
    }
    let parser = if pair.name.ends_with(".yml") { tree::yaml } else { lines };
    let Some((before, after)) = parse_both(pair, parser, findings) else { return };
    let rule = |path: &[&str]| match path {
        [
            "fund"
            | "audit"
            | "save-exact"
            | "save-prefix"
            | "progress"
            | "loglevel"
            | "color"
            | "legacy-peer-deps"
            | "engine-strict"
            | "update-notifier"
            | "enableTelemetry"
            | "auto-install-peers"
            | "strict-peer-dependencies",
        ] => Rule::Notes,
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}
