//! Judges the overlay: a candidate that is red with the tests of t0, or that does not report them.
//!
//! Nobody is accused where the surface is as at t0; `judge` then says what else a red copy means.

use crate::domain::evidence::{Breach, Verdict};
use crate::domain::history::{History, Start};
use crate::domain::judge::{Phase, read};
use crate::domain::normalise::telling_line;
use crate::domain::observation::Observation;
use crate::domain::plan::Plan;
use crate::domain::results::{Results, base_id, is_told_as_a_whole, last_part};
use crate::domain::surface::SurfaceFact;
use crate::domain::weakening::{
    Cases, INCOMPLETE, MISMATCH, MOST, Named, REWRITTEN, breach, family, file_in, is_cut,
};
use crate::domain::whereabouts::{Files, Whereabouts};
use std::collections::{HashMap, HashSet};

/// Returns what speaks against a green in its overlay.
pub fn judge(plan: &Plan, history: &History, observation: &Observation) -> Vec<Breach> {
    let (Some(overlay), Some(surface)) = (&observation.overlay, &observation.surface) else {
        return Vec::new();
    };
    let readings: Vec<_> = observation
        .confirmations
        .iter()
        .map(|run| (run, read(plan, &history.known, &history.unstable, Phase::Loop, run)))
        .collect();
    let Some((run, reading)) = readings.last() else { return Vec::new() };
    if readings.iter().all(|(_, reading)| reading.verdict == Verdict::Pass) {
        let mut found = unreported(&history.start, surface, &run.results);
        if !history.start.was_incomplete {
            let told = !history.start.tests.is_empty();
            let odd = readings.iter().flat_map(|(run, _)| &run.results.problems);
            // Where no test was told at the start, what is told later fits or not as it likes; files are what
            // they are.
            let odd = odd.filter(|text| {
                let fits = text.starts_with(INCOMPLETE) || text.starts_with(MISMATCH);
                fits && (told || text.ends_with(REWRITTEN))
            });
            found.extend(odd.take(MOST).map(|text| {
                let text = text.trim_start_matches(INCOMPLETE).trim_start_matches(MISMATCH);
                let what = format!(
                    "results do not fit the green of the tests of the start: {}",
                    text.trim_end_matches('.')
                );
                breach("results", "", None, what)
            }));
        }
        return found;
    }
    if readings.iter().any(|(_, reading)| reading.verdict != Verdict::Fail) {
        return Vec::new();
    }
    if !overlay.runner_files.is_empty() && overlay.tree == observation.tree {
        let what = format!(
            "the check is green with {} as it is in the workspace, and red with the one of the start",
            overlay.runner_files.iter().take(3).cloned().collect::<Vec<_>>().join(", ")
        );
        return vec![breach("protected_manifest", &overlay.runner_files[0], None, what)];
    }
    if reading.broken {
        let why = run.results.broken.as_deref().map(first_words).unwrap_or_default();
        let why = why.trim_end_matches('.');
        let file = overlay.restored.first().or(overlay.dropped.first());
        return file
            .map(|file| {
                let what = format!(
                    "{file}: the tests of the start do not build against the change: {why}"
                );
                vec![breach("overlay", file, None, what)]
            })
            .unwrap_or_default();
    }
    let changed: HashSet<&str> =
        overlay.restored.iter().chain(&overlay.dropped).map(String::as_str).collect();
    let places = Places::of(surface, &overlay.restored);
    let mut found = Vec::new();
    for id in &reading.failed {
        // A test whose file is as at t0 cannot be red for what was laid over it, unless nobody knows
        // which file it is in, or what was laid over is code and data that tests share.
        let own = places.file(id).filter(|file| changed.contains(file.as_str()));
        let is_own = own.is_some();
        let Some(file) = own.or_else(|| overlay.shared.first().cloned()) else { continue };
        let said = run.results.failures.iter().find(|failure| failure.id == *id);
        let why = said.map(|failure| first_words(&failure.message)).unwrap_or_default();
        let line = said.and_then(|f| f.line.filter(|_| f.file.as_deref() == Some(file.as_str())));
        let why = why.trim_end_matches(['.', ':']);
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let what = if is_own {
            format!(
                "{file}: test {id} passes only as it was changed; as it was at the start it fails{why}"
            )
        } else {
            let shared = overlay.shared.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            format!("{shared}: test {id} passes only with this change; without it, it fails{why}")
        };
        found.push(breach("overlay", &file, line, what));
        if found.len() >= MOST {
            break;
        }
    }
    if found.is_empty() && reading.failed.is_empty() {
        let files: Vec<&String> = overlay.restored.iter().chain(&overlay.dropped).collect();
        if let Some(file) = files.first() {
            let more = match files.len() - 1 {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            let what = format!(
                "{file}{more}: the check passes only with this change; with the tests of the start it is red"
            );
            found.push(breach("overlay", file, None, what));
        }
    }
    found
}

/// Where failed tests stand.
struct Places<'a> {
    restored: Files<'a>,
    first: Option<&'a String>,
    /// The file of each test that was changed, by its own name.
    known: HashMap<&'a str, &'a str>,
}

impl<'a> Places<'a> {
    fn of(surface: &'a SurfaceFact, restored: &'a [String]) -> Self {
        let tests = surface
            .lost
            .iter()
            .chain(surface.weakened.iter().map(|weak| &weak.was))
            .chain(surface.moved.iter().map(|moved| &moved.from));
        let mut known = HashMap::new();
        for test in tests {
            known.entry(test.name.as_str()).or_insert(test.file.as_str());
        }
        let files = Files::new(restored.iter().map(String::as_str));
        Self { restored: files, first: restored.first(), known }
    }

    /// Returns the file of a failed test: the id's own, or the one in which such a test was changed.
    fn file(&self, id: &str) -> Option<String> {
        if let Some(file) = self.restored.first_in(id) {
            return Some(file.to_owned());
        }
        let own = file_in(id);
        if own.contains('/') {
            return Some(own);
        }
        let known = self.known.get(last_part(base_id(id)));
        known.map(|file| (*file).to_owned()).or_else(|| self.first.cloned())
    }
}

fn first_words(text: &str) -> String {
    telling_line(text, 160)
}

/// Returns the tests of t0 that a run of them did not report.
pub fn unreported(start: &Start, surface: &SurfaceFact, overlay: &Results) -> Vec<Breach> {
    if start.tests.is_empty() || start.was_incomplete || is_cut(overlay) {
        return Vec::new();
    }
    let (cases, named) = (Cases::of(overlay), Named::of(overlay));
    let went = Whereabouts::of(surface);
    let mut found = Vec::new();
    for (id, fared) in &start.tests {
        let base = family(overlay.runner, id);
        let told = overlay.passed.contains(id) || !fared.ran && overlay.collected.contains(id);
        // Cases may be made from what is tested; one of them has to be left.
        let family_told = base != id.as_ref() && cases.has(base) && !overlay.skipped.contains(id);
        if told || family_told || is_told_as_a_whole(&overlay.passed, id) {
            continue;
        }
        // A module that took another place has its tests there.
        if overlay.failed.contains(id) || went.is_moved(&named, base) || went.is_freed(id) {
            continue;
        }
        let (file, how) =
            (file_in(id), if overlay.skipped.contains(id) { "skipped" } else { "not reported" });
        let what = format!(
            "{id} ran at the start and is {how} now, although its files are those of the start"
        );
        found.push(breach("results", &file, None, what));
        if found.len() >= MOST {
            break;
        }
    }
    found
}
