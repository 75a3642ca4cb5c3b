//! The heartbeat of the engine thread, for the watchdog of the parent.

use std::time::Instant;

use parking_lot::Mutex;

/// The time of the last heartbeat; `None` while the thread is idle.
#[derive(Default)]
pub(super) struct Heartbeat(Mutex<Option<Instant>>);

impl Heartbeat {
    /// Records that the engine thread took a task or made a report.
    pub(super) fn beat(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    pub(super) fn idle(&self) {
        *self.0.lock() = None;
    }

    /// Returns the seconds since the last heartbeat; 0 while the thread is idle.
    pub(super) fn silent_seconds(&self) -> f64 {
        self.0
            .lock()
            .map_or(0.0, |last| last.elapsed().as_secs_f64())
    }
}
