//! Relative paths as bytes, and the lossless text they are shown and recorded as.
//!
//! A path of a repository is any run of bytes without NUL; JSON and terminals take text alone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the bytes as text that tells every path apart: valid UTF-8 stays as it is, a backslash
/// is doubled, and control characters and stray bytes become `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\\' {
                text.push_str("\\\\");
            } else if character.is_control() || is_invisible(character) {
                let mut buffer = [0; 4];
                push_hex(&mut text, character.encode_utf8(&mut buffer).as_bytes());
            } else {
                text.push(character);
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

/// Returns the escaped path for a message: of one longer than 200 characters, which an agent can
/// make at will, the middle is left out.
pub fn shown(bytes: &[u8]) -> String {
    const KEPT: usize = 98;
    let text = escape(bytes);
    let ends = text.char_indices().nth(KEPT).zip(text.char_indices().nth_back(KEPT - 1));
    match ends {
        Some(((head, _), (tail, _))) if text.chars().count() > 2 * KEPT + 4 => {
            format!("{}…{}", &text[..head], &text[tail..])
        }
        _ => text,
    }
}

/// Returns the bytes that [`escape`] was given, or nothing where the text is not of its making.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = after;
            continue;
        }
        match after {
            [b'\\', tail @ ..] => {
                bytes.push(b'\\');
                rest = tail;
            }
            [b'x', high, low, tail @ ..] => {
                let digit = |d: &u8| char::from(*d).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = tail;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// Returns `folder/name`, or the name alone at the root.
pub fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(folder.len() + name.len() + 1);
    path.extend_from_slice(folder);
    if !folder.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Returns the folder a relative path stands in, empty at the root.
pub fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}

/// Returns the last part of a relative path.
pub fn name(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(path, |at| &path[at + 1..])
}

/// Returns the bytes as a path of the file system.
pub fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Returns the bytes of a path of the file system.
pub fn as_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Characters that reorder or hide text around them on a terminal or a page.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push_str("\\x");
        text.push_str(&crate::domain::hex::encode(&[*byte]));
    }
}

/// Returns a path as a pattern in gitignore syntax: what is read specially there is escaped.
pub fn pattern(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_is_shown_by_its_ends() {
        assert_eq!(shown(b"a/b\n"), "a/b\\x0a");
        assert_eq!(shown(&[b'x'; 200]), "x".repeat(200));
        let long = ["start/", &"é/".repeat(2000), "end"].concat();
        let text = shown(long.as_bytes());
        assert_eq!(text.chars().count(), 197);
        assert!(text.starts_with("start/é") && text.ends_with("é/end"), "{text}");
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (1..=255).collect();
        assert_eq!(unescape(&escape(&all)).unwrap(), all);
        for path in ["a\\x41", "ü b", "\u{202e}txt", "\\", "\\\\x"] {
            assert_eq!(unescape(&escape(path.as_bytes())).unwrap(), path.as_bytes());
        }
        assert_eq!(escape(b"a\nb\xff\\"), "a\\x0ab\\xff\\\\");
        assert!(unescape("\\q").is_none() && unescape("\\x4").is_none());
    }
}
