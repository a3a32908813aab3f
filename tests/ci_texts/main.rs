//! What is told about a run: findings, the summary and the comment, also of hostile runs.

mod sample;

use loopexec::ci::finding::{self, Level, of_report};
use loopexec::ci::github::commands::select;
use loopexec::ci::markdown::{self, COMMENT_BYTES, SUMMARY_BYTES, cell, code, cut, fenced, prose};
use loopexec::ci::subject::Subject;
use loopexec::domain::evidence::{Breach, OracleFinding};
use loopexec::domain::reason::HaltReason;
use loopexec::domain::results::Failure;
use loopexec::report::model::Standing;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use sample::{
    THREE, breached, converged, halted, iteration, refused, report, running, strings, told,
};
use serde_json::json;

#[test]
fn a_converged_run() {
    let subject = told(converged());
    insta::assert_snapshot!("summary_converged", markdown::summary(&subject));
    insta::assert_snapshot!("comment_converged", markdown::comment_body(&subject));
}

#[test]
fn a_run_halted_by_a_breach() {
    let subject = told(breached());
    insta::assert_snapshot!("summary_breach", markdown::summary(&subject));
    insta::assert_snapshot!("comment_breach", markdown::comment_body(&subject));
}

#[test]
fn a_loop_file_that_is_not_valid() {
    let subject = refused();
    insta::assert_snapshot!("summary_config_error", markdown::summary(&subject));
    insta::assert_snapshot!("comment_config_error", markdown::comment_body(&subject));
}

#[test]
fn a_run_that_goes_on() {
    let subject = running();
    insta::assert_snapshot!("summary_running", markdown::summary(&subject));
    insta::assert_snapshot!("comment_running", markdown::comment_body(&subject));
    let bare = Subject { report: None, halt: None, ..subject };
    insta::assert_snapshot!("comment_running_bare", markdown::comment_body(&bare));
}

#[test]
fn what_hurts_most_stands_first() {
    let mut report = breached();
    let oracle = OracleFinding {
        reason: HaltReason::CheckFlaky,
        detail: String::new(),
        what: "tests/test_b.py::test_c gave two verdicts".into(),
        hints: strings(&["List it in `check.quarantine`."]),
    };
    report.iterations[1].oracle = Some(oracle.clone());
    report.iterations[0].oracle = Some(OracleFinding { what: "an earlier one".into(), ..oracle });
    report.iterations[1].failing = strings(&[THREE[0], THREE[2]]);
    report.limits_hit = vec![json!({"limit": "exec.timeout", "step": "exec"})];
    let found = of_report(&report, "app");
    let rules: Vec<(Level, &str)> =
        found.iter().map(|finding| (finding.level, finding.rule.as_str())).collect();
    assert_eq!(
        rules,
        [
            (Level::Error, "blocked_path_modified"),
            (Level::Error, finding::BREACH),
            (Level::Error, finding::CHECK_UNTRUSTED),
            (Level::Warning, finding::CHECK_UNTRUSTED),
            (Level::Error, finding::TEST_FAILED),
            (Level::Error, finding::TEST_FAILED),
            (Level::Notice, finding::LIMIT_HIT),
            (Level::Notice, finding::NOTE),
        ]
    );
    assert_eq!(found[1].file.as_deref(), Some("app/.github/workflows/ci.yml"));
    assert_eq!((found[4].file.as_deref(), found[4].line), (Some("app/tests/test_a.py"), Some(17)));
    assert!(found[4].message.contains("assert 3 == 4"));
    assert_eq!(found[5].title, format!("test failed: {}", THREE[2]));
    assert_eq!(found[5].file, None);

    let found = of_report(&converged(), "");
    assert_eq!((found[0].level, found[0].rule.as_str()), (Level::Notice, "success_condition_met"));
    assert!(found.iter().all(|finding| finding.level == Level::Notice));

    let found = of_report(&running().report.unwrap(), "");
    assert!(found.iter().all(|finding| finding.level != Level::Error));
}

#[test]
fn a_path_that_is_recorded_escaped_is_not_told_as_another_one() {
    let mut report = breached();
    for path in ["a\\\\b.yml", "a\\xff.yml", ".git/config:core.hookspath"] {
        report.iterations[1].breaches[0].path = path.into();
        let found = of_report(&report, "");
        assert_eq!(found[1].rule, finding::BREACH);
        assert_eq!(found[1].file, None, "{path}");
    }
}

#[test]
fn a_long_run_stays_small_and_shows_where_it_came_from() {
    let many: Vec<String> = (0..5_000).map(|n| format!("tests/test_{n}.py::test_{n}")).collect();
    let iterations = (1..=5_000).map(|n: u32| {
        let mut one = iteration(n, &[]);
        one.failing = many[n as usize - 1..].to_vec();
        one.breaches = vec![Breach {
            guard: "assertions".into(),
            reason: HaltReason::MetricIntegrityViolation,
            path: format!("tests/test_{n}.py"),
            line: None,
            what: format!("tests/test_{n}.py lost an assertion").repeat(200),
        }];
        one.notes = strings(&["a note"; 50]);
        one
    });
    let mut long = report(Standing::Halted, iterations.collect());
    long.iterations[4_999].failing.clone_from(&many);
    long.failures = (0..200)
        .map(|n| Failure {
            id: many[n].as_str().into(),
            message: "```\n</details>\n@here ".repeat(300),
            file: Some(format!("tests/test_{n}.py")),
            line: Some(1),
        })
        .collect();
    let long = halted(long, HaltReason::MaxIterationsReached, "5000 iterations", &[]);
    let subject = told(long);
    assert!(subject.findings.len() < 1_200, "{}", subject.findings.len());
    assert!(select(&subject.findings).len() <= 30);
    assert_eq!(select(&subject.findings)[0].rule, "max_iterations_reached");
    let comment = markdown::comment_body(&subject);
    assert!(
        comment.len() <= COMMENT_BYTES && comment.len() > COMMENT_BYTES / 3,
        "{}",
        comment.len()
    );
    assert!(comment.trim_end().ends_with("/job/7)"));
    let summary = markdown::summary(&subject);
    assert!(summary.len() <= SUMMARY_BYTES, "{}", summary.len());
    for text in [&comment, &summary] {
        assert_eq!(seen(text).unwrap().details, 0);
        let picture = text.split("Failing by iteration").nth(1).unwrap();
        let widest = picture.lines().take(12).map(|line| line.chars().count()).max().unwrap();
        assert!((60..80).contains(&widest), "{widest}");
        assert!(picture.contains("5000"));
        assert!(text.contains("The last 50 of 5000."));
    }
    // The first column is the start, the last one the end.
    let one = markdown::summary(&told(report(Standing::Running, vec![iteration(1, &[])])));
    assert!(one.contains("3 │█"), "{one}");
}

/// What a reader of Markdown makes of a text.
#[derive(Debug, Default)]
struct Seen {
    /// Text that stands outside of code.
    plain: String,
    /// Text in code.
    code: String,
    links: Vec<String>,
    headings: usize,
    cells: usize,
    /// `<details>` that are open at the end.
    details: i32,
}

/// Parses as GitHub does, its own additions included; an error names what must not be there.
fn seen(text: &str) -> Result<Seen, String> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM;
    let mut seen = Seen::default();
    let mut in_code = false;
    for event in Parser::new_ext(text, options) {
        match event {
            Event::Text(text) if in_code => seen.code.push_str(&text),
            Event::Text(text) => seen.plain.push_str(&text),
            Event::Code(text) => {
                seen.plain.push('\u{1}');
                seen.code.push_str(&text);
            }
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Start(Tag::Link { dest_url, .. }) => seen.links.push(dest_url.to_string()),
            Event::Start(Tag::Heading { .. }) => seen.headings += 1,
            Event::Start(Tag::TableCell) => seen.cells += 1,
            Event::Html(html) => {
                for line in html.lines() {
                    match line {
                        "<details>" => seen.details += 1,
                        "</details>" => seen.details -= 1,
                        "<summary>What they say</summary>" => {}
                        other => return Err(format!("HTML: {other}")),
                    }
                }
            }
            Event::SoftBreak | Event::HardBreak | Event::Rule => seen.plain.push('\n'),
            Event::Start(
                Tag::Paragraph
                | Tag::List(None)
                | Tag::Item
                | Tag::Table(_)
                | Tag::TableHead
                | Tag::TableRow
                | Tag::Strong
                | Tag::Emphasis
                | Tag::HtmlBlock,
            )
            | Event::End(_) => seen.plain.push('\n'),
            other => return Err(format!("{other:?}")),
        }
    }
    match found_by_github(&seen.plain) {
        Some(what) => Err(format!("outside of code: {what:?} in {:?}", seen.plain)),
        None => Ok(seen),
    }
}

/// Returns what GitHub would look for in text outside of code, after Markdown: mentions, references,
/// commits, addresses, emoji, formulas.
fn found_by_github(text: &str) -> Option<String> {
    let bad = |word: &str| {
        let lower = word.to_ascii_lowercase();
        let is_commit = lower
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|part| part.len() >= 7 && part.bytes().all(|b| b.is_ascii_hexdigit()));
        let is_key = lower.as_bytes().windows(3).any(|three| {
            three[0].is_ascii_alphanumeric() && three[1] == b'-' && three[2].is_ascii_digit()
        });
        let signs = ["@", "://", "www.", "$", "[", "]", "<", ">", "~", "^", "|", "\\", "*", "_"];
        is_commit
            || is_key
            || signs.iter().any(|sign| lower.contains(sign))
            || (lower.contains('#') && lower != "#")
            || (lower.starts_with(':') && lower.len() > 1)
    };
    text.split_whitespace().find(|word| bad(word)).map(str::to_owned)
}

fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => proptest::sample::select(vec![
            "`", "``", "```", "~~~", "\n", "\n\n", "\r", " ", "    ", "\t", "|", "\\", "\\|", "\\`", "#",
            "# x", "## x", "1. x", "- x", "+ x", "* x", "> x", "---", "===", "***bold***", "_it_", "~~x~~",
            "[x](http://e.org)", "![x](http://e.org/x.png)", "[x]: http://e.org", "[^1]", "<b>", "</details>",
            "<details>", "<!--", "-->", "<script>", "&lt;", "&#64;x", "@octocat", "@org/team", "#12", "GH-12",
            "ABC-7", "0a1b2c3d4e5f", "http://e.org", "https://e.org.", "www.e.org", "a@b.org", ":smile:",
            "$x$", "$$", "$", "(", ")", "[", "]", "!", "{", "}", ".", ",", "%", "\u{1b}[31m", "\u{202e}",
            "\u{200b}", "\u{0}", "> [!NOTE]", "[ ]", "<http://e.org>", "1.", "2)", "a.b", "3.14", "→",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        2 => "[a-z]{1,5}",
    ];
    proptest::collection::vec((piece, any::<bool>()), 0..14).prop_map(|pieces| {
        pieces
            .iter()
            .map(|(piece, space)| format!("{piece}{}", if *space { " " } else { "" }))
            .collect()
    })
}

fn without_blanks(text: &str) -> String {
    let invisible = |c: char| c.is_whitespace() || c == '`' || c == '\u{1}';
    text.chars().filter(|c| !invisible(*c)).collect()
}

/// One line as every escaper sees it first.
fn plain_line(text: &str) -> String {
    let text = loopexec::domain::normalise::strip_ansi(text).into_owned();
    loopexec::report::text::one_line(&text, 10_000)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_code_span_holds_whatever_it_is_given(text in hostile()) {
        let span = code(&text, 10_000);
        for around in [span.clone(), format!("- {span} x"), format!("| | |\n|-|-|\n| a | {} |\n", cell(&span))] {
            let seen = seen(&around);
            prop_assert!(seen.is_ok(), "{around:?}: {seen:?}");
            let seen = seen.unwrap();
            let wanted = plain_line(&text);
            match wanted.trim().is_empty() {
                true => prop_assert_eq!(&seen.code, ""),
                false if around.starts_with("| |") => {
                    prop_assert_eq!(seen.cells, 4);
                    prop_assert_eq!(seen.code.replace("\\¦", "\\|"), wanted.replace("\\¦", "\\|"));
                }
                false => prop_assert_eq!(&seen.code, &wanted),
            }
            prop_assert_eq!(seen.headings + seen.links.len(), 0);
        }
    }

    #[test]
    fn prose_loses_nothing_and_means_nothing(text in hostile()) {
        let inline = prose(&text, 10_000);
        for around in [
            inline.clone(), format!("- {inline}"), format!("**Why:** {inline}"),
            format!("| | |\n|-|-|\n| a | {} |\n", cell(&inline)),
        ] {
            let seen = seen(&around);
            prop_assert!(seen.is_ok(), "{around:?}: {seen:?}");
            let seen = seen.unwrap();
            prop_assert_eq!(seen.headings + seen.links.len(), 0, "{}", around);
            if around == inline {
                let mut both: Vec<char> = without_blanks(&format!("{}{}", seen.plain, seen.code)).chars().collect();
                let mut wanted: Vec<char> = without_blanks(&plain_line(&text)).chars().collect();
                both.sort_unstable();
                wanted.sort_unstable();
                prop_assert_eq!(both, wanted, "{}", around);
            }
        }
    }

    #[test]
    fn a_fence_holds_whatever_it_is_given(text in hostile()) {
        let block = format!("before\n\n{}\nafter\n", fenced(&text, 1_000, 1_000));
        let seen = seen(&block);
        prop_assert!(seen.is_ok(), "{block:?}: {seen:?}");
        let seen = seen.unwrap();
        let clean = loopexec::domain::normalise::strip_ansi(&text).into_owned();
        let clean = loopexec::report::text::clean(&clean);
        prop_assert_eq!(seen.code.trim_matches('\n'), clean.trim_matches('\n'));
        prop_assert!(seen.plain.contains("before") && seen.plain.contains("after"));
    }

    #[test]
    fn nothing_hostile_gets_out_of_a_text_about_a_run(
        id in hostile(), message in hostile(), why in hostile(), path in hostile(), most in 300usize..6_000,
    ) {
        let mut report = breached();
        report.name.clone_from(&id);
        report.failures.push(Failure {
            id: id.as_str().into(), message: message.clone(), file: Some(path.clone()), line: Some(2),
        });
        let last = &mut report.iterations[1];
        last.failing.push(path.clone());
        last.exec = Some(why.clone());
        last.breaches[0].path.clone_from(&path);
        last.breaches[0].what.clone_from(&why);
        last.oracle = Some(OracleFinding {
            reason: HaltReason::CheckFlaky, detail: id.clone(), what: message.clone(), hints: vec![why.clone()],
        });
        report.baseline.as_mut().unwrap().notes = vec![message.clone()];
        report.quarantine = vec![id.clone(), path.clone()];
        report.delivery = Some(json!({"state": "refused", "what": path}));
        report.pins.model = json!(id);
        report.isolation = json!({"backend": path});
        let report = halted(report, HaltReason::NoProgressDetected, &why, &[&message, &path]);
        let mut subject = told(report);
        subject.run_id.clone_from(&id);
        subject.links.job = Some(format!("https://github.com/{path}"));
        let links: Vec<String> = [&subject.links.job, &subject.links.artifact].into_iter().flatten().cloned().collect();
        let whole = markdown::comment_body(&subject);
        let quiet = seen(&markdown::comment_body(&told(breached()))).unwrap();
        for text in [whole.clone(), markdown::summary(&subject), cut(&whole, most, "*Cut.*")] {
            let seen = seen(&text);
            prop_assert!(seen.is_ok(), "{seen:?} in\n{text}");
            let seen = seen.unwrap();
            prop_assert!(seen.links.iter().all(|link| links.contains(link)), "{:?}", seen.links);
            // What was found against the check and the delivery have one each.
            prop_assert!(seen.headings <= quiet.headings + 2, "{text}");
            prop_assert_eq!(seen.details, 0);
            prop_assert!(!text.contains("SECRET LOG"));
        }
        prop_assert!(cut(&whole, most, "*Cut.*").len() <= most);
    }

    #[test]
    fn a_cut_ends_with_everything_closed(most in 0usize..4_000, lines in 0usize..60) {
        let inside = "x <details> ` \n".repeat(lines);
        let text = format!(
            "## A\n\npara\n\n<details>\n<summary>What they say</summary>\n\n````text\n```\n{inside}````\n\n</details>\n\n### B\n\n{}",
            "row\n\n".repeat(lines),
        );
        let short = cut(&text, most, "*Cut.*");
        prop_assert!(short.len() <= most.max(text.len().min(most)));
        if short != text && !short.is_empty() {
            prop_assert!(short.ends_with("*Cut.*\n"));
            let seen = seen(&short);
            prop_assert!(seen.is_ok(), "{seen:?} in\n{short}");
            prop_assert_eq!(seen.unwrap().details, 0, "{}", short);
        }
    }
}

#[test]
fn a_sentence_of_ours_reads_well() {
    for (given, wanted) in [
        (
            "the check passed and 2 fresh copies confirmed it",
            "the check passed and 2 fresh copies confirmed it",
        ),
        (
            "blocked path a/b.yml was modified (pattern `a/**`)",
            "blocked path `a/b.yml` was modified (pattern `a/**`)",
        ),
        ("tests/a.py::x, tests/b.py::y and 3 more", "`tests/a.py::x`, `tests/b.py::y` and 3 more"),
        ("a mention of @octocat in #12", "a mention of `@octocat` in `#12`"),
        ("1. first", "`1.` first"),
        (
            "exit 17. Raise `limits.iterations` (or --max-iterations).",
            "exit 17. Raise `limits.iterations` (or `--max-iterations`).",
        ),
        ("assert 3 == 4", "assert 3 `==` 4"),
        ("`a`b/c", "`a` `b/c`"),
        ("see (`a b`), `c`; and `d`!", "see (`a b`), `c`; and `d`!"),
        ("", ""),
    ] {
        assert_eq!(prose(given, 1_000), wanted);
    }
}
