//! Hysteresis: what is worse is taken at once, what is better after a quiet spell.
//!
//! Rule: the level acted on is never below the latest one, and comes down at most once a spell.

use std::time::Duration;

/// One signal, as it is acted on.
#[derive(Debug, Clone)]
pub(super) struct Eased<L> {
    /// How long it must be quiet before it eases.
    spell: Duration,
    acted: L,
    latest: L,
    quiet: Option<Quiet<L>>,
}

/// A time without the level that is acted on.
#[derive(Debug, Clone)]
struct Quiet<L> {
    since: Duration,
    /// The worst seen in it: what is eased to.
    worst: L,
}

impl<L: Copy + Ord + Default> Eased<L> {
    pub(super) fn new(spell: Duration) -> Self {
        Self {
            spell,
            acted: L::default(),
            latest: L::default(),
            quiet: None,
        }
    }

    /// The level to act on.
    pub(super) fn level(&self) -> L {
        self.acted
    }

    pub(super) fn observe(&mut self, level: L, now: Duration) {
        self.latest = level;
        if level >= self.acted {
            self.acted = level;
            self.quiet = None;
            return;
        }
        let quiet = self.quiet.get_or_insert(Quiet {
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
            self.acted = quiet.worst;
            self.observe(self.latest, now);
        }
    }

    /// When it will ease if nothing worse comes.
    pub(super) fn due(&self) -> Option<Duration> {
        self.quiet.as_ref().map(|quiet| quiet.since + self.spell)
    }
}
