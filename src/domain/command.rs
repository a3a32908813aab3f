//! A command as a loop file states it, and how a command ended.
//!
//! Running one is the duty of `process`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Which shell interprets a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shell {
    /// bash when there is one, else sh.
    Auto,
    /// `bash --noprofile --norc -eo pipefail -c`.
    Bash,
    /// `sh -e -c`.
    Sh,
}

/// What a command runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    /// A text for a shell.
    Script {
        /// The script.
        text: String,
        /// Which shell reads it.
        shell: Shell,
    },
    /// A program and its arguments, without a shell.
    Argv(Vec<String>),
}

/// A command of the loop file: `exec`, `check`, `setup` and their kin.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommandSpec {
    /// What is run.
    pub run: Run,
    /// Folder inside the workspace, relative to where the run was started.
    pub cwd: Option<String>,
    /// Variables set for this command alone.
    pub env: BTreeMap<String, String>,
    /// Names of the caller's variables that pass through.
    pub pass_env: Vec<String>,
    /// Wall-clock limit of this command.
    pub timeout: Option<Duration>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ended")]
pub enum Exit {
    /// It returned this code.
    Code {
        /// The exit code, 0 to 255.
        code: i32,
    },
    /// A signal that loopexec did not send ended it.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// Its deadline passed and loopexec ended it.
    TimedOut,
    /// Nothing moved for the idle deadline and loopexec ended it.
    Idle,
    /// loopexec was asked to stop and ended it.
    Interrupted,
    /// The kernel ended it for want of memory, or loopexec because it had more than it may.
    OutOfMemory,
    /// It wrote more than it may and loopexec ended it.
    OutOfDisk,
    /// It could not be started.
    NotStarted {
        /// What the system said.
        why: String,
    },
}

/// Returns a signal's name, or its number where that differs between systems.
///
/// The numbers are those that POSIX fixes for `kill`, and those that every system has alike; a
/// receipt is folded to the same words wherever it is read.
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_names_that_this_system_gives_them() {
        for number in 1..=15 {
            let name = signal_name(number);
            let known = nix::sys::signal::Signal::try_from(number).unwrap();
            assert!(name == known.as_str() || name == format!("signal {number}"), "{name}");
        }
        assert_eq!(signal_name(2), "SIGINT");
    }
}
