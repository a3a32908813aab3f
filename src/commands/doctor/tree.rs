//! Rows about the caller's tree: its kind, its lock, where copies of it will lie and how.

use super::evidence_dir;
use super::rows::Row;
use crate::commands::planning::carry_of;
use crate::commands::run::opening::{Ready, check_delivery};
use crate::config::spec::{LoopSpec, OnDirty, WorkspaceMode};
use crate::error::{Error, Kind, Result};
use crate::process::{Capability, OverlayMode};
use crate::receipt::lock::read_holder;
use crate::receipt::rundir::Home;
use crate::report::text::one_line;
use crate::workspace::at::Descent;
use crate::workspace::caller::{Caller, CallerKind, Head};
use crate::workspace::carry::{self, Carry, Item, Measure, Visitor};
use crate::workspace::{make, paths, places, scan};
use nix::sys::stat::FileStat;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// Below this much free space a run is likely to stop.
const LITTLE: u64 = 1 << 30;

/// What sort of tree it is.
///
/// # Errors
/// An interruption.
pub fn kind(ready: &Ready, spec: Option<&LoopSpec>) -> Result<Row> {
    let cancel = ready.supervisor.cancel();
    let stop = || cancel.is_raised();
    let caller = &ready.caller;
    if let Some(Err(error)) = spec.map(|spec| check_delivery(spec, caller, None)) {
        return Ok(Row::fail("tree", &error));
    }
    let CallerKind::Git { object_format, head, git_dir, common_dir } = &caller.kind else {
        return Ok(Row::warn("tree", "a plain folder: all it holds is t0")
            .mend("git init, if the result should be a commit or a branch"));
    };
    let head = match head {
        Head::Branch(name) => format!("branch {}", paths::escape(name)),
        Head::Detached => "detached HEAD".to_owned(),
        Head::Unborn(_) => "no commit yet".to_owned(),
    };
    let linked = if git_dir == common_dir { "" } else { ", linked worktree" };
    let dirty = caller.read_dirty(&stop)?;
    let what = format!("git, {head}, {}{linked}", object_format.name());
    let refuses = spec.is_some_and(|spec| spec.workspace.on_dirty == OnDirty::Refuse);
    Ok(match (dirty, refuses) {
        (false, _) => Row::pass("tree", format!("{what}, clean")),
        (true, false) => {
            Row::pass("tree", format!("{what}; uncommitted changes, which are part of t0"))
        }
        (true, true) => Row::fail(
            "tree",
            &Error::new(Kind::WorkspaceInvalid, format!("{what}; uncommitted changes"))
                .hint("commit or stash them, or set `workspace: {on_dirty: include}`"),
        ),
    })
}

/// The folder of the evidence can be written.
pub fn evidence(ready: &Ready, spec: Option<&LoopSpec>) -> Row {
    use nix::unistd::{AccessFlags, access};
    let root = &ready.caller.root;
    let dir = root.join(evidence_dir(spec));
    let at = dir.ancestors().find(|folder| folder.exists()).unwrap_or(root);
    match access(at, AccessFlags::W_OK) {
        Ok(()) if at.is_dir() => Row::pass("evidence", format!("{} can be written", dir.display())),
        Ok(()) => Row::fail(
            "evidence",
            &Error::new(Kind::WorkspaceInvalid, format!("{} is no folder", at.display())),
        ),
        Err(e) => Row::fail(
            "evidence",
            &Error::new(Kind::WorkspaceInvalid, format!("cannot write in {}", at.display()))
                .because(e)
                .hint("without a receipt no run starts"),
        ),
    }
}

/// Nobody else works on the tree.
pub fn lock(ready: &Ready, spec: Option<&LoopSpec>) -> Row {
    let home = match Home::find(&ready.caller.root, Path::new(evidence_dir(spec))) {
        Ok(Some(home)) => home,
        Ok(None) => return Row::pass("lock", "free: there was no run here yet"),
        Err(error) => return Row::fail("lock", &error),
    };
    match read_holder(&home.lock_path()) {
        Ok(None) => Row::pass("lock", "free"),
        Ok(Some(holder)) => Row::fail(
            "lock",
            &Error::new(
                Kind::WorkspaceInvalid,
                format!(
                    "process {} holds the tree for the run {}",
                    holder.pid,
                    one_line(&holder.run_id, 64)
                ),
            )
            .hint("wait until it ends, or stop it; loopexec status shows what it does"),
        ),
        Err(error) => Row::fail("lock", &error),
    }
}

/// Where copies lie, how they are made, and what has to be copied.
///
/// # Errors
/// An interruption, or a canary that cannot be run at all.
pub fn places(ready: &mut Ready, spec: Option<&LoopSpec>) -> Result<Vec<Row>> {
    if spec.is_some_and(|spec| spec.workspace.mode == WorkspaceMode::InPlace) {
        return Ok(vec![Row::warn(
            "workspace",
            "in_place: exec works in your own tree, without a boundary",
        )]);
    }
    let scratch = match Scratch::make(ready) {
        Ok(scratch) => scratch,
        Err(error) => return Ok(vec![Row::fail("cache", &error)]),
    };
    let copies = copies(&ready.supervisor.probe(&scratch.folder)?);
    let reflink = make::can_reflink(&ready.caller.root, &scratch.folder);
    let (carry, bytes) = measure(ready, spec, reflink)?;
    Ok(vec![cache(&scratch.caches, bytes, reflink), copies, carry])
}

/// A folder where those of runs lie, for as long as this lives.
pub(super) struct Scratch {
    /// The folder.
    pub folder: PathBuf,
    caches: PathBuf,
    was_there: bool,
}

impl Scratch {
    /// Makes one.
    pub fn make(ready: &Ready) -> Result<Self> {
        let caches = places::choose_caches(&ready.caller.root, &ready.surroundings)?;
        let was_there = caches.exists();
        places::create_folder(&caches)?;
        // No run id begins with a dot, so no run that starts meanwhile sweeps it away.
        let made = tempfile::Builder::new().prefix(".doctor-").tempdir_in(&caches);
        let folder = made.map_err(|e| {
            Error::io(Kind::WorkspaceInvalid, format!("cannot write in {}", caches.display()), e)
        })?;
        Ok(Self { folder: folder.keep(), caches, was_there })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = crate::workspace::at::remove_tree(&self.folder);
        if !self.was_there {
            // It stays if a run has begun to use it.
            let _ = std::fs::remove_dir(&self.caches);
        }
    }
}

fn copies(capability: &Capability) -> Row {
    let name = "copies";
    match capability {
        Capability::Namespaces { overlay: OverlayMode::Unavailable } => Row::warn(
            name,
            "namespaces work and overlays do not: the workspace stands at your path, copies are made byte by byte",
        ),
        Capability::Namespaces { .. } => Row::pass(
            name,
            "namespaces and overlays work: the workspace stands at your path, copies cost what changed",
        ),
        Capability::Plain { why } => Row::warn(
            name,
            format!("no namespaces: the workspace stands elsewhere than your tree, copies are made byte by byte ({})", one_line(why, 200)),
        )
        .mend("carried files that name your path (an editable install, target/) may break; make them in setup"),
    }
}

fn cache(caches: &Path, bytes: u64, reflink: bool) -> Row {
    let name = "cache";
    let Ok(found) = nix::sys::statvfs::statvfs(caches) else {
        return Row::warn(name, format!("{}: its free space is not known", caches.display()));
    };
    let free = wide(found.blocks_available()).saturating_mul(wide(found.fragment_size()));
    let what = format!("{}, {} free", caches.display(), size(free));
    if !reflink && free < bytes {
        let error = Error::new(
            Kind::StorageExhausted,
            format!("{what}, and {} have to be copied", size(bytes)),
        );
        return Row::fail(name, &error.hint("free space, or set LOOPEXEC_CACHE to another disk"));
    }
    match free < LITTLE {
        true => Row::warn(name, what).mend("free space, or set LOOPEXEC_CACHE to another disk"),
        false => Row::pass(name, what),
    }
}

/// Measures the ignored files that are carried along.
fn measure(ready: &Ready, spec: Option<&LoopSpec>, reflink: bool) -> Result<(Row, u64)> {
    let cancel = ready.supervisor.cancel();
    let stop = || cancel.is_raised();
    let caller: &Caller = &ready.caller;
    let chosen = spec.map_or(Carry::Auto, |spec| carry_of(&spec.workspace.carry));
    let limit = spec.map_or(2 << 30, |spec| spec.workspace.carry_max);
    if chosen == Carry::None {
        return Ok((Row::none("carry", "carry: none, no ignored file comes along"), 0));
    }
    let ignored = scan::read_scan(caller, &stop)?.ignored;
    let mut look = Look::default();
    carry::walk(&caller.root, &ignored, &chosen, &mut look, &stop)?;
    let bytes = look.measure.bytes;
    let mut what = format!("{} of ignored files come along", size(bytes));
    if reflink {
        what.push_str(", shared without copying");
    } else {
        what.push_str(&format!(", at most {}", size(limit)));
        if let Err(error) = look.measure.check(limit) {
            return Ok((Row::fail("carry", &error), bytes));
        }
    }
    let some: Vec<String> =
        look.behind.iter().take(5).map(|(path, why)| format!("{path} ({why})")).collect();
    let row = match look.behind.len() {
        0 => Row::pass("carry", what),
        n => Row::warn("carry", format!("{what}; {n} left behind: {}", some.join(", ")))
            .mend("a check that needs them can name them: `workspace: {carry: [PATH, …]}`"),
    };
    Ok((row, bytes))
}

/// Measures, and notes what stays behind.
#[derive(Default)]
struct Look {
    measure: Measure,
    behind: Vec<(String, &'static str)>,
}

impl Visitor for Look {
    fn enter(&mut self, name: &CStr, stat: &FileStat, item: Item) -> Result<()> {
        self.measure.enter(name, stat, item)
    }

    fn leave(&mut self, from: &Descent, name: &CStr, stat: &FileStat) -> Result<()> {
        self.measure.leave(from, name, stat)
    }

    fn leaf(&mut self, from: &Descent, name: &CStr, stat: &FileStat, item: Item) -> Result<()> {
        self.measure.leaf(from, name, stat, item)
    }

    fn behind(&mut self, path: &[u8], why: &'static str) {
        self.behind.push((paths::escape(path), why));
    }
}

/// Widens a count, which is narrower on some systems.
fn wide(count: impl Into<u64>) -> u64 {
    count.into()
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{}.{} GiB", bytes >> 30, ((bytes & ((1 << 30) - 1)) * 10) >> 30),
    }
}
