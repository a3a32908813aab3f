//! The report files: each read back by what reads it, within its limits, whatever a test printed.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails the test")]

#[path = "support/subject.rs"]
mod subject;

use loopexec::ci::finding::{Finding, Level};
use loopexec::ci::formats::{self, code_quality, dotenv, junit, sarif, write_all};
use loopexec::ci::others::{self, azure, bitbucket, buildkite, teamcity};
use loopexec::ci::platform::Platform;
use loopexec::ci::subject::Subject;
use loopexec::domain::reason::HaltReason;
use loopexec::integrity::results::parse;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use subject::{HOSTILE, halted};

const STUCK: HaltReason = HaltReason::NoProgressDetected;

fn hostile() -> Subject {
    let mut subject = halted(Path::new("/w"), STUCK, &["plain", HOSTILE]);
    subject.key.name = HOSTILE.into();
    subject.run_id = HOSTILE.into();
    let halt = subject.halt.as_mut().unwrap();
    halt.why = HOSTILE.into();
    halt.next = vec![HOSTILE.into()];
    halt.detail = Some(HOSTILE.into());
    subject.links.job = Some(HOSTILE.into());
    let report = subject.report.as_mut().unwrap();
    report.loop_digest = HOSTILE.into();
    report.receipt = HOSTILE.into();
    report.started = Some(HOSTILE.into());
    report.spend.usd = Some(HOSTILE.into());
    report.failures[1].file = Some(HOSTILE.into());
    report.iterations[0].failing.push(HOSTILE.into());
    for finding in &mut subject.findings {
        finding.title = HOSTILE.into();
        finding.message = HOSTILE.into();
    }
    subject.findings[1].file = Some(HOSTILE.into());
    subject.findings[2].rule = HOSTILE.into();
    subject
}

fn many(count: usize) -> Subject {
    let long = "m\u{20ac}".repeat(2_100);
    let messages = vec![long.as_str(); count];
    halted(Path::new("/w"), STUCK, &messages)
}

#[test]
fn junit_is_read_back_by_an_xml_reader_and_by_ours() {
    let xml = junit::junit(&halted(Path::new("/w"), STUCK, &["assert 1 == 2\nmore", "x"]));
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
    assert_eq!(suite.attribute("tests"), Some("3"));
    assert_eq!(suite.attribute("failures"), Some("3"));
    assert_eq!(suite.attribute("time"), Some("61.234"));
    let case = |name: &str| {
        document.descendants().find(|node| node.attribute("name") == Some(name)).unwrap()
    };
    let failure = case("verdict").first_element_child().unwrap();
    assert_eq!(failure.attribute("type"), Some("no_progress_detected"));
    assert!(failure.attribute("message").unwrap().starts_with("no_progress_detected: 3 iter"));
    let test = case("suite::test_0");
    assert_eq!(test.attribute("file"), Some("tests/test_0.py"));
    let failure = test.first_element_child().unwrap();
    assert_eq!(failure.attribute("message"), Some("assert 1 == 2"));
    assert_eq!(failure.text(), Some("assert 1 == 2\nmore"));

    let results = parse::junit(xml.as_bytes(), &[]);
    assert_eq!(results.problems, Vec::<String>::new());
    assert_eq!(results.failed.len(), 3, "{results:#?}");
    assert!(results.passed.is_empty());
}

#[test]
fn a_loop_that_converged_is_one_passed_case_and_no_issue() {
    let subject = halted(Path::new("/w"), HaltReason::SuccessConditionMet, &[]);
    let results = parse::junit(junit::junit(&subject).as_bytes(), &[]);
    assert_eq!((results.passed.len(), results.failed.len()), (1, 0), "{results:#?}");
    assert_eq!(code_quality::code_quality(&subject), serde_json::json!([]));
    assert_eq!(sarif::sarif(&subject)["runs"][0]["results"], serde_json::json!([]));
}

#[test]
fn a_halt_that_fails_nothing_is_skipped_and_a_run_without_an_end_is_an_error() {
    let mut subject = halted(Path::new("/w"), STUCK, &["m"]);
    subject.fails = false;
    let results = parse::junit(junit::junit(&subject).as_bytes(), &[]);
    assert_eq!((results.skipped.len(), results.failed.len()), (2, 0), "{results:#?}");
    assert!(others::lines(Platform::TeamCity, &subject).iter().all(|line| !line.contains("ERROR")));

    subject.fails = true;
    subject.halt = None;
    subject.report = None;
    let xml = junit::junit(&subject);
    assert!(xml.contains("errors=\"1\"") && xml.contains("type=\"incomplete\""), "{xml}");
}

#[test]
fn sarif_has_the_shape_and_a_place_for_every_result() {
    let log = sarif::sarif(&halted(Path::new("/w"), STUCK, &["a", "b"]));
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let ids: Vec<&str> = rules.iter().map(|rule| rule["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["no_progress_detected", "test_failed"]);
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(result["ruleId"], ids[index]);
        let place = &result["locations"][0]["physicalLocation"];
        assert!(!place["artifactLocation"]["uri"].as_str().unwrap().is_empty());
        assert!(place["region"]["startLine"].as_u64().unwrap() >= 1);
        assert_eq!(result["partialFingerprints"]["loopexec/v1"].as_str().unwrap().len(), 16);
    }
    let at = &results[2]["locations"][0]["physicalLocation"];
    assert_eq!(at["artifactLocation"]["uri"], "tests/test_1.py");
    assert_eq!(at["region"]["startLine"], 2);
}

#[test]
fn a_finding_without_a_file_is_shown_at_the_loop_file_that_is_there() {
    let root = tempfile::tempdir().unwrap();
    let mut subject = halted(root.path(), STUCK, &[]);
    let shown = |subject: &Subject| {
        code_quality::code_quality(subject)[0]["location"]["path"].as_str().unwrap().to_owned()
    };
    assert_eq!(shown(&subject), "loop.yml");
    fs::write(root.path().join(".loopexec.yml"), "").unwrap();
    assert_eq!(shown(&subject), ".loopexec.yml");
    subject.key.workflow = "../outside".into();
    assert_eq!(shown(&subject), ".loopexec.yml");
    subject.key.workflow = ".gitlab-ci.yml".into();
    fs::write(root.path().join(".gitlab-ci.yml"), "").unwrap();
    assert_eq!(shown(&subject), ".gitlab-ci.yml");
}

#[test]
fn a_fingerprint_stays_while_a_test_fails_and_no_two_are_equal() {
    let prints = |subject: &Subject| -> Vec<String> {
        let report = code_quality::code_quality(subject);
        let issues = report.as_array().unwrap().iter();
        issues.map(|issue| issue["fingerprint"].as_str().unwrap().to_owned()).collect()
    };
    let first = halted(Path::new("/w"), STUCK, &["a", "b"]);
    let mut later = halted(Path::new("/w"), STUCK, &["c", "d"]);
    later.run_id = "another".into();
    later.turn.run = 99;
    later.findings[0].title = "halted after 7 iterations".into();
    later.findings[1].line = Some(77);
    assert_eq!(prints(&first), prints(&later));

    let mut other = first.clone();
    other.key.name = "other".into();
    let twice = other.findings[1].clone();
    other.findings.push(twice);
    let all: BTreeSet<String> = prints(&first).into_iter().chain(prints(&other)).collect();
    assert_eq!(all.len(), 3 + 4);
}

#[test]
fn reports_of_many_long_findings_stay_within_their_limits() {
    let subject = many(5_100);
    let log = sarif::sarif(&subject);
    assert!(log["runs"][0]["results"].as_array().unwrap().len() <= sarif::MAX_RESULTS);
    assert!(log.to_string().len() < 10 << 20);
    let report = code_quality::code_quality(&subject);
    assert_eq!(report.as_array().unwrap().len(), code_quality::MAX_ISSUES);
    let xml = junit::junit(&subject);
    let results = parse::junit(xml.as_bytes(), &[]);
    assert_eq!(results.problems, Vec::<String>::new());
    assert_eq!(results.failed.len(), 1_002);
    assert!(xml.contains("4100 more failing tests"));
    let batches = bitbucket::annotations(&subject);
    let sizes: Vec<usize> = batches.iter().map(|batch| batch.as_array().unwrap().len()).collect();
    assert_eq!(sizes, vec![100; 10]);
    let azure = others::lines(Platform::Azure, &subject);
    let errors: Vec<&String> = azure.iter().filter(|line| line.contains("logissue")).collect();
    assert_eq!(errors.len(), 10);
    assert!(errors[9].contains("5092 more"), "{}", errors[9]);
    assert!(others::lines(Platform::TeamCity, &subject).len() < 250);
}

/// The rules of GitLab's page on dotenv reports.
fn check_dotenv(text: &str) {
    assert!(text.len() <= dotenv::MAX_BYTES, "{} bytes", text.len());
    assert!(text.lines().count() <= dotenv::MAX_VARIABLES, "{text}");
    let mut keys = BTreeSet::new();
    for line in text.split_terminator('\n') {
        let (key, value) = line.split_once('=').unwrap();
        assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line:?}");
        let plain = |c: char| c.is_ascii_alphanumeric() || "._/+:@-".contains(c);
        assert!(!value.is_empty() && value.chars().all(plain), "{line:?}");
        assert!(keys.insert(key), "twice: {line:?}");
    }
}

#[test]
fn dotenv_says_what_later_jobs_need_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let mut subject = halted(root.path(), STUCK, &["m"]);
    let run_dir = root.path().join(".loopexec/runs/R");
    fs::create_dir_all(&run_dir).unwrap();
    subject.run_dir = Some(run_dir.clone());
    let text = dotenv::dotenv(&subject);
    check_dotenv(&text);
    for line in [
        "LOOPEXEC_HALT_REASON=no_progress_detected",
        "LOOPEXEC_EXIT_CLASS=no-convergence",
        "LOOPEXEC_EXIT_CODE=17",
        "LOOPEXEC_CONVERGED=false",
        "LOOPEXEC_CHANGED=false",
        "LOOPEXEC_ITERATIONS=1",
        "LOOPEXEC_SPENT_USD=0.25",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    assert!(!text.contains("LOOPEXEC_PATCH"));
    fs::write(run_dir.join("patch.diff"), "diff").unwrap();
    let text = dotenv::dotenv(&subject);
    assert!(text.contains("LOOPEXEC_CHANGED=true\n"), "{text}");
    assert!(text.contains("LOOPEXEC_PATCH=.loopexec/runs/R/patch.diff\n"), "{text}");
}

#[test]
fn hostile_text_stays_text_in_every_file() {
    let subject = hostile();
    let xml = junit::junit(&subject);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let elements = document.descendants().filter(roxmltree::Node::is_element);
    let names: BTreeSet<&str> = elements.map(|node| node.tag_name().name()).collect();
    let known = ["failure", "properties", "property", "testcase", "testsuite", "testsuites"];
    assert_eq!(names, BTreeSet::from(known));
    assert_eq!(parse::junit(xml.as_bytes(), &[]).problems, Vec::<String>::new());

    check_dotenv(&dotenv::dotenv(&subject));
    let links = formats::annotations::annotations(&subject);
    assert_eq!(links["loopexec"].as_array().unwrap().len(), 1, "the hostile one is left out");

    let sarif = sarif::sarif(&subject);
    let quality = code_quality::code_quality(&subject);
    let text = format!("{sarif}{quality}{links}{:?}", bitbucket::report(&subject));
    for result in sarif["runs"][0]["results"].as_array().unwrap() {
        assert!(!result["message"]["text"].as_str().unwrap().contains("]("), "{result}");
    }
    for bad in ["\\u001b", "\u{1b}", "\\u0000", "\u{202e}"] {
        assert!(!text.contains(bad), "{bad:?}");
    }
    for issue in quality.as_array().unwrap() {
        assert!(!issue["location"]["path"].as_str().unwrap().contains(['\n', '<']));
        assert!(!issue["check_name"].as_str().unwrap().contains(['\n', ']']));
    }
}

/// What a platform takes for a command in a line it reads.
fn commands(platform: Platform, lines: &[String]) -> Vec<String> {
    let sign = match platform {
        Platform::Azure => "##vso[",
        Platform::TeamCity => "##teamcity[",
        _ => unreachable!(),
    };
    let mut found = Vec::new();
    for line in lines.iter().flat_map(|line| line.split(['\n', '\r', '\u{85}', '\u{2028}'])) {
        if let Some(at) = line.find(sign) {
            let name = line[at + sign.len()..].split([' ', ']']).next().unwrap();
            found.push(name.to_owned());
        }
    }
    found
}

#[test]
fn no_hostile_text_is_a_second_command() {
    let mut quiet = halted(Path::new("/w"), STUCK, &["plain", "text"]);
    let mut hostile = hostile();
    // What is not a plain value is left out, so the two differ in variables by design.
    for subject in [&mut quiet, &mut hostile] {
        subject.report = None;
        subject.run_id = "R".into();
        subject.halt.as_mut().unwrap().detail = None;
    }
    for platform in [Platform::Azure, Platform::TeamCity] {
        let lines = others::lines(platform, &hostile);
        assert_eq!(
            commands(platform, &lines),
            commands(platform, &others::lines(platform, &quiet))
        );
        assert!(lines.iter().all(|line| !line.contains(['\n', '\r', '\u{1b}'])), "{lines:#?}");
        let own = if platform == Platform::Azure { "##vso[" } else { "##teamcity[" };
        assert!(lines.iter().skip(1).all(|line| line.starts_with(own)), "{lines:#?}");
    }
    let lines = others::lines(Platform::Buildkite, &hostile);
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("+++ loopexec: ") && !lines[0].contains('\n'));
    let call = buildkite::annotate(&hostile, HOSTILE);
    assert!(call.argv.iter().all(|word| word.bytes().all(|b| b.is_ascii_graphic())), "{call:?}");
    assert_eq!(call.argv[3], "error");
    assert_eq!(call.stdin, HOSTILE);
}

#[test]
fn every_platform_that_needs_words_has_them() {
    for platform in [Platform::Jenkins, Platform::CircleCi, Platform::GitLab, Platform::Buildkite] {
        let advice = others::advice(platform).unwrap();
        assert!(!advice.contains('\n') && advice.ends_with('.'), "{advice}");
    }
    assert!(others::advice(Platform::Jenkins).unwrap().contains(formats::JUNIT));
    assert!(others::advice(Platform::Jenkins).unwrap().contains(formats::SARIF));
    let subject = halted(Path::new("/w"), STUCK, &["m"]);
    let files: Vec<PathBuf> =
        [formats::JUNIT, formats::SUMMARY].iter().map(|name| Path::new("/w").join(name)).collect();
    let lines = others::uploads(Platform::TeamCity, &subject, &files);
    assert_eq!(lines[0], "##teamcity[importData type='junit' path='/w/loopexec-junit.xml']");
    assert!(lines[1].contains("publishArtifacts '/w/loopexec-junit.xml => loopexec'"));
    assert_eq!(azure::uploads(&files).len(), 3);
    assert!(teamcity::uploads(&subject, &[PathBuf::from("/w/a,b.xml")]).is_empty());
}

#[test]
fn the_folder_gets_all_six_whole_and_a_link_there_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let subject = halted(root.path(), STUCK, &["m"]);
    let dir = root.path().join("made/here");
    let outside = root.path().join("outside");
    fs::write(&outside, "untouched").unwrap();
    fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink(&outside, dir.join(formats::SARIF)).unwrap();
    let written = write_all(&subject, "# Summary\n", &dir).files;
    let names: Vec<&str> =
        written.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let expected = [
        "loopexec-junit.xml",
        "loopexec.sarif",
        "loopexec-codequality.json",
        "loopexec.env",
        "loopexec-annotations.json",
        "loopexec-summary.md",
    ];
    assert_eq!(names, expected);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 6, "nothing else is left there");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
    assert_eq!(fs::metadata(&written[0]).unwrap().permissions().mode() & 0o044, 0o044);
    let quality: Value = serde_json::from_slice(&fs::read(&written[2]).unwrap()).unwrap();
    assert_eq!(quality.as_array().unwrap().len(), 2);
    assert_eq!(fs::read_to_string(&written[5]).unwrap(), "# Summary\n");

    let blocked = root.path().join("blocked");
    fs::create_dir_all(blocked.join(formats::JUNIT)).unwrap();
    let written = write_all(&subject, "", &blocked);
    let [error] = &written.failed[..] else { panic!("{written:?}") };
    assert!(error.to_string().starts_with("loopexec-junit.xml cannot be written"), "{error}");
    assert_eq!(written.files.len(), 5);
    assert!(blocked.join(formats::SUMMARY).is_file(), "the others are there all the same");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_finding_gives_reports_that_can_be_read(
        title in any::<String>(), message in any::<String>(), rule in any::<String>(),
        file in proptest::option::of(any::<String>()), line in proptest::option::of(any::<u32>()),
        id in any::<String>(),
    ) {
        let mut subject = halted(Path::new("/w"), STUCK, &["m"]);
        subject.findings[1] = Finding { level: Level::Warning, rule, title, message: message.clone(), file: file.clone(), line };
        let report = subject.report.as_mut().unwrap();
        report.failures[0].message = message;
        report.failures[0].file = file;
        report.iterations[0].failing[0] = id;
        let xml = junit::junit(&subject);
        prop_assert!(roxmltree::Document::parse(&xml).is_ok(), "{xml}");
        let log = sarif::sarif(&subject);
        prop_assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 2);
        check_dotenv(&dotenv::dotenv(&subject));
        for platform in [Platform::Azure, Platform::TeamCity, Platform::Buildkite] {
            for text in others::lines(platform, &subject) {
                prop_assert!(!text.contains(['\n', '\r', '\u{1b}', '\u{85}']), "{text:?}");
            }
        }
    }
}
