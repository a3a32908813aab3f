//! Takes a bundle from anywhere apart, and holds it to its own evidence.
//!
//! The zip is foreign: it names where it wants to be written, how long it is, and what git is to be
//! configured with. None of that is believed. Only files that a bundle has are written, each under a
//! name built here; sizes are counted as they come; git's configuration is ours.

use super::survey::is_torn_name;
use super::{CONFIG, HEAD, MAX_BUNDLE, MAX_FILES, MAX_UNPACKED, SNAPSHOTS, is_hex};
use crate::error::{Error, Kind, Result};
use crate::receipt::manifest;
use crate::receipt::reader::RECEIPT;
use crate::receipt::rundir::{Home, RunDir, check_run_id};
use crate::receipt::state;
use crate::receipt::verify::verify;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;

/// The bits of a Unix mode that say what a file is, and the two sorts that a bundle has.
const SORT: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;

/// What is said of a zip that would fill the disk.
const TOO_MUCH: &str = "it unpacks to more than a bundle may have";

/// A bundle that was taken apart and holds.
#[derive(Debug)]
pub struct Unpacked {
    /// The run's folder.
    pub run: RunDir,
    /// The folder that all of it stands in, with its slash; empty where there is none.
    pub folder: String,
}

/// Takes a bundle apart into a folder that is not there yet, and verifies it.
///
/// # Errors
/// `workspace_invalid` when it is no zip, too large, or names what no bundle has;
/// `objective_unverified` when its evidence does not hold. Nothing is left then.
pub fn unpack(zip: &Path, to: &Path) -> Result<Unpacked> {
    let failed = |e| Error::io(Kind::WorkspaceInvalid, format!("cannot make {}", to.display()), e);
    let mut archive = open(zip)?;
    DirBuilder::new().mode(0o700).create(to).map_err(failed)?;
    let unpacked = extract(&mut archive, zip, to).and_then(|folder| {
        let run = RunDir::open(to)?;
        verify(&run, &mut |_| {})?;
        Ok(Unpacked { run, folder })
    });
    if unpacked.is_err() {
        // Whatever it was, it is no evidence.
        let _ = fs::remove_dir_all(to);
    }
    unpacked
}

/// Takes a bundle in among the runs of a tree, and returns its run.
///
/// # Errors
/// As [`unpack`]; `workspace_invalid` when the tree has a run of that id with another receipt.
pub fn import(zip: &Path, home: &Home) -> Result<RunDir> {
    let runs = home.path().join("runs");
    let failed =
        |e| Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", runs.display()), e);
    // A folder of this name is swept with old runs, should a kill leave it.
    let folder =
        tempfile::Builder::new().prefix(".old-import-").tempdir_in(&runs).map_err(failed)?;
    let made = folder.path().join("run");
    let unpacked = unpack(zip, &made)?;
    let id = unpacked.run.id().to_owned();
    check_run_id(&id)?;
    let place = runs.join(&id);
    if fs::symlink_metadata(&place).is_ok() {
        let here = home.open_run(&id)?;
        if same_content(&here.receipt(), &unpacked.run.receipt()).map_err(failed)? {
            // An answer may have come since; it counts only where it fits the question.
            for name in super::beside_the_receipt() {
                let (from, to) = (made.join(&name), here.path().join(&name));
                if is_file(&from) && !is_file(&to) {
                    fs::rename(&from, &to).map_err(failed)?;
                }
            }
            return Ok(here);
        }
        return Err(Error::new(
            Kind::WorkspaceInvalid,
            format!("there is a run {id} here already, and its receipt is not the bundle's"),
        )
        .hint(format!("go on with the one that is here: loopexec run --resume {id}"))
        .hint(format!("or move {} away and try again", place.display())));
    }
    fs::rename(&made, &place).map_err(failed)?;
    home.open_run(&id)
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) =
        (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    let (mut a, mut b) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = one.read(&mut a)?;
        if read == 0 {
            return Ok(other.read(&mut b)? == 0);
        }
        match other.read_exact(&mut b[..read]) {
            Ok(()) if a[..read] == b[..read] => {}
            Ok(()) => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

fn refused(zip: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(Kind::WorkspaceInvalid, format!("{} is no bundle of a run: {why}", zip.display()))
        .detail("no_bundle")
        .hint("take the zip as it was downloaded; loopexec ci uploads it as the artifact of a job")
}

fn open(zip: &Path) -> Result<ZipArchive<BufReader<File>>> {
    let failed = |e| Error::io(Kind::WorkspaceInvalid, format!("cannot read {}", zip.display()), e);
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(zip).map_err(failed)?;
    let there = file.metadata().map_err(failed)?;
    if !there.is_file() {
        return Err(refused(zip, "it is not a regular file"));
    }
    if there.len() > MAX_BUNDLE {
        return Err(refused(zip, format!("it has more than {} GiB", MAX_BUNDLE >> 30)));
    }
    let announced = read_count(&mut file).map_err(failed)?;
    if announced > MAX_FILES as u64 {
        return Err(refused(zip, format!("it has more than {MAX_FILES} files")));
    }
    ZipArchive::new(BufReader::new(file)).map_err(|e| refused(zip, e))
}

/// Reads how many files a zip says it has, before anything is made room for by that number.
///
/// Source: PKWARE's APPNOTE, 4.3.14 to 4.3.16; 0 where no end of a directory is found, which the
/// reader of zips then refuses.
fn read_count(file: &mut File) -> io::Result<u64> {
    const TAIL: u64 = 22 + 65_535;
    let len = file.metadata()?.len();
    let start = len.saturating_sub(TAIL + 20);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    (&mut *file).take(TAIL + 20).read_to_end(&mut tail)?;
    file.seek(SeekFrom::Start(0))?;
    let Some(at) = tail.windows(4).rposition(|four| four == b"PK\x05\x06") else { return Ok(0) };
    let number = |from: usize, bytes: usize| -> u64 {
        tail.get(from..from + bytes).map_or(0, |raw| {
            raw.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
        })
    };
    let small = number(at + 10, 2);
    let is_large = at >= 20 && &tail[at - 20..at - 16] == b"PK\x06\x07";
    if small != 0xFFFF || !is_large {
        return Ok(small);
    }
    let directory = number(at - 20 + 8, 8);
    let mut end = [0; 56];
    if directory.saturating_add(56) > len {
        return Ok(0);
    }
    file.seek(SeekFrom::Start(directory))?;
    file.read_exact(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(end[32..40].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Writes what a bundle has, and returns the folder it stands in.
fn extract(archive: &mut ZipArchive<BufReader<File>>, zip: &Path, to: &Path) -> Result<String> {
    if archive.len() > MAX_FILES {
        return Err(refused(zip, format!("it has more than {MAX_FILES} files")));
    }
    // The reader of zips shows one file a name; which of two it is, others may see differently.
    if archive.has_duplicate_names() {
        return Err(refused(zip, "two of its files have one name"));
    }
    if archive.decompressed_size().is_some_and(|size| size > u128::from(MAX_UNPACKED)) {
        return Err(refused(zip, TOO_MUCH));
    }
    let folder = folder_of(archive).map_err(|why| refused(zip, why))?;
    let mut room = MAX_UNPACKED;
    let mut has_snapshots = false;
    let mut buffer = vec![0; CHUNK];
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|e| refused(zip, e))?;
        let name = name_of(entry.name_raw()).map_err(|why| refused(zip, why))?;
        if entry.encrypted() {
            return Err(refused(zip, format!("{name:?} is encrypted")));
        }
        let sort = entry.unix_mode().map_or(REGULAR, |mode| mode & SORT);
        if entry.is_symlink() || !matches!(sort, 0 | REGULAR | FOLDER) {
            return Err(refused(zip, format!("{name:?} is neither a file nor a folder")));
        }
        let declared = entry.size();
        if declared > room {
            return Err(refused(zip, TOO_MUCH));
        }
        let inside = name.strip_prefix(&folder).filter(|_| sort != FOLDER);
        let Some(place) = inside.and_then(place_of) else { continue };
        has_snapshots |= place.starts_with(SNAPSHOTS);
        let path = to.join(place);
        let failed =
            |e| Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", path.display()), e);
        let mut file = create(to, &path).map_err(failed)?;
        let mut left = declared;
        loop {
            // A zip that is longer than it says is one that was made to deceive.
            let read = entry.read(&mut buffer).map_err(|e| refused(zip, e))?;
            if read == 0 {
                break;
            }
            left = left
                .checked_sub(read as u64)
                .ok_or_else(|| refused(zip, format!("{name:?} is longer than it says")))?;
            file.write_all(&buffer[..read]).map_err(failed)?;
        }
        if left > 0 {
            return Err(refused(zip, format!("{name:?} is shorter than it says")));
        }
        room -= declared;
    }
    if has_snapshots {
        write_skeleton(&to.join(SNAPSHOTS))?;
    }
    Ok(folder)
}

/// Returns the folder that the only receipt stands in: one unpacked and packed again may have one.
fn folder_of<R: Read + Seek>(archive: &ZipArchive<R>) -> std::result::Result<String, String> {
    let mut folders = archive.file_names().filter_map(|name| {
        let folder = name.ok()?.strip_suffix(RECEIPT)?.to_owned();
        (folder.is_empty() || folder.ends_with('/')).then_some(folder)
    });
    match (folders.next(), folders.next()) {
        (Some(folder), None) => Ok(folder),
        (None, _) => Err(format!("there is no {RECEIPT} in it")),
        (Some(_), Some(_)) => Err(format!("there is more than one {RECEIPT} in it")),
    }
}

/// Returns the name of an entry, or why it is refused.
fn name_of(raw: &[u8]) -> std::result::Result<String, String> {
    let name = std::str::from_utf8(raw).map_err(|_| "a name in it is not UTF-8".to_owned())?;
    let bad = name.is_empty()
        || name.starts_with('/')
        || name.contains(['\\', '\0'])
        || name.get(1..2) == Some(":")
        || name.split('/').any(|part| part == ".." || part == ".");
    match bad {
        true => Err(format!("{:?} leads out of it", name.chars().take(80).collect::<String>())),
        false => Ok(name.to_owned()),
    }
}

/// Returns where a file of a bundle is written; none for what is skipped.
fn place_of(name: &str) -> Option<PathBuf> {
    let known = [RECEIPT, manifest::FILE, "patch.diff", state::FILE].contains(&name)
        || is_torn_name(name)
        || super::beside_the_receipt().iter().any(|known| known == name)
        || name.strip_prefix("blobs/").is_some_and(|digest| is_hex(digest, 64))
        || name
            .strip_prefix("snapshots.git/objects/")
            .and_then(|object| object.split_once('/'))
            .is_some_and(|(first, rest)| is_hex(first, 2) && is_hex(rest, 38));
    known.then(|| PathBuf::from(name))
}

fn create(to: &Path, path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| *folder != to) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)
}

/// Makes of the objects a repository that git opens.
fn write_skeleton(store: &Path) -> Result<()> {
    let written = (|| {
        fs::create_dir_all(store.join("refs"))?;
        fs::create_dir_all(store.join("objects"))?;
        fs::write(store.join("HEAD"), HEAD)?;
        fs::write(store.join("config"), CONFIG)
    })();
    written.map_err(|e| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", store.display()), e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_refused_and_unknown_ones_have_no_place() {
        for name in ["/etc/passwd", "../x", "blobs/../../x", "a\\..\\b", "C:/x", "", "./x", "a\0b"]
        {
            assert!(name_of(name.as_bytes()).is_err(), "{name:?}");
        }
        assert!(name_of(b"\xff\xfe").is_err());
        let object = format!("snapshots.git/objects/ab/{}", "0".repeat(38));
        for name in ["receipt.jsonl", "bundle.json", ".loop_state.json", "patch.diff", &object] {
            assert_eq!(place_of(name), Some(PathBuf::from(name)));
        }
        for name in [
            "snapshots.git/config",
            "snapshots.git/hooks/post-checkout",
            "snapshots.git/objects/info/alternates",
            "snapshots.git/objects/ab/x",
            "blobs/x",
            "receipt.jsonl/x",
            "live.json",
        ] {
            assert_eq!(place_of(name), None, "{name}");
        }
    }
}
