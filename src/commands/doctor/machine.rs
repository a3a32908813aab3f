//! Rows about the machine: git, shells, toolchains, the programs that commands start.

use super::loops::text_of;
use super::needs_file;
use super::rows::Row;
use crate::commands::run::opening::Ready;
use crate::config::spec::LoopSpec;
use crate::domain::command::{CommandSpec, Run};
use crate::error::{Error, Kind, Result};
use crate::process::shell::Shells;
use crate::process::toolchains::{Toolchains, find_program};
use crate::report::text::one_line;
use crate::workspace::caller::Caller;
use crate::workspace::gitcmd::Git;
use crate::workspace::places::Surroundings;
use crate::workspace::programs::search_path;
use std::path::Path;

/// The oldest git that every way into a repository was tried with.
const GIT: (u32, u32) = (2, 38);

/// Words that a shell runs itself, so that no program of the name has to be there.
const BUILTINS: [&str; 28] = [
    ".", ":", "[", "[[", "case", "cd", "command", "echo", "eval", "exec", "exit", "export",
    "false", "for", "if", "local", "printf", "pwd", "read", "set", "shift", "source", "test",
    "trap", "true", "ulimit", "until", "while",
];

/// What is here to run commands.
#[derive(Debug)]
pub struct Tools {
    /// The tools of the path.
    pub toolchains: Toolchains,
    /// The shells.
    pub shells: Shells,
}

/// Resolves the caller's path through its shims.
///
/// # Errors
/// Only those of running a version manager at all.
pub fn resolve_tools(ready: &mut Ready) -> Result<Tools> {
    let toolchains =
        Toolchains::resolve(&mut ready.supervisor, &ready.variables, &ready.caller.root)?;
    let shells = Shells::find(&toolchains.path);
    Ok(Tools { toolchains, shells })
}

/// git is there and new enough.
pub fn git(start: &Path) -> Row {
    let start = std::fs::canonicalize(start).unwrap_or_else(|_| start.to_owned());
    let surroundings = Surroundings::read(|name| std::env::var_os(name));
    let path = search_path(&start, &surroundings);
    let output = match Git::new(&path).run(["--version"], b"", &|| false) {
        Ok(output) => output,
        Err(error) => return Row::fail("git", &error),
    };
    let line = one_line(&String::from_utf8_lossy(output.line()), 80);
    match version_of(&line) {
        Some(version) if version < GIT => {
            Row::warn("git", format!("{line} is older than {}.{}", GIT.0, GIT.1))
                .mend("install a newer git if the workspace cannot be made")
        }
        Some(_) => Row::pass("git", line),
        None => Row::warn("git", format!("its version cannot be read: {line}")),
    }
}

fn version_of(line: &str) -> Option<(u32, u32)> {
    let mut parts = line.split_whitespace().nth(2)?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The shell that runs commands given as text.
pub fn shell(tools: &Tools, spec: Option<&LoopSpec>) -> Row {
    let shells = &tools.shells;
    if let Some(spec) = spec
        && shells.loses_pipefail(&spec.check.command.run)
    {
        let error = Error::new(
            Kind::ConfigInvalid,
            "the check holds a pipe, and no bash runs it: a failure inside the pipe would not be seen",
        );
        return Row::fail("shell", &error.hint("install bash, or write the check without a pipe"));
    }
    match &shells.bash {
        Some(bash) => Row::pass("shell", format!("{} -eo pipefail", bash.display())),
        None => {
            Row::warn("shell", format!("no bash: {} -e runs the commands", shells.sh.display()))
                .mend("install bash, so that a failure inside a pipe is seen")
        }
    }
}

/// The tools that were found, shims resolved; what could not be resolved matters if a command needs it.
pub fn toolchains(tools: &Tools, spec: Option<&LoopSpec>) -> Row {
    let found: Vec<&str> = tools
        .toolchains
        .found
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| !matches!(*name, "sh" | "bash" | "git"))
        .collect();
    let reason = match found.is_empty() {
        true => "no compiler or interpreter that is known by name is on PATH".to_owned(),
        false => format!("found, shims resolved: {}", found.join(", ")),
    };
    let words = spec.map(words_of).unwrap_or_default();
    let (matter, rest): (Vec<&String>, Vec<&String>) =
        tools.toolchains.notes.iter().partition(|note| concerns(note, &words, &tools.toolchains));
    let lines =
        |notes: Vec<&String>| notes.iter().map(|note| format!("\n{note}")).collect::<String>();
    if matter.is_empty() {
        let rest = rest.into_iter().map(|note| format!("\nno command needs it: {note}"));
        return Row::pass("toolchains", format!("{reason}{}", rest.collect::<String>()));
    }
    Row::warn("toolchains", format!("{reason}{}", lines(matter))).mend(
        "put the absolute folder of the real program first on PATH, before loopexec is started",
    )
}

/// Returns the words of exec, check and setup that may name a program.
fn words_of(spec: &LoopSpec) -> Vec<String> {
    let setup = spec.setup.as_ref().map(|setup| &setup.command);
    let commands = [&spec.exec.command, &spec.check.command].into_iter().chain(setup);
    let texts: Vec<String> = commands.map(text_of).collect();
    let words = texts.iter().flat_map(|text| {
        text.split(|c: char| !(c.is_alphanumeric() || "._-+".contains(c)))
            .filter(|word| !word.is_empty() && !BUILTINS.contains(word))
    });
    words.map(str::to_owned).collect()
}

/// Tells whether a note is about a program that one of the words names.
fn concerns(note: &str, words: &[String], toolchains: &Toolchains) -> bool {
    words.iter().any(|word| match find_program(&toolchains.path, word) {
        // What was asked for: `asdf which node`.
        Some(_) if note.contains(&format!(" {word}`")) => true,
        Some(program) => program.parent().is_some_and(|folder| {
            let manager = folder.parent().filter(|_| folder.ends_with("shims")).unwrap_or(folder);
            note.contains(&format!("{}/", manager.display()))
                || note.contains(&format!("{} ", folder.display()))
        }),
        None => false,
    })
}

/// The first program of exec, check and setup can be found.
pub fn programs(tools: &Tools, spec: Option<&LoopSpec>, caller: &Caller) -> Row {
    let name = "programs";
    let Some(spec) = spec else { return needs_file(name) };
    let setup = spec.setup.as_ref().map(|setup| ("setup", &setup.command));
    let commands = [("exec", &spec.exec.command), ("check", &spec.check.command)];
    let missing: Vec<String> = commands
        .into_iter()
        .chain(setup)
        .filter_map(|(key, command)| {
            let program = first_word(command)?;
            (!is_there(tools, caller, command, &program))
                .then(|| format!("{key}: {}", one_line(&program, 80)))
        })
        .collect();
    if missing.is_empty() {
        return Row::pass(name, "exec, check and setup start programs that are there");
    }
    let what = format!("not found: {}", missing.join(", "));
    // Nothing runs before setup that could make its program.
    let made = spec.setup.is_some() && !missing.iter().any(|said| said.starts_with("setup: "));
    if made {
        return Row::warn(name, what).mend("fine if setup makes them");
    }
    let error = Error::new(Kind::ConfigInvalid, what);
    Row::fail(name, &error.hint("install them, write them, or make them in setup"))
}

/// Returns the word that names the program, where no shell has to be asked for it.
fn first_word(command: &CommandSpec) -> Option<String> {
    if let Run::Argv(words) = &command.run {
        return words.first().cloned();
    }
    let text = text_of(command);
    let word = text.split_whitespace().find(|word| !is_assignment(word))?;
    let plain = |c: char| c.is_alphanumeric() || "/._-+".contains(c);
    let known = word.chars().all(plain) && !BUILTINS.contains(&word);
    known.then(|| word.to_owned())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn is_there(tools: &Tools, caller: &Caller, command: &CommandSpec, program: &str) -> bool {
    if !program.contains('/') {
        return find_program(&tools.toolchains.path, program).is_some();
    }
    let cwd = caller.start().join(command.cwd.as_deref().unwrap_or(""));
    cwd.join(program).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_str;

    #[test]
    fn versions_are_read_from_what_git_says() {
        assert_eq!(version_of("git version 2.39.5"), Some((2, 39)));
        assert_eq!(version_of("git version 2.39.3 (Apple Git-146)"), Some((2, 39)));
        assert_eq!(version_of("git"), None);
    }

    #[test]
    fn the_program_is_found_behind_assignments_and_not_guessed_behind_code() {
        let word = |text: &str| {
            let loop_text = format!("version: 1\nmodel: none\nexec: x\ncheck: {text:?}\n");
            first_word(&parse_str(&loop_text, "loop.yml").unwrap().spec.check.command)
        };
        assert_eq!(word("A=1 B=2 ./check.sh -q").as_deref(), Some("./check.sh"));
        assert_eq!(word("python -m pytest").as_deref(), Some("python"));
        for none in ["cd x && make", "$TOOL run", "(make)", "if true; then x; fi"] {
            assert_eq!(word(none), None, "{none}");
        }
    }
}
