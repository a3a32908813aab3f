//! What a command loses between fork and exec: its user, its privileges, its bounds, its system calls.

use super::enclosure::{Enclosure, Ids};
use super::landlock;
use ::landlock::RulesetCreated;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use seccompiler::{apply_filter, sock_filter};
use std::io;

/// Everything that is taken away, ready to be done without asking the system for memory.
#[derive(Debug)]
pub(super) struct Confinement {
    ids: Option<Ids>,
    limits: Vec<(Resource, u64)>,
    filters: Vec<Vec<sock_filter>>,
    /// The rules of Landlock, where they are the walls: nothing else takes a command its privileges then.
    rules: Option<RulesetCreated>,
}

impl Confinement {
    /// Reads what an enclosure asks for.
    ///
    /// # Errors
    /// Why the rules of Landlock cannot be made.
    pub(super) fn new(enclosure: &Enclosure) -> Result<Self, String> {
        let wanted = &enclosure.limits;
        let mut limits = vec![
            (Resource::RLIMIT_CORE, 0),
            (Resource::RLIMIT_NOFILE, wanted.files),
            (Resource::RLIMIT_FSIZE, wanted.file_bytes),
        ];
        // The kernel counts all that a user runs, also outside where there is no user namespace.
        let processes = wanted.processes.filter(|_| !wanted.group);
        limits.extend(processes.map(|most| (Resource::RLIMIT_NPROC, most)));
        let filters = enclosure
            .filters
            .iter()
            .map(|program| program.iter().map(|word| instruction(*word)).collect())
            .collect();
        let rules = landlock::rules(enclosure)?;
        Ok(Self { ids: enclosure.ids, limits, filters, rules })
    }

    /// Takes it away from the calling process; called between fork and exec.
    pub(super) fn apply(&mut self) -> io::Result<()> {
        // Whatever runs out of memory, it is the command before all others, and before process 1, which tells. Who is
        // closed as process 1 is cannot say so; the command opens itself by its exec anyway, and is alone until then.
        nix::sys::prctl::set_dumpable(true)?;
        std::fs::write("/proc/self/oom_score_adj", "1000")?;
        for (resource, most) in &self.limits {
            let (_, hard) = getrlimit(*resource)?;
            let most = (*most).min(hard);
            setrlimit(*resource, most, most)?;
        }
        match (drop_bounding_set(), &self.rules) {
            // An ordinary user may not drop it, and without new privileges nobody gets anything of it.
            (Err(error), Some(_)) if error.raw_os_error() == Some(libc::EPERM) => {}
            (done, _) => done?,
        }
        if self.rules.is_some() {
            drop_own_capabilities()?;
        }
        if let Some(ids) = self.ids {
            let (uid, gid) = (Uid::from_raw(ids.uid), Gid::from_raw(ids.gid));
            setgroups(&[])?;
            setresgid(gid, gid, gid)?;
            setresuid(uid, uid, uid)?;
        }
        nix::sys::prctl::set_no_new_privs()?;
        if let Some(rules) = self.rules.take() {
            rules.restrict_self().map_err(|_| io::Error::last_os_error())?;
        }
        for filter in &self.filters {
            apply_filter(filter).map_err(|error| match error {
                seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error) => error,
                _ => io::Error::from_raw_os_error(libc::EINVAL),
            })?;
        }
        Ok(())
    }
}

/// Returns an instruction as one number, see `Enclosure::filters`.
pub fn word(of: &sock_filter) -> u64 {
    let [a, b] = of.code.to_ne_bytes();
    let [c, d, e, f] = of.k.to_ne_bytes();
    u64::from_ne_bytes([a, b, of.jt, of.jf, c, d, e, f])
}

fn instruction(word: u64) -> sock_filter {
    let [a, b, jt, jf, c, d, e, f] = word.to_ne_bytes();
    sock_filter { code: u16::from_ne_bytes([a, b]), jt, jf, k: u32::from_ne_bytes([c, d, e, f]) }
}

/// Gives up, for good and for all who come after, every privilege that a program file could bring.
#[expect(unsafe_code, reason = "there is no safe call for the bounding set")]
fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..64 {
        // Who has none left, as in a container, may not drop it either.
        // SAFETY: this reads one bit of the calling process.
        match unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, 0, 0, 0) } {
            0 => continue,
            1 => {}
            // The kernel has no more of them.
            _ => break,
        }
        // SAFETY: this changes one bit of the calling process.
        Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) })?;
    }
    Ok(())
}

/// Gives up every capability that the process itself has: who stays root would keep them through exec.
#[expect(unsafe_code, reason = "there is no safe call for capabilities")]
fn drop_own_capabilities() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3` of `linux/capability.h`.
    const VERSION: u32 = 0x2008_0522;
    let (header, none) = ([VERSION, 0], [0_u32; 6]);
    // SAFETY: this changes the calling process alone.
    let cleared =
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    Errno::result(cleared)?;
    // SAFETY: both are as long as this version has them, and are only read.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    Errno::result(set)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_survives_being_a_number() {
        let one = sock_filter { code: 0x15, jt: 3, jf: 200, k: 0xdead_beef };
        assert_eq!(instruction(word(&one)), one);
    }
}
