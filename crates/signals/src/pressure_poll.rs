//! When to read memory pressure on a system whose notifications can be late. Pure; `mac` does the
//! reading.
//!
//! macOS notifies processes of memory pressure one at a time, the largest first, and never those
//! that use less than 10 MB (`bsd/kern/kern_memorystatus_notify.c` of XNU). A menu-bar app is among
//! the last. So the level is read every few seconds while a model is loaded. Without a model,
//! nothing wakes the machine.

use std::time::Duration;

use crate::signal::MemoryPressure;
use crate::swap_growth::SwapGrowth;

/// Time between two reads while memory is normal and a model is loaded.
const WHILE_LOADED: Duration = Duration::from_secs(4);
/// Time between two reads under pressure.
const UNDER_PRESSURE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct PressurePoll {
    is_polling: bool,
    level: MemoryPressure,
    swap: SwapGrowth,
}

impl PressurePoll {
    /// Turns polling on or off under normal pressure.
    pub(crate) fn set_polling(&mut self, is_polling: bool) {
        self.is_polling = is_polling;
    }

    /// Returns the time until the next read; `None` if only a notification causes one.
    pub(crate) fn next_read(&self) -> Option<Duration> {
        match self.level {
            MemoryPressure::Normal => self.is_polling.then_some(WHILE_LOADED),
            MemoryPressure::Warning | MemoryPressure::Critical => Some(UNDER_PRESSURE),
        }
    }

    /// Records the level. Returns true if the machine is thrashing: see [`SwapGrowth::update`].
    pub(crate) fn update(
        &mut self,
        level: MemoryPressure,
        swapped_out_bytes: impl FnOnce() -> Option<u64>,
        at: Duration,
    ) -> bool {
        self.level = level;
        self.swap.update(level, swapped_out_bytes, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn no_swap() -> Option<u64> {
        panic!("swap is read only under pressure")
    }

    #[test]
    fn the_level_is_read_while_a_model_is_loaded_or_under_pressure() {
        let mut poll = PressurePoll::default();
        assert_eq!(poll.next_read(), None, "an idle machine is not woken");
        poll.set_polling(true);
        assert!(poll.next_read().is_some_and(|wait| wait <= 5 * SECOND));
        poll.update(MemoryPressure::Critical, || Some(0), SECOND);
        poll.set_polling(false);
        assert!(
            poll.next_read().is_some_and(|wait| wait <= 2 * SECOND),
            "a notification of normal memory may never come"
        );
        poll.update(MemoryPressure::Normal, no_swap, SECOND);
        assert_eq!(poll.next_read(), None);
    }

    #[test]
    fn swapping_out_under_pressure_is_thrashing_until_pressure_is_normal() {
        const GROWTH: u64 = 400 << 20;
        let mut poll = PressurePoll::default();
        let mut update =
            |n: u32, level| poll.update(level, || Some(u64::from(n) * GROWTH), n * SECOND);
        let updates = (0..20).map(|n| update(n, MemoryPressure::Warning));
        assert!(updates.last().unwrap());
        assert!(!update(20, MemoryPressure::Normal));
        assert!(
            !update(21, MemoryPressure::Warning),
            "one sample is not growth"
        );
    }
}
