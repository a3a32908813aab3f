//! The text of a new loop file.

use crate::commands::project::Kind;

/// Whether the project has a folder `lib`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lib {
    /// It has.
    There,
    /// It has none.
    Absent,
}

/// What stands in the file of one kind of project.
struct Lines {
    check: &'static str,
    /// A line that makes the project's dependencies, as a comment.
    setup: &'static str,
    /// Keys under `check` beside the command, as comments or not.
    notes: &'static [&'static str],
}

/// Returns a loop file that can be run as it is, but for its `exec`; where no kind was found, its `check`.
pub fn text(kind: Kind, lib: Lib) -> String {
    let lines = lines_of(kind, lib);
    let mut check = String::new();
    for note in lines.notes {
        check.push_str(&format!("# {note}\n"));
    }
    check.push_str(&format!("check: {}\n", lines.check));
    around(&check, &format!("# setup: {}\n", lines.setup))
}

/// Returns a loop file with the lines of its check and of its setup.
pub fn around(check: &str, setup: &str) -> String {
    let mut text = String::from(HEAD);
    text.push_str(EXEC);
    text.push_str("\n# What decides: exit code 0 is green, and nothing the agent says counts.\n");
    text.push_str(check);
    text.push_str("\n# Runs once, before anything is measured, with your network: dependencies.\n");
    text.push_str(setup);
    text.push_str(TAIL);
    text
}

const HEAD: &str = "\
# A loop of loopexec: exec works, check decides, until it is green or a reason says stop.
# `loopexec doctor` looks at all of this without running it; `loopexec run` starts.
version: 1

# Which model exec uses: none, or provider/id.
model: none

# What the agent is told, at the head of every context.
goal: Make the failing tests pass without changing them.
";

const EXEC: &str = "
# The work step, in a fresh process each time: put your agent here. It finds what fails in the files
# $LOOPEXEC_CONTEXT (text) and $LOOPEXEC_FAILURES (JSON). Calls that are known to run without a terminal:
#   exec: claude -p \"$(cat \"$LOOPEXEC_CONTEXT\")\" --output-format json --dangerously-skip-permissions --model MODEL
#   exec: codex exec --json --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check -m MODEL \"$(cat \"$LOOPEXEC_CONTEXT\")\"
#   exec: gemini --yolo --skip-trust --output-format json -m MODEL -p \"$(cat \"$LOOPEXEC_CONTEXT\")\"
# They need their key (`exec: {run: …, pass_env: [NAME]}`), `model: provider/id`, and until usage can be
# observed `receipt: {unpinned: [cost, sampling]}`. Those flags let the agent run any command; it does so in a
# zone, which reaches the API of the model's provider, or what `isolation: {egress: ['HOST:443']}` lists.
exec: ./agent.sh
";

const TAIL: &str = "
# The most a run may take.
limits:
  iterations: 10
  time: 60m

# Paths no exec may touch beside the usual ones (.env*, CI definitions, this file, …):
# guards: {blocked_paths: {add: [\"migrations/**\"]}}
";

fn lines_of(kind: Kind, lib: Lib) -> Lines {
    let (check, setup, notes): (_, _, &[&str]) = match kind {
        Kind::Pytest => (
            "python3 -m pytest -q",
            "python3 -m venv .venv && .venv/bin/pip install -e . pytest",
            &[
                "With an environment in .venv, yours or the one that setup makes:",
                "check: .venv/bin/python -m pytest -q",
            ],
        ),
        Kind::Unittest => (
            "python3 -m unittest discover",
            "python3 -m venv .venv && .venv/bin/pip install -e .",
            &[
                "With an environment in .venv, yours or the one that setup makes:",
                "check: .venv/bin/python -m unittest discover",
            ],
        ),
        Kind::Cargo => ("cargo test --workspace --no-fail-fast", "cargo fetch", &[]),
        Kind::Nextest => ("cargo nextest run --workspace --no-fail-fast", "cargo fetch", &[]),
        Kind::Go => ("go test ./...", "go mod download", &[]),
        Kind::Node => ("node --test", "npm ci", &[]),
        Kind::Npm => (
            "npm test",
            "npm ci",
            &[
                "node --test is read as it is; other runners by their JUnit reports:",
                "check: {run: npm test, results: [\"reports/**/*.xml\"]}",
            ],
        ),
        Kind::Make => (
            "make test",
            "make deps",
            &[
                "Where tests leave JUnit reports: check: {run: make test, results: [\"reports/**/*.xml\"]}",
            ],
        ),
        Kind::Bats => (
            "bats --tap -r .",
            "git submodule update --init",
            &["bats prints TAP, which names each test."],
        ),
        Kind::Tap => (
            match lib {
                Lib::There => "prove --merge -lrv t",
                Lib::Absent => "prove --merge -rv t",
            },
            "cpanm --installdeps -L local .",
            &["-v prints the TAP of each script, --merge what its failures say."],
        ),
        Kind::Generic => (
            "./check.sh",
            "./setup.sh",
            &[
                "No test runner was found here: edit this line too. Any command does; TAP on its output, or JUnit",
                "reports that it writes and check.results names, tell the tests apart.",
            ],
        ),
    };
    Lines { check, setup, notes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[test]
    fn the_file_of_every_kind_is_valid_and_runs_no_model() {
        for kind in Kind::ALL {
            let text = text(kind, Lib::There);
            let resolved = config::parse_str(&text, "loop.yml")
                .unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
            assert_eq!(resolved.warnings, Vec::<String>::new(), "{}", kind.name());
            assert_eq!(resolved.spec.model, config::spec::ModelSpec::None);
            assert_eq!(resolved.spec.limits.iterations, 10);
        }
    }

    #[test]
    fn the_commented_calls_are_valid_when_taken() {
        let offered: Vec<&str> =
            EXEC.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
        assert_eq!(offered.len(), 3);
        for line in offered {
            let text = format!("version: 1\nmodel: none\n{line}\ncheck: make test\n");
            config::parse_str(&text, "loop.yml").unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        let all = Kind::ALL.map(|kind| (kind, lines_of(kind, Lib::Absent)));
        for (kind, lines) in all {
            let text = format!("{}\nsetup: {}\n", text(kind, Lib::Absent), lines.setup);
            config::parse_str(&text, "loop.yml")
                .unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        }
    }
}
