//! Lays the test surface of t0 over a candidate, and plants canaries into it.
//!
//! Snapshots are made here, of objects alone; `copies` makes folders of them and `checking` runs the
//! check there.

use super::site::Site;
use super::surface::{Version, is_wanted};
use crate::domain::results::{IdSet, TestId, base_id, last_part};
use crate::domain::surface::{Canary, OverlayFact, TestAt};
use crate::domain::weakening::may_stand_in;
use crate::engine::ports::{Additions, Plant};
use crate::error::Result;
use crate::foreign::{self, Links};
use crate::integrity::surface::{Class, is_runner_tree};
use crate::integrity::syntax::{self, Language, TestItem};
use crate::integrity::{advice, manifest};
use crate::workspace::delta::{Change, Form, Held};
use crate::workspace::edit::{Edits, edit, write_blob};
use crate::workspace::ignored::Listed;
use crate::workspace::{paths, tree as modes};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// Tests whose expected values are changed at the most.
const MOST_TARGETS: usize = 60;
/// Files that are looked at for canaries at the most.
const MOST_FILES: usize = 4_000;
/// Files of runners that are compared at the most.
const MOST_RUNNER_FILES: usize = 60_000;
/// A larger one of them is not compared.
const MOST_RUNNER_FILE: u64 = 64 << 20;
/// Bytes of a package's declaration in which a plugin is looked for.
const MOST_DECLARED: u64 = 1 << 20;
/// Lines of advice at the most.
const MOST_ADVICE: usize = 10;

impl Site {
    /// Makes the overlay of a candidate.
    pub(super) fn overlay_of(
        &mut self,
        start: &str,
        tree: &str,
        additions: Additions,
    ) -> Result<OverlayFact> {
        let mut fact = OverlayFact::default();
        let mut edits = Edits::new();
        let versions = self.surface_changes(start, tree)?;
        // Sources with tests inside that are not there any more.
        let mut gone = Gone::default();
        for version in versions.iter().filter(|version| version.change.after.is_none()) {
            if version.class == Class::Source
                && version.path.ends_with(".rs")
                && let Some(text) = self.text_of(version.change.before)?
                && syntax::has_inline_tests(&text)
            {
                gone.push(text);
            }
        }
        let grown = match additions {
            Additions::Grow => self.grown(start, tree, &versions)?,
            Additions::Drop | Additions::Keep => BTreeSet::new(),
        };
        for version in &versions {
            if grown.contains(&version.path) {
                fact.kept.push(version.path.clone());
                continue;
            }
            self.lay(start, version, additions, &gone, &mut edits, &mut fact)?;
        }
        fact.advice = self.advise(start, &versions)?;
        let links = self.links_out(&versions)?;
        fact.advice.splice(0..0, links);
        fact.tree = edit(&self.store, tree, &edits)?;
        self.redactor.redact_fact(fact)
    }

    /// Names files of t0 with tests that lost nothing by what was changed in them: tests may have come there.
    fn grown(&mut self, start: &str, tree: &str, versions: &[Version]) -> Result<BTreeSet<String>> {
        let surface = self.surface_of(start, tree)?;
        let weak = surface.weakened.iter().flat_map(|weak| [&weak.was.file, &weak.at.file]);
        let worse: BTreeSet<&String> =
            surface.lost.iter().map(|test| &test.file).chain(weak).chain(&surface.unread).collect();
        let both = |version: &&Version| {
            let Change { before, after, .. } = version.change;
            [before, after].iter().flatten().filter(|held| held.form != Form::Link).count() == 2
        };
        let tests = versions.iter().filter(|version| version.class == Class::Test).filter(both);
        let read = tests.filter(|version| Language::of(&version.path).is_some());
        Ok(read.map(|version| version.path.clone()).filter(|path| !worse.contains(path)).collect())
    }

    fn lay(
        &self,
        start: &str,
        version: &Version,
        additions: Additions,
        gone: &Gone,
        edits: &mut Edits,
        fact: &mut OverlayFact,
    ) -> Result<()> {
        let Version { path, bytes, class, change } = version;
        let (before, after) = (change.before, change.after);
        if self.rules.is_mutable(path) {
            return Ok(());
        }
        match class {
            Class::Test | Class::Support | Class::Fixture => {}
            Class::Settings if self.rules.is_raw(path) => {}
            Class::Settings => {
                let (then, now) = (self.text_of(before)?, self.text_of(after)?);
                let judged =
                    manifest::compare(path, then.as_deref(), now.as_deref(), manifest::Mutable::No);
                // What steers nothing, and what may be added, the candidate may need.
                let free = matches!(judged, manifest::Judged::Same | manifest::Judged::Allowed(_));
                if free && !self.is_awaited(start, version)? {
                    return Ok(());
                }
            }
            Class::Source if path.ends_with(".rs") => {
                let then = match before {
                    // A source that came may declare a file of tests that is left out.
                    None if additions == Additions::Drop => Some(Vec::new()),
                    None => None,
                    Some(_) => self.text_of(before)?,
                };
                let (Some(then), Some(now)) = (then, self.text_of(after)?) else {
                    return Ok(());
                };
                let inline = syntax::has_inline_tests(&then) || syntax::has_inline_tests(&now);
                let examples = self.rules.runs_examples(Language::Rust);
                let examples = examples
                    .then(|| syntax::splice_doctests(Language::Rust, &then, &now))
                    .flatten()
                    .filter(|_| before.is_some());
                // A module that took another place with its tests as they were keeps them.
                if before.is_none() && inline && gone.holds(&now) {
                    return Ok(());
                }
                let base = examples.as_ref().unwrap_or(&now);
                let spliced =
                    inline.then(|| syntax::splice_tests(&then, base)).flatten().or(examples);
                if let (Some(spliced), Some(held)) = (spliced, after)
                    && spliced != now
                {
                    let blob = write_blob(&self.store, &spliced)?;
                    edits.insert(bytes.clone(), Some((mode_of(held), blob)));
                    let list =
                        if before.is_some() { &mut fact.restored } else { &mut fact.dropped };
                    list.push(path.clone());
                }
                return Ok(());
            }
            // Bytecode that came stands for whatever its sources were.
            Class::Source if path.ends_with(".pyc") => {
                edits.insert(bytes.clone(), before.map(|held| (mode_of(held), held.blob)));
                return Ok(());
            }
            Class::Source => {
                let language = Language::of(path).filter(|known| self.rules.runs_examples(*known));
                if let (Some(language), Some(was), Some(held)) = (language, before, after)
                    && let (Some(then), Some(now)) =
                        (self.text_of(Some(was))?, self.text_of(after)?)
                    && let Some(spliced) = syntax::splice_doctests(language, &then, &now)
                {
                    let blob = write_blob(&self.store, &spliced)?;
                    edits.insert(bytes.clone(), Some((mode_of(held), blob)));
                    fact.restored.push(path.clone());
                }
                return Ok(());
            }
        }
        // A file whose name is that of tests and that holds none may be what is tested.
        let shared = *class != Class::Test || self.holds_no_test(version)?;
        if shared && (before.is_some() || additions == Additions::Drop) {
            fact.shared.push(path.clone());
        }
        match before {
            Some(held) => {
                edits.insert(bytes.clone(), Some((mode_of(held), held.blob)));
                fact.restored.push(path.clone());
            }
            None if additions != Additions::Drop => fact.kept.push(path.clone()),
            None => {
                edits.insert(bytes.clone(), None);
                fact.dropped.push(path.clone());
            }
        }
        Ok(())
    }

    /// Names links that came and lead out of the tree: what they stand for is in no snapshot.
    fn links_out(&self, versions: &[Version]) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for version in versions {
            let Some(held) = version.change.after.filter(|held| held.form == Form::Link) else {
                continue;
            };
            let to = self.store.read_blob(held.blob)?;
            let depth = version.path.matches('/').count();
            let (mut level, mut out) = (depth, to.starts_with(b"/"));
            for part in to.split(|byte| *byte == b'/') {
                match part {
                    b"" | b"." => {}
                    b".." => match level.checked_sub(1) {
                        Some(above) => level = above,
                        None => out = true,
                    },
                    _ => level += 1,
                }
            }
            if out && found.len() < MOST_ADVICE {
                found.push(format!("{}:1: it is a link out of the tree now", version.path));
            }
        }
        Ok(found)
    }

    /// Says whether both states of a file can be read and no test is in either.
    fn holds_no_test(&self, version: &Version) -> Result<bool> {
        let Some(language) = Language::of(&version.path) else { return Ok(false) };
        for held in [version.change.before, version.change.after].into_iter().flatten() {
            let text = self.text_of(Some(held))?;
            let scan = text.as_deref().and_then(|text| syntax::scan(language, text));
            if scan.is_none_or(|scan| scan.broken || !scan.items.is_empty()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the two advisory scans over the lines that were added to sources.
    fn advise(&mut self, start: &str, versions: &[Version]) -> Result<Vec<String>> {
        let mut added = Vec::new();
        for version in versions {
            if version.class != Class::Source || Language::of(&version.path).is_none() {
                continue;
            }
            let Some(now) = self.text_of(version.change.after)? else { continue };
            let then = self.text_of(version.change.before)?;
            let lines = advice::added_lines(then.as_deref(), &now);
            added.extend(lines.into_iter().map(|(line, text)| (version.path.clone(), line, text)));
        }
        if added.is_empty() {
            return Ok(Vec::new());
        }
        let files: Vec<Held> = self.test_files(start)?.values().copied().collect();
        let mut expected = Vec::new();
        for held in files.into_iter().take(MOST_FILES) {
            let Some(text) = self.text_of(Some(held))? else { continue };
            for line in String::from_utf8_lossy(&text).lines() {
                let asserts = ["assert", "expect", "want", "equal", "Equal", "eq(", "EXPECT", "=="];
                if asserts.iter().any(|word| line.contains(word)) {
                    expected.push(advice::literals_of(line));
                }
            }
        }
        let leaks = advice::literal_leak(&expected, &added);
        let aware = advice::grader_awareness(&added);
        let told = leaks.into_iter().chain(aware);
        let mut told: Vec<String> =
            told.map(|note| format!("{}:{}: {}", note.file, note.line, note.what)).collect();
        told.truncate(MOST_ADVICE);
        Ok(told)
    }

    /// Plants a canary into a snapshot.
    pub(super) fn canary_of(
        &mut self,
        tree: &str,
        tests: &IdSet,
        what: Plant,
    ) -> Result<Option<Canary>> {
        let wanted: Vec<TestId> = tests.iter().take(MOST_TARGETS).cloned().collect();
        let files: Vec<(String, Held)> =
            self.test_files(tree)?.iter().map(|(path, held)| (path.clone(), *held)).collect();
        self.nonce = nonce(&self.run_id, self.jobs);
        let mut canary = Canary::default();
        let mut edits = Edits::new();
        for (path, held) in files.into_iter().take(MOST_FILES) {
            let Some(language) = Language::of(&path) else { continue };
            // Most ids name their file: no other is read then.
            let here: Vec<&TestId> = wanted.iter().filter(|id| may_stand_in(id, &path)).collect();
            if here.is_empty() {
                continue;
            }
            let Some(text) = self.text_of(Some(held))? else { continue };
            let names: BTreeSet<&str> = here.iter().map(|id| last_part(base_id(id))).collect();
            if !names.iter().any(|name| holds(&text, name)) {
                continue;
            }
            let Some(scan) = syntax::scan(language, &text) else { continue };
            let at = |item: &TestItem| TestAt {
                file: path.clone(),
                name: item.name.clone(),
                line: item.line,
            };
            let items: Vec<&TestItem> =
                scan.items.iter().filter(|item| is_wanted(&wanted, &at(item))).collect();
            if items.is_empty() {
                continue;
            }
            let mut now = text.clone();
            // Only tests in which something really becomes another say anything by staying green.
            let shifted: Vec<&TestItem> = items
                .iter()
                .copied()
                .filter(|item| !item.expected.is_empty())
                .filter(|item| syntax::shift_expected(language, &text, &[item]).is_some())
                .collect();
            if what == Plant::Both
                && !shifted.is_empty()
                && let Some(changed) = syntax::shift_expected(language, &now, &shifted)
            {
                now = changed;
                canary.changed.extend(shifted.iter().map(|item| at(item)));
            }
            if canary.sentinel.is_none()
                && let Some(planted) = syntax::plant_sentinel(language, &now, &self.nonce)
            {
                now = planted.text;
                canary.sentinel = Some(TestAt { file: path.clone(), name: planted.name, line: 0 });
            }
            if now != text {
                let blob = write_blob(&self.store, &now)?;
                let bytes = paths::unescape(&path).unwrap_or_else(|| path.clone().into_bytes());
                edits.insert(bytes, Some((mode_of(held), blob)));
            }
        }
        if edits.is_empty() {
            return Ok(None);
        }
        canary.tree = edit(&self.store, tree, &edits)?;
        self.redactor.redact_fact(canary).map(Some)
    }

    /// Plants the last sentinel into the same file of t0.
    pub(super) fn sentinel_at(&mut self, start: &str, canary: &Canary) -> Result<Option<String>> {
        let Some(sentinel) = &canary.sentinel else { return Ok(None) };
        let held = self.test_files(start)?.get(&sentinel.file).copied();
        let (Some(held), Some(language)) = (held, Language::of(&sentinel.file)) else {
            return Ok(None);
        };
        let Some(text) = self.text_of(Some(held))? else { return Ok(None) };
        let Some(planted) = syntax::plant_sentinel(language, &text, &self.nonce) else {
            return Ok(None);
        };
        let blob = write_blob(&self.store, &planted.text)?;
        let bytes = paths::unescape(&sentinel.file);
        let bytes = bytes.unwrap_or_else(|| sentinel.file.clone().into_bytes());
        let edits = Edits::from([(bytes, Some((mode_of(held), blob)))]);
        edit(&self.store, start, &edits).map(Some)
    }

    /// Names files of test runners in ignored folders of the workspace that are not as frozen.
    pub(super) fn runner_files(&self) -> Result<Vec<String>> {
        let Some(layer) = &self.layer else { return Ok(Vec::new()) };
        let workspace = self.workspace();
        let mut found = Vec::new();
        let mut left = MOST_RUNNER_FILES;
        for (path, is) in self.snapshotter.ignored_paths() {
            let path = paths::as_path(&path).to_owned();
            let mut pending = match is {
                Listed::File => {
                    compare_runner_file(&workspace, &layer.tree, &path, &mut found);
                    Vec::new()
                }
                Listed::Folder => vec![path],
            };
            while let Some(folder) = pending.pop() {
                let Ok(listing) = fs::read_dir(workspace.join(&folder)) else { continue };
                for entry in listing.flatten() {
                    if left == 0 {
                        break;
                    }
                    left -= 1;
                    let path = folder.join(entry.file_name());
                    match entry.file_type() {
                        Ok(kind) if kind.is_dir() => pending.push(path),
                        Ok(_) => compare_runner_file(&workspace, &layer.tree, &path, &mut found),
                        Err(_) => {}
                    }
                }
            }
        }
        found.sort();
        found.truncate(MOST_ADVICE);
        self.redactor.redact_fact(found)
    }
}

/// Sources with tests inside that are not there any more, by each of these tests.
#[derive(Default)]
struct Gone {
    texts: Vec<Vec<u8>>,
    by_item: HashMap<u64, Vec<usize>>,
}

impl Gone {
    fn push(&mut self, text: Vec<u8>) {
        for item in syntax::inline_items(&text) {
            self.by_item.entry(item).or_default().push(self.texts.len());
        }
        self.texts.push(text);
    }

    /// Says whether the tests inside a source are, all of them, those of one that is gone.
    fn holds(&self, now: &[u8]) -> bool {
        let items = syntax::inline_items(now);
        // Where the whole file is a test, it has no items of its own.
        let Some(first) = items.first() else {
            return self.texts.iter().any(|text| text == now);
        };
        let texts = self.by_item.get(first).into_iter().flatten();
        texts
            .filter_map(|at| self.texts.get(*at))
            .any(|text| syntax::splice_tests(text, now).is_some_and(|spliced| spliced == now))
    }
}

/// Adds a file that belongs to a runner and differs from the one that was frozen.
fn compare_runner_file(workspace: &Path, layer: &Path, path: &Path, found: &mut Vec<String>) {
    let shown = paths::escape(paths::as_bytes(path));
    let is_plugin = || {
        let declared = foreign::read_start(&workspace.join(path), Links::Follow, MOST_DECLARED);
        let declared = declared.unwrap_or_default();
        memchr::memmem::find(&declared, b"[pytest11]").is_some()
    };
    if !(is_runner_tree(&shown) || shown.ends_with("info/entry_points.txt") && is_plugin()) {
        return;
    }
    let read = |root: &Path| {
        let path = root.join(path);
        match fs::symlink_metadata(&path) {
            Ok(is) if is.is_symlink() => {
                fs::read_link(&path).ok().map(|to| paths::as_bytes(&to).to_vec())
            }
            _ => foreign::read(&path, Links::Refuse, MOST_RUNNER_FILE).ok(),
        }
    };
    if read(workspace) != read(layer) {
        found.push(shown);
    }
}

fn mode_of(held: Held) -> u32 {
    match held.form {
        Form::Plain => modes::FILE,
        Form::Executable => modes::PROGRAM,
        Form::Link => modes::LINK,
    }
}

fn holds(text: &[u8], name: &str) -> bool {
    // A name that a runner made of several parts stands nowhere as it is.
    let name = name.split(' ').next().unwrap_or(name).as_bytes();
    memchr::memmem::find(text, name).is_some()
}

/// Returns a name that no agent can have foreseen.
fn nonce(run_id: &str, jobs: u32) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map(|since| since.as_nanos()).unwrap_or_default();
    let seed = format!("{run_id} {jobs} {now} {}", std::process::id());
    crate::domain::hex::sha256(seed.as_bytes())[..12].to_owned()
}
