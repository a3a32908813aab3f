//! Which options of pytest and coverage.py decide what a test's result is.

use super::walk::{Rule, Weight, entries, grows, rises, text_of, turns_on};
use serde_json::Value;

/// Judges one option of pytest; `path` begins with the option.
pub(super) fn option(path: &[&str]) -> Rule {
    match path {
        ["markers" | "pythonpath"] => Rule::Grows,
        ["addopts"] => Rule::Judge(addopts),
        ["xfail_strict" | "strict_markers" | "strict_config" | "strict"] => Rule::Judge(turns_on),
        // Without them a test that is a coroutine runs no line.
        ["asyncio_mode" | "asyncio_default_fixture_loop_scope" | "minversion"] => Rule::Adds,
        ["console_output_style" | "cache_dir" | "tmp_path_retention_count"] => Rule::Notes,
        [name] if name.starts_with("log_") || name.starts_with("junit_") => Rule::Notes,
        _ => Rule::Into,
    }
}

/// Options that only change what is printed, or make more an error.
const HARMLESS: &[&str] =
    &["--strict", "--tb", "--durations", "--color", "--showlocals", "--verbose"];

/// What was given stays in its order; what comes only changes what is printed.
fn addopts(before: Option<&Value>, after: Option<&Value>) -> Weight {
    let words = |value: Option<&Value>| -> Vec<String> {
        let lines = entries(value);
        lines.iter().flat_map(|line| line.split_whitespace().map(str::to_owned)).collect()
    };
    let (before, after) = (words(before), words(after));
    if before == after {
        return Weight::Allowed;
    }
    let mut kept = before.iter().peekable();
    for word in &after {
        if kept.next_if(|next| *next == word).is_some() {
            continue;
        }
        let printed = word.strip_prefix('-').is_some_and(|flags| {
            flags.starts_with('r') && flags.chars().all(char::is_alphabetic)
                || flags.chars().all(|c| matches!(c, 'v' | 'q' | 'l')) && !flags.is_empty()
        });
        if !printed && !HARMLESS.iter().any(|start| word.starts_with(start)) {
            return Weight::Breach;
        }
    }
    if kept.next().is_none() { Weight::Allowed } else { Weight::Breach }
}

/// Judges one option of coverage.py; `path` is its section and its name.
pub(super) fn coverage(path: &[&str]) -> Rule {
    match path {
        ["html" | "xml" | "json" | "lcov", ..] => Rule::Notes,
        ["report", "fail_under"] => Rule::Judge(rises),
        ["report", "show_missing" | "skip_covered" | "skip_empty" | "sort" | "format"] => {
            Rule::Notes
        }
        ["run", "branch"] => Rule::Judge(turns_on),
        ["run", "source" | "source_pkgs"] => {
            Rule::Judge(
                |before, after| {
                    if before.is_none() { Weight::Breach } else { grows(before, after) }
                },
            )
        }
        ["report", "omit" | "exclude_lines" | "exclude_also" | "partial_branches"]
        | ["run", "omit"] => Rule::Judge(shrinks),
        _ => Rule::Into,
    }
}

/// A list of what is left out may only become shorter.
fn shrinks(before: Option<&Value>, after: Option<&Value>) -> Weight {
    // coverage.py replaces its own exclusions by these, so the first and the last differ in kind.
    if before.is_none() || after.is_none_or(|after| text_of(after).is_empty()) {
        return if before.is_some() { Weight::Allowed } else { Weight::Breach };
    }
    grows(after, before)
}
