//! Hostile text made fit for reports: no control character, one kind of line end, bounded.
//!
//! What a format itself gives a meaning to is escaped in its own file.

use crate::report::text::clean;

/// Returns the text without control and invisible characters and without the two that XML forbids,
/// with `\n` as its only line end, at most `most` characters long.
pub fn text(text: &str, most: usize) -> String {
    let mut all = clean(&text.replace("\r\n", "\n").replace('\r', "\n"))
        .chars()
        .map(|c| if matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c })
        .collect::<String>();
    if let Some((at, _)) = all.char_indices().nth(most) {
        let keep = all.char_indices().nth(most.saturating_sub(1)).map_or(at, |(at, _)| at);
        all.truncate(keep);
        all.push('…');
    }
    all
}

/// Returns the same on one line.
pub fn line(words: &str, most: usize) -> String {
    text(&words.trim().replace(['\n', '\r', '\t', '\u{2028}', '\u{2029}', '\u{85}'], " "), most)
}

/// Returns a title and a message as one text that does not say the same twice.
pub fn both(title: &str, message: &str, most: usize) -> String {
    let (title, message) = (title.trim(), message.trim());
    match (title.is_empty(), message.is_empty()) {
        (true, _) => text(message, most),
        (_, true) => text(title, most),
        _ if message.starts_with(title) => text(message, most),
        _ => text(&format!("{title}\n{message}"), most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_text_is_left() {
        assert_eq!(text("a\x1b[1m\r\nb\rc\u{ffff}\0", 99), "a\u{fffd}[1m\nb\nc\u{fffd}\u{fffd}");
        assert_eq!(text("äöü", 3), "äöü");
        assert_eq!(text("äöüß", 3), "äö…");
        assert_eq!(line(" a\nb\u{2028}c ", 9), "a b c");
        assert_eq!(both("t", "t: more", 99), "t: more");
        assert_eq!(both("t", "m", 99), "t\nm");
        assert_eq!(both("t", "", 99), "t");
    }
}
