//! The watchdog of a child: when to ping it, and when to give up.
//!
//! Rule: it runs only while a response is awaited. Otherwise it has no deadline, so an idle child
//! wakes nobody. The time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// How long a worker may take for things that should happen at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the start of the process to its hello. The system may check the program first.
    pub hello: Duration,
    /// Between two pings while a response is awaited.
    pub ping_interval: Duration,
    /// Without any message while a response is awaited.
    pub message: Duration,
    /// Without a heartbeat of the engine thread, as reported in pongs.
    pub heartbeat: Duration,
    /// From the request to exit to the exit.
    pub exit: Duration,
    /// From the kill to the exit.
    pub kill: Duration,
}

impl Default for Timeouts {
    /// Returns 30 s for the hello, 1 s between pings, 5 s without a message, 120 s without a
    /// heartbeat, 2 s to exit, and 10 s to exit after a kill.
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(30),
            ping_interval: Duration::from_secs(1),
            message: Duration::from_secs(5),
            heartbeat: Duration::from_secs(120),
            exit: Duration::from_secs(2),
            kill: Duration::from_secs(10),
        }
    }
}

/// A wake-up this late means that this process or the whole machine was asleep, so the silence of
/// the child means nothing.
const LATE_WAKE_UP: Duration = Duration::from_secs(1);

/// What the parent waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Nothing,
    Hello,
    Response,
}

/// What the task must do at a deadline.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchdogAction {
    Ping { nonce: u64 },
    GiveUp { silence: Duration },
}

pub(super) struct Watchdog {
    timeouts: Timeouts,
    watch: Option<Watch>,
    nonce: u64,
}

struct Watch {
    awaited: Awaited,
    last_message: Instant,
    ping_at: Instant,
}

impl Watchdog {
    pub(super) fn new(timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            watch: None,
            nonce: 0,
        }
    }

    /// Starts or stops the watchdog for what is awaited now.
    pub(super) fn expect(&mut self, awaited: Awaited, now: Instant) {
        let is_same = self
            .watch
            .as_ref()
            .is_some_and(|watch| watch.awaited == awaited);
        if awaited == Awaited::Nothing {
            self.watch = None;
        } else if !is_same {
            self.watch = Some(Watch {
                awaited,
                last_message: now,
                ping_at: now + self.timeouts.ping_interval,
            });
        }
    }

    pub(super) fn message_received(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.last_message = now;
        }
    }

    /// Returns the time of the next call of [`Watchdog::tick`]; `None` if nothing is awaited.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let watch = self.watch.as_ref()?;
        Some(match watch.awaited {
            Awaited::Response => watch
                .ping_at
                .min(watch.last_message + self.timeouts.message),
            Awaited::Nothing | Awaited::Hello => watch.last_message + self.timeouts.hello,
        })
    }

    /// Returns what to do at the time `now`; `None` before the deadline.
    pub(super) fn tick(&mut self, now: Instant) -> Option<WatchdogAction> {
        let deadline = self.deadline().filter(|deadline| *deadline <= now)?;
        let watch = self.watch.as_mut()?;
        if now > deadline + LATE_WAKE_UP {
            watch.last_message = now;
        }
        let limit = match watch.awaited {
            Awaited::Response => self.timeouts.message,
            Awaited::Nothing | Awaited::Hello => self.timeouts.hello,
        };
        let silence = now - watch.last_message;
        if silence >= limit {
            return Some(WatchdogAction::GiveUp { silence });
        }
        if watch.awaited != Awaited::Response {
            return None;
        }
        watch.ping_at = now + self.timeouts.ping_interval;
        self.nonce += 1;
        Some(WatchdogAction::Ping { nonce: self.nonce })
    }
}

#[cfg(test)]
mod tests;
