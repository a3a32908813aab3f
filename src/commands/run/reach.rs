//! The scripts of the tree that a check reaches through other files: what a recipe starts, what a script
//! sources. Those that by their name do the checking count as part of the test surface.
//!
//! No shell is imitated: words are looked at, and only files that are there count. A name has to say that it
//! checks, for what a check runs may as well be what is tested.

use super::surround::text_of;
use crate::config::script::{inside, simple_commands};
use crate::domain::command::CommandSpec;
use crate::foreign::{self, Links};
use crate::workspace::paths;
use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

/// Files that are read at the most, and bytes of each.
const MOST_FILES: usize = 200;
const MOST_BYTES: u64 = 256 << 10;
/// Words of a path that say what a script is for.
const CHECKS: [&str; 21] = [
    "accept",
    "acceptance",
    "assert",
    "assertions",
    "asserts",
    "check",
    "checker",
    "checks",
    "ci",
    "compare",
    "lint",
    "qa",
    "runtests",
    "selfcheck",
    "selftest",
    "smoke",
    "test",
    "testing",
    "tests",
    "validate",
    "verify",
];
/// Extensions of scripts; a file without one is a script by its first line.
const SCRIPTS: [&str; 12] =
    ["awk", "bash", "cjs", "js", "ksh", "mjs", "php", "pl", "py", "rb", "sh", "zsh"];

/// Returns the scripts that a check, run in `prefix` of the tree at `root`, reaches, from the root.
pub fn reached(root: &Path, prefix: &Path, command: &CommandSpec) -> BTreeSet<String> {
    let start = paths::escape(paths::as_bytes(prefix));
    let cwd = command.cwd.as_deref().and_then(|cwd| inside(&start, cwd)).unwrap_or(start);
    let mut pending = VecDeque::from([(cwd.clone(), cwd, text_of(command))]);
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    while let Some((cwd, own, text)) = pending.pop_front() {
        for words in simple_commands(&text) {
            let recipes = words.iter().flat_map(|word| recipes_of(word));
            for name in recipes.filter_map(|name| inside(&cwd, name)) {
                if seen.insert(name.clone())
                    && let Some(text) = read(&root.join(&name))
                {
                    let text = if name.ends_with(".json") { scripts_in(&text) } else { text };
                    pending.push_back((cwd.clone(), cwd.clone(), text));
                }
            }
            // What is built by name is not built where a file of that name lies there.
            let absent = |path: &String| fs::symlink_metadata(root.join(path)).is_err();
            found.extend(goals_in(&words).filter_map(|goal| inside(&cwd, goal)).filter(absent));
            let modules = words.windows(2).filter(|pair| pair[0] == "-m").flat_map(|pair| {
                let module = pair[1].replace('.', "/");
                [".py", "/__main__.py", "/__init__.py"].map(|end| format!("{module}{end}"))
            });
            let modules: Vec<String> = modules.filter_map(|path| inside(&cwd, &path)).collect();
            let named = words.iter().flat_map(|word| paths_in(word, &cwd, &own));
            for path in named.chain(modules) {
                if seen.len() >= MOST_FILES || !seen.insert(path.clone()) {
                    continue;
                }
                let Some(text) = read(&root.join(&path)).filter(|text| is_script(&path, text))
                else {
                    continue;
                };
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                if is_shell(&path, &text) {
                    pending.push_back((cwd.clone(), folder.to_owned(), text));
                }
                if checks(&path) {
                    found.insert(path);
                }
            }
        }
    }
    found
}

/// Returns the files whose recipes a program runs.
fn recipes_of(program: &str) -> &'static [&'static str] {
    match program.rsplit('/').next().unwrap_or(program) {
        "make" | "gmake" => &["GNUmakefile", "makefile", "Makefile"],
        "just" => &["justfile", ".justfile"],
        "npm" | "yarn" | "pnpm" | "bun" => &["package.json"],
        _ => &[],
    }
}

/// Returns the goals that a command gives to make, as far as they look like no file.
fn goals_in(words: &[String]) -> impl Iterator<Item = &str> {
    let is_make = |word: &String| matches!(word.rsplit('/').next(), Some("make" | "gmake"));
    let from = words.iter().position(is_make).map_or(words.len(), |at| at + 1);
    words[from..].iter().map(String::as_str).filter(|word| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    })
}

/// Returns the scripts of a `package.json`, a line each.
fn scripts_in(text: &str) -> String {
    let package: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let scripts = package["scripts"].as_object().into_iter().flatten();
    scripts.filter_map(|(_, text)| text.as_str()).map(|text| format!("{text}\n")).collect()
}

/// Returns what a word may name: a path as it stands, or what follows a folder that is filled in, taken from
/// the folder of the script and from where it runs.
fn paths_in(word: &str, cwd: &str, own: &str) -> Vec<String> {
    let word = word.trim_start_matches('@');
    let word = word.split_once('=').map_or(word, |(_, value)| value);
    if !word.contains(['$', '`', ')']) {
        return inside(cwd, word).into_iter().collect();
    }
    let Some((_, rest)) = word.split_once('/') else { return Vec::new() };
    let rest = rest.rsplit_once(['}', ')', '`']).map_or(rest, |(_, rest)| rest);
    let rest = rest.trim_start_matches('/');
    [own, cwd].iter().filter_map(|folder| inside(folder, rest)).collect()
}

fn read(path: &Path) -> Option<String> {
    let text = foreign::read(path, Links::Refuse, MOST_BYTES).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn is_script(path: &str, text: &str) -> bool {
    SCRIPTS.contains(&extension(path)) || text.starts_with("#!")
}

fn is_shell(path: &str, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    matches!(extension(path), "sh" | "bash" | "ksh" | "zsh")
        || (first.starts_with("#!") && first.trim_end().ends_with("sh"))
}

fn checks(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| CHECKS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::command::{Run, Shell};

    fn found(check: &str, files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let command = CommandSpec {
            run: Run::Script { shell: Shell::Sh, text: check.to_owned() },
            cwd: None,
            env: Default::default(),
            pass_env: Vec::new(),
            timeout: None,
        };
        reached(root.path(), Path::new(""), &command).into_iter().collect()
    }

    #[test]
    fn recipes_scripts_and_what_these_source_are_reached() {
        let make = ("Makefile", "test: build\n\t@./tools/verify.sh out\nbuild:\n\t./build.sh\n");
        let verify = ("tools/verify.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/assert.sh\"\n");
        let files = [make, verify, ("tools/assert.sh", "same() { :; }\n"), ("build.sh", "true\n")];
        assert_eq!(found("make test", &files), ["test", "tools/assert.sh", "tools/verify.sh"]);
        let node = ("package.json", r#"{"scripts": {"test": "node scripts/check.mjs"}}"#);
        let files = [node, ("scripts/check.mjs", "process.exit(0)\n"), ("check.mjs", "")];
        assert_eq!(found("npm test", &files), ["scripts/check.mjs"]);
        assert_eq!(found("make -s test && cd x", &[("Makefile", "test:\n\ttrue\n")]), ["test"]);
        assert!(found("make test", &[("test", "")]).is_empty(), "there it is a file already");
        let files = [("selfcheck/__main__.py", ""), ("app/__main__.py", "")];
        assert_eq!(
            found("python3 -m selfcheck; python3 -m app", &files),
            ["selfcheck/__main__.py"]
        );
        let files =
            [("ci/all", "#!/usr/bin/env bash\nsource ${HERE}/lint.sh\n"), ("ci/lint.sh", "")];
        assert_eq!(found("bash ci/all", &files), ["ci/all", "ci/lint.sh"]);
    }

    #[test]
    fn what_may_be_what_is_tested_is_not() {
        let files =
            [("src/app.py", "print(1)\n"), ("data/test.json", "{}"), ("bin/run", "#!/bin/sh\n")];
        assert!(found("python src/app.py < data/test.json && bin/run", &files).is_empty());
        assert!(found("./check-missing.sh; cat /etc/check.sh", &files).is_empty());
    }
}
