//! The newest bundle of a loop, for `resume: latest`.
//!
//! Names are no proof: any job of the repository may upload an artifact of any name, one of a pull
//! request from a fork too, and what is resumed is run. So a bundle counts only if it comes from the
//! branch and the repository that this run is about, whose people can change what runs here anyway.

use crate::ci::http::Failed;
use crate::domain::fold::is_resumable;
use crate::domain::reason::HaltReason;
use crate::error::{Error, Kind, Result};
use crate::receipt::bundle;
use crate::receipt::record::{Compare, fold};
use crate::receipt::rundir::{Home, RunDir};
use sha2::{Digest, Sha256};
use std::future::Future;
use std::io::Read;
use std::path::Path;

/// The attempts whose names are looked for: the artifacts of an attempt carry its number.
const ATTEMPTS: u64 = 5;

/// As many attempts as a run of a workflow can have: GitHub's changelog of 2026-04-10 allows 50 re-runs.
const MAX_ATTEMPTS: u64 = 51;

/// One artifact of a repository, as its API lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// Its id; a newer artifact has a higher one.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub size: u64,
    /// When it was uploaded, as the server tells it: what is in it may say anything.
    pub created_at: String,
    /// `sha256:…` of the zip, where the server tells it.
    pub digest: Option<String>,
    /// The branch of the run that made it.
    pub head_branch: Option<String>,
    /// The id of the repository that branch is in.
    pub head_repository: Option<u64>,
}

/// Where a bundle has to come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The branch this run is about: of a pull request its head.
    pub branch: String,
    /// The id of the repository that branch is in.
    pub repository: u64,
}

/// The artifacts of a repository.
pub trait Shelf {
    /// Lists the artifacts of exactly this name that can still be downloaded, in any order.
    fn artifacts_named(
        &self,
        name: &str,
    ) -> impl Future<Output = std::result::Result<Vec<Listed>, Failed>>;

    /// Downloads the zip of an artifact to a file that is not there yet.
    fn download_artifact(
        &self,
        id: u64,
        to: &Path,
    ) -> impl Future<Output = std::result::Result<(), Failed>>;
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The name that artifacts of the loop have, without the attempt ([`super::base_name`]); or
    /// where the loop file gives a name, that one.
    pub name: String,
    /// Which attempt of its workflow's run looks: those before it had as many names.
    pub attempt: u64,
    /// Where it has to come from.
    pub origin: Origin,
}

/// What was found.
#[derive(Debug)]
pub enum Latest {
    /// There is no bundle of this loop and branch: a first run.
    None,
    /// The newest one is of a run whose loop was decided; nothing is left to go on with.
    Ended {
        /// The run.
        run_id: String,
        /// Why it halted.
        reason: HaltReason,
    },
    /// This run can be gone on with; it stands among the tree's runs: `run --resume ID`.
    Resumable {
        /// The run.
        run: RunDir,
        /// When its bundle was uploaded.
        created_at: String,
    },
}

/// Finds the newest bundle of a loop, takes it in among the runs of a tree, and verifies it.
///
/// # Errors
/// `workspace_invalid` when the artifacts cannot be listed or downloaded; what
/// [`bundle::import`] refuses. An older bundle is never taken instead: what it lacks was done.
pub async fn fetch_latest(shelf: &impl Shelf, wanted: &Wanted, home: &Home) -> Result<Latest> {
    let failed = |doing: &str, failed: &Failed| {
        Error::new(
            Kind::WorkspaceInvalid,
            format!("the artifacts of this repository cannot be {doing}: {}", failed.what),
        )
        .hint("the job needs the permission `actions: read`")
    };
    let mut newest: Option<Listed> = None;
    for name in names(&wanted.name, wanted.attempt) {
        let listed = shelf.artifacts_named(&name).await.map_err(|e| failed("listed", &e))?;
        let ours = listed.into_iter().filter(|one| one.name == name && counts(one, &wanted.origin));
        newest = newest.into_iter().chain(ours).max_by_key(|listed| listed.id);
    }
    let Some(newest) = newest else { return Ok(Latest::None) };
    if newest.size > bundle::MAX_BUNDLE {
        let what = format!("the artifact {:?} is too large for a bundle", newest.name);
        return Err(Error::new(Kind::WorkspaceInvalid, what));
    }
    let cannot = |e| Error::io(Kind::WorkspaceInvalid, "cannot keep the bundle for a moment", e);
    let folder = tempfile::tempdir().map_err(cannot)?;
    let zip = folder.path().join("bundle.zip");
    shelf.download_artifact(newest.id, &zip).await.map_err(|e| failed("downloaded", &e))?;
    if let Some(digest) = &newest.digest {
        let found = digest_of(&zip).map_err(cannot)?;
        if *digest != format!("sha256:{found}") {
            let what = format!("the artifact {:?} was not downloaded as it was kept", newest.name);
            return Err(Error::new(Kind::ObjectiveUnverified, what));
        }
    }
    let run = bundle::import(&zip, home)?;
    let folded = fold(&run, Compare::Strict, &mut |_| Ok(()))?;
    Ok(match folded.end {
        Some(end) if !is_resumable(end.halt.reason) && folded.waiting.is_none() => {
            Latest::Ended { run_id: folded.run_id, reason: end.halt.reason }
        }
        _ => Latest::Resumable { run, created_at: newest.created_at },
    })
}

/// Returns the names that artifacts of a loop may have: as given, of each attempt, and each with the
/// number of one conflict.
fn names(base: &str, attempt: u64) -> Vec<String> {
    let attempts =
        (1..=attempt.clamp(ATTEMPTS, MAX_ATTEMPTS)).map(|attempt| format!("{base}-{attempt}"));
    let attempts = attempts.flat_map(|name| [format!("{name}-2"), name]);
    std::iter::once(base.to_owned()).chain(attempts).collect()
}

fn counts(listed: &Listed, origin: &Origin) -> bool {
    listed.head_branch.as_deref() == Some(&*origin.branch)
        && listed.head_repository == Some(origin.repository)
}

fn digest_of(path: &Path) -> std::io::Result<String> {
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    let mut file = std::fs::File::open(path)?;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(crate::domain::hex::encode(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bundles_of_the_branch_and_repository_count() {
        let origin = Origin { branch: "topic".into(), repository: 7 };
        let ours = Listed {
            head_branch: Some("topic".into()),
            head_repository: Some(7),
            ..Listed::default()
        };
        assert!(counts(&ours, &origin));
        let fork = Listed { head_repository: Some(8), ..ours.clone() };
        let unknown = Listed { head_repository: None, ..ours.clone() };
        let other = Listed { head_branch: Some("main".into()), ..ours };
        for listed in [fork, unknown, other] {
            assert!(!counts(&listed, &origin), "{listed:?}");
        }
    }

    #[test]
    fn every_attempt_and_one_conflict_are_looked_for() {
        let names = names("loopexec-a-b", 1);
        assert!(names.contains(&"loopexec-a-b-1".to_owned()));
        assert!(names.contains(&"loopexec-a-b-5-2".to_owned()));
        assert_eq!(names.len(), 11);
        assert!(super::names("a", 7).contains(&"a-7".to_owned()));
        assert_eq!(super::names("a", u64::MAX).len(), 103);
    }
}
