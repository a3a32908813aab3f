//! What decides tests in Cargo's manifest, Cargo's configuration, the toolchain file and nextest's.

use super::packages::{Age, Ecosystem, Entry, compare, entries_of};
use super::plain::{parse_both, presence};
use super::walk::{Findings, Rule, Weight, grows, turns_off, turns_on, walk};
use super::{Pair, tree};
use serde_json::Value;

/// Compares `Cargo.toml`.
pub(super) fn manifest(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::toml, findings) else { return };
    let age = pair.age();
    compare(Ecosystem::Rust, age, &dependencies(&before), &dependencies(&after), findings);
    if pair.before.is_some() && pair.after.is_none() {
        super::plain::whole(pair, Weight::Breach, findings);
        return;
    }
    // Targets and profiles of a package that came steer that package alone.
    if age == Age::Old {
        walk(&shaped(&before), &shaped(&after), &manifest_rule, findings);
    }
}

/// Lists of targets become tables by name.
fn shaped(manifest: &Value) -> Value {
    let mut shaped = manifest.clone();
    for kind in ["test", "bench", "bin", "example"] {
        if let Some(targets) = shaped.get_mut(kind) {
            *targets = tree::by_name(targets, &["name", "path"]);
        }
    }
    shaped
}

fn dependencies(manifest: &Value) -> Vec<Entry> {
    const TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];
    let mut all = Vec::new();
    let mut read = |prefix: &str, holder: &Value| {
        for table in TABLES {
            all.extend(entries_of(&format!("{prefix}{table}"), holder.get(*table)));
        }
    };
    read("", manifest);
    if let Some(workspace) = manifest.get("workspace") {
        read("workspace.", workspace);
    }
    for (target, holder) in manifest.get("target").and_then(Value::as_object).into_iter().flatten()
    {
        read(&format!("target.{target}."), holder);
    }
    all
}

fn manifest_rule(path: &[&str]) -> Rule {
    match path {
        [
            "package" | "project" | "lib" | "features" | "profile" | "workspace" | "lints"
            | "patch" | "replace" | "test" | "bench" | "bin",
        ]
        | ["workspace", "lints"] => Rule::Into,
        ["package", "autotests" | "autobenches"] => Rule::Judge(turns_on),
        ["package", "build"] => Rule::Judge(build_script),
        ["lib", "test" | "doctest" | "harness"] => Rule::Judge(turns_on),
        ["bin", _] => Rule::Into,
        ["bin", _, "test"] => Rule::Judge(turns_on),
        ["test" | "bench", _] => Rule::Judge(target),
        ["features", _] => Rule::Judge(grows),
        ["profile", ..] => profile_rule(path),
        ["patch" | "replace", ..] => Rule::Steers,
        ["workspace", "members"] => Rule::Grows,
        ["workspace", "exclude" | "default-members"] => Rule::Steers,
        ["lints" | "workspace", ..] if path.contains(&"lints") => lint_rule(path),
        _ => Rule::Skip,
    }
}

/// The build script that Cargo finds by itself may also be named.
fn build_script(before: Option<&Value>, after: Option<&Value>) -> Weight {
    let usual = |value: Option<&Value>| value.is_none_or(|value| value == "build.rs");
    if usual(before) && usual(after) { Weight::Allowed } else { Weight::Breach }
}

/// A target that came may be anything but one that runs nothing.
fn target(before: Option<&Value>, after: Option<&Value>) -> Weight {
    let off = |target: &Value| {
        ["harness", "test"].iter().any(|key| target.get(*key) == Some(&Value::Bool(false)))
            || target.get("required-features").is_some()
    };
    match (before, after) {
        (None, Some(after)) if !off(after) => Weight::Allowed,
        _ => Weight::Breach,
    }
}

/// Only what changes what a program does; how fast or how large it gets is its own business.
fn profile_rule(path: &[&str]) -> Rule {
    match path.last() {
        Some(&("overflow-checks" | "debug-assertions" | "inherits")) => Rule::Steers,
        Some(
            &("opt-level" | "debug" | "lto" | "strip" | "codegen-units" | "incremental" | "rpath"
            // Tests unwind whatever is set here.
            | "split-debuginfo" | "panic"),
        ) => Rule::Notes,
        _ => Rule::Into,
    }
}

fn lint_rule(path: &[&str]) -> Rule {
    if path.len() < if path[0] == "workspace" { 4 } else { 3 } {
        return if path == ["lints", "workspace"] { Rule::Steers } else { Rule::Into };
    }
    Rule::Judge(|before, after| {
        let level = |value: Option<&Value>| {
            let value = value?;
            let level = value.get("level").unwrap_or(value).as_str()?;
            ["allow", "warn", "deny", "forbid"].iter().position(|one| *one == level)
        };
        match (level(before), level(after)) {
            (None, Some(is)) if is > 0 => Weight::Allowed,
            (Some(was), Some(is)) if is >= was => Weight::Allowed,
            _ => Weight::Breach,
        }
    })
}

/// Compares `.cargo/config.toml`, where nearly every key runs or redirects something.
pub(super) fn config(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::toml, findings) else { return };
    let rule = |path: &[&str]| match path {
        ["term" | "net" | "http" | "cargo-new" | "future-incompat-report" | "doc", ..] => {
            Rule::Notes
        }
        ["build", "jobs" | "incremental"] => Rule::Notes,
        ["profile", ..] => profile_rule(path),
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}

/// Compares `rust-toolchain` in both of its spellings.
pub(super) fn toolchain(pair: &Pair<'_>, findings: &mut Findings) {
    presence(pair, findings);
    fn read(bytes: &[u8]) -> Option<Value> {
        let text = tree::text(bytes)?;
        if text.contains('[') {
            return tree::toml(bytes);
        }
        Some(serde_json::json!({"toolchain": {"channel": text.trim()}}))
    }
    let Some((before, after)) = parse_both(pair, read, findings) else { return };
    let rule = |path: &[&str]| match path {
        ["toolchain", "components" | "targets"] => Rule::Grows,
        ["toolchain", "profile"] => Rule::Notes,
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}

/// Compares nextest's configuration; what it prints is no matter, a new profile is no one's.
pub(super) fn nextest(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::toml, findings) else { return };
    let old = before.get("profile").and_then(Value::as_object);
    let rule = |path: &[&str]| match path {
        ["profile", name]
            if *name != "default" && old.is_none_or(|old| !old.contains_key(*name)) =>
        {
            Rule::Notes
        }
        [
            "profile",
            _,
            "status-level" | "final-status-level" | "failure-output" | "success-output" | "junit"
            | "test-threads",
        ] => Rule::Notes,
        ["profile", _, "fail-fast"] => Rule::Judge(turns_off),
        ["test-groups", ..] => Rule::Adds,
        ["nextest-version"] => Rule::Notes,
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}
