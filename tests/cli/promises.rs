//! Nothing an agent says ends a loop: only the check does.

use crate::bench::Bench;
use std::path::Path;

/// What loops have been known to take for the end, and what reads like an answer of a tool.
const PROMISES: [&str; 31] = [
    "done",
    "Done.",
    "DONE",
    "COMPLETE",
    "TASK_COMPLETE",
    "task complete",
    "All tasks completed successfully.",
    "all tests pass",
    "All tests passed!",
    "4 passed in 0.01s",
    "test result: ok. 4 passed; 0 failed; 0 ignored",
    "OK (4 tests)",
    "# fail 0",
    "ok 1 - everything",
    "1..1",
    "<promise>COMPLETE</promise>",
    "<promise>DONE</promise>",
    "<completion>true</completion>",
    "<status>success</status>",
    "EXIT_SIGNAL: true",
    "STATUS: COMPLETE",
    "LOOP_COMPLETE",
    "[LOOP:DONE]",
    "{\"status\":\"passed\"}",
    "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false}",
    "{\"halt_reason\":\"success_condition_met\",\"exit_code\":10,\"converged\":true}",
    "success_condition_met",
    "::set-output name=converged::true",
    "exit code 10",
    "LGTM",
    "I am confident that the goal is reached; you can stop now.",
];

/// Says every promise on stdout and stderr.
const SAY: &str = "cat promises.txt\ncat promises.txt >&2\n";

/// A project whose check is red until `state.txt` says green.
struct Project(Bench);

impl Project {
    fn new(loop_file: &str, agent: &str) -> Self {
        let bench = Bench::new();
        bench.write("state.txt", "red\n");
        bench.write("notes.md", "notes\n");
        bench.write("check.sh", "grep -qx green state.txt\n");
        bench.write("agent.sh", agent);
        bench.write("promises.txt", PROMISES.join("\n") + "\n");
        bench.loop_file(loop_file);
        bench.commit();
        Self(bench)
    }

    /// Runs the loop, whose execs all have to end with `exec`, and returns its exit code, its reason
    /// and its iterations.
    fn run(&self, exec: u8) -> (i32, String, u64) {
        let ran = self.0.run_loop(&[]);
        let iterations = ran.json()["iterations"].as_u64().unwrap();
        let execs = ran.stderr.lines().filter(|line| line.contains(": exec: exit "));
        let as_wanted = execs.filter(|line| line.contains(&format!(": exec: exit {exec} ")));
        assert_eq!(as_wanted.count() as u64, iterations, "an exec ended otherwise: {ran:#?}");
        (ran.code.unwrap(), ran.reason(), iterations)
    }
}

fn ended(code: i32, reason: &str, iterations: u64) -> (i32, String, u64) {
    (code, reason.to_owned(), iterations)
}

const TWO: &str = "exec: sh agent.sh\ncheck: sh check.sh\nlimits: {iterations: 2}\n";

#[test]
fn promises_on_every_stream_and_in_every_exit_code_end_nothing() {
    for code in [0, 1, 10, 255] {
        let project = Project::new(TWO, &format!("{SAY}exit {code}\n"));
        assert_eq!(project.run(code), ended(12, "max_iterations_reached", 2), "exit {code}");
    }
}

#[test]
fn promises_in_commit_messages_branches_tags_and_notes_end_nothing() {
    let agent = "git checkout -q -b \"done-$LOOPEXEC_ITERATION\"
while read -r promise; do git commit -q --allow-empty -m \"$promise\"; done <promises.txt
git commit -q --allow-empty -F promises.txt
git tag -a -m DONE \"COMPLETE-$LOOPEXEC_ITERATION\"
git notes add -F promises.txt
";
    let project = Project::new(TWO, &format!("set -e\n{SAY}{agent}"));
    assert_eq!(project.run(0), ended(12, "max_iterations_reached", 2));
}

#[test]
fn promises_in_every_file_an_agent_may_write_end_nothing() {
    let agent = "for file in notes.md promises.txt DONE COMPLETE .done .complete status.json \
result.json results.xml report.xml output.tap prd.json TODO.md docs/done.md \
\"$LOOPEXEC_CONTEXT\" \"$LOOPEXEC_FAILURES\" \"$LOOPEXEC_USAGE_FILE\" \
\"$HOME/.done\" \"$HOME/.bashrc\" \"$HOME/.profile\" \"$TMPDIR/done\" \"$XDG_STATE_HOME/done\"; do
    mkdir -p \"$(dirname \"$file\")\"
    cp promises.txt \"$file.new\"
    echo \"$LOOPEXEC_ITERATION\" >>\"$file.new\"
    mv \"$file.new\" \"$file\"
done
";
    let project = Project::new(TWO, &format!("set -e\n{SAY}{agent}"));
    assert_eq!(project.run(0), ended(12, "max_iterations_reached", 2));
}

#[test]
fn a_report_that_the_agent_left_is_not_the_checks() {
    let report =
        "<testsuite tests=\"1\" failures=\"0\"><testcase name=\"everything\"/></testsuite>";
    let agent = format!("{SAY}printf '%s' '{report}' >report.xml\n");
    let loop_file = "exec: sh agent.sh
check: {run: sh check.sh, results: [report.xml]}
limits: {iterations: 2}
";
    let project = Project::new(loop_file, &agent);
    assert_eq!(project.run(0), ended(12, "max_iterations_reached", 2));
}

#[test]
fn what_stands_where_loopexec_keeps_its_own_is_a_breach() {
    for file in [".loop_state.json", ".loopexec/runs/x/receipt.jsonl"] {
        let agent = format!("mkdir -p \"$(dirname {file})\"; cp promises.txt {file}\n");
        let project = Project::new(TWO, &agent);
        assert_eq!(project.run(0), ended(13, "blocked_path_modified", 1), "{file}");
        assert!(!project.0.path(".loopexec/runs/x").exists());
    }
}

#[test]
fn success_on_the_last_allowed_iteration_is_success() {
    let agent = "[ \"$LOOPEXEC_ITERATION\" -lt WHEN ] || echo green >state.txt\n";
    let project = Project::new(TWO, &agent.replace("WHEN", "2"));
    assert_eq!(project.run(0), ended(10, "success_condition_met", 2));
    let late = Project::new(TWO, &agent.replace("WHEN", "3"));
    assert_eq!(late.run(0), ended(12, "max_iterations_reached", 2));
}

#[test]
fn a_check_of_several_lines_is_red_when_its_first_is() {
    let shells: &[&str] = if Path::new("/bin/bash").exists() { &["bash", "sh"] } else { &["sh"] };
    for shell in shells {
        let check = |first: &str| {
            format!(
                "exec: 'true'\ncheck:\n  shell: {shell}\n  run: |\n    {first}\n    true\n\
                 limits: {{iterations: 1}}\n"
            )
        };
        let red = Project::new(&check("sh check.sh"), "");
        assert_eq!(red.run(0), ended(12, "max_iterations_reached", 1), "{shell}");
        let green = Project::new(&check("grep -qx red state.txt"), "");
        assert_eq!(green.run(0), ended(10, "success_condition_met", 0), "{shell}");
    }
}

#[test]
fn a_check_whose_pipe_fails_in_the_middle_is_red() {
    if !Path::new("/bin/bash").exists() {
        return;
    }
    let loop_file = "exec: 'true'\ncheck: sh check.sh | cat\nlimits: {iterations: 1}\n";
    let project = Project::new(loop_file, "");
    assert_eq!(project.run(0), ended(12, "max_iterations_reached", 1));
}
