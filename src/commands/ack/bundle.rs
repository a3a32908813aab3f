//! Answers a run that stands in a zip: the bundle stays, a new one with the answer is written beside
//! it.
//!
//! Entries are copied as they are, compressed bytes and times included. The receipt in the bundle is
//! verified first, in a folder of its own.

use super::{Answered, Said, answer_run};
use crate::error::{Error, Kind, Result};
use crate::receipt::bundle;
use crate::receipt::question::{answer_bytes, answer_name};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{DateTime, ZipArchive, ZipWriter};

/// Answers the run of a bundle; gives the run's id, the answer, and the new bundle.
///
/// # Errors
/// As [`bundle::unpack`] and `ack`; `workspace_invalid` when the new one cannot be written.
pub(super) fn answer(file: &Path, said: &Said) -> Result<(String, Answered, PathBuf)> {
    let temporary = tempfile::tempdir()
        .map_err(|e| Error::io(Kind::WorkspaceInvalid, "cannot make a temporary folder", e))?;
    let bundle::Unpacked { run, folder } = bundle::unpack(file, &temporary.path().join("run"))?;
    let answered = answer_run(&run, said)?;
    let bytes = answer_bytes(run.id(), &answered.answer)?;
    let name = format!("{folder}{}", answer_name(answered.answer.gate));
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let fresh = file.with_file_name(format!("{stem}-answered.zip"));
    let cannot = |e: io::Error| {
        Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", fresh.display()), e)
            .hint("move an earlier one away; nothing is overwritten")
    };
    let out = OpenOptions::new().write(true).create_new(true).open(&fresh).map_err(cannot)?;
    let written = repack(file, out, &name, &bytes);
    if let Err(e) = written {
        // Half a bundle would only mislead.
        let _ = std::fs::remove_file(&fresh);
        return Err(cannot(e));
    }
    Ok((run.id().to_owned(), answered, fresh))
}

fn repack(file: &Path, out: File, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut archive = ZipArchive::new(File::open(file)?)?;
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
