//! What decides tests in Maven's and Gradle's builds.

use super::packages::{Age, Ecosystem, Entry, Role, compare, role};
use super::plain::{parse_both, whole};
use super::walk::{Findings, Rule, Weight, text_of, walk};
use super::{Pair, tree};
use serde_json::Value;

/// Compares `pom.xml`.
pub(super) fn pom(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::xml, findings) else { return };
    if pair.after.is_none() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let (old, new) = (pom_dependencies(&before), pom_dependencies(&after));
    compare(Ecosystem::Jvm, pair.age(), &old, &new, findings);
    if pair.age() == Age::Old {
        walk(&before, &after, &pom_rule, findings);
    }
}

fn pom_dependencies(pom: &Value) -> Vec<Entry> {
    let mut all = Vec::new();
    let Some(project) = pom.get("project") else { return all };
    let mut holders = vec![(String::new(), project)];
    let profiles = project.get("profiles").and_then(Value::as_object);
    for (name, profile) in profiles.into_iter().flatten() {
        holders.push((format!("profiles.{name}."), profile));
    }
    for (prefix, holder) in holders {
        for path in [&["dependencies"][..], &["dependencyManagement", "dependencies"]] {
            for (key, spec) in
                tree::at(holder, path).and_then(Value::as_object).into_iter().flatten()
            {
                if let Some(name) = key.strip_prefix("dependency ") {
                    let table = format!("{prefix}{}", path.join("."));
                    all.push(Entry { table, name: name.to_owned(), spec: spec.clone() });
                }
            }
        }
    }
    all
}

fn pom_rule(path: &[&str]) -> Rule {
    let path = match path {
        ["project", inner @ ..] => inner,
        _ => return Rule::Into,
    };
    let path = match path {
        ["profiles"] | ["profiles", _] => return Rule::Into,
        ["profiles", _, inner @ ..] => inner,
        inner => inner,
    };
    match path {
        [] => Rule::Into,
        ["properties" | "build" | "modules" | "activation", ..] if path.len() == 1 => Rule::Into,
        ["properties", name] => property(name),
        ["modules", _] => Rule::Adds,
        ["parent", ..] => Rule::Into,
        [
            "build",
            "testSourceDirectory" | "testResources" | "testOutputDirectory" | "extensions",
            ..,
        ] => Rule::Into,
        ["build", "plugins" | "pluginManagement"] | ["build", "pluginManagement", "plugins"] => {
            Rule::Into
        }
        ["build", "plugins", plugin, ..] | ["build", "pluginManagement", "plugins", plugin, ..] => {
            if decides(plugin) {
                Rule::Into
            } else {
                Rule::Notes
            }
        }
        _ => Rule::Skip,
    }
}

/// Plugins that run, instrument or judge.
fn decides(plugin: &str) -> bool {
    [
        "surefire",
        "failsafe",
        "jacoco",
        "pitest",
        "checkstyle",
        "spotbugs",
        "pmd",
        "enforcer",
        "spock",
        "gmavenplus",
        "exec-maven",
        "antrun",
        "groovy-maven",
    ]
    .iter()
    .any(|word| plugin.contains(word))
}

fn property(name: &str) -> Rule {
    let lower = name.to_ascii_lowercase();
    let steers = ["skip", "test", "surefire", "failsafe", "jacoco", "argline", "groups"]
        .iter()
        .any(|word| lower.contains(word))
        || role(Ecosystem::Jvm, name) == Role::Runner;
    if steers { Rule::Steers } else { Rule::Notes }
}

/// Compares Gradle's version catalogue.
pub(super) fn catalogue(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::toml, findings) else { return };
    let read = |file: &Value| -> Vec<Entry> {
        let mut all = Vec::new();
        for table in ["versions", "libraries", "plugins", "bundles"] {
            for (name, spec) in file.get(table).and_then(Value::as_object).into_iter().flatten() {
                // A library is what its coordinates say, not how it is called here.
                let module = spec.get("module").or_else(|| spec.get("name")).unwrap_or(spec);
                let shown = if role(Ecosystem::Jvm, &text_of(module)) == Role::Runner {
                    format!("{name} ({})", text_of(module))
                } else {
                    name.clone()
                };
                all.push(Entry { table: table.to_owned(), name: shown, spec: spec.clone() });
            }
        }
        all
    };
    compare(Ecosystem::Jvm, pair.age(), &read(&before), &read(&after), findings);
}

/// Words that begin the declaration of a dependency.
const CONFIGURATIONS: &[&str] = &[
    "implementation",
    "api",
    "compileOnly",
    "runtimeOnly",
    "annotationProcessor",
    "kapt",
    "ksp",
    "testImplementation",
    "testRuntimeOnly",
    "testCompileOnly",
    "androidTestImplementation",
    "include",
];

/// Compares Gradle's scripts, which are code: lines may only come where they declare a dependency.
pub(super) fn gradle(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_none() && pair.age() == Age::New {
        whole(pair, Weight::Allowed, findings);
        return;
    }
    let (before, after) = (code_lines(pair.before), code_lines(pair.after));
    let mut kept = before.iter().peekable();
    for line in &after {
        if kept.next_if(|next| *next == line).is_some() {
            continue;
        }
        let weight = if declares(line) { Weight::Allowed } else { Weight::Breach };
        findings.add(weight, "content", None, Some(line));
    }
    for line in kept {
        let weight = if declares(line) && findings.mutable == super::Mutable::Yes {
            Weight::Allowed
        } else {
            Weight::Breach
        };
        findings.add(weight, "content", Some(line), None);
    }
}

/// A line that does nothing but name one dependency that is no runner.
fn declares(line: &str) -> bool {
    let Some(rest) = CONFIGURATIONS.iter().find_map(|word| line.strip_prefix(word)) else {
        return false;
    };
    let plain = rest.starts_with([' ', '(']) && !rest.contains(['{', ';', '=']);
    plain && role(Ecosystem::Jvm, rest) != Role::Runner
}

fn code_lines(bytes: Option<&[u8]>) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let mut lines = Vec::new();
    let mut in_comment = false;
    for line in text.lines() {
        let line = line.trim();
        if in_comment {
            in_comment = !line.ends_with("*/");
            continue;
        }
        if line.starts_with("/*") && !line.contains("*/") {
            in_comment = true;
            continue;
        }
        if line.is_empty()
            || line.starts_with("//")
            || (line.starts_with("/*") && line.ends_with("*/"))
        {
            continue;
        }
        lines.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    lines
}
