//! Workflow commands: annotations, groups, masks, and the fence round foreign output.
//!
//! The runner reads every line of both streams: it is a command when it starts with `::` behind
//! blanks, or when `##[name` stands anywhere in it (`ActionCommand.cs` and `ActionCommandManager.cs`
//! of actions/runner). stdout and stderr are read side by side, so what must keep its order (a
//! fence, what is in it, what comes after it) goes to one of the two.

use crate::ci::finding::{Finding, Level, MESSAGE_CHARS, MORE, bounded};
use crate::domain::normalise::strip_ansi;
use crate::report::text::{clean, one_line};

/// Annotations of one level that one step may leave; the runner drops the rest without a word
/// (`_maxCountPerIssueType` in `ExecutionContext.cs`).
pub const PER_LEVEL: usize = 10;
/// Characters of an annotation's title (GitHub's API description, `annotations.title`).
pub const TITLE_CHARS: usize = 255;
/// Characters of the shortest value that is masked: a mask of less blots out half of the log, and
/// the runner skips every output of a job that holds a masked text.
pub const MASKED_CHARS: usize = 4;

/// Escapes what stands behind the second `::` of a command.
pub fn escape_data(text: &str) -> String {
    // `%` first: the runner puts it back last.
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property of a command.
pub fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Returns the command, on one line, that makes an annotation of a finding.
///
/// Control characters and terminal escapes are gone; message and title are cut where the platform
/// would cut them.
pub fn annotation(finding: &Finding) -> String {
    let name = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let mut properties = Vec::new();
    let title = one_line(&strip_ansi(&finding.title), TITLE_CHARS);
    let title = bounded(harmless(&title).trim(), TITLE_CHARS);
    // The runner drops empty properties, and takes `=` at the head of a value away.
    match title.chars().next() {
        None => {}
        Some('=') => properties.push(format!("title= {}", escape_property(&title))),
        Some(_) => properties.push(format!("title={}", escape_property(&title))),
    }
    if let Some(file) = finding.file.as_deref().filter(|file| can_be_told(file)) {
        properties.push(format!("file={}", escape_property(file)));
        if let Some(line) = finding.line {
            properties.push(format!("line={line}"));
        }
    }
    let space = if properties.is_empty() { "" } else { " " };
    let message = harmless(strip_ansi(&finding.message).trim());
    let message = escape_data(&bounded(&message, MESSAGE_CHARS));
    format!("::{name}{space}{}::{message}", properties.join(","))
}

/// Tells whether a file comes through the runner as it is: it would take these for other files.
fn can_be_told(file: &str) -> bool {
    !file.is_empty() && !file.starts_with('=') && file.trim_end() == file
}

/// Returns the findings that one step can show, in their order: of each level all where it has
/// room for them, else the first ones and one that counts the others.
///
/// Warnings of our own that are printed as annotations use the same room: put them in before.
pub fn select(findings: &[Finding]) -> Vec<Finding> {
    let mut shown = Vec::new();
    let mut more = Vec::new();
    for level in [Level::Error, Level::Warning, Level::Notice] {
        let all: Vec<usize> =
            (0..findings.len()).filter(|at| findings[*at].level == level).collect();
        if all.len() <= PER_LEVEL {
            shown.extend(all);
            continue;
        }
        let left_out = all.len() - (PER_LEVEL - 1);
        shown.extend(&all[..PER_LEVEL - 1]);
        let title = format!("{left_out} more");
        let message = format!("{left_out} more, see the summary of the job and the receipt.");
        more.push(Finding::new(level, MORE, &title, &message));
    }
    shown.sort_unstable();
    shown.into_iter().map(|at| findings[at].clone()).chain(more).collect()
}

/// Returns the command that opens a group of lines in the log.
pub fn group(title: &str) -> String {
    let title = harmless(&one_line(&strip_ansi(title), TITLE_CHARS));
    format!("::group::{}", escape_data(title.trim()))
}

/// Returns the command that closes the open group.
pub const fn endgroup() -> &'static str {
    "::endgroup::"
}

/// Returns the commands that mask a secret value: its lines, and the whole where that is more.
///
/// Nothing for a value that is too short to be one. The runner also masks each line of a value it
/// is given, so that a value with a short line (`{`) is masked by its longer lines alone. Never
/// printed inside a fence: there it would be text, and in the log.
pub fn mask(value: &str) -> Vec<String> {
    let is_long = |line: &str| line.trim().chars().count() >= MASKED_CHARS;
    let lines = || value.split(['\r', '\n']).filter(|line| !line.is_empty());
    let mut values: Vec<&str> = Vec::new();
    if lines().all(is_long) {
        values.push(value);
    }
    for line in lines().filter(|line| is_long(line)) {
        for form in [line, line.trim()] {
            if !values.contains(&form) {
                values.push(form);
            }
        }
    }
    values.retain(|value| is_long(value));
    values.iter().map(|value| format!("::add-mask::{}", escape_data(value))).collect()
}

/// A fence: between its two lines the runner takes nothing for a command.
///
/// One fence is used for one piece of foreign output, so that nothing that was printed can have
/// seen its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    token: String,
}

impl Fence {
    /// Makes a fence that nobody can guess.
    pub fn fresh() -> Self {
        Self { token: token() }
    }

    /// Returns the line that opens it.
    pub fn open_line(&self) -> String {
        format!("::stop-commands::{}", self.token)
    }

    /// Returns the line that closes it; it must start a line.
    pub fn close_line(&self) -> String {
        format!("::{}::", self.token)
    }

    /// Returns foreign output with the fence round it, every line ended.
    pub fn around(&self, output: &str) -> String {
        let end = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
        format!("{}\n{output}{end}{}\n", self.open_line(), self.close_line())
    }
}

/// Returns text of ours that may quote foreign text, so that no line of it is a command: for every
/// line on GitHub that stands in no fence.
///
/// `##[` becomes `# #[`, and `::` at the start of a line `: :`. Control characters become `\u{fffd}`,
/// so that there are no other lines than those that end in `\n`.
pub fn harmless(text: &str) -> String {
    let text = clean(text).replace("##[", "# #[");
    text.split('\n').map(without_head).collect::<Vec<_>>().join("\n")
}

/// Parts the two colons that a line starts with.
///
/// Whatever is not printable ASCII counts as a blank: which characters the runner's comparison
/// skips depends on its culture.
fn without_head(line: &str) -> String {
    let is_blank = |c: &char| !c.is_ascii_graphic();
    let mut colons = line.char_indices().filter(|(_, c)| !is_blank(c)).take(2);
    if let (Some((first, ':')), Some((second, ':'))) = (colons.next(), colons.next()) {
        if !line[first..second].contains(' ') {
            return format!("{} {}", &line[..=first], &line[second..]);
        }
    }
    line.to_owned()
}

/// Returns 128 fresh random bits as hexadecimal digits.
pub(super) fn token() -> String {
    // A ULID's time can be guessed; its 80 other bits come from a generator made for secrets.
    let half = || ulid::Ulid::generate().random() & u128::from(u64::MAX);
    format!("{:016x}{:016x}", half(), half())
}
