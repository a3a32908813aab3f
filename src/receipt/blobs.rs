//! Large values by their digest: `blobs/<sha256>`, written before the event that names them.
//!
//! A value that was moved out of an event stands there as
//! `{"blob":"sha256:…","bytes":n,"count":len}`; when events are written is left to `writer`.

use super::disk::{self, Durability};
use super::strict;
use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The largest blob that is read back, in bytes.
pub const MAX_BLOB: u64 = 64 * 1024 * 1024;

/// The largest event after all its blobs are back in place, in bytes.
pub const MAX_RESOLVED: u64 = 128 * 1024 * 1024;

/// Below this size a reference is longer than the value, in bytes.
const MIN_MOVED: usize = 160;

/// A folder of blobs.
#[derive(Debug)]
pub struct BlobStore {
    dir: PathBuf,
    durability: Durability,
    unsynced: Vec<PathBuf>,
}

impl BlobStore {
    /// Names a folder, which is created with the first blob.
    pub fn new(dir: impl Into<PathBuf>, durability: Durability) -> Self {
        Self { dir: dir.into(), durability, unsynced: Vec::new() }
    }

    /// Returns where a blob stands, or would.
    pub fn path(&self, sha256: &str) -> PathBuf {
        self.dir.join(sha256)
    }

    /// Writes the bytes unless they are there, and returns their digest as `sha256:…`.
    ///
    /// # Errors
    /// `storage_exhausted` when the disk is full or fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<String> {
        let digest = hex::sha256(bytes);
        let path = self.path(&digest);
        // A crash may have kept the name and lost the content, so the name alone proves nothing.
        let there = disk::read_whole(&path, bytes.len() as u64).is_ok_and(|old| old == bytes);
        if !there {
            let failed = |e| {
                let what = format!("cannot keep a value in {}", self.dir.display());
                Error::io(Kind::StorageExhausted, what, e)
            };
            std::fs::create_dir_all(&self.dir).map_err(failed)?;
            let temporary = self.dir.join(".tmp");
            disk::write_whole(&temporary, &path, bytes, self.durability).map_err(failed)?;
            if self.durability == Durability::Iteration {
                self.unsynced.push(path);
            }
        }
        Ok(format!("sha256:{digest}"))
    }

    /// Makes every blob written so far survive a power cut.
    ///
    /// # Errors
    /// `storage_exhausted` when the disk fails.
    pub fn sync(&mut self) -> Result<()> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let sync = |path: &PathBuf| File::open(path)?.sync_all();
        let synced =
            self.unsynced.iter().try_for_each(sync).and_then(|()| disk::sync_dir(&self.dir));
        synced.map_err(|e| {
            let what = format!("cannot make the values in {} durable", self.dir.display());
            Error::io(Kind::StorageExhausted, what, e)
        })?;
        self.unsynced.clear();
        Ok(())
    }

    /// Reads a blob named `sha256:…` and checks its digest.
    ///
    /// # Errors
    /// `objective_unverified` when it is missing, over [`MAX_BLOB`], or not what its name says.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        let refuse = |why: String| {
            let shown: String = name.chars().take(80).collect();
            Error::new(Kind::ObjectiveUnverified, format!("the blob {shown:?} {why}"))
                .hint("take the blobs folder from where the receipt comes from")
        };
        let digest = name.strip_prefix("sha256:").filter(|d| is_digest(d));
        let digest = digest.ok_or_else(|| refuse("is not named by a sha256".into()))?;
        let bytes = disk::read_whole(&self.path(digest), MAX_BLOB)
            .map_err(|e| refuse(format!("cannot be read in {}: {e}", self.dir.display())))?;
        if hex::sha256(&bytes) != digest {
            return Err(refuse("does not hold what its name says".into()));
        }
        Ok(bytes)
    }
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Moves the largest values out of an event until it has at most `target` bytes as JSON.
///
/// The smallest value that alone brings it under the target is taken, else the largest. What has
/// only small values stays longer than the target.
///
/// # Errors
/// `storage_exhausted` when a blob cannot be written.
pub fn externalize(value: &mut Value, blobs: &mut BlobStore, target: usize) -> Result<()> {
    loop {
        let size = json_len(value);
        let Some(excess) = size.checked_sub(target).filter(|excess| *excess > 0) else {
            return Ok(());
        };
        let Some(largest) = largest_child(value, excess) else { return Ok(()) };
        let text = largest.to_string();
        let count = match &*largest {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            Value::String(text) => text.chars().count(),
            _ => 0,
        };
        let name = blobs.write(text.as_bytes())?;
        *largest = json!({"blob": name, "bytes": text.len(), "count": count});
    }
}

/// Finds the value to move: down from the largest child as long as one child suffices alone.
fn largest_child(value: &mut Value, excess: usize) -> Option<&mut Value> {
    let mut found = child_at_least(value, MIN_MOVED)?;
    loop {
        // The borrow checker cannot follow "the child, else the parent", hence asking first.
        let enough = (excess + MIN_MOVED).max(MIN_MOVED);
        if child_at_least(found, enough).is_none() {
            return Some(found);
        }
        found = child_at_least(found, enough)?;
    }
}

fn child_at_least(value: &mut Value, least: usize) -> Option<&mut Value> {
    let children: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Array(items) => Box::new(items.iter_mut()),
        Value::Object(map) => Box::new(map.values_mut()),
        _ => return None,
    };
    let sized = children.filter(|c| c.is_array() || c.is_object() || c.is_string());
    let sized = sized.map(|child| (json_len(child), child)).filter(|(len, _)| *len >= least);
    sized.max_by_key(|(len, _)| *len).map(|(_, child)| child)
}

/// Counts the bytes of a value as compact JSON.
pub(super) fn json_len(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail, and a value has only string keys.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Puts every value that was moved into a blob back into its place.
///
/// # Errors
/// `objective_unverified` when a reference is malformed, its blob missing or not what it says, or
/// the whole grows over [`MAX_RESOLVED`].
pub fn resolve(value: Value, blobs: &BlobStore) -> Result<Value> {
    resolve_within(value, blobs, &mut { MAX_RESOLVED }, 0)
}

fn resolve_within(value: Value, blobs: &BlobStore, room: &mut u64, depth: usize) -> Result<Value> {
    let refuse = |why: &str| Error::new(Kind::ObjectiveUnverified, format!("a value {why}"));
    if depth > 2 * strict::MAX_DEPTH {
        return Err(refuse("is nested in blobs without end"));
    }
    match value {
        Value::Array(items) => {
            let items = items.into_iter().map(|item| resolve_within(item, blobs, room, depth + 1));
            Ok(Value::Array(items.collect::<Result<_>>()?))
        }
        Value::Object(map) if is_reference(&map) => {
            let (Some(name), Some(bytes)) = (map["blob"].as_str(), map["bytes"].as_u64()) else {
                return Err(refuse("that stands in a blob is named wrongly"));
            };
            *room = room.checked_sub(bytes).ok_or_else(|| refuse("is too large with its blobs"))?;
            let content = blobs.read(name)?;
            if content.len() as u64 != bytes {
                return Err(refuse("that stands in a blob has another length than recorded"));
            }
            let inner = strict::parse(&content)
                .map_err(|why| refuse(&format!("that stands in the blob {name} is bad: {why}")))?;
            resolve_within(inner, blobs, room, depth + 1)
        }
        Value::Object(map) => {
            let entries = map
                .into_iter()
                .map(|(key, value)| Ok((key, resolve_within(value, blobs, room, depth + 1)?)));
            Ok(Value::Object(entries.collect::<Result<Map<_, _>>>()?))
        }
        other => Ok(other),
    }
}

/// Tells whether an object stands for a value that was moved out.
pub fn is_reference(map: &Map<String, Value>) -> bool {
    map.len() == 3 && ["blob", "bytes", "count"].iter().all(|key| map.contains_key(*key))
}

/// Returns the folder of blobs beside a receipt.
pub fn beside(receipt: &Path) -> PathBuf {
    receipt.with_file_name("blobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, BlobStore) {
        let dir = tempfile::tempdir().unwrap();
        let blobs = BlobStore::new(dir.path().join("blobs"), Durability::Event);
        (dir, blobs)
    }

    #[test]
    fn only_what_is_too_large_moves_and_comes_back() {
        let (_dir, mut blobs) = store();
        let original = json!({"a": {"keep": 1, "out": "é".repeat(20_000)}, "b": [1, 2, "three"]});
        let mut value = original.clone();
        externalize(&mut value, &mut blobs, 16_384).unwrap();
        assert_eq!(value["a"]["keep"], 1);
        assert_eq!(value["a"]["out"]["count"], 20_000);
        assert_eq!(value["b"], original["b"]);
        assert!(json_len(&value) <= 16_384);
        assert_eq!(resolve(value, &blobs).unwrap(), original);
    }

    #[test]
    fn many_large_values_move_until_the_event_fits() {
        let (_dir, mut blobs) = store();
        let part = |n: u64| json!((0..3000).map(|i| i * n).collect::<Vec<_>>());
        let original = json!({"a": part(1), "b": part(3), "c": {"d": part(5), "e": part(7)}});
        let mut value = original.clone();
        externalize(&mut value, &mut blobs, 4096).unwrap();
        assert!(json_len(&value) <= 4096);
        assert_eq!(resolve(value, &blobs).unwrap(), original);
    }

    #[test]
    fn equal_bytes_are_kept_once_and_a_lost_content_is_written_again() {
        let (_dir, mut blobs) = store();
        let name = blobs.write(b"some bytes").unwrap();
        let path = blobs.path(&name["sha256:".len()..]);
        std::fs::write(&path, b"").unwrap();
        assert!(blobs.read(&name).is_err());
        assert_eq!(blobs.write(b"some bytes").unwrap(), name);
        assert_eq!(blobs.read(&name).unwrap(), b"some bytes");
        assert_eq!(std::fs::read_dir(&blobs.dir).unwrap().count(), 1);
    }

    #[test]
    fn a_blob_that_lies_links_away_or_never_ends_is_refused() {
        let (dir, mut blobs) = store();
        let mut value = json!({"a": "x".repeat(1000)});
        externalize(&mut value, &mut blobs, 500).unwrap();
        let path = blobs.path(&value["a"]["blob"].as_str().unwrap()["sha256:".len()..]);
        let mut wrong = value.clone();
        wrong["a"]["bytes"] = json!(7);
        assert_eq!(resolve(wrong, &blobs).unwrap_err().kind, Kind::ObjectiveUnverified);
        for name in ["sha256:../../etc/passwd", "md5:00", ""] {
            let value = json!({"blob": name, "bytes": 1, "count": 1});
            assert!(resolve(value, &blobs).is_err(), "{name}");
        }
        let huge = json!({"blob": value["a"]["blob"], "bytes": MAX_RESOLVED + 1, "count": 1});
        assert!(resolve(huge, &blobs).is_err());
        let real = dir.path().join("real");
        std::fs::rename(&path, &real).unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        assert!(resolve(value.clone(), &blobs).is_err());
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(resolve(value, &blobs).is_err());
    }

    #[test]
    fn values_too_small_to_move_stay() {
        let (_dir, mut blobs) = store();
        let map: Map<String, Value> = (0..1000).map(|i| (format!("k{i}"), json!(i))).collect();
        let mut value = Value::Object(map);
        externalize(&mut value, &mut blobs, 100).unwrap();
        assert_eq!(value.as_object().unwrap().len(), 1000);
    }
}
