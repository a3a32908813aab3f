//! Matches the tests of two states and tells which are gone and which got weaker.
//!
//! Moved, renamed, split, merged and parametrised tests and extracted helpers are matches. What is not
//! certain is not reported: the run over the tests of t0 decides, and a false alarm stops honest work.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Scan, TestItem};

/// Where a test stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// As given to [`compare`].
    pub file: String,
    /// From outside in.
    pub containers: Vec<String>,
    /// The test's own name.
    pub name: String,
    /// From 1.
    pub line: u32,
}

/// How two states differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Tests that are now in another place or have another name: as they were and as they are.
    pub same: Vec<(At, At)>,
    /// Tests that are gone.
    pub lost: Vec<At>,
    /// Tests that are there and demand less; at most one entry of a kind for a test.
    pub weakened: Vec<Weakened>,
}

/// A test that demands less than before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakened {
    /// As it is now.
    pub at: At,
    /// As it was.
    pub was: At,
    /// In what way.
    pub kind: Weakening,
    /// Short: `3 assertions`, `no marker`.
    pub before: String,
    /// Short: `1 assertion`, `skip`.
    pub after: String,
}

/// The ways in which a test gets weaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Weakening {
    /// It is skipped or turned round.
    Marker,
    /// It asserts less.
    Assertions,
    /// What fails in it is caught and forgotten.
    Swallowed,
}

/// One side of the comparison, flat.
struct Side<'scan> {
    items: Vec<(&'scan str, &'scan TestItem)>,
    broken: BTreeMap<&'scan str, bool>,
    helpers: BTreeMap<&'scan str, u32>,
}

impl<'scan> Side<'scan> {
    fn new(scans: &'scan [(String, Scan)]) -> Self {
        let mut helpers: BTreeMap<&str, u32> = BTreeMap::new();
        for (name, count) in scans.iter().flat_map(|(_, scan)| &scan.helpers) {
            let entry = helpers.entry(name).or_default();
            *entry = (*entry).max(*count);
        }
        Self {
            items: scans
                .iter()
                .flat_map(|(file, scan)| scan.items.iter().map(|item| (file.as_str(), item)))
                .collect(),
            broken: scans.iter().map(|(file, scan)| (file.as_str(), scan.broken)).collect(),
            helpers,
        }
    }

    fn at(&self, index: usize) -> At {
        let (file, item) = self.items[index];
        At {
            file: file.to_owned(),
            containers: item.containers.clone(),
            name: item.name.clone(),
            line: item.line,
        }
    }

    fn is_broken(&self, index: usize) -> bool {
        self.broken.get(self.items[index].0).copied().unwrap_or_default()
    }
}

struct Matching<'scan> {
    before: Side<'scan>,
    after: Side<'scan>,
    /// For each item of t0 what became of it.
    became: Vec<Vec<usize>>,
    /// Whether an item of now is the whole continuation of one of t0.
    taken: Vec<bool>,
    /// Checks and literals of now that no matched item of t0 had, by item.
    spare: Vec<Spare>,
    /// The items of now by a check that they have to spare: a test of t0 is not held against all of them.
    spared: HashMap<u64, BTreeSet<usize>>,
    near: Near<'scan>,
}

/// The items of now by what may make them the place where a test of t0 went on.
#[derive(Default)]
struct Near<'scan> {
    by_file: HashMap<&'scan str, Vec<usize>>,
    by_name: HashMap<&'scan str, Vec<usize>>,
    /// Tables by each name that they call.
    by_call: HashMap<&'scan str, Vec<usize>>,
}

impl<'scan> Near<'scan> {
    fn new(after: &Side<'scan>) -> Self {
        let mut near = Self::default();
        for (now, (file, item)) in after.items.iter().enumerate() {
            near.by_file.entry(base_name(file)).or_default().push(now);
            near.by_name.entry(&item.name).or_default().push(now);
            for name in item.calls.iter().filter(|_| item.table) {
                near.by_call.entry(name).or_default().push(now);
            }
        }
        near
    }

    /// All that may be related to a test of t0, in order.
    fn of(&self, file: &str, item: &TestItem) -> Vec<usize> {
        let list = |found: Option<&Vec<usize>>| found.cloned().unwrap_or_default();
        let mut found = list(self.by_file.get(base_name(file)));
        found.extend(list(self.by_name.get(item.name.as_str())));
        // A table has to call all that the test called; the rarest name leaves the fewest to look at.
        let calls = item.calls.iter().map(|name| self.by_call.get(name.as_str()));
        found.extend(list(calls.min_by_key(|tables| tables.map_or(0, Vec::len)).flatten()));
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[derive(Clone, Default)]
struct Spare {
    checks: Vec<u64>,
    literals: Vec<u64>,
}

/// Compares the test files that changed, came or went between t0 and now.
pub fn compare(before: &[(String, Scan)], after: &[(String, Scan)]) -> Comparison {
    let (before, after) = (Side::new(before), Side::new(after));
    let mut matching = Matching {
        became: vec![Vec::new(); before.items.len()],
        taken: vec![false; after.items.len()],
        spare: vec![Spare::default(); after.items.len()],
        spared: HashMap::new(),
        near: Near::default(),
        before,
        after,
    };
    matching.pair(|file, item| (file.to_owned(), item.containers.clone(), item.name.clone()));
    matching.pair(|_, item| (item.name.clone(), item.body));
    matching.pair(|file, item| (file.to_owned(), item.body));
    matching.pair(|_, item| item.body);
    matching.pair(|file, item| (file.to_owned(), item.name.clone()));
    matching.pair(|file, item| (base_name(file).to_owned(), item.name.clone()));
    let mut comparison = Comparison::default();
    for (was, became) in matching.became.iter().enumerate() {
        let Some(now) = became.first() else { continue };
        let (old, new) = (matching.before.items[was], matching.after.items[*now]);
        let has_moved =
            old.0 != new.0 || old.1.name != new.1.name || old.1.containers != new.1.containers;
        if has_moved {
            comparison.same.push((matching.before.at(was), matching.after.at(*now)));
        }
    }
    matching.fill_spare();
    for was in 0..matching.before.items.len() {
        if !matching.became[was].is_empty() {
            continue;
        }
        if matching.find_parts(was) {
            let parts = matching.became[was].iter();
            comparison
                .same
                .extend(parts.map(|now| (matching.before.at(was), matching.after.at(*now))));
        } else {
            let file = matching.before.items[was].0;
            let unreadable = matching.after.broken.get(file).copied().unwrap_or_default()
                && !matching.before.is_broken(was);
            if !unreadable {
                comparison.lost.push(matching.before.at(was));
            }
        }
    }
    for was in 0..matching.before.items.len() {
        comparison.weakened.extend(matching.weakened(was));
        let parts = matching.split_off(was).into_iter();
        comparison.same.extend(parts.map(|now| (matching.before.at(was), matching.after.at(now))));
    }
    comparison
}

fn base_name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

impl Matching<'_> {
    /// Matches what is still open and has the same key, in order of appearance.
    fn pair<Key: Eq + std::hash::Hash>(&mut self, key: impl Fn(&str, &TestItem) -> Key) {
        let mut open: HashMap<Key, std::collections::VecDeque<usize>> = HashMap::new();
        for (now, (file, item)) in self.after.items.iter().enumerate() {
            if !self.taken[now] {
                open.entry(key(file, item)).or_default().push_back(now);
            }
        }
        for (was, (file, item)) in self.before.items.iter().enumerate() {
            if !self.became[was].is_empty() {
                continue;
            }
            if let Some(now) = open.get_mut(&key(file, item)).and_then(|queue| queue.pop_front()) {
                self.became[was].push(now);
                self.taken[now] = true;
            }
        }
    }

    fn fill_spare(&mut self) {
        for (now, (_, item)) in self.after.items.iter().enumerate() {
            self.spare[now] =
                Spare { checks: item.checks.clone(), literals: item.literals.clone() };
        }
        for (was, became) in self.became.iter().enumerate() {
            let item = self.before.items[was].1;
            for now in became {
                let spare = &mut self.spare[*now];
                spare.checks = minus(&spare.checks, &item.checks);
                spare.literals = minus(&spare.literals, &item.literals);
            }
        }
        for (now, spare) in self.spare.iter().enumerate() {
            for check in &spare.checks {
                self.spared.entry(*check).or_default().insert(now);
            }
        }
        // Most runs find every test where it was.
        if self.became.iter().any(Vec::is_empty) {
            self.near = Near::new(&self.after);
        }
    }

    /// Leaves an item of now with these checks to spare.
    fn leave(&mut self, now: usize, rest: Vec<u64>) {
        for check in &self.spare[now].checks {
            if rest.binary_search(check).is_err()
                && let Some(items) = self.spared.get_mut(check)
            {
                items.remove(&now);
            }
        }
        self.spare[now].checks = rest;
    }

    /// Looks for a test of t0 in parts of tests of now: split, merged, parametrised.
    fn find_parts(&mut self, was: usize) -> bool {
        let (file, item) = self.before.items[was];
        let found = self.parts_by_checks(&item.checks);
        if !item.checks.is_empty() && found.missing * 10 <= item.checks.len() * 4 {
            for (now, rest) in found.rests {
                self.leave(now, rest);
                self.became[was].push(now);
            }
            return true;
        }
        if item.literals.len() < 2 {
            return false;
        }
        let whole = self.near.of(file, item).into_iter().find(|now| {
            let (other_file, other) = self.after.items[*now];
            let spare = &self.spare[*now];
            let calls = |name: &String| other.calls.contains(name);
            let related = base_name(other_file) == base_name(file)
                || other.name == item.name
                || other.table && !item.calls.is_empty() && item.calls.iter().all(calls);
            let enough = other.table || !self.taken[*now] && other.assertions >= item.assertions;
            // Rows share what stands around them.
            let has_all = match other.table {
                true => covers(&distinct(&other.literals), &distinct(&item.literals), 80),
                false => covers(&spare.literals, &item.literals, 80),
            };
            related && enough && other.assertions > 0 && has_all
        });
        let Some(now) = whole else { return false };
        self.spare[now].literals = minus(&self.spare[now].literals, &item.literals);
        self.became[was].push(now);
        true
    }

    fn parts_by_checks(&self, checks: &[u64]) -> Parts {
        let mut missing = checks.to_vec();
        let mut rests = Vec::new();
        let mut from = 0;
        // The next item that has any of what is missing.
        while let Some(now) = missing
            .iter()
            .filter_map(|check| self.spared.get(check)?.range(from..).next().copied())
            .min()
        {
            let spare = &self.spare[now];
            rests.push((now, minus(&spare.checks, &missing)));
            missing = minus(&missing, &spare.checks);
            from = now + 1;
        }
        Parts { missing: missing.len(), rests }
    }

    fn weakened(&self, was: usize) -> Vec<Weakened> {
        let old = self.before.items[was].1;
        let Some(first) = self.became[was].first() else { return Vec::new() };
        let parts: Vec<&TestItem> =
            self.became[was].iter().map(|now| self.after.items[*now].1).collect();
        let entry = |kind, before: String, after: String| Weakened {
            at: self.after.at(*first),
            was: self.before.at(was),
            kind,
            before,
            after,
        };
        let mut found = Vec::new();
        if let Some(marker) = new_marker(old, &parts) {
            let before = match old.markers.as_slice() {
                [] => "no marker".to_owned(),
                markers => markers.join(", "),
            };
            found.push(entry(Weakening::Marker, before, marker));
        }
        let unknown = self.before.is_broken(was)
            || self.became[was].iter().any(|now| self.after.is_broken(*now));
        if !unknown {
            let before = asserted(old, &self.before.helpers, None);
            let after = parts
                .iter()
                .map(|part| asserted(part, &self.after.helpers, Some(old)))
                .fold(0_u32, u32::saturating_add);
            if after < before && !self.is_explained(was, &parts) {
                found.push(entry(Weakening::Assertions, plural(before), plural(after)));
            }
        }
        if !old.swallows && parts.iter().any(|part| part.swallows) {
            let before = "failures are seen".to_owned();
            found.push(entry(Weakening::Swallowed, before, "failures are caught".to_owned()));
        }
        found
    }

    /// The tests into which went all that a test checks no more; none where it checks all, or where some is
    /// checked nowhere. A test that does not run as it should takes nothing over.
    fn split_off(&self, was: usize) -> Vec<usize> {
        let old = self.before.items[was].1;
        let parts = &self.became[was];
        let mut checks: Vec<u64> =
            parts.iter().flat_map(|now| self.after.items[*now].1.checks.clone()).collect();
        checks.sort_unstable();
        let missing = minus(&old.checks, &checks);
        if parts.is_empty() || missing.is_empty() {
            return Vec::new();
        }
        let found = self.parts_by_checks(&missing);
        let runs = |now: &usize| new_marker(old, &[self.after.items[*now].1]).is_none();
        let rests: Vec<usize> = found.rests.into_iter().map(|(now, _)| now).collect();
        if found.missing == 0 && rests.iter().all(runs) { rests } else { Vec::new() }
    }

    /// Whether fewer assertions are as strict as more were.
    fn is_explained(&self, was: usize, parts: &[&TestItem]) -> bool {
        let old = self.before.items[was].1;
        let mut literals: Vec<u64> = parts.iter().flat_map(|part| part.literals.clone()).collect();
        literals.sort_unstable();
        if parts.iter().any(|part| part.table && part.assertions > 0)
            && covers(&literals, &old.literals, 80)
        {
            return true;
        }
        // One comparison of several values in place of several comparisons of one.
        let compared: usize = parts.iter().map(|part| part.expected.len()).sum();
        let each_has_literal =
            old.expected.len() >= old.assertions as usize && compared >= old.expected.len();
        if each_has_literal
            && parts.iter().any(|part| part.assertions > 0)
            && covers(&literals, &old.literals, 100)
        {
            return true;
        }
        // The rest went into new tests.
        !self.split_off(was).is_empty()
    }
}

struct Parts {
    missing: usize,
    rests: Vec<(usize, Vec<u64>)>,
}

fn new_marker(old: &TestItem, parts: &[&TestItem]) -> Option<String> {
    if old.markers.iter().any(|marker| marker == "skip" || marker == "ignore") {
        return None;
    }
    let new = |part: &&TestItem| {
        part.markers.iter().find(|marker| !old.markers.contains(marker)).cloned()
    };
    // A part that runs as it should keeps the test.
    let all: Option<Vec<String>> = parts.iter().map(new).collect();
    all?.into_iter().next()
}

/// The assertions of a test with those of helpers that other files define.
///
/// `old` is the test's former state: a function it did not call then may be a helper in a file that did not
/// change.
fn asserted(item: &TestItem, helpers: &BTreeMap<&str, u32>, old: Option<&TestItem>) -> u32 {
    // What an assertion of RSpec begins with is no assertion besides.
    let own = |name: &&String| !matches!(name.as_str(), "expect" | "is_expected");
    let calls = item.calls.iter().filter(|name| own(name) || helpers.contains_key(name.as_str()));
    calls
        .map(|name| match helpers.get(name.as_str()) {
            Some(count) => *count,
            None => {
                let new = old.is_some_and(|old| !old.calls.contains(name));
                u32::from(sounds_like_a_helper(name) || new && !is_noise(name))
            }
        })
        .fold(item.assertions, u32::saturating_add)
}

fn sounds_like_a_helper(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["check", "assert", "verify", "expect", "helper", "should"]
        .iter()
        .any(|part| name.contains(part))
}

/// Calls that are put in place of an assertion without asserting anything.
fn is_noise(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_matcher = ["to", "is", "be", "have"].iter().any(|start| name.starts_with(start));
    name.len() < 4
        || is_matcher
        || [
            "log", "print", "debug", "info", "warn", "sleep", "bool", "repr", "skip", "write",
            "fail",
        ]
        .iter()
        .any(|part| name.contains(part))
        || matches!(
            name.as_str(),
            "list"
                | "dict"
                | "tuple"
                | "isinstance"
                | "drop"
                | "sprintf"
                | "format"
                | "string"
                | "puts"
                | "black_box"
                | "type"
                | "number"
                | "range"
                | "float"
                | "iter"
                | "hasattr"
                | "getattr"
                | "some"
                | "none"
                | "test"
                | "each"
                | "describe"
                | "specify"
                | "example"
                | "equal"
        )
}

fn plural(count: u32) -> String {
    match count {
        1 => "1 assertion".to_owned(),
        count => format!("{count} assertions"),
    }
}

/// The multiset `all` without `taken`; both sorted.
fn minus(all: &[u64], taken: &[u64]) -> Vec<u64> {
    let mut rest = Vec::with_capacity(all.len());
    let mut taken = taken.iter().peekable();
    for one in all {
        while taken.next_if(|other| *other < one).is_some() {}
        if taken.next_if(|other| *other == one).is_none() {
            rest.push(*one);
        }
    }
    rest
}

fn distinct(all: &[u64]) -> Vec<u64> {
    let mut all = all.to_vec();
    all.dedup();
    all
}

/// Whether at least `percent` of `wanted` is in `all`; both sorted multisets.
fn covers(all: &[u64], wanted: &[u64], percent: usize) -> bool {
    let missing = minus(wanted, all).len();
    (wanted.len() - missing) * 100 >= wanted.len() * percent
}
