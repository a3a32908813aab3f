//! Mounts that show the files of one user as those of another; on disk nothing changes hands.
//!
//! A caller who is root gives its commands an unprivileged user, and the workspace, its copies and the
//! private homes are that user's to change (`mount_setattr(2)`, Linux 5.12; overlays of such mounts 5.19).

use super::enclosure::Ids;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::waitpid;
use nix::unistd::ForkResult;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The user namespace that says who is shown as whom.
#[derive(Debug)]
pub(super) struct Mapping(File);

impl Mapping {
    /// Makes one in which the own user and group are the command's.
    pub(super) fn new(ids: Ids) -> io::Result<Self> {
        let (mut here, mut there) = UnixStream::pair()?;
        match super::namespace::fork()? {
            ForkResult::Child => {
                drop(here);
                let made = unshare(CloneFlags::CLONE_NEWUSER);
                let _ = there.write_all(&[u8::from(made.is_ok())]);
                // Stays until the namespace is held by its file.
                let _ = there.read(&mut [0]);
                std::process::abort();
            }
            ForkResult::Parent { child } => {
                drop(there);
                let own = (nix::unistd::geteuid(), nix::unistd::getegid());
                let mut take = || -> io::Result<File> {
                    let mut made = [0];
                    here.read_exact(&mut made)?;
                    if made != [1] {
                        return Err(io::Error::other("the kernel makes no user namespace"));
                    }
                    let of = |name: &str| Path::new("/proc").join(child.to_string()).join(name);
                    fs::write(of("uid_map"), format!("{} {} 1", own.0, ids.uid))?;
                    fs::write(of("gid_map"), format!("{} {} 1", own.1, ids.gid))?;
                    File::open(of("ns/user"))
                };
                let taken = take();
                let _ = nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL);
                drop(here);
                waitpid(child, None)?;
                taken.map(Self)
            }
        }
    }

    /// Returns a mount of `path`, attached nowhere yet, through which its files are the command's.
    pub(super) fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        let tree = open_tree(&name)?;
        self.apply(&tree)?;
        Ok(tree)
    }

    #[expect(unsafe_code, reason = "no crate at hand has mount_setattr")]
    fn apply(&self, tree: &OwnedFd) -> io::Result<()> {
        // SAFETY: `mount_attr` is plain data for which zero is a value.
        let mut wanted: libc::mount_attr = unsafe { std::mem::zeroed() };
        wanted.attr_set = libc::MOUNT_ATTR_IDMAP;
        wanted.userns_fd = u64::try_from(self.0.as_raw_fd()).unwrap_or(u64::MAX);
        let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
        // SAFETY: the empty name and `wanted` live that long, and the size is that of `wanted`.
        let done = unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                tree.as_raw_fd(),
                c"".as_ptr(),
                flags,
                &raw const wanted,
                size_of::<libc::mount_attr>(),
            )
        };
        Errno::result(done)?;
        Ok(())
    }
}

#[expect(unsafe_code, reason = "no crate at hand has open_tree")]
fn open_tree(name: &CString) -> io::Result<OwnedFd> {
    let flags = libc::OPEN_TREE_CLONE
        | libc::c_uint::try_from(libc::O_CLOEXEC | libc::AT_RECURSIVE).unwrap_or(0);
    // SAFETY: the name ends with a zero and lives that long.
    let number =
        unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, name.as_ptr(), flags) };
    let number = i32::try_from(Errno::result(number)?).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this number for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Attaches such a mount.
#[expect(unsafe_code, reason = "no crate at hand has move_mount")]
pub(super) fn attach(tree: &OwnedFd, to: &Path) -> nix::Result<()> {
    let to = CString::new(to.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    // SAFETY: both names end with a zero and live that long.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    Errno::result(done).map(drop)
}

/// Does something as the command's user for all that concerns files, and yet with every privilege: what
/// the kernel makes on behalf of a mapped overlay must belong to somebody whom its mounts know.
pub(super) fn as_files_of<T>(ids: Option<Ids>, work: impl FnOnce() -> T) -> nix::Result<T> {
    let Some(ids) = ids else { return Ok(work()) };
    set_file_ids(ids.uid, ids.gid)?;
    let done = work();
    set_file_ids(nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw())?;
    Ok(done)
}

#[expect(
    unsafe_code,
    reason = "there is no safe call that keeps the privileges over a change of file ids"
)]
fn set_file_ids(uid: u32, gid: u32) -> nix::Result<()> {
    /// `SECBIT_NO_SETUID_FIXUP` of `linux/securebits.h`.
    const KEEP: libc::c_ulong = 1 << 2;
    // SAFETY: these calls change numbers of this thread alone.
    unsafe {
        Errno::result(libc::prctl(libc::PR_SET_SECUREBITS, KEEP, 0, 0, 0))?;
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        Errno::result(libc::prctl(libc::PR_SET_SECUREBITS, 0, 0, 0, 0))?;
    }
    Ok(())
}
