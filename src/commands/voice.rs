//! How lines are written where a platform reads the log: no quoted text becomes a command, what agents
//! and checks print stands inside a fence where there is one and is made harmless elsewhere, iterations
//! are folded.
//!
//! All of it goes to stderr, one stream, so that the platform sees it in the order it was said; but for
//! TeamCity's service messages, which that reads on stdout alone.

use super::outcome::{say, talk_raw};
use super::run::live::seconds;
use crate::ci::github::commands::{self as github, Fence};
use crate::ci::gitlab::sections::{self, Shown};
use crate::ci::others::inert::inert;
use crate::ci::platform::Platform;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

static PLATFORM: OnceLock<Platform> = OnceLock::new();

/// The name of the group that is open.
static GROUP: Mutex<Option<String>> = Mutex::new(None);

/// Sets the platform whose rules all lines follow from now on; the first call counts.
pub fn speak_to(platform: Platform) {
    let _ = PLATFORM.set(platform);
}

/// Whether stdout is one JSON object.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Keeps stdout free for the one JSON object that was asked for.
pub fn keep_stdout() {
    IS_JSON.store(true, Ordering::Relaxed);
}

/// Writes a command that the platform shall read.
pub fn command(line: &str) {
    match platform() == Platform::TeamCity && !IS_JSON.load(Ordering::Relaxed) {
        true => say(&format!("{line}\n")),
        false => talk_raw(line),
    }
}

fn platform() -> Platform {
    PLATFORM.get().copied().unwrap_or(Platform::None)
}

/// Says whether what is said lands in the log of a platform.
pub fn speaks_to_a_platform() -> bool {
    platform() != Platform::None
}

/// Says whether lines of a platform's log can be commands to it.
fn reads_github_commands() -> bool {
    matches!(platform(), Platform::GitHub | Platform::Gitea)
}

/// Returns text that may quote anybody as it may stand in the log.
pub fn harmless(text: &str) -> Cow<'_, str> {
    match platform() {
        Platform::None => Cow::Borrowed(text),
        Platform::GitHub | Platform::Gitea => Cow::Owned(github::harmless(text)),
        other => Cow::Owned(inert(other, text)),
    }
}

/// Returns a line of JSON that says the same and is no command.
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    match platform() {
        Platform::None => Cow::Borrowed(json),
        _ => Cow::Owned(github::harmless_json(json)),
    }
}

/// Opens a group for what follows and closes the one before.
pub fn open_group(title: &str) {
    let mut group = GROUP.lock().unwrap_or_else(PoisonError::into_inner);
    if group.as_deref() == Some(title) {
        return;
    }
    close(&mut group);
    match platform() {
        Platform::GitHub | Platform::Gitea => talk_raw(&github::group(title)),
        Platform::GitLab => talk_raw(&sections::start(title, title, seconds(), Shown::Open)),
        Platform::Buildkite => talk_raw(&format!("--- {title}")),
        Platform::Azure => talk_raw(&format!("##[group]{title}")),
        _ => return,
    }
    *group = Some(title.to_owned());
}

/// Closes the group that is open.
pub fn close_group() {
    close(&mut GROUP.lock().unwrap_or_else(PoisonError::into_inner));
}

fn close(group: &mut Option<String>) {
    let Some(title) = group.take() else { return };
    match platform() {
        Platform::GitHub | Platform::Gitea => talk_raw(github::endgroup()),
        Platform::GitLab => talk_raw(&sections::end(&title, seconds())),
        Platform::Azure => talk_raw("##[endgroup]"),
        _ => {}
    }
}

/// A stretch of the log in which foreign output stands; its end is told when it is dropped.
pub struct Foreign(Option<Fence>);

impl Foreign {
    /// Returns a line of it: behind the fence it is data as it is, elsewhere it is made harmless.
    pub fn line<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.0 {
            Some(_) => Cow::Borrowed(text),
            None => harmless(text),
        }
    }

    /// Begins the stretch; on a platform without such a fence nothing is said.
    pub fn begin() -> Self {
        if !reads_github_commands() {
            return Self(None);
        }
        let fence = Fence::fresh();
        talk_raw(&fence.open_line());
        Self(Some(fence))
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(fence) = &self.0 {
            talk_raw(&fence.close_line());
        }
    }
}
