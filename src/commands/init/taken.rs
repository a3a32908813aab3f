//! A loop file made from a job of a CI file: the tests become the check, what stands before them the
//! setup, and what a loop cannot take over is listed.
//!
//! Reading the job is the duty of `config::workflow::job`.

use super::template;
use crate::config;
use crate::config::workflow::job::{CiCommand, CiJob, Lasting, read_job};
use crate::error::{Error, Kind, Result};
use crate::report::text::clean;
use std::collections::BTreeMap;
use std::path::Path;

/// Programs that are tests by their name.
const RUNNERS: [&str; 15] = [
    "pytest",
    "py.test",
    "unittest",
    "tox",
    "nox",
    "jest",
    "vitest",
    "mocha",
    "bats",
    "prove",
    "rspec",
    "phpunit",
    "ctest",
    "nextest",
    "gotestsum",
];

/// Programs that run tests when one of their words says so.
const TOOLS: [(&str, &[&str]); 22] = [
    ("cargo", &["test", "nextest"]),
    ("npm", &["test", "t"]),
    ("yarn", &["test"]),
    ("pnpm", &["test"]),
    ("bun", &["test"]),
    ("deno", &["test"]),
    ("node", &["--test"]),
    ("go", &["test"]),
    ("make", &["test", "tests", "check"]),
    ("just", &["test"]),
    ("task", &["test"]),
    ("mvn", &["test", "verify"]),
    ("mvnw", &["test", "verify"]),
    ("gradle", &["test", "check"]),
    ("gradlew", &["test", "check"]),
    ("dotnet", &["test"]),
    ("mix", &["test"]),
    ("rake", &["test", "spec"]),
    ("swift", &["test"]),
    ("bazel", &["test"]),
    ("ninja", &["test"]),
    ("hatch", &["test"]),
];

/// Returns the text of a loop file and the job that it comes from.
///
/// # Errors
/// `config_invalid` when the file cannot be read, when no job or several fit, when the tests hold an
/// expression, or when what was taken makes no valid loop.
pub fn text(file: &Path, wanted: Option<&str>) -> Result<(String, String)> {
    let name = file.display().to_string();
    let source = config::workflow::read_text(file)?;
    let job = read_job(&name, &source, wanted, &is_test)?;
    let known = job.commands.iter().rposition(|command| is_test(&command.text));
    let unknown = job.unknown.iter().find(|command| is_test(&command.text));
    let place = match (known, unknown, job.commands.len().checked_sub(1)) {
        (Some(place), _, _) => place,
        (None, Some(unknown), _) => return Err(holds_expression(&name, &job, unknown)),
        (None, None, Some(last)) => last,
        (None, None, None) => {
            let unknown = job.unknown.first().cloned().unwrap_or_default();
            return Err(holds_expression(&name, &job, &unknown));
        }
    };
    let text = written(&name, &job, place);
    config::parse_str(&text, "loop.yml").map_err(|error| {
        let what = clean(&format!("{name}: what job {} holds makes no valid loop file", job.id));
        let said = error.what.lines().next().unwrap_or_default().to_owned();
        Error::new(Kind::ConfigInvalid, what)
            .hint(said)
            .hint("`loopexec init` writes one for the project it finds, to be filled in")
    })?;
    Ok((text, clean(&job.id)))
}

fn holds_expression(name: &str, job: &CiJob, command: &CiCommand) -> Error {
    let what = format!(
        "{name}: {} of job {} holds an expression, which only the platform knows",
        command.label, job.id
    );
    Error::new(Kind::ConfigInvalid, clean(&what))
        .hint("`loopexec init` writes a loop file for the project it finds, to be filled in")
}

/// Says whether a script runs tests.
pub fn is_test(script: &str) -> bool {
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(|line| line.split([';', '|', '&', '(', ')'])).any(|command| {
        let words: Vec<&str> = command
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'']))
            .map(|word| word.rsplit('/').next().unwrap_or(word))
            .collect();
        // What is installed is not run.
        let installs = ["install", "add", "sync", "ci", "echo", "apt-get", "apk", "brew", "which"];
        let until = words.iter().position(|word| installs.contains(word)).unwrap_or(words.len());
        let words = words.get(..until).unwrap_or_default();
        words.iter().enumerate().any(|(place, word)| {
            let rest = words.get(place + 1..).unwrap_or_default();
            RUNNERS.contains(word)
                || TOOLS.iter().any(|(tool, says)| {
                    tool == word
                        && rest.iter().any(|word| {
                            says.iter().any(|say| {
                                word == say
                                    || word.strip_prefix(say).is_some_and(|w| w.starts_with(':'))
                            })
                        })
                })
        })
    })
}

/// Says whether a command changes the shell that the next one runs in.
fn sets_the_shell(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    ["cd", "export", "source", ".", "set", "eval", "pushd", "ulimit", "umask"].contains(&first)
}

fn written(name: &str, job: &CiJob, place: usize) -> String {
    let Some(check) = job.commands.get(place) else { return String::new() };
    let before = job.commands.get(..place).unwrap_or_default();
    let after = job.commands.get(place + 1..).unwrap_or_default();
    let mut not_taken: Vec<String> = job.not_taken.clone();
    not_taken.extend(after.iter().map(|c| format!("{}: it stands after the check", c.label)));
    let (variables, odd) = split(&job.variables);
    not_taken.extend(odd);
    let (own, odd) = split(&check.variables);
    not_taken.extend(odd);

    let mut lines = comment(&format!("From {name}, line {}: job {}.", job.line, job.id));
    let mut script = String::new();
    // A script of GitLab is one shell: what was set in it belongs to the check too.
    for command in before.iter().filter(|command| command.lasting == Lasting::Shell) {
        if sets_the_shell(&command.text) {
            script.push_str(&format!("{}\n", command.text.trim_end()));
        }
    }
    script.push_str(check.text.trim_end());
    let mut env = variables.clone();
    env.extend(own);
    lines.push_str(&command("check", &script, check.folder.as_deref(), check.shell, &env));
    if !job.services.is_empty() {
        lines.push_str("# Services of the job: they have to run before the loop starts, and the check says which it talks to:\n");
        lines.push_str("#   services:\n");
        for service in &job.services {
            let port = service.port.map_or("PORT".to_owned(), |port| port.to_string());
            lines.push_str(&comment(&format!(
                "    - {{address: \"localhost:{port}\", reset: ./reset.sh}}  # {}, line {}",
                service.name, service.line
            )));
        }
    }

    let parts: Vec<String> = before.iter().map(part).collect();
    let mut setup = match parts.is_empty() {
        true => "# setup: ./setup.sh\n".to_owned(),
        false => command("setup", &parts.join("\n"), None, None, &variables),
    };
    if !not_taken.is_empty() {
        setup.push('\n');
        for phrase in not_taken {
            setup.push_str(&comment(&format!("not taken: {phrase}")));
        }
    }
    template::around(&lines, &setup)
}

/// Returns the script of one step among others of the setup.
fn part(command: &CiCommand) -> String {
    let text = command.text.trim_end();
    let (variables, _) = split(&command.variables);
    let alone = command.lasting == Lasting::Files
        && (command.folder.is_some() || !variables.is_empty() || text.lines().any(sets_the_shell));
    if !alone {
        return text.to_owned();
    }
    let mut part = String::from("(\n");
    for (name, value) in &variables {
        part.push_str(&format!("export {name}={}\n", in_shell(value)));
    }
    if let Some(folder) = &command.folder {
        part.push_str(&format!("cd {}\n", in_shell(folder)));
    }
    part.push_str(text);
    part.push_str("\n)");
    part
}

fn in_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Parts variables from those a loop file cannot set.
fn split(variables: &BTreeMap<String, String>) -> (BTreeMap<String, String>, Vec<String>) {
    let can = |name: &str| {
        let word = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        word && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.starts_with("LOOPEXEC_")
    };
    let (good, odd): (BTreeMap<_, _>, BTreeMap<_, _>) =
        variables.clone().into_iter().partition(|(name, _)| can(name));
    (good, odd.into_keys().map(|name| format!("variable {name}")).collect())
}

/// Returns the lines of a command in a loop file.
fn command(
    key: &str,
    script: &str,
    folder: Option<&str>,
    shell: Option<&str>,
    env: &BTreeMap<String, String>,
) -> String {
    if folder.is_none() && shell.is_none() && env.is_empty() {
        return format!("{key}: {}\n", scalar(script, 2));
    }
    let mut lines = format!("{key}:\n  run: {}\n", scalar(script, 4));
    if let Some(shell) = shell {
        lines.push_str(&format!("  shell: {shell}\n"));
    }
    if let Some(folder) = folder {
        lines.push_str(&format!("  cwd: {}\n", scalar(folder, 4)));
    }
    if !env.is_empty() {
        lines.push_str("  env:\n");
        for (name, value) in env {
            lines.push_str(&format!("    {name}: {}\n", quoted(value)));
        }
    }
    lines
}

/// Writes a text as YAML: plain where that is the same, as a block where it has lines, else in quotes.
fn scalar(text: &str, indent: usize) -> String {
    let text = text.trim_end();
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./_=+,-".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '.' || c == '/');
    let words = text.contains([' ', '/']) && text.contains(|c: char| c.is_ascii_alphabetic());
    if starts && words && text.chars().all(plain) {
        return text.to_owned();
    }
    let shown =
        |c: char| !(c.is_control() || ('\u{2028}'..='\u{2029}').contains(&c) || c == '\u{feff}');
    let whole = text.trim_start_matches('\n');
    let can = whole.contains('\n')
        && !whole.starts_with([' ', '\t'])
        && whole.chars().all(|c| c == '\n' || c == '\t' || shown(c));
    if !can {
        return quoted(text);
    }
    let pad = " ".repeat(indent);
    let lines = whole.split('\n').map(|line| match line.is_empty() {
        true => String::new(),
        false => format!("{pad}{line}"),
    });
    format!("|\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Writes a text in double quotes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a line of comment; what cannot be shown is not passed on.
fn comment(text: &str) -> String {
    let text: String = clean(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tests_are_told_from_what_installs_them() {
        for script in [
            "pytest -q",
            "python -m pytest",
            "./.venv/bin/pytest",
            "uv run pytest",
            "cargo test --all",
            "cargo +stable nextest run",
            "npm test",
            "npm run test:unit",
            "go test ./...",
            "make -j2 test",
            "tox -e py",
            "./gradlew check",
            "cd app && npm run test",
            "pip install pytest\npytest",
            "node --test",
            "python3 -m unittest discover",
        ] {
            assert!(is_test(script), "{script}");
        }
        for script in [
            "pip install pytest tox",
            "npm ci",
            "cargo build",
            "make",
            "# pytest",
            "go build ./...",
            "echo make test",
            "npm install -g jest",
            "uv sync --group test",
            "cargo install cargo-nextest",
        ] {
            assert!(!is_test(script), "{script}");
        }
    }

    proptest! {
        #[test]
        fn any_script_is_written_so_that_it_is_read_back(text in "[ -~\n\té\u{1}\u{85}#:|&*'\"]{1,60}") {
            let text = text.trim().to_owned();
            prop_assume!(!text.is_empty());
            for indent in [2, 4] {
                let lines = match indent {
                    2 => format!("check: {}\n", scalar(&text, 2)),
                    _ => format!("check:\n  run: {}\n  cwd: a\n", scalar(&text, 4)),
                };
                let file = format!("version: 1\nmodel: none\nexec: ./a.sh\n{lines}");
                let read = config::parse_str(&file, "loop.yml").map_err(|e| {
                    TestCaseError::fail(format!("{e}\n{file}"))
                })?;
                let crate::domain::command::Run::Script { text: back, .. } = read.spec.check.command.run else {
                    return Err(TestCaseError::fail("no script"));
                };
                prop_assert_eq!(back.trim_end(), text.trim_end());
            }
        }
    }
}
