//! Files any platform reads, written into one folder whatever the platform is.
//!
//! | file | duty |
//! |---|---|
//! | `junit` | JUnit XML: a case for the verdict and one for each failing test |
//! | `sarif` | SARIF 2.1.0 |
//! | `code_quality` | GitLab's Code Quality report |
//! | `annotations` | GitLab's links on a job's page |
//! | `dotenv` | variables for later jobs |
//! | `identity` | what a finding is called across runs, and where it is shown |
//! | `legal` | hostile text made fit for any of them |
//!
//! The Markdown of the summary is `markdown`'s; it is only put beside the others here.

pub mod annotations;
pub mod code_quality;
pub mod dotenv;
pub mod identity;
pub mod junit;
pub mod legal;
pub mod sarif;

use super::subject::Subject;
use crate::error::{Error, Kind};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The name of the JUnit report.
pub const JUNIT: &str = "loopexec-junit.xml";
/// The name of the SARIF log.
pub const SARIF: &str = "loopexec.sarif";
/// The name of the Code Quality report.
pub const CODE_QUALITY: &str = "loopexec-codequality.json";
/// The name of the dotenv file.
pub const DOTENV: &str = "loopexec.env";
/// The name of the file with links.
pub const ANNOTATIONS: &str = "loopexec-annotations.json";
/// The name of the Markdown summary.
pub const SUMMARY: &str = "loopexec-summary.md";

/// What became of the reports.
#[derive(Debug, Default)]
pub struct Written {
    /// Those that are there.
    pub files: Vec<PathBuf>,
    /// Why each of the others is not.
    pub failed: Vec<Error>,
}

/// Writes every report into a folder, each one whole or not at all, and returns their paths.
///
/// `summary` is the Markdown of the job summary. The folder is made if it is not there.
pub fn write_all(subject: &Subject, summary: &str, dir: &Path) -> Written {
    let mut written = Written::default();
    if let Err(error) = std::fs::create_dir_all(dir) {
        written.failed.push(failed("the folder of the reports", error));
        return written;
    }
    let reports = [
        (JUNIT, junit::junit(subject)),
        (SARIF, sarif::sarif(subject).to_string()),
        (CODE_QUALITY, code_quality::code_quality(subject).to_string()),
        (DOTENV, dotenv::dotenv(subject)),
        (ANNOTATIONS, annotations::annotations(subject).to_string()),
        (SUMMARY, summary.to_owned()),
    ];
    for (name, text) in reports {
        let path = dir.join(name);
        match write_whole(dir, &path, text.as_bytes()) {
            Ok(()) => written.files.push(path),
            Err(error) => written.failed.push(failed(name, error)),
        }
    }
    written
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::io(Kind::WorkspaceInvalid, format!("{what} cannot be written"), error)
}

/// Writes beside the place and renames into it, so that no reader meets half a file and no link
/// that stands there is followed.
///
/// # Errors
/// What the file system says.
pub fn write_whole(dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".loopexec-")
        // Whoever collects reports may be another user than whoever wrote them.
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
