//! How a result leaves: the JSON object, text for a terminal, safe for both.
//!
//! | file | duty |
//! |---|---|
//! | `object` | the one JSON object of every command |
//! | `text` | hostile text made harmless, tables |
//! | `model`, `collect` | a run as data, gathered from the fold of its receipt |
//! | `render` | the same for people |
//! | `explain` | what every halt reason means |
//! | `case` | why one run halted, with its evidence |
//!
//! Printing itself is the duty of `commands`.

pub mod case;
pub mod collect;
pub mod explain;
pub mod model;
pub mod object;
pub mod render;
pub mod text;
