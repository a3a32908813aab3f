//! How a result leaves: the JSON object, text for a terminal, safe for both.
//!
//! Printing itself is the duty of `commands`.

pub mod object;
pub mod text;
