//! The heartbeat of the engine thread, for the watchdog of the parent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The time of the last heartbeat.
pub(super) struct Heartbeat {
    start: Instant,
    /// Milliseconds from `start` to the last heartbeat, plus one; 0 while the thread is idle.
    last: AtomicU64,
}

impl Heartbeat {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// Records that the engine thread took a task or made a report.
    pub(super) fn beat(&self) {
        self.last.store(self.now() + 1, Ordering::Relaxed);
    }

    pub(super) fn idle(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// Returns the seconds since the last heartbeat; 0 while the thread is idle.
    pub(super) fn silent_seconds(&self) -> f64 {
        match self.last.load(Ordering::Relaxed) {
            0 => 0.0,
            last => self.now().saturating_sub(last - 1) as f64 / 1e3,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}
