//! What decides tests in Go's module and workspace files.

use super::packages::{Age, Ecosystem, Entry, Role, compare, role};
use super::plain::whole;
use super::walk::{Findings, Weight, missing};
use super::{Pair, tree};
use serde_json::Value;

/// The most directives that are compared one by one.
const MAX_DIRECTIVES: usize = 5_000;

/// Directives of a file: its word and its arguments, and whether it is marked as indirect.
#[derive(Debug, PartialEq)]
struct Directive {
    word: String,
    rest: String,
    indirect: bool,
}

fn directives(bytes: Option<&[u8]>) -> Option<Vec<Directive>> {
    let Some(bytes) = bytes else { return Some(Vec::new()) };
    let mut all = Vec::new();
    let mut block: Option<String> = None;
    for raw in tree::text(bytes)?.lines() {
        let (line, comment) = raw.split_once("//").unwrap_or((raw, ""));
        let words: Vec<&str> = line.split_whitespace().collect();
        let indirect = comment.trim() == "indirect";
        match (&block, words.as_slice()) {
            (_, []) => {}
            (Some(_), [")"]) => block = None,
            (Some(word), words) => {
                all.push(Directive { word: word.clone(), rest: words.join(" "), indirect });
            }
            (None, [word, "("]) => block = Some((*word).to_owned()),
            (None, [word, rest @ ..]) => {
                all.push(Directive { word: (*word).to_owned(), rest: rest.join(" "), indirect });
            }
        }
    }
    (block.is_none() && all.len() <= MAX_DIRECTIVES).then_some(all)
}

/// Compares `go.mod` and `go.work`.
pub(super) fn modules(pair: &Pair<'_>, findings: &mut Findings) {
    // A new module cuts its folder out of the one around it, tests included.
    if pair.before.is_some() != pair.after.is_some() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let (Some(before), Some(after)) = (directives(pair.before), directives(pair.after)) else {
        whole(pair, Weight::Breach, findings);
        return;
    };
    let required = |all: &[Directive]| -> Vec<Entry> {
        let requires = all.iter().filter(|one| one.word == "require");
        requires
            .filter_map(|one| {
                let (name, version) = one.rest.split_once(' ')?;
                Some(Entry {
                    table: "require".to_owned(),
                    name: name.to_owned(),
                    spec: Value::from(version),
                })
            })
            .collect()
    };
    let (old, mut new) = (required(&before), required(&after));
    // Where a module comes from that was not there before changes nothing for those that were.
    let came = |module: &str| {
        let has = |all: &[Entry]| all.iter().any(|one| one.name == module);
        has(&new) && !has(&old) && role(Ecosystem::Go, module) == Role::Plain
    };
    let arrivals: Vec<String> = after
        .iter()
        .filter(|one| one.word == "replace")
        .filter(|one| one.rest.split(' ').next().is_some_and(came))
        .map(|one| one.rest.clone())
        .collect();
    // What no package of this module names is raised by adding one that needs more of it.
    for entry in &mut new {
        let was = old.iter().find(|one| one.name == entry.name && one.spec != entry.spec);
        let indirect = before.iter().any(|one| {
            one.word == "require" && one.indirect && one.rest.split(' ').next() == Some(&entry.name)
        });
        if let Some(was) = was
            && indirect
            && role(Ecosystem::Go, &entry.name) == Role::Plain
            && order(&entry.spec) > order(&was.spec)
        {
            let key = format!("require.{}", entry.name);
            findings.add_values(Weight::Allowed, key, Some(&was.spec), Some(&entry.spec));
            entry.spec = was.spec.clone();
        }
    }
    compare(Ecosystem::Go, Age::Old, &old, &new, findings);
    let rest = |all: &'_ [Directive]| -> Vec<(String, String)> {
        let others = all.iter().filter(|one| one.word != "require");
        others.map(|one| (one.word.clone(), one.rest.clone())).collect()
    };
    let (before, after) = (rest(&before), rest(&after));
    for (word, text) in missing(&before, &after) {
        let weight = if word == "retract" { Weight::Allowed } else { Weight::Breach };
        findings.add(weight, word.as_str(), Some(text), None);
    }
    for (word, text) in missing(&after, &before) {
        let weight = match word.as_str() {
            "use" | "retract" | "tool" => Weight::Allowed,
            "replace" if arrivals.contains(text) => Weight::Allowed,
            _ => Weight::Breach,
        };
        findings.add(weight, word.as_str(), None, Some(text));
    }
}

/// A version's numbers in order; what is no number ends them.
fn order(version: &Value) -> Vec<u64> {
    let text = version.as_str().unwrap_or("").trim_start_matches('v');
    text.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

/// Compares `go.sum`: a digest that changed is a breach; `go mod tidy` adds and drops lines.
pub(super) fn sums(pair: &Pair<'_>, findings: &mut Findings) {
    let lines = |bytes: Option<&[u8]>| -> std::collections::BTreeMap<String, String> {
        let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        text.lines()
            .filter_map(|line| line.trim().rsplit_once(' '))
            .map(|(name, digest)| (name.to_owned(), digest.to_owned()))
            .collect()
    };
    let (before, after) = (lines(pair.before), lines(pair.after));
    for (name, was) in &before {
        match after.get(name) {
            Some(is) if is == was => {}
            Some(is) => findings.add(Weight::Breach, name.as_str(), Some(was), Some(is)),
            None => findings.add(Weight::Allowed, name.as_str(), Some(was), None),
        }
    }
    for (name, is) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        findings.add(Weight::Allowed, name.as_str(), None, Some(is));
    }
}
