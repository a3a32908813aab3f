//! The corpus: every attack and every benign change as a project of its own with a scripted agent.
//!
//! Each entry of `corpus/entries/` is held to three things: with bash alone the attack is falsely
//! green, `loopexec run` halts it with an expected reason that names the file, and the honest fix in
//! the very same project converges. How an entry is written stands in `corpus/entry.rs`, the list of
//! ids in `corpus/ids.rs`.
//!
//! - default: the entries with `short: true`; `LOOPEXEC_TEST_LONG=1`: all of them;
//! - `LOOPEXEC_CORPUS=A001,B07,A027-jest`: those, by id or by the name of their file;
//! - `LOOPEXEC_CORPUS_ALONE=1`: bash alone, without loopexec: whether the entries are what they say;
//! - `target/tmp/corpus.log` grows by the lines of each entry that is done;
//! - `LOOPEXEC_CORPUS_KEEP=DIR`: projects are made below DIR and stay.
//!
//! Needs python3 with venv and a package index; the runners an entry names (rustup's cargo,
//! cargo-nextest, go, javac with junit4, node and npm, …) where such an entry is selected.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test fails the test, and the table is what this one is read for"
)]

#[path = "corpus/entry.rs"]
mod entry;
#[path = "corpus/ground.rs"]
mod ground;
#[path = "corpus/ids.rs"]
mod ids;
#[path = "corpus/stages.rs"]
mod stages;
#[path = "corpus/toolbox.rs"]
mod toolbox;

use entry::{Entry, Kind};
use ids::{ATTACKS, BENIGN, Deterministic, FORMS_NOT_RUN, NOT_RUN};
use stages::Row;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !value.is_empty() && value != "0")
}

fn selected() -> Vec<Entry> {
    let all = entry::read_all();
    if let Ok(list) = std::env::var("LOOPEXEC_CORPUS") {
        let wanted: Vec<&str> = list.split(',').map(str::trim).filter(|w| !w.is_empty()).collect();
        for name in &wanted {
            assert!(all.iter().any(|e| e.is_called(name)), "no entry is called {name}");
        }
        return all.into_iter().filter(|e| wanted.iter().any(|name| e.is_called(name))).collect();
    }
    let long = is_set("LOOPEXEC_TEST_LONG");
    all.into_iter().filter(|entry| long || entry.short).collect()
}

#[test]
fn attacks_halt_and_honest_changes_converge() {
    let entries = selected();
    let alone = is_set("LOOPEXEC_CORPUS_ALONE");
    let rows: Mutex<Vec<Row>> = Mutex::new(Vec::new());
    let queue = Mutex::new(entries.iter());
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus.log");
    let log = Mutex::new(File::create(log).unwrap());
    // Two at a time: most of an entry is waiting for processes of its own.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(entry) = queue.lock().unwrap().next() else { break };
                    let begin = std::time::Instant::now();
                    // A project that cannot be set up is one line of the table, not its end.
                    let held = std::panic::catch_unwind(|| {
                        let mut held = stages::alone(entry);
                        if !alone {
                            held.extend(stages::with_loopexec(entry));
                        }
                        held
                    });
                    let held = held.unwrap_or_else(|said| vec![Row::panicked(entry, &*said)]);
                    // The table comes at the end; until then this tells how far it is.
                    let mut told: String = held.iter().map(Row::line).collect();
                    let seconds = begin.elapsed().as_secs_f32();
                    told.push_str(&format!("{:<20} took {seconds:.1} s\n", entry.name));
                    log.lock().unwrap().write_all(told.as_bytes()).unwrap();
                    rows.lock().unwrap().extend(held);
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    // Stable, so that the stages of an entry stay in the order in which they ran.
    rows.sort_by(|a, b| a.entry.cmp(&b.entry));
    println!("{:<20} {:<14} {:<48} got", "entry", "stage", "expected");
    for row in &rows {
        print!("{}", row.line());
    }
    let failed: Vec<&Row> = rows.iter().filter(|row| row.trouble.is_some()).collect();
    println!("{} entries, {} stages, {} not as expected", entries.len(), rows.len(), failed.len());
    let told: Vec<String> = failed
        .iter()
        .map(|row| {
            let trouble = row.trouble.as_deref().unwrap_or_default();
            format!("{} {}: {} -> {}\n{trouble}", row.entry, row.stage, row.expected, row.got)
        })
        .collect();
    assert!(failed.is_empty(), "{} stages not as expected:\n{}", failed.len(), told.join("\n"));
}

#[test]
fn every_deterministic_attack_and_every_benign_change_has_an_entry() {
    let entries = entry::read_all();
    let there: BTreeSet<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let mut absent = Vec::new();
    for (id, deterministic, _) in ATTACKS {
        let excused = NOT_RUN.iter().any(|(name, _)| name == id);
        assert!(!(excused && there.contains(id)), "{id} has an entry and stands in NOT_RUN");
        if *deterministic == Deterministic::Yes && !excused && !there.contains(id) {
            absent.push(*id);
        }
    }
    absent.extend(BENIGN.iter().filter(|id| !there.contains(*id)));
    assert!(absent.is_empty(), "no entry for {absent:?}");
    assert!(NOT_RUN.iter().chain(FORMS_NOT_RUN).all(|(_, reason)| !reason.is_empty()));
    let ran = |name: &str| entries.iter().any(|entry| entry.name == name);
    assert!(FORMS_NOT_RUN.iter().all(|(name, _)| !ran(name)));
}

#[test]
fn entries_are_well_formed_and_expect_what_the_corpus_expects() {
    let mut short: BTreeMap<(String, String), String> = BTreeMap::new();
    for entry in entry::read_all() {
        let name = &entry.name;
        assert!(entry.is_called(name) && name.starts_with(&entry.id), "{name}: id {}", entry.id);
        let honest = entry.honest.is_some() != entry.no_honest.is_some();
        match entry.kind {
            Kind::Attack | Kind::Undetected => {
                // `X-…` are attacks of our own.
                let known = ATTACKS.iter().find(|(id, _, _)| *id == entry.id);
                let right = match known {
                    Some((_, _, expect)) => {
                        entry.expect.iter().all(|reason| expect.contains(&reason.as_str()))
                    }
                    None => entry.id.starts_with("X-"),
                };
                assert!(right && !entry.expect.is_empty(), "{name}: expect");
                assert!(entry.attack.is_some() && entry.change.is_none(), "{name}: attack");
                assert!(honest, "{name}: either honest or no_honest");
            }
            Kind::Benign => {
                let invented = entry.id.starts_with("R-");
                assert!(invented || BENIGN.contains(&entry.id.as_str()), "{name}: unknown id");
                assert!(entry.change.is_some() && entry.attack.is_none(), "{name}: change");
                assert!(!entry.expect.is_empty(), "{name}: expect");
            }
        }
        if entry.short {
            let key = (entry.family.clone(), format!("{:?}", entry.runner));
            if let Some(other) = short.insert(key, name.clone()) {
                panic!("{name} and {other} are both the short one of their family and runner");
            }
        }
    }
}
