//! Files and folders where a command may have put something else: a link, a pipe, a device, a file without end.
//!
//! Whoever reads or writes where commands do goes through here, so that no link leads us elsewhere, no pipe keeps
//! us waiting, and no file takes more memory than its reader named. Nothing of a command runs meanwhile.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path};

/// What happens where the last part of a path is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// It is not opened.
    Refuse,
    /// What it leads to is opened, if that is a file.
    Follow,
}

/// Opens a regular file of a real file system for reading.
///
/// # Errors
/// `InvalidInput` for anything else than such a file; what the system says.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    let (found, flags) = match links {
        Links::Refuse => (fs::symlink_metadata(path)?, libc::O_NOFOLLOW),
        Links::Follow => (fs::metadata(path)?, 0),
    };
    // Opening some devices does something: they are not even tried.
    if !found.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags | libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY)
        .open(path)?;
    if file.metadata()?.is_file() && is_stored(&file) {
        Ok(file)
    } else {
        Err(ErrorKind::InvalidInput.into())
    }
}

/// Reads the first bytes of a regular file, at most `most`.
///
/// # Errors
/// As [`open`].
pub fn read_start(path: &Path, links: Links, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, links)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
/// As [`open`], and `FileTooLarge` for a larger one.
pub fn read(path: &Path, links: Links, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path, links)?;
    // A sparse file costs its writer nothing and its reader all that it says.
    if file.metadata()?.len() > most {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Makes a file that is not there yet, for reading by everybody who may enter its folder, and writes it.
///
/// # Errors
/// `AlreadyExists` where anything has the name, a link that leads nowhere too; what the system says.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_new(path)?.write_all(bytes)
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
}

/// Writes a file anew: what had its name is taken away, never followed. A folder there stays, and fails it.
///
/// # Errors
/// What the system says.
pub fn write_anew(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_anew(path)?.write_all(bytes)
}

/// Makes an empty file as [`write_anew`] does, and opens it for writing.
///
/// # Errors
/// What the system says.
pub fn create_anew(path: &Path) -> io::Result<File> {
    remove_name(path)?;
    create_new(path)
}

/// Makes the folders of a path below `root`, each of them a real one: what else has such a name is taken away.
///
/// # Errors
/// `InvalidInput` for a path that leaves `root`; what the system says.
pub fn make_folders(root: &Path, path: &Path) -> io::Result<()> {
    let mut at = root.to_owned();
    for part in path.components() {
        let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput.into()) };
        at.push(name);
        if fs::symlink_metadata(&at).is_ok_and(|found| found.is_dir()) {
            continue;
        }
        remove_name(&at)?;
        DirBuilder::new().mode(0o755).create(&at)?;
    }
    Ok(())
}

fn remove_name(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Says whether a path lies where the system shows itself, once its links are followed.
pub fn is_of_the_system(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|place| path.starts_with(place))
}

/// Says whether a file lies on a file system that stores it: what the kernel makes up while it is read may have no
/// end, or change what it shows.
#[cfg(target_os = "linux")]
fn is_stored(file: &File) -> bool {
    use nix::sys::statfs as kinds;
    const MADE_UP: [kinds::FsType; 9] = [
        kinds::PROC_SUPER_MAGIC,
        kinds::SYSFS_MAGIC,
        kinds::CGROUP_SUPER_MAGIC,
        kinds::CGROUP2_SUPER_MAGIC,
        kinds::DEBUGFS_MAGIC,
        kinds::TRACEFS_MAGIC,
        kinds::SECURITYFS_MAGIC,
        kinds::BPF_FS_MAGIC,
        kinds::NSFS_MAGIC,
    ];
    kinds::fstatfs(file).is_ok_and(|found| !MADE_UP.contains(&found.filesystem_type()))
}

#[cfg(not(target_os = "linux"))]
fn is_stored(_: &File) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_files_are_opened_and_never_more_is_read_than_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink("/proc/self/status", at("status")).unwrap();
        symlink(at("pipe"), at("to pipe")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for links in [Links::Refuse, Links::Follow] {
            for name in ["pipe", "zero", "status", "to pipe", "folder", "socket", "nothing"] {
                assert!(open(&at(name), links).is_err(), "{name}");
            }
            for system in ["/proc/kmsg", "/proc/self/environ", "/sys/kernel/notes", "/dev/zero"] {
                assert!(open(Path::new(system), links).is_err(), "{system}");
            }
            assert_eq!(read(&at("file"), links, 5).unwrap(), b"12345");
            assert_eq!(read(&at("file"), links, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
            assert_eq!(read_start(&at("file"), links, 4).unwrap(), b"1234");
        }
        assert!(open(&at("link"), Links::Refuse).is_err());
        assert_eq!(read(&at("link"), Links::Follow, 5).unwrap(), b"12345");
        File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();
        assert!(read(&at("sparse"), Links::Refuse, 1 << 20).is_err());
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "mine").unwrap();
        fs::create_dir(at("elsewhere")).unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("made"), at("dangling")).unwrap();
        symlink(at("elsewhere"), at("a")).unwrap();
        for name in ["link", "dangling"] {
            let error = write_new(&at(name), b"ours").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}");
            write_anew(&at(name), b"ours").unwrap();
            assert_eq!(fs::read(at(name)).unwrap(), b"ours", "{name}");
            assert!(fs::symlink_metadata(at(name)).unwrap().is_file(), "{name}");
        }
        make_folders(folder.path(), Path::new("a/b")).unwrap();
        assert!(fs::symlink_metadata(at("a")).unwrap().is_dir() && at("a/b").is_dir());
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 0);
        assert_eq!(fs::read(at("victim")).unwrap(), b"mine");
        assert!(!at("made").exists());
        assert!(make_folders(folder.path(), Path::new("../out")).is_err());
    }
}
