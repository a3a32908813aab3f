//! Variables for later jobs, as GitLab's `artifacts:reports:dotenv` takes them.
//!
//! Its rules: at most 5 KB and (by default) 20 variables; keys of `[A-Za-z0-9_]`; no empty lines,
//! comments, quotes, spaces or line ends in values. Values come from enums, numbers, digests, ids and
//! plain paths alone; one that is none of these is left out, never mended.

use crate::ci::subject::Subject;
use crate::domain::reason::HaltReason;
use std::path::Path;

/// The most bytes of the file.
pub const MAX_BYTES: usize = 5 * 1024;
/// The most variables.
pub const MAX_VARIABLES: usize = 20;
/// The most bytes of a value; 20 of them stay within the file's limit.
const MAX_VALUE: usize = 200;

/// Returns the lines, each `KEY=value`.
pub fn dotenv(subject: &Subject) -> String {
    let mut text = String::new();
    for (key, value) in variables(subject) {
        text.push_str(key);
        text.push('=');
        text.push_str(&value);
        text.push('\n');
    }
    text
}

/// Returns the variables in their order; the platforms that set variables one by one use it too.
pub fn variables(subject: &Subject) -> Vec<(&'static str, String)> {
    let mut known: Vec<(&'static str, Option<String>)> = Vec::new();
    match &subject.halt {
        Some(halt) => {
            let converged = halt.reason == HaltReason::SuccessConditionMet;
            known.push(("LOOPEXEC_HALT_REASON", Some(halt.reason.to_string())));
            known.push(("LOOPEXEC_DETAIL", halt.detail.clone()));
            known.push(("LOOPEXEC_EXIT_CLASS", Some(halt.exit_class.to_owned())));
            known.push(("LOOPEXEC_EXIT_CODE", Some(halt.exit_code.to_string())));
            known.push(("LOOPEXEC_CONVERGED", Some(converged.to_string())));
        }
        None => known.push(("LOOPEXEC_CONVERGED", Some(false.to_string()))),
    }
    let patch = patch(subject);
    known.push(("LOOPEXEC_PROCESS_EXIT", Some(subject.process_exit.to_string())));
    known.push(("LOOPEXEC_CHANGED", Some(patch.is_some().to_string())));
    known.push(("LOOPEXEC_RUN_ID", Some(subject.run_id.clone())));
    if let Some(report) = &subject.report {
        known.push(("LOOPEXEC_ITERATIONS", Some(report.iterations.len().to_string())));
        known.push(("LOOPEXEC_LOOP_DIGEST", Some(report.loop_digest.clone())));
        known.push(("LOOPEXEC_SPENT_USD", report.spend.usd.clone()));
        known.push(("LOOPEXEC_RECEIPT", Some(report.receipt.clone())));
        known.push(("LOOPEXEC_HEAD", Some(report.head.clone())));
    }
    known.push(("LOOPEXEC_PATCH", patch));
    let plain = |(key, value): (&'static str, Option<String>)| Some((key, plain(&value?)?));
    known.into_iter().filter_map(plain).take(MAX_VARIABLES).collect()
}

/// Returns the patch, from the root of the tree, where there is one that changes something.
fn patch(subject: &Subject) -> Option<String> {
    let path = subject.run_dir.as_ref()?.join("patch.diff");
    let facts = std::fs::symlink_metadata(&path).ok()?;
    if !facts.is_file() || facts.len() == 0 {
        return None;
    }
    Some(relative(&path, &subject.root)?.to_owned())
}

fn relative<'a>(path: &'a Path, root: &Path) -> Option<&'a str> {
    path.strip_prefix(root).unwrap_or(path).to_str()
}

/// Returns a value that means the same to everyone who reads the line: letters, digits and a few
/// signs that no shell and no parser of such files gives a meaning to.
fn plain(value: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._/+:@-".contains(&byte);
    let good = !value.is_empty() && value.len() <= MAX_VALUE && value.bytes().all(fits);
    good.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_means_anything_to_a_reader_is_left_out() {
        for value in ["", "a b", "a\nB=c", "\"a\"", "$HOME", "#a", "a`b`", "ä", "a=b", "a\\b"] {
            assert_eq!(plain(value), None, "{value:?}");
        }
        assert_eq!(plain("liveness/drift").as_deref(), Some("liveness/drift"));
        assert_eq!(plain(&"a".repeat(MAX_VALUE + 1)), None);
    }

    #[test]
    fn as_many_of_the_longest_as_there_may_be_fit() {
        assert!(MAX_VARIABLES * ("LOOPEXEC_PROCESS_EXIT=\n".len() + MAX_VALUE) <= MAX_BYTES);
    }
}
