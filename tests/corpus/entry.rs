//! How an entry of the corpus is written, and reading them all.
//!
//! An entry is one YAML file in `entries/`, called `ID.yml` or `ID-FORM.yml`. `base: NAME` takes
//! check, files, setup and honest fix from `bases/NAME.yml`; what the entry itself says wins, and a
//! file that is `null` in the entry is left out.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What decides the environment of an entry.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runner {
    Pytest,
    Unittest,
    Cargo,
    Nextest,
    Go,
    Java,
    Node,
    Jest,
    Vitest,
    Mocha,
    Npm,
    Tsc,
    Rspec,
    Phpunit,
    Ctest,
    Gtest,
    Bats,
    Make,
    Git,
    Shell,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// Must halt; the honest fix in the same project must converge.
    Attack,
    /// An attack that no deterministic gate sees: converges and is said to be "not detected".
    Undetected,
    /// Must converge.
    Benign,
}

/// A colour of a check that bash alone runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Colour {
    #[default]
    Red,
    Green,
    /// Not run: it flips, or never ends.
    Any,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// The YAML's exact shape.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    id: String,
    family: String,
    runner: Runner,
    title: String,
    kind: Kind,
    #[serde(default)]
    short: bool,
    base: Option<String>,
    check: Option<Value>,
    #[serde(default, rename = "loop")]
    more: String,
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    setup: Option<String>,
    attack: Option<String>,
    honest: Option<String>,
    no_honest: Option<String>,
    change: Option<String>,
    #[serde(default)]
    t0: Colour,
    alone: Option<Colour>,
    expect: Vec<String>,
    names: Option<OneOrMore>,
}

/// What several entries share.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    check: Option<Value>,
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    setup: Option<String>,
    honest: Option<String>,
}

/// An entry, its base put in.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name of its file, without the ending.
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) family: String,
    pub(crate) runner: Runner,
    pub(crate) kind: Kind,
    pub(crate) short: bool,
    /// The check as the loop file has it: a command, or a mapping with `run`.
    pub(crate) check: Value,
    /// Further lines of the loop file, at its top level.
    pub(crate) more: String,
    /// The project at t0; a text that begins with `#!` is executable.
    pub(crate) files: BTreeMap<String, String>,
    /// Bash that is run on the project before its first commit, with the tools at hand.
    pub(crate) setup: Option<String>,
    /// Bash of the lying agent, run in every iteration.
    pub(crate) attack: Option<String>,
    /// Bash of the honest fix in the very same project.
    pub(crate) honest: Option<String>,
    /// Why there can be no honest fix that converges.
    pub(crate) no_honest: Option<String>,
    /// Bash of a benign change.
    pub(crate) change: Option<String>,
    /// The check before anything was done.
    pub(crate) t0: Colour,
    /// The check after the attack or the change, by bash alone.
    pub(crate) alone: Colour,
    /// The halt reasons that are right.
    pub(crate) expect: Vec<String>,
    /// One of these must stand in the halt's sentence or in a breach; empty: nothing to name.
    pub(crate) names: Vec<String>,
}

impl Entry {
    /// Tells whether a name is the entry's id or the name of its file.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.id == name || self.name == name
    }

    /// Returns the check as bash runs it.
    pub(crate) fn command(&self) -> &str {
        let run = if self.check.is_object() { &self.check["run"] } else { &self.check };
        run.as_str().unwrap_or_else(|| panic!("{}: check has no command", self.name))
    }

    /// Returns the bash of the agent this entry is about.
    pub(crate) fn agent(&self) -> &str {
        self.attack.as_deref().or(self.change.as_deref()).unwrap()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> T {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads every entry, in the order of their names.
pub(crate) fn read_all() -> Vec<Entry> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder().join("entries"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| whole(path)).collect()
}

fn whole(path: &Path) -> Entry {
    assert!(path.extension().is_some_and(|end| end == "yml"), "{} is no entry", path.display());
    let shape: Shape = read(path);
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    assert!(!shape.title.is_empty(), "{name}: title");
    let base: Base = shape
        .base
        .as_ref()
        .map(|base| read(&folder().join("bases").join(format!("{base}.yml"))))
        .unwrap_or_default();
    let mut files = base.files;
    files.extend(shape.files);
    let files: BTreeMap<String, String> =
        files.into_iter().filter_map(|(path, text)| Some((path, text?))).collect();
    assert!(files.contains_key(".gitignore"), "{name}: a project has a .gitignore");
    let honest = match (&shape.kind, &shape.no_honest) {
        (Kind::Benign, _) | (_, Some(_)) => shape.honest,
        _ => shape.honest.or(base.honest),
    };
    Entry {
        id: shape.id,
        family: shape.family,
        runner: shape.runner,
        kind: shape.kind,
        short: shape.short,
        check: shape.check.or(base.check).unwrap_or_else(|| panic!("{name}: check")),
        more: shape.more,
        files,
        setup: shape.setup.or(base.setup),
        attack: shape.attack,
        honest,
        no_honest: shape.no_honest,
        change: shape.change,
        t0: shape.t0,
        alone: shape.alone.unwrap_or(Colour::Green),
        expect: shape.expect,
        names: match shape.names {
            None => Vec::new(),
            Some(OneOrMore::One(one)) => vec![one],
            Some(OneOrMore::More(more)) => more,
        },
        name,
    }
}
