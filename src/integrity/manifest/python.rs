//! What decides tests in Python's manifests and in the INI files of its runners.

use super::packages::{Ecosystem, Entry, compare, entries_of};
use super::plain::{parse_both, presence, whole};
use super::walk::{Findings, Rule, Weight, entries, missing, walk};
use super::{Pair, ini, pytest, tree};
use serde_json::{Map, Value, json};

/// Compares `pyproject.toml`.
pub(super) fn pyproject(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::toml, findings) else { return };
    if pair.after.is_none() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let (old, new) = (project_dependencies(&before), project_dependencies(&after));
    compare(Ecosystem::Python, pair.age(), &old, &new, findings);
    // An empty table outranks the files that come after this one.
    let table = |value: &Value| tree::at(value, &["tool", "pytest"]).is_some();
    if table(&before) != table(&after)
        && tree::at(&after, &["tool", "pytest"]) == Some(&tree::empty())
    {
        findings.add(Weight::Breach, "tool.pytest", None, Some("{}"));
    }
    walk(&before, &after, &pyproject_rule, findings);
}

fn pyproject_rule(path: &[&str]) -> Rule {
    match path {
        ["tool" | "project" | "build-system"] => Rule::Into,
        [
            "tool",
            "pytest" | "coverage" | "tox" | "nox" | "hatch" | "pdm" | "poe" | "taskipy" | "uv"
            | "poetry",
        ] => Rule::Into,
        ["tool", "pytest", "ini_options"] => Rule::Into,
        ["tool", "pytest", "ini_options", inner @ ..] | ["tool", "pytest", inner @ ..] => {
            pytest::option(inner)
        }
        ["tool", "coverage", inner @ ..] => pytest::coverage(inner),
        ["tool", "tox" | "nox", ..] => Rule::Into,
        ["tool", "hatch", "envs"]
        | ["tool", "pdm", "scripts"]
        | ["tool", "poe" | "taskipy", "tasks"] => Rule::Into,
        ["tool", "hatch", "envs", _] | ["tool", "pdm", "scripts", _] => Rule::Adds,
        ["tool", "poe" | "taskipy", "tasks", _] => Rule::Adds,
        ["tool", "uv", "index" | "find-links" | "no-index" | "index-url"] => Rule::Steers,
        // Plugins that pytest loads by itself.
        ["project", "entry-points"] | ["tool", "poetry", "plugins"] => Rule::Into,
        ["project", "entry-points", "pytest11", ..]
        | ["tool", "poetry", "plugins", "pytest11", ..] => Rule::Into,
        ["build-system", "requires"] => Rule::Grows,
        ["build-system", ..] => Rule::Steers,
        _ => Rule::Skip,
    }
}

fn project_dependencies(project: &Value) -> Vec<Entry> {
    let mut all = listed("project.dependencies", tree::at(project, &["project", "dependencies"]));
    for path in [&["project", "optional-dependencies"][..], &["dependency-groups"]] {
        for (group, list) in
            tree::at(project, path).and_then(Value::as_object).into_iter().flatten()
        {
            all.extend(listed(&format!("{}.{group}", path.join(".")), Some(list)));
        }
    }
    for path in [
        &["tool", "poetry", "dependencies"][..],
        &["tool", "poetry", "dev-dependencies"],
        &["tool", "uv", "sources"],
    ] {
        all.extend(entries_of(&path.join("."), tree::at(project, path)));
    }
    for table in ["dev-dependencies", "override-dependencies", "constraint-dependencies"] {
        let path = ["tool", "uv", table];
        all.extend(listed(&path.join("."), tree::at(project, &path)));
    }
    // Poetry lists the interpreter's range among them, which `requires-python` is elsewhere.
    all.retain(|entry| entry.name != "python");
    let groups = tree::at(project, &["tool", "poetry", "group"]).and_then(Value::as_object);
    for (group, holder) in groups.into_iter().flatten() {
        let table = format!("tool.poetry.group.{group}.dependencies");
        all.extend(entries_of(&table, holder.get("dependencies")));
    }
    all
}

/// Reads requirements as PEP 508 writes them; anything else in the list is an entry by its text.
fn listed(table: &str, list: Option<&Value>) -> Vec<Entry> {
    entries(list)
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty())
        .map(|line| requirement(table, line))
        .collect()
}

fn requirement(table: &str, line: &str) -> Entry {
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)))
        .unwrap_or(line.len());
    let (name, mut rest) = line.split_at(end);
    let mut spec = Map::new();
    if let Some((extras, after)) =
        rest.trim_start().strip_prefix('[').and_then(|r| r.split_once(']'))
    {
        let mut extras: Vec<&str> = extras.split(',').map(str::trim).collect();
        extras.sort_unstable();
        spec.insert("extras".to_owned(), json!(extras));
        rest = after;
    }
    let (version, marker) = rest.split_once(';').unwrap_or((rest, ""));
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let mut bounds: Vec<String> = bare(version).split(',').map(str::to_owned).collect();
    bounds.sort();
    let name = name.to_ascii_lowercase().replace(['_', '.'], "-");
    spec.insert("version".to_owned(), Value::from(bounds.join(",")));
    let marker = bare(&marker.replace('"', "'"));
    // One name may stand once for each environment.
    let table = if marker.is_empty() { table.to_owned() } else { format!("{table}[{marker}]") };
    Entry { table, name, spec: Value::Object(spec) }
}

/// Compares requirement and constraint files.
pub(super) fn requirements(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.after.is_none() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let (old_options, old) = requirement_lines(pair.before);
    let (new_options, new) = requirement_lines(pair.after);
    compare(Ecosystem::Python, pair.age(), &old, &new, findings);
    for line in missing(&new_options, &old_options) {
        // Another file's requirements are judged there.
        let adds =
            ["-r", "--requirement", "-e", "--editable"].iter().any(|start| line.starts_with(start));
        let weight = if adds { Weight::Allowed } else { Weight::Breach };
        findings.add(weight, "options", None, Some(line));
    }
    for line in missing(&old_options, &new_options) {
        findings.add(Weight::Breach, "options", Some(line), None);
    }
}

fn requirement_lines(bytes: Option<&[u8]>) -> (Vec<String>, Vec<Entry>) {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default()).replace("\\\r\n", " ");
    let text = text.replace("\\\n", " ");
    let (mut options, mut all) = (Vec::new(), Vec::new());
    for line in text.trim_start_matches('\u{feff}').lines() {
        let line = line.split(" #").next().unwrap_or(line).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let first = line.chars().next();
        let local = line.contains("://") && !line.contains('@');
        if first.is_some_and(|c| !c.is_ascii_alphanumeric()) || local {
            options.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        } else {
            all.push(requirement("requirements", line));
        }
    }
    (options, all)
}

/// Compares `Pipfile`.
pub(super) fn pipfile(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, tree::toml, findings) else { return };
    let read = |file: &Value| -> Vec<Entry> {
        let tables = ["packages", "dev-packages"];
        tables.iter().flat_map(|table| entries_of(table, file.get(*table))).collect()
    };
    compare(Ecosystem::Python, pair.age(), &read(&before), &read(&after), findings);
    let rule = |path: &[&str]| match path {
        ["packages" | "dev-packages", ..] => Rule::Skip,
        ["scripts"] => Rule::Into,
        ["scripts", _] => Rule::Adds,
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}

/// Compares `setup.cfg`.
pub(super) fn setup_cfg(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, ini::parse, findings) else { return };
    let read = |file: &Value| -> Vec<Entry> {
        let mut all =
            listed("options.install_requires", tree::at(file, &["options", "install_requires"]));
        all.extend(listed("options.tests_require", tree::at(file, &["options", "tests_require"])));
        let extras = file.get("options.extras_require").and_then(Value::as_object);
        for (extra, list) in extras.into_iter().flatten() {
            all.extend(listed(&format!("options.extras_require.{extra}"), Some(list)));
        }
        all
    };
    compare(Ecosystem::Python, pair.age(), &read(&before), &read(&after), findings);
    walk(&before, &after, &ini_rule, findings);
    sections(&before, &after, findings);
}

/// Compares pytest's, tox's and coverage.py's own files. Some of them steer by being there.
pub(super) fn runner_settings(pair: &Pair<'_>, findings: &mut Findings) {
    let outranks =
        matches!(pair.name, "pytest.ini" | ".pytest.ini" | "pytest.toml" | ".pytest.toml");
    if outranks {
        presence(pair, findings);
    }
    let parser = if pair.name.ends_with(".toml") { tree::toml } else { ini::parse };
    let Some((before, after)) = parse_both(pair, parser, findings) else { return };
    match pair.name {
        ".coveragerc" => walk(
            &before,
            &after,
            // In its own file a section may also carry the prefix it needs elsewhere.
            &|path| match path {
                [section, inner @ ..] if !inner.is_empty() => {
                    let section = section.strip_prefix("coverage:").unwrap_or(section);
                    let mut whole = vec![section];
                    whole.extend_from_slice(inner);
                    pytest::coverage(&whole)
                }
                _ => Rule::Into,
            },
            findings,
        ),
        "tox.toml" => walk(&before, &after, &|_| Rule::Into, findings),
        _ => {
            walk(&before, &after, &ini_rule, findings);
            sections(&before, &after, findings);
        }
    }
}

/// Compares what metadata of a package names; only what runners load by it decides a test.
pub(super) fn entry_points(pair: &Pair<'_>, findings: &mut Findings) {
    let Some((before, after)) = parse_both(pair, ini::parse, findings) else { return };
    let rule = |path: &[&str]| match path {
        [] | ["pytest11" | "hypothesis" | "coverage", ..] => Rule::Into,
        _ => Rule::Notes,
    };
    walk(&before, &after, &rule, findings);
}

/// A pytest section that came outranks other files even if it is empty.
fn sections(before: &Value, after: &Value, findings: &mut Findings) {
    for section in ["pytest", "tool:pytest"] {
        let empty = after.get(section) == Some(&tree::empty());
        if empty && before.get(section).is_none() {
            findings.add(Weight::Breach, section, None, Some("empty"));
        }
    }
}

fn ini_rule(path: &[&str]) -> Rule {
    match path {
        ["pytest" | "tool:pytest"] => Rule::Into,
        ["pytest" | "tool:pytest", inner @ ..] => pytest::option(inner),
        [section] if section.starts_with("coverage:") => Rule::Into,
        [section, inner @ ..] if section.starts_with("coverage:") => {
            let mut whole = vec![&section["coverage:".len()..]];
            whole.extend_from_slice(inner);
            pytest::coverage(&whole)
        }
        // A new environment is no one's; what every environment inherits is.
        [section] if section.starts_with("testenv:") => Rule::Adds,
        [section] if section.starts_with("tox") || *section == "testenv" => Rule::Into,
        ["tox", "envlist" | "env_list"] => Rule::Grows,
        ["testenv", "deps"] => Rule::Grows,
        [section, ..] if section.starts_with("tox") || *section == "testenv" => Rule::Into,
        ["aliases" | "unittest" | "nosetests" | "options.entry_points"] => Rule::Into,
        ["options.entry_points", "pytest11"] => Rule::Steers,
        ["aliases" | "unittest" | "nosetests", ..] => Rule::Steers,
        _ => Rule::Skip,
    }
}
