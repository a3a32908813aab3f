//! `deliver: apply`: writes what the loop changed into the caller's working tree, all or nothing.
//!
//! Every file is at each moment either the one of t0 or the delivered one. A journal comes first,
//! then all new contents are staged and made durable, then names are exchanged one by one; an
//! interrupted delivery is completed by [`finish`]. Branches are the duty of `branch`, patches of
//! `patch`.

use super::beneath::{Beneath, Found, Way};
use super::copies::{remove, with_execute};
use super::copying::failed;
use super::delta::{Change, Delta, Form, Held, read_blob, read_delta};
use super::journal::Journal;
use super::standing::State;
use crate::error::{Error, Kind, Result};
use git2::Repository;
use nix::errno::Errno;
use nix::fcntl::renameat;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, symlink};
use std::path::{Path, PathBuf};

/// At most this many paths are named in one error.
const NAMED: usize = 10;
/// From this many staged files on, one sync of the file system is cheaper than one for each.
const SYNC_ALL_FROM: usize = 256;

/// What a delivery changed in the caller's tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Files and symlinks that were written.
    pub written: Vec<PathBuf>,
    /// Files and symlinks that were removed.
    pub removed: Vec<PathBuf>,
}

impl Delivered {
    fn of(delta: &Delta) -> Self {
        let paths = |is_gone: bool| {
            let changes = delta.changes.iter();
            let some = changes.filter(move |change| change.after.is_none() == is_gone);
            some.map(|change| change.path.clone()).collect()
        };
        Self { written: paths(false), removed: paths(true) }
    }
}

/// Writes the difference from `t0` to `wanted` into the caller's tree `root`.
///
/// A delivery that the run's folder says was completed is not made again.
///
/// Trees are hexadecimal ids in `repo`; `run` is the run's own folder, which holds the journal. If
/// any file that would change is not what t0 holds (bytes, type, execute bit; a new one must be
/// absent or already the wanted one), nothing is written and the error with the detail
/// `caller_tree_changed` names the files. Permission bits other than execute are kept. Symlinks are
/// never followed. A full disk while staging is `storage_exhausted`, with the tree as it was.
pub fn apply(
    repo: &Repository,
    t0: &str,
    wanted: &str,
    root: &Path,
    run: &Path,
) -> Result<Delivered> {
    if let Some(journal) = Journal::read(run)? {
        if journal.t0 == t0 && journal.wanted == wanted {
            return Ok(finish(repo, root, run)?.unwrap_or_default());
        }
        return Err(Error::new(
            Kind::WorkspaceInvalid,
            format!("another delivery of the run in {} was interrupted", run.display()),
        )
        .hint("Complete it first: `loopexec run --resume` with that run's id."));
    }
    let delta = read_delta(repo, t0, wanted)?;
    if delta == Delta::default() {
        return Ok(Delivered::default());
    }
    // Stopped behind it: the tree is the caller's again, whatever it holds by now.
    if Journal::read_done(run)?.is_some_and(|done| done.t0 == t0 && done.wanted == wanted) {
        return Ok(Delivered::of(&delta));
    }
    let delivery = Delivery::new(repo, root, run, delta)?;
    let states = delivery.read_states()?;
    let differing: Vec<String> = delivery
        .delta
        .changes
        .iter()
        .zip(&states)
        .filter_map(|(change, state)| match state {
            State::T0 => None,
            State::Wanted if change.before.is_none() => None,
            State::Wanted => Some(format!("{}: already changed", change.path.display())),
            State::Neither(why) => Some(format!("{}: {why}", change.path.display())),
        })
        .collect();
    refuse(&differing, "changed while the loop ran, so nothing was written")?;
    let paths = delivery.delta.changes.iter().map(|change| change.path.as_path());
    Journal::new(t0, wanted, paths).write(run)?;
    delivery.complete(&states)
}

/// Takes set-user-id and its kin from the files that differ between two snapshots, where an agent wrote them
/// into the caller's tree itself.
///
/// # Errors
/// `workspace_invalid` where a file that has them cannot be changed.
pub fn drop_set_user_id(repo: &Repository, t0: &str, now: &str, root: &Path) -> Result<()> {
    let beneath = Beneath::open(root)?;
    for change in read_delta(repo, t0, now)?.changes {
        let Found::File(file) = beneath.read_found(&change.path)? else { continue };
        let cannot = |e| failed("take set-user-id from", &root.join(&change.path), e);
        let mode = file.metadata().map_err(cannot)?.mode();
        if mode & 0o7000 != 0 {
            file.set_permissions(Permissions::from_mode(mode & 0o777)).map_err(cannot)?;
        }
    }
    Ok(())
}

/// Completes a delivery that was interrupted; `None` when there is none.
///
/// May be called again and again. A file that is neither t0's nor the delivered one is named in an
/// error with the detail `caller_tree_changed`, and nothing is written then.
pub fn finish(repo: &Repository, root: &Path, run: &Path) -> Result<Option<Delivered>> {
    let Some(journal) = Journal::read(run)? else { return Ok(None) };
    let delta = read_delta(repo, &journal.t0, &journal.wanted)?;
    let delivery = Delivery::new(repo, root, run, delta)?;
    let states = delivery.read_states()?;
    let foreign: Vec<String> = delivery
        .delta
        .changes
        .iter()
        .zip(&states)
        .filter_map(|(change, state)| match state {
            State::Neither(why) => Some(format!("{}: {why}", change.path.display())),
            _ => None,
        })
        .collect();
    refuse(&foreign, "changed since the delivery was interrupted, so it was not completed")?;
    delivery.complete(&states).map(Some)
}

fn refuse(differing: &[String], why: &str) -> Result<()> {
    if differing.is_empty() {
        return Ok(());
    }
    let files = if differing.len() == 1 { "file" } else { "files" };
    let what = format!("{} {files} of the working tree {why}", differing.len());
    let mut error = Error::new(Kind::WorkspaceInvalid, what).detail("caller_tree_changed");
    for line in differing.iter().take(NAMED) {
        error = error.hint(line.clone());
    }
    if differing.len() > NAMED {
        error = error.hint(format!("and {} more", differing.len() - NAMED));
    }
    Err(error)
}

/// A delivery and what its paths are compared with.
pub(super) struct Delivery<'a> {
    pub(super) repo: &'a Repository,
    pub(super) root: Beneath,
    run: &'a Path,
    pub(super) delta: Delta,
    /// Files that go away.
    pub(super) gone: HashSet<PathBuf>,
    pub(super) new_folders: HashSet<PathBuf>,
    pub(super) gone_folders: HashSet<PathBuf>,
}

impl<'a> Delivery<'a> {
    fn new(repo: &'a Repository, root: &Path, run: &'a Path, delta: Delta) -> Result<Self> {
        refuse_own(&delta)?;
        let gone = delta.changes.iter().filter(|change| change.after.is_none());
        Ok(Self {
            repo,
            root: Beneath::open(root)?,
            run,
            gone: gone.map(|change| change.path.clone()).collect(),
            new_folders: delta.new_folders.iter().cloned().collect(),
            gone_folders: delta.gone_folders.iter().cloned().collect(),
            delta,
        })
    }

    /// Brings every path that is still t0's to the wanted state.
    fn complete(&self, states: &[State]) -> Result<Delivered> {
        let pending: Vec<(usize, &Change)> = self
            .delta
            .changes
            .iter()
            .enumerate()
            .filter(|(index, _)| matches!(states[*index], State::T0))
            .collect();
        let untouched = pending.len() == states.len();
        let staged = match self.check_writable(&pending).and_then(|()| self.stage(&pending)) {
            Ok(staged) => staged,
            Err(error) => {
                self.unstage();
                if untouched {
                    Journal::remove(self.run)?;
                }
                return Err(error);
            }
        };
        let touched = self.exchange(&pending, &staged)?;
        for folder in touched {
            if let Way::Open(fd) = self.root.open_folder(&folder)? {
                let full = self.root.full(&folder);
                File::from(fd).sync_all().map_err(|e| failed("sync", &full, e))?;
            }
        }
        self.unstage();
        Journal::close(self.run)?;
        Ok(Delivered::of(&self.delta))
    }

    /// Refuses before anything is written when a folder may not be written to.
    fn check_writable(&self, pending: &[(usize, &Change)]) -> Result<()> {
        use nix::unistd::{AccessFlags, access};
        let folders: BTreeSet<&Path> =
            pending.iter().filter_map(|(_, change)| change.path.parent()).collect();
        for folder in folders {
            for above in folder.ancestors() {
                if let Way::Open(_) = self.root.open_folder(above)? {
                    let full = self.root.full(above);
                    access(&full, AccessFlags::W_OK | AccessFlags::X_OK)
                        .map_err(|e| failed("write to", &full, e.into()))?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Writes all new contents beside the tree and makes them durable.
    fn stage(&self, pending: &[(usize, &Change)]) -> Result<Vec<Option<PathBuf>>> {
        let stage = Journal::stage(self.run);
        remove(&stage)?;
        fs::create_dir(&stage).map_err(|e| failed("create", &stage, e))?;
        let device = fs::metadata(&stage).map_err(|e| failed("read", &stage, e))?.dev();
        let each = pending.len() < SYNC_ALL_FROM;
        let mut staged = Vec::with_capacity(pending.len());
        let mut folders = BTreeSet::from([stage.clone()]);
        for (index, change) in pending {
            let Some(held) = change.after else {
                staged.push(None);
                continue;
            };
            let place = match self.read_nearest_folder(&change.path, device)? {
                None => stage.join(index.to_string()),
                Some(beside) => {
                    folders.insert(self.root.full(&beside));
                    self.root.full(&beside).join(self.beside_name(*index))
                }
            };
            let file = self.write_staged(&place, held, change)?;
            if let (Some(file), true) = (file, each) {
                file.sync_all().map_err(|e| failed("sync", &place, e))?;
            }
            staged.push(Some(place));
        }
        for folder in folders {
            let open = File::open(&folder).map_err(|e| failed("open", &folder, e))?;
            let synced = if each { open.sync_all() } else { sync_file_system(&open) };
            synced.map_err(|e| failed("sync", &folder, e))?;
        }
        Ok(staged)
    }

    /// Returns the nearest folder of a path that is there, if it is on another device than the
    /// stage, from where nothing can be renamed.
    fn read_nearest_folder(&self, path: &Path, device: u64) -> Result<Option<PathBuf>> {
        for above in path.ancestors().skip(1) {
            if let Way::Open(fd) = self.root.open_folder(above)? {
                let full = self.root.full(above);
                let found = File::from(fd).metadata().map_err(|e| failed("read", &full, e))?;
                return Ok((found.dev() != device).then(|| above.to_owned()));
            }
        }
        Ok(None)
    }

    fn beside_name(&self, index: usize) -> OsString {
        format!(".loopexec-delivery-{index}.tmp").into()
    }

    fn write_staged(&self, place: &Path, held: Held, change: &Change) -> Result<Option<File>> {
        let bytes = read_blob(self.repo, held.blob, &change.path)?;
        match fs::remove_file(place) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(failed("replace", place, e));
            }
            _ => {}
        }
        if held.form == Form::Link {
            symlink(OsString::from_vec(bytes), place).map_err(|e| failed("write", place, e))?;
            return Ok(None);
        }
        let before = match self.root.read_found(&change.path)? {
            Found::File(file) => Some(file),
            _ => None,
        };
        let write = || {
            let mode = if held.form == Form::Executable { 0o777 } else { 0o666 };
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(mode).open(place)?;
            file.write_all(&bytes)?;
            if let Some(before) = before {
                let before = before.metadata()?;
                if nix::unistd::geteuid().is_root() {
                    // An owner that this user namespace does not know cannot be given.
                    let _ = fchown(&file, Some(before.uid()), Some(before.gid()));
                }
                // Without set-user-id and its kin: they were given to other bytes than an agent's.
                let mode = with_execute(before.mode() & 0o777, held.form);
                file.set_permissions(Permissions::from_mode(mode))?;
            }
            Ok(file)
        };
        write().map(Some).map_err(|e| failed("write", place, e))
    }

    /// Removes and renames one path after the other; returns the folders it changed.
    fn exchange(
        &self,
        pending: &[(usize, &Change)],
        staged: &[Option<PathBuf>],
    ) -> Result<BTreeSet<PathBuf>> {
        let parent = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
        let mut touched = BTreeSet::new();
        for (_, change) in pending.iter().filter(|(_, change)| change.after.is_none()) {
            self.check_still_t0(change)?;
            self.root.remove_file(&change.path)?;
            touched.insert(parent(&change.path));
        }
        for folder in &self.delta.gone_folders {
            if self.root.remove_empty_folder(folder)? {
                touched.insert(parent(folder));
            }
        }
        for folder in &self.delta.new_folders {
            self.root.make_folders(folder)?;
            touched.insert(parent(folder));
        }
        for ((index, change), place) in pending.iter().zip(staged) {
            let Some(place) = place else { continue };
            self.check_still_t0(change)?;
            let (above, name) = self.root.split(&change.path)?;
            let folder = self.root.make_folders(above)?;
            match renameat(nix::fcntl::AT_FDCWD, place, &folder, name) {
                // A bind mount of the same device.
                Err(Errno::EXDEV) => self.rename_by_copy(*index, change, &folder),
                other => other.map_err(Into::into),
            }
            .map_err(|e: io::Error| failed("write", &self.root.full(&change.path), e))?;
            touched.insert(above.to_owned());
        }
        Ok(touched)
    }

    /// Refuses to change a path that became something else since all were compared.
    fn check_still_t0(&self, change: &Change) -> Result<()> {
        match self.read_state(change)? {
            State::Neither(why) => refuse(
                &[format!("{}: {why}", change.path.display())],
                "changed while the result was delivered",
            ),
            State::T0 | State::Wanted => Ok(()),
        }
    }

    fn rename_by_copy(&self, index: usize, change: &Change, folder: &OwnedFd) -> io::Result<()> {
        let beside = change.path.with_file_name(self.beside_name(index));
        let place = self.root.full(&beside);
        let Some(held) = change.after else { return Ok(()) };
        let file = self.write_staged(&place, held, change).map_err(io::Error::other)?;
        if let Some(file) = file {
            file.sync_all()?;
        }
        let name = change.path.file_name().unwrap_or_default();
        Ok(renameat(folder.as_fd(), beside.file_name().unwrap_or_default(), folder.as_fd(), name)?)
    }

    /// Removes what staging left, wherever it stands.
    fn unstage(&self) {
        // Left-overs hurt nothing but order; the delivery itself is what counts.
        let _ = remove(&Journal::stage(self.run));
        for (index, change) in self.delta.changes.iter().enumerate() {
            for above in change.path.ancestors().skip(1) {
                let _ = self.root.remove_file(&above.join(self.beside_name(index)));
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn sync_file_system(folder: &File) -> io::Result<()> {
    Ok(nix::unistd::syncfs(folder)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_folder: &File) -> io::Result<()> {
    nix::unistd::sync();
    Ok(())
}

/// Refuses a difference that holds a file or folder of a repository itself or of loopexec.
pub(super) fn refuse_own(delta: &Delta) -> Result<()> {
    let folders = delta.new_folders.iter().chain(&delta.gone_folders);
    let mut all = delta.changes.iter().map(|change| &change.path).chain(folders);
    let Some(path) = all.find(|path| is_ours_or_gits(path)) else { return Ok(()) };
    let what = format!("{:?} is never delivered", path.display());
    Err(Error::new(Kind::WorkspaceInvalid, what)
        .hint("A loop changes neither a repository's own files nor loopexec's state."))
}

fn is_ours_or_gits(path: &Path) -> bool {
    let mut parts = path.iter().map(OsStrExt::as_bytes);
    let first = parts.clone().next().unwrap_or_default();
    first == b".loopexec" || first == b".loop_state.json" || parts.any(is_gits)
}

/// Says whether a file system may take a name for `.git`: by case, as NTFS (its short name, dots and spaces at
/// the end, streams, backslashes), as HFS+ (characters that it ignores). The rules are git's own.
fn is_gits(name: &[u8]) -> bool {
    let ntfs = |part: &[u8]| {
        let part = part.split(|byte| *byte == b':').next().unwrap_or_default();
        let end = part.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |at| at + 1);
        let part = &part[..end];
        part.eq_ignore_ascii_case(b".git") || part.eq_ignore_ascii_case(b"git~1")
    };
    let is_ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let hfs = || {
        let name = String::from_utf8_lossy(name);
        let kept: String = name.chars().filter(|c| !is_ignored(c)).collect();
        kept.eq_ignore_ascii_case(".git")
    };
    name.split(|byte| *byte == b'\\').any(ntfs) || hfs()
}
