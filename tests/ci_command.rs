//! `loopexec ci` from outside: exits, outputs, annotations, the end of a killed run, and that nothing an
//! agent, a check, a branch or a file name says reaches the platform as more than text.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by a panic")]

#[path = "cli/bench.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest of it")]
mod bench;
#[path = "support/fake_github.rs"]
#[expect(dead_code, reason = "the cancellations use the rest of it")]
mod fake_github;
#[path = "support/github_job.rs"]
mod github_job;

use bench::{Bench, Ran};
use fake_github::{FakeGitHub, RUNTIME_TOKEN};
use github_job::{on_github, values};
use loopexec::receipt::record::{Compare, fold};
use std::time::{Duration, Instant};

/// A repository as a job of GitHub sees it, with a loop that mends `state`.
fn job(rest: &str) -> Bench {
    let mut bench = Bench::new();
    bench.script("agent.sh", "echo good > state");
    bench.script("check.sh", "grep -q good state");
    bench.write("state", "bad\n");
    bench.loop_file(&format!("exec: ./agent.sh\ncheck: ./check.sh\n{rest}"));
    bench.commit();
    on_github(&mut bench);
    bench
}

/// Returns the commands the runner would take from both streams, in order; fences are obeyed.
fn commands(ran: &Ran) -> Vec<String> {
    let mut found = Vec::new();
    let mut stopped: Option<String> = None;
    for line in ran.stderr.lines().chain(ran.stdout.lines()) {
        let line = line.trim_start();
        let second = line.strip_prefix("::").filter(|rest| rest.contains("::"));
        let first = line.find("##[").filter(|at| line[*at..].contains(']'));
        if second.is_none() && first.is_none() {
            continue;
        }
        match &stopped {
            Some(token) if line == format!("::{token}::") => stopped = None,
            Some(_) => {}
            None => match line.strip_prefix("::stop-commands::") {
                Some(token) => stopped = Some(token.to_owned()),
                None => found.push(line.to_owned()),
            },
        }
    }
    assert_eq!(stopped, None, "a fence stays open");
    found
}

/// Takes out what differs between any two runs: times, digests, ids.
fn steady(text: &str) -> String {
    let patterns = [
        (r"[0-9a-f]{64}", "DIGEST"),
        (r"\b[0-9a-f]{40}\b", "COMMIT"),
        (r"[0-9A-HJKMNP-TV-Z]{26}", "ID"),
        (r"\d+(\.\d+)? (ms|s|min)\b", "TIME"),
        (r"ghadelimiter_[0-9a-f]+", "DELIMITER"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "MOMENT"),
    ];
    patterns.iter().fold(text.to_owned(), |text, (pattern, word)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *word).into_owned()
    })
}

#[test]
fn a_converged_loop_ends_with_zero_and_says_ten_in_its_outputs() {
    let bench = job("");
    let ran = bench.run(&["ci"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let outputs = values(&bench, "output");
    assert_eq!(outputs["converged"], "true");
    assert_eq!(outputs["halt-reason"], "success_condition_met");
    assert_eq!(outputs["exit-code"], "10");
    assert_eq!(outputs["iterations"], "1");
    assert!(std::fs::read_to_string(&outputs["report"]).unwrap().contains("converged"));
    assert!(std::path::Path::new(&outputs["receipt"]).is_file(), "{outputs:?}");
    let state = values(&bench, "state");
    assert!(outputs["receipt"].starts_with(&state["loopexec_run_dir"]), "{state:?}");
    let summary = std::fs::read_to_string(bench.beside("summary")).unwrap();
    assert!(summary.contains("converged"), "{summary}");
    let told = commands(&ran);
    assert!(!told.iter().any(|line| line.starts_with("::error")), "{told:?}");
}

#[test]
fn a_halt_ends_with_its_class_and_one_error_first() {
    let bench = job("limits: {iterations: 2, same_failure: 9, no_progress: 9}\n");
    bench.script("agent.sh", "echo bad $LOOPEXEC_ITERATION > state");
    bench.commit();
    let ran = bench.run(&["ci"]);
    // HEAD moved behind GITHUB_SHA; a push is the repository's own all the same.
    assert_eq!(ran.code, Some(12), "{ran:#?}");
    let outputs = values(&bench, "output");
    assert_eq!(outputs["halt-reason"], "max_iterations_reached", "{outputs:?}");
    assert_eq!((&*outputs["exit-class"], &*outputs["converged"]), ("cap", "false"));
    let told = commands(&ran);
    let first = told.iter().find(|line| line.starts_with("::error")).expect("an error");
    assert!(first.contains("max_iterations_reached"), "{told:?}");
}

#[test]
fn what_fails_the_job_is_the_loops_to_say_but_a_breach_always_does() {
    let quiet = "limits: {iterations: 1}\nfail_on: [budget]\n";
    let bench = job(quiet);
    bench.script("agent.sh", "echo bad > other");
    bench.commit();
    let ran = bench.run(&["ci"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let outputs = values(&bench, "output");
    assert_eq!((&*outputs["converged"], &*outputs["exit-code"]), ("false", "12"), "{outputs:?}");
    assert!(!commands(&ran).iter().any(|line| line.starts_with("::error")), "{ran:#?}");
    let bench = job(quiet);
    bench.script("agent.sh", "echo x >> check.sh; echo good > state");
    bench.commit();
    let ran = bench.run(&["ci"]);
    assert_eq!(ran.code, Some(13), "{ran:#?}");
    assert!(commands(&ran).iter().any(|line| line.starts_with("::error")), "{ran:#?}");
    let bench = job("exit_codes: {converged: 3}\n");
    assert_eq!(bench.run(&["run", "--exit", "ci"]).code, Some(3));
    let bench = job("");
    assert_eq!(bench.run(&["run", "--exit", "ci"]).code, Some(0));
    let bench = job("");
    let ran = bench.run(&["run"]);
    assert_eq!(ran.code, Some(10));
    assert!(ran.stderr.contains("--exit ci"), "{}", ran.stderr);
}

#[test]
fn a_check_gives_no_platform_a_command() {
    for platform in ["azure", "teamcity", "buildkite", "gitlab"] {
        let mut bench = job("limits: {iterations: 1}\n");
        bench.script(
            "check.sh",
            "echo '##vso[task.complete result=Succeeded]x'; echo \"##teamcity[buildStatus status='SUCCESS']\"; echo '--- gone'; exit 1",
        );
        bench.commit();
        bench.env("PATH", &std::env::var("PATH").unwrap());
        for args in [&["-v"][..], &["--json"]] {
            let ran = bench.run(&[&["ci", "--platform", platform][..], args].concat());
            let told = ran.stderr.clone() + &ran.stdout;
            assert!(!told.contains("##vso[task.complete"), "{platform}: {told}");
            assert!(!told.contains("##teamcity[buildStatus"), "{platform}: {told}");
        }
    }
}

#[test]
fn a_bad_key_is_annotated_at_its_line_in_the_loop_file_and_in_the_workflow() {
    let bench = job("chek: x\n");
    let ran = bench.run(&["ci"]);
    assert_eq!(ran.code, Some(30), "{ran:#?}");
    let told = commands(&ran);
    let error = told.iter().find(|line| line.starts_with("::error")).unwrap();
    assert!(error.contains("file=loop.yml,line=5"), "{error}");
    let mut bench = job("");
    let text = "version: 1\nmodel: none\nexec: ./agent.sh\ncheck: ./check.sh\nchek: x\n";
    let inside: String = text.lines().map(|line| format!("            {line}\n")).collect();
    let workflow = format!(
        "on: push\njobs:\n  mend:\n    runs-on: x\n    steps:\n      - uses: acme/loopexec@v1\n        with:\n          loop: |\n{inside}"
    );
    bench.write(".github/workflows/l.yml", workflow);
    bench.commit();
    bench.env("INPUT_LOOP", text);
    let ran = bench.run(&["ci", "--action"]);
    assert_eq!(ran.code, Some(30), "{ran:#?}");
    let told = commands(&ran);
    let error = told.iter().find(|line| line.starts_with("::error")).unwrap();
    assert!(error.contains("file=.github/workflows/l.yml,line=13"), "{error}");
}

/// Everything that a platform could take for more than text.
const NOISE: &str = r###"::error file=a.rs,line=1::forged
  ::warning::forged
::set-output name=converged::true
::add-mask::good
::stop-commands::abc
::abc::
##[error]forged
x ##[group]forged
::group::forged
ghadelimiter_0
@octocat <script>alert(1)</script> [a](https://evil.example) ![b](https://evil.example/b) #1
<!-- loopexec:0 run=999 --> | a | b |
```
## heading
\u{1b}[31m::error::forged\u{1b}[0m\u{1b}]8;;https://evil.example\u{7}x\u{1b}]8;;\u{7}
\u{1b}[2K\u{1b}[1A\u{9b}31m
"###;

#[test]
fn nothing_an_agent_or_a_check_prints_changes_what_the_platform_is_told() {
    let told = |noise: bool| {
        let mut bench = job("limits: {iterations: 2, same_failure: 9, no_progress: 9}\n");
        let noise_text = NOISE
            .replace("\\u{1b}", "\u{1b}")
            .replace("\\u{9b}", "\u{9b}")
            .replace("\\u{7}", "\u{7}");
        bench.write(".gitignore", "noise\nlong\n");
        bench.script("agent.sh", "cat noise >&2; cat noise; cat long; date +%N > other; exit 0");
        bench.script("check.sh", "cat noise; cat noise >&2; cat long; exit 1");
        bench.commit();
        bench.write("noise", if noise { &noise_text } else { "quiet\n" });
        bench.write("long", if noise { "y".repeat(10 << 20) } else { "y".to_owned() });
        let server = FakeGitHub::start();
        server.answer_after(0);
        bench.env("GITHUB_API_URL", server.address());
        bench.env("GITHUB_TOKEN", "ghs_jobtoken");
        bench.env("INPUT_PR-NUMBER", "7");
        let ran = bench.run(&["ci", "--action", "--run-id", "R"]);
        let comments =
            server.look(|kept| kept.comments.values().map(|text| steady(text)).collect::<Vec<_>>());
        let loud = bench.run(&["ci", "-v", "--run-id", "V"]);
        assert_eq!(loud.stderr.contains("forged"), noise, "it was printed: {loud:#?}");
        let read = |name: &str| steady(&std::fs::read_to_string(bench.beside(name)).unwrap());
        let root = bench.root().to_string_lossy().into_owned();
        let clean = |text: String| text.replace(&root, "ROOT");
        (
            ran.code,
            commands(&ran).iter().map(|line| steady(line)).collect::<Vec<_>>(),
            commands(&loud).iter().map(|line| steady(line)).collect::<Vec<_>>(),
            clean(read("output")),
            clean(read("state")),
            clean(read("summary")),
            comments,
        )
    };
    let (quiet, noisy) = (told(false), told(true));
    assert_eq!(quiet.0, noisy.0);
    assert_eq!(quiet.1, noisy.1, "commands");
    assert_eq!(quiet.2, noisy.2, "commands with -v");
    assert_eq!(quiet.3, noisy.3, "outputs");
    assert_eq!(quiet.4, noisy.4, "state");
    assert_eq!(quiet.5, noisy.5, "summary");
    assert_eq!(quiet.6, noisy.6, "comment");
    assert_eq!(quiet.6.len(), 1);
    assert!(!quiet.1.is_empty() && !quiet.5.is_empty());
}

#[test]
fn a_branch_a_title_and_a_body_of_a_pull_request_change_nothing() {
    let told = |hostile: bool| {
        let mut bench = job("");
        let server = FakeGitHub::start();
        server.answer_after(0);
        let say = |quiet: &str| if hostile { NOISE.to_owned() } else { quiet.to_owned() };
        let branch = if hostile { "x`::error::y`-@octocat-##[error]z" } else { "topic" };
        let payload = serde_json::json!({"issue": {"number": 7, "title": say("t"), "body": say("b")},
            "repository": {"full_name": "acme/shop", "description": say("d")},
            "head_commit": {"message": say("m")}, "ref": format!("refs/heads/{branch}")});
        let event = bench.beside("event.json");
        std::fs::write(&event, payload.to_string()).unwrap();
        let reference = format!("refs/heads/{branch}");
        for (name, value) in [
            ("GITHUB_API_URL", server.address()),
            ("GITHUB_TOKEN", "ghs_jobtoken"),
            ("GITHUB_EVENT_PATH", event.to_str().unwrap()),
            ("GITHUB_REF", &*reference),
            ("GITHUB_REF_NAME", branch),
            ("GITHUB_HEAD_REF", branch),
            ("INPUT_PR-NUMBER", "7"),
        ] {
            bench.env(name, value);
        }
        let ran = bench.run(&["ci", "--action", "--run-id", "R"]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        let root = bench.root().to_string_lossy().into_owned();
        let read = |name: &str| {
            steady(&std::fs::read_to_string(bench.beside(name)).unwrap()).replace(&root, "ROOT")
        };
        let comments =
            server.look(|kept| kept.comments.values().map(|text| steady(text)).collect::<Vec<_>>());
        (commands(&ran), read("output"), read("state"), read("summary"), comments)
    };
    let (quiet, hostile) = (told(false), told(true));
    assert_eq!(quiet, hostile);
    assert_eq!(quiet.4.len(), 1, "one comment");
}

#[test]
fn a_file_name_of_the_agents_forges_nothing() {
    let bench = job("guards: {blocked_paths: {add: ['infra/**']}}\n");
    bench.script(
        "agent.sh",
        "mkdir -p infra; touch \"infra/x
::error file=a::forged
##[error]forged\" 'infra/`@octocat`<b>|'",
    );
    bench.commit();
    let ran = bench.run(&["ci"]);
    assert_eq!(ran.code, Some(13), "{ran:#?}");
    for line in commands(&ran) {
        let ours = [
            "::error title=",
            "::error file=infra",
            "::notice title=",
            "::warning title=",
            "::group::",
            "::endgroup::",
        ];
        assert!(ours.iter().any(|start| line.starts_with(start)), "{line}");
        assert!(!line.contains("##["), "{line}");
    }
    let summary = std::fs::read_to_string(bench.beside("summary")).unwrap();
    // Outside of code there is none of the name's own marks.
    use pulldown_cmark::{Event, Parser};
    for event in Parser::new(&summary) {
        match event {
            Event::Text(text) => assert!(!text.contains('@'), "{text}: {summary}"),
            Event::Html(html) | Event::InlineHtml(html) => panic!("{html}: {summary}"),
            _ => {}
        }
    }
    assert!(!summary.lines().any(|line| line.starts_with("::")), "{summary}");
    assert_eq!(values(&bench, "output")["halt-reason"], "blocked_path_modified");
}

#[test]
fn what_a_killed_run_left_is_finished_once() {
    let mut bench = job("");
    let mark = bench.beside("tmp").join("began");
    bench.script("agent.sh", &format!("touch '{}'; sleep 60", mark.display()));
    bench.commit();
    let mut started = bench.start(&["ci"]);
    let began = Instant::now();
    while !mark.exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the run does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    assert!(values(&bench, "output").is_empty());
    bench.env("STATE_loopexec_run_dir", &values(&bench, "state")["loopexec_run_dir"]);
    let ran = bench.run(&["ci", "--finish", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(ran.json()["recorded"]["halt_reason"], "interrupted", "{ran:#?}");
    let run = bench.runs().pop().unwrap();
    let end = fold(&run, Compare::Strict, &mut |_| Ok(())).unwrap().end.expect("a final event");
    assert_eq!(end.halt.reason.as_str(), "interrupted");
    assert_eq!(bench.run(&["verify"]).code, Some(0));
    let outputs = std::fs::read(bench.beside("output")).unwrap();
    let summary = std::fs::read(bench.beside("summary")).unwrap();
    assert_eq!(values(&bench, "output")["halt-reason"], "interrupted");
    let again = bench.run(&["ci", "--finish"]);
    assert_eq!(again.code, Some(0), "{again:#?}");
    assert_eq!(outputs, std::fs::read(bench.beside("output")).unwrap());
    assert_eq!(summary, std::fs::read(bench.beside("summary")).unwrap());
    assert!(!commands(&again).iter().any(|line| line.starts_with("::error")), "{again:#?}");
    assert_eq!(bench.run(&["verify"]).code, Some(0));
}

#[test]
fn without_a_run_there_is_nothing_to_finish() {
    let bench = job("");
    let ran = bench.run(&["ci", "--finish"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(ran.stdout.contains("nothing to finish"), "{ran:#?}");
    let ran = bench.run(&["ci", "--finish", "/nowhere/at/all", "--json"]);
    assert_eq!((ran.code, &*ran.reason()), (Some(30), "workspace_invalid"), "{ran:#?}");
}

#[test]
fn the_artifact_is_uploaded_and_verifies_and_the_comment_is_final() {
    let mut bench = job("");
    let server = FakeGitHub::start();
    server.answer_after(0);
    let event = bench.beside("event.json");
    std::fs::write(&event, "{}").unwrap();
    for (name, value) in [
        ("GITHUB_API_URL", server.address()),
        ("ACTIONS_RESULTS_URL", server.address()),
        ("ACTIONS_RUNTIME_TOKEN", RUNTIME_TOKEN),
        ("GITHUB_TOKEN", "ghs_jobtoken"),
        ("GITHUB_EVENT_NAME", "workflow_dispatch"),
        ("GITHUB_EVENT_PATH", event.to_str().unwrap()),
        ("INPUT_PR-NUMBER", "7"),
    ] {
        bench.env(name, value);
    }
    let ran = bench.run(&["ci", "--action"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let kept = server.look(|kept| {
        assert_eq!(kept.unknown, Vec::<String>::new());
        (kept.artifacts.clone(), kept.comments.clone())
    });
    let (name, artifact) = kept.0.first_key_value().expect("an artifact");
    assert_eq!(kept.0.len(), 1);
    assert!(name.starts_with("loopexec-loop-mend") && artifact.is_final, "{name}");
    let zip = bench.beside("bundle.zip");
    std::fs::write(&zip, &artifact.zip).unwrap();
    let verified = bench.run(&["verify", "--run-id", zip.to_str().unwrap()]);
    assert_eq!(verified.code, Some(0), "{verified:#?}");
    assert_eq!(kept.1.len(), 1, "{:?}", kept.1);
    let comment = kept.1.first_key_value().unwrap().1;
    assert!(comment.contains("state=final") && comment.contains("converged"), "{comment}");
    let outputs = values(&bench, "output");
    assert!(!outputs["artifact-id"].is_empty() && outputs["artifact-url"].contains("/artifacts/"));
    let told = ran.stderr.clone() + &ran.stdout;
    assert!(!told.contains("ghs_jobtoken") && !told.contains(RUNTIME_TOKEN));
}

#[test]
fn a_token_that_may_not_costs_one_warning_and_nothing_else() {
    let mut bench = job("");
    let server = FakeGitHub::start();
    server.answer_after(0);
    server.deny_writes();
    for (name, value) in [
        ("GITHUB_API_URL", server.address()),
        ("GITHUB_TOKEN", "ghs_jobtoken"),
        ("INPUT_PR-NUMBER", "7"),
    ] {
        bench.env(name, value);
    }
    let ran = bench.run(&["ci", "--action", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let warnings = ran.json()["published"]["warnings"].as_array().unwrap().clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].as_str().unwrap().contains("`pull-requests: write`"), "{warnings:?}");
    let told: Vec<_> = commands(&ran).into_iter().filter(|c| c.starts_with("::warning")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    // The post step does not try, and does not warn, again.
    let run = values(&bench, "state")["loopexec_run_dir"].clone();
    let again = bench.run(&["ci", "--action", "--finish", &run, "--json"]);
    assert_eq!(again.json()["published"]["warnings"], serde_json::json!([]), "{again:#?}");
}

#[test]
fn a_strangers_checkout_is_refused_before_the_loop_file_is_read() {
    let mut bench = job("");
    bench.write("loop.yml", "not: [a, loop");
    bench.commit();
    bench.env("GITHUB_EVENT_NAME", "pull_request_target");
    let ran = bench.run(&["ci", "--json"]);
    assert_eq!((ran.code, &*ran.reason()), (Some(30), "config_invalid"), "{ran:#?}");
    assert_eq!(ran.json()["detail"], "untrusted_checkout", "{ran:#?}");
    assert!(bench.runs().is_empty());
    let outputs = values(&bench, "output");
    assert_eq!(outputs["halt-reason"], "config_invalid");
}

#[test]
fn bad_options_are_one_sentence_and_one_object() {
    let bench = job("");
    let ran = bench.run(&["ci", "--platform", "mars", "--json"]);
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    assert!(ran.json()["errors"][0]["what"].as_str().unwrap().contains("mars"));
    let mut bench = job("");
    bench.env("INPUT_COMMENT", "::error::loud");
    let ran = bench.run(&["ci", "--action", "--json"]);
    assert_eq!((ran.code, &*ran.reason()), (Some(30), "config_invalid"), "{ran:#?}");
    assert!(!ran.stderr.contains("loud"), "{ran:#?}");
}

#[test]
fn no_child_sees_a_token_or_a_command_file_but_by_name() {
    let mut bench = job("");
    bench.script("check.sh", "env > \"$PWD/seen-$$.txt\" 2>/dev/null; env; grep -q good state");
    bench.script("agent.sh", "env; echo good > state");
    bench.commit();
    let planted = [
        ("ACTIONS_RUNTIME_TOKEN", "planted-runtime-token"),
        ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "planted-oidc-token"),
        ("GITHUB_TOKEN", "planted-github-token"),
        ("INPUT_GITHUB-TOKEN", "planted-input-token"),
    ];
    for (name, value) in planted {
        bench.env(name, value);
    }
    bench.env("GITHUB_API_URL", "http://127.0.0.1:9");
    let ran = bench.run(&["ci", "-v"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    let seen = ran.stderr.clone() + &ran.stdout;
    let has =
        |seen: &str, name: &str| seen.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(has(&seen, "LOOPEXEC_RUN_ID"), "the environment was printed: {seen}");
    for (name, value) in planted {
        assert!(!seen.contains(value), "{name} is in the log");
        assert!(!has(&seen, name), "{name} is seen by a child");
    }
    for name in ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"] {
        assert!(!has(&seen, name), "{name} is seen by a child");
    }
    for name in ["output", "state", "summary"] {
        let text = std::fs::read_to_string(bench.beside(name)).unwrap();
        assert!(planted.iter().all(|(_, value)| !text.contains(value)), "{name}: {text}");
    }
    // Nothing of it is in what was kept either.
    let mut pending = vec![bench.path(".loopexec")];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            for (name, value) in planted {
                let found = bytes.windows(value.len()).any(|part| part == value.as_bytes());
                assert!(!found, "{name} is in {}", path.display());
            }
        }
    }
}

#[test]
fn a_child_sees_by_name_what_it_is_given() {
    let mut bench = job("");
    bench
        .loop_file("exec: {run: env && ./agent.sh, pass_env: [GITHUB_TOKEN]}\ncheck: ./check.sh\n");
    bench.commit();
    bench.env("GITHUB_TOKEN", "planted-github-token");
    bench.env("GITHUB_API_URL", "http://127.0.0.1:9");
    let ran = bench.run(&["ci", "-v"]);
    assert!(ran.stderr.contains("GITHUB_TOKEN=[redacted:GITHUB_TOKEN]"), "{ran:#?}");
}

#[test]
fn elsewhere_it_is_run_with_ci_exits_and_files_on_disk() {
    let bench = {
        let bench = Bench::new();
        bench.write("state", "bad\n");
        bench.loop_file("exec: echo good > state\ncheck: grep -q good state\n");
        bench.commit();
        bench
    };
    let reports = bench.beside("reports");
    let ran = bench.run(&["ci", "--reports", reports.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(commands(&ran).is_empty(), "{ran:#?}");
    for name in
        ["loopexec-junit.xml", "loopexec.sarif", "loopexec-codequality.json", "loopexec.env"]
    {
        assert!(reports.join(name).is_file(), "{name}");
    }
}

#[test]
fn runs_that_came_with_the_commit_are_no_evidence() {
    let mut bench = job("");
    assert_eq!(bench.run(&["run"]).code, Some(10));
    bench.git(&["add", "-f", ".loopexec", ".loop_state.json"]);
    bench.git(&["commit", "-q", "-m", "state"]);
    bench.env("INPUT_RESUME", "latest");
    let ran = bench.run(&["ci", "--action", "--json"]);
    assert_eq!((ran.code, &*ran.reason()), (Some(30), "config_invalid"), "{ran:#?}");
    assert_eq!(ran.json()["detail"], "untrusted_checkout", "{ran:#?}");
}

#[test]
fn an_event_that_cannot_be_read_trusts_nobody() {
    for (name, payload) in [
        ("pull_request", "{}"),
        ("pull_request", "{broken"),
        ("PULL_REQUEST_TARGET", "{}"),
        ("pull_request_review_comment", "{\"pull_request\": null}"),
        ("", "{}"),
    ] {
        let mut bench = job("");
        let event = bench.beside("event.json");
        std::fs::write(&event, payload).unwrap();
        bench.env("GITHUB_EVENT_NAME", name);
        bench.env("GITHUB_EVENT_PATH", event.to_str().unwrap());
        bench.env("GITHUB_SHA", &"1".repeat(40));
        let ran = bench.run(&["ci", "--json"]);
        assert_eq!(ran.code, Some(30), "{name} {payload}: {ran:#?}");
        assert_eq!(ran.json()["detail"], "untrusted_checkout", "{name} {payload}: {ran:#?}");
        assert!(bench.runs().is_empty(), "{name} {payload}");
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_holds_nothing_up() {
    let mut bench = job("");
    let pipe = bench.beside("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for name in ["GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "GITHUB_EVENT_PATH"] {
        bench.env(name, pipe.to_str().unwrap());
    }
    let began = Instant::now();
    let ran = bench.run(&["ci"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(began.elapsed() < Duration::from_secs(60), "{ran:#?}");
    assert!(commands(&ran).iter().any(|line| line.starts_with("::warning")), "{ran:#?}");
}

#[test]
fn a_run_that_was_killed_before_its_first_event_gets_an_end() {
    for content in [None, Some("")] {
        let mut bench = job("");
        assert_eq!(bench.run(&["run"]).code, Some(10));
        let dir = bench.path(".loopexec/runs/K");
        std::fs::create_dir(&dir).unwrap();
        if let Some(content) = content {
            std::fs::write(dir.join("receipt.jsonl"), content).unwrap();
        }
        bench.env("STATE_loopexec_run_dir", dir.to_str().unwrap());
        let ran = bench.run(&["ci", "--finish", "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert_eq!(ran.json()["recorded"]["halt_reason"], "interrupted", "{ran:#?}");
        assert_eq!(bench.run(&["verify", "--run-id", "K"]).code, Some(0));
    }
}

#[test]
fn what_other_commands_quote_is_no_command_to_the_platform_either() {
    let bench = job("limits: {iterations: 1}\n");
    bench.script("check.sh", "printf '1..1\\nnot ok 1 - c::##[error]pwn\\n::error::x\\n'; exit 1");
    bench.script("agent.sh", "echo '::error::x'; echo '##[add-mask]y'; date +%N > other");
    bench.commit();
    for args in
        [&["run", "-v"][..], &["report"], &["explain-halt"], &["build-context"], &["status"]]
    {
        let ran = bench.run(args);
        let told = commands(&ran);
        let ours = |line: &&String| !line.starts_with("::group::") && *line != "::endgroup::";
        assert_eq!(told.iter().filter(ours).collect::<Vec<_>>(), Vec::<&String>::new(), "{args:?}");
    }
}

#[test]
fn what_an_agent_plants_in_the_folder_of_the_run_silences_no_surface_and_is_not_followed() {
    let bench = job("");
    let victim = bench.beside("victim");
    std::fs::write(&victim, "mine\n").unwrap();
    let all = r#"{"outputs":true,"annotations":true,"summary":true,"comment":true,"files":true}"#;
    bench.script(
        "agent.sh",
        &format!(
            // Root takes the view away; without namespaces there is none.
            "umount -l '{0}' 2>/dev/null; for d in '{0}'/.loopexec/runs/*; do echo '{all}' > $d/published.json; ln -sf '{1}' $d/report.md; done 2>/dev/null; echo good > state",
            bench.root().display(),
            victim.display()
        ),
    );
    bench.commit();
    let planted = bench.path(".loopexec/runs/R");
    let ran = bench.run(&["ci", "--run-id", "R"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(std::fs::read(&victim).unwrap(), b"mine\n");
    assert_eq!(values(&bench, "output")["converged"], "true");
    assert!(!std::fs::read_to_string(bench.beside("summary")).unwrap().is_empty());
    let report = planted.join("report.md");
    assert!(std::fs::symlink_metadata(&report).unwrap().is_file());
}

#[test]
fn a_link_in_the_tree_takes_no_reports_elsewhere() {
    let bench = job("");
    let elsewhere = bench.beside("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    bench.script(
        "agent.sh",
        &format!("ln -s '{}' loopexec-reports; echo good > state", elsewhere.display()),
    );
    bench.commit();
    let ran = bench.run(&["ci", "--platform", "azure"]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "{ran:#?}");
    assert!(ran.stderr.contains("is a link in the tree"), "{ran:#?}");
}

#[test]
fn a_loop_file_outside_of_the_repository_is_refused() {
    let mut bench = job("");
    std::fs::write(
        bench.beside("loop.yml"),
        "version: 1\nmodel: none\nexec: 'true'\ncheck: 'true'\n",
    )
    .unwrap();
    let outside = bench.beside("loop.yml");
    for config in ["../loop.yml", "a/../../loop.yml", outside.to_str().unwrap()] {
        bench.env("INPUT_CONFIG", config);
        let ran = bench.run(&["ci", "--action"]);
        assert_eq!(ran.code, Some(30), "{config}: {ran:#?}");
        assert!(ran.stderr.contains("is not inside the repository"), "{config}: {ran:#?}");
    }
}
