//! What decides tests in Bundler's `Gemfile` and RSpec's options.

use super::Pair;
use super::packages::{Ecosystem, Entry, compare};
use super::plain::whole;
use super::walk::{Findings, Weight, missing};
use serde_json::Value;

/// Compares `Gemfile` line by line: gems by name, all else as it stands.
pub(super) fn gemfile(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.after.is_none() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let (old_lines, old) = read(pair.before);
    let (new_lines, new) = read(pair.after);
    compare(Ecosystem::Ruby, pair.age(), &old, &new, findings);
    for line in missing(&old_lines, &new_lines) {
        findings.add(Weight::Breach, "content", Some(line), None);
    }
    for line in missing(&new_lines, &old_lines) {
        findings.add(Weight::Breach, "content", None, Some(line));
    }
}

fn read(bytes: Option<&[u8]>) -> (Vec<String>, Vec<Entry>) {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let (mut lines, mut gems) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or(line).replace('"', "'");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() || line == "end" || line.starts_with('#') {
            continue;
        }
        // A group is only where a gem stands.
        if line.starts_with("group ") && line.ends_with(" do") {
            continue;
        }
        let gem = line.strip_prefix("gem ").or_else(|| line.strip_prefix("gem("));
        match gem.and_then(|gem| gem.trim().strip_prefix('\'')?.split_once('\'')) {
            Some((name, spec)) if !spec.contains(';') => gems.push(Entry {
                table: "gem".to_owned(),
                name: name.to_owned(),
                spec: Value::from(spec.trim_start_matches(',').trim_end_matches(')')),
            }),
            _ => lines.push(line),
        }
    }
    (lines, gems)
}

/// Compares `.rspec`: how results are printed is free.
pub(super) fn rspec(pair: &Pair<'_>, findings: &mut Findings) {
    let options = |bytes: Option<&[u8]>| -> Vec<String> {
        let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    };
    let (before, after) = (options(pair.before), options(pair.after));
    let weight = |line: &str| {
        let printed = ["--color", "--colour", "--force-color", "--no-color", "--format", "-f", "--warnings"]
            .iter()
            .any(|option| line.starts_with(option))
            // What `rspec --init` writes.
            || line == "--require spec_helper";
        if printed && !line.split(' ').skip(2).any(|word| word.starts_with('-')) {
            Weight::Allowed
        } else {
            Weight::Breach
        }
    };
    for line in missing(&after, &before) {
        findings.add(weight(line), "options", None, Some(line));
    }
    for line in missing(&before, &after) {
        findings.add(weight(line), "options", Some(line), None);
    }
}
