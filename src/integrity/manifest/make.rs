//! What decides tests in makefiles, justfiles, task files and the tools that start them.

use super::plain::{normal, parse_both, presence, raw, whole};
use super::walk::{Findings, Rule, Weight, walk};
use super::{Pair, tree};

/// The most lines and rules that are compared one by one.
const MAX_ITEMS: usize = 5_000;

/// A line of a makefile, or a rule with its recipe.
#[derive(Debug, PartialEq, Eq)]
struct Item {
    /// The targets of a rule; empty for any other line.
    targets: Vec<String>,
    text: String,
}

/// Compares makefiles and justfiles: what stood there stands there still, and what came is a rule
/// for a target of its own or a variable that nothing used.
pub(super) fn rules(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_none() {
        // `GNUmakefile` outranks the others.
        let outranks = pair.name == "GNUmakefile" || pair.name == "makefile";
        whole(pair, if outranks { Weight::Breach } else { Weight::Allowed }, findings);
        return;
    }
    let Some(after) = pair.after else {
        whole(pair, Weight::Breach, findings);
        return;
    };
    let before = pair.before.unwrap_or_default();
    let (old, new) = (items(before), items(after));
    if old.len().max(new.len()) > MAX_ITEMS {
        raw(pair, findings);
        return;
    }
    let text = String::from_utf8_lossy(before);
    let known = |target: &String| old.iter().any(|item| item.targets.contains(target));
    let mut kept = old.iter().peekable();
    let mut fresh = Vec::new();
    for item in &new {
        match kept.next_if(|next| *next == item || grows(next, item)) {
            Some(next) if next == item => {}
            Some(next) => {
                let name = item.targets.first().map_or("content", String::as_str);
                findings.add(Weight::Allowed, name, Some(&next.text), Some(&item.text));
            }
            None => fresh.push(item),
        }
    }
    let left: Vec<&Item> = kept.collect();
    let changed = !left.is_empty();
    // What stands there still is told only where nothing but the order differs.
    let ordered = left.iter().all(|item| new.contains(item));
    for item in left.into_iter().filter(|item| ordered || !new.contains(item)) {
        let name = item.targets.first().map_or("content", String::as_str);
        let now = new.iter().find(|one| !one.targets.is_empty() && one.targets == item.targets);
        findings.add(Weight::Breach, name, Some(&item.text), now.map(|one| one.text.as_str()));
    }
    if changed {
        return;
    }
    for item in fresh {
        let free = if item.targets.is_empty() {
            unused_variable(&item.text, &text)
        } else {
            item.targets.iter().all(|target| {
                target == ".PHONY"
                    || (!known(target)
                        && !target.starts_with('.')
                        && !target.contains('%')
                        && !target.contains('$'))
            })
        };
        let name = item.targets.first().map_or("content", String::as_str);
        let weight = if free { Weight::Allowed } else { Weight::Breach };
        findings.add(weight, name, None, Some(&item.text));
    }
}

/// Whether a list of files, in a variable or before a recipe, only got more names.
fn grows(old: &Item, new: &Item) -> bool {
    let parts = |item: &Item| {
        let (head, recipe) = match item.text.split_once('\n') {
            Some((head, recipe)) => (head.to_owned(), recipe.to_owned()),
            None => (item.text.clone(), String::new()),
        };
        let mark = if item.targets.is_empty() { '=' } else { ':' };
        let (name, list) = head.split_once(mark)?;
        let words: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
        Some((name.trim().to_owned(), words, recipe))
    };
    let (Some((old_name, was, old_recipe)), Some((name, words, recipe))) = (parts(old), parts(new))
    else {
        return false;
    };
    let is_file = |word: &String| {
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let ending = word.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
        plain && !word.starts_with('-') && ending.is_some_and(|(stem, _)| !stem.is_empty())
    };
    let mut left = was.iter().peekable();
    let more: Vec<&String> =
        words.iter().filter(|word| left.next_if(|next| next == word).is_none()).collect();
    old_name == name
        && old_recipe == recipe
        && old.targets == new.targets
        && left.peek().is_none()
        && was.iter().any(is_file)
        && more.into_iter().all(is_file)
}

/// An assignment to a name that no line used and that no tool reads by itself.
fn unused_variable(line: &str, text: &str) -> bool {
    let Some((name, _)) = line.split_once('=') else { return false };
    let name = name.trim_end_matches([':', '?', '+', '!', ' ']);
    let plain =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let read = [
        "SHELL",
        "MAKEFLAGS",
        "MAKE",
        "VPATH",
        "GNUMAKEFLAGS",
        "MAKEFILES",
        "CC",
        "CXX",
        "PATH",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "LDFLAGS",
        "LDLIBS",
    ];
    plain
        && !read.contains(&name)
        && ![
            format!("$({name}"),
            format!("${{{name}"),
            format!("{{{{{name}"),
            format!("{{{{ {name}"),
        ]
        .iter()
        .any(|used| text.contains(used.as_str()))
}

fn items(bytes: &[u8]) -> Vec<Item> {
    let text = String::from_utf8_lossy(&normal(bytes)).replace("\\\n", " ");
    let mut items: Vec<Item> = Vec::new();
    let mut in_rule = false;
    for line in text.lines() {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let indented = line.starts_with([' ', '\t']);
        if words.is_empty() || (words.starts_with('#') && !(indented && in_rule)) {
            continue;
        }
        if indented
            && in_rule
            && let Some(item) = items.last_mut()
        {
            // A comment within a recipe is a line of its shell, and no more.
            if !words.starts_with('#') {
                item.text.push('\n');
                item.text.push_str(&words);
            }
            continue;
        }
        let targets = targets(&words);
        in_rule = !targets.is_empty();
        items.push(Item { targets, text: words });
    }
    items
}

/// The targets before a colon that assigns nothing.
fn targets(line: &str) -> Vec<String> {
    let Some(at) = line.find(':') else { return Vec::new() };
    let assigns = line.find('=').is_some_and(|equals| equals < at)
        || line[at..].starts_with(":=")
        || line[at..].starts_with("::=");
    // `test: CC = x` sets a variable for a target.
    let word = line.split(' ').next().unwrap_or("");
    if assigns
        || matches!(
            word,
            "export" | "override" | "define" | "include" | "-include" | "set" | "import" | "mod"
        )
    {
        return Vec::new();
    }
    line[..at].split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Compares `Taskfile.yml`.
pub(super) fn taskfile(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_none() {
        whole(pair, Weight::Allowed, findings);
        return;
    }
    if let Some((before, after)) = parse_both(pair, tree::yaml, findings) {
        let rule = |path: &[&str]| match path {
            ["tasks"] => Rule::Into,
            ["tasks", _] => Rule::Adds,
            _ => Rule::Into,
        };
        walk(&before, &after, &rule, findings);
    }
}

/// Compares `mise.toml`.
pub(super) fn mise(pair: &Pair<'_>, findings: &mut Findings) {
    if let Some((before, after)) = parse_both(pair, tree::toml, findings) {
        let rule = |path: &[&str]| match path {
            ["tasks"] => Rule::Into,
            ["tasks", _] => Rule::Adds,
            _ => Rule::Into,
        };
        walk(&before, &after, &rule, findings);
    }
}

/// Compares `.pre-commit-config.yaml`: repositories and hooks may come.
pub(super) fn pre_commit(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_none() {
        whole(pair, Weight::Allowed, findings);
        return;
    }
    if pair.after.is_none() {
        presence(pair, findings);
        return;
    }
    let Some((mut before, mut after)) = parse_both(pair, tree::yaml, findings) else { return };
    for file in [&mut before, &mut after] {
        let Some(repositories) = file.get_mut("repos") else { continue };
        *repositories = tree::by_name(repositories, &["repo"]);
        for (_, repository) in repositories.as_object_mut().into_iter().flatten() {
            if let Some(hooks) = repository.get_mut("hooks") {
                *hooks = tree::by_name(hooks, &["id"]);
            }
        }
    }
    let rule = |path: &[&str]| match path {
        ["repos"] | ["repos", _, "hooks"] => Rule::Into,
        ["repos", _] => {
            Rule::Judge(|before, _| if before.is_none() { Weight::Allowed } else { Weight::Breach })
        }
        _ => Rule::Into,
    };
    walk(&before, &after, &rule, findings);
}

#[cfg(test)]
mod tests {
    use super::super::{Judged, Mutable, compare};

    const BASE: &str =
        ".PHONY: test\nPY ?= python3\ntest: build\n\t$(PY) -m pytest\nbuild:\n\tcc a.c\n";

    fn judged(after: &str) -> Judged {
        compare("Makefile", Some(BASE.as_bytes()), Some(after.as_bytes()), Mutable::No)
    }

    #[test]
    fn rules_of_their_own_and_comments_are_free() {
        let more = format!("# c\n{BASE}\n.PHONY: docs\nOUT = out\ndocs:\n\tmkdocs $(OUT)\n");
        assert!(matches!(judged(&more), Judged::Allowed(_)), "{:?}", judged(&more));
        assert_eq!(judged(&BASE.replace('\n', "\r\n")), Judged::Same);
    }

    #[test]
    fn changed_rules_and_steering_lines_are_a_breach() {
        for after in [
            BASE.replace("-m pytest", "-m pytest || true"),
            BASE.replace("\t$(PY) -m pytest\n", "\t@true\n"),
            format!("{BASE}test:\n\ttrue\n"),
            format!("{BASE}PY = true\n"),
            format!("SHELL = /bin/true\n{BASE}"),
            format!("{BASE}.IGNORE:\n"),
            format!("{BASE}include more.mk\n"),
            format!("{BASE}export PYTEST_ADDOPTS = -k none\n"),
            format!("{BASE}%: ; true\n"),
            format!("{BASE}test: PY = true\n"),
        ] {
            assert!(matches!(judged(&after), Judged::Breach(_)), "{after}");
        }
    }
}
