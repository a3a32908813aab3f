//! From a command of the loop file to the words that are started.

use super::toolchains::{Toolchains, find_program};
use crate::domain::command::{Run, Shell};
use crate::error::{Error, Kind, Result};
use std::ffi::OsString;
use std::path::PathBuf;

/// The shells of this machine, found once: what an agent puts on the path later is not asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shells {
    /// bash, if there is one.
    pub bash: Option<PathBuf>,
    /// The POSIX shell.
    pub sh: PathBuf,
}

impl Shells {
    /// Finds them in the folders of a path.
    pub fn find(path: &[PathBuf]) -> Self {
        let sh = find_program(path, "sh").unwrap_or_else(|| "/bin/sh".into());
        Self { bash: find_program(path, "bash"), sh }
    }

    /// Returns those among the tools of an image.
    pub fn of_image(tools: &Toolchains) -> Self {
        let found = |name: &str| {
            let mut all = tools.found.iter();
            all.find_map(|(known, file)| (known == name).then(|| file.clone()))
        };
        Self { bash: found("bash"), sh: found("sh").unwrap_or_else(|| "/bin/sh".into()) }
    }

    /// Returns the words that run a command.
    ///
    /// Errors: `config_invalid` when bash is asked for by name and there is none.
    pub fn argv(&self, run: &Run) -> Result<Vec<OsString>> {
        let (text, shell) = match run {
            Run::Argv(words) => return Ok(words.iter().map(Into::into).collect()),
            Run::Script { text, shell } => (text, *shell),
        };
        let (program, flags): (_, &[&str]) = match (shell, &self.bash) {
            (Shell::Auto | Shell::Bash, Some(bash)) => {
                (bash, &["--noprofile", "--norc", "-eo", "pipefail", "-c"])
            }
            (Shell::Bash, None) => {
                return Err(Error::new(Kind::ConfigInvalid, "`shell: bash`, but there is no bash")
                    .hint("install bash, or write `shell: sh`"));
            }
            (Shell::Auto, None) | (Shell::Sh, _) => (&self.sh, &["-e", "-c"]),
        };
        let mut argv = vec![program.clone().into_os_string()];
        argv.extend(flags.iter().map(OsString::from));
        argv.push(text.into());
        Ok(argv)
    }

    /// Says whether a check needs `pipefail` and would run without it.
    pub fn loses_pipefail(&self, run: &Run) -> bool {
        match run {
            Run::Script { text, shell: Shell::Auto } => self.bash.is_none() && has_pipe(text),
            Run::Script { text, shell: Shell::Sh } => has_pipe(text),
            Run::Script { .. } | Run::Argv(_) => false,
        }
    }
}

/// What surrounds a character of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Double,
    Parens,
    Backticks,
    Braces,
}

/// Says whether a script joins two commands by a pipe.
///
/// Quotes, comments, `||`, `>|`, patterns of `case` and parameter expansions are none; a command
/// substitution inside double quotes is read like any code. The text of a here-document counts as
/// code, so that an error is on the strict side.
pub fn has_pipe(script: &str) -> bool {
    let characters: Vec<char> = script.chars().collect();
    let mut inside: Vec<Inside> = Vec::new();
    let mut word = String::new();
    let mut case = Case::None;
    let mut at = 0;
    while let Some(&c) = characters.get(at) {
        let next = characters.get(at + 1).copied();
        let quoted = inside.last() == Some(&Inside::Double);
        let expanding = inside.last() == Some(&Inside::Braces);
        let begins_word = word.is_empty();
        if c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.') {
            word.push(c);
        } else {
            case = case.after(&word, c);
            word.clear();
        }
        at += 1;
        match c {
            '\\' => at += 1,
            '"' if quoted => drop(inside.pop()),
            '"' => inside.push(Inside::Double),
            '`' if inside.contains(&Inside::Backticks) => {
                while inside.pop().is_some_and(|popped| popped != Inside::Backticks) {}
            }
            '`' => inside.push(Inside::Backticks),
            '$' if next == Some('(') => {
                inside.push(Inside::Parens);
                at += 1;
            }
            '$' if next == Some('{') => {
                inside.push(Inside::Braces);
                at += 1;
            }
            '}' if expanding => drop(inside.pop()),
            _ if quoted || expanding => {}
            '\'' => {
                let end = characters[at..].iter().position(|c| *c == '\'');
                at = end.map_or(characters.len(), |end| at + end + 1);
            }
            '#' if begins_word && (at == 1 || " \t\n;&|(".contains(characters[at - 2])) => {
                let end = characters[at..].iter().position(|c| *c == '\n');
                at = end.map_or(characters.len(), |end| at + end);
            }
            '(' => inside.push(Inside::Parens),
            ')' if case == Case::Pattern => case = Case::Body,
            ')' if inside.last() == Some(&Inside::Parens) => drop(inside.pop()),
            '>' if next == Some('|') => at += 1,
            '|' if next == Some('|') => at += 1,
            '|' if case != Case::Pattern => return true,
            _ => {}
        }
    }
    false
}

/// Where in a `case` a script stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    None,
    Subject,
    Pattern,
    Body,
}

impl Case {
    fn after(self, word: &str, c: char) -> Self {
        match (self, word) {
            (Self::None | Self::Body, "case") => Self::Subject,
            (Self::Subject, "in") => Self::Pattern,
            (Self::Body | Self::Pattern, "esac") => Self::None,
            // Between the two of `;;` no word stands, so the first one already ends the body's line
            // and a pattern can only follow the second; a single `;` is followed by a command.
            (Self::Body, "") if c == ';' => Self::Pattern,
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_told_from_all_that_looks_like_one() {
        for with in [
            "a | b",
            "a|b",
            "a |& b",
            "a || b | c",
            "echo \"$(a | b)\"",
            "x=`a | b`",
            "(a; b) | c",
            "case x in a|b) c | d;; esac",
            "echo 'x' | y",
            "a # c\nb | c",
            "echo $(( 1 + 2 )) | cat",
            "echo ${x#y} | cat",
            "echo a#b | cat",
            "case $x in y) z;; esac | cat",
        ] {
            assert!(has_pipe(with), "{with}");
        }
        for without in [
            "",
            "a || b",
            "echo 'a | b'",
            "echo \"a | b\"",
            "a \\| b",
            "# a | b",
            "a # b | c",
            "a >| b",
            "case x in a|b) c;; d|e) f;; esac",
            "echo ${x:-a|b}",
            "a && b; c",
            "echo \"it's | fine\"",
        ] {
            assert!(!has_pipe(without), "{without}");
        }
    }

    #[test]
    fn hostile_text_ends() {
        for odd in ["\\", "\"", "'", "`", "$(", "${", "$", "#", "case", "é|", "))))", "`\"`"] {
            let _ = has_pipe(odd);
        }
    }

    #[test]
    fn words_follow_the_shell() {
        let both = Shells { bash: Some("/x/bash".into()), sh: "/x/sh".into() };
        let bare = Shells { bash: None, sh: "/x/sh".into() };
        let run = |shell| Run::Script { text: "a | b".into(), shell };
        let with_bash = ["/x/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", "a | b"];
        assert_eq!(both.argv(&run(Shell::Auto)).unwrap(), with_bash);
        assert_eq!(both.argv(&run(Shell::Bash)).unwrap(), with_bash);
        assert_eq!(both.argv(&run(Shell::Sh)).unwrap(), ["/x/sh", "-e", "-c", "a | b"]);
        assert_eq!(bare.argv(&run(Shell::Auto)).unwrap(), ["/x/sh", "-e", "-c", "a | b"]);
        assert_eq!(bare.argv(&run(Shell::Bash)).unwrap_err().kind, Kind::ConfigInvalid);
        assert_eq!(bare.argv(&Run::Argv(vec!["a".into(), "|".into()])).unwrap(), ["a", "|"]);
        assert!(bare.loses_pipefail(&run(Shell::Auto)) && !both.loses_pipefail(&run(Shell::Auto)));
    }
}
