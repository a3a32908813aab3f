//! The surfaces of a platform, one after the other.
//!
//! A surface that fails costs one warning: never the verdict, never the next surface.

pub mod github;
mod gitlab;
mod others;

use super::inputs::Inputs;
use super::job::Job;
use super::ledger::Artifact;
use super::signals;
use super::telling::Telling;
use crate::ci::formats;
use crate::ci::markdown;
use crate::ci::platform::Platform;
use crate::commands::outcome::Outcome;
use crate::commands::run::Known;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the surfaces that need a network may take in all.
const REMOTE: Duration = Duration::from_secs(200);

/// The same where the job was cancelled: the runner kills ten seconds after its first signal.
const REMOTE_HURRIED: Duration = Duration::from_secs(5);

/// The name of the report in the run's folder, Markdown.
const REPORT: &str = "report.md";

/// The name of the bundle beside the reports.
const BUNDLE: &str = "loopexec-bundle.zip";

/// What was told.
#[derive(Debug, Default)]
pub struct Published {
    /// The uploaded bundle.
    pub artifact: Option<Artifact>,
    /// Files for other tools.
    pub files: Vec<PathBuf>,
    /// What could not be told, one sentence each.
    pub warnings: Vec<String>,
}

impl Published {
    /// Notes a surface that failed.
    fn warn(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        if !self.warnings.contains(&sentence) {
            self.warnings.push(sentence);
        }
    }

    /// Adds to the result object what was told.
    pub fn show(self, outcome: &mut Outcome) {
        let files: Vec<String> =
            self.files.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        outcome.object.set(
            "published",
            json!({"artifact": self.artifact, "files": files, "warnings": self.warnings}),
        );
    }
}

/// Tells a platform what there is to tell.
pub fn publish(
    mut telling: Telling,
    inputs: &Inputs,
    job: &Job,
    reports: Option<&Path>,
) -> Published {
    signals::watch();
    // A run that had its end already can be cancelled too.
    telling.hurried |= signals::are_in();
    let mut published = Published::default();
    // Everywhere but on GitHub the reports are what a platform shows or keeps.
    let keeps = !matches!(job.platform, Platform::GitHub | Platform::Gitea | Platform::None);
    let default = keeps.then(|| PathBuf::from("loopexec-reports"));
    if let Some(folder) = reports.map(Path::to_owned).or(default)
        && !telling.ledger.files
        && is_own_folder(&folder, &telling.subject.root, &mut published)
    {
        write_files(&mut telling, &folder, &mut published);
        if !matches!(job.platform, Platform::GitHub | Platform::Gitea) {
            github::write_bundle(&telling, &folder.join(BUNDLE), &mut published);
        }
    }
    write_report(&mut telling, &mut published);
    match job.platform {
        Platform::GitHub | Platform::Gitea => {
            github::publish(&mut telling, inputs, job, &mut published);
        }
        Platform::GitLab => gitlab::publish(&mut telling, job, &mut published),
        Platform::None => {}
        _ => others::publish(&mut telling, job, &mut published),
    }
    if !published.warnings.is_empty() {
        github::warn(job.platform, &published.warnings.join("\n"));
    }
    if let Some(dir) = &telling.subject.run_dir {
        // What is not noted is told twice, which every surface bears.
        let _ = telling.ledger.write(dir);
    }
    published
}

/// Returns how long the surfaces that need a network may take.
fn time_for(telling: &Telling) -> Duration {
    if telling.hurried { REMOTE_HURRIED } else { REMOTE }
}

/// Shows that a run goes on, where a platform can show it.
pub fn announce(known: &Known, inputs: &Inputs, job: &Job) {
    if job.platform == Platform::GitHub {
        github::announce(known, inputs, job);
    }
}

/// Writes what the summary says into the run's folder, for steps that put it elsewhere.
fn write_report(telling: &mut Telling, published: &mut Published) {
    let Some(dir) = &telling.subject.run_dir else { return };
    let path = dir.join(REPORT);
    match formats::write_whole(dir, &path, markdown::summary(&telling.subject).as_bytes()) {
        Ok(()) => {
            telling.outputs.push(("report".to_owned(), path.to_string_lossy().into_owned()));
        }
        Err(error) => published.warn(format!("no report was written: {error}")),
    }
}

/// Says whether reports may be written to a folder; a link in the tree may be exec's.
fn is_own_folder(folder: &Path, root: &Path, published: &mut Published) -> bool {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let is_link = std::fs::symlink_metadata(&whole).is_ok_and(|found| found.is_symlink());
    let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let inside = whole.parent().and_then(|above| std::fs::canonicalize(above).ok());
    let refused = is_link && inside.is_some_and(|above| above.starts_with(root));
    if refused {
        published.warn(format!(
            "no reports were written: {} is a link in the tree, which leads elsewhere",
            folder.display()
        ));
    }
    !refused
}

fn write_files(telling: &mut Telling, folder: &Path, published: &mut Published) {
    let summary = markdown::summary(&telling.subject);
    let written = formats::write_all(&telling.subject, &summary, folder);
    telling.ledger.files = written.failed.is_empty();
    published.files = written.files;
    for error in written.failed {
        published.warn(format!("a report is missing: {error}"));
    }
}

/// Runs what needs a network, with a limit; a signal leaves the rest to the post step.
fn remotely<T>(
    limit: Duration,
    work: impl Future<Output = T>,
    otherwise: impl FnOnce(&'static str) -> T,
) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return otherwise("no network could be set up") };
    let told = runtime.block_on(async {
        tokio::select! {
            biased;
            () = signals::no_time_is_left() => otherwise("the job was cancelled"),
            done = work => done,
            () = tokio::time::sleep(limit) => otherwise("the platform answered too slowly"),
        }
    });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    told
}
