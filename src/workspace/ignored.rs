//! What is ignored in a run: what the caller's git ignored at t0, and t0's rules for new paths.
//!
//! An agent's own `.gitignore` hides and reveals nothing, because the rules are a copy that is
//! taken once (by `scan`) and recorded, so that resume and replay judge as the first run did.

use crate::workspace::paths;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// How a path stands to the snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Snapshots hold it.
    Recorded,
    /// An ignored folder in which some files are tracked: only those are recorded.
    Mixed,
    /// Snapshots do not hold it, nor anything below it.
    Ignored,
}

/// What is ignored. Paths are bytes relative to the root.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub struct Ignored {
    record: Record,
    files: BTreeSet<Vec<u8>>,
    folders: BTreeSet<Vec<u8>>,
    kept: BTreeSet<Vec<u8>>,
    kept_folders: BTreeSet<Vec<u8>>,
    empty: BTreeSet<Vec<u8>>,
    hollow: BTreeSet<Vec<u8>>,
    matchers: HashMap<Vec<u8>, Gitignore>,
    general: Vec<Gitignore>,
}

/// Its form on disk: escaped paths (`paths::escape`) and the text of the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    files: Vec<String>,
    folders: Vec<String>,
    kept: Vec<String>,
    empty: Vec<String>,
    hollow: Vec<String>,
    rules: Vec<Rules>,
    general: Vec<String>,
}

/// The rules that apply below one folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Rules {
    folder: String,
    text: String,
}

impl Ignored {
    /// Adds a path that git listed as ignored; a folder stands for all it holds.
    pub fn list(&mut self, path: &[u8], is: Listed) {
        let (set, record) = match is {
            Listed::File => (&mut self.files, &mut self.record.files),
            Listed::Folder => (&mut self.folders, &mut self.record.folders),
        };
        if set.insert(path.to_vec()) {
            record.push(paths::escape(path));
        }
    }

    /// Takes a folder off the list again: what it holds is listed by itself.
    pub fn unlist_folder(&mut self, path: &[u8]) {
        if self.folders.remove(path) {
            let shown = paths::escape(path);
            self.record.folders.retain(|listed| *listed != shown);
        }
    }

    /// Adds a tracked file that the rules match: it is never ignored.
    pub fn keep(&mut self, path: &[u8]) {
        if self.kept.insert(path.to_vec()) {
            self.record.kept.push(paths::escape(path));
            let mut folder = paths::parent(path);
            while !folder.is_empty() && self.kept_folders.insert(folder.to_vec()) {
                folder = paths::parent(folder);
            }
        }
    }

    /// Adds a folder of t0 that held nothing at all: it is recorded whatever is ignored in it later.
    pub fn note_empty(&mut self, path: &[u8]) {
        if self.empty.insert(path.to_vec()) {
            self.record.empty.push(paths::escape(path));
        }
    }

    /// Adds a folder of t0 that held ignored things alone: emptying it is no change.
    pub fn note_hollow(&mut self, path: &[u8]) {
        if self.hollow.insert(path.to_vec()) {
            self.record.hollow.push(paths::escape(path));
        }
    }

    /// Adds the text of a `.gitignore`, in force below its folder.
    pub fn add_rules(&mut self, folder: &[u8], text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.matchers.insert(folder.to_vec(), matcher(&text));
        self.record.rules.push(Rules { folder: paths::escape(folder), text });
    }

    /// Adds rules for the whole tree that every `.gitignore` overrides: `info/exclude` first, then
    /// `core.excludesFile`.
    pub fn add_general_rules(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.general.push(matcher(&text));
        self.record.general.push(text);
    }

    /// Returns the text of the rules for the whole tree, the strongest last as git reads a file.
    pub fn general_rules(&self) -> String {
        let mut text = String::new();
        for rules in self.record.general.iter().rev() {
            text.push_str(rules);
            if !rules.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }

    /// Returns the tracked files that the rules match.
    pub fn kept(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().map(Vec::as_slice)
    }

    /// Tells how a path stands; `above` is how its folder does.
    pub fn standing(&self, path: &[u8], is: Listed, above: Standing) -> Standing {
        if above == Standing::Ignored {
            return Standing::Ignored;
        }
        if self.kept.contains(path) {
            return Standing::Recorded;
        }
        let listed = match is {
            Listed::File => self.files.contains(path),
            Listed::Folder => self.folders.contains(path),
        };
        if !listed && above == Standing::Recorded && !self.matches_rules(path, is) {
            return Standing::Recorded;
        }
        if is == Listed::Folder && self.kept_folders.contains(path) {
            return Standing::Mixed;
        }
        Standing::Ignored
    }

    /// Tells whether t0's rules alone match a path, its folders left aside.
    pub fn matches_rules(&self, path: &[u8], is: Listed) -> bool {
        let is_folder = is == Listed::Folder;
        let mut folder = paths::parent(path);
        loop {
            if let Some(matcher) = self.matchers.get(folder) {
                let skip = if folder.is_empty() { 0 } else { folder.len() + 1 };
                match matcher.matched(paths::as_path(&path[skip..]), is_folder) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            if folder.is_empty() {
                break;
            }
            folder = paths::parent(folder);
        }
        for matcher in &self.general {
            match matcher.matched(paths::as_path(path), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }

    /// Tells whether a folder without recorded content is itself recorded.
    pub fn records_folder(&self, path: &[u8], content: Content) -> bool {
        match content {
            Content::Nothing => !self.hollow.contains(path),
            Content::IgnoredAlone => self.empty.contains(path),
        }
    }
}

/// What a path is to a list of ignored paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// A file, link or special file.
    File,
    /// A folder.
    Folder,
}

/// What a folder without recorded content holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No name at all.
    Nothing,
    /// Names, all of them ignored.
    IgnoredAlone,
}

impl From<Record> for Ignored {
    fn from(record: Record) -> Self {
        let mut ignored = Self::default();
        let bytes = |path: &String| paths::unescape(path).unwrap_or_default();
        record.files.iter().for_each(|path| ignored.list(&bytes(path), Listed::File));
        record.folders.iter().for_each(|path| ignored.list(&bytes(path), Listed::Folder));
        record.kept.iter().for_each(|path| ignored.keep(&bytes(path)));
        record.empty.iter().for_each(|path| ignored.note_empty(&bytes(path)));
        record.hollow.iter().for_each(|path| ignored.note_hollow(&bytes(path)));
        for rules in &record.rules {
            ignored.add_rules(&bytes(&rules.folder), rules.text.as_bytes());
        }
        record.general.iter().for_each(|text| ignored.add_general_rules(text.as_bytes()));
        ignored
    }
}

impl From<Ignored> for Record {
    fn from(ignored: Ignored) -> Self {
        ignored.record
    }
}

/// Compiles rules; a line that is no pattern matches nothing, as git has it.
fn matcher(text: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in text.trim_start_matches('\u{feff}').split('\n') {
        let _ = builder.add_line(None, line.strip_suffix('\r').unwrap_or(line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Ignored as Out, Mixed, Recorded};

    fn sample() -> Ignored {
        let mut ignored = Ignored::default();
        ignored.add_rules(b"", b"*.o\r\nig/\n/only\n");
        ignored.add_rules(b"sub", b"!keep.o\n/x\n");
        ignored.add_general_rules(b"*.swp\n");
        ignored.list(b"odd", Listed::File);
        ignored.keep(b"ig/tracked");
        ignored
    }

    #[test]
    fn the_deepest_rule_wins_and_tracked_files_are_never_ignored() {
        let ignored = sample();
        let file = |path: &str, above| ignored.standing(path.as_bytes(), Listed::File, above);
        assert_eq!(file("a/b.o", Recorded), Out);
        assert_eq!(file("sub/keep.o", Recorded), Recorded);
        assert_eq!(file("sub/x", Recorded), Out);
        assert_eq!(file("sub/deep/x", Recorded), Recorded);
        assert_eq!(file("deep/only", Recorded), Recorded);
        assert_eq!(file("a.swp", Recorded), Out);
        assert_eq!(file("odd", Recorded), Out);
        assert_eq!(ignored.standing(b"odd", Listed::Folder, Recorded), Recorded);
        assert_eq!(ignored.standing(b"ig", Listed::Folder, Recorded), Mixed);
        assert_eq!(file("ig/tracked", Mixed), Recorded);
        assert_eq!(file("ig/new", Mixed), Out);
    }

    #[test]
    fn it_comes_back_from_its_record() {
        let text = serde_json::to_string(&sample()).unwrap();
        let back: Ignored = serde_json::from_str(&text).unwrap();
        assert_eq!(back.record, sample().record);
        assert_eq!(back.standing(b"sub/keep.o", Listed::File, Recorded), Recorded);
        assert_eq!(back.standing(b"q.o", Listed::File, Recorded), Out);
    }
}
