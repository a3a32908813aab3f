//! Calls of `buildkite-agent`: an annotation on the build's page, files as artifacts.
//!
//! Starting it is the wiring's. A step's `soft_fail: [{exit_status: 17}]` lets a build go on after a
//! halt, by the number of its exit class.

use super::super::formats::{identity, legal};
use super::super::platform::Platform;
use super::{inert, result_line};
use crate::ci::subject::Subject;
use crate::domain::reason::HaltReason;
use std::path::PathBuf;

/// The most bytes of an annotation's body.
pub const MAX_BODY: usize = 1 << 20;

/// A program to start, without a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program and its arguments; no text from outside stands in them.
    pub argv: Vec<String>,
    /// What it reads from standard input.
    pub stdin: String,
}

/// Returns the headline under which the log goes on, open so that it is seen.
pub fn lines(subject: &Subject) -> Vec<String> {
    vec![format!("+++ {}", inert::inert(Platform::Buildkite, &result_line(subject)))]
}

/// Returns the call that shows Markdown on the build's page; the same loop of the same job writes
/// over what it showed before.
pub fn annotate(subject: &Subject, markdown: &str) -> Invocation {
    let converged = HaltReason::SuccessConditionMet;
    let style = match &subject.halt {
        _ if subject.fails => "error",
        Some(halt) if halt.reason == converged => "success",
        Some(_) => "warning",
        None => "info",
    };
    let context = format!("loopexec-{}", identity::key_digest(&subject.key));
    let argv = ["buildkite-agent", "annotate", "--style", style, "--context", &context];
    Invocation { argv: argv.map(str::to_owned).into(), stdin: cut(markdown) }
}

/// Returns the call that keeps the files as artifacts; none where no path can be named.
pub fn upload(files: &[PathBuf]) -> Option<Invocation> {
    let plain = |path: &PathBuf| {
        let path = path.to_str()?;
        // The argument is a list of patterns.
        let special = path.contains([';', '*', '?', '[', ']', '{', '}', '\\']);
        let good = !special && path.starts_with('/') && legal::line(path, usize::MAX) == path;
        good.then(|| path.to_owned())
    };
    let paths: Vec<String> = files.iter().filter_map(plain).collect();
    if paths.is_empty() {
        return None;
    }
    let argv = ["buildkite-agent", "artifact", "upload"].map(str::to_owned);
    let argv = argv.into_iter().chain([paths.join(";")]).collect();
    Some(Invocation { argv, stdin: String::new() })
}

/// Cuts a body that is too long at the end of a line.
fn cut(markdown: &str) -> String {
    const MORE: &str = "\n\n(cut: see the artifacts)\n";
    if markdown.len() <= MAX_BODY {
        return markdown.to_owned();
    }
    let most = markdown.floor_char_boundary(MAX_BODY - MORE.len());
    let end = markdown[..most].rfind('\n').unwrap_or(most);
    format!("{}{MORE}", &markdown[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_cut_at_the_end_of_a_line() {
        let long = "ä line\n".repeat(MAX_BODY / 4);
        let body = cut(&long);
        assert!(body.len() <= MAX_BODY);
        assert!(body.ends_with("ä line\n\n(cut: see the artifacts)\n"));
        assert_eq!(cut("short"), "short");
    }

    #[test]
    fn a_path_that_is_a_pattern_is_not_uploaded() {
        let files = ["/w/a.xml", "/w/*.xml", "/w/b;/etc/passwd", "rel"].map(PathBuf::from);
        let call = upload(&files).unwrap();
        assert_eq!(call.argv, ["buildkite-agent", "artifact", "upload", "/w/a.xml"]);
        assert_eq!(upload(&files[1..]), None);
    }
}
