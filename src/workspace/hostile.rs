//! Text from agents, checks and repositories made harmless for a context: cleaned, fenced, weighed.
//!
//! Pure. What a context says is the duty of `context`.

use std::fmt::Write;

/// A weight in sixths of a token; sums of parts are exact.
///
/// No tokenizer of a provider is at hand, so the estimate has to be safe for all: a byte of English
/// or code counts a third of a token (common tokenizers take 3 to 4.5 bytes a token there), a digit
/// half of one (they cut numbers and digests every one to three digits), a character of two, three or
/// four bytes one, two or three tokens (they cut rare scripts and emoji by bytes).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u64);

impl Weight {
    /// Weighs a text.
    pub fn of(text: &str) -> Self {
        Self(text.chars().map(Self::of_char).sum())
    }

    fn of_char(c: char) -> u64 {
        match c.len_utf8() {
            1 if c.is_ascii_digit() => 3,
            1 => 2,
            bytes => (bytes as u64 - 1) * 6,
        }
    }

    /// Returns the weight of a number of tokens.
    pub const fn from_tokens(tokens: u64) -> Self {
        Self(tokens.saturating_mul(6))
    }

    /// Returns the tokens, rounded up.
    pub const fn tokens(self) -> u64 {
        self.0.div_ceil(6)
    }

    /// Returns the sum.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns what is left of it without the other, at least nothing.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns a share of it.
    pub const fn share(self, of: u64, parts: u64) -> Self {
        Self(self.0.saturating_mul(of) / parts)
    }
}

/// Returns the text without what could act on a reader's terminal or hide from its eyes.
///
/// Terminal sequences (CSI, OSC and their kin), control characters but newline and tab, direction
/// overrides, zero-width and tag characters are removed; line ends become newlines; bytes that are no
/// UTF-8 become U+FFFD.
pub fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_parameters(&mut chars),
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\n' | '\t' => out.push(c),
            _ if c.is_control() || is_invisible(c) => {}
            _ => out.push(c),
        }
    }
    out
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips a terminal sequence after its ESC (ECMA-48 5.3 to 5.6).
fn skip_sequence(chars: &mut Chars<'_>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_parameters(chars);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            // To BEL or ESC \; a sequence without an end hides at most its line.
            while let Some(&c) = chars.peek() {
                if c == '\n' {
                    return;
                }
                chars.next();
                if c == '\u{7}' || c == '\u{9c}' {
                    return;
                }
                if c == '\u{1b}' {
                    if chars.peek() == Some(&'\\') {
                        chars.next();
                    }
                    return;
                }
            }
        }
        Some(' '..='~') => {
            while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            chars.next_if(|c| matches!(c, '0'..='~'));
        }
        _ => {}
    }
}

fn skip_parameters(chars: &mut Chars<'_>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns the text on one line, cleaned and cut after `limit` characters.
pub fn clean_line(text: &str, limit: usize) -> String {
    let clean = clean(text.as_bytes());
    let mut line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = line.char_indices().nth(limit) {
        line.truncate(at);
        line.push('…');
    }
    line
}

/// Returns the text as inline code that it cannot leave.
pub fn code(text: &str) -> String {
    let line = clean_line(text, 300);
    let ticks = "`".repeat(longest_ticks(&line) + 1);
    // CommonMark 6.1: one space on each side is not part of the code.
    let space = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{ticks}{space}{line}{space}{ticks}")
}

/// Returns the text as a fenced block that it cannot leave, labelled as what it is.
pub fn fenced(label: &str, language: &str, text: &str) -> String {
    let fence = "`".repeat((longest_ticks(text) + 1).max(3));
    let mut block = String::with_capacity(text.len() + 64);
    if !label.is_empty() {
        let _ = writeln!(block, "{label}\n");
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(block, "{fence}{language}\n{text}{end}{fence}\n");
    block
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Replaces absolute paths below known folders by what they are in the workspace.
///
/// Each pair is a folder and what stands for it, empty for the workspace itself. A folder counts only
/// as whole components: `/w/a` is not found in `/w/ab` nor in `/x/w/a`.
pub fn map_paths(text: &str, map: &[(String, String)]) -> String {
    let mut pairs: Vec<(&str, &str)> = map
        .iter()
        .map(|(from, to)| (from.trim_end_matches('/'), to.trim_end_matches('/')))
        .collect();
    pairs.retain(|(from, _)| !from.is_empty());
    pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
    let mut out = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let inside = before.is_some_and(is_name);
        let found = pairs.iter().filter(|_| !inside).find_map(|(from, to)| {
            let after = rest.strip_prefix(from)?;
            let next = after.chars().next();
            (!next.is_some_and(is_name) || next == Some('/')).then_some((*to, after))
        });
        if let Some((to, after)) = found {
            match after.strip_prefix('/') {
                Some(below) if to.is_empty() && below.chars().next().is_some_and(is_name) => {
                    rest = below;
                }
                _ => {
                    out.push_str(if to.is_empty() { "." } else { to });
                    rest = after;
                }
            }
            before = Some('/');
        } else {
            out.push(c);
            before = Some(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_cleaned() {
        let text = b"a\x1b[31mred\x1b[0m\x1b]0;title\x07b\r\nc\x00\x08d\xffe\x1b(B\xe2\x80\xae!\rf";
        assert_eq!(clean(text), "aredb\ncd\u{fffd}e!\nf");
        assert_eq!(clean("\u{1b}]never ends\nnext".as_bytes()), "\nnext");
        assert_eq!(clean_line("a\n ## b\tc", 100), "a ## b c");
        assert_eq!(clean_line("abcdef", 3), "abc…");
    }

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        let block = fenced("", "", "x\n````\ninside\n");
        assert_eq!(block, "`````\nx\n````\ninside\n`````\n");
        assert_eq!(code("a`b"), "``a`b``");
        assert_eq!(code("`"), "`` ` ``");
    }

    #[test]
    fn whole_components_are_mapped() {
        let map = [("/w/a".into(), String::new()), ("/usr/x".into(), "~".into())];
        assert_eq!(
            map_paths("/w/a/src/f.py:3 /w/ab /x/w/a/f (/w/a) /usr/x/.c file:///w/a/q", &map),
            "src/f.py:3 /w/ab /x/w/a/f (.) ~/.c file:///w/a/q"
        );
    }

    #[test]
    fn weights_add_up() {
        let text = "fn main() { 12345 } é 漢 😀\n";
        let (a, b) = text.split_at(7);
        assert_eq!(Weight::of(text), Weight::of(a).plus(Weight::of(b)));
        assert!(Weight::of(text).tokens() >= text.len() as u64 / 3);
        assert_eq!(Weight::of("abcd").tokens(), 2);
    }
}
