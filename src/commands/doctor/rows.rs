//! One row of `doctor`'s table: what was looked at, how it stands, what to do.

use crate::error::Error;
use crate::report::text::{clean, one_line, table};
use serde::Serialize;

/// How a precondition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It holds.
    Pass,
    /// It does not, and the run would not start or could not be trusted.
    Fail,
    /// The run would start; someone should know.
    Warn,
    /// There is nothing to hold.
    NotApplicable,
}

impl Standing {
    const fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Warn => "warn",
            Self::NotApplicable => "not-applicable",
        }
    }
}

/// A precondition.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was looked at.
    pub name: &'static str,
    /// How it stands.
    pub standing: Standing,
    /// Why, in one sentence.
    pub reason: String,
    /// What to do, one line each.
    pub mend: Vec<String>,
}

impl Row {
    /// Makes a row without anything to do.
    pub fn new(name: &'static str, standing: Standing, reason: impl Into<String>) -> Self {
        Self { name, standing, reason: reason.into(), mend: Vec::new() }
    }

    /// Makes a row of what holds.
    pub fn pass(name: &'static str, reason: impl Into<String>) -> Self {
        Self::new(name, Standing::Pass, reason)
    }

    /// Makes a row of what someone should know.
    pub fn warn(name: &'static str, reason: impl Into<String>) -> Self {
        Self::new(name, Standing::Warn, reason)
    }

    /// Makes a row of what has nothing to hold.
    pub fn none(name: &'static str, reason: impl Into<String>) -> Self {
        Self::new(name, Standing::NotApplicable, reason)
    }

    /// Makes a row of an error.
    pub fn fail(name: &'static str, error: &Error) -> Self {
        let mut row = Self::new(name, Standing::Fail, error.to_string());
        row.mend.clone_from(&error.hints);
        row
    }

    /// Adds a line that says what to do.
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend.push(mend.into());
        self
    }
}

/// Returns the rows as people read them.
pub fn render(rows: &[Row]) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let mut reason = row.reason.lines();
        let first = reason.next().unwrap_or("");
        lines.push(vec![row.standing.word().to_owned(), row.name.to_owned(), one_line(first, 300)]);
        let more = reason.map(clean).chain(row.mend.iter().flat_map(|mend| {
            clean(mend).lines().map(|line| format!("→ {line}")).collect::<Vec<_>>()
        }));
        lines.extend(more.map(|line| vec![String::new(), String::new(), line]));
    }
    let count = |standing| rows.iter().filter(|row| row.standing == standing).count();
    let (fails, warns) = (count(Standing::Fail), count(Standing::Warn));
    let sum = match (fails, warns) {
        (0, 0) => "everything is in order".to_owned(),
        (0, warns) => format!("a run can start; {warns} to know about"),
        (fails, _) => format!("a run would not start, or could not be trusted: {fails} to mend"),
    };
    format!("{}\n{sum}\n", table(&lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn an_error_keeps_its_lines_and_hostile_text_does_no_harm() {
        let error =
            Error::new(Kind::ConfigInvalid, "loop.yml:1:1: bad\n  x: \x1b[2J\n  ^").hint("write y");
        let text = render(&[Row::fail("loop-file", &error), Row::pass("git", "git 2.45")]);
        assert!(text.starts_with("fail  loop-file  loop.yml:1:1: bad\n"), "{text}");
        assert!(text.contains("→ write y") && !text.contains('\x1b'), "{text}");
        assert!(text.ends_with("1 to mend\n"), "{text}");
    }
}
