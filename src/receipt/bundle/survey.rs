//! What a receipt names: values in blobs, outputs of commands, snapshots, torn tails.
//!
//! The receipt is not judged here, so that a broken one can be kept as evidence too.

use super::is_hex;
use crate::receipt::blobs::{BlobStore, is_reference};
use crate::receipt::disk::Durability;
use crate::receipt::reader;
use crate::receipt::recover::RECOVERED;
use crate::receipt::rundir::RunDir;
use crate::receipt::strict;
use serde_json::Value;
use std::collections::BTreeSet;

/// What a receipt names.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Blobs with values that stood in events; the fold reads them.
    pub values: BTreeSet<String>,
    /// Blobs with what was kept of the outputs of commands.
    pub outputs: BTreeSet<String>,
    /// What may be the id of a snapshot.
    pub trees: BTreeSet<String>,
    /// Tails that a crash cut, by file name.
    pub torn: BTreeSet<String>,
    /// What is wrong with it, one clause each.
    pub wrong: Vec<String>,
}

/// Reads what a receipt names, up to the first line that is broken.
pub(super) fn read_survey(run: &RunDir) -> Survey {
    let mut survey = Survey::default();
    let blobs = BlobStore::new(run.blobs(), Durability::Event);
    let events = match reader::read(&run.receipt()) {
        Ok(events) => events,
        Err(error) => {
            survey.wrong.push(error.to_string());
            return survey;
        }
    };
    for event in events {
        match event {
            Ok(event) => {
                if event.kind == RECOVERED
                    && let Some(Value::String(file)) = event.body.get("file")
                    && is_torn_name(file)
                {
                    survey.torn.insert(file.clone());
                }
                survey.take(Value::Object(event.body), &blobs);
            }
            Err(broken) if broken.how == reader::Break::Torn => {}
            Err(broken) => {
                survey.wrong.push(format!("line {} of the receipt: {}", broken.line, broken.why));
            }
        }
    }
    survey
}

/// Tells whether a file name is that of a torn tail.
pub(super) fn is_torn_name(name: &str) -> bool {
    name.strip_prefix("receipt.torn-").is_some_and(|number| {
        (1..=9).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit())
    })
}

impl Survey {
    /// Takes in all that a value names; values in blobs are read once each.
    fn take(&mut self, value: Value, blobs: &BlobStore) {
        let mut pending = vec![value];
        while let Some(value) = pending.pop() {
            match value {
                Value::String(text) => self.take_text(text),
                Value::Array(items) => pending.extend(items),
                Value::Object(map) if is_reference(&map) => {
                    let Some(name) = map["blob"].as_str() else { continue };
                    let Some(digest) = digest_of(name) else { continue };
                    if !self.values.insert(digest.to_owned()) {
                        continue;
                    }
                    match blobs.read(name).and_then(|bytes| {
                        strict::parse(&bytes).map_err(|why| {
                            crate::error::Error::new(crate::error::Kind::ObjectiveUnverified, why)
                        })
                    }) {
                        Ok(inner) => pending.push(inner),
                        Err(error) => self.wrong.push(error.to_string()),
                    }
                }
                Value::Object(map) => {
                    for (key, value) in map {
                        match (&*key, &value) {
                            ("kept", Value::String(name)) => {
                                self.outputs.extend(digest_of(name).map(str::to_owned));
                            }
                            _ => pending.push(value),
                        }
                        self.take_text(key);
                    }
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
    }

    fn take_text(&mut self, text: String) {
        if is_hex(&text, 40) {
            self.trees.insert(text);
        }
    }
}

fn digest_of(name: &str) -> Option<&str> {
    name.strip_prefix("sha256:").filter(|digest| is_hex(digest, 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_outputs_and_trees_are_told_apart_at_any_depth() {
        let dir = tempfile::tempdir().unwrap();
        let mut blobs = BlobStore::new(dir.path(), Durability::Event);
        let (tree, deep) = ("a".repeat(40), "b".repeat(40));
        let output = format!("sha256:{}", "c".repeat(64));
        let inner = json!({"stdout": {"kept": output}, "seen": {deep.clone(): 1}}).to_string();
        let name = blobs.write(inner.as_bytes()).unwrap();
        let missing = format!("sha256:{}", "d".repeat(64));
        let mut survey = Survey::default();
        let value = json!([
            {"blob": name, "bytes": inner.len(), "count": 2},
            {"blob": missing, "bytes": 1, "count": 1},
            {"tree": tree.clone(), "no": "A".repeat(40), "kept": null},
        ]);
        survey.take(value, &blobs);
        assert_eq!(survey.trees, BTreeSet::from([tree, deep]));
        assert_eq!(survey.outputs.len(), 1);
        assert_eq!(survey.values.len(), 2);
        assert_eq!(survey.wrong.len(), 1, "{:?}", survey.wrong);
    }

    #[test]
    fn only_names_that_recovery_gives_are_torn_tails() {
        for name in ["receipt.torn-1", "receipt.torn-12"] {
            assert!(is_torn_name(name), "{name}");
        }
        for name in ["receipt.torn-", "receipt.torn-1/../x", "../receipt.torn-1", "receipt.torn-+1"]
        {
            assert!(!is_torn_name(name), "{name}");
        }
    }
}
