//! The loop digest: one number for what a loop does, equal in CI and on a laptop.
//!
//! The spec's JSON is the duty of `spec`.

use super::spec::LoopSpec;
use crate::domain::hex;
use serde_json::Value;

/// What the digest begins with, so that it never equals the digest of another format.
const DOMAIN: &str = "loopexec.loop.v1\n";

/// Keys that say where or under which name a loop runs, not what it does.
const OUTSIDE: [(&str, &str); 2] = [("receipt", "dir"), ("isolation", "accept")];

/// Returns `sha256:` and the digest of `loopexec.loop.v1`, a newline, and the resolved spec as canonical JSON.
///
/// Canonical is: object keys sorted by code point, no blanks, defaults filled in. Left out are `name`
/// (a file's name or a step's id), what a platform is told (`ci`, `exit_codes`, `fail_on`), an empty `human.approve`, `receipt.dir`, `isolation.accept` (what a machine lacks) and the loop
/// file's own path among `guards.blocked_files`, which is added after the digest is taken.
pub(crate) fn loop_digest(spec: &LoopSpec) -> serde_json::Result<String> {
    let mut json = serde_json::to_value(spec)?;
    if let Some(root) = json.as_object_mut() {
        for key in ["name", "ci", "exit_codes", "fail_on"] {
            root.shift_remove(key);
        }
        // A loop that asks nobody is the same loop as before there were gates.
        if let Some(human) = root.get_mut("human").and_then(Value::as_object_mut)
            && human.get("approve").is_some_and(|gates| gates.as_array().is_some_and(Vec::is_empty))
        {
            human.shift_remove("approve");
        }
        for (group, key) in OUTSIDE {
            if let Some(group) = root.get_mut(group).and_then(Value::as_object_mut) {
                group.shift_remove(key);
            }
        }
    }
    let text = format!("{DOMAIN}{}", canonical(json)?);
    Ok(format!("sha256:{}", hex::sha256(text.as_bytes())))
}

/// Returns a value as canonical JSON: object keys sorted by code point, no blanks.
pub(crate) fn canonical(value: Value) -> serde_json::Result<String> {
    serde_json::to_string(&sorted(value))
}

/// Returns the value with the keys of every object in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> = map.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}
