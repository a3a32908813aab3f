//! Answers a run that stands in a zip: the bundle stays, a new one with the answer is written beside
//! it.
//!
//! Entries are copied as they are, compressed bytes and times included. The receipt in the bundle is
//! verified first, in a folder of its own.

use super::{Said, answer_run};
use crate::domain::gate::Answer;
use crate::error::{Error, Kind, Result};
use crate::receipt::question::{answer_bytes, answer_name};
use crate::receipt::rundir::RunDir;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{DateTime, ZipArchive, ZipWriter};

/// Bytes that a bundle may unpack to.
const MOST_BYTES: u64 = 4 << 30;

/// Files that a bundle may hold.
const MOST_FILES: usize = 200_000;

/// Answers the run of a bundle; gives the run's id, the answer, and the new bundle.
///
/// # Errors
/// `workspace_invalid` when it is no bundle or the new one cannot be written, else as `ack`.
pub(super) fn answer(file: &Path, said: &Said) -> Result<(String, Answer, PathBuf)> {
    let broken = |why: String| {
        let what = format!("{} is no bundle of a run: {why}", file.display());
        Error::new(Kind::WorkspaceInvalid, what).detail("no_bundle")
    };
    // A pipe in its place is not waited for.
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(broken("it is no regular file".to_owned()));
    }
    let opened = File::open(file).map_err(|e| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot open {}", file.display()), e)
    })?;
    let mut archive = ZipArchive::new(opened).map_err(|e| broken(e.to_string()))?;
    let folder = tempfile::tempdir()
        .map_err(|e| Error::io(Kind::WorkspaceInvalid, "cannot make a temporary folder", e))?;
    let receipt = unpack(&mut archive, folder.path()).map_err(broken)?;
    let prefix = receipt.parent().map(Path::to_owned).unwrap_or_default();
    let run = RunDir::open(&folder.path().join(&prefix))?;
    let answer = answer_run(&run, said)?;
    let bytes = answer_bytes(run.id(), &answer)?;
    let name = prefix.join(answer_name(answer.gate)).to_string_lossy().into_owned();
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let fresh = file.with_file_name(format!("{stem}-answered.zip"));
    let cannot = |e: io::Error| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", fresh.display()), e)
            .hint("move an earlier one away; nothing is overwritten")
    };
    let out = OpenOptions::new().write(true).create_new(true).open(&fresh).map_err(cannot)?;
    let written = repack(&mut archive, out, &name, &bytes);
    if let Err(e) = written {
        // Half a bundle would only mislead.
        let _ = std::fs::remove_file(&fresh);
        return Err(cannot(e));
    }
    Ok((run.id().to_owned(), answer, fresh))
}

/// Unpacks into a folder and returns where the receipt lies in it.
fn unpack(archive: &mut ZipArchive<File>, folder: &Path) -> std::result::Result<PathBuf, String> {
    if archive.len() > MOST_FILES {
        return Err(format!("it holds more than {MOST_FILES} files"));
    }
    let mut receipts = Vec::new();
    let mut left = MOST_BYTES;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|e| e.to_string())?;
        let name = entry.enclosed_name().filter(|_| !entry.is_symlink());
        let name = name.ok_or("it names a file outside itself, or a link")?;
        let place = folder.join(&name);
        if entry.is_dir() {
            std::fs::create_dir_all(&place).map_err(|e| e.to_string())?;
            continue;
        }
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(|e| e.to_string())?;
        }
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&place)
            .map_err(|e| format!("a file stands in it twice, or {e}"))?;
        // What the entry says of its size is not believed.
        let copied = io::copy(&mut entry.by_ref().take(left + 1), &mut out);
        let copied = copied.map_err(|e| e.to_string())?;
        left = left.checked_sub(copied).ok_or("it unpacks to more than 4 GiB")?;
        if name.file_name().is_some_and(|name| name == "receipt.jsonl") {
            receipts.push(name);
        }
    }
    match receipts.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err("it holds no receipt.jsonl".to_owned()),
        _ => Err("it holds more than one receipt.jsonl".to_owned()),
    }
}

fn repack(archive: &mut ZipArchive<File>, out: File, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut writer = ZipWriter::new(out);
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index)?;
        // An earlier answer that nobody took up gives way.
        if entry.name()? != name {
            writer.raw_copy_file(entry)?;
        }
    }
    let options = SimpleFileOptions::default()
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    writer.start_file(name, options)?;
    writer.write_all(bytes)?;
    writer.finish()?.sync_all()
}
