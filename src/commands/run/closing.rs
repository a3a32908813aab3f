//! Closes a run: the patch, the delivery, the final event, the clean-up.

use super::opening::{Opened, relative};
use super::recorder::Recorder;
use super::site::Site;
use crate::config::spec::{Deliver, WorkspaceMode};
use crate::domain::evidence::Halt;
use crate::domain::history::History;
use crate::domain::reason::HaltReason;
use crate::engine::iterate::fault_of;
use crate::engine::ports::World;
use crate::error::{Error, Kind, Result};
use crate::receipt::record::{End, Start, kind, to_value};
use crate::receipt::rundir::RunDir;
use crate::receipt::state::Phase;
use crate::receipt::writer::Writer;
use crate::workspace::patch::{PatchFacts, write_patch};
use crate::workspace::{branch, copies, deliver, journal};
use serde_json::{Value, json};
use std::io::Write;

/// What became of the result.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// `apply`, `branch`, `patch` or `none`.
    pub mode: String,
    /// `applied`, `branched`, `patched`, `nothing`, `refused`.
    pub state: String,
    /// What the patch changes.
    pub patch: PatchFacts,
    /// Whether the patch is the final state or the accepted one.
    pub of: String,
    /// Why it was refused, or the branch.
    pub what: String,
}

/// Writes a receipt of two events for a run that could not start.
///
/// # Errors
/// `storage_exhausted` when not even those can be made durable.
pub fn end_at_once(writer: &mut Writer, start: &Start, error: &Error) -> Result<End> {
    let fault = fault_of(error);
    let end = End {
        halt: Halt {
            reason: fault.reason,
            detail: fault.detail,
            why: fault.what,
            hints: fault.hints,
        },
        iterations: 0,
        elapsed_ms: 0,
        changed: false,
    };
    if writer.head().is_none()
        && let Value::Object(body) = to_value(start)?
    {
        writer.append(kind::RUN_START, body)?;
    }
    if let Value::Object(mut body) = to_value(&end)? {
        body.insert("exit_class".into(), json!(end.halt.reason.class().name()));
        body.insert("exit_code".into(), json!(end.halt.reason.class().code()));
        writer.append_final(body)?;
    }
    Ok(end)
}

/// Delivers what a run came to and ends its receipt.
///
/// # Errors
/// `storage_exhausted` when the final event cannot be made durable.
pub fn close(
    opened: &mut Opened,
    history: Option<&History>,
    halt: Halt,
) -> Result<(End, Delivery)> {
    let site = &mut opened.site;
    let iterations = history.map_or(0, |history| history.iterations);
    site.live.enter("delivery", iterations);
    let mut halt = halt;
    let mut delivery = Delivery::default();
    if let Some(history) = history {
        match hand_over(site, &mut opened.recorder, &opened.run, history, &halt) {
            Ok(done) => delivery = done,
            // What happened around the delivery outranks the halt only where the contract says so.
            Err(error) => {
                let fault = fault_of(&error);
                if fault.reason < halt.reason {
                    halt = Halt {
                        reason: fault.reason,
                        detail: fault.detail,
                        why: fault.what,
                        hints: fault.hints,
                    };
                } else {
                    delivery.what = error.to_string();
                    delivery.state = "refused".to_owned();
                }
            }
        }
    }
    let end =
        End { halt, iterations, elapsed_ms: site.elapsed_ms(), changed: delivery.patch.files > 0 };
    opened.recorder.finish(&end)?;
    opened.site.live.end();
    Ok((end, delivery))
}

/// Removes what only a running run needs; a cache that stays is swept at the next start.
pub fn clean_up(opened: &Opened) {
    let cache = &opened.site.places.cache;
    let _ = copies::remove(cache);
}

fn hand_over(
    site: &mut Site,
    recorder: &mut Recorder,
    run: &RunDir,
    history: &History,
    halt: &Halt,
) -> Result<Delivery> {
    let Some(t0) = history.baseline.as_ref().map(|state| state.tree.clone()) else {
        return Ok(Delivery::default());
    };
    let converged = halt.reason == HaltReason::SuccessConditionMet;
    let (tree, of) = match converged {
        true => (history.next.tree.clone(), "final"),
        false => (history.accepted.tree.clone(), "accepted"),
    };
    let mode = match (converged, site.spec.workspace.deliver) {
        (false, _) => Deliver::Patch,
        (true, mode) => mode,
    };
    let resumed = journal::Journal::read(run.path())?.is_some();
    let patch = write_patch_file(site, run, &t0, &tree)?;
    let mut delivery = Delivery {
        mode: mode.word().to_owned(),
        state: if patch.files == 0 { "nothing" } else { "patched" }.to_owned(),
        patch,
        of: of.to_owned(),
        what: String::new(),
    };
    recorder.enter(Phase::Delivery)?;
    let in_place = site.spec.workspace.mode == WorkspaceMode::InPlace;
    if patch.files > 0 && !in_place || resumed {
        match mode {
            Deliver::Apply => apply(site, run, &t0, &tree, &mut delivery)?,
            Deliver::Branch => make_branch(site, run, &tree, &mut delivery)?,
            Deliver::Patch | Deliver::None => {}
        }
    }
    let patch_file = run.patch();
    let digest = std::fs::read(&patch_file).map(|bytes| crate::domain::hex::sha256(&bytes)).ok();
    let body = json!({
        "mode": delivery.mode, "state": delivery.state, "of": delivery.of, "what": delivery.what,
        "t0": t0, "tree": tree,
        "patch": {
            "path": relative(&site.caller.root, &patch_file).to_string_lossy(),
            "sha256": digest, "files": patch.files, "added": patch.added, "removed": patch.removed,
        },
    });
    recorder.write(kind::DELIVERY, body)?;
    Ok(delivery)
}

fn write_patch_file(site: &Site, run: &RunDir, t0: &str, tree: &str) -> Result<PatchFacts> {
    let path = run.patch();
    let failed =
        |e| Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", path.display()), e);
    let fresh = path.with_extension("diff.new");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&fresh).map_err(failed)?);
    let facts = write_patch(site.store.repository(), t0, tree, &mut file)?;
    file.flush().map_err(failed)?;
    file.get_ref().sync_data().map_err(failed)?;
    std::fs::rename(&fresh, &path).map_err(failed)?;
    Ok(facts)
}

fn apply(site: &Site, run: &RunDir, t0: &str, tree: &str, delivery: &mut Delivery) -> Result<()> {
    match deliver::apply(site.store.repository(), t0, tree, &site.caller.root, run.path()) {
        Ok(_) => "applied".clone_into(&mut delivery.state),
        Err(error) if error.detail == Some("caller_tree_changed") => {
            refused(site, run, &error, delivery)
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn make_branch(site: &Site, run: &RunDir, tree: &str, delivery: &mut Delivery) -> Result<()> {
    let message = format!("loopexec: {} converged", site.spec.name);
    let source = branch::Source {
        repo: site.store.repository(),
        tree,
        head: site.head.as_deref(),
        run_id: run.id(),
        message: &message,
        scratch: &site.places.cache.join("branch"),
    };
    match branch::create_branch(&source, &site.caller.root) {
        Ok(made) => {
            "branched".clone_into(&mut delivery.state);
            delivery.what = made.name;
        }
        Err(error) if error.kind == Kind::WorkspaceInvalid => refused(site, run, &error, delivery),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// A result that could not be handed over changes nothing: the patch is there.
fn refused(site: &Site, run: &RunDir, error: &Error, delivery: &mut Delivery) {
    "refused".clone_into(&mut delivery.state);
    delivery.what = format!(
        "{error}; the whole change is in {}",
        relative(&site.caller.root, &run.patch()).display()
    );
}
