//! The owner of everything that runs: signals, the runtime, the way into namespaces.

use super::attend;
use super::cancel::{Cancel, Listener};
use super::enclosure::{ContainerEngine, Walls};
use super::job::{Gate, Job, NoGate, Observer, Outcome, View};
use super::probe::{self, Capability, OverlayMode, Way};
use super::wire::{Caller, Entry, NamespaceOrder, Order};
use crate::error::{Error, Kind, Result};
use std::path::{Path, PathBuf};
use tokio::process::Command;
use tokio::runtime::Runtime;

/// Whether namespaces may be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Where they work.
    Detect,
    /// Never.
    Plain,
}

/// Runs commands, one at a time, each through a launcher.
#[derive(Debug)]
pub struct Supervisor {
    launcher: PathBuf,
    placement: Placement,
    entry: Entry,
    /// The program that lends its privileges to launchers that enter namespaces.
    lender: Option<PathBuf>,
    /// What makes containers for commands in an enclosure, where they are to have one.
    engine: Option<ContainerEngine>,
    overlay: OverlayMode,
    cancel: Cancel,
    runtime: Runtime,
    _listener: Listener,
}

impl Supervisor {
    /// Catches SIGINT, SIGTERM and SIGHUP and makes this process the reaper of what it starts.
    ///
    /// `launcher` is this program (`launcher::own_exe`). Errors: `internal_error` when the system
    /// refuses a thread or a signal handler.
    pub fn new(launcher: PathBuf, placement: Placement) -> Result<Self> {
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true)
            .map_err(|e| Error::new(Kind::Internal, "cannot become a reaper").because(e))?;
        ignore_file_size_signal();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| Error::io(Kind::Internal, "cannot start the runtime", e))?;
        let cancel = Cancel::new();
        let listener = Listener::spawn(cancel.clone())?;
        let root = nix::unistd::geteuid().is_root();
        let (entry, overlay) = if root {
            (Entry::Root, OverlayMode::RedirectDir)
        } else {
            (Entry::User, OverlayMode::UserXattr)
        };
        let _listener = listener;
        let lender = None;
        let engine = None;
        Ok(Self { launcher, placement, entry, lender, engine, overlay, cancel, runtime, _listener })
    }

    /// Returns the number of the signal that asked to stop, if one did.
    pub fn interrupted(&self) -> Option<i32> {
        self.cancel.signal()
    }

    /// Returns the flag that a signal raises.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Finds out by doing it what this machine allows, and remembers the way that works.
    ///
    /// `scratch` is a folder on the file system where copies will lie. Errors: only what makes every
    /// run impossible; that namespaces do not work is an answer.
    pub fn probe(&mut self, scratch: &Path) -> Result<Capability> {
        probe::probe(self, scratch)
    }

    /// The same for one way alone.
    pub fn probe_by(&mut self, way: Way, scratch: &Path) -> Result<Capability> {
        probe::probe_by(self, way, scratch)
    }

    /// Runs a job and returns when its whole tree is dead.
    ///
    /// Errors: `isolation_unsatisfiable` when the view cannot be made or the launcher is killed from
    /// outside, `internal_error` when the system fails. How the command ends is never an error.
    pub fn run(&mut self, job: &Job, observer: &mut dyn Observer) -> Result<Outcome> {
        self.run_gated(job, observer, &mut NoGate)
    }

    /// The same for a job whose enclosure has a gate: `gate` gets the listener of each.
    ///
    /// Errors: those of `run` and of the gate.
    pub fn run_gated(
        &mut self,
        job: &Job,
        observer: &mut dyn Observer,
        gate: &mut dyn Gate,
    ) -> Result<Outcome> {
        let order = self.order(job)?;
        {
            // What a gate starts runs in the runtime.
            let _inside = self.runtime.enter();
            gate.begin()?;
        }
        // Only the program is named: arguments may hold a script with a secret in it.
        let program = job.argv.first().map(|program| program.to_string_lossy().into_owned());
        tracing::debug!(program, deadline = ?job.deadline, "a command starts");
        let lender = self.lender.as_deref().filter(|_| order.namespace.is_some());
        let launcher = launcher_command(&self.launcher, lender);
        let attended = attend::attend(launcher, &order, job, observer, gate, &self.cancel);
        let outcome = self.runtime.block_on(attended);
        gate.close();
        let outcome = outcome?;
        tracing::debug!(
            exit = ?outcome.exit,
            wall = ?outcome.wall,
            survivors = outcome.survivors.len(),
            stdout = outcome.stdout.bytes,
            stderr = outcome.stderr.bytes,
            "a command ended"
        );
        Ok(outcome)
    }

    /// Has every command in an enclosure run in a container; a probe ends that.
    pub fn contain_by(&mut self, engine: ContainerEngine) {
        (self.engine, self.lender) = (Some(engine), None);
    }

    /// Has commands in an enclosure kept by Landlock, by launchers of the caller's own.
    pub fn close_by_landlock(&mut self) {
        (self.engine, self.lender) = (None, None);
    }

    /// Sets the way into namespaces that the canary tries.
    pub(super) fn enter_by(&mut self, entry: Entry, overlay: OverlayMode) {
        (self.entry, self.overlay) = (entry, overlay);
    }

    /// Sets who lends privileges to launchers.
    ///
    /// Errors: `isolation_unsatisfiable` where there is no `sudo`.
    pub(super) fn launch_by(&mut self, way: Way) -> Result<()> {
        self.engine = None;
        self.lender = match way {
            Way::User | Way::Root => None,
            Way::Sudo => Some(find_sudo().ok_or_else(|| {
                Error::new(Kind::IsolationUnsatisfiable, "there is no sudo here")
            })?),
        };
        Ok(())
    }

    /// Says whether launchers have privileges that are not the caller's.
    pub(super) fn is_lent(&self) -> bool {
        self.lender.is_some()
    }

    /// Returns whether namespaces may be used at all.
    pub(super) fn placement(&self) -> Placement {
        self.placement
    }

    fn order(&self, job: &Job) -> Result<Order> {
        let by_landlock = job
            .enclosure
            .as_ref()
            .filter(|enclosure| matches!(enclosure.walls, Walls::Landlock { .. }));
        let namespace = match &job.view {
            View::Plain if let Some(enclosure) = by_landlock => Some(NamespaceOrder {
                entry: Entry::Nowhere,
                overlay: String::new(),
                mounts: Vec::new(),
                remove: Vec::new(),
                enclosure: Some(enclosure.clone()),
                caller: None,
                engine: None,
                outside: None,
            }),
            View::Namespace { .. } if by_landlock.is_some() => {
                return Err(Error::new(
                    Kind::Internal,
                    "a view with mounts was asked for where Landlock closes commands in",
                ));
            }
            View::Plain if job.enclosure.is_some() => {
                return Err(Error::new(
                    Kind::Internal,
                    "an enclosure without namespaces was asked for",
                ));
            }
            View::Plain => None,
            View::Namespace { .. } if self.placement == Placement::Plain => {
                return Err(Error::new(
                    Kind::IsolationUnsatisfiable,
                    "a view with mounts was asked for where namespaces are not used",
                ));
            }
            View::Namespace { mounts, remove } => Some(NamespaceOrder {
                entry: self.entry,
                overlay: self.overlay.options().to_owned(),
                mounts: mounts.clone(),
                remove: remove.iter().map(|path| path.clone().into_os_string()).collect(),
                enclosure: job.enclosure.clone(),
                caller: self.lender.as_ref().map(|_| read_caller()),
                engine: self.engine.clone().filter(|_| job.enclosure.is_some()),
                outside: None,
            }),
        };
        let (argv, cwd) = (job.argv.clone(), job.cwd.clone().into_os_string());
        Ok(Order { argv, cwd, env: job.env.clone(), namespace })
    }
}

/// Where `sudo` lies; the caller's path may hold anything.
const SUDO: [&str; 3] = ["/usr/bin/sudo", "/run/wrappers/bin/sudo", "/usr/local/bin/sudo"];

fn find_sudo() -> Option<PathBuf> {
    SUDO.iter().map(PathBuf::from).find(|path| path.is_file())
}

/// Returns what starts a launcher: always the same words, whatever it is to run.
fn launcher_command(launcher: &Path, lender: Option<&Path>) -> Command {
    let mut command = match lender {
        Some(sudo) => {
            let mut command = Command::new(sudo);
            command.args(["-n", "--"]).arg(launcher);
            command
        }
        None => {
            let mut command = Command::new(launcher);
            command.arg0("loopexec");
            command
        }
    };
    command.arg(super::launcher::ARGUMENT);
    command
}

fn read_caller() -> Caller {
    let groups = nix::unistd::getgroups().unwrap_or_default();
    Caller {
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
    }
}

/// Makes a write beyond a file size limit fail instead of ending the process; the launcher gives
/// commands the default back.
#[expect(unsafe_code, reason = "there is no safe call that sets a signal's disposition")]
fn ignore_file_size_signal() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: no handler function is installed.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}

/// Says whether a counter that can be read at both times has risen.
pub(super) fn rose(before: Option<u64>, after: Option<u64>) -> bool {
    matches!((before, after), (Some(before), Some(after)) if after > before)
}
