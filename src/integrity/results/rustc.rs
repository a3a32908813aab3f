//! The first errors of a Rust build, out of cargo's talk.

/// The most errors that are kept.
const MAX_ERRORS: usize = 5;
/// The most lines of one error.
const MAX_LINES: usize = 14;
/// The most bytes of all errors.
const MAX_BYTES: usize = 4096;

/// The errors seen so far.
#[derive(Debug, Default)]
pub(super) struct Errors {
    text: String,
    count: usize,
    lines: usize,
    fatal: Option<String>,
}

impl Errors {
    /// Takes a line of cargo's talk.
    pub(super) fn line(&mut self, line: &str) {
        if is_fatal(line) {
            self.fatal.get_or_insert_with(|| line.to_owned());
            self.lines = 0;
            return;
        }
        if line.starts_with("error[") || line.starts_with("error: ") {
            self.count += 1;
            self.lines = if self.count <= MAX_ERRORS { MAX_LINES } else { 0 };
        } else if line.is_empty() || line.starts_with("warning") {
            self.lines = 0;
        }
        if self.lines > 0 && self.text.len() + line.len() < MAX_BYTES {
            self.lines -= 1;
            self.text.push_str(line);
            self.text.push('\n');
        }
    }

    /// Tells whether a build failed.
    pub(super) fn is_fatal(&self) -> bool {
        self.fatal.is_some()
    }

    /// Returns the errors of a build that failed.
    pub(super) fn message(&self) -> Option<String> {
        self.fatal.as_ref().map(|fatal| format!("{}{fatal}", self.text))
    }
}

fn is_fatal(line: &str) -> bool {
    [
        "error: could not compile ",
        "error: failed to parse manifest",
        "error: failed to run custom build command",
        "error: no test target named",
        "error: failed to load manifest",
        "error: failed to select a version",
        "error: could not find `Cargo.toml`",
    ]
    .iter()
    .any(|start| line.starts_with(start))
}
