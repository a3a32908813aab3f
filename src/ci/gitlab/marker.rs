//! The first line of a note, which says whose it is and how new.

use super::job::is_sha;
use crate::ci::formats::identity::key_digest;
use crate::ci::subject::{Key, Turn};

/// The first line of a note, as a comment of HTML, which nobody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The digest of the key.
    pub key: String,
    /// The turn that wrote it.
    pub turn: Turn,
    /// The commit it is about, or `-`.
    pub head: String,
}

impl Marker {
    /// Makes the marker of a turn of a key.
    pub fn new(key: &Key, turn: Turn, head: &str) -> Self {
        let head = if is_sha(head) { head.to_ascii_lowercase() } else { "-".to_owned() };
        Self { key: key_digest(key), turn, head }
    }

    /// Returns the line, without its end.
    pub fn line(&self) -> String {
        let Self { key, turn: Turn { run, attempt }, head } = self;
        format!("<!-- loopexec:{key} run={run} attempt={attempt} head={head} -->")
    }

    /// Reads the first line of a body; none where it is not exactly what [`Self::line`] writes.
    pub fn read(body: &str) -> Option<Self> {
        let line = body.lines().next()?.trim_end();
        let inside = line.strip_prefix("<!-- loopexec:")?.strip_suffix(" -->")?;
        let mut parts = inside.split(' ');
        let key = parts.next()?.to_owned();
        let run = parts.next()?.strip_prefix("run=")?.parse().ok()?;
        let attempt = parts.next()?.strip_prefix("attempt=")?.parse().ok()?;
        let head = parts.next()?.strip_prefix("head=")?.to_owned();
        let marker = Self { key, turn: Turn { run, attempt }, head };
        (parts.next().is_none() && marker.line() == line).then_some(marker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_marker_comes_back(
            workflow in any::<String>(), name in any::<String>(), head in any::<String>(),
            run in any::<u64>(), attempt in any::<u64>(), rest in any::<String>(),
        ) {
            let key = Key { workflow, name, ..Key::default() };
            let marker = Marker::new(&key, Turn { run, attempt }, &head);
            let line = marker.line();
            prop_assert_eq!(line.matches("-->").count(), 1);
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(Marker::read(&format!("{line}\n{rest}")), Some(marker));
        }
    }

    #[test]
    fn what_is_not_a_marker_is_none() {
        for body in [
            "",
            "<!-- loopexec:a run=1 attempt=1 head=- --> <b>",
            "<!-- loopexec:a run=01 attempt=1 head=- -->",
            "text\n<!-- loopexec:a run=1 attempt=1 head=- -->",
            "<!-- loopexec:a run=1 attempt=1 head=- x=1 -->",
        ] {
            assert_eq!(Marker::read(body), None, "{body:?}");
        }
    }
}
