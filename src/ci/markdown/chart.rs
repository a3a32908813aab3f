//! How a number went, as a small picture of text that any log and any Markdown shows.

/// Columns at the most.
const COLUMNS: usize = 60;
/// Lines of the picture.
const ROWS: usize = 4;
/// What fills an eighth of a cell, two eighths, and so on.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns a picture of a course of numbers, from the start on; `None` is a step where nothing was
/// measured. Empty where nothing was measured at all.
///
/// A long course is sampled: each column shows the last known number of its steps, the first column
/// the first step and the last one the last.
pub fn course(values: &[Option<usize>]) -> String {
    let columns = sample(values);
    let Some(highest) = columns.iter().flatten().copied().max() else { return String::new() };
    let width = highest.to_string().len();
    // A short course has broad bars, so that the numbers under it stand apart.
    let broad = if columns.len() <= COLUMNS / 2 { 2 } else { 1 };
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let label = match row {
            row if row == ROWS - 1 => highest.to_string(),
            0 => "0".to_owned(),
            _ => String::new(),
        };
        let bars = columns.iter().map(|value| fill(*value, highest, row));
        let bars: String = bars.flat_map(|bar| std::iter::repeat_n(bar, broad)).collect();
        text.push_str(format!("{label:>width$} │{bars}").trim_end());
        text.push('\n');
    }
    let last = values.len().saturating_sub(1).to_string();
    let line = "─".repeat(columns.len() * broad);
    text.push_str(&format!("{:>width$} └{line}\n", ""));
    let gap = (columns.len() * broad).saturating_sub(last.len() + 1);
    match columns.len() {
        1 => text.push_str(&format!("{:>width$}  0\n", "")),
        _ => text.push_str(&format!("{:>width$}  0{}{last}\n", "", " ".repeat(gap))),
    }
    text
}

/// Returns at most [`COLUMNS`] of the values.
fn sample(values: &[Option<usize>]) -> Vec<Option<usize>> {
    if values.len() <= COLUMNS {
        return values.to_vec();
    }
    let steps = values.len() - 1;
    (0..COLUMNS)
        .map(|column| {
            let to = steps * column / (COLUMNS - 1);
            let from = if column == 0 { 0 } else { steps * (column - 1) / (COLUMNS - 1) + 1 };
            values[from.min(to)..=to].iter().rev().find_map(|value| *value)
        })
        .collect()
}

/// Returns what a column shows in a row, counted from below.
fn fill(value: Option<usize>, highest: usize, row: usize) -> char {
    let Some(value) = value else { return if row == 0 { '?' } else { ' ' } };
    let whole = EIGHTHS.len() * ROWS;
    // The least number above 0 is seen, and 0 is not.
    let eighths = (value * whole).div_ceil(highest.max(1));
    match eighths.saturating_sub(row * EIGHTHS.len()) {
        0 => ' ',
        above => EIGHTHS[above.min(EIGHTHS.len()) - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_of_any_length_is_a_small_picture() {
        assert_eq!(course(&[]), "");
        assert_eq!(course(&[None, None]), "");
        assert_eq!(
            course(&[Some(4), None, Some(1), Some(0)]),
            "4 │██\n  │██\n  │██\n0 │██??██\n  └────────\n   0      3\n"
        );
        assert_eq!(course(&[Some(0)]), "0 │\n  │\n  │\n0 │\n  └──\n   0\n");
        for length in [1, 2, 59, 60, 61, 1_000, 5_001] {
            let values: Vec<Option<usize>> = (0..length).rev().map(Some).collect();
            let picture = course(&values);
            assert_eq!(picture.lines().count(), ROWS + 2, "{length}");
            assert!(picture.lines().all(|line| line.chars().count() <= COLUMNS + 8), "{picture}");
        }
    }

    #[test]
    fn the_ends_of_a_sample_are_those_of_the_course() {
        for length in [61, 62, 119, 5_001] {
            let values: Vec<Option<usize>> = (0..length).map(Some).collect();
            let columns = sample(&values);
            assert_eq!(columns.len(), COLUMNS);
            assert_eq!((columns[0], columns[COLUMNS - 1]), (Some(0), Some(length - 1)));
            assert!(columns.windows(2).all(|two| two[0] < two[1]), "{length}");
        }
    }

    #[test]
    fn the_least_number_is_seen_and_nothing_is_not() {
        assert_eq!(fill(Some(1), 1_000_000, 0), '▁');
        assert_eq!(fill(Some(0), 10, 0), ' ');
        assert_eq!(fill(Some(10), 10, ROWS - 1), '█');
        assert_eq!((fill(None, 10, 0), fill(None, 10, 1)), ('?', ' '));
    }
}
