//! Since when the job is asked to stop, and whether the launcher is gone: from then on only little
//! time is left, and what is not told is left to the post step.

use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// How long after the first signal anything may still be told: a runner sends SIGKILL after ten
/// seconds, and what was told has to be noted before that.
const MOST: Duration = Duration::from_secs(7);

static ASKED: OnceLock<Instant> = OnceLock::new();
static WATCHED: OnceLock<()> = OnceLock::new();

#[cfg(target_os = "linux")]
static PARENT: OnceLock<nix::unistd::Pid> = OnceLock::new();

/// Has SIGTERM sent to this process when the launcher ends before it.
///
/// A launcher that was killed passes nothing on; without it the run would go on, unseen, beside the
/// post step.
pub fn end_with_the_launcher() {
    #[cfg(target_os = "linux")]
    {
        PARENT.get_or_init(nix::unistd::getppid);
        // Without it only that rare end is worse.
        let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM);
    }
}

/// Notes the first signal from now on; to be called where signals are caught already, as they end
/// the process no more.
pub fn watch() {
    if WATCHED.set(()).is_err() {
        return;
    }
    let (ready, is_ready) = std::sync::mpsc::channel();
    let watching = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else {
            return;
        };
        runtime.block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let [Ok(mut first), Ok(mut second), Ok(mut third)] = kinds.map(signal) else { return };
            let _ = ready.send(());
            tokio::select! {
                _ = first.recv() => {}
                _ = second.recv() => {}
                _ = third.recv() => {}
            }
            ASKED.get_or_init(Instant::now);
        });
    };
    if std::thread::Builder::new().name("asked to stop".into()).spawn(watching).is_ok() {
        // A thread that could not watch drops its end.
        let _ = is_ready.recv();
    }
}

/// Says whether the job is asked to stop.
pub fn are_in() -> bool {
    ASKED.get().is_some() || is_orphan()
}

/// Waits until no time is left to tell anything.
pub async fn no_time_is_left() {
    loop {
        if is_orphan() || ASKED.get().is_some_and(|asked| asked.elapsed() >= MOST) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_orphan() -> bool {
    #[cfg(target_os = "linux")]
    {
        PARENT.get().is_some_and(|parent| *parent != nix::unistd::getppid())
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}
