//! Hysteresis: a signal rises at once and falls after a quiet time.
//!
//! Rule: the effective level is never below the latest one, and falls at most once per quiet time.

use std::time::Duration;

/// One signal with its effective level.
#[derive(Debug, Clone)]
pub(super) struct Hysteresis<L> {
    /// Time below the effective level before it falls.
    quiet_time: Duration,
    effective: L,
    latest: L,
    /// When the signal fell below the effective level, and the worst level since then, to which the
    /// effective level will fall.
    quiet: Option<(Duration, L)>,
}

impl<L: Copy + Ord + Default> Hysteresis<L> {
    pub(super) fn new(quiet_time: Duration) -> Self {
        Self {
            quiet_time,
            effective: L::default(),
            latest: L::default(),
            quiet: None,
        }
    }

    pub(super) fn level(&self) -> L {
        self.effective
    }

    pub(super) fn observe(&mut self, level: L, now: Duration) {
        self.latest = level;
        if level >= self.effective {
            self.effective = level;
            self.quiet = None;
            return;
        }
        let (_, worst) = self.quiet.get_or_insert((now, level));
        *worst = level.max(*worst);
    }

    /// Lowers the effective level if its quiet time is over.
    pub(super) fn tick(&mut self, now: Duration) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        if let Some((_, worst)) = self.quiet.take() {
            self.effective = worst;
            self.observe(self.latest, now);
        }
    }

    /// Returns when the effective level will fall if nothing worse is observed.
    pub(super) fn due(&self) -> Option<Duration> {
        self.quiet.map(|(since, _)| since + self.quiet_time)
    }
}
