//! The layer: the workspace as it stood after setup and the first baseline run, with the HOME of the
//! exec zone, copied once and never written again.
//!
//! Read-only is by convention: every view of it goes through an overlay's upper folder or is a copy
//! (`copies`). The copying itself is the duty of `copying`.

use super::copying::{Met, copy_tree, create_folder};
use crate::error::{Error, Result};
use crate::foreign::{self, Links};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A frozen layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The frozen workspace, everything in it, `.git` too.
    pub tree: PathBuf,
    /// The frozen HOME of the exec zone.
    pub home: PathBuf,
    /// What the layer adds to the snapshot, see [`freeze`]; 64 hexadecimal digits.
    pub digest: String,
    /// Sum of the sizes of regular files, in bytes.
    pub bytes: u64,
    /// Number of regular files and symlinks.
    pub files: u64,
    /// Paths below the workspace or HOME that could not be part of it (FIFOs, sockets, devices,
    /// unreadable ones), at most 200.
    pub skipped: Vec<PathBuf>,
}

/// Freezes a workspace and the HOME of the exec zone into `dest`, which must not exist.
///
/// `ignored` says of a path below the workspace, and whether it is a folder, that no snapshot holds
/// it; what lies below such a folder counts as ignored too.
///
/// The digest is the sha256 of `loopexec.layer.v1\n` and one record for each path that the snapshot
/// does not hold and each in HOME, sorted by bytes: `tree/PATH` or `home/PATH`, NUL, `f`, `d` or
/// `l`, NUL, mode & 0777 in octal, NUL, size in bytes (0 but for files), NUL, target of a symlink,
/// NUL, newline. Contents and times are not part of it, so that equal installs agree; neither is the
/// workspace's own `.git`, which follows from the snapshot, nor what caches hold, whose names and
/// sizes differ from one filling to the next: folders with a `CACHEDIR.TAG` (bford.info/cachedir),
/// and `.cache` and `.npm` in HOME.
///
/// Fails with `storage_exhausted` on a full disk and with `interrupted` once `stop` says so; `dest`
/// is removed then.
pub fn freeze(
    workspace: &Path,
    exec_home: &Path,
    dest: &Path,
    ignored: &(dyn Fn(&Path, bool) -> bool + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Layer> {
    create_folder(dest)?;
    let frozen = copy_both(workspace, exec_home, dest, ignored, stop);
    if frozen.is_err() {
        // The first error is the one that matters; the next start sweeps what is left.
        let _ = super::copies::remove(dest);
    }
    frozen
}

fn copy_both(
    workspace: &Path,
    exec_home: &Path,
    dest: &Path,
    ignored: &(dyn Fn(&Path, bool) -> bool + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Layer> {
    let (tree, home) = (dest.join("tree"), dest.join("home"));
    let records: Mutex<Vec<Record>> = Mutex::default();
    let add = |from: &Path, root: &'static str, met: &Met<'_>| {
        let record = Record {
            path: Path::new(root).join(met.path),
            tag: is_cache_tag(from, met),
            text: record(root, met),
        };
        records.lock().unwrap_or_else(PoisonError::into_inner).push(record);
    };
    let in_tree = |met: &Met<'_>| {
        if !met.path.starts_with(".git") && is_ignored(met, ignored) {
            add(workspace, "tree", met);
        }
    };
    let taken = copy_tree(workspace, &tree, stop, &in_tree).map_err(explain)?;
    let taken_home =
        copy_tree(exec_home, &home, stop, &|met| add(exec_home, "home", met)).map_err(explain)?;
    let records = records.into_inner().unwrap_or_else(PoisonError::into_inner);
    let text = digested(&records);
    let skipped = taken.skipped.into_iter().chain(taken_home.skipped).collect();
    Ok(Layer {
        tree,
        home,
        digest: crate::domain::hex::sha256(&text),
        bytes: taken.bytes + taken_home.bytes,
        files: taken.files + taken_home.files,
        skipped,
    })
}

/// A path of the layer as it is digested.
struct Record {
    path: PathBuf,
    /// Whether it says that its folder is a cache.
    tag: bool,
    text: Vec<u8>,
}

fn digested(records: &[Record]) -> Vec<u8> {
    let tags = records.iter().filter(|record| record.tag);
    let mut caches: HashSet<&Path> = tags.filter_map(|record| record.path.parent()).collect();
    caches.extend([Path::new("home/.cache"), Path::new("home/.npm")]);
    let in_cache = |path: &Path| path.ancestors().skip(1).any(|above| caches.contains(above));
    let counted = records.iter().filter(|record| !in_cache(&record.path));
    let mut texts: Vec<&[u8]> = counted.map(|record| record.text.as_slice()).collect();
    texts.sort_unstable();
    let mut text = b"loopexec.layer.v1\n".to_vec();
    text.extend(texts.concat());
    text
}

fn is_cache_tag(root: &Path, met: &Met<'_>) -> bool {
    const SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
    if !met.path.ends_with("CACHEDIR.TAG") || !met.metadata.is_file() {
        return false;
    }
    let mut start = [0; SIGNATURE.len()];
    let file = foreign::open(&root.join(met.path), Links::Refuse);
    file.and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == SIGNATURE
}

fn is_ignored(met: &Met<'_>, ignored: &(dyn Fn(&Path, bool) -> bool + Sync)) -> bool {
    let mut above = met.path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty());
    ignored(met.path, met.metadata.is_dir()) || above.any(|path| ignored(path, true))
}

fn record(root: &str, met: &Met<'_>) -> Vec<u8> {
    let (kind, size) = match (met.target, met.metadata.is_dir()) {
        (Some(_), _) => ('l', 0),
        (None, true) => ('d', 0),
        (None, false) => ('f', met.metadata.size()),
    };
    let mut record = format!("{root}/").into_bytes();
    record.extend(met.path.as_os_str().as_bytes());
    // Linux has no modes on symlinks and shows 0777; others show what they like.
    let mode = if met.target.is_some() { 0o777 } else { met.metadata.mode() & 0o777 };
    record.extend(format!("\0{kind}\0{mode:o}\0{size}\0").into_bytes());
    record.extend(met.target.map_or(&b""[..], |target| target.as_os_str().as_bytes()));
    record.extend(b"\0\n");
    record
}

fn explain(error: Error) -> Error {
    if error.detail == Some("disk_full") {
        error
            .hint("Set LOOPEXEC_CACHE to a folder on a larger disk.")
            .hint("Or leave large folders out with `workspace.carry`.")
    } else {
        error
    }
}
