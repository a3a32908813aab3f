//! A tree read into settings: one typed value for each dotted key, with the place it was written.
//!
//! Layers (file, environment, flags) are read apart and laid over each other by `layers`; what keys mean together is
//! the duty of `build`.

use super::diagnostic::{At, Sources, nearest, quote};
use super::keys::{self, Kind, Since};
use super::kind::{Reader, Val, not_yet};
use super::tree::{Node, Value, duplicate};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    /// The value.
    pub(crate) val: Val,
    /// Where it was written.
    pub(crate) at: At,
}

/// Values by dotted key.
pub(crate) type Settings = BTreeMap<String, Setting>;

/// Reads the root of a loop file.
pub(crate) fn read_root(sources: &Sources, root: &Node) -> Result<Settings> {
    let mut settings = Settings::new();
    if !matches!(root.value, Value::Map(_)) {
        let sentence = format!("a loop file is a map of keys, here is {}", root.value.name());
        return Err(sources.error(root.at, &sentence).hint("start it with `version: 1`"));
    }
    read_at(sources, root, "", root.at, &mut settings)?;
    Ok(settings)
}

/// Reads a node that stands at a dotted key, which is one of the table or a group; `named` is where the key stands.
pub(crate) fn read_at(
    sources: &Sources,
    node: &Node,
    path: &str,
    named: At,
    out: &mut Settings,
) -> Result<()> {
    let reader = Reader { sources, path };
    if let Some(key) = keys::find(path) {
        let val = reader.read(&key.kind, node)?;
        match key.since {
            Since::Now => {}
            Since::Later(feature) => return Err(reader.error(named, &not_yet(path, feature))),
            Since::Unless(fine, feature) => {
                if !fine.contains(&shown(node).as_str()) {
                    return Err(reader.error(named, &not_yet(path, feature)));
                }
            }
        }
        out.insert(path.to_owned(), Setting { val, at: node.at });
        return Ok(());
    }
    if path == "model" && matches!(node.value, Value::Text(_)) {
        return read_model(reader, node, out);
    }
    if keys::is_command(path) && !matches!(node.value, Value::Map(_)) {
        let val = reader.read(&Kind::Run, node)?;
        out.insert(format!("{path}.run"), Setting { val, at: node.at });
        return Ok(());
    }
    let entries = match &node.value {
        Value::Map(entries) if entries.is_empty() && keys::is_command(path) => {
            return Err(reader.error(node.at, &format!("`{path}` says no `run`")));
        }
        Value::Map(entries) => entries,
        Value::Null if path != "model" => return Ok(()),
        _ => {
            return Err(reader.wrong(
                node,
                if path == "model" { "`none`, `provider/id` or a map" } else { "a map" },
            ));
        }
    };
    for (index, (key, value)) in entries.iter().enumerate() {
        let full = if path.is_empty() { key.text.clone() } else { format!("{path}.{}", key.text) };
        if let Some((first, _)) =
            entries.iter().take(index).find(|(other, _)| other.text == key.text)
        {
            return Err(duplicate(sources, key, &full, first.at));
        }
        // A dotted key as one word (`limits.time: 5m`) would name a row of the table by accident.
        if key.text.contains('.') || (keys::find(&full).is_none() && !keys::is_group(&full)) {
            return Err(unknown(sources, path, key.at, &key.text));
        }
        if matches!(value.value, Value::Null) {
            // What is not there has no place of its own.
            let nothing = Node { value: Value::Null, at: key.at };
            read_at(sources, &nothing, &full, key.at, out)?;
        } else {
            read_at(sources, value, &full, key.at, out)?;
        }
    }
    Ok(())
}

/// Reads the short form of a model: `none` or `provider/id`.
fn read_model(reader: Reader<'_>, node: &Node, out: &mut Settings) -> Result<()> {
    let Value::Text(text) = &node.value else { return Err(reader.wrong(node, "a text")) };
    if text == "none" {
        out.insert("model".to_owned(), Setting { val: Val::Word("none"), at: node.at });
        return Ok(());
    }
    let Some((provider, id)) = text.split_once('/') else {
        return Err(reader
            .bad(node, text, "it is `none`, `provider/id` or a map")
            .hint("for instance `model: anthropic/the-model`"));
    };
    for (name, part, kind) in [("provider", provider, Kind::Provider), ("id", id, Kind::ModelId)] {
        let part = Node { value: Value::Text(part.to_owned()), at: node.at };
        let path = format!("model.{name}");
        let val = Reader { path: &path, ..reader }.read(&kind, &part)?;
        out.insert(path, Setting { val, at: node.at });
    }
    Ok(())
}

/// Makes the error of a key that does not exist, with the nearest one that does.
pub(crate) fn unknown(sources: &Sources, group: &str, at: At, name: &str) -> Error {
    let full = if group.is_empty() { name.to_owned() } else { format!("{group}.{name}") };
    let error = sources.error(at, &format!("there is no key {}", quote(&full)));
    if name.contains('.') && (keys::find(&full).is_some() || keys::is_group(&full)) {
        return error.hint("a dot is not part of a key: write the key below its group");
    }
    let siblings = keys::children(group);
    let dot = if group.is_empty() { "" } else { "." };
    if let Some(near) = nearest(name, siblings.iter().copied()) {
        return error.hint(format!("did you mean `{group}{dot}{near}`?"));
    }
    let all = keys::all();
    if let Some(elsewhere) = all.iter().find(|key| key.path.rsplit('.').next() == Some(name)) {
        return error.hint(format!("did you mean `{}`?", elsewhere.path));
    }
    if let Some(near) = nearest(&full, all.iter().map(|key| key.path)) {
        return error.hint(format!("did you mean `{near}`?"));
    }
    if group.is_empty() {
        error.hint(format!("the keys are: {}", siblings.join(", ")))
    } else {
        error.hint(format!("under `{group}` are: {}", siblings.join(", ")))
    }
}

/// Returns a scalar or an empty list as it is written.
fn shown(node: &Node) -> String {
    match &node.value {
        Value::Null => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::Number(text) | Value::Text(text) => text.clone(),
        Value::List(items) if items.is_empty() => "[]".to_owned(),
        Value::List(_) | Value::Map(_) => "…".to_owned(),
    }
}
