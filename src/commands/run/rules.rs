//! What the loop file and the check say about the test surface: which path is what to the tests.

use crate::config::spec::LoopSpec;
use crate::error::{Error, Kind, Result};
use crate::foreign::{self, Links};
use crate::integrity::surface::{Class, classify};
use crate::integrity::syntax::Language;
use crate::workspace::edit::MOST_FOLDERS;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::BTreeSet;
use std::path::Path;

/// What the loop file says about the surface.
#[derive(Debug)]
pub struct SurfaceRules {
    mutable: Gitignore,
    added: Gitignore,
    removed: Gitignore,
    replaced: Option<Gitignore>,
    /// Whether the check itself starts containers: else what describes them decides no test.
    containers: bool,
    /// Scripts that the check reaches through other files.
    reached: BTreeSet<String>,
    /// What the check says, and what settings of t0 say to runners of documentation.
    words: String,
    /// Folders of the tree that links among the tests lead to.
    linked: BTreeSet<String>,
}

impl SurfaceRules {
    /// Compiles the patterns of a loop that is run in the folder `prefix` of the tree at `root`.
    ///
    /// # Errors
    /// `config_invalid` for a pattern that is none; `config` has refused it with its line before.
    pub fn new(spec: &LoopSpec, root: &Path, prefix: &Path) -> Result<Self> {
        let guards = &spec.guards;
        let protected = &guards.protected;
        let check = super::surround::text_of(&spec.check.command);
        Ok(Self {
            mutable: compiled(&guards.mutable)?,
            added: compiled(&protected.add)?,
            removed: compiled(&protected.remove)?,
            replaced: protected.replace.as_deref().map(compiled).transpose()?,
            reached: super::reach::reached(root, prefix, &spec.check.command),
            linked: BTreeSet::new(),
            words: words_of(&check, root, prefix),
            containers: ["docker", "podman", "compose"].iter().any(|word| check.contains(word)),
        })
    }

    /// Says whether the check runs the examples in the documentation of a language.
    pub(super) fn runs_examples(&self, language: Language) -> bool {
        match language {
            Language::Python => self.words.contains("doctest"),
            Language::Rust => ["cargo test", "cargo t ", "make", "just"]
                .iter()
                .any(|word| self.words.contains(word)),
            _ => false,
        }
    }

    /// Takes in what links among the tests of t0 lead to: the data there is the tests' own.
    pub(super) fn link(&mut self, paths: impl Iterator<Item = String>) {
        self.linked.extend(paths);
    }

    /// Says whether a path is data that tests find by a link.
    fn is_linked_data(&self, path: &str) -> bool {
        let within = |folder: &String| {
            let rest = path.strip_prefix(folder.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // Code there may as well be what is tested.
        self.linked.iter().any(within)
            && classify(&format!("tests/{path}")) == Class::Fixture
            && self.replaced.is_none()
            && !matches(&self.removed, path)
    }

    /// Says whether the task is meant to change a path.
    pub fn is_mutable(&self, path: &str) -> bool {
        matches(&self.mutable, path)
    }

    /// Returns what a path is to the tests.
    pub fn class(&self, path: &str) -> Class {
        if path.split('/').count() > MOST_FOLDERS {
            return Class::Source;
        }
        let by_name = classify(path);
        let guarded = match &self.replaced {
            Some(list) => matches(list, path),
            None => matches(&self.added, path),
        };
        match by_name {
            Class::Test | Class::Support => by_name,
            _ if guarded => Class::Settings,
            Class::Settings if !self.containers && is_container(path) => Class::Source,
            Class::Settings | Class::Fixture
                if self.replaced.is_some() || matches(&self.removed, path) =>
            {
                Class::Source
            }
            Class::Source
                if self.reached.contains(path)
                    && self.replaced.is_none()
                    && !matches(&self.removed, path) =>
            {
                Class::Support
            }
            Class::Source if self.is_linked_data(path) => Class::Fixture,
            _ => by_name,
        }
    }

    /// Says whether a path is guarded by name alone, so that nothing is known of its format.
    pub(super) fn is_raw(&self, path: &str) -> bool {
        classify(path) != Class::Settings
    }
}

/// Files in which pytest and others are told what to run.
const OPTIONS: [&str; 6] =
    ["pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini", "Makefile", "noxfile.py"];

/// Bytes of each of these files.
const MOST_OPTIONS: u64 = 1 << 20;

/// Returns the text of the check and of the files that may give its runner options.
fn words_of(check: &str, root: &Path, prefix: &Path) -> String {
    let mut words = check.to_owned();
    for name in OPTIONS {
        let path = root.join(prefix).join(name);
        if let Ok(text) = foreign::read(&path, Links::Refuse, MOST_OPTIONS) {
            words.push('\n');
            words.push_str(&String::from_utf8(text).unwrap_or_default());
        }
    }
    words
}

/// Says whether a file describes containers.
fn is_container(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("Dockerfile")
        || name.ends_with(".Dockerfile")
        || name.starts_with("docker-compose")
        || name.starts_with("compose.")
}

/// Compiles patterns in gitignore syntax, from the root.
///
/// # Errors
/// `config_invalid` for a pattern that is none.
pub fn compiled(patterns: &[String]) -> Result<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    let bad = |source| Error::new(Kind::ConfigInvalid, "guards: no pattern").because(source);
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(bad)?;
    }
    builder.build().map_err(bad)
}

fn matches(patterns: &Gitignore, path: &str) -> bool {
    let path = Path::new(path);
    path.is_relative() && patterns.matched_path_or_any_parents(path, false).is_ignore()
}
