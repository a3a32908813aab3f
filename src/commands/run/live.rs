//! What a run says while it goes: a live line on a terminal, plain lines in a log, and a small
//! file that `status` reads.
//!
//! Nothing here is evidence; the receipt is.

use crate::commands::Global;
use crate::commands::outcome::talk;
use crate::commands::voice;
use crate::config::spec::LimitsSpec;
use crate::report::text::{duration, one_line};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The file that says what a run is doing, in the run's folder.
pub const FILE: &str = "live.json";

/// The length of the file in bytes: more than any phase takes, spaces at the end.
const LENGTH: usize = 256;

/// What a run is doing right now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Now {
    /// The supervisor.
    pub pid: u32,
    /// What it does: `workspace`, `setup`, `baseline`, `exec`, `snapshot`, `check`,
    /// `confirmation`, `re-check of the accepted state`, `delivery`, `ended`.
    pub phase: String,
    /// The iteration, 0 for the baseline.
    pub iteration: u32,
    /// Iterations at the most.
    pub iterations_max: u32,
    /// Seconds since 1970 when the phase began.
    pub since: u64,
    /// Milliseconds that the run had used when the phase began.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// Milliseconds that it may use.
    #[serde(default)]
    pub time_max_ms: u64,
}

/// The clock and the caps of a run.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Iterations at the most.
    pub iterations: u32,
    /// Time at the most, in milliseconds.
    pub time_ms: u64,
    /// When this process started to work on the run.
    pub started: Instant,
    /// Milliseconds that killed processes used before.
    pub earlier_ms: u64,
}

impl Bounds {
    /// Returns the bounds of a run by its limits.
    pub fn of(limits: &LimitsSpec, started: Instant, earlier_ms: u64) -> Self {
        let time_ms = u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX);
        Self { iterations: limits.iterations, time_ms, started, earlier_ms }
    }

    fn elapsed_ms(&self) -> u64 {
        self.earlier_ms + u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Nothing.
    Quiet,
    /// A line for each thing.
    Lines,
    /// The same, and a line that is drawn again.
    Terminal,
}

/// Says what a run is doing.
#[derive(Debug)]
pub struct Live {
    file: PathBuf,
    open: Option<File>,
    manner: Manner,
    verbose: bool,
    now: Now,
    bounds: Bounds,
    line: Arc<Mutex<Option<(String, Instant)>>>,
}

impl Live {
    /// Starts to say what the run in this folder does.
    pub fn start(run: &Path, global: &Global, bounds: Bounds) -> Self {
        // Some runners give their steps a terminal; what stands before a command there hides it.
        let terminal = std::io::stderr().is_terminal() && !voice::speaks_to_a_platform();
        let manner = match (global.quiet, terminal) {
            (true, _) => Manner::Quiet,
            (false, true) => Manner::Terminal,
            (false, false) => Manner::Lines,
        };
        let now = Now {
            pid: std::process::id(),
            phase: "workspace".to_owned(),
            iteration: 0,
            iterations_max: bounds.iterations,
            since: seconds(),
            elapsed_ms: bounds.elapsed_ms(),
            time_max_ms: bounds.time_ms,
        };
        let line = Arc::new(Mutex::new(None));
        if manner == Manner::Terminal {
            let line = Arc::downgrade(&line);
            std::thread::spawn(move || {
                while let Some(line) = line.upgrade() {
                    draw(&line);
                    drop(line);
                    std::thread::sleep(Duration::from_millis(500));
                }
            });
        }
        Self {
            file: run.join(FILE),
            open: None,
            manner,
            verbose: global.verbose,
            now,
            bounds,
            line,
        }
    }

    /// Says that a phase begins.
    pub fn enter(&mut self, phase: &str, iteration: u32) {
        phase.clone_into(&mut self.now.phase);
        self.now.iteration = iteration;
        self.now.since = seconds();
        self.now.elapsed_ms = self.bounds.elapsed_ms();
        self.write_now();
        let text = match iteration {
            0 => format!("baseline · {phase}"),
            n => format!("iteration {n}/{} · {phase}", self.now.iterations_max),
        };
        if self.manner == Manner::Lines {
            voice::open_group(text.split(" · ").next().unwrap_or_default());
        }
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = Some((text, Instant::now()));
        if self.manner == Manner::Terminal {
            draw(&self.line);
        }
    }

    /// Writes over what the file said, with one call and one length: a rename would make the file
    /// system write the new file out at once, several times an iteration.
    fn write_now(&mut self) {
        let Ok(mut text) = serde_json::to_vec(&self.now) else { return };
        text.resize(text.len().max(LENGTH), b' ');
        if self.open.is_none() {
            let options = || OpenOptions::new().write(true).create(true).truncate(true).to_owned();
            self.open = options().custom_flags(libc::O_NOFOLLOW).open(&self.file).ok();
        }
        // A full disk costs only this.
        let _ = self.open.as_ref().map(|file| file.write_all_at(&text, 0));
    }

    /// Says one line.
    pub fn say(&self, text: &str) {
        match self.manner {
            Manner::Quiet => {}
            Manner::Lines => talk(&one_line(text, 400)),
            Manner::Terminal => {
                erase();
                talk(&one_line(text, 400));
            }
        }
    }

    /// Says whether what commands print is shown as they print it.
    pub fn shows_output(&self) -> bool {
        self.verbose && self.manner != Manner::Quiet
    }

    /// Takes the live line away.
    pub fn end(&mut self) {
        self.enter("ended", self.now.iteration);
        voice::close_group();
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.manner == Manner::Terminal {
            erase();
        }
    }
}

fn draw(line: &Mutex<Option<(String, Instant)>>) {
    let line = line.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some((text, since)) = line {
        let age = duration(u64::try_from(since.elapsed().as_millis()).unwrap_or(0) / 1000 * 1000);
        let _ = write!(std::io::stderr().lock(), "\r\x1b[2K{text} · {age}");
    }
}

fn erase() {
    let _ = write!(std::io::stderr().lock(), "\r\x1b[2K");
}

/// Returns the seconds since 1970.
pub fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
