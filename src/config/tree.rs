//! YAML text to a tree that remembers where every key and value was written.
//!
//! The only file that names the YAML reader. What the keys mean is the duty of `settings` and `workflow`.

use super::diagnostic::{At, Medium, Sources, quote};
use crate::error::{Error, Kind, Result};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_yaml::{Location, Spanned};
use std::fmt;

/// Longest loop file, in bytes.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// A value and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The value.
    pub(crate) value: Value,
    /// Where it starts.
    pub(crate) at: At,
}

/// A key of a map and where it was written.
#[derive(Debug, Clone)]
pub(crate) struct MapKey {
    /// The key.
    pub(crate) text: String,
    /// Where it stands.
    pub(crate) at: At,
}

/// The shapes that YAML knows (1.2 core: `on`, `off`, `yes` and `no` are texts).
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// Nothing, `null` or `~`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// Any other scalar.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping in the order of the text; keys may repeat.
    Map(Vec<(MapKey, Node)>),
}

impl Value {
    /// Returns what the value is, for a sentence.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "`true` or `false`",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

/// Reads the bytes of a loop file as text: at most 1 MiB of UTF-8, a byte-order mark apart.
pub(crate) fn text_of<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str> {
    let name = super::diagnostic::printable(name);
    if bytes.len() > MAX_BYTES {
        return Err(Error::new(
            Kind::ConfigInvalid,
            format!(
                "{name}: the file is larger than 1 MiB, which is the most a loop file may have"
            ),
        ));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Error::new(Kind::ConfigInvalid, format!("{name}:1:1: the file is UTF-16"))
            .hint("save it as UTF-8"));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(error) => {
            let good =
                String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default());
            let line = good.matches('\n').count() + 1;
            let last = good.rsplit('\n').next().unwrap_or_default();
            let rest: Vec<u8> = bytes
                .get(error.valid_up_to()..)
                .unwrap_or_default()
                .iter()
                .copied()
                .take(80)
                .take_while(|b| *b != b'\n')
                .collect();
            let shown = format!("{last}{}", String::from_utf8_lossy(&rest));
            let column = last.chars().count() + 1;
            let mut sources = Sources::default();
            // The snippet counts lines from the start of its text.
            let text = format!("{}{shown}", "\n".repeat(line - 1));
            let source = sources.add(name, Medium::File, &text);
            let at = At { source, line, column, len: 1 };
            Err(sources.error(at, "this byte is not UTF-8").hint("save the file as UTF-8"))
        }
    }
}

/// Whose YAML it is, which says what may stand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// A loop file.
    Loop,
    /// A file of a CI platform: merge keys and the platform's own tags belong to it.
    Foreign,
}

impl Dialect {
    fn name(self) -> &'static str {
        match self {
            Self::Loop => "a loop file",
            Self::Foreign => "a workflow file",
        }
    }

    fn levels(self) -> usize {
        match self {
            Self::Loop => 16,
            Self::Foreign => 32,
        }
    }
}

/// Reads one YAML document; an empty one is `None`.
///
/// # Errors
/// `config_invalid` with place, line and caret for everything that is not one well-formed document
/// within the budget: 20,000 nodes, 16 levels, 200 anchors, aliases expanded to 20,000 nodes in all.
pub(crate) fn parse(sources: &Sources, source: usize) -> Result<Option<Node>> {
    read(sources, source, Dialect::Loop)
}

/// Reads the YAML document of a CI platform, in which merged keys stand after those written out.
///
/// # Errors
/// As [`parse`], within 32 levels.
pub(crate) fn parse_foreign(sources: &Sources, source: usize) -> Result<Option<Node>> {
    read(sources, source, Dialect::Foreign)
}

fn read(sources: &Sources, source: usize, dialect: Dialect) -> Result<Option<Node>> {
    let text = sources.0.get(source).map_or("", |s| s.text.as_str());
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mut options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_nodes: 20_000,
            max_events: 60_000,
            max_depth: dialect.levels(),
            flow_nesting_limit: 16,
            max_anchors: 200,
            max_aliases: 1_000,
            max_recorded_anchor_events: 20_000,
            max_documents: 4,
        },
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: 20_000,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: serde_yaml::options::DuplicateKeyPolicy::PassThrough,
        merge_keys: serde_yaml::options::MergeKeyPolicy::Error,
        strict_booleans: true,
        underscored_numbers_as_strings: true,
        leading_zero_numbers_as_strings: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: serde_yaml::options::NonFiniteFloatPolicy::AsString,
        emit_comments: false,
        with_snippet: false,
    };
    if dialect == Dialect::Foreign {
        options.merge_keys = serde_yaml::options::MergeKeyPolicy::Merge;
        options.reject_unsupported_tags = false;
    }
    match serde_yaml::from_str_with_options::<Option<Spanned<Raw>>>(text, options) {
        Ok(None) => Ok(None),
        Ok(Some(raw)) => Ok(Some(node(raw, source, text))),
        Err(error) => Err(syntax(sources, source, &error, dialect)),
    }
}

/// Says what the YAML reader could not read.
fn syntax(sources: &Sources, source: usize, error: &serde_yaml::Error, dialect: Dialect) -> Error {
    let text = sources.0.get(source).map_or("", |s| s.text.as_str());
    let lines = text.split('\n').count().max(1);
    let at = match error.location() {
        Some(place) if place.line() > 0 => at_of(&place, source),
        _ => At { source, line: 1, column: 1, len: 1 },
    };
    let at = At { line: at.line.min(lines), len: 1, ..at };
    let line = text.split('\n').nth(at.line - 1).unwrap_or("");
    let indent = line.chars().take_while(|c| *c == ' ' || *c == '\t').position(|c| c == '\t');
    if let Some(tab) = indent {
        return sources
            .error(At { column: tab + 1, ..at }, "YAML is indented with spaces, this is a tab")
            .hint("replace the tab with spaces");
    }
    use serde_yaml::Error as E;
    match error {
        E::MultipleDocuments { .. } => sources
            .error(
                at,
                &format!("{} holds one YAML document, here a second one starts", dialect.name()),
            )
            .hint("remove the `---` line and what follows it"),
        E::Budget { .. }
        | E::AliasReplayLimitExceeded { .. }
        | E::AliasExpansionLimitExceeded { .. }
        | E::AliasReplayStackDepthExceeded { .. }
        | E::AliasReplayCounterOverflow { .. } => too_much(sources, at, dialect),
        E::MergeKeyNotAllowed { .. } => sources
            .error(at, "the merge key `<<` is not part of a loop file")
            .hint("write the keys out"),
        other => {
            let full = other.to_string();
            let said = full.split(" at line ").next().unwrap_or(&full);
            let said = said.lines().next().unwrap_or(said).trim();
            // The scanner and alias replay report their own budgets as plain messages.
            if said.contains("budget breached") || said.contains("recursion limit") {
                return too_much(sources, at, dialect);
            }
            let said: String = super::diagnostic::printable(said).chars().take(200).collect();
            sources.error(at, &format!("this is not well-formed YAML: {said}"))
        }
    }
}

/// Makes the error of a text that is over the budget.
fn too_much(sources: &Sources, at: At, dialect: Dialect) -> Error {
    let sentence = format!(
        "the text is too large or too deep for {} once its aliases are expanded",
        dialect.name()
    );
    let levels = dialect.levels();
    sources
        .error(at, &sentence)
        .hint(format!("at most 20,000 nodes, {levels} levels and 200 anchors"))
}

/// What the YAML reader hands over, before places are known.
enum Raw {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<RawKey>, Spanned<Raw>)>),
}

struct RawKey(String);

impl<'de> Deserialize<'de> for RawKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = RawKey;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a plain text as the key")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawKey, E> {
                Ok(RawKey(text.to_owned()))
            }
            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<RawKey, E> {
                Ok(RawKey(text))
            }
        }
        deserializer.deserialize_str(KeyVisitor)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_none<E: serde::de::Error>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Raw, E> {
                Ok(Raw::Bool(value))
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Raw, E> {
                Ok(Raw::Number(value.to_string()))
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Raw, E> {
                Ok(Raw::Number(value.to_string()))
            }
            fn visit_i128<E: serde::de::Error>(self, value: i128) -> Result<Raw, E> {
                Ok(Raw::Number(value.to_string()))
            }
            fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Raw, E> {
                Ok(Raw::Number(value.to_string()))
            }
            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Raw, E> {
                Ok(Raw::Number(value.to_string()))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw::Text(text.to_owned()))
            }
            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Raw, E> {
                Ok(Raw::Text(text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(Raw::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<RawKey>>()? {
                    if entries.len() > 5_000 {
                        return Err(A::Error::custom("more than 5,000 keys in one map"));
                    }
                    entries.push((key, map.next_value()?));
                }
                Ok(Raw::Map(entries))
            }
        }
        deserializer.deserialize_any(RawVisitor)
    }
}

fn node(raw: Spanned<Raw>, source: usize, text: &str) -> Node {
    let at = at_of(&raw.referenced, source);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => Value::Bool(value),
        Raw::Number(read) => Value::Number(written(&raw.defined, text).unwrap_or(read)),
        Raw::Text(value) => Value::Text(value),
        Raw::List(items) => {
            Value::List(items.into_iter().map(|item| node(item, source, text)).collect())
        }
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| {
                    let at = at_of(&key.referenced, source);
                    (MapKey { text: key.value.0, at }, node(value, source, text))
                })
                .collect(),
        ),
    };
    let len = if matches!(value, Value::List(_) | Value::Map(_)) { 1 } else { at.len };
    Node { value, at: At { len, ..at } }
}

/// Returns a number as it was written: `5.10` dollars must not become `5.1`, nor a version `1.10` `1.1`.
fn written(place: &Location, text: &str) -> Option<String> {
    let span = place.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let len = usize::try_from(span.byte_len()?).ok()?;
    let slice = text.get(start..start.checked_add(len)?)?.trim();
    let first = slice.chars().next()?;
    let plain = first.is_ascii_digit() || matches!(first, '+' | '-' | '.');
    (plain && !slice.contains(char::is_whitespace)).then(|| slice.to_owned())
}

fn at_of(place: &Location, source: usize) -> At {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX).max(1);
    At {
        source,
        line: number(place.line()),
        column: number(place.column()),
        len: number(place.span().len()),
    }
}

/// Returns the error of a key that stands twice in one map.
pub(crate) fn duplicate(sources: &Sources, key: &MapKey, path: &str, first: At) -> Error {
    sources
        .error(key.at, &format!("the key {} stands here for the second time", quote(path)))
        .hint(format!("the first one is in line {}; keep one of them", first.line))
}
