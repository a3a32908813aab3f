//! What hurts: the halt reason, breaches, failing tests; each with file and line where one is known.
//!
//! How many a platform shows, and how it is told, is the duty of the platforms' files.

/// How bad a finding is; worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// It fails the job.
    Error,
    /// It should be looked at.
    Warning,
    /// It is good to know.
    Notice,
}

/// One thing that hurts. Texts are as they were recorded: hostile until a platform's file escapes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// A stable slug of what it is: a halt reason, `test_failed`, `breach`, `check_untrusted`.
    pub rule: String,
    /// A few words.
    pub title: String,
    /// What is wrong; may have several lines.
    pub message: String,
    /// The file: relative to the repository's root, `/` between parts, without `./`.
    pub file: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u32>,
}
