//! Reads the XML that programs of GoogleTest write, and fits it to what CTest said.
//!
//! Format: GoogleTest 1.8 to 1.17; ids are `Suite.Name` as its own text has them.

use super::junit::{self, MAX_REPORT};
use super::reports::read_bounded;
use super::tally::{Detail, Outcome, Tally};
use crate::domain::results::{Results, Runner};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most files that are read.
const MAX_FILES: usize = 2_000;
/// The most names of files that are listed, to take the first of.
const MAX_LISTED: usize = 100_000;
/// The most bytes of all of them.
const MAX_TOTAL: usize = 64 << 20;

/// What the programs of one run wrote.
#[derive(Debug)]
pub(super) struct Programs {
    all: Results,
    // Without the programs that ran more than once: their files may have overwritten each other.
    once: Results,
}

/// Reads the files of a folder; `None` where there is none.
pub(super) fn read_folder(folder: &Path, roots: &[String]) -> Option<Programs> {
    // The folder is as foreign as what lies in it.
    folder.symlink_metadata().ok().filter(std::fs::Metadata::is_dir)?;
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "xml"))
        .take(MAX_LISTED)
        .collect();
    files.sort();
    let name = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let names: BTreeSet<String> = files.iter().map(name).collect();
    let mut all = Tally::new(Runner::Junit, roots);
    if files.len() > MAX_FILES {
        all.unread_because(format_args!("more than {MAX_FILES} programs of GoogleTest wrote."));
        files.truncate(MAX_FILES);
    }
    let mut once = Tally::new(Runner::Junit, roots);
    let mut left = MAX_TOTAL;
    for path in &files {
        let stem = name(path);
        let Ok(bytes) = read_bounded(path, MAX_REPORT as u64 + 1) else { continue };
        left = left.saturating_sub(bytes.len());
        if left == 0 {
            all.unread_because("programs of GoogleTest wrote more than that.");
            break;
        }
        read(&bytes, &stem, &mut all);
        let first = match stem.rsplit_once('_') {
            Some((first, number)) if number.parse::<u32>().is_ok() => first.to_owned(),
            _ => stem.clone(),
        };
        let again =
            names.contains(&first) && (first != stem || names.contains(&format!("{stem}_1")));
        if !again {
            read(&bytes, &stem, &mut once);
        }
    }
    (!all.is_empty()).then(|| Programs { all: all.finish(), once: once.finish() })
}

/// Adds what the programs wrote to the parts of one run.
///
/// Under CTest a program may run once a test: then CTest's own names say it all.
pub(super) fn join(parts: &mut Vec<Results>, programs: Option<Programs>) {
    let Some(programs) = programs else { return };
    match parts.iter().find(|part| part.runner == Runner::Ctest) {
        None => parts.push(programs.all),
        Some(ctest) if programs.all.collected.is_disjoint(&ctest.collected) => {
            let mut once = programs.once;
            once.runner = Runner::Ctest;
            parts.push(once);
        }
        Some(_) => {}
    }
}

fn read(bytes: &[u8], name: &str, tally: &mut Tally) {
    let read = junit::with_document(bytes, name, |document| {
        for case in document.descendants().filter(|node| node.has_tag_name("testcase")) {
            // A list of tests looks like their results, without a status.
            if case.attribute("status").is_none() {
                continue;
            }
            let own = case.attribute("name").unwrap_or_default();
            let id = match case.attribute("classname") {
                Some(suite) if !suite.is_empty() => format!("{suite}.{own}"),
                _ => own.to_owned(),
            };
            let (outcome, message) = junit::outcome(case);
            let detail = (outcome == Outcome::Failed).then(|| {
                let (file, line) = place(&message).unzip();
                Detail { message, file, line, ..Detail::default() }
            });
            tally.result(&id, outcome, detail);
        }
    });
    if let Err(problem) = read {
        tally.problem(problem);
    }
}

/// Finds `/path/x_test.cc:12` at the beginning of a message's line.
fn place(message: &str) -> Option<(String, u32)> {
    message.lines().find_map(|line| {
        let (file, rest) = line.split_once(':')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let row = rest[..digits].parse().ok().filter(|n| *n > 0)?;
        (file.contains('.') && !file.contains(' ')).then(|| (file.to_owned(), row))
    })
}

/// Reads one file.
pub(super) fn parse(bytes: &[u8], roots: &[String]) -> Results {
    let mut tally = Tally::new(Runner::Junit, roots);
    read(bytes, "report", &mut tally);
    tally.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<?xml version="1.0"?><testsuites tests="3" failures="1" name="AllTests">
<testsuite name="Calc" tests="3"><testcase name="Add" status="run" result="completed" classname="Calc"/>
<testcase name="Bad" status="run" result="completed" classname="Calc"><failure message="x">/w/t.cc:7&#x0A;no</failure></testcase>
<testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="Calc"/></testsuite></testsuites>"#;

    #[test]
    fn ids_are_suite_and_name_and_a_list_is_no_result() {
        let r = parse(XML.as_bytes(), &["/w".to_owned()]);
        assert!(r.passed.contains("Calc.Add") && r.skipped.contains("Calc.DISABLED_Off"), "{r:#?}");
        let failure = &r.failures[0];
        assert_eq!(
            (&*failure.id, failure.file.as_deref(), failure.line),
            ("Calc.Bad", Some("t.cc"), Some(7))
        );
        let listed = XML.replace(" status=\"run\" result=\"completed\"", "");
        assert_eq!(parse(listed.as_bytes(), &[]).collected.len(), 1);
    }

    #[test]
    fn under_ctest_only_programs_that_ran_once_add_their_tests() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let joined = |ctest: &str| {
            let mut parts = vec![Results::new(Runner::Ctest)];
            parts[0].collected.insert(ctest.into());
            join(&mut parts, read_folder(dir.path(), &[]));
            parts.iter().skip(1).map(|part| part.collected.len()).sum::<usize>()
        };
        assert_eq!(joined("all"), 0);
        write("unit.xml", XML);
        assert_eq!(joined("all"), 3);
        assert_eq!(joined("Calc.Add"), 0);
        write("unit_1.xml", &XML.replace("Calc", "Other"));
        assert_eq!(joined("all"), 0);
        write("more.xml", &XML.replace("Calc", "More"));
        assert_eq!(joined("all"), 3);
    }
}
