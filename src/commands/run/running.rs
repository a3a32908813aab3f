//! Runs one command of the loop on its ground, and turns what came of it into facts.
//!
//! What is run, and what the facts mean, is the business of `checking`, `briefing` and
//! `preparing`.

use super::site::{Ground, Site};
use super::surround::Env;
use crate::commands::outcome::talk_raw;
use crate::commands::voice::Foreign;
use crate::domain::command::CommandSpec;
use crate::domain::observation::{RunFact, StreamFact, SurvivorFact};
use crate::error::Result;
use crate::integrity::results::{Out, Probe};
use crate::process::{Captured, Job, Observer, Outcome, Stream, View};
use crate::receipt::redact;
use std::time::Duration;

/// Bytes of output that stand in an event, for people and for the next context.
const TAIL: usize = 6 * 1024;

/// The time between asking a command to end and killing it.
const GRACE: Duration = Duration::from_secs(5);

/// How far from a cut a line end is looked for, in bytes.
const NEAR_CUT: usize = 4 * 1024;

/// One command, ready to start.
pub(super) struct Launch<'a> {
    pub view: View,
    pub command: &'a CommandSpec,
    pub env: Env,
    pub deadline: Duration,
    /// How long it may be idle, and then the workspace is watched for life.
    pub idle: Option<Duration>,
}

impl Site {
    /// Runs a command; also gives the last bytes that it printed, without secrets.
    pub(super) fn launch(
        &mut self,
        ground: &Ground,
        launch: Launch<'_>,
        probe: Option<&mut Probe>,
    ) -> Result<(Outcome, Vec<u8>)> {
        let mut cwd = ground.root.join(&self.caller.prefix);
        cwd.extend(&launch.command.cwd);
        let (mut env, mut enclosure) = (launch.env, None);
        if let Some(closed) = &ground.enclosure {
            env.extend(closed.variables.clone());
            enclosure = Some(closed.enclosure.clone());
        }
        let job = Job {
            argv: self.surround.argv(launch.command)?,
            cwd,
            env: env.into_vec(),
            view: launch.view,
            enclosure,
            deadline: Some(launch.deadline),
            idle_watch: launch.idle.iter().map(|_| self.workspace()).collect(),
            idle: launch.idle,
            grace: GRACE,
            keep: self.keep(),
        };
        let redactor = self.redactor.clone();
        let mut listener = Listener {
            probe,
            tail: [Vec::new(), Vec::new()],
            clean: [Some(redactor.stream()), Some(redactor.stream())],
            echo: self.live.shows_output().then(Foreign::begin),
            line: [Vec::new(), Vec::new()],
        };
        let outcome = match (&mut self.zones, &ground.enclosure) {
            (Some(zones), Some(closed)) => {
                self.supervisor.run_gated(&job, &mut listener, zones.gate(closed))?
            }
            _ => self.supervisor.run(&job, &mut listener)?,
        };
        let tail = listener.finish();
        self.stop_if_interrupted()?;
        Ok((outcome, tail))
    }

    /// Returns the bytes kept of the head and again of the tail of each stream.
    fn keep(&self) -> usize {
        usize::try_from(self.spec.receipt.capture / 2).unwrap_or(usize::MAX).min(8 << 20)
    }

    /// Writes what was kept of the output as blobs and returns the facts of a command.
    pub(super) fn run_fact(&mut self, outcome: Outcome, tail: &[u8]) -> Result<RunFact> {
        let stdout = self.stream_fact(&outcome.stdout)?;
        let stderr = self.stream_fact(&outcome.stderr)?;
        let survivors = outcome.survivors.into_iter().map(|survivor| SurvivorFact {
            pid: survivor.pid,
            name: survivor.name,
            command: survivor.command,
        });
        let text = crate::report::text::clean(&String::from_utf8_lossy(tail));
        self.redactor.redact_fact(RunFact {
            exit: outcome.exit,
            stdout,
            stderr,
            tail: text,
            wall_ms: u64::try_from(outcome.wall.as_millis()).unwrap_or(u64::MAX),
            survivors: survivors.collect(),
            refused: outcome.refused,
            crowded: outcome.crowded,
        })
    }

    fn stream_fact(&mut self, captured: &Captured) -> Result<StreamFact> {
        let mut kept = None;
        if captured.bytes > 0 {
            let whole = (captured.head.len() + captured.tail.len()) as u64 == captured.bytes;
            let (head, tail) = match whole {
                true => (&captured.head[..], &captured.tail[..]),
                false => (before_cut(&captured.head), after_cut(&captured.tail)),
            };
            let mut bytes = head.to_vec();
            if !whole {
                let left_out = captured.bytes - (head.len() + tail.len()) as u64;
                bytes.extend_from_slice(format!("\n[{left_out} bytes left out]\n").as_bytes());
            }
            bytes.extend_from_slice(tail);
            kept = Some(self.blobs.write(&self.redactor.redact(&bytes))?);
        }
        Ok(StreamFact { bytes: captured.bytes, sha256: captured.sha256.clone(), kept })
    }
}

/// Ends a head at a line end, so that no half of a secret stands at the cut.
fn before_cut(head: &[u8]) -> &[u8] {
    let near = head.len().saturating_sub(NEAR_CUT);
    match head[near..].iter().rposition(|byte| *byte == b'\n') {
        Some(at) => &head[..near + at],
        None => head,
    }
}

/// Starts a tail at a line's beginning.
fn after_cut(tail: &[u8]) -> &[u8] {
    match tail.iter().take(NEAR_CUT).position(|byte| *byte == b'\n') {
        Some(at) => &tail[at + 1..],
        None => tail,
    }
}

/// Bytes of a line that are waited for.
const LONGEST_LINE: usize = 64 << 10;

/// Shows what a command printed.
fn show(bytes: &[u8], foreign: &Foreign) {
    if !bytes.is_empty() {
        let text = crate::report::text::clean(&String::from_utf8_lossy(bytes));
        talk_raw(&foreign.line(text.trim_end_matches('\n')));
    }
}

/// Hands output on while it comes.
struct Listener<'a> {
    probe: Option<&'a mut Probe>,
    /// The end of each stream.
    tail: [Vec<u8>; 2],
    /// What takes secrets out of stdout and stderr, also where a chunk ends inside one.
    clean: [Option<redact::Stream<'a>>; 2],
    echo: Option<Foreign>,
    /// What was printed of a line whose end has not come, for each stream: a platform masks secrets
    /// by the line.
    line: [Vec<u8>; 2],
}

impl Observer for Listener<'_> {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        let (out, at) = match stream {
            Stream::Stdout => (Out::Stdout, 0),
            Stream::Stderr => (Out::Stderr, 1),
        };
        if let Some(probe) = &mut self.probe {
            probe.observe(out, bytes);
        }
        if let Some(clean) = self.clean[at].as_mut().map(|stream| stream.push(bytes)) {
            self.take(at, &clean);
        }
    }
}

impl Listener<'_> {
    fn take(&mut self, at: usize, clean: &[u8]) {
        if let Some(foreign) = &self.echo {
            self.line[at].extend_from_slice(clean);
            let whole = self.line[at].iter().rposition(|byte| *byte == b'\n').map(|end| end + 1);
            let whole = whole.or((self.line[at].len() > LONGEST_LINE).then_some(LONGEST_LINE));
            let lines: Vec<u8> = self.line[at].drain(..whole.unwrap_or(0)).collect();
            show(&lines, foreign);
        }
        let start = clean.len().saturating_sub(TAIL);
        let tail = &mut self.tail[at];
        tail.extend_from_slice(&clean[start..]);
        if tail.len() > TAIL * 4 {
            tail.drain(..tail.len() - TAIL);
        }
    }

    /// Returns the last bytes of stdout and then those of stderr: which came first is the scheduler's to say,
    /// and what failed the same way is told by them.
    fn finish(mut self) -> Vec<u8> {
        for at in [0, 1] {
            if let Some(stream) = self.clean[at].take() {
                self.take(at, &stream.finish());
            }
            if let Some(foreign) = &self.echo {
                show(&std::mem::take(&mut self.line[at]), foreign);
            }
        }
        let [out, err] = &self.tail;
        join_ends(out, err, TAIL)
    }
}

/// Returns the ends of two streams, each with half of the room and what the other leaves of its own.
fn join_ends(out: &[u8], err: &[u8], room: usize) -> Vec<u8> {
    let end = |of: &[u8], room: usize| match of.len().checked_sub(room) {
        None | Some(0) => of.to_vec(),
        Some(from) => after_cut(&of[from..]).to_vec(),
    };
    let mut joined = end(out, room.saturating_sub(err.len()).max(room / 2));
    let err = end(err, room.saturating_sub(joined.len()));
    if !joined.is_empty() && !joined.ends_with(b"\n") && !err.is_empty() {
        joined.push(b'\n');
    }
    joined.extend(err);
    joined
}

#[cfg(test)]
mod tests {
    use super::{after_cut, before_cut, join_ends};

    #[test]
    fn both_streams_keep_their_ends() {
        assert_eq!(join_ends(b"out", b"err\n", 40), b"out\nerr\n");
        assert_eq!(join_ends(b"", b"err", 40), b"err");
        assert_eq!(join_ends(b"out\n", b"", 40), b"out\n");
        let (many, few) = ("0123456\n".repeat(20), "err\n");
        let joined = join_ends(many.as_bytes(), few.as_bytes(), 40);
        assert!(
            joined.len() <= 40 && joined.starts_with(b"0123456\n") && joined.ends_with(b"err\n")
        );
        let joined = join_ends(few.as_bytes(), many.as_bytes(), 40);
        assert!(joined.len() <= 40 && joined.starts_with(b"err\n0123456\n"));
        let joined = join_ends(many.as_bytes(), many.as_bytes(), 40);
        assert_eq!(joined.len(), 32, "two whole lines of each");
    }

    #[test]
    fn a_cut_falls_between_lines() {
        assert_eq!(before_cut(b"one\ntwo\nhalf-a-sec"), b"one\ntwo");
        assert_eq!(after_cut(b"ret\nthree\n"), b"three\n");
        assert_eq!(before_cut(b"no line"), b"no line");
    }
}
