//! Copies: a snapshot together with a copy-on-write view of the layer.
//!
//! A copy is prepared here; mounting its overlay is the duty of the launcher in `process`. A file
//! that equals the snapshot the layer was frozen with comes from the layer with its time; a file that
//! differs is written with the present time, so that no build cache takes it for unchanged.

use super::Stop;
use super::at::remove_tree;
use super::copying::{copy_tree, failed};
use super::delta::{Delta, Form, Held, read_blob, read_delta};
use super::gitcmd::interrupted;
use super::layer::Layer;
use crate::error::{Error, Kind, Result};
use git2::Repository;
use std::collections::HashSet;
use std::fs::{self, File, FileTimes, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// How a copy sees the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Through an overlay that a launcher mounts.
    Overlay,
    /// As files of its own, shared copy-on-write where the file system can.
    Real,
}

/// The folders of an overlay mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// The frozen folder below.
    pub lower: PathBuf,
    /// Where what differs stands, and where writes go.
    pub upper: PathBuf,
    /// The kernel's own folder, on the file system of `upper`.
    pub work: PathBuf,
}

/// A copy that is ready to be mounted, or to be used as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The mount of the tree, with [`How::Overlay`].
    pub overlay: Option<Overlay>,
    /// The mount of the exec zone's HOME, with [`How::Overlay`].
    pub home_overlay: Option<Overlay>,
    /// The copy itself with [`How::Real`], else an empty folder that can serve as mount point.
    pub dir: PathBuf,
    /// The same for HOME.
    pub home: PathBuf,
    /// What to take out of the mounted view with [`remove_listed`] before anything runs in it; empty
    /// with [`How::Real`].
    pub remove: Vec<PathBuf>,
}

/// Prepares a copy of the snapshot `tree` in `dest`, which must not exist.
///
/// `frozen_tree` is the snapshot that the layer was frozen with. The cost of an overlay follows what
/// differs between the two. On an error `dest` is removed; a full disk is `storage_exhausted`, and
/// `stop` ends a real copy with `interrupted`.
pub fn prepare(
    repo: &Repository,
    layer: &Layer,
    frozen_tree: &str,
    tree: &str,
    dest: &Path,
    how: How,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Prepared> {
    let delta = read_delta(repo, frozen_tree, tree)?;
    fs::create_dir(dest).map_err(|e| failed("create", dest, e))?;
    let prepared = match how {
        How::Overlay => prepare_overlay(repo, layer, &delta, dest, stop),
        How::Real => prepare_real(repo, layer, &delta, dest, stop),
    };
    if prepared.is_err() {
        // The first error is the one that matters; the next start sweeps what is left.
        let _ = remove(dest);
    }
    prepared
}

fn prepare_overlay(
    repo: &Repository,
    layer: &Layer,
    delta: &Delta,
    dest: &Path,
    stop: Stop<'_>,
) -> Result<Prepared> {
    let overlay = |lower: &Path, upper: &str, work: &str| {
        let (upper, work) = (dest.join(upper), dest.join(work));
        let metadata = read_folder(lower)?;
        make_folder_like(&upper, &metadata)?;
        fs::create_dir(&work).map_err(|e| failed("create", &work, e))?;
        Ok::<_, Error>((Overlay { lower: lower.to_owned(), upper, work }, metadata))
    };
    let (tree, root) = overlay(&layer.tree, "upper", "work")?;
    let (home, home_root) = overlay(&layer.home, "home-upper", "home-work")?;
    let mut writer = Writer::new(repo, &tree.upper, &layer.tree);
    writer.write(delta, stop)?;
    if !writer.changed_folders.contains(Path::new("")) {
        set_modified(&tree.upper, &root)?;
    }
    set_modified(&home.upper, &home_root)?;
    let gone = delta.changes.iter().filter(|change| change.after.is_none());
    // A file whose place a folder takes is hidden by that folder.
    let hidden: HashSet<&Path> = delta.new_folders.iter().map(PathBuf::as_path).collect();
    let mut remove: Vec<PathBuf> =
        gone.filter(|c| !hidden.contains(&*c.path)).map(|change| change.path.clone()).collect();
    // What lay below a folder whose place a file takes is hidden with it.
    let replaced: HashSet<&Path> = delta
        .changes
        .iter()
        .filter(|change| change.after.is_some())
        .map(|change| change.path.as_path())
        .collect();
    let visible = |path: &PathBuf| !path.ancestors().any(|above| replaced.contains(above));
    remove.retain(visible);
    remove.extend(delta.gone_folders.iter().filter(|path| visible(path)).cloned());
    let mut folders = Vec::new();
    for name in ["merged", "home-merged"] {
        let folder = dest.join(name);
        fs::create_dir(&folder).map_err(|e| failed("create", &folder, e))?;
        folders.push(folder);
    }
    let [dir, mount_home] = <[PathBuf; 2]>::try_from(folders)
        .map_err(|_| Error::new(Kind::Internal, "a copy has two mount points"))?;
    Ok(Prepared { overlay: Some(tree), home_overlay: Some(home), dir, home: mount_home, remove })
}

fn prepare_real(
    repo: &Repository,
    layer: &Layer,
    delta: &Delta,
    dest: &Path,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Prepared> {
    let (dir, home) = (dest.join("tree"), dest.join("home"));
    copy_tree(&layer.tree, &dir, stop, &|_| {})?;
    copy_tree(&layer.home, &home, stop, &|_| {})?;
    let gone = delta.changes.iter().filter(|change| change.after.is_none());
    let gone: Vec<PathBuf> = gone.map(|change| change.path.clone()).collect();
    remove_listed(&dir, &gone)?;
    remove_listed(&dir, &delta.gone_folders)?;
    Writer::new(repo, &dir, &dir).write(delta, stop)?;
    Ok(Prepared { overlay: None, home_overlay: None, dir, home, remove: Vec::new() })
}

/// Removes paths below a root: files and symlinks, and folders that are empty by then.
///
/// A folder that still holds something (ignored files of the layer) stays, and so does what is gone
/// already. A path whose parent is a symlink or lies outside is left alone.
pub fn remove_listed(root: &Path, paths: &[PathBuf]) -> Result<()> {
    for path in paths {
        if !is_plain(path) || !has_real_parents(root, path) {
            continue;
        }
        let path = root.join(path);
        let parent = path.parent().unwrap_or(root);
        let above = fs::symlink_metadata(parent).map_err(|e| failed("read", parent, e))?;
        open_folder(parent, &above)?;
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir(&path),
            Ok(_) => fs::remove_file(&path),
            Err(e) => Err(e),
        };
        if !may_write(&above) {
            let mode = Permissions::from_mode(above.mode() & 0o7777);
            fs::set_permissions(parent, mode).map_err(|e| failed("finish", parent, e))?;
        }
        match removed {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(e) => return Err(failed("remove", &path, e)),
        }
    }
    Ok(())
}

fn is_plain(path: &Path) -> bool {
    use std::path::Component;
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn has_real_parents(root: &Path, path: &Path) -> bool {
    path.ancestors()
        .skip(1)
        .filter(|above| !above.as_os_str().is_empty())
        .all(|above| fs::symlink_metadata(root.join(above)).is_ok_and(|metadata| metadata.is_dir()))
}

/// Removes a folder with everything in it: folders without permissions and an overlay's own too.
///
/// Symlinks are not followed; a folder that is gone already is no error.
pub fn remove(dest: &Path) -> Result<()> {
    let explained = |error: Error| {
        error.hint("Something may still be mounted or running in it; remove it by hand.")
    };
    // A process that is just ending may take a name away first: the second try finds it gone.
    remove_tree(dest).or_else(|_| remove_tree(dest)).map_err(explained)
}

fn read_folder(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).map_err(|e| {
        failed("read the frozen layer", path, e).hint("Its folder is gone; start the run again.")
    })
}

fn make_folder_like(path: &Path, like: &Metadata) -> Result<()> {
    let made = fs::create_dir(path)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(like.mode() & 0o7777)));
    made.map_err(|e| failed("create", path, e))?;
    keep_owner(path, like);
    Ok(())
}

fn keep_owner(path: &Path, like: &Metadata) {
    if nix::unistd::geteuid().is_root() {
        // A file system without owners keeps none.
        let _ = lchown(path, Some(like.uid()), Some(like.gid()));
    }
}

fn set_modified(folder: &Path, like: &Metadata) -> Result<()> {
    let set = || File::open(folder)?.set_times(FileTimes::new().set_modified(like.modified()?));
    set().map_err(|e| failed("set the time of", folder, e))
}

/// Writes what differs below a root, each file with the present time.
struct Writer<'a> {
    repo: &'a Repository,
    root: &'a Path,
    /// Where modes and owners are looked up: the lower folder of an overlay, or the root itself.
    model: &'a Path,
    /// Folders that are known to be folders of the root.
    made: HashSet<PathBuf>,
    /// Folders that were there or that the model has, as they were.
    visited: Vec<(PathBuf, Metadata)>,
    /// Folders in which a name came or went.
    changed_folders: HashSet<PathBuf>,
}

impl<'a> Writer<'a> {
    fn new(repo: &'a Repository, root: &'a Path, model: &'a Path) -> Self {
        Self {
            repo,
            root,
            model,
            made: HashSet::from([PathBuf::new()]),
            visited: Vec::new(),
            changed_folders: HashSet::new(),
        }
    }

    /// Writes a difference whose gone files and folders are out of the way; `stop` is asked before
    /// every folder and file.
    fn write(&mut self, delta: &Delta, stop: Stop<'_>) -> Result<()> {
        let go_on = || if stop() { Err(interrupted()) } else { Ok(()) };
        for folder in &delta.new_folders {
            go_on()?;
            self.make_folder(folder)?;
        }
        for change in &delta.changes {
            go_on()?;
            let parent = change.path.parent().unwrap_or(Path::new(""));
            if let Some(held) = change.after {
                self.make_folder(parent)?;
                self.write_file(&change.path, held)?;
                if change.before.is_none() {
                    self.changed_folders.insert(parent.to_owned());
                }
            } else {
                self.changed_folders.insert(parent.to_owned());
            }
        }
        self.settle_folders()
    }

    fn make_folder(&mut self, path: &Path) -> Result<()> {
        if self.made.contains(path) {
            return Ok(());
        }
        // From the top down, and not by calling itself: an agent decides how deep a tree is.
        let above: Vec<&Path> =
            path.ancestors().skip(1).take_while(|above| !self.made.contains(*above)).collect();
        for folder in above.into_iter().rev() {
            self.make_one_folder(folder)?;
        }
        self.make_one_folder(path)
    }

    fn make_one_folder(&mut self, path: &Path) -> Result<()> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let (full, model) = (self.root.join(path), self.model.join(path));
        let like = fs::symlink_metadata(&model).ok().filter(Metadata::is_dir);
        match fs::symlink_metadata(&full) {
            Ok(found) if found.is_dir() => {
                open_folder(&full, &found)?;
                self.visited.push((path.to_owned(), found));
            }
            found => {
                if found.is_ok() {
                    fs::remove_file(&full).map_err(|e| failed("replace", &full, e))?;
                }
                if let Some(like) = like {
                    make_folder_like(&full, &like)?;
                    open_folder(&full, &like)?;
                    self.visited.push((path.to_owned(), like));
                } else {
                    fs::create_dir(&full)
                        .and_then(|()| fs::set_permissions(&full, Permissions::from_mode(0o755)))
                        .map_err(|e| failed("create", &full, e))?;
                    self.changed_folders.insert(parent.to_owned());
                    if let Ok(above) = fs::symlink_metadata(self.root.join(parent)) {
                        keep_owner(&full, &above);
                    }
                }
            }
        }
        self.made.insert(path.to_owned());
        Ok(())
    }

    fn write_file(&self, path: &Path, held: Held) -> Result<()> {
        let (full, model) = (self.root.join(path), self.model.join(path));
        let like = fs::symlink_metadata(&model).ok().filter(Metadata::is_file);
        match fs::symlink_metadata(&full) {
            Ok(found) if found.is_dir() => remove(&full)?,
            // Never written in place: another name may share its inode.
            Ok(_) => fs::remove_file(&full).map_err(|e| failed("replace", &full, e))?,
            Err(_) => {}
        }
        let bytes = read_blob(self.repo, held.blob, path)?;
        let write = || {
            if held.form == Form::Link {
                use std::os::unix::ffi::OsStringExt;
                return symlink(std::ffi::OsString::from_vec(bytes), &full);
            }
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&full)?;
            file.write_all(&bytes)?;
            let mode = like.as_ref().map_or(0o644, |like| like.mode() & 0o7777);
            file.set_permissions(Permissions::from_mode(with_execute(mode, held.form)))
        };
        write().map_err(|e| failed("write", &full, e))?;
        let owner = like.map_or_else(|| full.parent().map(fs::symlink_metadata), |l| Some(Ok(l)));
        if let Some(Ok(owner)) = owner {
            keep_owner(&full, &owner);
        }
        Ok(())
    }

    /// Gives folders their mode back, and their time unless a name came or went in them.
    fn settle_folders(&self) -> Result<()> {
        for (path, like) in self.visited.iter().rev() {
            let full = self.root.join(path);
            if !self.changed_folders.contains(path) {
                set_modified(&full, like)?;
            }
            if !may_write(like) {
                let mode = Permissions::from_mode(like.mode() & 0o7777);
                fs::set_permissions(&full, mode).map_err(|e| failed("finish", &full, e))?;
            }
        }
        Ok(())
    }
}

fn may_write(folder: &Metadata) -> bool {
    folder.mode() & 0o700 == 0o700
}

/// Lets the owner write in a folder until its mode is set again.
fn open_folder(path: &Path, found: &Metadata) -> Result<()> {
    if may_write(found) {
        return Ok(());
    }
    let mode = Permissions::from_mode(found.mode() & 0o7777 | 0o700);
    fs::set_permissions(path, mode).map_err(|e| failed("open", path, e))
}

/// Returns a mode with its execute bits as a snapshot's form wants them: wherever one may read.
pub fn with_execute(mode: u32, form: Form) -> u32 {
    match form {
        Form::Executable if mode & 0o100 == 0 => mode | ((mode & 0o444) >> 2),
        Form::Executable => mode,
        Form::Plain | Form::Link => mode & !0o111,
    }
}
