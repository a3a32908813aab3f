//! Text for people: hostile bytes made harmless, tables with straight columns.

/// Returns the text without control characters, so that nothing in it moves a cursor, colours a
/// terminal or starts a workflow command on a line of its own.
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            c if c.is_control() || is_invisible(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Returns the text on one line, at most `most` characters long.
pub fn one_line(text: &str, most: usize) -> String {
    let flat = clean(text).replace(['\n', '\t'], " ");
    if flat.chars().count() <= most {
        return flat;
    }
    let cut: String = flat.chars().take(most.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Returns a count with its noun, which takes an `s` unless it is one.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Characters that change how the text around them reads (bidirectional controls, zero width).
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Returns rows as a table with straight columns, two spaces between them.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(cell);
            let pad = widths[column] - cell.chars().count() + 2;
            line.extend(std::iter::repeat_n(' ', pad));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Returns a time in milliseconds the way people say it.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_a_cursor_gets_through() {
        assert_eq!(clean("a\x1b[2Jb\r\nc\u{202e}d"), "a\u{fffd}[2Jb\u{fffd}\nc\u{fffd}d");
        assert_eq!(one_line("a\nb", 10), "a b");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }

    #[test]
    fn one_of_a_thing_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| count(n, "file")), ["0 files", "1 file", "2 files"]);
    }

    #[test]
    fn columns_are_straight() {
        let rows = vec![vec!["a".into(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(table(&rows), "a     b\nlong  c\n");
    }

    #[test]
    fn durations_read_like_speech() {
        assert_eq!(duration(12), "12 ms");
        assert_eq!(duration(1_250), "1.2 s");
        assert_eq!(duration(61_000), "1 min 1 s");
        assert_eq!(duration(3_660_000), "1 h 1 min");
    }
}
