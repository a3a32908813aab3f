//! The zip of a run: what may leave, always the same bytes.
//!
//! | file | duty |
//! |---|---|
//! | `survey` | what a receipt names: values, outputs, snapshots |
//! | `objects` | the snapshots as loose git objects, whatever form they are kept in |
//! | `pack` | chooses, looks for secrets, writes the zip |
//! | `unpack` | takes a zip from anywhere apart, and holds it to its own evidence |
//!
//! A bundle is the folder of a run without what only its machine needs. The bytes are a function of
//! the run alone: sorted names, one time, one mode, one level of deflate, and git objects encoded
//! anew, so that it does not matter when, where or as whom it is written, nor how libgit2 chose to
//! keep an object. `docs/receipt.md` has the list of what is in it.

mod objects;
mod pack;
mod survey;
mod unpack;

use crate::domain::gate::Gate;
use crate::receipt::question::{QUESTION_JSON, QUESTION_MD, answer_name};

pub use pack::{Contents, Facts, write};
pub use unpack::{Unpacked, import, unpack};

/// The most bytes of a bundle.
pub const MAX_BUNDLE: u64 = 2 << 30;

/// The most bytes of what is in a bundle, unpacked.
pub const MAX_UNPACKED: u64 = 8 << 30;

/// The most files in a bundle.
pub const MAX_FILES: usize = 1_000_000;

/// The folder of the snapshots in a bundle.
const SNAPSHOTS: &str = "snapshots.git";

/// What stands in the `HEAD` of the snapshots of every bundle; nothing reads it, git wants it.
const HEAD: &[u8] = b"ref: refs/heads/main\n";

/// The configuration of the snapshots of every bundle; one from elsewhere is never taken over.
const CONFIG: &[u8] = b"[core]\n\tbare = true\n\trepositoryformatversion = 0\n\tfilemode = true\n";

/// Returns the names of what may lie beside the receipt of a run that asks a person.
fn beside_the_receipt() -> Vec<String> {
    let answers = Gate::ALL.iter().map(|gate| answer_name(*gate));
    [QUESTION_JSON.to_owned(), QUESTION_MD.to_owned()].into_iter().chain(answers).collect()
}

/// Tells whether what names a run names a bundle of it.
pub fn is_bundle_name(which: &str) -> bool {
    which.len() > 4 && which.get(which.len() - 4..).is_some_and(|e| e.eq_ignore_ascii_case(".zip"))
}

/// Tells whether a text is so many lower-case hexadecimal digits.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
