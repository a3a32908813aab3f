//! Paths, patterns and globs as a loop file writes them: what is wrong with one, as the end of a sentence.
//!
//! They are compiled here only so that a bad one is refused at its place; matching is the duty of those
//! that read them.

use ignore::gitignore::GitignoreBuilder;

/// Longest path or pattern, in bytes.
const MAX: usize = 4096;

/// Returns what is wrong with a path of the tree.
pub(crate) fn path_problem(text: &str) -> Option<String> {
    if text.chars().any(char::is_control) {
        return Some("it holds a control character".to_owned());
    }
    if text.trim_start_matches('!').split('/').any(|part| part == "..") {
        return Some("`..` has no place in it".to_owned());
    }
    (text.len() > MAX).then(|| "it is longer than 4096 bytes".to_owned())
}

/// Returns what is wrong with a path of the machine.
pub(crate) fn place_problem(text: &str) -> Option<String> {
    let begins = text.starts_with('/') || text.starts_with("~/") && text.len() > 2;
    path_problem(text)
        .or_else(|| (!begins).then(|| "it begins with `/`, or with `~/` for your HOME".to_owned()))
}

/// Returns what is wrong with a pattern in gitignore syntax.
pub(crate) fn gitignore_problem(text: &str) -> Option<String> {
    path_problem(text).or_else(|| {
        if text.starts_with('#') {
            return Some("it is a comment of gitignore: write `\\#` for a leading `#`".to_owned());
        }
        malformed(text)
    })
}

/// Returns what is wrong with a glob of files below the root.
pub(crate) fn glob_problem(text: &str) -> Option<String> {
    path_problem(text).or_else(|| {
        if text.starts_with(['/', '~', '!']) {
            return Some(
                "it is a glob from the top of the tree, like `reports/**/*.xml`".to_owned(),
            );
        }
        malformed(&format!("/{text}"))
    })
}

/// Returns why the matcher cannot read a pattern.
fn malformed(pattern: &str) -> Option<String> {
    if is_unclosed(pattern) {
        // The matcher takes it as it stands, git never matches it.
        return Some("it is no pattern: a `[` is not closed; for itself it is `\\[`".to_owned());
    }
    match GitignoreBuilder::new("").add_line(None, pattern) {
        Ok(_) => None,
        Err(ignore::Error::Glob { err, .. }) => Some(format!("it is no pattern: {err}")),
        Err(error) => Some(format!("it is no pattern: {error}")),
    }
}

/// Says whether a character class has no end.
fn is_unclosed(pattern: &str) -> bool {
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => {
                chars.next_if(|c| matches!(c, '!' | '^'));
                // Directly after the opening, `]` is one of the class.
                chars.next_if_eq(&']');
                if !chars.any(|c| c == ']') {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_reads_is_a_pattern_and_what_it_would_skip_or_cannot_read_is_none() {
        for good in [
            "tests/**",
            "/conftest.py",
            "!a/b",
            "*.[jt]s",
            "\\#x",
            "a b",
            "tests/[id]/x",
            "[]a]",
            "\\[x",
        ] {
            assert_eq!(gitignore_problem(good), None, "{good}");
        }
        for (bad, why) in [
            ("[z-a]", "it is no pattern: invalid range"),
            ("a/[", "a `[` is not closed"),
            ("a/[]", "a `[` is not closed"),
            ("[a]/[!b", "a `[` is not closed"),
            ("{a,b", "it is no pattern: unclosed alternate"),
            ("# tests", "a comment"),
            ("a/../b", "`..`"),
            ("a\tb", "a control character"),
        ] {
            let said = gitignore_problem(bad).unwrap_or_default();
            assert!(said.contains(why), "{bad}: {said}");
        }
        assert!(gitignore_problem(&"x".repeat(MAX + 1)).is_some());
    }

    #[test]
    fn a_glob_stays_below_the_top_of_the_tree() {
        for good in ["cov.xml", "./target/**/*.info", "#x", "a/{b,c}.xml"] {
            assert_eq!(glob_problem(good), None, "{good}");
        }
        for bad in ["/tmp/cov.xml", "~/cov.xml", "!cov.xml", "../cov.xml", "a/[.xml"] {
            assert!(glob_problem(bad).is_some(), "{bad}");
        }
    }
}
