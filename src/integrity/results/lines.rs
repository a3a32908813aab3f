//! Cuts a byte stream into lines of bounded length, whatever is printed.

/// The most bytes of a line that are kept; the rest up to the newline is dropped.
pub(super) const MAX_LINE: usize = 16 << 10;

/// A splitter that holds at most one bounded line.
#[derive(Debug)]
pub(super) struct Lines {
    held: Vec<u8>,
    most: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with_limit(MAX_LINE)
    }
}

impl Lines {
    /// Makes a splitter that keeps at most `most` bytes of a line.
    pub(super) fn with_limit(most: usize) -> Self {
        Self { held: Vec::new(), most }
    }

    /// Takes the next bytes and hands every finished line, without its end, to `each`.
    pub(super) fn push(&mut self, mut chunk: &[u8], each: &mut dyn FnMut(&str)) {
        while let Some(at) = chunk.iter().position(|b| *b == b'\n') {
            let (line, rest) = chunk.split_at(at);
            if self.held.is_empty() && line.len() <= self.most {
                emit(line, each);
            } else {
                self.hold(line);
                emit(&self.held, each);
                self.held.clear();
            }
            chunk = &rest[1..];
        }
        self.hold(chunk);
    }

    /// Hands over what stands after the last newline.
    pub(super) fn finish(&mut self, each: &mut dyn FnMut(&str)) {
        if !self.held.is_empty() {
            emit(&self.held, each);
            self.held.clear();
        }
    }

    fn hold(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.held.len());
        self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Feeds a whole text to `each`, line by line.
pub(super) fn each_line(text: &[u8], each: &mut dyn FnMut(&str)) {
    let mut lines = Lines::default();
    lines.push(text, each);
    lines.finish(each);
}

fn emit(line: &[u8], each: &mut dyn FnMut(&str)) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // A progress bar overwrites its line: what counts is what stands last.
    let line = line.rsplit(|b| *b == b'\r').next().unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    if text.contains('\u{1b}') {
        each(&crate::domain::normalise::strip_ansi(&text));
    } else {
        each(&text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_any_cut_and_stay_bounded() {
        let text = b"one\r\ntwo \xff\n\x1b[31mred\x1b[0m\n50%\r100%\nlast";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut seen = Vec::new();
            for chunk in text.chunks(size) {
                lines.push(chunk, &mut |line| seen.push(line.to_owned()));
            }
            lines.finish(&mut |line| seen.push(line.to_owned()));
            assert_eq!(seen, ["one", "two \u{fffd}", "red", "100%", "last"]);
        }
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.push(&[b'x'; 1 << 16], &mut |_| panic!("no line ended"));
        }
        assert!(lines.held.capacity() <= 2 * MAX_LINE);
    }
}
