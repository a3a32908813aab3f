//! Judges the test surface: settings, tests that are gone or say less, results that do not fit, and
//! canaries that stayed green. Pure: the facts were measured by whoever ran the check.
//!
//! What is found after exec halts at once. What is found at a would-be green is told to the agent the
//! first time and halts the second; `judge` counts.

use crate::domain::command::Exit;
use crate::domain::evidence::{Breach, OracleFinding, Verdict};
use crate::domain::history::{History, Start};
use crate::domain::judge::{Phase, read};
use crate::domain::observation::{CheckRun, Observation};
use crate::domain::plan::{Assertions, Plan};
use crate::domain::reason::HaltReason;
use crate::domain::results::{IdSet, Results, Runner, TestId, base_id, last_part};
use crate::domain::surface::{CanaryFact, SettingChange, SurfaceFact, TestAt, Weakened, Weaker};
use std::collections::BTreeMap;

/// How a sentence begins that says a runner left before it had finished.
pub const INCOMPLETE: &str = "incomplete: ";
/// How a sentence begins that says results and exit code contradict each other.
pub const MISMATCH: &str = "rc_results_mismatch: ";

/// Most findings of one kind that are told one by one.
const MOST: usize = 20;

/// Returns the settings and fixtures that are not as at t0: these halt at once.
pub fn settings(observation: &Observation) -> Vec<Breach> {
    let Some(surface) = &observation.surface else { return Vec::new() };
    surface.settings.iter().take(MOST).map(setting).collect()
}

fn setting(change: &SettingChange) -> Breach {
    let SettingChange { path, key, before, after } = change;
    let what = match (before.as_str(), after.as_str(), key.as_str()) {
        ("absent", _, "content") => {
            format!("{path} decides the tests and was not there at the start")
        }
        (_, "absent", "content") => format!("{path} decides the tests and is gone"),
        (_, _, "content") => format!("{path} decides the tests and was changed"),
        _ => format!("{path}: {key} was changed: {before} → {after}"),
    };
    breach("protected_manifest", path, None, what)
}

/// Returns the breach of a setting that no snapshot holds.
pub fn hidden_setting(path: &str, done: &str) -> Breach {
    breach("protected_manifest", path, None, format!("{path} decides the tests and {done}"))
}

fn breach(guard: &str, path: &str, line: Option<u32>, what: String) -> Breach {
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
    let mut found = untold(plan, start, check);
    if verdict == Verdict::Pass {
        found.extend(lost(start, surface, observation, &own.results));
        found.extend(skipped(start, &own.results));
        found.extend(weakened(plan, start, surface, observation, &own.results));
        found.extend(overlaid(plan, history, observation));
        found.extend(covered(plan, observation));
    }
    found.dedup_by(|a, b| a.what == b.what);
    found
}

/// Results that are missing although the check says green.
fn untold(plan: &Plan, start: &Start, check: &CheckRun) -> Vec<Breach> {
    if check.run.exit != (Exit::Code { code: plan.success_exit_code }) || start.tests.is_empty() {
        return Vec::new();
    }
    let results = &check.results;
    if results.tests().is_empty() && results.broken.is_none() {
        let n = start.tests.len();
        let what = format!(
            "the check ended as green and reported none of the {n} tests that it ran at the start ({})",
            some(start.tests.keys())
        );
        return vec![breach("results", "", None, what)];
    }
    if start.was_incomplete {
        return Vec::new();
    }
    let says = |text: &&String| text.starts_with(INCOMPLETE) || text.starts_with(MISMATCH);
    let told = results.problems.iter().filter(says).map(|text| {
        let text = text.trim_start_matches(INCOMPLETE).trim_start_matches(MISMATCH);
        let whose = results.unknown().into_iter().chain(results.failed.iter().cloned());
        let named: Vec<TestId> = whose.take(3).collect();
        let which =
            if named.is_empty() { String::new() } else { format!(" ({})", some(named.iter())) };
        let what = format!("results do not fit the green: {}{which}", text.trim_end_matches('.'));
        breach("results", "", None, what)
    });
    told.take(MOST).collect()
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
    let mut gone: BTreeMap<&str, u32> = BTreeMap::new();
    if now.runner != Runner::Command {
        for id in start.tests.keys().filter(|id| !now.collected.contains(*id)) {
            let base = family(now.runner, id);
            if start.loose.contains(base) && cases.has(base) {
                continue;
            }
            *gone.entry(base).or_default() += 1;
        }
    }
    for (base, count) in gone {
        // As many cases under other names: a table that was written another way.
        let before = start.cases(base);
        let after = cases.count(base);
        if after >= before || is_moved(surface, &named, base) {
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
        let known = found.iter().any(|breach| breach.what.contains(&test.name));
        let still = named.has(test);
        if known || still || !(start.counts(test) || start.tests.is_empty()) {
            continue;
        }
        let what = format!("{}: test {} is gone", test.file, test.name);
        found.push(breach("collected_tests", &test.file, Some(test.line), what));
    }
    found.truncate(MOST);
    found
}

fn or_check(file: &str) -> &str {
    if file.is_empty() { "the check" } else { file }
}

/// Says whether a test was found under another name or place, where it is still collected.
fn is_moved(surface: &SurfaceFact, now: &Named<'_>, base: &str) -> bool {
    let own = last_part(base_id(base));
    let of = |test: &TestAt| test.name == own || test.name == base;
    surface
        .moved
        .iter()
        .any(|moved| of(&moved.from) && names(base, &moved.from) && now.has(&moved.to))
}

/// The collected ids by the test's own name.
struct Named<'a>(BTreeMap<&'a str, Vec<&'a str>>);

impl<'a> Named<'a> {
    fn of(results: &'a Results) -> Self {
        let mut named: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for id in &results.collected {
            named.entry(last_part(base_id(id))).or_default().push(id);
        }
        Self(named)
    }

    fn has(&self, test: &TestAt) -> bool {
        let ids = self.0.get(test.name.as_str());
        ids.is_some_and(|ids| ids.iter().any(|id| names(id, test)))
    }
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
struct Cases<'a>(BTreeMap<&'a str, u32>);

impl<'a> Cases<'a> {
    fn of(results: &'a Results) -> Self {
        let mut cases = BTreeMap::new();
        for id in &results.collected {
            *cases.entry(family(results.runner, id)).or_default() += 1;
        }
        Self(cases)
    }

    fn has(&self, base: &str) -> bool {
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
    if own != test.name && id != test.name {
        return false;
    }
    // Ids that hold a path must hold this one.
    let has_path = base.split("::").next().is_some_and(|first| first.contains('.'))
        && (base.contains("::") || base.contains(" > "));
    !has_path
        || base.contains(test.file.as_str())
        || !test.file.contains('.')
        || !base.split([':', '>']).next().unwrap_or(base).trim().contains('/')
            && test.file.ends_with(base.split([':', '>']).next().unwrap_or(base).trim())
}

/// Tests that ran at t0 and are skipped now.
fn skipped(start: &Start, now: &Results) -> Vec<Breach> {
    let ran = |id: &&TestId| start.tests.get(*id).is_some_and(|fared| fared.ran);
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
fn file_in(id: &str) -> String {
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
    let mut found = Vec::new();
    for weak in &surface.weakened {
        let of_the_check = start.counts(&weak.was) || start.tests.is_empty();
        if !of_the_check {
            continue;
        }
        let executed = overlay.and_then(|overlay| executed(overlay, own, weak));
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
            && let Some((before, after)) = executed
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

/// Returns the assertions that a test executed with the files of t0 and with the candidate's own.
fn executed(overlay: &Results, own: &Results, weak: &Weakened) -> Option<(u32, u32)> {
    let sum = |results: &Results, test: &TestAt| {
        let of = results.executed.iter().filter(|(id, _)| names(id, test));
        of.map(|(_, count)| *count).reduce(u32::saturating_add)
    };
    Some((sum(overlay, &weak.was)?, sum(own, &weak.at)?))
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
    let mut found = Vec::new();
    for (base, then) in before {
        let Some(now) = after.get(&base).copied() else { continue };
        let file = surface.files.iter().find(|file| base.contains(file.as_str()));
        let (Some(file), true) = (file, now < then) else { continue };
        // A test that was split goes on elsewhere.
        let split = surface.moved.iter().any(|moved| names(&base, &moved.from));
        if split || known.iter().any(|breach| breach.what.contains(last_part(&base))) {
            continue;
        }
        let what = format!("{base} executes {now} assertions, {then} with the files of the start");
        found.push(breach("assertions", file, None, what));
    }
    found
}

/// The overlay is red: with the tests of t0 the candidate is not green.
fn overlaid(plan: &Plan, history: &History, observation: &Observation) -> Vec<Breach> {
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
        return unreported(&history.start, &run.results);
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
    let changed = |file: &str| overlay.restored.iter().chain(&overlay.dropped).any(|at| at == file);
    if reading.broken {
        let why = run.results.broken.as_deref().map(first_words).unwrap_or_default();
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
    let mut found = Vec::new();
    for id in &reading.failed {
        // A test whose file is as at t0 cannot be red for what was laid over it, unless nobody knows
        // which file it is in.
        let file = test_file(id, surface, &overlay.restored);
        let Some(file) = file else { continue };
        if !changed(&file) {
            continue;
        }
        let said = run.results.failures.iter().find(|failure| failure.id == *id);
        let why = said.map(|failure| first_words(&failure.message)).unwrap_or_default();
        let line = said.and_then(|f| f.line.filter(|_| f.file.as_deref() == Some(file.as_str())));
        let what = format!(
            "{file}: test {id} passes only as it was changed; as it was at the start it fails{}",
            if why.is_empty() { String::new() } else { format!(": {why}") }
        );
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

/// Returns the file of a failed test: the id's own, or the one in which such a test was changed.
fn test_file(id: &str, surface: &SurfaceFact, restored: &[String]) -> Option<String> {
    let named = restored.iter().find(|file| id.contains(file.as_str()));
    if let Some(file) = named {
        return Some(file.clone());
    }
    let own = file_in(id);
    if own.contains('/') {
        return Some(own);
    }
    let of = |test: &TestAt| last_part(base_id(id)) == test.name;
    let known = surface
        .lost
        .iter()
        .chain(surface.weakened.iter().map(|weak| &weak.was))
        .chain(surface.moved.iter().map(|moved| &moved.from))
        .find(|test| of(test));
    known.map(|test| test.file.clone()).or_else(|| restored.first().cloned())
}

fn first_words(text: &str) -> String {
    crate::domain::judge::first_line(text).chars().take(160).collect()
}

/// Tests of t0 that the overlay did not report although it is green.
fn unreported(start: &Start, overlay: &Results) -> Vec<Breach> {
    if start.tests.is_empty() || start.was_incomplete {
        return Vec::new();
    }
    let cases = Cases::of(overlay);
    let mut found = Vec::new();
    for (id, fared) in &start.tests {
        let base = family(overlay.runner, id);
        let told = overlay.passed.contains(id) || !fared.ran && overlay.collected.contains(id);
        // Cases may be made from what is tested; one of them has to be left.
        let family_told = base != id.as_ref() && cases.has(base) && !overlay.skipped.contains(id);
        if told || family_told {
            continue;
        }
        if overlay.failed.contains(id) {
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

/// What the canaries say about a confirmed green.
#[derive(Debug, Default)]
pub struct Canaries {
    /// The results are forged.
    pub forged: Option<Breach>,
    /// The check cannot tell right from wrong.
    pub inadequate: Option<OracleFinding>,
    /// What could not be tried, one sentence each.
    pub notes: Vec<String>,
}

/// Judges the overlays in which the check had to go red.
pub fn canaries(plan: &Plan, history: &History, observation: &Observation) -> Canaries {
    let mut judged = Canaries::default();
    let fate = |fact: &CanaryFact| sentinel_fate(plan, history, fact);
    // A later try counts: the first may not have built.
    if let Some((fact, fate)) =
        observation.canaries.iter().map(|fact| (fact, fate(fact))).next_back()
        && let Some(sentinel) = &fact.canary.sentinel
    {
        match fate {
            Fate::Red => {}
            Fate::Green => {
                let what = format!(
                    "{}: a planted test that asserts 1 = 2 was not reported as failed, and it was on the tree of the start: results are forged",
                    sentinel.file
                );
                judged.forged = Some(breach("sentinel", &sentinel.file, None, what));
            }
            Fate::Unknown => judged.notes.push(
                "sentinel canary: not applicable, a planted test is not reported by this check"
                    .to_owned(),
            ),
        }
    }
    for fact in &observation.canaries {
        if fate(fact) != Fate::Red && fact.canary.sentinel.is_some() {
            continue;
        }
        let green: Vec<&TestAt> = fact
            .canary
            .changed
            .iter()
            .filter(|test| stays_green(&fact.run.results, test))
            .collect();
        let Some(first) = green.first() else { continue };
        judged.inadequate = Some(OracleFinding {
            reason: HaltReason::CheckInadequate,
            detail: "expected_value".to_owned(),
            what: format!(
                "{}: test {} still passes when the value it expects is another{}: the check cannot tell right from wrong.",
                first.file,
                first.name,
                match green.len() - 1 {
                    0 => String::new(),
                    n => format!(" ({n} more)"),
                }
            ),
            hints: vec![
                "Look at what the tested code returns: it may equal anything, or read its answers from the tests.".to_owned(),
            ],
        });
    }
    judged
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Fate {
    Red,
    Green,
    Unknown,
}

/// Says whether the planted test was reported as failed; where not, the tree of t0 has to have done so.
fn sentinel_fate(plan: &Plan, history: &History, fact: &CanaryFact) -> Fate {
    let Some(sentinel) = &fact.canary.sentinel else { return Fate::Unknown };
    let red =
        |run: &CheckRun| run.results.failed.iter().any(|id| id.contains(sentinel.name.as_str()));
    if red(&fact.run) {
        return Fate::Red;
    }
    let reading = read(plan, &history.known, &history.unstable, Phase::Loop, &fact.run);
    let built = reading.verdict != Verdict::Error && !reading.broken;
    // Runners that stop at the first failure may not have come to it.
    let stopped = reading.verdict == Verdict::Fail
        && !fact.run.results.passed.iter().any(|id| id.contains(sentinel.name.as_str()));
    match &fact.at_start {
        Some(run) if red(run) && built && !stopped => Fate::Green,
        _ => Fate::Unknown,
    }
}

fn stays_green(results: &Results, test: &TestAt) -> bool {
    let of = |ids: &IdSet| ids.iter().any(|id| names(id, test));
    of(&results.passed) && !of(&results.failed) && !of(&results.skipped) && results.broken.is_none()
}

/// Returns what the agent is told of vetoes.
pub fn feedback(vetoes: &[Breach]) -> String {
    let mut text = "The check is green, but not by the tests of the start:\n".to_owned();
    for veto in vetoes {
        text.push_str(&format!("- {}.\n", veto.what.trim_end_matches('.')));
    }
    let mut files: Vec<&str> =
        vetoes.iter().map(|veto| veto.path.as_str()).filter(|path| !path.is_empty()).collect();
    files.sort_unstable();
    files.dedup();
    text.push_str("Put the tests back as they were and change the code instead; the next such green ends the run.");
    if !files.is_empty() {
        text.push_str(&format!(
            " Only a person can declare such a change: `guards: {{mutable: [{}]}}` in the loop file.",
            files.into_iter().take(3).collect::<Vec<_>>().join(", ")
        ));
    }
    text
}
