//! Judges the test surface: settings, tests that are gone or say less, results that do not fit. Pure:
//! the facts were measured by whoever ran the check. `overlaid` judges the overlay, `canaries` what has to
//! go red in it.
//!
//! What is found after exec halts at once. What is found at a would-be green is told to the agent the
//! first time and halts the second; `judge` counts.

use crate::domain::command::Exit;
use crate::domain::evidence::{Breach, Verdict};
use crate::domain::guard::is_outside;
use crate::domain::history::{History, Start};
use crate::domain::judge::{Phase, read};
use crate::domain::observation::{CheckRun, Observation, PathChange};
use crate::domain::overlaid;
use crate::domain::plan::{Assertions, Plan};
use crate::domain::reason::HaltReason;
use crate::domain::results::{Results, Runner, TestId, base_id, is_told_as_a_whole, last_part};
use crate::domain::surface::{SettingChange, SurfaceFact, TestAt, Weaker};
use crate::domain::whereabouts::{Files, Whereabouts, both};
use std::collections::{BTreeMap, HashMap};

/// How a sentence begins that says a runner left before it had finished.
pub const INCOMPLETE: &str = "incomplete: ";
/// How a sentence begins that says results and exit code contradict each other.
pub const MISMATCH: &str = "rc_results_mismatch: ";
/// How a sentence begins that says a reader stopped at its limit: what else the check told is not known.
pub const UNREAD: &str = "more than is read: ";

/// Most findings of one kind that are told one by one.
pub(super) const MOST: usize = 20;

/// Returns the settings and fixtures that are not as at t0: these halt at once.
pub fn settings(observation: &Observation) -> Vec<Breach> {
    let Some(surface) = &observation.surface else { return Vec::new() };
    surface.settings.iter().take(MOST).map(setting).collect()
}

fn setting(change: &SettingChange) -> Breach {
    let SettingChange { path, key, before, after } = change;
    let is_whole = |text: &str| matches!(text, "absent" | "present" | "a file" | "a link");
    let whole = key == "content" && is_whole(before) && is_whole(after);
    let what = match (before.as_str(), after.as_str()) {
        ("absent", _) if whole => {
            format!("{path} decides the tests and was not there at the start")
        }
        (_, "absent") if whole => format!("{path} decides the tests and is gone"),
        (_, "a link") if whole => format!("{path} decides the tests and is a link now"),
        _ if whole => format!("{path} decides the tests and was changed"),
        _ if key == "content" => format!("{path} decides the tests: {before} → {after}"),
        _ => format!("{path}: {key} was changed: {before} → {after}"),
    };
    breach("protected_manifest", path, None, what)
}

/// Returns the breach of a setting that no snapshot holds.
pub fn hidden_setting(path: &str, done: &str) -> Breach {
    breach("protected_manifest", path, None, format!("{path} decides the tests and {done}"))
}

pub(super) fn breach(guard: &str, path: &str, line: Option<u32>, what: String) -> Breach {
    Breach {
        guard: guard.to_owned(),
        reason: HaltReason::MetricIntegrityViolation,
        path: path.to_owned(),
        line,
        what,
    }
}

/// Says whether a run claims to be green, whatever its results say.
pub fn claims_green(plan: &Plan, run: &CheckRun, verdict: Verdict) -> bool {
    verdict == Verdict::Pass || run.run.exit == Exit::Code { code: plan.success_exit_code }
}

/// Returns what keeps a would-be green from being one.
pub fn vetoes(plan: &Plan, history: &History, observation: &Observation) -> Vec<Breach> {
    let Some(check) = &observation.check else { return Vec::new() };
    let verdict = read(plan, &history.known, &history.unstable, Phase::Loop, check).verdict;
    if verdict == Verdict::Error || !claims_green(plan, check, verdict) {
        return Vec::new();
    }
    let start = &history.start;
    let none = SurfaceFact::default();
    let surface = observation.surface.as_ref().unwrap_or(&none);
    let own = observation.own.as_ref().unwrap_or(check);
    let mut found = outside(&observation.control_changes);
    found.extend(untold(plan, start, check, &observation.changes));
    if verdict == Verdict::Pass {
        found.extend(lost(start, surface, observation, &own.results));
        found.extend(skipped(start, surface, &own.results));
        found.extend(weakened(plan, start, surface, observation, &own.results));
        found.extend(overlaid::judge(plan, history, observation));
        found.extend(covered(plan, observation));
    }
    found.dedup_by(|a, b| a.what == b.what);
    found
}

/// Says what a green is not held to because the loop file says so: files that the task may change, and
/// assertions that are only reported.
pub fn unguarded(plan: &Plan, history: &History, observation: &Observation) -> Vec<String> {
    let mut notes = Vec::new();
    let freed = observation.surface.as_ref().map(|surface| surface.freed.as_slice());
    if let Some(files @ [_, ..]) = freed {
        let named: Vec<&str> = files.iter().take(5).map(String::as_str).collect();
        let more = match files.len() - named.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        notes.push(format!(
            "changed and not guarded, as guards.mutable says: {}{more}",
            named.join(", ")
        ));
    }
    if plan.guards.assertions == Assertions::Report {
        let mut strict = plan.clone();
        strict.guards.assertions = Assertions::Strict;
        let all = vetoes(&strict, history, observation).into_iter();
        let less = all.filter(|breach| breach.guard == "assertions");
        notes.extend(less.map(|breach| format!("guards.assertions: {}", breach.what)));
    }
    notes
}

/// What the check uses outside of the workspace and exec changed: no overlay takes that from t0.
fn outside(changes: &[PathChange]) -> Vec<Breach> {
    let changed = changes.iter().map(|change| change.path.as_str()).filter(|path| is_outside(path));
    let told = changed.map(|path| {
        let what = format!(
            "{path} lies outside of the workspace, the check uses it, and it is not as it was before exec ran; \
             what the check needs is installed by `setup`"
        );
        breach("environment", path, None, what)
    });
    told.take(MOST).collect()
}

/// Results that are missing although the check says green.
fn untold(plan: &Plan, start: &Start, check: &CheckRun, changes: &[PathChange]) -> Vec<Breach> {
    if check.run.exit != (Exit::Code { code: plan.success_exit_code }) || start.tests.is_empty() {
        return Vec::new();
    }
    let (path, where_from) = culprit(changes);
    let results = &check.results;
    if results.tests().is_empty() && results.broken.is_none() {
        let n = start.tests.len();
        let what = format!(
            "the check ended as green and reported none of the {n} tests that it ran at the start ({}){where_from}",
            some(start.tests.keys())
        );
        return vec![breach("results", path, None, what)];
    }
    if start.was_incomplete {
        return Vec::new();
    }
    let says = |text: &&String| {
        let cut = text.starts_with(UNREAD) && !start.was_cut;
        cut || text.starts_with(INCOMPLETE) || text.starts_with(MISMATCH)
    };
    let told = results.problems.iter().filter(says).map(|text| {
        let text = text.trim_start_matches(INCOMPLETE).trim_start_matches(MISMATCH);
        let whose = results.unknown().into_iter().chain(results.failed.iter().cloned());
        let named: Vec<TestId> = whose.take(3).collect();
        let which =
            if named.is_empty() { String::new() } else { format!(" ({})", some(named.iter())) };
        let text = text.trim_end_matches('.');
        let what = format!("results do not fit the green: {text}{which}{where_from}");
        breach("results", path, None, what)
    });
    told.take(MOST).collect()
}

/// Returns the file that changed, where there is one alone, and words that name those that did.
///
/// What keeps results from being told has come since t0: at the start they were told.
fn culprit(changes: &[PathChange]) -> (&str, String) {
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    let shown = paths.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    match paths.as_slice() {
        [] => ("", String::new()),
        [one] => (one, format!("; what changed is {one}")),
        [_, _] | [_, _, _] => ("", format!("; what changed is {shown}")),
        [_, _, _, rest @ ..] => ("", format!("; what changed is {shown} and {} more", rest.len())),
    }
}

fn some<'a>(ids: impl Iterator<Item = &'a TestId>) -> String {
    let ids: Vec<&str> = ids.map(TestId::as_ref).collect();
    let shown = ids.iter().take(3).copied().collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(3) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Tests of t0 that are gone, after every explanation.
fn lost(
    start: &Start,
    surface: &SurfaceFact,
    observation: &Observation,
    now: &Results,
) -> Vec<Breach> {
    let mut found: Vec<Breach> = Vec::new();
    let cases = Cases::of(now);
    let named = Named::of(now);
    let went = Whereabouts::of(surface);
    let mut gone: BTreeMap<&str, u32> = BTreeMap::new();
    // Beyond a limit nobody knows what is gone; `untold` says so where all was read at the start.
    if now.runner != Runner::Command && !is_cut(now) {
        for id in start.tests.keys().filter(|id| !now.collected.contains(*id)) {
            let base = family(now.runner, id);
            if is_told_as_a_whole(&now.collected, id) {
                continue;
            }
            if start.loose.contains(base) && cases.has(base) {
                continue;
            }
            *gone.entry(base).or_default() += 1;
        }
    }
    // A file that names no test is one as a whole; under another name it still is.
    let whole = |id: &&TestId| now.runner == Runner::Node && !id.contains(" > ");
    let as_many_whole =
        now.collected.iter().filter(whole).count() >= start.tests.keys().filter(whole).count();
    for (base, count) in gone {
        if now.runner == Runner::Node && !base.contains(" > ") && as_many_whole {
            continue;
        }
        // As many cases under other names: a table that was written another way.
        let before = start.cases(base);
        let after = cases.count(base);
        if after >= before || went.is_moved(&named, base) || went.is_freed(base) {
            continue;
        }
        if after > 0 && count <= 1 && before == 1 {
            continue;
        }
        let (file, line) = place(surface, observation, base);
        let what = if after > 0 {
            format!(
                "{}: {base} had {before} cases at the start and has {after} now",
                or_check(&file)
            )
        } else {
            format!("{}: test {base} is gone", or_check(&file))
        };
        found.push(breach("collected_tests", &file, line, what));
        if found.len() >= MOST {
            return found;
        }
    }
    for test in &surface.lost {
        if found.len() >= MOST {
            break;
        }
        // What costs least is asked first.
        let known = found.iter().any(|breach| breach.what.contains(&test.name));
        if known || !(start.counts(test) || start.tests.is_empty()) || named.has(test) {
            continue;
        }
        let what = format!("{}: test {} is gone", test.file, test.name);
        found.push(breach("collected_tests", &test.file, Some(test.line), what));
    }
    found
}

/// Says whether a reader stopped at its limit, so that what is not named may still be there.
pub(super) fn is_cut(results: &Results) -> bool {
    results.problems.iter().any(|text| text.starts_with(UNREAD))
}

fn or_check(file: &str) -> &str {
    if file.is_empty() { "the check" } else { file }
}

/// The collected ids by the test's own name.
pub(super) struct Named<'a>(BTreeMap<&'a str, Vec<&'a str>>);

impl<'a> Named<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for id in &results.collected {
            named.entry(last_part(base_id(id))).or_default().push(id);
        }
        Self(named)
    }

    pub(super) fn has(&self, test: &TestAt) -> bool {
        let ids = self.0.get(test.name.as_str());
        if ids.is_some_and(|ids| ids.iter().any(|id| names(id, test))) {
            return true;
        }
        let Some(pieces) = pieces(&test.name) else { return false };
        let made = self.0.iter().filter(|(name, _)| is_made_of(name, &pieces));
        made.flat_map(|(name, ids)| ids.iter().map(move |id| (name, id)))
            .any(|(name, id)| names(id, &TestAt { name: (*name).to_owned(), ..test.clone() }))
    }
}

/// Returns what stands around the gaps of a name that is filled in at run time, as in `${name}`, `#{name}`
/// and `$name`; nothing where it has no gap.
pub(super) fn pieces(name: &str) -> Option<Vec<&str>> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while let Some(at) = rest.find(['$', '#', '%']) {
        let (before, gap) = rest.split_at(at);
        let length = match gap.as_bytes() {
            [b'$' | b'#', b'{', ..] => gap.find('}').map(|end| end + 1),
            [b'$', first, ..] if first.is_ascii_alphabetic() => {
                let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
                Some(gap[1..].find(|c| !word(c)).map_or(gap.len(), |end| end + 1))
            }
            [b'%', kind, ..] if kind.is_ascii_alphabetic() => Some(2),
            _ => None,
        };
        let Some(length) = length else { break };
        pieces.push(before);
        rest = &gap[length..];
    }
    if pieces.is_empty() {
        return None;
    }
    pieces.push(rest);
    // A name that is nothing but a gap is every name.
    pieces.iter().any(|piece| piece.len() > 2).then_some(pieces)
}

pub(super) fn is_made_of(name: &str, pieces: &[&str]) -> bool {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return false };
    let Some(mut rest) = name.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    for piece in pieces.iter().take(pieces.len() - 1).skip(1) {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    true
}

/// Returns where a test of t0 stood, as far as that is known.
fn place(surface: &SurfaceFact, observation: &Observation, base: &str) -> (String, Option<u32>) {
    if let Some(test) = surface.lost.iter().find(|test| names(base, test)) {
        return (test.file.clone(), Some(test.line));
    }
    let weak = surface.weakened.iter().find(|weak| names(base, &weak.was));
    if let Some(weak) = weak {
        return (weak.at.file.clone(), Some(weak.at.line));
    }
    let changed: Vec<&str> = surface
        .files
        .iter()
        .map(String::as_str)
        .chain(observation.changes.iter().map(|change| change.path.as_str()))
        .collect();
    let named = changed.iter().find(|file| base.contains(**file));
    let only = (surface.files.len() == 1).then(|| surface.files[0].as_str());
    (named.copied().or(only).unwrap_or_default().to_owned(), None)
}

/// The collected ids by family.
pub(super) struct Cases<'a>(BTreeMap<&'a str, u32>);

impl<'a> Cases<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let mut cases = BTreeMap::new();
        for id in &results.collected {
            *cases.entry(family(results.runner, id)).or_default() += 1;
        }
        Self(cases)
    }

    pub(super) fn has(&self, base: &str) -> bool {
        self.0.contains_key(base)
    }

    fn count(&self, base: &str) -> u32 {
        self.0.get(base).copied().unwrap_or_default()
    }
}

/// Returns what the cases of one parametrised test have in common.
pub fn family(runner: Runner, id: &str) -> &str {
    match (runner, id.rsplit_once('.')) {
        // Subtests: `example.com/a/b.TestX/case`.
        (Runner::Go, Some(_)) => match id.find(".Test").or_else(|| id.find(".Fuzz")) {
            Some(at) => id[at..].find('/').map_or(id, |slash| &id[..at + slash]),
            None => id,
        },
        _ => base_id(id),
    }
}

/// Says whether an id is of a test as the source has it.
pub fn names(id: &str, test: &TestAt) -> bool {
    let base = base_id(id);
    let own = last_part(base);
    (own == test.name || id == test.name) && may_stand_in(id, &test.file)
}

/// Says whether a test with this id may stand in a file: ids that hold a path must hold this one.
pub fn may_stand_in(id: &str, file: &str) -> bool {
    let base = base_id(id);
    let has_path = base.split("::").next().is_some_and(|first| first.contains('.'))
        && (base.contains("::") || base.contains(" > "));
    !has_path
        || base.contains(file)
        || !file.contains('.')
        || !base.split([':', '>']).next().unwrap_or(base).trim().contains('/')
            && file.ends_with(base.split([':', '>']).next().unwrap_or(base).trim())
}

/// Tests that ran at t0 and are skipped now.
fn skipped(start: &Start, surface: &SurfaceFact, now: &Results) -> Vec<Breach> {
    let went = Whereabouts::of(surface);
    let ran =
        |id: &&TestId| start.tests.get(*id).is_some_and(|fared| fared.ran) && !went.is_freed(id);
    let grew = now.skipped.iter().filter(ran).map(|id| {
        let file = file_in(id);
        breach(
            "collected_tests",
            &file,
            None,
            format!("test {id} ran at the start and is skipped now"),
        )
    });
    grew.take(MOST).collect()
}

/// Returns the path that an id begins with, where it does.
pub(super) fn file_in(id: &str) -> String {
    let first = id.split("::").next().unwrap_or(id);
    let first = first.split(" > ").next().unwrap_or(first);
    let is_file = first != id && first.rsplit('/').next().is_some_and(|name| name.contains('.'));
    if is_file { first.to_owned() } else { String::new() }
}

/// Tests whose source says less than at t0.
fn weakened(
    plan: &Plan,
    start: &Start,
    surface: &SurfaceFact,
    observation: &Observation,
    own: &Results,
) -> Vec<Breach> {
    let overlay = observation.confirmations.last().map(|run| &run.results);
    let executed = overlay.map(|overlay| [Executed::of(overlay), Executed::of(own)]);
    let mut found = Vec::new();
    for weak in &surface.weakened {
        if found.len() >= MOST {
            return found;
        }
        let of_the_check = start.counts(&weak.was) || start.tests.is_empty();
        if !of_the_check {
            continue;
        }
        let (guard, word) = match weak.how {
            Weaker::Marker => ("collected_tests", "is skipped, inverted or filtered now"),
            Weaker::Swallowed => ("assertions", "swallows what its assertions raise"),
            Weaker::Assertions => ("assertions", "asserts less"),
        };
        if guard == "assertions" && plan.guards.assertions != Assertions::Strict {
            continue;
        }
        // What really ran outweighs what can be read.
        if weak.how == Weaker::Assertions
            && let Some([overlay, own]) = &executed
            && let (Some(before), Some(after)) = (overlay.by(&weak.was), own.by(&weak.at))
            && after >= before
        {
            continue;
        }
        let what = format!(
            "{}: test {} {word}: {} → {}",
            weak.at.file, weak.at.name, weak.before, weak.after
        );
        found.push(breach(guard, &weak.at.file, Some(weak.at.line), what));
    }
    if plan.guards.assertions == Assertions::Strict
        && let Some(overlay) = overlay
        && observation.own.is_some()
    {
        found.extend(executes_less(overlay, own, surface, &found));
    }
    found.truncate(MOST);
    found
}

/// The assertions that tests executed, by the names that these may have in the source.
struct Executed<'a>(HashMap<&'a str, Vec<(&'a str, u32)>>);

impl<'a> Executed<'a> {
    fn of(results: &'a Results) -> Self {
        let mut counts: HashMap<&str, Vec<(&str, u32)>> = HashMap::new();
        for (id, count) in &results.executed {
            for name in both(id).into_iter().flatten() {
                counts.entry(name).or_default().push((id, *count));
            }
        }
        Self(counts)
    }

    fn by(&self, test: &TestAt) -> Option<u32> {
        let of = self.0.get(test.name.as_str())?.iter().filter(|(id, _)| names(id, test));
        of.map(|(_, count)| *count).reduce(u32::saturating_add)
    }
}

/// Tests that execute fewer assertions than the same test of t0 on the same candidate.
fn executes_less(
    overlay: &Results,
    own: &Results,
    surface: &SurfaceFact,
    known: &[Breach],
) -> Vec<Breach> {
    let sums = |results: &Results| {
        let mut sums: BTreeMap<String, u32> = BTreeMap::new();
        for (id, count) in &results.executed {
            *sums.entry(base_id(id).to_owned()).or_default() += count;
        }
        sums
    };
    let (before, after) = (sums(overlay), sums(own));
    let (files, went) =
        (Files::new(surface.files.iter().map(String::as_str)), Whereabouts::of(surface));
    let named = Named::of(own);
    let mut found = Vec::new();
    for (base, then) in before {
        let Some(now) = after.get(&base).copied().filter(|now| *now < then) else { continue };
        let Some(file) = files.first_in(&base) else { continue };
        // A test that was split goes on elsewhere, where it is told.
        if went.is_moved(&named, &base)
            || known.iter().any(|breach| breach.what.contains(last_part(&base)))
        {
            continue;
        }
        let what = format!("{base} executes {now} assertions, {then} with the files of the start");
        found.push(breach("assertions", file, None, what));
        if found.len() >= MOST {
            break;
        }
    }
    found
}

/// Coverage below the floor.
fn covered(plan: &Plan, observation: &Observation) -> Vec<Breach> {
    let Some(fact) = &observation.coverage else { return Vec::new() };
    let mut found: Vec<Breach> = fact
        .excluded
        .iter()
        .take(MOST)
        .map(|file| {
            let what = format!("{file}: more lines are excluded from coverage than at the start");
            breach("coverage_floor", file, None, what)
        })
        .collect();
    let least = fact.before_ppm.saturating_sub(plan.guards.coverage_tolerance_ppm);
    if fact.after_ppm < least {
        let percent = |ppm: u32| format!("{}.{:02} %", ppm / 10_000, ppm % 10_000 / 100);
        let what = format!(
            "coverage of the lines of the start fell: {} → {}",
            percent(fact.before_ppm),
            percent(fact.after_ppm)
        );
        found.push(breach("coverage_floor", "", None, what));
    }
    found
}

/// How a problem ends that names a file of the tests which was written to during a run.
pub const REWRITTEN: &str = "was changed while the check ran.";

/// Returns what the agent is told of vetoes.
pub fn feedback(vetoes: &[Breach]) -> String {
    let mut text = "The check is green, but not by the tests of the start:\n".to_owned();
    for veto in vetoes {
        text.push_str(&format!("- {}.\n", veto.what.trim_end_matches('.')));
    }
    let inside = |path: &&str| !path.is_empty() && !is_outside(path);
    let mut files: Vec<&str> =
        vetoes.iter().map(|veto| veto.path.as_str()).filter(inside).collect();
    files.sort_unstable();
    files.dedup();
    text.push_str(match vetoes.iter().all(|veto| is_outside(&veto.path)) {
        true => "Put back what lies outside of the workspace and change the code instead; the next such green ends the run.",
        false => "Put the tests back as they were and change the code instead; the next such green ends the run.",
    });
    if !files.is_empty() {
        text.push_str(&format!(
            " Only a person can declare such a change: `guards: {{mutable: [{}]}}` in the loop file.",
            files.into_iter().take(3).collect::<Vec<_>>().join(", ")
        ));
    }
    text
}
