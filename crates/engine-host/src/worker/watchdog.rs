//! When to ask a silent child whether it lives, and when to give it up.
//!
//! Rule: it is armed only while an answer is due; otherwise it has no deadline, so that an idle
//! child wakes nobody. The time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// How long a worker may take for what it should do at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// From its start to its first word: the system may check the program first.
    pub greeting: Duration,
    /// Between two pings while an answer is due.
    pub ping_every: Duration,
    /// Without any word while an answer is due.
    pub unheard: Duration,
    /// Without a sign from the engine's own thread, as pongs tell.
    pub silent: Duration,
    /// From being told to end to its end.
    pub leaving: Duration,
    /// From being killed to its end.
    pub dying: Duration,
}

impl Default for Patience {
    /// 30 s for the greeting, a ping a second, 5 s unheard, 120 s of a silent engine, 2 s to
    /// leave, 10 s to die.
    fn default() -> Self {
        Self {
            greeting: Duration::from_secs(30),
            ping_every: Duration::from_secs(1),
            unheard: Duration::from_secs(5),
            silent: Duration::from_secs(120),
            leaving: Duration::from_secs(2),
            dying: Duration::from_secs(10),
        }
    }
}

/// A wake-up this late says that this process or the whole machine was asleep; the child's silence
/// then says nothing.
const OVERSLEPT: Duration = Duration::from_secs(1);

/// What is due from the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Greeting,
    Answer,
}

/// What a deadline that has come asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bark {
    Ping { nonce: u64 },
    GiveUp { silence: Duration },
}

pub(super) struct Watchdog {
    patience: Patience,
    watch: Option<Watch>,
    nonce: u64,
}

struct Watch {
    due: Due,
    heard: Instant,
    ping_at: Instant,
}

impl Watchdog {
    pub(super) fn new(patience: Patience) -> Self {
        Self {
            patience,
            watch: None,
            nonce: 0,
        }
    }

    /// Arms or disarms it, as something is due or not.
    pub(super) fn expect(&mut self, due: Due, now: Instant) {
        let is_same = self.watch.as_ref().is_some_and(|watch| watch.due == due);
        if due == Due::Nothing {
            self.watch = None;
        } else if !is_same {
            self.watch = Some(Watch {
                due,
                heard: now,
                ping_at: now + self.patience.ping_every,
            });
        }
    }

    /// The child said something.
    pub(super) fn heard(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.heard = now;
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let watch = self.watch.as_ref()?;
        Some(match watch.due {
            Due::Answer => watch.ping_at.min(watch.heard + self.patience.unheard),
            Due::Nothing | Due::Greeting => watch.heard + self.patience.greeting,
        })
    }

    /// What to do when it is `now`; nothing before the deadline.
    pub(super) fn tick(&mut self, now: Instant) -> Option<Bark> {
        let deadline = self.deadline().filter(|deadline| *deadline <= now)?;
        let watch = self.watch.as_mut()?;
        if now > deadline + OVERSLEPT {
            watch.heard = now;
        }
        let limit = match watch.due {
            Due::Answer => self.patience.unheard,
            Due::Nothing | Due::Greeting => self.patience.greeting,
        };
        let silence = now - watch.heard;
        if silence >= limit {
            return Some(Bark::GiveUp { silence });
        }
        if watch.due != Due::Answer {
            return None;
        }
        watch.ping_at = now + self.patience.ping_every;
        self.nonce += 1;
        Some(Bark::Ping { nonce: self.nonce })
    }
}

#[cfg(test)]
mod tests;
