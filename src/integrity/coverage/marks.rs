//! Counts the comments and attributes that keep lines out of a coverage report: many reports leave no
//! trace of such lines.

/// What tools take for such a mark; lower case, blanks single.
const MARKS: [&str; 13] = [
    "pragma: no cover",
    "pragma: no branch",
    "istanbul ignore",
    "c8 ignore",
    "v8 ignore",
    "node:coverage ignore",
    "node:coverage disable",
    ":nocov:",
    "lcov_excl_",
    "gcov_excl_",
    "gcovr_excl_",
    "@codecoverageignore",
    "coverage(off)",
];

/// Returns how many marks a text holds.
pub fn exclusion_marks(text: &[u8]) -> usize {
    String::from_utf8_lossy(text)
        .lines()
        .map(|line| {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
            MARKS.iter().map(|mark| line.matches(mark).count()).sum::<usize>()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_several_tools_count_and_like_words_do_not() {
        let text = b"/* istanbul  ignore next */\nx = 1  # pragma: no cover\n// LCOV_EXCL_LINE\n#[coverage(off)]\n";
        assert_eq!(exclusion_marks(text), 4);
        assert_eq!(exclusion_marks(b"# ignore coverage\nlet istanbul = 1;\n"), 0);
    }
}
