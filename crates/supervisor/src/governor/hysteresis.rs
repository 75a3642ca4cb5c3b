//! Hysteresis: what is worse is taken at once, what is better after a quiet quiet_time.
//!
//! Rule: the level effective on is never below the latest one, and comes down at most once a quiet_time.

use std::time::Duration;

/// One signal, as it is effective on.
#[derive(Debug, Clone)]
pub(super) struct Hysteresis<L> {
    /// How long it must be quiet before it eases.
    quiet_time: Duration,
    effective: L,
    latest: L,
    quiet: Option<QuietPeriod<L>>,
}

/// A time without the level that is effective on.
#[derive(Debug, Clone)]
struct QuietPeriod<L> {
    since: Duration,
    /// The worst seen in it: what is eased to.
    worst: L,
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

    /// The level to act on.
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
        let quiet = self.quiet.get_or_insert(QuietPeriod {
            since: now,
            worst: level,
        });
        quiet.worst = quiet.worst.max(level);
    }

    /// Eases if it was quiet for long enough.
    pub(super) fn tick(&mut self, now: Duration) {
        if self.due().is_none_or(|due| now < due) {
            return;
        }
        if let Some(quiet) = self.quiet.take() {
            self.effective = quiet.worst;
            self.observe(self.latest, now);
        }
    }

    /// When it will ease if nothing worse comes.
    pub(super) fn due(&self) -> Option<Duration> {
        self.quiet
            .as_ref()
            .map(|quiet| quiet.since + self.quiet_time)
    }
}
