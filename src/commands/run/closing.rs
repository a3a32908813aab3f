//! Closes a run: the patch, the delivery, the final event, the clean-up.

use super::in_place;
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
use crate::workspace::gits::find_nested;
use crate::workspace::journal::Journal;
use crate::workspace::patch::{PatchFacts, write_patch};
use crate::workspace::wanted::write_wanted;
use crate::workspace::{branch, deliver};
use serde_json::{Value, json};
use std::io::Write;

/// What became of the result.
#[derive(Debug, Clone, Default)]
pub struct Delivery {
    /// `apply`, `branch`, `patch` or `none`; `in_place` where the loop worked in the caller's tree.
    pub mode: String,
    /// `applied`, `branched`, `patched`, `in_place`, `nothing`, `refused`.
    pub state: String,
    /// What the patch changes.
    pub patch: PatchFacts,
    /// Whether the patch is the `final` state, the `accepted` one, or, in place, the `last` one.
    pub of: String,
    /// Why it was refused, the branch, or how to take it back.
    pub what: String,
    /// The files that kept it from being applied, each with why.
    pub conflicts: Vec<String>,
    /// The command that takes the result over, where it is not in the tree yet.
    pub command: String,
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
    writer.append_final(end.body()?)?;
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
    let iterations = history.map_or(opened.recorder.iterations(), |history| history.iterations);
    site.live.enter("delivery", iterations);
    let mut halt = halt;
    let mut delivery = Delivery::default();
    let root = site.caller.root.clone();
    if let Some(history) = history
        && let Err(error) =
            hand_over(site, &mut opened.recorder, &opened.run, history, &halt, &mut delivery)
    {
        let fault = fault_of(&error);
        "refused".clone_into(&mut delivery.state);
        delivery.what = error.to_string();
        take_by_hand(site, &opened.run, &mut delivery);
        // What happened around the delivery outranks the halt only where the contract says so.
        if fault.reason < halt.reason {
            halt = Halt {
                reason: fault.reason,
                detail: fault.detail,
                why: fault.what,
                hints: fault.hints,
            };
        }
    }
    if site.spec.workspace.mode == WorkspaceMode::InPlace {
        in_place::remove_placeholder(&root);
    }
    let end =
        End { halt, iterations, elapsed_ms: site.elapsed_ms(), changed: delivery.patch.files > 0 };
    opened.recorder.finish(&end)?;
    opened.site.live.end();
    Ok((end, delivery))
}

/// Removes what only a running run needs; a cache that stays is swept at the next start.
pub fn clean_up(opened: &Opened) {
    let _ = opened.site.forget_cache();
}

/// What is handed over: from what was carried to what the loop came to.
struct Handed {
    carried: String,
    wanted: String,
    t0: String,
    tree: String,
}

fn hand_over(
    site: &mut Site,
    recorder: &mut Recorder,
    run: &RunDir,
    history: &History,
    halt: &Halt,
    delivery: &mut Delivery,
) -> Result<()> {
    let Some(t0) = history.baseline.as_ref().map(|state| state.tree.clone()) else {
        return Ok(());
    };
    // A run that was stopped before it had looked at the tree has nothing to hand over.
    if t0.is_empty() || history.carried.is_empty() {
        return Ok(());
    }
    let in_place = site.spec.workspace.mode == WorkspaceMode::InPlace;
    let converged = halt.reason == HaltReason::SuccessConditionMet;
    // A green that waits for a person, or got a no, is shown as what it would have been.
    let green = history.waiting.as_ref().is_some_and(|seen| seen.is_confirmed_green());
    let (tree, of) = match (converged || green, in_place) {
        (true, _) => (history.next.tree.clone(), "final"),
        (false, true) => (site.read_tree_now()?, "last"),
        (false, false) => (history.accepted.tree.clone(), "accepted"),
    };
    let mode = match (converged, site.spec.workspace.deliver) {
        (false, _) => Deliver::Patch,
        (true, mode) => mode,
    };
    let carried = history.carried.clone();
    // In place all of it is in the caller's tree, and the patch takes all of it back.
    let wanted = match in_place {
        true => tree.clone(),
        false => write_wanted(&site.store, &carried, &t0, &tree)?,
    };
    let handed = Handed { carried, wanted, t0, tree };
    let aside = match &site.git_places {
        Some(places) => {
            let repo = site.store.repository();
            deliver::drop_set_user_id(repo, &handed.carried, &handed.wanted, &site.caller.root)?;
            places.set_aside(
                &site.caller.root,
                &find_nested(&site.caller.root, &|| false)?,
                run.path(),
            )?
        }
        None => Vec::new(),
    };
    delivery.mode = if in_place { "in_place" } else { mode.word() }.to_owned();
    of.clone_into(&mut delivery.of);
    recorder.enter(Phase::Delivery)?;
    delivery.patch = write_patch_file(site, run, &handed.carried, &handed.wanted)?;
    delivery.state = if delivery.patch.files == 0 { "nothing" } else { "patched" }.to_owned();
    if in_place && delivery.patch.files > 0 {
        "in_place".clone_into(&mut delivery.state);
        let patch = relative(&site.caller.root, &run.patch());
        let blocked = halt.reason == HaltReason::BlockedPathModified || !aside.is_empty();
        // Neither git's own folders nor what git ignores is in a patch.
        delivery.what = match blocked {
            false => format!("git apply -R {} takes it back", patch.display()),
            true => format!(
                "git apply -R {} takes the files back, and nothing of what was changed in .git and in ignored folders",
                patch.display()
            ),
        };
    } else if delivery.patch.files > 0 || Journal::read(run.path())?.is_some() {
        match mode {
            Deliver::Apply => apply(site, run, &handed, delivery)?,
            Deliver::Branch => make_branch(site, run, &handed, delivery)?,
            Deliver::Patch | Deliver::None => {}
        }
    }
    if !aside.is_empty() {
        site.live.say(&format!(
            "exec made {}, which git would obey: set aside in {}",
            aside.join(", "),
            relative(&site.caller.root, &run.path().join(in_place::ASIDE)).display()
        ));
    }
    let patch = delivery.patch;
    let patch_file = run.patch();
    let digest = std::fs::read(&patch_file).map(|bytes| crate::domain::hex::sha256(&bytes)).ok();
    let body = json!({
        "mode": delivery.mode, "state": delivery.state, "of": delivery.of, "what": delivery.what,
        "conflicts": delivery.conflicts, "command": delivery.command,
        "carried": handed.carried, "t0": handed.t0, "tree": handed.tree, "wanted": handed.wanted,
        "patch": {
            "path": relative(&site.caller.root, &patch_file).to_string_lossy(),
            "sha256": digest, "files": patch.files, "added": patch.added, "removed": patch.removed,
        },
    });
    recorder.write(kind::DELIVERY, body)
}

/// Writes the patch of a result that was not handed over yet; also gives the tree it leads to.
///
/// # Errors
/// As the delivery.
pub(super) fn write_final_patch(
    site: &Site,
    run: &RunDir,
    carried: &str,
    t0: &str,
    tree: &str,
) -> Result<(PatchFacts, String)> {
    let wanted = write_wanted(&site.store, carried, t0, tree)?;
    Ok((write_patch_file(site, run, carried, &wanted)?, wanted))
}

fn write_patch_file(site: &Site, run: &RunDir, carried: &str, wanted: &str) -> Result<PatchFacts> {
    let path = run.patch();
    let failed =
        |e| Error::io(Kind::WorkspaceInvalid, format!("cannot write {}", path.display()), e);
    let fresh = path.with_extension("diff.new");
    let mut file = std::io::BufWriter::new(crate::foreign::create_anew(&fresh).map_err(failed)?);
    let repo = site.store.repository();
    let facts = write_patch(repo, carried, wanted, &mut file)?;
    file.flush().map_err(failed)?;
    file.get_ref().sync_data().map_err(failed)?;
    std::fs::rename(&fresh, &path).map_err(failed)?;
    Ok(facts)
}

fn apply(site: &Site, run: &RunDir, handed: &Handed, delivery: &mut Delivery) -> Result<()> {
    let (repo, root) = (site.store.repository(), &site.caller.root);
    match deliver::apply(repo, &handed.carried, &handed.wanted, root, run.path()) {
        Ok(_) => "applied".clone_into(&mut delivery.state),
        Err(error) if error.detail == Some("caller_tree_changed") => {
            refused(site, run, &error, delivery)
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn make_branch(site: &Site, run: &RunDir, handed: &Handed, delivery: &mut Delivery) -> Result<()> {
    let message = format!("loopexec: {} converged", site.spec.name);
    let source = branch::Source {
        repo: site.store.repository(),
        carried: &handed.carried,
        tree: &handed.wanted,
        head: site.head.as_deref(),
        run_id: run.id(),
        message: &message,
        scratch: &site.places.cache.join("branch"),
    };
    match branch::create_branch(&source, &site.caller.root) {
        Ok(made) => {
            "branched".clone_into(&mut delivery.state);
            delivery.command = format!("git merge {}", made.name);
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
    if error.detail == Some("caller_tree_changed") {
        delivery.conflicts.clone_from(&error.hints);
    }
    let files = match delivery.conflicts.is_empty() {
        true => String::new(),
        false => format!(" ({})", delivery.conflicts.join("; ")),
    };
    let patch = relative(&site.caller.root, &run.patch());
    delivery.what = format!("{error}{files}; the whole change is in {}", patch.display());
    take_by_hand(site, run, delivery);
}

/// Names the command that takes over a patch that was written.
fn take_by_hand(site: &Site, run: &RunDir, delivery: &mut Delivery) {
    if delivery.patch.files > 0 {
        let patch = relative(&site.caller.root, &run.patch());
        delivery.command = format!("git apply {}", patch.display());
    }
}
