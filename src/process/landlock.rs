//! Landlock: what keeps a command to what is shown where no mount can be made.
//!
//! The kernel knows only what is allowed below a path. A shown path is a rule, one that takes writes another; what is
//! kept from a path that has a rule is left out by giving its neighbours rules of their own. What is made beside it
//! later has none, so that nothing new can be made there.

use super::enclosure::{Enclosure, Walls};
use super::job::Mount;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The version whose rights are asked for: since then signals and abstract sockets are bounded as well.
const KNOWN: ABI = ABI::V6;

/// Devices of every command.
const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Entries of folders that are listed around what is kept.
const MOST_LISTED: usize = 20_000;

/// Returns the number of the kernel's Landlock, or why a command cannot be kept by it.
///
/// # Errors
/// One sentence.
#[expect(unsafe_code, reason = "there is no safe call that tells the version")]
pub fn landlock_abi() -> Result<i64, String> {
    const VERSION: libc::c_long = 1;
    let (nothing, zero): (*const libc::c_void, libc::c_long) = (std::ptr::null(), 0);
    // SAFETY: without attributes this call makes nothing and answers with a number.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, zero, VERSION) };
    if abi < 1 {
        return Err("this kernel has no Landlock, or it is not switched on".to_owned());
    }
    if abi < KNOWN as i64 {
        return Err(format!(
            "Landlock is at ABI {abi} here, and before ABI 6 (Linux 6.12) commands could signal this machine's processes and reach their abstract sockets"
        ));
    }
    Ok(abi)
}

/// What a rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Allowed {
    /// To read and to execute.
    Read,
    /// All but devices.
    Write,
    /// To list folders, not what is in their files.
    List,
    /// To read, not to execute.
    Look,
    /// To read and to write what is there.
    Device,
}

impl Allowed {
    fn rights(self) -> BitFlags<AccessFs> {
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
        match self {
            Self::Read => AccessFs::from_read(KNOWN),
            Self::Write => AccessFs::from_all(KNOWN) & !devices,
            Self::List => AccessFs::ReadDir.into(),
            Self::Look => AccessFs::ReadFile | AccessFs::ReadDir,
            Self::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate,
        }
    }
}

/// Makes the rules of an enclosure, ready to be applied; nothing where its walls are others.
pub(super) fn rules(enclosure: &Enclosure) -> Result<Option<RulesetCreated>, String> {
    let Walls::Landlock { ports } = &enclosure.walls else { return Ok(None) };
    let allowed = allowed(&enclosure.system)?;
    let made = make(&allowed, ports.as_deref());
    made.map(Some).map_err(|error| format!("cannot make the rules of Landlock: {error}"))
}

fn make(
    allowed: &BTreeSet<(PathBuf, Allowed)>,
    ports: Option<&[u16]>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?;
    if ports.is_some() {
        rules = rules.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    let mut rules = rules.create()?;
    for (path, allowed) in allowed {
        // What is gone meanwhile needs no rule.
        let Ok(file) = PathFd::new(path) else { continue };
        let rights = match path.is_dir() {
            true => allowed.rights(),
            false => allowed.rights() & AccessFs::from_file(KNOWN),
        };
        if !rights.is_empty() {
            rules = rules.add_rule(PathBeneath::new(file, rights))?;
        }
    }
    for port in ports.into_iter().flatten() {
        rules = rules.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(rules)
}

/// Reads rules from what is shown: only what is shown at its own place can be.
fn allowed(shown: &[Mount]) -> Result<BTreeSet<(PathBuf, Allowed)>, String> {
    let (mut read, mut written, mut closed) = (Vec::new(), Vec::new(), Vec::new());
    for mount in shown {
        match mount {
            Mount::Bind { from, to } if from == to => written.push(to.as_path()),
            Mount::BindReadOnly { from, to } | Mount::FilesOnly { from, to, .. } if from == to => {
                read.push(to.as_path());
            }
            Mount::BindReadOnly { from, to } if from == Path::new("/dev/null") => {
                closed.push(to.as_path());
            }
            // A link is where it was, and memory of its own is not to be had.
            Mount::Link { .. } | Mount::Memory { .. } => {}
            other => return Err(format!("{:?} cannot be shown elsewhere", other.target())),
        }
    }
    let mut rules = BTreeSet::new();
    let kept: Vec<&Path> = read.iter().chain(&closed).copied().collect();
    for path in read.iter().chain(&written) {
        around(path, &closed, Allowed::Read, &mut rules)?;
    }
    for path in &written {
        around(path, &kept, Allowed::Write, &mut rules)?;
    }
    rules.extend(DEVICES.map(|path| (PathBuf::from(path), Allowed::Device)));
    rules.insert((PathBuf::from("/proc"), Allowed::Look));
    Ok(rules)
}

/// Gives a path a rule, or where something in it is kept, all of it but that.
fn around(
    path: &Path,
    kept: &[&Path],
    allowed: Allowed,
    rules: &mut BTreeSet<(PathBuf, Allowed)>,
) -> Result<(), String> {
    if kept.contains(&path) {
        return Ok(());
    }
    if !kept.iter().any(|kept| kept.starts_with(path)) {
        rules.insert((path.to_owned(), allowed));
        return Ok(());
    }
    rules.insert((path.to_owned(), Allowed::List));
    let listed = fs::read_dir(path).map_err(|e| format!("{path:?} cannot be listed: {e}"))?;
    for entry in listed.flatten() {
        if rules.len() > MOST_LISTED {
            return Err(format!("{path:?} holds too much to leave out what is kept in it"));
        }
        // A rule for a link would be one for what it leads to.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            around(&entry.path(), kept, allowed, rules)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_gets_no_rule_and_its_neighbours_do() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for made in ["tool/bin", "tool/auth", "tree/.git", "tree/src", "secret"] {
            fs::create_dir_all(at(made)).unwrap();
        }
        fs::write(at("tool/auth/token"), "").unwrap();
        fs::write(at("tool/auth/data"), "").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("tool/link")).unwrap();
        let read = |name: &str| Mount::BindReadOnly { from: at(name), to: at(name) };
        let rules = allowed(&[
            read("tool"),
            Mount::BindReadOnly { from: "/dev/null".into(), to: at("tool/auth/token") },
            Mount::Bind { from: at("tree"), to: at("tree") },
            read("tree/.git"),
        ])
        .unwrap();
        let of = |name: &str| {
            let path = at(name);
            rules.iter().filter(|rule| rule.0 == path).map(|rule| rule.1).collect::<Vec<_>>()
        };
        assert_eq!(of("tool"), [Allowed::List]);
        assert_eq!(
            (of("tool/bin"), of("tool/auth/data")),
            (vec![Allowed::Read], vec![Allowed::Read])
        );
        assert!(of("tool/auth/token").is_empty() && of("tool/link").is_empty());
        assert_eq!(of("tree"), [Allowed::Read, Allowed::List]);
        assert_eq!(of("tree/src"), [Allowed::Write]);
        assert_eq!(of("tree/.git"), [Allowed::Read]);
        let moved = Mount::Bind { from: at("tool"), to: at("tree") };
        assert!(allowed(&[moved]).is_err(), "nothing is shown elsewhere");
    }
}
