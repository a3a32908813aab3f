//! The scripts of the caller's tree that a command starts, found in its words.
//!
//! No shell is imitated: only first words, and the first argument of a known interpreter, are looked at.

use crate::domain::command::{CommandSpec, Run};
use std::path::PathBuf;

/// Programs whose first argument that is no option is a script.
const INTERPRETERS: [&str; 20] = [
    "bash", "sh", "dash", "zsh", "ksh", "python", "python2", "python3", "pypy3", "node", "deno",
    "bun", "ruby", "perl", "php", "lua", "Rscript", "pwsh", "source", ".",
];

/// Words that stand before the program they start.
const PREFIXES: [&str; 15] = [
    "env", "exec", "time", "command", "nice", "nohup", "if", "then", "else", "elif", "while",
    "until", "do", "!", "{",
];

/// Folders whose files are made by tools, not written by people.
const MADE: [&str; 8] =
    ["node_modules", ".venv", "venv", ".tox", "target", "build", "dist", "vendor"];

/// Returns the files a command starts, relative to the folder the run was started in, each once.
///
/// A word is one when it is a relative path inside the tree that no expansion can change, and no
/// folder of built files holds it; whether the file is there is the caller's question.
pub fn script_paths(command: &CommandSpec) -> Vec<String> {
    let base = command.cwd.clone().unwrap_or_default();
    let mut found: Vec<String> = Vec::new();
    let mut note = |cwd: &str, words: &[String]| {
        if let Some(path) = script_of(words).and_then(|word| inside(cwd, word))
            && !found.contains(&path)
        {
            found.push(path);
        }
    };
    match &command.run {
        Run::Argv(words) => note(&base, words),
        Run::Script { text, .. } => {
            let mut cwd = Some(base);
            for words in simple_commands(text) {
                match (words.first().map(String::as_str), words.get(1)) {
                    (Some("cd"), Some(folder)) => {
                        cwd = cwd.and_then(|cwd| inside(&cwd, folder));
                    }
                    _ => {
                        if let Some(cwd) = &cwd {
                            note(cwd, &words);
                        }
                    }
                }
            }
        }
    }
    found
}

/// Returns the files a command starts by their path from the root, each once; as [`script_paths`] finds those of
/// the tree.
pub fn absolute_scripts(command: &CommandSpec) -> Vec<PathBuf> {
    let commands = match &command.run {
        Run::Argv(words) => vec![words.clone()],
        Run::Script { text, .. } => simple_commands(text),
    };
    let mut found = Vec::new();
    for word in commands.iter().filter_map(|words| script_of(words)) {
        let path = PathBuf::from(word);
        let says_itself = !word.contains(['$', '`', '*', '?', '[', '\0', '\n', '{', '(']);
        if word.starts_with('/') && word.len() <= 4096 && says_itself && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

/// Returns the word of a simple command that is a script.
fn script_of(words: &[String]) -> Option<&String> {
    let mut rest = words;
    while let Some((first, tail)) = rest.split_first() {
        let assigns = first.split_once('=').is_some_and(|(name, _)| super::kind::is_variable(name));
        if !assigns && !PREFIXES.contains(&first.as_str()) {
            break;
        }
        rest = tail;
    }
    let (first, tail) = rest.split_first()?;
    let name = first.rsplit('/').next().unwrap_or(first);
    if INTERPRETERS.contains(&name) || name.starts_with("python3.") {
        let mut words = tail.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                // A program text or a module follows, no file.
                "-c" | "-m" | "-e" | "-" => return None,
                // What a test runner is given are tests, not the check's own script.
                "--test" => return None,
                // These options take the next word.
                "-o" | "+o" | "-O" | "+O" | "-W" | "-X" | "-r" | "--require" => {
                    words.next();
                }
                option if option.starts_with(['-', '+']) => {}
                file => return (file.contains('/') || file.contains('.')).then_some(word),
            }
        }
        return None;
    }
    first.contains('/').then_some(first)
}

/// Returns a word as a path below a folder, when it stays inside the tree.
pub fn inside(cwd: &str, word: &str) -> Option<String> {
    if word.starts_with('/') || word.starts_with('~') || word.len() > 4096 {
        return None;
    }
    if word.contains(['$', '`', '*', '?', '[', '\0', '\n', '{', '(']) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in cwd.split('/').chain(word.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    let folders = parts.len().saturating_sub(1);
    let made = parts.iter().take(folders).any(|part| MADE.contains(part));
    (!parts.is_empty() && !made).then(|| parts.join("/"))
}

/// Splits a shell text into simple commands, and those into words; quotes are taken off.
pub fn simple_commands(text: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some(next) => word.get_or_insert_default().push(next),
            },
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                while let Some(inner) = chars.next() {
                    match inner {
                        inner if inner == c => break,
                        '\\' if c == '"' => word.extend(chars.next()),
                        inner => word.push(inner),
                    }
                }
            }
            '#' if word.is_none() => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            '\n' | ';' | '&' | '|' | '(' | ')' => {
                words.extend(word.take());
                if !words.is_empty() {
                    commands.push(std::mem::take(&mut words));
                }
            }
            '<' | '>' => {
                // What a command reads or writes is no script; the target becomes a word like any argument.
                words.extend(word.take());
            }
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if !words.is_empty() {
        commands.push(words);
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::command::Shell;
    use std::collections::BTreeMap;

    fn command(run: Run, cwd: Option<&str>) -> CommandSpec {
        CommandSpec {
            run,
            cwd: cwd.map(str::to_owned),
            env: BTreeMap::new(),
            pass_env: Vec::new(),
            timeout: None,
        }
    }

    fn paths(run: Run, cwd: Option<&str>) -> Vec<String> {
        script_paths(&command(run, cwd))
    }

    #[test]
    fn scripts_outside_of_the_tree_are_named_by_their_whole_path() {
        let found = |text: &str| {
            let run = Run::Script { text: text.to_owned(), shell: Shell::Auto };
            absolute_scripts(&command(run, None))
        };
        assert_eq!(found("/srv/sealed/run.sh"), [PathBuf::from("/srv/sealed/run.sh")]);
        assert_eq!(
            found("cd sub && sh -eu /a/b.sh x && /a/c; /a/c"),
            ["/a/b.sh", "/a/c"].map(PathBuf::from)
        );
        assert!(found("./run.sh; cat /etc/passwd; sh -c /a/b; /a/*.sh; $X/run.sh").is_empty());
    }

    #[test]
    fn scripts_are_found_in_texts_and_lists() {
        let cases: &[(&str, &[&str])] = &[
            ("./check.sh", &["check.sh"]),
            ("bash scripts/test.sh --fast", &["scripts/test.sh"]),
            ("bash -eu check.sh", &["check.sh"]),
            ("bash -eu -o pipefail check.sh 2>&1 | tee out", &["check.sh"]),
            ("sh < ci/check", &["ci/check"]),
            ("FOO=1 env BAR=2 ./a.sh && ./b/c.sh | tee out/log", &["a.sh", "b/c.sh"]),
            ("cd sub && ./check.sh", &["sub/check.sh"]),
            ("set -e\n# ./not.sh\n./one.sh; ./two.sh\n./one.sh", &["one.sh", "two.sh"]),
            ("python tools/run_tests.py", &["tools/run_tests.py"]),
            ("'./with blank.sh'", &["with blank.sh"]),
            ("python -m pytest tests/test_a.py", &[]),
            ("node --test tests/a.test.js", &[]),
            ("cargo test && npx jest src/a.js", &[]),
            ("/usr/bin/check ~/x.sh ../up.sh", &[]),
            ("bash ../up.sh; $DIR/x.sh; ./a*.sh", &[]),
            ("node_modules/.bin/jest; .venv/bin/pytest; ./target/debug/t", &[]),
            ("bash -c './inner.sh'", &[]),
            ("", &[]),
            ("\"", &[]),
        ];
        for (text, wanted) in cases {
            let run = Run::Script { text: (*text).to_owned(), shell: Shell::Auto };
            assert_eq!(paths(run, None), *wanted, "{text}");
        }
        let argv =
            |words: &[&str]| Run::Argv(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(paths(argv(&["./check.sh", "x/y"]), Some("sub")), ["sub/check.sh"]);
        assert_eq!(paths(argv(&["sh", "ci/check"]), None), ["ci/check"]);
        assert!(paths(argv(&[]), None).is_empty());
    }
}
