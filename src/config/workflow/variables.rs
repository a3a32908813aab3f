//! The literal variables a workflow file sets around a loop: later scopes win, expressions are filled
//! in where they are known, and the rest is an error only where the loop reads it.

use super::document::{Document, Scalar, entries, get, scalar};
use super::expression::{Filled, Sets, Syntax, Unknown, fill};
use super::frame::Frame;
use crate::config::diagnostic::{At, Sources, printable, quote};
use crate::config::tree::{Node, Value};
use crate::error::{Error, Result};
use std::collections::BTreeMap;

/// The map in which one scope sets variables.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// The `env` of a workflow, a job or a step.
    Env(&'a Node),
    /// The `variables` of a GitLab file or job.
    Variables(&'a Node),
}

/// A variable whose value only the platform knows.
#[derive(Debug, Clone)]
pub(crate) struct Unresolved {
    /// Its value as it is written.
    pub(crate) value: Scalar,
    /// The expression in it.
    pub(crate) missing: Unknown,
}

impl Unresolved {
    /// Says whether the platform keeps it as a secret.
    pub(crate) fn is_secret(&self) -> bool {
        self.missing.expression.as_deref().is_some_and(is_secret)
    }
}

/// Variables, resolved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Resolved {
    /// Those that are known.
    pub(crate) known: BTreeMap<String, String>,
    /// Those that are not.
    pub(crate) unknown: BTreeMap<String, Unresolved>,
}

impl Scope<'_> {
    /// Returns each variable: name, value, and how expressions in it are written, where any are filled in.
    fn variables(self) -> impl Iterator<Item = (String, Scalar, Option<Syntax>)> {
        let (node, gitlab) = match self {
            Self::Env(node) => (node, false),
            Self::Variables(node) => (node, true),
        };
        entries(node).iter().filter_map(move |(key, value)| {
            let (value, syntax) = match gitlab {
                true => gitlab_value(value)?,
                false => (scalar(value)?, Some(Syntax::Braces)),
            };
            let name = &key.text;
            // A loop is no variable of its own; the others no process can have.
            let odd = name == super::gitlab::VARIABLE
                || name.is_empty()
                || name.contains(['=', '\0'])
                || value.text.contains('\0');
            (!odd).then(|| (name.clone(), value, syntax))
        })
    }
}

/// Reads a GitLab variable: a text, or a map with `value` and `expand`.
pub(crate) fn gitlab_value(node: &Node) -> Option<(Scalar, Option<Syntax>)> {
    if !matches!(node.value, Value::Map(_)) {
        return Some((scalar(node)?, Some(Syntax::Dollars)));
    }
    let literal = get(node, "expand").is_some_and(|expand| match &expand.value {
        Value::Bool(value) => !value,
        Value::Text(text) => text == "false",
        _ => false,
    });
    Some((get(node, "value").and_then(scalar)?, (!literal).then_some(Syntax::Dollars)))
}

/// Resolves scopes, outermost first.
///
/// # Errors
/// `config_invalid` for a `LOOPEXEC_SET_…` that cannot be known: it is a part of the loop.
pub(crate) fn resolve(document: &Document, scopes: &[Scope<'_>], sets: &Sets) -> Result<Resolved> {
    let mut resolved = Resolved::default();
    for scope in scopes {
        // A scope does not see itself.
        let outer = resolved.known.clone();
        for (name, value, syntax) in scope.variables() {
            let filled = match syntax {
                Some(syntax) => fill(&value.text, syntax, &mut |e| known(e, sets, &outer)),
                None => Ok(Filled { text: value.text.clone(), ..Filled::default() }),
            };
            match filled {
                Ok(filled) => {
                    resolved.unknown.remove(&name);
                    resolved.known.insert(name, filled.text);
                }
                Err(missing) => {
                    let part =
                        name.starts_with("LOOPEXEC_SET_") || name == "LOOPEXEC_ACCEPT_ISOLATION";
                    if part {
                        let what = format!("the variable {}", quote(&name));
                        return Err(error(&document.sources, &what, &value, &missing));
                    }
                    resolved.known.remove(&name);
                    resolved.unknown.insert(name, Unresolved { value, missing });
                }
            }
        }
    }
    Ok(resolved)
}

/// Returns what an expression stands for: what `--set` gave, or a literal variable.
pub(crate) fn known(
    expression: &str,
    sets: &Sets,
    variables: &BTreeMap<String, String>,
) -> Option<String> {
    if let Some(value) = sets.get(expression) {
        return Some(value.to_owned());
    }
    variables.get(expression.strip_prefix("env.")?).cloned()
}

/// Says whether an expression is nothing but a secret.
fn is_secret(expression: &str) -> bool {
    let rest = expression
        .strip_prefix("secrets.")
        .or_else(|| (expression == "github.token").then_some("token"));
    rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'))
}

/// Makes the error of an expression that is not known here, at its place, with the flag that gives it.
pub(crate) fn error(sources: &Sources, what: &str, scalar: &Scalar, missing: &Unknown) -> Error {
    let text = sources.of(scalar.at).map_or("", |source| source.text.as_str());
    let inner = At {
        line: missing.line,
        column: missing.column,
        len: missing.len,
        source: scalar.at.source,
    };
    let at = Frame::of(text, &scalar.text, scalar.at).place(inner);
    let Some(expression) = &missing.expression else {
        let sentence = format!("{what} holds an expression that does not end or has no name");
        return sources.error(at, &sentence);
    };
    let sentence =
        format!("{what} holds the expression {}, which only the platform knows", quote(expression));
    let shown = printable(expression);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let set = match shown.chars().all(plain) {
        true => format!("{shown}=…"),
        false => format!("'{}=…'", shown.replace('\'', "'\\''")),
    };
    sources.error(at, &sentence).hint(format!("say what it is: --set {set}"))
}
