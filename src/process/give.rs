//! Gives files to a command's user, where no mount can show them as its own: our own copies, never the caller's.
//!
//! Nobody else works in them meanwhile. However deep a tree is, one folder is open at a time.

use super::enclosure::{Enclosure, Files, Ids};
use super::job::Mount;
use super::wire::NamespaceOrder;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{fchown, fchownat};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Gives away what the command works on, if it is to be given away; the answer says what stays.
pub(super) fn all(place: &NamespaceOrder) -> Result<(), String> {
    let Some(closed) = &place.enclosure else { return Ok(()) };
    let Some(ids) = closed.ids.filter(|ids| ids.files == Files::Given) else { return Ok(()) };
    for path in ours(place, closed) {
        tree(path, ids).map_err(|e| format!("cannot give {path:?} to the command's user: {e}"))?;
    }
    Ok(())
}

/// Returns what is the command's to write to: the view's own entries, and where changes of tools' caches go.
fn ours<'a>(place: &'a NamespaceOrder, closed: &'a Enclosure) -> Vec<&'a Path> {
    let mut found: Vec<&Path> = Vec::new();
    for mount in &place.mounts {
        match mount {
            Mount::Bind { from, .. } => found.push(from),
            Mount::Overlay { lower, upper, work, .. } => {
                found.extend([lower, upper, work].map(|p| p.as_path()))
            }
            _ => {}
        }
    }
    for mount in &closed.system {
        if let Mount::Overlay { upper, work, .. } = mount {
            found.extend([upper, work].map(|p| p.as_path()));
        }
    }
    found
}

const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Gives a folder with all that it holds, links as links.
fn tree(top: &Path, ids: Ids) -> Result<(), Errno> {
    let mut here = open(top, FOLDER, Mode::empty())?;
    if fstat(&here)?.st_uid != ids.uid {
        fchown(&here, Some(ids.uid.into()), Some(ids.gid.into()))?;
    }
    let mut pending = vec![names(&here)?];
    while let Some(left) = pending.last_mut() {
        let Some(name) = left.pop() else {
            pending.pop();
            if !pending.is_empty() {
                here = openat(&here, c"..", FOLDER, Mode::empty())?;
            }
            continue;
        };
        let found = give(&here, &name, ids)?;
        if found.is_some_and(|stat| is_folder(&stat)) {
            here = openat(&here, name.as_c_str(), FOLDER, Mode::empty())?;
            pending.push(names(&here)?);
        }
    }
    Ok(())
}

fn give(folder: &OwnedFd, name: &CStr, ids: Ids) -> Result<Option<FileStat>, Errno> {
    let stat = match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    if stat.st_uid != ids.uid {
        let (uid, gid) = (Some(ids.uid.into()), Some(ids.gid.into()));
        fchownat(folder, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    }
    Ok(Some(stat))
}

fn is_folder(stat: &FileStat) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut listing = Dir::from_fd(openat(folder, c".", FOLDER, Mode::empty())?)?;
    let mut names = Vec::new();
    for entry in listing.iter() {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_tree_is_given_whole_however_deep_and_what_its_links_name_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let beside = folder.path().join("beside");
        std::fs::write(&beside, "").unwrap();
        let top = folder.path().join("top");
        std::fs::create_dir(&top).unwrap();
        std::os::unix::fs::symlink("../beside", top.join("link")).unwrap();
        // Deeper than any path may be.
        const DEPTH: usize = 3000;
        let down = |here: OwnedFd| openat(&here, c"d", FOLDER, Mode::empty()).unwrap();
        let mut here = open(&top, FOLDER, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            nix::sys::stat::mkdirat(&here, c"d", Mode::S_IRWXU).unwrap();
            here = down(here);
        }
        let own = nix::unistd::geteuid();
        // Who is not root can only give to itself.
        let uid = if own.is_root() { 12_345 } else { own.as_raw() };
        let gid = if own.is_root() { 12_345 } else { nix::unistd::getegid().as_raw() };
        tree(&top, Ids { uid, gid, files: Files::Given }).unwrap();
        let mut here = open(&top, FOLDER, Mode::empty()).unwrap();
        let link = fstatat(&here, c"link", AtFlags::AT_SYMLINK_NOFOLLOW).unwrap();
        assert_eq!((link.st_uid, link.st_gid), (uid, gid));
        for _ in 0..DEPTH {
            assert_eq!(fstat(&here).unwrap().st_uid, uid);
            here = down(here);
        }
        assert_eq!(fstat(&here).unwrap().st_uid, uid);
        let metadata = std::fs::metadata(&beside).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&metadata), own.as_raw());
        let removed = Command::new("rm").args(["-rf", "d"]).current_dir(&top).status();
        assert!(removed.unwrap().success());
    }
}
