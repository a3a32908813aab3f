//! The resolved plan as a person and as a program reads it: every key, its value, where it came from.
//!
//! Resolving is the duty of `build` and `layers`; printing that of the command.

use super::diagnostic::printable;
use super::{Origin, Resolved, keys};
use serde_json::{Map, Value, json};

/// Longest value that is shown in one line of the text, in characters.
const WIDEST: usize = 72;

/// Keys whose value is shown whole: what is guarded must be seen before a run.
const WHOLE: [&str; 4] =
    ["guards.blocked_paths", "guards.blocked_files", "guards.protected", "guards.mutable"];

/// Renders the plan as text: a line for each key, aligned, the digest last.
pub fn render_plan(resolved: &Resolved) -> String {
    let rows: Vec<(String, String, String)> = rows(resolved)
        .into_iter()
        .map(|(key, value)| {
            let from = origin_text(resolved, &origin(resolved, &key));
            let value = if WHOLE.contains(&key.as_str()) { whole(&value) } else { shown(&value) };
            (key, value, from)
        })
        .collect();
    let width = |part: fn(&(String, String, String)) -> &String| {
        rows.iter().map(|row| part(row).chars().count()).max().unwrap_or(0)
    };
    let (keys, values) = (width(|row| &row.0), width(|row| &row.1).min(40));
    let mut text = String::new();
    for (key, value, from) in &rows {
        text.push_str(&format!("{key:keys$} = {value:values$}  ({from})\n"));
    }
    for warning in &resolved.warnings {
        text.push_str(&format!("warning: {}\n", printable(warning)));
    }
    text.push_str(&format!("loop digest {}\n", resolved.digest));
    text
}

/// Returns the plan as JSON: `file`, `digest`, `warnings`, `loop` (the nested spec) and `keys`, each with `value` and `from`.
pub fn plan_json(resolved: &Resolved) -> Value {
    let keys: Map<String, Value> = rows(resolved)
        .into_iter()
        .map(|(key, value)| {
            let from = match origin(resolved, &key) {
                Origin::Default => json!({"source": "default"}),
                Origin::File { line, column } => {
                    json!({"source": "file", "line": line, "column": column})
                }
                Origin::Env(name) => json!({"source": "env", "name": name}),
                Origin::Flag(name) => json!({"source": "flag", "name": name}),
            };
            (key, json!({"value": value, "from": from}))
        })
        .collect();
    json!({
        "file": resolved.file.as_ref().map(|file| file.display().to_string()),
        "digest": resolved.digest,
        "warnings": resolved.warnings,
        "loop": serde_json::to_value(&resolved.spec).unwrap_or(Value::Null),
        "keys": keys,
    })
}

/// Returns each dotted key of the spec with its value, in the order of the loop file's reference.
fn rows(resolved: &Resolved) -> Vec<(String, Value)> {
    let mut rows = Vec::new();
    if let Ok(Value::Object(map)) = serde_json::to_value(&resolved.spec) {
        flatten(map, "", &mut rows);
    }
    rows
}

fn flatten(map: Map<String, Value>, prefix: &str, rows: &mut Vec<(String, Value)>) {
    for (name, value) in map {
        let path = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Value::Object(inner) if keys::find(&path).is_none() => flatten(inner, &path, rows),
            value => rows.push((path, value)),
        }
    }
}

/// Returns where a key's value came from.
fn origin(resolved: &Resolved, key: &str) -> Origin {
    // Files that are blocked follow from the check and the loop file unless the paths were amended.
    let key = if key == "guards.blocked_files" { "guards.blocked_paths" } else { key };
    resolved.origins.get(key).cloned().unwrap_or(Origin::Default)
}

fn origin_text(resolved: &Resolved, origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File { line, column } => {
            let file =
                resolved.file.as_ref().map_or("loop".to_owned(), |f| f.display().to_string());
            format!("{}:{line}:{column}", printable(&file))
        }
        Origin::Env(name) | Origin::Flag(name) => printable(name),
    }
}

/// Returns a value in one line, however long.
fn whole(value: &Value) -> String {
    printable(&value.to_string())
}

/// Returns a value in one line: texts plain, lists and maps as JSON, nothing as `–`.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.trim_end().replace('\n', "⏎"),
        other => other.to_string(),
    };
    let text = printable(&text);
    if text.chars().count() <= WIDEST {
        return text;
    }
    text.chars().take(WIDEST - 1).chain(['…']).collect()
}
