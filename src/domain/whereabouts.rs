//! Where tests of the start went, looked up by name: found elsewhere, or in files that the task changes.
//!
//! A change may touch thousands of files, so that nothing here walks over all of them for each test.

use crate::domain::results::{base_id, last_part};
use crate::domain::surface::{Moved, SurfaceFact, TestAt};
use crate::domain::weakening::{Named, is_made_of, names, pieces};
use aho_corasick::AhoCorasick;
use std::collections::HashMap;

/// A list of files, to find those that an id has in it.
pub(super) struct Files<'a> {
    files: Vec<&'a str>,
    // None where it would be too large; each file is looked for then.
    finder: Option<AhoCorasick>,
}

impl<'a> Files<'a> {
    pub(super) fn new(files: impl Iterator<Item = &'a str>) -> Self {
        let files: Vec<&str> = files.collect();
        let finder = AhoCorasick::new(&files).ok();
        Self { files, finder }
    }

    /// Returns the first of the list that stands in an id.
    pub(super) fn first_in(&self, id: &str) -> Option<&'a str> {
        match &self.finder {
            Some(finder) => {
                let found = finder.find_overlapping_iter(id).map(|found| found.pattern());
                self.files.get(found.min()?.as_usize()).copied()
            }
            None => self.files.iter().find(|file| id.contains(**file)).copied(),
        }
    }
}

/// What became of the tests of the start.
pub(super) struct Whereabouts<'a> {
    moved: HashMap<&'a str, Vec<&'a Moved>>,
    /// Moves of tests whose names are filled in at run time, with what stands around the gaps.
    filled: Vec<(Vec<&'a str>, &'a Moved)>,
    freed: Files<'a>,
    freed_tests: HashMap<&'a str, Vec<&'a TestAt>>,
}

impl<'a> Whereabouts<'a> {
    pub(super) fn of(surface: &'a SurfaceFact) -> Self {
        let mut moved: HashMap<&str, Vec<&Moved>> = HashMap::new();
        let mut filled = Vec::new();
        for one in &surface.moved {
            moved.entry(&one.from.name).or_default().push(one);
            filled.extend(pieces(&one.from.name).map(|pieces| (pieces, one)));
        }
        let mut freed_tests: HashMap<&str, Vec<&TestAt>> = HashMap::new();
        for test in &surface.freed_tests {
            freed_tests.entry(&test.name).or_default().push(test);
        }
        let freed = Files::new(surface.freed.iter().map(String::as_str));
        Self { moved, filled, freed, freed_tests }
    }

    /// The moves of tests that an id names.
    fn moves<'b>(&'b self, id: &'b str) -> impl Iterator<Item = &'a Moved> + 'b {
        let moves = both(id).into_iter().flatten().filter_map(|name| self.moved.get(name));
        let own = last_part(base_id(id));
        let filled = self.filled.iter().filter(move |(pieces, moved)| {
            let at = || TestAt { name: own.to_owned(), ..moved.from.clone() };
            is_made_of(own, pieces) && names(id, &at())
        });
        let plain = moves.flatten().copied().filter(move |moved| names(id, &moved.from));
        plain.chain(filled.map(|(_, moved)| *moved))
    }

    /// Says whether a test was found under another name or place, where it is still collected.
    pub(super) fn is_moved(&self, now: &Named<'_>, id: &str) -> bool {
        self.moves(id).any(|moved| now.has(&moved.to))
    }

    /// Says whether a test stood in a file that the task is meant to change.
    pub(super) fn is_freed(&self, id: &str) -> bool {
        let tests = both(id).into_iter().flatten().filter_map(|name| self.freed_tests.get(name));
        self.freed.first_in(id).is_some() || tests.flatten().any(|test| names(id, test))
    }
}

/// The names that a test of the source may have under an id: its own, and the whole of it.
pub(super) fn both(id: &str) -> [Option<&str>; 2] {
    let own = last_part(base_id(id));
    [Some(own), (own != id).then_some(id)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, name: &str) -> TestAt {
        TestAt { file: file.to_owned(), name: name.to_owned(), line: 1 }
    }

    #[test]
    fn the_first_file_of_the_list_counts_and_not_the_first_in_the_id() {
        let files = Files::new(["b/c.py", "a/b/c.py", "c.py"].into_iter());
        assert_eq!(files.first_in("a/b/c.py::test_a"), Some("b/c.py"));
        assert_eq!(files.first_in("x/c.py::test_a"), Some("c.py"));
        assert_eq!(files.first_in("x/d.py::test_a"), None);
        assert_eq!(Files::new(std::iter::empty()).first_in("a"), None);
    }

    #[test]
    fn moves_and_freed_tests_are_found_by_own_name_and_by_the_whole_id() {
        let surface = SurfaceFact {
            moved: vec![
                Moved { from: at("t/a.py", "test_a"), to: at("t/b.py", "test_b") },
                Moved { from: at("a.js", "adds ${n}"), to: at("b.js", "sums ${n}") },
            ],
            freed: vec!["t/free.py".to_owned()],
            freed_tests: vec![at("spec.js", "adds > well")],
            ..SurfaceFact::default()
        };
        let found = Whereabouts::of(&surface);
        let went = |id: &str| found.moves(id).next().is_some();
        assert!(went("t/a.py::test_a[1]"));
        assert!(went("a.js > adds 7") && !went("a.js > takes 7"));
        assert!(!went("t/c.py::test_a") && !went("t/a.py::test_b"));
        assert!(found.is_freed("t/free.py::test_x") && found.is_freed("adds > well"));
        assert!(!found.is_freed("t/a.py::test_a"));
    }
}
