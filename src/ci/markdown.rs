//! The job summary and the body of a comment, as Markdown that hostile text cannot leave.
