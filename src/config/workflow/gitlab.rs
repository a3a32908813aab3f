//! The loops of a GitLab file: the variable `LOOPEXEC_LOOP` of a job or of all, and our component.

use super::candidate::{Around, Candidate, LoopText};
use super::document::{Document, entries, get, input, items, scalar, word};
use super::expression::Syntax;
use super::variables::{Scope, gitlab_value};
use crate::config::diagnostic::quote;
use crate::config::tree::{MapKey, Node, Value};
use crate::error::Result;
use std::collections::HashSet;

/// The variable that holds a loop.
pub(crate) const VARIABLE: &str = "LOOPEXEC_LOOP";

/// Keys at the top of a file that are no jobs.
const RESERVED: [&str; 13] = [
    "after_script",
    "before_script",
    "cache",
    "default",
    "image",
    "include",
    "inputs",
    "services",
    "spec",
    "stages",
    "types",
    "variables",
    "workflow",
];

/// Most levels of `extends`, as GitLab has it.
const CHAIN: usize = 11;

/// Most jobs that one job is made of; a file that needs more was made to be slow.
const LINKS: usize = 100;

/// Finds the loops of a file.
///
/// # Errors
/// `config_invalid` for a loop that is no text, or a component that is given two.
pub(crate) fn candidates(document: &Document) -> Result<Vec<Candidate<'_>>> {
    let mut all = Vec::new();
    let global = document.top("variables");
    let shared = global.and_then(|variables| entry(variables, VARIABLE));
    for (key, job) in jobs(document) {
        if key.text.starts_with('.') {
            continue;
        }
        let chain = chain(document, job);
        let own = chain.iter().rev().find_map(|link| {
            get(link, "variables").and_then(|variables| entry(variables, VARIABLE))
        });
        // A loop that every job sees belongs to those that run loopexec.
        let found = match (own, shared) {
            (Some(own), _) => own,
            (None, Some(shared)) if runs_loopexec(document, &chain) => shared,
            _ => continue,
        };
        let mut candidate = Candidate::at(found.0.at);
        candidate.job = Some(key.text.clone());
        candidate.title = Some(key.text.clone());
        let own = chain.iter().filter_map(|link| get(link, "variables"));
        candidate.scopes = global.into_iter().chain(own).map(Scope::Variables).collect();
        candidate.text = Some(text_of(document, found.1)?);
        candidate.around = Around::Chain(chain);
        all.push(candidate);
    }
    if let Some((key, value)) = shared.filter(|_| all.is_empty()) {
        let mut candidate = Candidate::at(key.at);
        candidate.scopes = global.into_iter().map(Scope::Variables).collect();
        candidate.text = Some(text_of(document, value)?);
        all.push(candidate);
    }
    add_components(document, global, &mut all)?;
    Ok(all)
}

fn entry<'a>(node: &'a Node, key: &str) -> Option<(&'a MapKey, &'a Node)> {
    entries(node).iter().find(|(found, _)| found.text == key).map(|(key, value)| (key, value))
}

/// Returns the jobs of a file, hidden ones too.
pub(super) fn jobs(document: &Document) -> impl Iterator<Item = &(MapKey, Node)> {
    entries(&document.root).iter().filter(|(key, job)| {
        matches!(job.value, Value::Map(_)) && !RESERVED.contains(&key.text.as_str())
    })
}

/// Returns what a job is made of: what it extends, in order, and itself last.
pub(super) fn chain<'a>(document: &'a Document, job: &'a Node) -> Vec<&'a Node> {
    let mut chain = vec![job];
    let mut seen: HashSet<*const Node> = HashSet::from([std::ptr::from_ref(job)]);
    let mut pending: Vec<(usize, &Node)> = vec![(0, job)];
    // A list's last entry has the last word, so it stands nearest to the job.
    while let Some((depth, link)) = pending.pop() {
        let Some(extends) = get(link, "extends").filter(|_| depth < CHAIN) else { continue };
        let names: Vec<String> = match &extends.value {
            Value::List(list) => list.iter().filter_map(scalar).map(|name| name.text).collect(),
            _ => scalar(extends).map(|name| name.text).into_iter().collect(),
        };
        for name in names.iter().rev() {
            if let Some(parent) = document.top(name)
                && chain.len() < LINKS
                && seen.insert(std::ptr::from_ref(parent))
            {
                chain.push(parent);
                pending.push((depth + 1, parent));
            }
        }
    }
    chain.reverse();
    chain
}

/// Returns a key of a job: its own, what it extends, the file's default.
pub(super) fn inherited<'a>(
    document: &'a Document,
    chain: &[&'a Node],
    key: &str,
) -> Option<&'a Node> {
    let own = chain.iter().rev().find_map(|link| get(link, key));
    own.or_else(|| document.top("default").and_then(|default| get(default, key)))
        .or_else(|| document.top(key))
}

/// Returns the lines of a script, lists in lists laid flat.
pub(super) fn script_lines(node: &Node) -> Vec<String> {
    let mut lines = Vec::new();
    let mut pending = vec![node];
    while let Some(node) = pending.pop() {
        match &node.value {
            Value::List(list) => pending.extend(list.iter().rev()),
            _ => lines.extend(scalar(node).map(|line| line.text)),
        }
    }
    lines
}

fn runs_loopexec(document: &Document, chain: &[&Node]) -> bool {
    inherited(document, chain, "script")
        .is_some_and(|script| script_lines(script).iter().any(|line| line.contains("loopexec")))
}

fn text_of(document: &Document, node: &Node) -> Result<LoopText> {
    match gitlab_value(node) {
        Some((scalar, syntax)) => Ok(LoopText { scalar, syntax }),
        None => {
            let sentence = format!(
                "`{VARIABLE}` must be a text, or a map with `value`, here is {}",
                node.value.name()
            );
            Err(document
                .error(node.at, &sentence)
                .hint(format!("write `{VARIABLE}: {{value: …, expand: false}}`")))
        }
    }
}

/// Returns what GitLab does before the script of a job.
pub(super) fn not_run(document: &Document, chain: &[&Node]) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(image) = inherited(document, chain, "image") {
        let name = scalar(image).map(|s| s.text).or_else(|| word(image, "name"));
        all.push(format!("image {} (line {})", quote(&name.unwrap_or_default()), image.at.line));
    }
    for service in inherited(document, chain, "services").map(items).unwrap_or_default() {
        let name = scalar(service).map(|s| s.text).or_else(|| word(service, "name"));
        all.push(format!(
            "service {} (line {})",
            quote(&name.unwrap_or_default()),
            service.at.line
        ));
    }
    let list = |key| inherited(document, chain, key).map(script_lines).unwrap_or_default();
    let script = list("script");
    let ours = script.iter().position(|line| line.contains("loopexec")).unwrap_or(0);
    for line in list("before_script").iter().chain(script.iter().take(ours)) {
        all.push(format!("command {}", quote(line.trim().lines().next().unwrap_or_default())));
    }
    all
}

/// Finds our component among what a file includes.
fn add_components<'a>(
    document: &'a Document,
    global: Option<&'a Node>,
    all: &mut Vec<Candidate<'a>>,
) -> Result<()> {
    let Some(include) = document.top("include") else { return Ok(()) };
    let included = match &include.value {
        Value::List(list) => list.iter().collect(),
        _ => vec![include],
    };
    for one in included {
        if !word(one, "component").is_some_and(|path| is_ours(&path)) {
            continue;
        }
        let mut candidate = Candidate::at(one.at);
        candidate.scopes = global.into_iter().map(Scope::Variables).collect();
        let Some(inputs) = get(one, "inputs") else {
            all.push(candidate);
            continue;
        };
        let given = |key: &str| -> Result<Option<super::document::Scalar>> {
            let node = input(inputs, key).or_else(|| input(inputs, &key.replace('-', "_")));
            match node {
                Some(node) => document
                    .scalar(key, node)
                    .map(|scalar| Some(scalar).filter(|scalar| !scalar.text.trim().is_empty())),
                None => Ok(None),
            }
        };
        let named = given("job-name")?.or(given("job")?).map(|name| name.text);
        candidate.job.clone_from(&named);
        candidate.title = named;
        candidate.config = given("config")?;
        candidate.folder = given("working-directory")?;
        let text = given("loop")?;
        if let (Some(_), Some(config)) = (&text, &candidate.config) {
            let sentence = "the component is given both `loop` and `config`: two loops, of which one would not run";
            return Err(document.error(config.at, sentence).hint("keep one of them"));
        }
        candidate.text = text.map(|scalar| LoopText { scalar, syntax: Some(Syntax::Brackets) });
        all.push(candidate);
    }
    Ok(())
}

/// Says whether a component is ours: `HOST/…/loopexec@VERSION`.
fn is_ours(path: &str) -> bool {
    let path = path.rsplit_once('@').map_or(path, |(path, _)| path);
    path.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case("loopexec"))
}
