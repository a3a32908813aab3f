//! The schema against the parser, and the kept copy against the schema.

use crate::bad::BAD;
use crate::good::GOOD;
use crate::support::*;
use loopexec::config::{plan_json, schema, schema_text};
use serde_json::{Value, json};
use std::path::Path;

/// A key that is in the schema is one the parser knows, and the other way round.
#[test]
fn the_schema_and_the_parser_know_the_same_keys() {
    let mut keys = Vec::new();
    leaves(&schema(), "", &mut keys);
    assert!(keys.len() > 90, "{keys:?}");
    let listed: Vec<&str> = GOOD.iter().chain(BAD).map(|(key, ..)| *key).collect();
    for key in &keys {
        assert!(listed.contains(&key.as_str()), "no case for `{key}`");
        let what = match parse_str(&with(key, "{zzz_: 1}"), "loop.yml") {
            Ok(_) => String::new(),
            Err(error) => error.what,
        };
        assert!(!what.contains(&format!("there is no key `{key}`")), "{what}");
        let twin = with(&format!("{key}_zz"), "1");
        assert!(said(&twin).contains(&format!("there is no key `{key}_zz`")), "{}", said(&twin));
    }
    for key in plan_json(&read(BASE))["keys"].as_object().unwrap().keys() {
        let group = key == "model" || key == "setup" || key == "guards.blocked_files";
        assert!(group || keys.contains(key), "`{key}` is not in the schema");
    }
    for key in listed {
        // The short form of a command or model.
        let record = ["model", "setup", "check.held_out", "guards.judge"].contains(&key)
            || key.ends_with(".heat");
        assert!(record || keys.iter().any(|known| known == key), "`{key}` is not in the schema");
    }
}

/// Collects the dotted keys of a schema; a map that a release reads as one value is one key.
fn leaves(schema: &Value, prefix: &str, keys: &mut Vec<String>) {
    const GROUPS: [&str; 16] = [
        "ci",
        "model",
        "model.sampling",
        "exec",
        "check",
        "check.held_out",
        "setup",
        "workspace",
        "limits",
        "guards",
        "guards.judge",
        "ratchet",
        "isolation",
        "context",
        "human",
        "receipt",
    ];
    let forms = schema["anyOf"].as_array().into_iter().flatten().chain([schema]);
    for (name, value) in forms.filter_map(|form| form["properties"].as_object()).flatten() {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        if GROUPS.contains(&path.as_str()) {
            leaves(value, &path, keys);
        } else {
            keys.push(path);
        }
    }
}

#[test]
fn the_kept_schema_is_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("dist/loop.schema.json");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == schema_text(),
        "stale: write the output of `loopexec schema` to dist/loop.schema.json"
    );
}

#[test]
fn the_schema_closes_every_map_and_documents_every_key() {
    fn walk(value: &Value, path: &str) {
        if let Some(properties) = value["properties"].as_object() {
            assert_eq!(value["additionalProperties"], json!(false), "{path} is open");
            for (name, property) in properties {
                let text = property["description"].as_str().unwrap_or_default();
                assert!(text.ends_with(['.', ')']) && text.len() > 5, "{path}.{name}: {text}");
            }
        }
        if let Some(map) = value.as_object() {
            map.iter().for_each(|(name, inner)| walk(inner, &format!("{path}.{name}")));
        }
        if let Some(list) = value.as_array() {
            list.iter().for_each(|inner| walk(inner, path));
        }
    }
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    walk(&schema, "");
}
