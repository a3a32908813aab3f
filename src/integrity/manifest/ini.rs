//! Reads INI files as Python's tools do: sections, `key = value` or `key: value`, continued lines.

use super::tree;
use serde_json::{Map, Value};

/// Reads an INI file into sections of texts, a line each; a key that stands twice keeps both, for
/// its readers do not agree which one counts.
pub(super) fn parse(bytes: &[u8]) -> Option<Value> {
    let mut sections: Map<String, Value> = Map::new();
    let mut section = String::new();
    let mut key: Option<String> = None;
    for raw in tree::text(bytes)?.lines() {
        let line = raw.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let indented = raw.starts_with([' ', '\t']);
        if let (true, Some(key)) = (indented, &key) {
            append(&mut sections, &section, key, line);
            continue;
        }
        if let Some(inner) = line.strip_prefix('[') {
            section = inner.split(']').next()?.trim().to_owned();
            key = None;
            sections.entry(section.clone()).or_insert_with(tree::empty);
            continue;
        }
        let (name, value) = line.split_once(['=', ':']).unwrap_or((line, ""));
        let name = name.trim().to_owned();
        append(&mut sections, &section, &name, value.trim());
        key = Some(name);
    }
    Some(Value::Object(sections))
}

fn append(sections: &mut Map<String, Value>, section: &str, key: &str, text: &str) {
    let holder = sections.entry(section.to_owned()).or_insert_with(tree::empty);
    let Some(holder) = holder.as_object_mut() else { return };
    match holder.get_mut(key) {
        Some(Value::String(held)) => {
            if !held.is_empty() && !text.is_empty() {
                held.push('\n');
            }
            held.push_str(text);
        }
        _ => {
            holder.insert(key.to_owned(), Value::from(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn continued_lines_and_comments_are_read() {
        let text = b"# c\n[pytest]\naddopts =\n    -ra\n    -q\n; x\ntestpaths: tests\n[empty]\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({"pytest": {"addopts": "-ra\n-q", "testpaths": "tests"}, "empty": {}})
        );
    }
}
