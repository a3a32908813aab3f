//! A node of the tree read as a value of its kind, or the error that says what it must be.
//!
//! Which key has which kind stands in `table`; the notations are those of `value`, nested maps those of `nested`.

use super::diagnostic::{At, Sources, nearest, quote};
use super::keys::{Choice, Item, Kind};
use super::pattern;
use super::tree::{Node, Value};
use super::value::{self, MicroDollars};
use crate::domain::target::Target;
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest single text of a loop file, in bytes; a script or a goal.
const MAX_TEXT: usize = 256 * 1024;

/// A value that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Val {
    /// A text.
    Text(String),
    /// A word of a closed list.
    Word(&'static str),
    /// A list of texts.
    Texts(Vec<String>),
    /// A whole number.
    Int(u64),
    /// A number.
    Real(f64),
    /// Dollars.
    Money(MicroDollars),
    /// A duration.
    Duration(Duration),
    /// Bytes.
    Size(u64),
    /// A truth value.
    Bool(bool),
    /// Variables.
    Env(BTreeMap<String, String>),
    /// Numbers by name.
    Ints(BTreeMap<String, u64>),
    /// Patterns to add and to remove.
    Amend {
        /// Added patterns.
        add: Vec<String>,
        /// Removed patterns.
        remove: Vec<String>,
    },
    /// A service on this machine.
    Local(Target),
    /// Values of one kind.
    List(Vec<Val>),
    /// Values by the names of their fields.
    Fields(Vec<(&'static str, Val)>),
    /// A value that was validated and that no part of this release reads.
    Validated,
}

/// A reader of values under one dotted key.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    /// The texts, for errors.
    pub(crate) sources: &'a Sources,
    /// The dotted key.
    pub(crate) path: &'a str,
}

impl Reader<'_> {
    /// Reads a node as a kind.
    pub(crate) fn read(self, kind: &Kind, node: &Node) -> Result<Val> {
        match kind {
            Kind::Version => match &node.value {
                Value::Number(text) if text == "1" => Ok(Val::Int(1)),
                Value::Number(text) => Err(self
                    .error(node.at, &format!("{} is not a version this release reads", quote(text)))
                    .hint("write `version: 1`")),
                _ => Err(self.wrong(node, "the number 1")),
            },
            Kind::Slug => {
                let text = self.scalar(node, "a name")?;
                if value::is_slug(&text) {
                    return Ok(Val::Text(text));
                }
                let sentence = format!(
                    "`{}` cannot be {}: a name is 1 to 40 of `a-z`, `0-9` and `-`",
                    self.path,
                    quote(&text)
                );
                Err(self
                    .error(node.at, &sentence)
                    .hint(format!("for instance `{}`", value::slug(&text))))
            }
            Kind::Text => self.text(node, "a text").map(Val::Text),
            Kind::Folder => self.folder(node).map(Val::Text),
            Kind::Provider => {
                let text = self.scalar(node, "a provider's name")?;
                let good = (1..=64).contains(&text.len())
                    && text.bytes().all(|b| {
                        b.is_ascii_lowercase()
                            || b.is_ascii_digit()
                            || matches!(b, b'-' | b'_' | b'.')
                    });
                if good {
                    Ok(Val::Text(text))
                } else {
                    Err(self.bad(
                        node,
                        &text,
                        "a provider is up to 64 of `a-z`, `0-9`, `-`, `_` and `.`",
                    ))
                }
            }
            Kind::ModelId => {
                let text = self.scalar(node, "a model's id")?;
                let good =
                    (1..=200).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
                if good {
                    Ok(Val::Text(text))
                } else {
                    Err(self.bad(
                        node,
                        &text,
                        "an id is up to 200 visible ASCII characters without a blank",
                    ))
                }
            }
            Kind::Word(choices) => self.word(choices, node).map(Val::Word),
            Kind::Words(choices) => self.words(choices, node),
            Kind::Texts(item, least) => self.texts(*item, *least, node).map(Val::Texts),
            Kind::Int(least, most) => {
                let wanted = format!("a whole number from {least} to {most}");
                let Value::Number(text) = &node.value else {
                    return Err(self.wrong(node, &wanted));
                };
                match text.parse::<u64>() {
                    Ok(number) if (*least..=*most).contains(&number) => Ok(Val::Int(number)),
                    _ => Err(self.bad(node, text, &format!("it is {wanted}"))),
                }
            }
            Kind::Real(least, most) => {
                let wanted = format!("a number from {least} to {most}");
                let Value::Number(text) = &node.value else {
                    return Err(self.wrong(node, &wanted));
                };
                match text.parse::<f64>() {
                    Ok(number) if (*least..=*most).contains(&number) => Ok(Val::Real(number)),
                    _ => Err(self.bad(node, text, &format!("it is {wanted}"))),
                }
            }
            Kind::Money => {
                let text = self.scalar(node, "decimal dollars")?;
                match value::parse_money(&text) {
                    Ok(MicroDollars(0)) => Err(self.bad(node, &text, "it is more than nothing")),
                    Ok(money) => Ok(Val::Money(money)),
                    Err(why) => Err(self.bad(node, &text, &why)),
                }
            }
            Kind::Duration => {
                let text = self.scalar(node, "a duration like `90s` or `10m`")?;
                const YEAR: Duration = Duration::from_secs(366 * 86_400);
                match value::parse_duration(&text) {
                    Ok(time) if time.is_zero() || time > YEAR => {
                        Err(self.bad(node, &text, "it is from one millisecond to a year"))
                    }
                    Ok(time) => Ok(Val::Duration(time)),
                    Err(why) => Err(self.bad(node, &text, &why)),
                }
            }
            Kind::Size(least) => {
                let text = self.scalar(node, "a size like `64MiB`")?;
                match value::parse_size(&text) {
                    Ok(size) if size < *least => Err(self.bad(
                        node,
                        &text,
                        &format!("it is at least {}", value::format_size(*least)),
                    )),
                    Ok(size) => Ok(Val::Size(size)),
                    Err(why) => Err(self.bad(node, &text, &why)),
                }
            }
            Kind::Bool => match node.value {
                Value::Bool(value) => Ok(Val::Bool(value)),
                _ => Err(self.wrong(node, "`true` or `false`")),
            },
            Kind::Local => {
                let text = self.scalar(node, "`localhost:port`")?;
                let here =
                    |target: &Target| matches!(&*target.host, "localhost" | "127.0.0.1" | "::1");
                match text.parse::<Target>().ok().filter(here) {
                    Some(target) => Ok(Val::Local(target)),
                    None => Err(self.bad(
                        node,
                        &text,
                        "it is `localhost:port`: a service on this machine",
                    )),
                }
            }
            Kind::Run => match &node.value {
                Value::List(_) => self.texts(Item::Text, 1, node).map(Val::Texts),
                _ => self
                    .text(node, "a command: a text for the shell or a list of words")
                    .map(Val::Text),
            },
            Kind::Env => self.env(node),
            Kind::Amend => self.amend(node),
            Kind::Either(kinds) => self.either(kinds, node),
            Kind::Record(fields) => self.record(fields, node),
            Kind::ListOf(kind) => {
                let Value::List(items) = &node.value else {
                    return Err(self.wrong(node, "a list"));
                };
                let items = items.iter().map(|item| self.read(kind, item));
                Ok(Val::List(items.collect::<Result<_>>()?))
            }
            Kind::MapOf(kind) => self.map_of(kind, node),
            Kind::Command => self.command(node),
        }
    }

    /// Makes an error at a place.
    pub(crate) fn error(self, at: At, sentence: &str) -> Error {
        self.sources.error(at, sentence)
    }

    /// Makes the error of a value of the wrong type.
    pub(crate) fn wrong(self, node: &Node, wanted: &str) -> Error {
        if matches!(node.value, Value::Null) {
            return self
                .error(node.at, &format!("`{}` has no value: it must be {wanted}", self.path))
                .hint("give it one, or remove the key");
        }
        let error = self.error(
            node.at,
            &format!("`{}` must be {wanted}, here is {}", self.path, node.value.name()),
        );
        match &node.value {
            Value::Bool(_) if wanted.starts_with("a command") => {
                error.hint("in quotes it is the program of that name")
            }
            Value::Text(text) if text.parse::<f64>().is_ok() => error.hint("remove the quotes"),
            _ => error,
        }
    }

    /// Makes the error of a value that its notation does not allow.
    pub(crate) fn bad(self, node: &Node, text: &str, why: &str) -> Error {
        self.error(node.at, &format!("`{}` cannot be {}: {why}", self.path, quote(text)))
    }

    /// Reads a text that is not empty; NUL has no place in it.
    fn text(self, node: &Node, wanted: &str) -> Result<String> {
        let Value::Text(text) = &node.value else { return Err(self.wrong(node, wanted)) };
        if text.trim().is_empty() {
            return Err(self.error(node.at, &format!("`{}` is empty", self.path)));
        }
        if text.contains('\0') {
            return Err(self.error(node.at, &format!("`{}` holds a NUL character", self.path)));
        }
        if text.len() > MAX_TEXT {
            return Err(self.error(node.at, &format!("`{}` is longer than 256 KiB", self.path)));
        }
        Ok(text.clone())
    }

    /// Reads a text or a number as it was written.
    fn scalar(self, node: &Node, wanted: &str) -> Result<String> {
        match &node.value {
            Value::Number(text) => Ok(text.clone()),
            Value::Text(_) => self.text(node, wanted),
            _ => Err(self.wrong(node, wanted)),
        }
    }

    fn folder(self, node: &Node) -> Result<String> {
        let text = self.text(node, "a folder")?;
        let leaves = text.starts_with('/')
            || text.starts_with('~')
            || text.split('/').any(|part| part == "..");
        if leaves || text.chars().any(char::is_control) {
            return Err(self.bad(node, &text, "it is a relative path without `..`"));
        }
        let parts: Vec<&str> =
            text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
    }

    fn word(self, choices: &'static [Choice], node: &Node) -> Result<&'static str> {
        let text = match &node.value {
            Value::Text(text) => text,
            _ => return Err(self.wrong(node, &allowed(choices))),
        };
        let Some(choice) = choices.iter().find(|choice| choice.word == text) else {
            let error = self.bad(node, text, &format!("it is {}", allowed(choices)));
            return Err(match nearest(text, choices.iter().map(|choice| choice.word)) {
                Some(word) => error.hint(format!("did you mean `{word}`?")),
                None => error,
            });
        };
        match choice.later {
            None => Ok(choice.word),
            Some(feature) => {
                let what = format!("{}: {}", self.path, choice.word);
                Err(self.error(node.at, &not_yet(&what, feature)))
            }
        }
    }

    fn words(self, choices: &'static [Choice], node: &Node) -> Result<Val> {
        let Value::List(items) = &node.value else {
            return Err(self.wrong(node, &format!("a list of {}", allowed(choices))));
        };
        let mut words: Vec<String> = Vec::new();
        for item in items {
            let word = self.word(choices, item)?;
            if words.iter().any(|known| known == word) {
                return Err(self.error(item.at, &format!("`{}` names `{word}` twice", self.path)));
            }
            words.push(word.to_owned());
        }
        Ok(Val::Texts(words))
    }

    /// Reads a list of texts; numbers stand as they are written.
    pub(crate) fn texts(self, item: Item, least: usize, node: &Node) -> Result<Vec<String>> {
        let Value::List(items) = &node.value else {
            return Err(self.wrong(node, "a list of texts"));
        };
        if items.len() < least {
            return Err(self.error(node.at, &format!("`{}` must name at least {least}", self.path)));
        }
        let mut texts = Vec::new();
        for node in items {
            let text = self.scalar(node, "a list of texts")?;
            let wrong = match item {
                Item::Text => None,
                Item::Pattern => pattern::path_problem(&text),
                Item::Gitignore => pattern::gitignore_problem(&text),
                Item::Glob => pattern::glob_problem(&text),
                Item::Variable => (!is_variable(&text.replace(['*', '?'], "_")))
                    .then(|| "a variable's name is letters, digits and `_`".to_owned()),
                Item::Place => pattern::place_problem(&text),
                Item::Address => {
                    text.parse::<Target>().err().map(|_| "it is `host:port`".to_owned())
                }
            };
            if let Some(why) = wrong {
                return Err(self.bad(node, &text, &why));
            }
            texts.push(text);
        }
        Ok(texts)
    }
}

/// Returns the sentence of a key or word that waits for a feature.
pub(crate) fn not_yet(what: &str, feature: &str) -> String {
    format!("`{what}` is not available in this release: {feature} comes later")
}

/// Says whether a text can be the name of an environment variable.
pub(crate) fn is_variable(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns the words of a closed list, for a sentence.
pub(crate) fn allowed(choices: &[Choice]) -> String {
    let words: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.word)).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => words.join(""),
    }
}
