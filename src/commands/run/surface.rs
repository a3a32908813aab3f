//! Reads how the test surface of a snapshot differs from t0.
//!
//! What a path is and how two versions compare is `integrity`'s to say; here the versions are read from
//! the snapshots. Laying the surface over a candidate is the duty of `overlaying`.

use super::site::Site;
use crate::domain::judge::Phase;
use crate::domain::results::TestId;
use crate::domain::surface::{Moved, SettingChange, SurfaceFact, TestAt, Weakened, Weaker};
use crate::error::Result;
use crate::foreign::{self, Links};
use crate::integrity::manifest::{self, Difference, Judged, Mutable};
use crate::integrity::surface::Class;
use crate::integrity::syntax::{self, At, Language, Parsed, Scan, Weakening};
use crate::workspace::delta::{self, Change, Form, Held};
use crate::workspace::paths;
use crate::workspace::store::Store;
use git2::Oid;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// A larger file is compared by its bytes alone.
const MOST_BYTES: u64 = 8 << 20;

/// Files of a copy that are looked at after the check ran in it.
const MOST_WRITTEN: usize = 50_000;

/// Most settings that are told of one snapshot.
const MOST_TOLD: usize = 100;

/// One path that differs, with both versions read.
pub(super) struct Version {
    pub path: String,
    pub bytes: Vec<u8>,
    pub class: Class,
    pub change: Change,
}

impl Site {
    /// Lists what differs between two snapshots, with what each path is.
    pub(super) fn surface_changes(&self, start: &str, tree: &str) -> Result<Vec<Version>> {
        let found = delta::read_delta(self.store.repository(), start, tree)?;
        Ok(found
            .changes
            .into_iter()
            .map(|change| {
                let bytes = paths::as_bytes(&change.path).to_vec();
                let path = paths::escape(&bytes);
                let class = self.rules.class(&path);
                Version { path, bytes, class, change }
            })
            .collect())
    }

    /// Returns the text of a version; nothing where there is none, for a link, or where it is too long.
    pub(super) fn text_of(&self, held: Option<Held>) -> Result<Option<Vec<u8>>> {
        let Some(Held { form: Form::Plain | Form::Executable, blob }) = held else {
            return Ok(None);
        };
        let header = self.store.odb()?.read_header(blob);
        if header.is_ok_and(|(size, _)| size as u64 > MOST_BYTES) {
            return Ok(None);
        }
        self.store.read_blob(blob).map(Some)
    }

    /// Reads how the test surface differs from that of t0.
    pub(super) fn surface_of(&mut self, start: &str, tree: &str) -> Result<SurfaceFact> {
        let mut fact = SurfaceFact::default();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let versions = self.surface_changes(start, tree)?;
        let put: HashSet<Oid> = versions
            .iter()
            .filter(|v| v.change.before.is_none())
            .filter_map(|v| v.change.after.map(|held| held.blob))
            .collect();
        for version in &versions {
            if self.rules.is_mutable(&version.path) {
                self.free(version, &mut fact)?;
            }
            match version.class {
                Class::Settings => self.compare_settings(start, version, &mut fact)?,
                Class::Fixture => self.compare_fixture(version, &put, &mut fact)?,
                Class::Test => self.scan_both(version, &mut before, &mut after, &mut fact)?,
                Class::Support => {
                    if self.differs(version)? && !self.rules.is_mutable(&version.path) {
                        fact.files.push(version.path.clone());
                        self.scan_helpers(version, &mut before, &mut after)?;
                    }
                }
                Class::Source if version.path.ends_with(".rs") => {
                    self.scan_inline(version, &mut before, &mut after, &mut fact)?;
                }
                Class::Source => self.scan_in_source(version, &mut before, &mut after)?,
            }
        }
        let compared = syntax::compare(&before, &after);
        fact.moved = compared
            .same
            .into_iter()
            .map(|(from, to)| Moved { from: test_at(from), to: test_at(to) })
            .collect();
        fact.lost = compared.lost.into_iter().map(test_at).collect();
        fact.weakened = compared
            .weakened
            .into_iter()
            .map(|weak| Weakened {
                was: test_at(weak.was),
                at: test_at(weak.at),
                how: match weak.kind {
                    Weakening::Marker => Weaker::Marker,
                    Weakening::Assertions => Weaker::Assertions,
                    Weakening::Swallowed => Weaker::Swallowed,
                },
                before: weak.before,
                after: weak.after,
            })
            .collect();
        fact.settings.truncate(MOST_TOLD);
        fact.allowed.truncate(MOST_TOLD);
        self.redactor.redact_fact(fact)
    }

    /// Says whether content differs, beside layout where the language is known.
    fn differs(&self, version: &Version) -> Result<bool> {
        let Change { before, after, .. } = version.change;
        if before.map(|held| held.blob) == after.map(|held| held.blob) {
            return Ok(false);
        }
        let (Some(then), Some(now)) = (self.text_of(before)?, self.text_of(after)?) else {
            return Ok(true);
        };
        Ok(!is_same_code(&version.path, &then, &now))
    }

    fn compare_settings(
        &self,
        start: &str,
        version: &Version,
        fact: &mut SurfaceFact,
    ) -> Result<()> {
        let Change { before, after, .. } = version.change;
        let path = &version.path;
        if before.map(|held| (held.blob, is_link(held)))
            == after.map(|held| (held.blob, is_link(held)))
        {
            return Ok(());
        }
        let mutable = self.rules.is_mutable(path);
        if after.is_some_and(is_link) || before.is_some_and(is_link) {
            let list = if mutable { &mut fact.allowed } else { &mut fact.settings };
            list.push(whole(path, "a file", "a link"));
            return Ok(());
        }
        let (then, now) = (self.text_of(before)?, self.text_of(after)?);
        if self.rules.is_raw(path) {
            let list = if mutable { &mut fact.allowed } else { &mut fact.settings };
            list.push(whole(path, presence(&then), presence(&now)));
            return Ok(());
        }
        let wanted = if mutable { Mutable::Yes } else { Mutable::No };
        match manifest::compare(path, then.as_deref(), now.as_deref(), wanted) {
            Judged::Same => {}
            Judged::Allowed(_) if !mutable && self.is_awaited(start, version)? => {
                fact.files.push(path.clone());
                fact.settings.push(whole(path, presence(&then), presence(&now)));
            }
            Judged::Allowed(list) => fact.allowed.extend(list.into_iter().map(|d| told(path, d))),
            Judged::Breach(list) => fact.settings.extend(list.into_iter().map(|d| told(path, d))),
            Judged::Code if mutable => {
                fact.allowed.push(whole(path, presence(&then), presence(&now)));
            }
            Judged::Code => {
                let same = match (&then, &now) {
                    (Some(then), Some(now)) => is_same_code(path, then, now),
                    _ => false,
                };
                if same {
                    return Ok(());
                }
                fact.files.push(path.clone());
                let list = match adds_fixtures_only(path, then.as_deref(), now.as_deref()) {
                    true => &mut fact.allowed,
                    false => &mut fact.settings,
                };
                list.push(whole(path, presence(&then), presence(&now)));
            }
        }
        Ok(())
    }

    fn compare_fixture(
        &self,
        version: &Version,
        put: &HashSet<Oid>,
        fact: &mut SurfaceFact,
    ) -> Result<()> {
        let Change { before: Some(before), after, .. } = version.change else {
            // One that came is no change of those that were there.
            fact.files.push(version.path.clone());
            return Ok(());
        };
        let same_bytes = after.is_some_and(|held| held.blob == before.blob && !is_link(held));
        if same_bytes || self.rules.is_mutable(&version.path) {
            return Ok(());
        }
        fact.files.push(version.path.clone());
        if after.is_none() && put.contains(&before.blob) {
            return Ok(());
        }
        let then = self.text_of(Some(before))?;
        let now = self.text_of(after)?;
        let same = match (&then, &now) {
            (Some(then), Some(now)) => {
                matches!(manifest::compare_fixture(&version.path, then, Some(now)), Judged::Same)
            }
            _ => false,
        };
        if !same {
            fact.settings.push(whole(&version.path, presence(&then), presence(&now)));
        }
        Ok(())
    }

    /// Notes a file that the task is meant to change, and the tests it held.
    fn free(&self, version: &Version, fact: &mut SurfaceFact) -> Result<()> {
        let Some(text) = self.text_of(version.change.before)? else { return Ok(()) };
        fact.freed.push(version.path.clone());
        let language = Language::of(&version.path);
        let Some(scan) = language.and_then(|language| syntax::scan(language, &text)) else {
            return Ok(());
        };
        fact.freed_tests.extend(scan.items.into_iter().map(|item| TestAt {
            file: version.path.clone(),
            name: item.name,
            line: item.line,
        }));
        Ok(())
    }

    fn scan_both(
        &self,
        version: &Version,
        before: &mut Vec<(String, Scan)>,
        after: &mut Vec<(String, Scan)>,
        fact: &mut SurfaceFact,
    ) -> Result<()> {
        if self.rules.is_mutable(&version.path) {
            return Ok(());
        }
        let Some(language) = Language::of(&version.path) else {
            if self.differs(version)? {
                fact.files.push(version.path.clone());
            }
            return Ok(());
        };
        let held = [version.change.before, version.change.after];
        if held[0].map(|held| held.blob) == held[1].map(|held| held.blob) {
            return Ok(());
        }
        let texts = [self.text_of(held[0])?, self.text_of(held[1])?];
        // Parsed once, for the hash and for the tests.
        let parsed = texts.each_ref().map(|text| Parsed::of(language, text.as_deref()?));
        let [then, now] = parsed.each_ref().map(|parsed| parsed.as_ref()?.digest());
        if then.is_some() && then == now {
            return Ok(());
        }
        fact.files.push(version.path.clone());
        for ((held, parsed), into) in held.iter().zip(parsed).zip([before, after]) {
            match parsed.and_then(|parsed| parsed.scan()) {
                Some(scan) => into.push((version.path.clone(), scan)),
                None if held.is_some() => fact.unread.push(version.path.clone()),
                None => {}
            }
        }
        Ok(())
    }

    /// What tests call may assert in a file of its own.
    fn scan_helpers(
        &self,
        version: &Version,
        before: &mut Vec<(String, Scan)>,
        after: &mut Vec<(String, Scan)>,
    ) -> Result<()> {
        let Some(language) = Language::of(&version.path) else { return Ok(()) };
        for (held, into) in [(version.change.before, before), (version.change.after, after)] {
            let Some(text) = self.text_of(held)? else { continue };
            if let Some(mut scan) = syntax::scan(language, &text) {
                scan.items.clear();
                into.push((version.path.clone(), scan));
            }
        }
        Ok(())
    }

    /// Tests that stand inside sources.
    fn scan_inline(
        &self,
        version: &Version,
        before: &mut Vec<(String, Scan)>,
        after: &mut Vec<(String, Scan)>,
        fact: &mut SurfaceFact,
    ) -> Result<()> {
        if self.rules.is_mutable(&version.path) {
            return Ok(());
        }
        let then = self.text_of(version.change.before)?;
        let now = self.text_of(version.change.after)?;
        let holds = |text: &Option<Vec<u8>>| text.as_deref().is_some_and(syntax::has_inline_tests);
        if !holds(&then) && !holds(&now) {
            return Ok(());
        }
        let spliced = match (&then, &now) {
            (Some(then), Some(now)) => syntax::splice_tests(then, now),
            _ => None,
        };
        if spliced.as_deref() != now.as_deref() {
            fact.files.push(version.path.clone());
        }
        for (text, into) in [(then, before), (now, after)] {
            let Some(text) = text else { continue };
            match syntax::scan(Language::Rust, &text) {
                Some(scan) => into.push((version.path.clone(), scan)),
                None => fact.unread.push(version.path.clone()),
            }
        }
        Ok(())
    }

    /// Tests that vitest finds inside sources; nothing is laid over these.
    fn scan_in_source(
        &self,
        version: &Version,
        before: &mut Vec<(String, Scan)>,
        after: &mut Vec<(String, Scan)>,
    ) -> Result<()> {
        let Some(language) = Language::of(&version.path) else { return Ok(()) };
        let is_script =
            matches!(language, Language::JavaScript | Language::TypeScript | Language::Tsx);
        if !is_script || self.rules.is_mutable(&version.path) {
            return Ok(());
        }
        for (held, into) in [(version.change.before, before), (version.change.after, after)] {
            let Some(text) = self.text_of(held)? else { continue };
            if memchr::memmem::find(&text, b"import.meta.vitest").is_none() {
                continue;
            }
            into.extend(syntax::scan(language, &text).map(|scan| (version.path.clone(), scan)));
        }
        Ok(())
    }

    /// Says whether a file of rules came that a makefile of t0 includes where it is there.
    pub(super) fn is_awaited(&self, start: &str, version: &Version) -> Result<bool> {
        let name = version.path.rsplit('/').next().unwrap_or_default();
        if version.change.before.is_some() || !(name.ends_with(".mk") || name.ends_with(".cmake")) {
            return Ok(false);
        }
        for change in delta::read_all(self.store.repository(), start)?.changes {
            let path = paths::escape(paths::as_bytes(&change.path));
            let own = path.rsplit('/').next().unwrap_or_default();
            let includes = own.to_ascii_lowercase().ends_with("makefile")
                || own == "CMakeLists.txt"
                || own.ends_with(".mk")
                || own.ends_with(".cmake");
            if !includes || self.rules.class(&path) != Class::Settings {
                continue;
            }
            let Some(text) = self.text_of(change.after)? else { continue };
            let text = String::from_utf8_lossy(&text);
            if text.lines().any(|line| line.contains("include") && line.contains(name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Names files with tests, or with what tests share, that a copy holds other than its snapshot, after the
    /// check ran in it. Of a view only what was written is looked at: the rest is the frozen layer's.
    ///
    /// Data of tests counts where this process has seen that the check of the start leaves it alone.
    pub(super) fn rewritten_tests(
        &mut self,
        written: &Path,
        tree: &str,
        phase: Phase,
    ) -> Result<Vec<String>> {
        let lost = |e| crate::workspace::store::failure(self.store.path(), "cannot read", e);
        let tree = self.store.repository().find_tree(Store::parse(tree)?).map_err(lost)?;
        let (mut found, mut data_writes) = (Vec::new(), Vec::new());
        let mut left = MOST_WRITTEN;
        let mut pending = vec![PathBuf::new()];
        while let Some(folder) = pending.pop() {
            let Ok(listing) = std::fs::read_dir(written.join(&folder)) else { continue };
            // Read once a folder: a look-up by path reads every tree on the way.
            let held_here = match folder.as_os_str().is_empty() {
                true => Some(tree.clone()),
                false => tree
                    .get_path(&folder)
                    .and_then(|entry| self.store.repository().find_tree(entry.id()))
                    .ok(),
            };
            for entry in listing.flatten() {
                left -= 1;
                if left == 0 {
                    return Ok(found);
                }
                let inside = folder.join(entry.file_name());
                let path = paths::escape(paths::as_bytes(&inside));
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    pending.push(inside);
                    continue;
                }
                if self.rules.is_mutable(&path) {
                    continue;
                }
                let class = self.rules.class(&path);
                let known = phase == Phase::Baseline || self.data_writes.is_some();
                match class {
                    Class::Test | Class::Support => {}
                    Class::Fixture if known => {}
                    _ => continue,
                }
                let held = held_here.as_ref().and_then(|here| {
                    here.get_name_bytes(paths::as_bytes(Path::new(&entry.file_name())))
                });
                let Some(held) = held else { continue };
                let same = metadata.is_symlink()
                    || metadata.is_file()
                        && (metadata.len() > MOST_BYTES
                            || foreign::read(&entry.path(), Links::Refuse, MOST_BYTES).is_ok_and(
                                |bytes| {
                                    Oid::hash_object(git2::ObjectType::Blob, &bytes)
                                        .is_ok_and(|id| id == held.id())
                                },
                            ));
                match (same, class, phase) {
                    (true, ..) => {}
                    (false, Class::Fixture, Phase::Baseline) => data_writes.push(path),
                    (false, Class::Fixture, _)
                        if self.data_writes.iter().flatten().any(|own| *own == path) => {}
                    _ => found.push(path),
                }
            }
        }
        if phase == Phase::Baseline {
            self.data_writes.get_or_insert_default().extend(data_writes);
        }
        found.sort();
        found.truncate(MOST_TOLD);
        Ok(found)
    }

    /// Lists the files of a snapshot that hold tests, with their blobs; read once a snapshot.
    pub(super) fn test_files(&mut self, tree: &str) -> Result<&BTreeMap<String, Held>> {
        if self.test_files.0 != tree {
            let all = delta::read_all(self.store.repository(), tree)?;
            let mut files = BTreeMap::new();
            for change in all.changes {
                let path = paths::escape(paths::as_bytes(&change.path));
                let class = self.rules.class(&path);
                let inline = class == Class::Source && path.ends_with(".rs");
                if let Some(held) = change.after
                    && (class == Class::Test || inline)
                    && held.form != Form::Link
                {
                    files.insert(path, held);
                }
            }
            self.test_files = (tree.to_owned(), files);
        }
        Ok(&self.test_files.1)
    }
}

fn is_link(held: Held) -> bool {
    held.form == Form::Link
}

fn presence(text: &Option<Vec<u8>>) -> &'static str {
    if text.is_some() { "present" } else { "absent" }
}

fn whole(path: &str, before: &str, after: &str) -> SettingChange {
    SettingChange {
        path: path.to_owned(),
        key: "content".to_owned(),
        before: before.to_owned(),
        after: after.to_owned(),
    }
}

fn told(path: &str, difference: Difference) -> SettingChange {
    let Difference { key, before, after } = difference;
    SettingChange { path: path.to_owned(), key, before, after }
}

pub(super) fn test_at(at: At) -> TestAt {
    TestAt { file: at.file, name: at.name, line: at.line }
}

/// Says whether two texts are the same beside comments, layout and quotes.
pub(super) fn is_same_code(path: &str, then: &[u8], now: &[u8]) -> bool {
    let Some(language) = Language::of(path) else { return then == now };
    let digest = |text: &[u8]| syntax::digest(language, text);
    then == now || digest(then).is_some_and(|then| Some(then) == digest(now))
}

/// Says whether a `conftest.py` only gained fixtures and what they import: that decides no test of t0.
fn adds_fixtures_only(path: &str, then: Option<&[u8]>, now: Option<&[u8]>) -> bool {
    if path.rsplit('/').next() != Some("conftest.py") {
        return false;
    }
    let Some(now) = now else { return false };
    let outline = |text: &[u8]| syntax::functions(Language::Python, text);
    let (Some(before), Some(after)) = (outline(then.unwrap_or_default()), outline(now)) else {
        return false;
    };
    let kept = before
        .functions
        .iter()
        .all(|old| after.functions.iter().any(|new| new.name == old.name && new.body == old.body));
    let only_fixtures = after.functions.iter().all(|new| {
        let known = before.functions.iter().any(|old| old.name == new.name && old.body == new.body);
        let fixture =
            new.decorators.iter().any(|d| d.contains("fixture") && !d.contains("autouse"));
        known || (fixture && !new.name.starts_with("pytest_"))
    });
    let spans = |outline: &syntax::Outline, text: &[u8]| -> Vec<String> {
        let mut rest = text.to_vec();
        for function in &outline.functions {
            if let Some(part) = rest.get_mut(function.span.clone()) {
                part.fill(b'\n');
            }
        }
        let rest = String::from_utf8_lossy(&rest).into_owned();
        let lines = rest.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    let old = spans(&before, then.unwrap_or_default());
    let new = spans(&after, now);
    let imports = |line: &String| {
        line.starts_with("import ")
            || (line.starts_with("from ") && line.contains(" import "))
            || line.starts_with('#')
            || line.starts_with("\"\"\"")
    };
    kept && only_fixtures
        && old.iter().all(|line| new.contains(line))
        && new.iter().all(|line| old.contains(line) || imports(line))
}

/// Returns the ids that name a test of a file.
pub(super) fn is_wanted(tests: &[TestId], at: &TestAt) -> bool {
    tests.iter().any(|id| crate::domain::weakening::names(id, at))
}
