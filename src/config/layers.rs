//! The layers of a loop: flags over the environment over the file over the defaults.
//!
//! Which file is read is the duty of `search`; reading one layer that of `settings`.

use super::diagnostic::{At, Medium, Sources, nearest, quote};
use super::keys::{self, Item, Kind, Since};
use super::kind::{Reader, Val};
use super::providers;
use super::settings::{Setting, Settings, read_at};
use super::tree::{self, Node, Value};
use crate::error::{Error, Kind as ErrorKind, Result};
use std::ffi::OsString;

/// What every override of a key starts with.
const PREFIX: &str = "LOOPEXEC_SET_";

/// The accept list's own variable.
const ACCEPT: &str = "LOOPEXEC_ACCEPT_ISOLATION";

/// The groups that the environment may not touch: they are what a pull request must not choose.
const CLOSED: [&str; 3] = ["check", "guards", "isolation"];

/// The source index of a default: it names no text.
pub(crate) const DEFAULT: usize = usize::MAX;

/// Lays the environment's overrides over the settings; an empty value counts as not set.
///
/// # Errors
/// `config_invalid` for a name that is no key, a closed group, a value that is not UTF-8 or does not fit its key.
pub(crate) fn apply_env(
    env: &[(OsString, OsString)],
    sources: &mut Sources,
    settings: &mut Settings,
) -> Result<()> {
    let mut sorted: Vec<&(OsString, OsString)> = env.iter().collect();
    // A group's own override (`…_EXEC`) comes before those of its keys (`…_EXEC__TIMEOUT`).
    sorted.sort();
    for (name, value) in sorted {
        let Some(name) = name.to_str() else {
            let lossy = name.to_string_lossy();
            if lossy.starts_with(PREFIX) {
                return Err(Error::new(
                    ErrorKind::ConfigInvalid,
                    format!("{}: the variable's name is not UTF-8", quote(&lossy)),
                ));
            }
            continue;
        };
        if name != ACCEPT && !name.starts_with(PREFIX) {
            continue;
        }
        let Some(value) = value.to_str() else {
            return Err(Error::new(
                ErrorKind::ConfigInvalid,
                format!("{name}: the value is not UTF-8"),
            ));
        };
        if value.trim().is_empty() {
            continue;
        }
        let path = if name == ACCEPT { "isolation.accept".to_owned() } else { path_of(name)? };
        let source = sources.add(name, Medium::Env, value);
        apply(&path, value, source, sources, settings)?;
    }
    Ok(())
}

/// Returns the dotted key that a variable's name stands for.
fn path_of(name: &str) -> Result<String> {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    let path = rest.to_ascii_lowercase().replace("__", ".");
    let top = path.split('.').next().unwrap_or_default();
    if CLOSED.contains(&top) {
        let error = Error::new(
            ErrorKind::ConfigInvalid,
            format!("{name}: `{top}` cannot be set from the environment"),
        );
        return Err(match top {
            "isolation" => error.hint(format!("only the accept list can: `{ACCEPT}`")),
            _ => error.hint("write it in the loop file"),
        });
    }
    let known = keys::find(&path).is_some() || path == "model" || keys::is_command(&path);
    if known && rest.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
        return Ok(path);
    }
    let error =
        Error::new(ErrorKind::ConfigInvalid, format!("{}: there is no such key", quote(name)));
    let all = keys::all();
    let near =
        if known { Some(path.as_str()) } else { nearest(&path, all.iter().map(|key| key.path)) };
    Err(match near {
        Some(near) => error.hint(format!("did you mean `{}`?", variable(near))),
        None => error.hint(format!(
            "the variable of a key is `{}`, `__` stands for a dot",
            variable("limits.time")
        )),
    })
}

/// Returns the variable that overrides a key.
pub(crate) fn variable(path: &str) -> String {
    format!("{PREFIX}{}", path.to_ascii_uppercase().replace('.', "__"))
}

/// Lays the flags over the settings; each is (dotted key, value, flag as typed). A list's flags add up.
///
/// # Errors
/// `config_invalid` for a value that does not fit its key.
pub(crate) fn apply_flags(
    flags: &[(String, String, String)],
    sources: &mut Sources,
    settings: &mut Settings,
) -> Result<()> {
    let mut done: Vec<&str> = Vec::new();
    for (path, value, flag) in flags {
        if done.contains(&path.as_str()) {
            continue;
        }
        done.push(path);
        let list =
            matches!(keys::find(path).map(|key| key.kind), Some(Kind::Words(_) | Kind::Texts(..)));
        let same = || flags.iter().filter(|other| other.0 == *path).map(|other| other.1.as_str());
        let value = if list {
            same().collect::<Vec<_>>().join(",")
        } else {
            same().next_back().unwrap_or(value).to_owned()
        };
        let source = sources.add(flag, Medium::Flag, &value);
        apply(path, &value, source, sources, settings)?;
    }
    Ok(())
}

/// Reads one override and lays it over the settings.
fn apply(
    path: &str,
    text: &str,
    source: usize,
    sources: &Sources,
    settings: &mut Settings,
) -> Result<()> {
    let node = node_of(path, text, source, sources)?;
    let mut layer = Settings::new();
    read_at(sources, &node, path, node.at, &mut layer)?;
    if path == "model" {
        settings.retain(|key, _| key != "model" && !key.starts_with("model."));
    }
    if keys::is_command(path) {
        settings.remove(&format!("{path}.shell"));
    }
    settings.extend(layer);
    Ok(())
}

/// Reads the text of an override: texts are taken as they are, lists may be written with commas, all else is YAML.
fn node_of(path: &str, text: &str, source: usize, sources: &Sources) -> Result<Node> {
    let at = At {
        source,
        line: 1,
        column: 1,
        len: text.lines().next().unwrap_or("").chars().count().max(1),
    };
    let verbatim = Node { value: Value::Text(text.to_owned()), at };
    let Some(key) = keys::find(path) else {
        if path == "model" || keys::is_command(path) {
            return Ok(verbatim);
        }
        return Err(Error::new(
            ErrorKind::Internal,
            format!("{} is no key that can be set", quote(path)),
        ));
    };
    match key.kind {
        Kind::Slug
        | Kind::Text
        | Kind::Folder
        | Kind::Provider
        | Kind::ModelId
        | Kind::Word(_)
        | Kind::Duration
        | Kind::Size(_)
        | Kind::Money
        | Kind::Local
        | Kind::Run => Ok(verbatim),
        Kind::Words(_) | Kind::Texts(Item::Variable, _) if !text.trim_start().starts_with('[') => {
            let words = text.split([',', ' ', '\n']).filter(|word| !word.is_empty());
            let items = words.map(|word| Node { value: Value::Text(word.to_owned()), at });
            Ok(Node { value: Value::List(items.collect()), at })
        }
        _ => Ok(tree::parse(sources, source)?.unwrap_or(verbatim)),
    }
}

/// Fills in the default of every key that this release knows and that has one.
pub(crate) fn apply_defaults(settings: &mut Settings) -> Result<()> {
    for key in keys::all() {
        let Some(text) = key.default.filter(|_| matches!(key.since, Since::Now)) else { continue };
        if settings.contains_key(key.path) {
            continue;
        }
        let mut sources = Sources::default();
        let source = sources.add(format!("default of {}", key.path), Medium::Default, text);
        let Some(node) = tree::parse(&sources, source)? else { continue };
        let val = Reader { sources: &sources, path: key.path }.read(&key.kind, &node)?;
        let at = At { source: DEFAULT, ..At::default() };
        settings.insert(key.path.to_owned(), Setting { val, at });
    }
    reach_the_model(settings);
    Ok(())
}

/// A loop that lists nothing reaches where its model is served, if it has zones.
fn reach_the_model(settings: &mut Settings) {
    let Some(Val::Text(provider)) = settings.get("model.provider").map(|setting| &setting.val)
    else {
        return;
    };
    let address = providers::address_of(provider);
    let none = matches!(
        settings.get("isolation.backend").map(|setting| &setting.val),
        Some(Val::Word("none"))
    );
    let egress = settings.get_mut("isolation.egress").filter(|egress| egress.at.source == DEFAULT);
    if let (Some(egress), Some(address), false) = (egress, address, none) {
        egress.val = Val::Texts(vec![address.to_owned()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_open_key_has_a_variable_and_no_closed_one_has() {
        for key in keys::all() {
            let top = key.path.split('.').next().unwrap_or_default();
            let name = variable(key.path);
            assert_eq!(
                path_of(&name).ok(),
                (!CLOSED.contains(&top)).then(|| key.path.to_owned()),
                "{name}"
            );
        }
    }

    #[test]
    fn every_default_fits_its_own_kind() {
        let mut settings = Settings::new();
        assert!(apply_defaults(&mut settings).is_ok());
        let wanted = keys::all()
            .iter()
            .filter(|key| key.default.is_some() && matches!(key.since, Since::Now))
            .count();
        assert_eq!(settings.len(), wanted);
    }
}
