//! Reads JSON (with comments), TOML, YAML and XML into one shape, within bounds: equal trees mean
//! equal settings, however they were written.

use crate::integrity::xml::excess;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The largest file that is parsed; larger ones are compared by their bytes.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// The deepest XML element and YAML node that is read; JSON and TOML have bounds of their own.
const MAX_DEPTH: usize = 64;

/// Returns a file as text without a byte order mark; nothing where it is no UTF-8 or too large.
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Reads JSON, with comments and trailing commas as TypeScript and Babel take it.
pub(super) fn json(bytes: &[u8]) -> Option<Value> {
    let text = text(bytes)?;
    serde_json::from_str(text).ok().or_else(|| serde_json::from_str(&plain_json(text)).ok())
}

/// Drops comments and trailing commas outside strings.
fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        if in_string {
            plain.push(c);
            if c == '\\' {
                plain.extend(rest.next());
            } else if c == '"' {
                in_string = false;
            }
            continue;
        }
        match (c, rest.peek()) {
            ('"', _) => {
                in_string = true;
                plain.push(c);
            }
            ('/', Some('/')) => while rest.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) => {
                rest.next();
                let mut last = ' ';
                for c in rest.by_ref() {
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                plain.push(' ');
            }
            ('}' | ']', _) => {
                let kept = plain.trim_end().len();
                if plain[..kept].ends_with(',') {
                    plain.truncate(kept - 1);
                }
                plain.push(c);
            }
            _ => plain.push(c),
        }
    }
    plain
}

/// Reads TOML.
pub(super) fn toml(bytes: &[u8]) -> Option<Value> {
    ::toml::from_str(text(bytes)?).ok()
}

/// Reads one YAML document; an empty one is an empty object.
pub(super) fn yaml(bytes: &[u8]) -> Option<Value> {
    let text = text(bytes)?;
    let options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_nodes: 2_000_000,
            max_events: 6_000_000,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: 32,
            max_anchors: 1_000,
            max_aliases: 10_000,
            max_recorded_anchor_events: 200_000,
            max_documents: 1,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 500_000,
            max_replay_stack_depth: 16,
        },
        merge_keys: serde_yaml::options::MergeKeyPolicy::Merge,
        reject_unsupported_tags: false,
        emit_comments: false,
        with_snippet: false,
    };
    let read: Option<Value> = serde_yaml::from_str_with_options(text, options).ok()?;
    Some(read.unwrap_or_else(empty))
}

/// Reads XML: attributes as `@name`, text as `#text`, children under their tag and what names them.
///
/// An element that holds only text is a string. No document type is read, for entities could grow
/// without bound.
pub(super) fn xml(bytes: &[u8]) -> Option<Value> {
    let text = text(bytes)?;
    let document = document(text)?;
    let root = document.root_element();
    let mut top = Map::new();
    top.insert(root.tag_name().name().to_owned(), element(root));
    Some(Value::Object(top))
}

/// Parses bounded XML.
pub(in crate::integrity) fn document(text: &str) -> Option<roxmltree::Document<'_>> {
    if excess(text, MAX_DEPTH).is_some() {
        return None;
    }
    let options = roxmltree::ParsingOptions {
        allow_dtd: false,
        nodes_limit: 4_000_000,
        ..roxmltree::ParsingOptions::default()
    };
    roxmltree::Document::parse_with_options(text, options).ok()
}

fn element(node: roxmltree::Node<'_, '_>) -> Value {
    let words: Vec<&str> = node
        .children()
        .filter(|child| child.is_text())
        .filter_map(|child| child.text())
        .flat_map(str::split_whitespace)
        .collect();
    let mut inner = Map::new();
    for attribute in node.attributes() {
        inner.insert(format!("@{}", attribute.name()), Value::from(attribute.value()));
    }
    let mut seen = HashMap::new();
    for child in node.children().filter(|child| child.is_element()) {
        inner.insert(numbered(label(child), &mut seen), element(child));
    }
    let words = Value::from(words.join(" "));
    if inner.is_empty() {
        return words;
    }
    if words.as_str().is_some_and(|words| !words.is_empty()) {
        inner.insert("#text".to_owned(), words);
    }
    Value::Object(inner)
}

/// The tag and what tells an element from its like: Maven's coordinates, a name, an inclusion.
fn label(node: roxmltree::Node<'_, '_>) -> String {
    let tag = node.tag_name().name();
    let child = |name: &str| {
        node.children()
            .find(|child| child.tag_name().name() == name)
            .and_then(|child| child.text())
            .map(str::trim)
    };
    if let Some(artifact) = child("artifactId") {
        return format!(
            "{tag} {}:{artifact}",
            child("groupId").unwrap_or("org.apache.maven.plugins")
        );
    }
    for name in ["Include", "name", "Remove", "Update", "class", "Project"] {
        if let Some(value) = node.attribute(name) {
            return format!("{tag} {value}");
        }
    }
    match tag {
        // Only the value tells these from each other.
        "module" | "directory" | "file" | "exclude" | "include" => {
            format!("{tag} {}", node.text().unwrap_or("").trim())
        }
        _ => tag.to_owned(),
    }
}

/// An empty object: what a file or table that is not there is compared as.
pub(super) fn empty() -> Value {
    Value::Object(Map::new())
}

/// Returns the value at a path of keys.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(*key))
}

/// Turns a list of objects into an object by the first of `names` that each has, so that an added
/// entry is not a change of its neighbours.
pub(super) fn by_name(list: &Value, names: &[&str]) -> Value {
    let Some(entries) = list.as_array() else { return list.clone() };
    let mut named = Map::new();
    let mut seen = HashMap::new();
    for (number, entry) in entries.iter().enumerate() {
        let name = names
            .iter()
            .find_map(|name| entry.get(*name).and_then(Value::as_str))
            .map_or_else(|| format!("#{}", number + 1), str::to_owned);
        named.insert(numbered(name, &mut seen), entry.clone());
    }
    Value::Object(named)
}

/// The second and later ones of a name are told apart by their number.
fn numbered(name: String, seen: &mut HashMap<String, usize>) -> String {
    let count = seen.entry(name.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { name } else { format!("{name}#{count}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_of_json_are_no_difference() {
        let with = b"\xef\xbb\xbf{ // a\n \"a\": [1, 2,], /* \"b\": 1 */ \"url\": \"http://x\", }";
        assert_eq!(json(with), json(b"{\"a\":[1,2],\"url\":\"http://x\"}"));
    }

    #[test]
    fn deep_or_broken_input_is_refused() {
        let deep = "[".repeat(100_000);
        assert!(json(deep.as_bytes()).is_none());
        assert!(toml(format!("a = {deep}").as_bytes()).is_none());
        assert!(yaml(deep.as_bytes()).is_none());
        assert!(xml("<a>".repeat(100_000).as_bytes()).is_none());
        assert!(xml("<a b='/>'>".repeat(100_000).as_bytes()).is_none());
        assert!(xml(b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>").is_none());
        assert!(json(b"{\"a\": \"\\").is_none());
    }

    #[test]
    fn xml_is_equal_whatever_the_order_of_attributes() {
        assert_eq!(
            xml(b"<a x='1' y='2'><!-- c --><b/></a>"),
            xml(b"<?xml version=\"1.0\"?>\n<a y=\"2\"\n x=\"1\">\n  <b></b>\n</a>")
        );
    }
}
