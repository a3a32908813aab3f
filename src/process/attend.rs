//! One run of a command, seen from loopexec: output, deadlines, interruption, the final report.

use super::bounds::{Exceeded, Watch};
use super::cancel::Cancel;
use super::capture::{Capture, Pipes};
use super::idle::IdleWatch;
use super::job::{Gate, Job, Observer, Outcome, Stream, Survivor};
use super::orphans::{self, Launched};
use super::wire::{self, Report};
use super::{memory, net, supervisor};
use crate::domain::command::Exit;
use crate::error::{Error, Kind, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// Most time an interrupted command gets to end by itself.
const INTERRUPT_GRACE: Duration = Duration::from_millis(700);
/// Time that the launcher gets, once it has nothing left to do but end, before it is killed itself.
const LAUNCHER_GRACE: Duration = Duration::from_secs(1);
/// The same after an interruption; the watcher of a namespace gives process 1 half a second of it.
const INTERRUPT_LAUNCHER_GRACE: Duration = Duration::from_millis(600);
/// The same for what an engine clears away behind a container whose processes are dead: an engine that is killed
/// over it leaves parts of it on disk.
const CONTAINER_GRACE: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(2)];
/// Time for output that is still in a pipe after its tree is dead.
const DRAIN: Duration = Duration::from_millis(250);

/// Why loopexec ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Deadline,
    Idle,
    Interrupt,
    Exceeded(Exceeded),
}

/// How far its end has come; a launcher that is leaving has nothing left to do but end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Asked { kill_at: Instant },
    Leaving { give_up_at: Instant },
    LauncherKilled,
}

/// What the launcher has sent, beside the bytes of reports.
struct Arrived {
    more: bool,
    listener: Option<std::net::TcpListener>,
}

/// The parts of one run.
struct Run<'a> {
    job: &'a Job,
    child: Child,
    launched: Launched,
    control: UnixStream,
    arrived: Vec<u8>,
    reports: Vec<Report>,
    /// How many listeners are still to come, before any report.
    expected_listeners: usize,
    stop: Option<Stop>,
    phase: Phase,
    watch: Option<Watch>,
    /// Whether the command is in a container.
    contained: bool,
}

/// Runs a job through a new launcher and returns when its whole tree is dead.
pub(super) async fn attend(
    launcher: Command,
    order: &wire::Order,
    job: &Job,
    observer: &mut dyn Observer,
    gate: &mut dyn Gate,
    cancel: &Cancel,
) -> Result<Outcome> {
    let begun = Instant::now();
    let mut seen = cancel.count();
    if cancel.is_raised() {
        let [stdout, stderr] = [(); 2].map(|()| Capture::new(job.keep).finish());
        let (exit, survivors, wall) = (Exit::Interrupted, Vec::new(), begun.elapsed());
        return Ok(Outcome { exit, survivors, stdout, stderr, wall, refused: 0, crowded: false });
    }
    let contained = order.namespace.as_ref().is_some_and(|place| place.engine.is_some());
    let read_kills = match contained {
        true => memory::read_oom_kills_anywhere,
        false => memory::read_oom_kills,
    };
    let kills_before = read_kills();
    let frame = wire::frame(order).map_err(|e| failed("cannot write the order", e))?;
    let (mut run, mut pipes) = spawn(launcher, job, contained)?;
    let mut idle = job
        .idle
        .map(|limit| IdleWatch::new(limit, job.idle_watch.clone(), run.launched.pid, begun));
    // A launcher that died early is found out below; the error adds nothing.
    let _ = run.control.write_all(&frame).await;
    drop(frame);

    let (mut control_open, mut unopened) = (true, None);
    let status = loop {
        let timer = run.next_timer(begun, idle.as_ref());
        tokio::select! {
            () = cancel.beyond(seen) => {
                seen = cancel.count();
                if run.stop.is_some() { run.kill().await } else { run.end(Stop::Interrupt).await }
            }
            arrived = arrive(&mut run.control, &mut run.arrived, &mut run.expected_listeners), if control_open => {
                control_open = arrived.more;
                if let Some(Err(error)) = arrived.listener.map(|listener| gate.open(listener)) {
                    unopened = Some(error);
                    run.kill().await;
                }
                run.take_reports(idle.as_mut())?;
            }
            status = run.child.wait() => break status,
            () = tokio::time::sleep_until(timer.into()) => run.on_timer(begun, &mut idle).await,
            read = pipes.out.read(&mut pipes.out_buffer), if !pipes.stdout.ended() => {
                pipes.take(Stream::Stdout, read, observer);
                if let Some(idle) = &mut idle { idle.note_output() }
            }
            read = pipes.err.read(&mut pipes.err_buffer), if !pipes.stderr.ended() => {
                pipes.take(Stream::Stderr, read, observer);
                if let Some(idle) = &mut idle { idle.note_output() }
            }
        }
    };
    let status = status.map_err(|e| failed("cannot wait for the launcher", e))?;
    // Somebody else may still hold the other end, so the end of the stream is not waited for.
    while let Ok(Ok(1..)) =
        tokio::time::timeout(DRAIN, run.control.read_buf(&mut run.arrived)).await
    {}
    run.take_reports(None)?;
    let mut survivors = run.take_survivors();
    if !status.success() || run.ended().is_none() {
        survivors.extend(orphans::kill_orphans(&run.launched)?);
    }
    let _ = tokio::time::timeout(DRAIN, pipes.drain(observer)).await;
    if let Some(error) = unopened {
        return Err(error);
    }
    let exit = run.exit([kills_before, read_kills()])?;
    let (refused, refusals) = match run.ended() {
        Some(Report::Ended { refused, used_up, .. }) => (*refused, used_up.map(|used| used.1)),
        _ => (0, None),
    };
    let crowded = refusals.is_some_and(|times| times > 0)
        || run.watch.as_ref().is_some_and(Watch::was_crowded);
    let (stdout, stderr) = (pipes.stdout.finish(), pipes.stderr.finish());
    Ok(Outcome { exit, survivors, stdout, stderr, wall: begun.elapsed(), refused, crowded })
}

/// Waits for what the launcher sends next, listeners before every report; nothing is lost when the wait is
/// given up.
async fn arrive(
    control: &mut UnixStream,
    bytes: &mut Vec<u8>,
    expected_listeners: &mut usize,
) -> Arrived {
    if *expected_listeners == 0 {
        return Arrived { more: matches!(control.read_buf(bytes).await, Ok(1..)), listener: None };
    }
    let ready = control.readable().await;
    match ready.and_then(|()| control.try_io(Interest::READABLE, || net::receive(control))) {
        Ok((byte, listener)) => {
            // What is no listener is the first byte of a report: no listener comes any more.
            *expected_listeners = if listener.is_some() { *expected_listeners - 1 } else { 0 };
            bytes.extend(byte.filter(|byte| *byte != wire::LISTENER));
            Arrived { more: byte.is_some(), listener }
        }
        Err(error) => Arrived { more: error.kind() == io::ErrorKind::WouldBlock, listener: None },
    }
}

fn failed(what: &str, error: io::Error) -> Error {
    Error::io(Kind::Internal, what, error)
}

fn spawn(mut command: Command, job: &Job, contained: bool) -> Result<(Run<'_>, Pipes)> {
    let program = command.as_std().get_program().to_owned();
    let mut begin = || -> io::Result<_> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let control = UnixStream::from_std(ours)?;
        command.env_clear().current_dir("/");
        command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (launched, mut child) = orphans::spawn_known(|| {
            let child = command.spawn()?;
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
            Ok((pid.ok_or_else(|| io::Error::other("the launcher has no number"))?, child))
        })?;
        let gone = || io::Error::other("the launcher has no output");
        let stdout = child.stdout.take().ok_or_else(gone)?;
        let stderr = child.stderr.take().ok_or_else(gone)?;
        Ok((control, launched, child, stdout, stderr))
    };
    let (control, launched, child, stdout, stderr) = begin().map_err(|error| {
        Error::io(
            Kind::IsolationUnsatisfiable,
            format!("cannot start the launcher {}", program.display()),
            error,
        )
    })?;
    let (arrived, reports) = (Vec::new(), Vec::new());
    let (stop, phase) = (None, Phase::Running);
    let watch = Watch::new(job, launched.pid, Instant::now());
    let expected_listeners = job.enclosure.as_ref().map_or(0, |closed| closed.doors.len());
    let run = Run {
        job,
        child,
        launched,
        control,
        arrived,
        reports,
        expected_listeners,
        stop,
        phase,
        watch,
        contained,
    };
    Ok((run, Pipes::new(stdout, stderr, job.keep)))
}

impl Run<'_> {
    fn next_timer(&self, begun: Instant, idle: Option<&IdleWatch>) -> Instant {
        let far = Instant::now() + Duration::from_secs(3600);
        match self.phase {
            Phase::Running => {
                let deadline = self.job.deadline.and_then(|limit| begun.checked_add(limit));
                let watch = self.watch.as_ref().map(Watch::next_look);
                [deadline, idle.map(IdleWatch::next_look), watch]
                    .into_iter()
                    .flatten()
                    .min()
                    .unwrap_or(far)
            }
            Phase::Asked { kill_at } => kill_at,
            Phase::Leaving { give_up_at } => give_up_at,
            Phase::LauncherKilled => far,
        }
    }

    async fn on_timer(&mut self, begun: Instant, idle: &mut Option<IdleWatch>) {
        let now = Instant::now();
        match self.phase {
            Phase::Running => {
                if self.job.deadline.is_some_and(|limit| now.duration_since(begun) >= limit) {
                    self.end(Stop::Deadline).await;
                } else if idle.as_mut().is_some_and(|i| i.next_look() <= now && i.is_idle(now)) {
                    self.end(Stop::Idle).await;
                } else if let Some(exceeded) = self.look(now) {
                    // Asking would give it the time to take more.
                    self.stop = Some(Stop::Exceeded(exceeded));
                    self.kill().await;
                }
            }
            Phase::Asked { kill_at } if kill_at <= now => self.kill().await,
            Phase::Leaving { give_up_at } if give_up_at <= now => {
                self.phase = Phase::LauncherKilled;
                let _ = self.child.start_kill();
                // One that is root in our place cannot be killed, and does the same by itself when it hears no more.
                let _ = self.control.shutdown().await;
            }
            _ => {}
        }
    }

    fn look(&mut self, now: Instant) -> Option<Exceeded> {
        let watch = self.watch.as_mut().filter(|watch| watch.next_look() <= now)?;
        watch.look(now)
    }

    /// Asks the command to end.
    async fn end(&mut self, stop: Stop) {
        // Who has ended by itself was not ended by a limit, however long its tree takes to die.
        if self.phase != Phase::Running || self.ended().is_some() {
            return;
        }
        self.stop = Some(stop);
        let most = if stop == Stop::Interrupt { INTERRUPT_GRACE } else { Duration::MAX };
        let kill_at = Instant::now().checked_add(self.job.grace.min(most));
        let kill_at = kill_at.unwrap_or_else(|| Instant::now() + INTERRUPT_GRACE);
        self.phase = Phase::Asked { kill_at };
        let _ = self.control.write_all(&[wire::TERMINATE]).await;
        self.wake_launcher();
    }

    /// Kills the whole tree.
    async fn kill(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Asked { .. }) {
            let _ = self.control.write_all(&[wire::KILL]).await;
            self.leave();
        }
    }

    /// Gives the launcher a last while to end by itself.
    fn leave(&mut self) {
        let interrupted = self.stop == Some(Stop::Interrupt);
        let [usual, hurried] = match self.contained {
            true => CONTAINER_GRACE,
            false => [LAUNCHER_GRACE, INTERRUPT_LAUNCHER_GRACE],
        };
        let grace = if interrupted { hurried } else { usual };
        self.phase = Phase::Leaving { give_up_at: Instant::now() + grace };
        self.wake_launcher();
    }

    /// Lets a launcher go on that somebody has stopped; one that runs does not notice.
    fn wake_launcher(&self) {
        // A child that was reaped has no number any more, so nobody else can be hit.
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    fn take_reports(&mut self, mut idle: Option<&mut IdleWatch>) -> Result<()> {
        let broken = |e| failed("the launcher's report cannot be read", e);
        while let Some(report) = wire::take_report(&mut self.arrived).map_err(broken)? {
            if let Report::Started { kills: Some(kills), .. } = &report {
                self.watch.iter_mut().for_each(|watch| watch.count_in(kills.into()));
            }
            if let Report::Started { root: Some(root), .. } = &report {
                // The tree of a daemon's container is below no launcher of ours.
                self.watch.iter_mut().for_each(|watch| watch.follow(*root));
                idle.iter_mut().for_each(|idle| idle.follow(*root));
            }
            self.reports.push(report);
        }
        // In a namespace process 1 reports, and the launcher outside may be stopped for ever.
        if self.ended().is_some() && matches!(self.phase, Phase::Running | Phase::Asked { .. }) {
            self.leave();
        }
        Ok(())
    }

    fn take_survivors(&mut self) -> Vec<Survivor> {
        let ends = self.reports.iter_mut().filter_map(|report| match report {
            Report::Ended { survivors, .. } => Some(std::mem::take(survivors)),
            _ => None,
        });
        ends.flatten().collect()
    }

    /// Returns the launcher's last word, if it had one.
    fn ended(&self) -> Option<&Report> {
        self.reports.iter().rev().find(|report| !matches!(report, Report::Started { .. }))
    }

    fn exit(&self, [before, after]: [Option<u64>; 2]) -> Result<Exit> {
        let ran_out = supervisor::rose(before, after);
        let of_stop = match self.stop {
            Some(Stop::Deadline) => Some(Exit::TimedOut),
            Some(Stop::Idle) => Some(Exit::Idle),
            Some(Stop::Interrupt) => Some(Exit::Interrupted),
            Some(Stop::Exceeded(Exceeded::Memory)) => Some(Exit::OutOfMemory),
            Some(Stop::Exceeded(Exceeded::Disk)) => Some(Exit::OutOfDisk),
            None => None,
        };
        match (self.ended(), of_stop) {
            (Some(Report::LaunchFailed { what }), _) => {
                Err(Error::new(Kind::IsolationUnsatisfiable, what.clone())
                    .hint("`loopexec doctor` shows what this machine allows"))
            }
            (Some(Report::Unkillable { survivors }), _) => {
                let who = survivors.first().map_or("a process".to_owned(), |survivor| {
                    format!("process {} ({})", survivor.pid, survivor.name)
                });
                let what = format!("{who} of an ended command cannot be killed");
                Err(Error::new(Kind::IsolationUnsatisfiable, what)
                    .hint("it runs as another user (sudo?) or hangs in the kernel"))
            }
            (_, Some(exit)) => Ok(exit),
            (Some(Report::NotStarted { why }), None) => Ok(Exit::NotStarted { why: why.clone() }),
            // Its own group counts nobody else's.
            (Some(Report::Ended { used_up: Some((1.., _)), .. }), None) => Ok(Exit::OutOfMemory),
            (Some(Report::Ended { code, signal, used_up, .. }), None) => {
                let ran_out = ran_out && used_up.is_none();
                // A file that would have become longer than the disk it may have.
                if self.job.enclosure.is_some()
                    && (*signal == Some(libc::SIGXFSZ) || *code == Some(128 + libc::SIGXFSZ))
                {
                    return Ok(Exit::OutOfDisk);
                }
                let by_kill = *signal == Some(libc::SIGKILL) || *code == Some(128 + libc::SIGKILL);
                if by_kill && ran_out {
                    return Ok(Exit::OutOfMemory);
                }
                match (*code, *signal) {
                    (Some(code), _) => Ok(Exit::Code { code }),
                    (None, Some(signal)) => Ok(Exit::Signal { signal }),
                    (None, None) => Err(lost()),
                }
            }
            (None | Some(Report::Started { .. }), None) => {
                if ran_out {
                    return Ok(Exit::OutOfMemory);
                }
                Err(lost())
            }
        }
    }
}

fn lost() -> Error {
    Error::new(
        Kind::IsolationUnsatisfiable,
        "the process that keeps the running command was ended from outside",
    )
    .hint("the command's whole tree was killed; start again, and look for who kills processes here")
}
