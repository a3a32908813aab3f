//! Compares two trees key by key under a rule for each key, and holds what was found.

use super::{Difference, Judged, Mutable};
use serde_json::Value;
use std::collections::HashSet;
use std::hash::Hash;

/// The longest text of a value in a difference, in characters.
const MAX_SHOWN: usize = 120;
/// The most differences of one file that are kept; the rest only counts towards the verdict.
const MAX_KEPT: usize = 100;
/// How deep keys are followed.
const MAX_DEPTH: usize = 128;

/// What a difference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    Same,
    Allowed,
    Breach,
}

/// How the value at a key is judged.
#[derive(Clone, Copy)]
pub(super) enum Rule {
    /// It decides nothing about tests.
    Skip,
    /// Key by key; what is no object on both sides steers.
    Into,
    /// Any difference is a breach.
    Steers,
    /// What was not there may come; what was there stays as it is.
    Adds,
    /// A list that may grow.
    Grows,
    /// Seen and allowed.
    Notes,
    /// Judged by its two values.
    Judge(fn(Option<&Value>, Option<&Value>) -> Weight),
}

/// The differences of one file.
#[derive(Debug)]
pub(super) struct Findings {
    pub(super) mutable: Mutable,
    allowed: Vec<Difference>,
    breaches: Vec<Difference>,
}

impl Findings {
    pub(super) fn new(mutable: Mutable) -> Self {
        Self { mutable, allowed: Vec::new(), breaches: Vec::new() }
    }

    /// Takes one difference; `None` stands for absence.
    pub(super) fn add(
        &mut self,
        weight: Weight,
        key: impl Into<String>,
        before: Option<&str>,
        after: Option<&str>,
    ) {
        let list = match weight {
            Weight::Same => return,
            Weight::Allowed => &mut self.allowed,
            Weight::Breach => &mut self.breaches,
        };
        if list.len() < MAX_KEPT {
            list.push(Difference {
                key: shown(&key.into()),
                before: before.map_or_else(|| "absent".to_owned(), shown),
                after: after.map_or_else(|| "absent".to_owned(), shown),
            });
        }
    }

    /// Takes one difference of two parsed values.
    pub(super) fn add_values(
        &mut self,
        weight: Weight,
        key: impl Into<String>,
        before: Option<&Value>,
        after: Option<&Value>,
    ) {
        let (before, after) = (before.map(text_of), after.map(text_of));
        self.add(weight, key, before.as_deref(), after.as_deref());
    }

    /// Breaches win; without any difference the file is the same.
    pub(super) fn judged(self) -> Judged {
        if !self.breaches.is_empty() {
            Judged::Breach(self.breaches)
        } else if !self.allowed.is_empty() {
            Judged::Allowed(self.allowed)
        } else {
            Judged::Same
        }
    }
}

/// Cuts a text to what a sentence can carry, on one line.
fn shown(text: &str) -> String {
    let mut short = String::new();
    let mut chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    for c in chars.by_ref().take(MAX_SHOWN - 1) {
        short.push(c);
    }
    if let Some(last) = chars.next() {
        short.push(if chars.next().is_none() { last } else { '…' });
    }
    short
}

/// A value as it is shown and compared where text is needed.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Compares two trees; `rule` is asked with the keys from the top.
pub(super) fn walk(
    before: &Value,
    after: &Value,
    rule: &dyn Fn(&[&str]) -> Rule,
    findings: &mut Findings,
) {
    let mut path = Vec::new();
    descend(Some(before), Some(after), &mut path, rule, findings);
}

fn descend<'a>(
    before: Option<&'a Value>,
    after: Option<&'a Value>,
    path: &mut Vec<&'a str>,
    rule: &dyn Fn(&[&str]) -> Rule,
    findings: &mut Findings,
) {
    if before == after {
        return;
    }
    let here = if path.is_empty() { Rule::Into } else { rule(path) };
    let weight = match here {
        Rule::Skip => return,
        Rule::Into => {
            let objects = before.or(after).is_some_and(Value::is_object)
                && before.is_none_or(Value::is_object)
                && after.is_none_or(Value::is_object);
            if objects && path.len() < MAX_DEPTH {
                let (before, after) =
                    (before.and_then(Value::as_object), after.and_then(Value::as_object));
                for (key, value) in before.into_iter().flatten() {
                    path.push(key);
                    descend(Some(value), after.and_then(|a| a.get(key)), path, rule, findings);
                    path.pop();
                }
                let fresh = after.into_iter().flatten();
                for (key, value) in
                    fresh.filter(|(key, _)| before.is_none_or(|b| !b.contains_key(*key)))
                {
                    path.push(key);
                    descend(None, Some(value), path, rule, findings);
                    path.pop();
                }
                return;
            }
            Weight::Breach
        }
        Rule::Steers => Weight::Breach,
        Rule::Adds if before.is_none() => Weight::Allowed,
        Rule::Adds => Weight::Breach,
        Rule::Grows => grows(before, after),
        Rule::Notes => Weight::Allowed,
        Rule::Judge(judge) => judge(before, after),
    };
    findings.add_values(weight, path.join("."), before, after);
}

/// The entries of a list, or of a text that stands for one.
pub(super) fn entries(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => list.iter().map(text_of).collect(),
        Some(Value::String(text)) => text.lines().map(|line| line.trim().to_owned()).collect(),
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![other.to_string()],
    }
}

/// The entries of one list that are not in another.
pub(super) fn missing<'a, T: Eq + Hash>(
    list: &'a [T],
    other: &'a [T],
) -> impl Iterator<Item = &'a T> {
    let other: HashSet<&T> = other.iter().collect();
    list.iter().filter(move |entry| !other.contains(entry))
}

/// Allowed where every entry that stood there still does.
pub(super) fn grows(before: Option<&Value>, after: Option<&Value>) -> Weight {
    let (before, after) = (entries(before), entries(after));
    if before == after {
        Weight::Same
    } else if missing(&before, &after).next().is_none() {
        Weight::Allowed
    } else {
        Weight::Breach
    }
}

/// Allowed where a bar rose or came to be.
pub(super) fn rises(before: Option<&Value>, after: Option<&Value>) -> Weight {
    let number = |value: Option<&Value>| -> Option<f64> {
        match value? {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().trim_end_matches('%').parse().ok(),
            _ => None,
        }
    };
    match (before, number(before), number(after)) {
        (None, _, Some(_)) => Weight::Allowed,
        (Some(_), Some(was), Some(is)) if is >= was => Weight::Allowed,
        _ => Weight::Breach,
    }
}

/// Allowed where a switch that finds more was turned on, or was off and left to its default.
pub(super) fn turns_on(before: Option<&Value>, after: Option<&Value>) -> Weight {
    match (truth(before), truth(after)) {
        (_, Some(true)) | (Some(false), None) => Weight::Allowed,
        _ => Weight::Breach,
    }
}

/// The same for a switch that weakens.
pub(super) fn turns_off(before: Option<&Value>, after: Option<&Value>) -> Weight {
    match (truth(before), truth(after)) {
        (_, Some(false)) => Weight::Allowed,
        (_, None) if after.is_none() => Weight::Allowed,
        _ => Weight::Breach,
    }
}

fn truth(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(on) => Some(*on),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_name_the_key_and_are_short() {
        let mut findings = Findings::new(Mutable::No);
        let long = "x".repeat(1000);
        walk(&json!({}), &json!({"a": {"b": long}}), &|_| Rule::Into, &mut findings);
        let Judged::Breach(found) = findings.judged() else { panic!() };
        assert_eq!(found[0].key, "a.b");
        assert_eq!(found[0].before, "absent");
        assert_eq!(found[0].after.chars().count(), 120);
    }

    #[test]
    fn bars_rise_and_lists_grow() {
        assert_eq!(rises(Some(&json!(80)), Some(&json!("85"))), Weight::Allowed);
        assert_eq!(rises(Some(&json!(80)), Some(&json!(79.5))), Weight::Breach);
        assert_eq!(rises(Some(&json!(80)), None), Weight::Breach);
        assert_eq!(grows(Some(&json!(["a"])), Some(&json!(["b", "a"]))), Weight::Allowed);
        assert_eq!(grows(Some(&json!(["a"])), None), Weight::Breach);
        assert_eq!(turns_on(Some(&json!(true)), None), Weight::Breach);
        assert_eq!(turns_off(None, Some(&json!(true))), Weight::Breach);
    }
}
