//! How long the engine's thread has been silent, for the parent's watchdog.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// When the engine's thread last gave a sign of life.
pub(super) struct Pulse {
    start: Instant,
    /// Milliseconds from `start` to the last sign, plus one; 0 while there is nothing to do.
    last: AtomicU64,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    /// The engine's thread took something up, or reported.
    pub(super) fn beat(&self) {
        self.last.store(self.now() + 1, Ordering::Relaxed);
    }

    /// The engine's thread has nothing to do.
    pub(super) fn rest(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// Seconds since the last sign; 0 at rest.
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
