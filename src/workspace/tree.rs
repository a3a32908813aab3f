//! The bytes of a git tree object: encoded without libgit2's checks on names, and decoded.
//!
//! Format: entries of `<octal mode> <name>\0<20 raw bytes>`, sorted as if folders ended in `/`
//! (git's `Documentation/gitformat-pack`, `base_name_compare`). Names such as `.GIT` are legal in a
//! working tree, so they must fit here.

use std::cmp::Ordering;

/// A folder.
pub const FOLDER: u32 = 0o040_000;
/// An ordinary file.
pub const FILE: u32 = 0o100_644;
/// A file that its owner may execute.
pub const PROGRAM: u32 = 0o100_755;
/// A symbolic link; its blob is the target.
pub const LINK: u32 = 0o120_000;

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, any bytes but `/` and NUL.
    pub name: Vec<u8>,
    /// One of the mode constants of this file.
    pub mode: u32,
    /// The object's id.
    pub id: git2::Oid,
}

/// Compares two names of a folder as git orders them.
pub fn compare(a: (&[u8], u32), b: (&[u8], u32)) -> Ordering {
    let shared = a.0.len().min(b.0.len());
    a.0[..shared].cmp(&b.0[..shared]).then_with(|| {
        let next = |(name, mode): (&[u8], u32)| {
            name.get(shared).copied().unwrap_or(if mode == FOLDER { b'/' } else { 0 })
        };
        next(a).cmp(&next(b))
    })
}

/// Returns the bytes of a tree object; the entries are sorted on the way.
pub fn encode(entries: &mut [Entry]) -> Vec<u8> {
    entries.sort_unstable_by(|a, b| compare((&a.name, a.mode), (&b.name, b.mode)));
    let mut bytes = Vec::with_capacity(entries.iter().map(|e| e.name.len() + 28).sum());
    for entry in entries {
        bytes.extend_from_slice(format!("{:o} ", entry.mode).as_bytes());
        bytes.extend_from_slice(&entry.name);
        bytes.push(0);
        bytes.extend_from_slice(entry.id.as_bytes());
    }
    bytes
}

/// Returns the entries of a tree object's bytes, or nothing where they are not one.
pub fn decode(mut bytes: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|b| *b == b' ')?;
        let mode = u32::from_str_radix(std::str::from_utf8(&bytes[..space]).ok()?, 8).ok()?;
        bytes = &bytes[space + 1..];
        let end = bytes.iter().position(|b| *b == 0)?;
        let name = bytes[..end].to_vec();
        let id = git2::Oid::from_bytes(bytes.get(end + 1..end + 21)?).ok()?;
        bytes = &bytes[end + 21..];
        entries.push(Entry { name, mode, id });
    }
    Some(entries)
}
