//! The JSON Schema (2020-12) of the loop file, made from the table of keys.
//!
//! Keys of later releases are in it, with a note: editors may know them before loopexec does.

use super::keys::{self, COMMAND_FIELDS, Field, Item, Kind, Since};
use super::table::GROUPS;
use super::tree;
use serde_json::{Map, Value, json};

/// Returns the JSON Schema of the whole loop file.
pub fn schema() -> Value {
    let mut root = group("");
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "loopexec loop file",
        "description": "A loop: exec and check run again and again until the check passes and every guard holds.",
    });
    root["required"] = json!(["version", "model", "exec", "check"]);
    root["$defs"] = definitions();
    if let (Some(schema), Value::Object(root)) = (schema.as_object_mut(), root) {
        schema.extend(root);
    }
    schema
}

/// Returns the schema of a group's map.
fn group(path: &str) -> Value {
    let mut properties = Map::new();
    for name in keys::children(path) {
        let full = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let value = match keys::find(&full) {
            Some(key) => {
                let mut value = of_kind(&key.kind);
                let mut doc = key.doc.to_owned();
                match key.since {
                    Since::Now => {}
                    Since::Later(feature) => {
                        doc.push_str(&format!(
                            " Not available in this release: {feature} comes later."
                        ));
                    }
                    Since::Unless(fine, feature) => doc.push_str(&format!(
                        " In this release only {}: {feature} comes later.",
                        fine.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
                    )),
                }
                value["description"] = json!(doc);
                if let Some(default) = key.default {
                    value["default"] = default_value(default);
                }
                value
            }
            None => named_group(&full),
        };
        properties.insert(name.to_owned(), value);
    }
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// Returns the schema of a group with its short forms.
fn named_group(path: &str) -> Value {
    let doc = GROUPS.iter().find(|(name, _)| *name == path).map_or("", |(_, doc)| *doc);
    let mut map = group(path);
    if keys::is_command(path) {
        if path.contains('.') {
            // No flag or variable completes it.
            map["required"] = json!(["run"]);
        }
        return json!({"description": doc, "anyOf": [of_kind(&Kind::Run), map]});
    }
    if path == "model" {
        let short = json!({"type": "string", "pattern": "^(none|[a-z0-9._-]+/[!-~]+)$"});
        return json!({"description": doc, "anyOf": [short, map]});
    }
    map["description"] = json!(doc);
    map
}

/// Returns a default as JSON: a number, a truth value, a list or a text.
fn default_value(text: &str) -> Value {
    let mut sources = super::diagnostic::Sources::default();
    let source = sources.add("default", super::diagnostic::Medium::Default, text);
    fn json_of(node: &tree::Node) -> Value {
        match &node.value {
            tree::Value::Null => Value::Null,
            tree::Value::Bool(value) => json!(value),
            tree::Value::Number(text) => serde_json::from_str(text).unwrap_or(json!(text)),
            tree::Value::Text(text) => json!(text),
            tree::Value::List(items) => Value::Array(items.iter().map(json_of).collect()),
            tree::Value::Map(_) => Value::Null,
        }
    }
    match tree::parse(&sources, source) {
        Ok(Some(node)) => json_of(&node),
        _ => json!(text),
    }
}

/// Returns the schema of a kind.
fn of_kind(kind: &Kind) -> Value {
    const WORDS: &str = "#/$defs/texts";
    match kind {
        Kind::Version => json!({"const": 1}),
        Kind::Slug => json!({"type": "string", "pattern": "^[a-z0-9-]{1,40}$"}),
        Kind::Local => {
            json!({"type": "string", "pattern": "^(localhost|127\\.0\\.0\\.1|\\[::1\\]):[0-9]{1,5}$"})
        }
        Kind::Text => json!({"type": "string", "minLength": 1}),
        Kind::Folder => {
            json!({"type": "string", "minLength": 1, "pattern": "^[^/~]", "not": {"pattern": "(^|/)\\.\\.(/|$)"}})
        }
        Kind::Provider => json!({"type": "string", "pattern": "^[a-z0-9._-]{1,64}$"}),
        Kind::ModelId => json!({"type": ["string", "number"], "pattern": "^[!-~]{1,200}$"}),
        Kind::Word(choices) => {
            json!({"enum": choices.iter().map(|choice| choice.word).collect::<Vec<_>>()})
        }
        Kind::Words(choices) => json!({
            "type": "array",
            "uniqueItems": true,
            "items": {"enum": choices.iter().map(|choice| choice.word).collect::<Vec<_>>()},
        }),
        Kind::Texts(Item::Variable, _) => json!({
            "type": "array",
            "items": {"type": "string", "pattern": "^[A-Za-z_*?][A-Za-z0-9_*?]*$"},
        }),
        Kind::Texts(Item::Address, _) => json!({
            "type": "array",
            "items": {"type": "string", "pattern": "^[A-Za-z0-9_.:\\[\\]-]+:[0-9]{1,5}$"},
        }),
        Kind::Texts(Item::Place, _) => json!({
            "type": "array",
            "items": {"type": "string", "pattern": "^(/|~/.)"},
        }),
        Kind::Texts(_, 0) => json!({"$ref": WORDS}),
        Kind::Texts(_, least) => json!({"$ref": WORDS, "minItems": least}),
        Kind::Int(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Kind::Real(least, most) => json!({"type": "number", "minimum": least, "maximum": most}),
        Kind::Money => json!({"$ref": "#/$defs/money"}),
        Kind::Duration => json!({"$ref": "#/$defs/duration"}),
        Kind::Size(_) => json!({"$ref": "#/$defs/size"}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Run => json!({"$ref": "#/$defs/run"}),
        Kind::Env => json!({
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        }),
        Kind::Amend => json!({"anyOf": [
            {"$ref": WORDS},
            {"type": "object", "additionalProperties": false,
             "properties": {"add": {"$ref": WORDS, "description": "Added to the default."},
                            "remove": {"$ref": WORDS, "description": "Taken from the default."}}},
        ]}),
        Kind::Either(kinds) => json!({"anyOf": kinds.iter().map(of_kind).collect::<Vec<_>>()}),
        Kind::Record(fields) => record(fields),
        Kind::ListOf(kind) => json!({"type": "array", "items": of_kind(kind)}),
        Kind::MapOf(kind) => json!({"type": "object", "additionalProperties": of_kind(kind)}),
        Kind::Command => json!({"$ref": "#/$defs/command"}),
    }
}

fn record(fields: &[Field]) -> Value {
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| {
            let mut value = of_kind(&field.kind);
            value["description"] = json!(field.doc);
            (field.name.to_owned(), value)
        })
        .collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

/// Returns the shapes that several keys share.
fn definitions() -> Value {
    let mut command = record(COMMAND_FIELDS);
    command["required"] = json!(["run"]);
    json!({
        "texts": {"type": "array", "items": {"type": ["string", "number"], "minLength": 1}},
        "duration": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$",
                     "description": "A duration like 90s, 10m, 2h or 1h30m."},
        "size": {"type": "string", "pattern": "^[0-9]+ ?(B|[kK]B|[MGT]B|[KMGT]iB)$",
                 "description": "A size like 64MiB, 2GiB or 1MB."},
        "money": {"type": ["number", "string"], "pattern": "^[0-9]+(\\.[0-9]{1,6})?$", "exclusiveMinimum": 0,
                  "description": "Decimal dollars with at most six places."},
        "run": {"description": "A text for the shell (bash -eo pipefail, else sh -e), or a list: program and arguments.",
                "anyOf": [{"type": "string", "minLength": 1},
                          {"type": "array", "minItems": 1, "items": {"type": ["string", "number"], "minLength": 1}}]},
        "command": {"anyOf": [{"$ref": "#/$defs/run"}, command]},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(schema: &Value, prefix: &str, found: &mut Vec<String>) {
        let maps = schema["anyOf"].as_array().into_iter().flatten().chain([schema]);
        for properties in maps.filter_map(|map| map["properties"].as_object()) {
            for (name, value) in properties {
                let path =
                    if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                if keys::find(&path).is_some() {
                    found.push(path);
                } else {
                    paths(value, &path, found);
                }
            }
        }
    }

    #[test]
    fn the_schema_and_the_table_have_the_same_keys() {
        let mut found = Vec::new();
        paths(&schema(), "", &mut found);
        let mut table: Vec<String> = keys::all().iter().map(|key| key.path.to_owned()).collect();
        found.sort();
        table.sort();
        assert_eq!(found, table);
    }
}
