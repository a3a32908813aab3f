//! The evidence on disk: what a run leaves, and how it stays whole.
//!
//! | file | duty |
//! |---|---|
//! | `strict` | JSON that has one reading only |
//! | `format` | one event as one line, and back |
//! | `disk` | the few file operations everything durable goes through |
//! | `blobs` | large values, by their digest |
//! | `writer` | appends events, keeps room for the last one |
//! | `reader` | reads a receipt and checks its chain |
//! | `verify` | the whole of a run's evidence: chain, fold, blobs, patch |
//! | `bundle` | the zip of a run: what may leave, always the same bytes |
//! | `manifest` | what a bundle left out |
//! | `recover` | takes up a receipt after a crash |
//! | `rundir` | the folders of runs under the caller's tree |
//! | `lock` | one supervisor for one tree |
//! | `state` | `.loop_state.json` |
//! | `question` | what a person is asked, and the answer |
//! | `redact`, `secrets`, `own_words` | keeps secret values out of all of it |
//!
//! What the events mean is left to `engine` and `domain`; `docs/receipt.md` gives the bytes.

pub mod blobs;
pub mod bundle;
pub mod disk;
pub mod format;
pub mod lock;
pub mod manifest;
pub mod own_words;
pub mod question;
pub mod reader;
pub mod record;
pub mod recover;
pub mod redact;
pub mod rundir;
pub mod secrets;
pub mod state;
pub mod strict;
pub mod verify;
pub mod writer;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod sim;
