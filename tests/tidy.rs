//! Holds the house in order: layers, headers, sizes, and what must not stand in the tree.

use std::fs;
use std::path::{Path, PathBuf};

/// Which layers a layer may name in its `use crate::…` lines; `None` is everything.
const LAYERS: &[(&str, Option<&[&str]>)] = &[
    ("exit", Some(&[])),
    ("error", Some(&["exit"])),
    ("foreign", Some(&[])),
    ("domain", Some(&["domain", "exit"])),
    ("config", Some(&["config", "domain", "error"])),
    ("engine", Some(&["engine", "domain", "error"])),
    ("process", Some(&["process", "engine::ports", "domain", "error", "foreign"])),
    ("zone", Some(&["zone", "process", "engine::ports", "domain", "error", "foreign"])),
    ("workspace", Some(&["workspace", "process", "engine::ports", "domain", "error", "foreign"])),
    ("integrity", Some(&["integrity", "domain", "error", "foreign"])),
    ("receipt", Some(&["receipt", "engine::ports", "domain", "error"])),
    ("report", Some(&["report", "receipt", "domain", "error", "exit"])),
    ("ci", Some(&["ci", "report", "receipt", "domain", "error"])),
    ("commands", None),
    ("lib", None),
    ("main", None),
];

const IMPURE: &[&str] =
    &["std::fs", "std::process", "std::env", "std::time::Instant", "tokio", "git2"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                files(&path, ending, found);
            }
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(&root().join("src"), ".rs", &mut found);
    found.sort();
    assert!(found.len() > 30, "only {} source files found", found.len());
    found
        .into_iter()
        .map(|path| {
            let name =
                path.strip_prefix(root().join("src")).unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect()
}

/// The part of a file before its unit tests.
fn production(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

#[test]
fn layers_name_only_what_they_may() {
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        let layer = name.split(['/', '.']).next().unwrap();
        let (_, allowed) = LAYERS
            .iter()
            .find(|(known, _)| *known == layer)
            .unwrap_or_else(|| panic!("src/{name} is in no layer of the table"));
        let Some(allowed) = allowed else { continue };
        for (number, line) in production(&text).lines().enumerate() {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for used in line.split("crate::").skip(1) {
                let ok = allowed.iter().any(|path| {
                    used.strip_prefix(path).is_some_and(|rest| {
                        !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                    })
                });
                let test_only = used.starts_with("$") || line.contains("macro_rules");
                if !ok && !test_only {
                    wrong.push(format!("src/{name}:{}: {}", number + 1, line.trim()));
                }
            }
            if layer == "domain" {
                for word in IMPURE {
                    if line.contains(word) {
                        wrong.push(format!("src/{name}:{}: impure: {}", number + 1, line.trim()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "layers broken:\n{}", wrong.join("\n"));
}

#[test]
fn every_file_opens_with_its_duty() {
    let mut all = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz"] {
        if root().join(folder).is_dir() {
            files(&root().join(folder), ".rs", &mut all);
        }
    }
    let bare: Vec<_> =
        all.iter().filter(|path| !fs::read_to_string(path).unwrap().starts_with("//!")).collect();
    assert!(bare.is_empty(), "without a //! header: {bare:?}");
}

#[test]
fn files_are_small() {
    let long: Vec<_> = sources()
        .into_iter()
        .map(|(name, text)| (name, text.lines().count()))
        .filter(|(_, lines)| *lines > 600)
        .collect();
    assert!(long.is_empty(), "over 600 lines: {long:?}");
    let drive = fs::read_to_string(root().join("src/engine/drive.rs")).unwrap();
    assert!(drive.lines().count() <= 110, "engine/drive.rs no longer fits a screen or two");
}

#[test]
fn lints_are_expected_with_a_reason_never_allowed() {
    for (name, text) in sources() {
        assert!(
            !text.contains("#[allow(") && !text.contains("#![allow("),
            "src/{name} allows a lint"
        );
        for place in text.match_indices("#[expect(") {
            let rest: String = text[place.0..].chars().take(400).collect();
            let end = rest.find(")]").unwrap_or(rest.len());
            assert!(rest[..end].contains("reason"), "src/{name}: an expectation without a reason");
        }
    }
}

#[test]
fn exit_numbers_stand_in_one_place() {
    for (name, text) in sources() {
        if name == "exit.rs" {
            continue;
        }
        assert!(
            !text.contains("ExitCode::from(") || name == "commands/outcome.rs",
            "src/{name} writes an exit number"
        );
    }
}

/// Files where the layers that work where commands do may open a path as it is, each with the reason.
const OPENS: &[(&str, &str)] = &[
    ("commands/run/asking.rs", "the run's own patch"),
    ("commands/run/closing.rs", "the run's own patch"),
    ("commands/run/preparing.rs", "the cache's own facts, which no zone shows"),
    ("commands/run/resume.rs", "the system's own"),
    ("integrity/syntax/tree.rs", "the system's own"),
    ("integrity/results/traps.rs", "tests"),
    ("workspace/beneath.rs", "the root of a tree, a folder"),
    ("workspace/copies.rs", "a folder of a copy that nothing has run in"),
    ("workspace/copying.rs", "a folder of a copy that nothing has run in"),
    ("workspace/deliver.rs", "a folder, to make it durable"),
    ("workspace/durable.rs", "the store"),
    ("workspace/history.rs", "a repository that is being made"),
    ("workspace/journal.rs", "the run's own journal"),
    ("workspace/places.rs", "the folder of caches"),
    ("workspace/store.rs", "the store"),
];

#[test]
fn what_commands_may_have_made_is_opened_by_one_function() {
    let mut wrong = Vec::new();
    let mut known = Vec::new();
    for (name, text) in sources() {
        if !["commands/run/", "integrity/", "workspace/"]
            .iter()
            .any(|layer| name.starts_with(layer))
        {
            continue;
        }
        let text = text.split("#[cfg(test)]").next().unwrap();
        for (number, line) in text.lines().enumerate() {
            let reads = ["fs::read(", "fs::read_to_string(", "File::open(", "fs::copy("];
            let writes = ["fs::write(", "File::create("];
            if !reads.iter().chain(&writes).any(|word| line.contains(word)) {
                continue;
            }
            match OPENS.iter().any(|(allowed, _)| *allowed == name) {
                true => known.push(name.clone()),
                false => wrong.push(format!("src/{name}:{}: {}", number + 1, line.trim())),
            }
        }
    }
    assert!(wrong.is_empty(), "use crate::foreign, which waits for no pipe:\n{}", wrong.join("\n"));
    let idle: Vec<_> = OPENS.iter().filter(|(name, _)| !known.iter().any(|k| k == name)).collect();
    assert!(idle.is_empty(), "no longer needed: {idle:?}");
}

/// Where a command is made from a path that is looked up or known: the one resolver, the launcher and what it
/// starts inside of a zone, this program itself.
const STARTERS: &[&str] = &[
    "workspace/programs.rs",
    "process/supervisor.rs",
    "process/spawn.rs",
    "process/container.rs",
    "commands/demo.rs",
];

#[test]
fn programs_of_the_host_are_looked_up_in_one_place() {
    for (name, text) in sources() {
        let text = production(&text);
        assert!(!text.contains("Command::new(\""), "src/{name} starts a program by its bare name");
        assert!(
            !text.contains("Command::new(") || STARTERS.contains(&name.as_str()),
            "src/{name} starts a program that workspace/programs.rs did not look up"
        );
    }
}
