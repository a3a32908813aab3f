//! Reports and output that are made to choke their reader, or to make it wait.

use super::{converges, ends, ends_with_peak, is_long, violates};
use crate::bench::Bench;
use crate::reasons::text;
use loopexec::domain::reason::HaltReason;

const GOOD: &str = "<testsuite name=\"s\"><testcase name=\"a\"/><testcase name=\"b\"/></testsuite>";

/// A project whose check makes its report with `src/report` and is green when `src/done` says so.
fn reported(before: &str, step: &str) -> Bench {
    let bench = Bench::new();
    bench.write("src/done", "no\n");
    bench.write("src/report", before);
    bench.loop_file(
        "exec: ./agent.sh\n\
         check:\n  run: 'test -d reports || { rm -rf reports; mkdir reports; }; cat src/report | sh && grep -q yes src/done'\n  results: ['reports/*.xml']\n",
    );
    bench.script("agent.sh", &format!("{step}\necho yes > src/done"));
    bench
}

fn good() -> String {
    format!("echo '{GOOD}' > reports/a.xml\n")
}

/// What a check may leave in the place of a report, beside what is none at all. Each of the three tests that use
/// it takes another third; all of them in the long form.
fn bad(third: usize) -> Vec<(&'static str, String)> {
    let mut laughs = "<!DOCTYPE l [<!ENTITY a \"ha\">".to_owned();
    for (one, next) in ('a'..='y').zip('b'..='z') {
        laughs.push_str(&format!("<!ENTITY {next} \"{}\">", format!("&{one};").repeat(10)));
    }
    laughs.push_str("]><testsuite><testcase name=\"&z;\"/></testsuite>");
    let all = vec![
        ("entities", format!("cat > reports/a.xml <<'END'\n{laughs}\nEND\n")),
        (
            "an entity from a file",
            "echo '<!DOCTYPE a [<!ENTITY b SYSTEM \"/dev/zero\">]><testsuite><testcase name=\"&b;\"/></testsuite>' > reports/a.xml\n".to_owned(),
        ),
        ("depth", "yes '<testsuite>' | head -n 300000 > reports/a.xml\n".to_owned()),
        ("attributes", "{ echo '<testsuite '; seq -f 'a%.0f=\"1\"' 300000; echo '/>'; } > reports/a.xml\n".to_owned()),
        ("size", "{ echo '<testsuite>'; yes '<testcase name=\"a\"/>' | head -n 1500000; echo '</testsuite>'; } > reports/a.xml\n".to_owned()),
        ("a sparse file", "truncate -s 200M reports/a.xml\n".to_owned()),
        ("a pipe", "rm -f reports/a.xml; mkfifo reports/a.xml\n".to_owned()),
        ("a folder", "rm -rf reports/a.xml; mkdir reports/a.xml\n".to_owned()),
        ("a device", "ln -sf /dev/zero reports/a.xml\n".to_owned()),
        ("a link to itself", "ln -sf a.xml reports/a.xml\n".to_owned()),
        ("a folder that is a link to itself", "rm -rf reports; ln -s reports reports\n".to_owned()),
        ("a pipe in place of the folder", "rm -rf reports; mkfifo reports\n".to_owned()),
        ("no text", "yes | head -c 100000 | tr 'y\\n' '\\377\\001' > reports/a.xml\n".to_owned()),
        ("nothing", ": > reports/a.xml\n".to_owned()),
    ];
    let own = |at: usize| is_long() || at % 3 == third;
    all.into_iter().enumerate().filter(|(at, _)| own(*at)).map(|(_, one)| one).collect()
}

#[test]
fn a_report_that_was_bad_from_the_start_leaves_the_verdict_to_the_exit_code() {
    for (what, script) in bad(0) {
        let ran = converges(&reported(&script, ":"));
        assert!(ran.code == Some(10), "{what}: {ran:#?}");
    }
}

#[test]
fn a_report_that_became_bad_is_no_green() {
    for (what, script) in bad(1) {
        let bench = reported(&good(), "cp bad.sh src/report");
        bench.write("bad.sh", &script);
        let ran = ends(&bench, HaltReason::MetricIntegrityViolation);
        let why = ran.json()["why"].clone();
        assert!(text(&why).contains("reported none of the 2 tests"), "{what}: {why}");
    }
}

#[test]
fn coverage_that_cannot_be_read_ends_the_run_in_order() {
    for (what, script) in bad(2) {
        let bench = reported(&format!("{}{script}", good().replace("a.xml", "b.xml")), ":");
        bench.loop_file(
            "exec: ./agent.sh\n\
             check:\n  run: 'test -d reports || { rm -rf reports; mkdir reports; }; cat src/report | sh && grep -q yes src/done'\n  coverage: ['reports/a.xml']\n",
        );
        let ran = ends(&bench, HaltReason::SuccessConditionMet);
        assert!(ran.code == Some(10), "{what}: {ran:#?}");
    }
}

#[test]
fn ids_that_are_no_text_are_ids() {
    for print in [
        r#"printf '<testsuite><testcase name="\377\376"/><testcase name="b"/></testsuite>' > reports/a.xml"#,
        r#"printf '<testsuite><testcase name="&#0;&#xD800;&#x110000;"/><testcase name="b"/></testsuite>' > reports/a.xml"#,
        r"printf '1..2\nok 1 - \377\376\nok 2 - b\n'",
        r"printf '1..2\nok 1 - \033]0;title\007\000\nok 2 - b\n' > reports/a.xml",
    ] {
        converges(&reported(print, ":"));
        let gone = print
            .replace("\\377\\376", "c")
            .replace("&#0;&#xD800;&#x110000;", "c")
            .replace("\\033]0;title\\007\\000", "c");
        let bench = reported(print, "cp bad.sh src/report");
        bench.write("bad.sh", gone);
        violates(&bench, "is gone");
    }
}

#[test]
fn ids_that_come_twice_are_told_apart() {
    let twice = "echo '<testsuite><testcase name=\"a\"/><testcase name=\"a\"/></testsuite>' > reports/a.xml\n";
    converges(&reported(twice, ":"));
    converges(&reported("printf '1..3\\nok 1 - a\\nok 2 - a\\nok 3 - a\\n'", ":"));
    // One of two that fails is a failure, whichever it is.
    for (first, second) in [("ok", "not ok"), ("not ok", "ok")] {
        let print = format!("printf '1..2\\n{first} 1 - a\\n{second} 2 - a\\n'; exit 1");
        ends(&reported(&print, ":"), HaltReason::NoProgressDetected);
    }
    let many = "{ echo 1..100000; yes 'ok - a' | head -n 100000; }";
    converges(&reported(many, ":"));
}

#[test]
fn records_nested_without_end_are_passed_over() {
    let deep = "yes '{\"a\":[' | head -n 100000 | tr -d '\\n'";
    let record = "'{\"k\":\"start\",\"runner\":\"pytest\",\"cwd\":\"/\"}' '{\"k\":\"result\",\"id\":\"a\",\"o\":\"passed\"}'";
    let hook = format!(
        "{{ printf '%s\\n' {record}; {deep}; echo; echo '{{\"k\":\"end\",\"rc\":0}}'; }} > \"$LOOPEXEC_RESULTS/1.jsonl\"\n"
    );
    converges(&reported(&hook, ":"));
    let go = format!(
        "echo '{{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestA\"}}'; {deep}; echo\n"
    );
    converges(&reported(&go, ":"));
    for place in ["1.jsonl", "2.teamcity", "gtest", "premature"] {
        converges(&reported(&format!("mkfifo \"$LOOPEXEC_RESULTS/{place}\"\n"), ":"));
    }
    converges(&reported("rm -rf \"$LOOPEXEC_RESULTS\"; mkfifo \"$LOOPEXEC_RESULTS\"\n", ":"));
}

/// More ids than are kept, named in another order by each run: nobody took one away. `tests/engine/beyond.rs` holds
/// the rule; here it takes a minute.
#[test]
#[cfg_attr(not(feature = "toolchains"), ignore = "part of the forms that need more time")]
fn more_tests_than_are_read_accuse_nobody_in_any_order() {
    let print = "echo 1..120000; seq 120000 | shuf | awk '{ print \"ok \" NR \" - case \" $1 }'\n";
    converges(&reported(print, ":"));
    if !is_long() {
        return;
    }
    // A test that comes first pushes the last one out.
    let more = "sed -i 's/echo 1..120000/echo 1..120001; echo ok 1 - new/' src/report";
    let ordered = print.replace("| shuf ", "").replace("NR \"", "\"");
    converges(&reported(&ordered, more));
}

#[test]
fn a_flood_of_ids_that_was_not_there_at_the_start_is_no_green() {
    let flood = "echo 'echo 1..120000; seq 120000 | sed \"s/.*/ok & - case &/\"' > src/report";
    let bench = reported("printf '1..2\\nok 1 - a\\nok 2 - b\\n'", flood);
    violates(&bench, "more than");
}

#[test]
#[cfg_attr(not(feature = "toolchains"), ignore = "part of the forms that need more time")]
fn a_million_ids_are_read_in_bounded_memory() {
    let (count, forms) = if is_long() { (1_000_000, 3) } else { (50_000, 1) };
    let prints = [
        format!(
            "echo 1..{count}; seq -f 'ok - case number %.0f of very many that there are' {count}\n"
        ),
        format!(
            "{{ echo '<testsuite>'; seq -f '<testcase name=\"case %.0f of many\"/>' {count}; echo '</testsuite>'; }} > reports/a.xml\n"
        ),
        format!(
            "echo; echo 'running {count} tests'; seq -f 'test case::number_%.0f ... ok' {count}; \
             echo; echo 'test result: ok. {count} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'\n"
        ),
    ];
    for print in prints.iter().take(forms) {
        let (ran, peak) = ends_with_peak(&reported(print, ":"), HaltReason::SuccessConditionMet);
        assert!(ran.code.is_some());
        assert!(peak > 0 && peak < 600 << 10, "{peak} KiB: {print}");
        println!("{peak} KiB at most");
    }
}
