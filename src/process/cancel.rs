//! The wish to stop: raised by a signal, polled by everyone, awaited while a command runs.

use crate::error::{Error, Kind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::JoinHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// A cheap clonable flag that says which signal asked to stop, and how often one did.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<State>);

#[derive(Debug, Default)]
struct State {
    signal: AtomicI32,
    count: AtomicU32,
    raised: Notify,
}

impl Cancel {
    /// Makes a flag that nobody has raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Raises it; the first signal's number stays, later ones only count.
    pub fn raise(&self, signal: i32) {
        let _ = self.0.signal.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        self.0.count.fetch_add(1, Ordering::SeqCst);
        self.0.raised.notify_waiters();
    }

    /// Returns the number of the first signal, if one came.
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Says whether the work should stop.
    pub fn is_raised(&self) -> bool {
        self.count() > 0
    }

    /// Returns how often it was raised.
    pub(super) fn count(&self) -> u32 {
        self.0.count.load(Ordering::SeqCst)
    }

    /// Waits until it has been raised more often than `seen`.
    pub(super) async fn beyond(&self, seen: u32) {
        loop {
            let raised = self.0.raised.notified();
            tokio::pin!(raised);
            raised.as_mut().enable();
            if self.count() > seen {
                return;
            }
            raised.await;
        }
    }
}

/// The thread that turns SIGINT, SIGTERM and SIGHUP into a raised flag, whoever is busy.
#[derive(Debug)]
pub(super) struct Listener {
    leave: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts it and returns when the signals are caught; they stay caught after its end.
    pub(super) fn spawn(cancel: Cancel) -> Result<Self> {
        let leave = Arc::new(Notify::new());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let until = Arc::clone(&leave);
        let thread = std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                let built = tokio::runtime::Builder::new_current_thread().enable_io().build();
                let _ = match built {
                    Ok(runtime) => runtime.block_on(async {
                        match Caught::new() {
                            Ok(caught) => {
                                let _ = ready.send(Ok(()));
                                tokio::select! {
                                    () = caught.raise_forever(&cancel) => {}
                                    () = until.notified() => {}
                                }
                                Ok(())
                            }
                            Err(error) => ready.send(Err(error)),
                        }
                    }),
                    Err(error) => ready.send(Err(error)),
                };
            })
            .map_err(|e| Error::io(Kind::Internal, "cannot start the signal thread", e))?;
        let caught = is_ready.recv().unwrap_or_else(|e| Err(std::io::Error::other(e)));
        caught.map_err(|e| Error::io(Kind::Internal, "cannot catch signals", e))?;
        Ok(Self { leave, thread: Some(thread) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.leave.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Caught {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Caught {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn raise_forever(mut self, cancel: &Cancel) {
        loop {
            let number = tokio::select! {
                Some(()) = self.interrupt.recv() => libc::SIGINT,
                Some(()) = self.terminate.recv() => libc::SIGTERM,
                Some(()) = self.hangup.recv() => libc::SIGHUP,
                else => return,
            };
            cancel.raise(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cancel;

    #[test]
    fn the_first_signal_stays_and_later_ones_count() {
        let cancel = Cancel::new();
        assert_eq!(cancel.signal(), None);
        cancel.raise(libc::SIGTERM);
        cancel.raise(libc::SIGINT);
        assert_eq!((cancel.signal(), cancel.count()), (Some(libc::SIGTERM), 2));
    }
}
