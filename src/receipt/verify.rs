//! The whole of a run's evidence held to itself: chain, fold, blobs and patch.
//!
//! The fold is `record`'s; what a bundle may lack is `manifest`'s. No process is run and nothing
//! written.

use super::blobs::BlobStore;
use super::disk::Durability;
use super::format::Event;
use super::manifest::{LeftOut, Manifest};
use super::record::{Compare, Folded, Step, fold, kind};
use super::rundir::RunDir;
use crate::domain::hex;
use crate::domain::observation::{BaselineObservation, CheckRun, Observation, RunFact};
use crate::error::{Error, Kind, Result};
use serde_json::Value;
use sha2::Digest;
use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read};

/// What a whole check of a run's evidence showed.
#[derive(Debug)]
pub struct Verified {
    /// The fold.
    pub folded: Folded,
    /// Blobs that runs name, each read and digested.
    pub blobs: u64,
    /// Whether a patch is recorded and there; it was digested then.
    pub patch: bool,
    /// What the bundle says it left out; nothing where the folder is no bundle.
    pub left_out: Vec<LeftOut>,
}

/// Checks chain, fold, blobs and patch of a run, and shows each step to `visit`.
///
/// Where the folder is a bundle that says it left an output or the patch out, their absence is no
/// error; what is there has to hold all the same.
///
/// # Errors
/// `objective_unverified` names the line that is altered, or that something does not follow from.
pub fn verify(run: &RunDir, visit: &mut dyn FnMut(&Step<'_>)) -> Result<Verified> {
    let store = BlobStore::new(run.blobs(), Durability::Event);
    let manifest = Manifest::read(run.path(), run.id())?;
    let left_out = manifest.iter().flat_map(|manifest| &manifest.left_out);
    let left_out: HashSet<&str> = left_out.map(|left| left.path.as_str()).collect();
    let may_lack = |path: &str| {
        left_out.contains(path)
            && std::fs::symlink_metadata(run.path().join(path))
                .is_err_and(|e| e.kind() == ErrorKind::NotFound)
    };
    let (mut blobs, mut patch) = (0, None);
    let folded = fold(run, Compare::Strict, &mut |step| {
        for name in kept(&step) {
            if may_lack(&format!("blobs/{}", name.trim_start_matches("sha256:"))) {
                continue;
            }
            store.read(name)?;
            blobs += 1;
        }
        if let Step::Other(event) = &step
            && event.kind == kind::DELIVERY
        {
            patch = patch_of(event).map(|digest| (event.seq + 1, digest));
        }
        visit(&step);
        Ok(())
    })?;
    let patch = patch.filter(|_| !may_lack("patch.diff"));
    if let Some((line, digest)) = &patch {
        check_patch(run, *line, digest)?;
    }
    let left_out = manifest.map(|manifest| manifest.left_out).unwrap_or_default();
    Ok(Verified { folded, blobs, patch: patch.is_some(), left_out })
}

/// Returns the names of the blobs with the output of the commands of a step.
fn kept<'a>(step: &'a Step<'_>) -> Vec<&'a str> {
    let facts: Vec<&RunFact> = match step {
        Step::Baseline(observation) => {
            let BaselineObservation { setup, runs, confirmations, diagnosis, .. } = *observation;
            let checks = runs.iter().chain(confirmations).chain(diagnosis);
            setup.iter().chain(checks.map(|check| &check.run)).collect()
        }
        Step::Observed(observation) => {
            let Observation { exec, check, confirmations, set_aside, rerun, .. } = *observation;
            let Observation { bare, own, canaries, held_out, judged, .. } = *observation;
            let planted =
                canaries.iter().flat_map(|canary| [Some(&canary.run), canary.at_start.as_ref()]);
            let checks = check.iter().chain(confirmations).chain(set_aside).chain(rerun);
            let checks = checks.chain(bare).chain(own).chain(planted.flatten());
            let checks = checks.map(|check: &CheckRun| &check.run);
            let vetoes = held_out.iter().chain(judged.iter().map(|veto| &veto.run));
            exec.iter().map(|exec| &exec.run).chain(checks).chain(vetoes).collect()
        }
        _ => Vec::new(),
    };
    facts
        .into_iter()
        .flat_map(|fact| [&fact.stdout, &fact.stderr])
        .filter_map(|stream| stream.kept.as_deref())
        .collect()
}

fn patch_of(event: &Event) -> Option<String> {
    event.body.get("patch")?.get("sha256").and_then(Value::as_str).map(str::to_owned)
}

fn check_patch(run: &RunDir, line: u64, digest: &str) -> Result<()> {
    let path = run.patch();
    let refuse = |why: &str| {
        Error::new(
            Kind::ObjectiveUnverified,
            format!("line {line} of the receipt: the patch {} {why}", path.display()),
        )
        .hint("take patch.diff from where the receipt comes from")
    };
    let real = std::fs::symlink_metadata(&path).is_ok_and(|there| there.is_file());
    let file = File::open(&path).ok().filter(|_| real).ok_or_else(|| refuse("is not there"))?;
    let found = digest_of(file).map_err(|e| refuse("cannot be read").because(e))?;
    match found == digest {
        true => Ok(()),
        false => Err(refuse("is not the one that was delivered")),
    }
}

fn digest_of(mut file: File) -> std::io::Result<String> {
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex::encode(&hasher.finalize())),
            n => hasher.update(&buffer[..n]),
        }
    }
}
