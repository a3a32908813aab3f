//! The job summary and the body of a comment, as Markdown that hostile text cannot leave.
//!
//! | file | duty |
//! |---|---|
//! | `escape` | foreign text as code spans, fences, prose |
//! | `cut` | a text cut to a size, with everything closed |
//! | `chart` | how the failing set went, as a small picture |
//! | `parts` | the parts of a text about one run |
//!
//! What exec and the check printed is not told: it belongs to their own log.

mod chart;
mod cut;
mod escape;
mod parts;

pub use cut::cut;
pub use escape::{cell, code, fenced, link, prose};

use super::subject::Subject;
use parts::Room;

/// Bytes of a comment's body. A pull request's body may have 65,536 characters, a comment's 262,144
/// bytes by another account (both from the reference of GitHub's limits that users keep); below
/// both, with room for the marker of `github::comment`.
pub const COMMENT_BYTES: usize = 60_000;
/// Bytes of a step's summary file; the runner drops one of more than 1 MiB as a whole
/// (`CreateStepSummaryCommand` of actions/runner).
pub const SUMMARY_BYTES: usize = 900 << 10;

/// What ends a text that was cut.
const CUT: &str = "*The text ends here: no more fits. The rest is in the receipt.*";

const SUMMARY: Room = Room { tests: 100, lines: 40, changes: 50 };
const COMMENT: Room = Room { tests: 20, lines: 15, changes: 20 };

/// Returns the summary of a job.
pub fn summary(subject: &Subject) -> String {
    fitting(subject, &SUMMARY, SUMMARY_BYTES)
}

/// Returns the body of a comment, at most [`COMMENT_BYTES`] long; it ends with the links, also
/// where the rest was cut.
pub fn comment_body(subject: &Subject) -> String {
    fitting(subject, &COMMENT, COMMENT_BYTES)
}

fn fitting(subject: &Subject, room: &Room, most: usize) -> String {
    let foot = parts::foot(subject);
    let whole = parts::body(subject, room);
    let body = cut(&whole, most.saturating_sub(foot.len() + 1), CUT);
    match foot.is_empty() {
        true => body,
        false => format!("{body}\n{foot}"),
    }
}
