//! Kinds that hold further keys: variables, amended lists, records, commands of later releases.
//!
//! Scalars and lists are the duty of `kind`.

use super::diagnostic::{nearest, quote};
use super::keys::{COMMAND_FIELDS, Field, Item, Kind};
use super::kind::{Reader, Val, allowed, is_variable};
use super::tree::{MapKey, Node, Value, duplicate};
use crate::error::Result;
use std::collections::BTreeMap;

impl Reader<'_> {
    /// Returns the entries of a map, each key once.
    fn entries<'n>(self, node: &'n Node, wanted: &str) -> Result<&'n [(MapKey, Node)]> {
        let Value::Map(entries) = &node.value else { return Err(self.wrong(node, wanted)) };
        for (index, (key, _)) in entries.iter().enumerate() {
            let twin = entries.iter().take(index).find(|(other, _)| other.text == key.text);
            if let Some((first, _)) = twin {
                let path = format!("{}.{}", self.path, key.text);
                return Err(duplicate(self.sources, key, &path, first.at));
            }
        }
        Ok(entries)
    }

    /// Reads a map of variables; numbers and truth values stand as they are written.
    pub(crate) fn env(self, node: &Node) -> Result<Val> {
        let mut env = BTreeMap::new();
        for (key, value) in self.entries(node, "a map of variables")? {
            if !is_variable(&key.text) {
                let sentence = format!("{} cannot name a variable", quote(&key.text));
                return Err(self
                    .error(key.at, &sentence)
                    .hint("a variable's name is letters, digits and `_`"));
            }
            if key.text.starts_with("LOOPEXEC_") {
                let sentence =
                    format!("{} belongs to loopexec and cannot be set", quote(&key.text));
                return Err(self.error(key.at, &sentence));
            }
            let text = match &value.value {
                Value::Text(text) | Value::Number(text) => text.clone(),
                Value::Bool(value) => value.to_string(),
                _ => {
                    let path = format!("{}.{}", self.path, key.text);
                    return Err(Reader { path: &path, ..self }.wrong(value, "a text"));
                }
            };
            if text.contains('\0') {
                let sentence = format!("`{}.{}` holds a NUL character", self.path, key.text);
                return Err(self.error(value.at, &sentence));
            }
            env.insert(key.text.clone(), text);
        }
        Ok(Val::Env(env))
    }

    /// Reads a list that replaces, or `{add, remove}`.
    pub(crate) fn amend(self, node: &Node) -> Result<Val> {
        if matches!(node.value, Value::List(_)) {
            return self.texts(Item::Gitignore, 0, node).map(Val::Texts);
        }
        let (mut add, mut remove) = (Vec::new(), Vec::new());
        for (key, value) in self.entries(node, "a list, or a map with `add` and `remove`")? {
            let path = format!("{}.{}", self.path, key.text);
            let reader = Reader { path: &path, ..self };
            match key.text.as_str() {
                "add" => add = reader.texts(Item::Gitignore, 0, value)?,
                "remove" => remove = reader.texts(Item::Gitignore, 0, value)?,
                _ => return Err(self.unknown(key, &["add", "remove"])),
            }
        }
        Ok(Val::Amend { add, remove })
    }

    /// Reads a map with its own keys.
    pub(crate) fn record(self, fields: &'static [Field], node: &Node) -> Result<Val> {
        let mut values = Vec::new();
        for (key, value) in self.entries(node, "a map")? {
            let Some(field) = fields.iter().find(|field| field.name == key.text) else {
                let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                return Err(self.unknown(key, &names));
            };
            let path = format!("{}.{}", self.path, key.text);
            values.push((field.name, Reader { path: &path, ..self }.read(&field.kind, value)?));
        }
        Ok(Val::Fields(values))
    }

    /// Validates a map from any name to one kind.
    pub(crate) fn map_of(self, kind: &Kind, node: &Node) -> Result<Val> {
        let mut ints = BTreeMap::new();
        for (key, value) in self.entries(node, "a map")? {
            let path = format!("{}.{}", self.path, key.text);
            if let Val::Int(number) = (Reader { path: &path, ..self }).read(kind, value)? {
                ints.insert(key.text.clone(), number);
            }
        }
        Ok(if matches!(kind, Kind::Int(..)) { Val::Ints(ints) } else { Val::Validated })
    }

    /// Validates a command in any of its forms.
    pub(crate) fn command(self, node: &Node) -> Result<Val> {
        if !matches!(node.value, Value::Map(_)) {
            return self.read(&Kind::Run, node);
        }
        self.record(COMMAND_FIELDS, node)?;
        let entries = self.entries(node, "a command")?;
        if !entries.iter().any(|(key, _)| key.text == "run") {
            return Err(self.error(node.at, &format!("`{}` says no `run`", self.path)));
        }
        Ok(Val::Validated)
    }

    /// Makes the error of a key that does not belong under this one.
    pub(crate) fn unknown(self, key: &MapKey, names: &[&str]) -> crate::error::Error {
        let dot = if self.path.is_empty() { "" } else { "." };
        let full = format!("{}{dot}{}", self.path, key.text);
        let error = self.error(key.at, &format!("there is no key {}", quote(&full)));
        match nearest(&key.text, names.iter().copied()) {
            Some(name) => error.hint(format!("did you mean `{}{dot}{name}`?", self.path)),
            None if self.path.is_empty() => {
                error.hint(format!("the keys are: {}", names.join(", ")))
            }
            None => error.hint(format!("under `{}` are: {}", self.path, names.join(", "))),
        }
    }

    /// Reads a node as the first of several kinds that fits it.
    pub(crate) fn either(self, kinds: &'static [Kind], node: &Node) -> Result<Val> {
        let mut said = None;
        for kind in kinds {
            match self.read(kind, node) {
                Ok(value) => return Ok(value),
                Err(error) if fits(kind, node) => said = Some(error),
                Err(_) => {}
            }
        }
        let wanted: Vec<String> = kinds.iter().map(describe).collect();
        Err(said.unwrap_or_else(|| self.wrong(node, &wanted.join(" or "))))
    }
}

/// Says in a few words what a kind is.
fn describe(kind: &Kind) -> String {
    match kind {
        Kind::Word(choices) => allowed(choices),
        Kind::Texts(..) => "a list of texts".to_owned(),
        Kind::Int(least, most) => format!("a whole number from {least} to {most}"),
        Kind::Command => "a command".to_owned(),
        Kind::Record(_) => "a map".to_owned(),
        _ => "a value".to_owned(),
    }
}

/// Says whether a kind is the one that was meant, by the shape of the node.
fn fits(kind: &Kind, node: &Node) -> bool {
    matches!(
        (kind, &node.value),
        (Kind::Word(_), Value::Text(_))
            | (Kind::Texts(..), Value::List(_))
            | (Kind::Int(..), Value::Number(_))
            | (Kind::Record(_) | Kind::Command, Value::Map(_))
    )
}
