//! The canary: what this machine allows is found out by doing it, never by reading a setting.

use super::job::{Job, Mount, Silent, View};
use super::supervisor::{Placement, Supervisor};
use super::wire::Entry;
use crate::domain::command::Exit;
use crate::error::{Error, Kind, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How overlays are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverlayMode {
    /// `redirect_dir=on`, by privilege.
    RedirectDir,
    /// `userxattr`, in a user namespace.
    UserXattr,
    /// Not at all.
    Unavailable,
}

impl OverlayMode {
    /// Returns the mount options beside the folders.
    pub(super) const fn options(self) -> &'static str {
        match self {
            Self::RedirectDir => "redirect_dir=on",
            Self::UserXattr => "userxattr",
            Self::Unavailable => "",
        }
    }
}

/// What a command's view can be on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    /// Namespaces work; binds do, and overlays in this way.
    Namespaces {
        /// How overlays are mounted.
        overlay: OverlayMode,
    },
    /// Only the caller's own view.
    Plain {
        /// What did not work, in one sentence.
        why: String,
    },
}

/// A way into namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through a user namespace.
    User,
    /// By privilege.
    Root,
    /// By the privilege that `sudo` lends without asking; commands are the caller's all the same.
    Sudo,
}

/// Tries one way into namespaces and leaves the supervisor with it where it works.
pub(super) fn probe_by(
    supervisor: &mut Supervisor,
    way: Way,
    scratch: &Path,
) -> Result<Capability> {
    let entry = match way {
        Way::User => Entry::User,
        Way::Root | Way::Sudo => Entry::Root,
    };
    supervisor.launch_by(way)?;
    let mut why = String::new();
    let found = probe_entry(supervisor, entry, scratch, &mut why)?;
    Ok(found.unwrap_or(Capability::Plain { why }))
}

/// Tries the ways into namespaces, best first, and leaves the supervisor with the one that works.
pub(super) fn probe(supervisor: &mut Supervisor, scratch: &Path) -> Result<Capability> {
    if supervisor.placement() == Placement::Plain {
        return Ok(Capability::Plain { why: "namespaces were not asked for".into() });
    }
    let root = nix::unistd::geteuid().is_root();
    let entries: &[Entry] = if root { &[Entry::Root, Entry::User] } else { &[Entry::User] };
    let mut why = String::new();
    supervisor.launch_by(if root { Way::Root } else { Way::User })?;
    for entry in entries {
        if let Some(found) = probe_entry(supervisor, *entry, scratch, &mut why)? {
            return Ok(found);
        }
    }
    Ok(Capability::Plain { why })
}

/// Tries one entry; adds to `why` what does not work.
fn probe_entry(
    supervisor: &mut Supervisor,
    entry: Entry,
    scratch: &Path,
    why: &mut String,
) -> Result<Option<Capability>> {
    let overlays: &[OverlayMode] = match entry {
        // What only root can read in an upper layer is nothing to others.
        Entry::Root if supervisor.is_lent() => &[OverlayMode::UserXattr],
        Entry::Root => &[OverlayMode::RedirectDir, OverlayMode::UserXattr],
        Entry::User => &[OverlayMode::UserXattr],
        Entry::Nowhere => &[],
    };
    supervisor.enter_by(entry, OverlayMode::Unavailable);
    if let Err(reason) = try_bind(supervisor, scratch)? {
        *why = if why.is_empty() { reason } else { format!("{why}; {reason}") };
        return Ok(None);
    }
    for overlay in overlays {
        supervisor.enter_by(entry, *overlay);
        if try_overlay(supervisor, scratch)?.is_ok() {
            return Ok(Some(Capability::Namespaces { overlay: *overlay }));
        }
    }
    supervisor.enter_by(entry, OverlayMode::Unavailable);
    Ok(Some(Capability::Namespaces { overlay: OverlayMode::Unavailable }))
}

/// What the canary found: that it works, or why not.
type Canary = std::result::Result<(), String>;

/// A bind shows another folder, the process is in a namespace of its own, and a daemon dies with it.
fn try_bind(supervisor: &mut Supervisor, scratch: &Path) -> Result<Canary> {
    let place = make_place(scratch, &["from", "to"])?;
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    write(&from.join("seen"), "canary")?;
    let mounts = vec![Mount::Bind { from, to: to.clone() }];
    let script = "read -r text < seen || :; test \"$text\" = canary
        { trap '' TERM HUP; sleep 600; } & read -r own rest < /proc/self/stat
        test \"$own\" = $$ || test -d /proc/$$; test -r /proc/1/stat; : > written";
    let ran = run(supervisor, script, &to, View::Namespace { mounts, remove: Vec::new() })?;
    Ok(ran.and_then(|survivors| {
        let written = place.path().join("from/written").exists();
        let hidden = !place.path().join("to/written").exists();
        match (survivors, written && hidden) {
            (0, _) => Err("a process left behind was not seen in its namespace".into()),
            (_, false) => Err("a bind mount was visible outside, or did not take writes".into()),
            _ => Ok(()),
        }
    }))
}

/// An overlay shows upper over lower, takes writes, renames and removals, and leaves lower alone.
fn try_overlay(supervisor: &mut Supervisor, scratch: &Path) -> Result<Canary> {
    let place = make_place(scratch, &["lower/dir", "upper", "work", "to"])?;
    let at = |name: &str| place.path().join(name);
    for file in ["lower/a", "lower/b", "lower/gone", "lower/dir/c"] {
        write(&at(file), "lower")?;
    }
    write(&at("upper/b"), "upper")?;
    let (lower, upper, work, to) = (at("lower"), at("upper"), at("work"), at("to"));
    let mounts = vec![Mount::Overlay { lower, upper, work, to: to.clone() }];
    let view = View::Namespace { mounts, remove: vec![to.join("gone")] };
    let script = "read -r text < b || :; test \"$text\" = upper; test ! -e gone
        mv a moved; : > moved; : > dir/new; rm b; test ! -e b; test -e dir/c; test -s dir/c";
    let ran = run(supervisor, script, &to, view)?;
    make_work_removable(&at("work"));
    let whole = ["lower/a", "lower/b", "lower/gone", "lower/dir/c"]
        .iter()
        .all(|file| fs::read(at(file)).is_ok_and(|bytes| bytes == b"lower"));
    Ok(ran.and_then(|_| whole.then_some(()).ok_or_else(|| "the lower layer changed".into())))
}

/// Opens the folder that the kernel leaves, closed to everybody, in an overlay's work folder, so that
/// an ordinary user can remove it after the last view of it is gone.
pub fn make_work_removable(work: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for name in ["work", "index"] {
        let left = work.join(name);
        // A link would lead elsewhere; the kernel makes none.
        if fs::symlink_metadata(&left).is_ok_and(|found| found.is_dir()) {
            let _ = fs::set_permissions(&left, fs::Permissions::from_mode(0o700));
        }
    }
}

/// Runs a canary script and returns how many survivors there were.
fn run(
    supervisor: &mut Supervisor,
    script: &str,
    cwd: &Path,
    view: View,
) -> Result<std::result::Result<usize, String>> {
    let job = Job {
        argv: ["sh", "-euc", script].map(Into::into).to_vec(),
        cwd: cwd.to_owned(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        view,
        deadline: Some(Duration::from_secs(10)),
        idle: None,
        enclosure: None,
        idle_watch: Vec::new(),
        grace: Duration::ZERO,
        keep: 300,
    };
    match supervisor.run(&job, &mut Silent) {
        Ok(outcome) => Ok(match outcome.exit {
            Exit::Code { code: 0 } if outcome.stdout.ended => Ok(outcome.survivors.len()),
            Exit::Code { code: 0 } => Err("a process outlived its namespace".into()),
            Exit::Interrupted => {
                return Err(Error::new(Kind::Interrupted, "a signal asked to stop"));
            }
            exit => {
                let said = String::from_utf8_lossy(&outcome.stderr.kept()).trim().to_owned();
                Err(format!("the canary ended with {exit:?}: {said}"))
            }
        }),
        Err(error) if error.kind == Kind::IsolationUnsatisfiable => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

fn make_place(scratch: &Path, folders: &[&str]) -> Result<tempfile::TempDir> {
    let make = || -> std::io::Result<tempfile::TempDir> {
        let place = tempfile::Builder::new().prefix("canary-").tempdir_in(scratch)?;
        folders.iter().try_for_each(|folder| fs::create_dir_all(place.path().join(folder)))?;
        Ok(place)
    };
    make().map_err(|error| {
        let what = format!("cannot make a folder in {}", scratch.display());
        Error::io(Kind::WorkspaceInvalid, what, error)
    })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| {
        let what = format!("cannot write {}", path.display());
        Error::io(Kind::WorkspaceInvalid, what, error)
    })
}
