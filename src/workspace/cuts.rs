//! Cuts a text to a weight: its end, or its head and its end.
//!
//! What goes into a context, and where, is decided in `context`.

use super::hostile::Weight;

/// Returns how many bytes of the characters fit into a weight.
fn take(chars: &mut dyn Iterator<Item = char>, room: Weight) -> usize {
    let mut taken = 0;
    let mut weight = Weight::default();
    for c in chars {
        weight = weight.plus(Weight::of(c.encode_utf8(&mut [0; 4])));
        if weight > room {
            break;
        }
        taken += c.len_utf8();
    }
    taken
}

/// Returns the end of a text within a weight; none when not even that is worth it.
pub(super) fn cut_to_end(text: &str, limit: Weight) -> Option<String> {
    const MARK: &str = "[cut]\n";
    let room = limit.minus(Weight::of(MARK));
    if room < Weight::from_tokens(12) {
        return None;
    }
    let tail = &text[text.len() - take(&mut text.chars().rev(), room)..];
    // Whole lines read better, where that costs less than half.
    let tail = match tail.find('\n') {
        Some(at) if at < tail.len() / 2 => &tail[at + 1..],
        _ => tail,
    };
    Some(format!("{MARK}{tail}"))
}

/// Returns the head and the tail of a text within a weight; none when not even that is worth it.
pub(super) fn cut(text: &str, limit: Weight) -> Option<String> {
    const MARK: &str = "\n[cut]\n";
    let room = limit.minus(Weight::of(MARK));
    if room < Weight::from_tokens(12) {
        return None;
    }
    let head = take(&mut text.chars(), room.share(2, 3));
    let tail = take(&mut text[head..].chars().rev(), room.share(1, 3));
    let (head, tail) = (&text[..head], &text[text.len() - tail..]);
    // Whole lines read better, where that costs less than half.
    let head = match head.rfind('\n') {
        Some(at) if at > head.len() / 2 => &head[..at],
        _ => head,
    };
    let tail = match tail.find('\n') {
        Some(at) if at < tail.len() / 2 => &tail[at + 1..],
        _ => tail,
    };
    Some(format!("{head}{MARK}{tail}"))
}
