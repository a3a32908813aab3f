//! A file of a CI platform as a tree that can be asked, and which kind of file it is.

use super::expression::{Syntax, expressions};
use crate::config::diagnostic::{At, Medium, Sources, quote};
use crate::config::tree::{self, MapKey, Node, Value, duplicate};
use crate::error::{Error, Kind as ErrorKind, Result};
use std::collections::HashMap;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A workflow of GitHub.
    GitHub,
    /// An action that is made of steps.
    Composite,
    /// The CI file of GitLab.
    GitLab,
    /// A loop file.
    LoopFile,
}

/// A file that was read.
pub(crate) struct Document {
    /// The file alone.
    pub(crate) sources: Sources,
    /// Its name in messages.
    pub(crate) name: String,
    /// Its tree.
    pub(crate) root: Node,
    /// What it is.
    pub(crate) kind: Kind,
    /// Where the keys at the top stand among the root's entries.
    index: HashMap<String, usize>,
}

/// A scalar and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    /// Its text, numbers and truth values as the platform writes them.
    pub(crate) text: String,
    /// Where it starts.
    pub(crate) at: At,
}

impl Document {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// `config_invalid` for what is no YAML, no map, or has a key twice where the platform forbids it.
    pub(crate) fn read(name: &str, text: &str) -> Result<Self> {
        let mut sources = Sources::default();
        let source = sources.add(name, Medium::File, text);
        // A component's `spec` is a document of its own; blank lines in its place keep the numbers.
        let root = match header_lines(text) {
            Some(lines) => {
                let rest: Vec<&str> = text.split('\n').skip(lines).collect();
                let bare = format!("{}{}", "\n".repeat(lines), rest.join("\n"));
                let mut bare_sources = Sources::default();
                bare_sources.add(name, Medium::File, &bare);
                tree::parse_foreign(&bare_sources, source)?
            }
            None => tree::parse_foreign(&sources, source)?,
        };
        let start = At { source, line: 1, column: 1, len: 1 };
        let root =
            root.ok_or_else(|| sources.error(start, "the file is empty, so no loop is in it"))?;
        if !matches!(root.value, Value::Map(_)) {
            let sentence =
                format!("a workflow file is a map of keys, here is {}", root.value.name());
            return Err(sources.error(root.at, &sentence));
        }
        let kind = kind_of(&root);
        let mut index = HashMap::new();
        for (place, (key, _)) in entries(&root).iter().enumerate() {
            index.entry(key.text.clone()).or_insert(place);
        }
        let document = Self { sources, name: name.to_owned(), root, kind, index };
        if matches!(kind, Kind::GitHub | Kind::Composite) {
            document.refuse_duplicates(&document.root)?;
        }
        Ok(document)
    }

    /// Returns the value of a key at the top.
    pub(crate) fn top(&self, key: &str) -> Option<&Node> {
        entries(&self.root).get(*self.index.get(key)?).map(|(_, value)| value)
    }

    /// Makes an error at a place.
    pub(crate) fn error(&self, at: At, sentence: &str) -> Error {
        self.sources.error(at, sentence)
    }

    /// Makes an error about the file as a whole.
    pub(crate) fn about(&self, sentence: &str) -> Error {
        let name = crate::config::diagnostic::printable(&self.name);
        Error::new(ErrorKind::ConfigInvalid, format!("{name}: {sentence}"))
    }

    /// Returns how texts of this file hold expressions.
    pub(crate) fn syntax(&self) -> Syntax {
        match self.kind {
            Kind::GitHub | Kind::Composite => Syntax::Braces,
            Kind::GitLab | Kind::LoopFile => Syntax::Brackets,
        }
    }

    /// Reads a node as a scalar.
    ///
    /// # Errors
    /// `config_invalid` for a list or a map.
    pub(crate) fn scalar(&self, key: &str, node: &Node) -> Result<Scalar> {
        scalar(node).ok_or_else(|| {
            let sentence = format!("{} must be a text, here is {}", quote(key), node.value.name());
            let error = self.error(node.at, &sentence);
            match key.eq_ignore_ascii_case("loop") {
                true => error.hint("write `loop: |` and the loop below it, indented"),
                false => error,
            }
        })
    }

    /// Returns every expression of the file's texts.
    pub(crate) fn all_expressions(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut pending = vec![&self.root];
        while let Some(node) = pending.pop() {
            match &node.value {
                Value::Text(text) => {
                    all.extend(expressions(text, self.syntax()));
                    if self.kind == Kind::GitLab {
                        all.extend(expressions(text, Syntax::Dollars));
                    }
                }
                Value::List(items) => pending.extend(items),
                Value::Map(entries) => pending.extend(entries.iter().map(|(_, value)| value)),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        all
    }

    fn refuse_duplicates(&self, node: &Node) -> Result<()> {
        let mut pending = vec![node];
        while let Some(node) = pending.pop() {
            match &node.value {
                Value::Map(entries) => {
                    let mut seen: HashMap<&str, At> = HashMap::new();
                    for (key, value) in entries {
                        if let Some(first) = seen.insert(&key.text, key.at) {
                            return Err(duplicate(&self.sources, key, &key.text, first));
                        }
                        pending.push(value);
                    }
                }
                Value::List(items) => pending.extend(items),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the entries of a map; anything else has none.
pub(crate) fn entries(node: &Node) -> &[(MapKey, Node)] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

/// Returns the items of a list; anything else has none.
pub(crate) fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => &[],
    }
}

/// Returns the value of a key; what is written out stands before what is merged in.
pub(crate) fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    entries(node).iter().find(|(found, _)| found.text == key).map(|(_, value)| value)
}

/// Returns the value of an action's input: its name is read without case.
pub(crate) fn input<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let found = entries(node).iter().find(|(found, _)| found.text.eq_ignore_ascii_case(key));
    found.map(|(_, value)| value)
}

/// Returns a scalar's text as the platforms hand it on.
pub(crate) fn scalar(node: &Node) -> Option<Scalar> {
    let text = match &node.value {
        Value::Null => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::Number(written) => number(written),
        Value::Text(text) => text.clone(),
        Value::List(_) | Value::Map(_) => return None,
    };
    Some(Scalar { text, at: node.at })
}

/// Returns the text of a key that is a scalar and not empty.
pub(crate) fn word(node: &Node, key: &str) -> Option<String> {
    get(node, key).and_then(scalar).map(|scalar| scalar.text).filter(|text| !text.is_empty())
}

/// Platforms hand on a number, not what was written: `3.10` arrives as `3.1`.
fn number(written: &str) -> String {
    match written.parse::<f64>() {
        Ok(number) if written.contains('.') => number.to_string(),
        _ => written.to_owned(),
    }
}

/// Returns how many lines a leading document `spec:` takes, with the line that ends it.
fn header_lines(text: &str) -> Option<usize> {
    let is_end = |line: &str| line.trim_end() == "---" || line.starts_with("--- ");
    let mut lines = text
        .split('\n')
        .enumerate()
        .skip_while(|(_, line)| line.trim().is_empty() || line.starts_with('#') || is_end(line));
    lines.next().filter(|(_, line)| line.starts_with("spec:"))?;
    lines.find(|(_, line)| is_end(line)).map(|(index, _)| index + 1)
}

fn kind_of(root: &Node) -> Kind {
    let has = |key: &str| get(root, key).is_some();
    let plain = |key: &str| get(root, key).is_some_and(|node| !matches!(node.value, Value::Map(_)));
    if get(root, "jobs").is_some_and(|jobs| matches!(jobs.value, Value::Map(_))) {
        return Kind::GitHub;
    }
    if get(root, "runs").is_some_and(|runs| get(runs, "using").is_some()) {
        return Kind::Composite;
    }
    let job = |key: &str| get(root, key).is_some_and(|node| get(node, "script").is_some());
    let both = has("exec") && has("check") && !job("exec") && !job("check");
    match plain("version") || plain("model") || both {
        true => Kind::LoopFile,
        false => Kind::GitLab,
    }
}
