//! When to look at memory on a system whose notices can come late, and what a look means. Pure: who
//! looks is in `mac`.
//!
//! macOS tells processes of memory pressure one at a time, the largest first, and never tells those
//! that take less than 10 MB (`bsd/kern/kern_memorystatus_notify.c` of XNU). A menu-bar app is among
//! the last. So the level is read every few seconds while a model is in memory; without a model the
//! machine is not woken.

use std::time::Duration;

use crate::growth::GrowthMeter;
use crate::signal::MemoryPressure;

/// Time between two looks while memory is normal and a model is in it.
const WHILE_WATCHFUL: Duration = Duration::from_secs(4);
/// Time between two looks under pressure.
const UNDER_PRESSURE: Duration = Duration::from_secs(2);

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct PressurePoll {
    is_watchful: bool,
    level: MemoryPressure,
    swap: GrowthMeter,
}

impl PressurePoll {
    /// Sets whether a model is in memory.
    pub(crate) fn set_watchful(&mut self, is_watchful: bool) {
        self.is_watchful = is_watchful;
    }

    /// The time until the next look; `None` if only a notice asks for one.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        match self.level {
            MemoryPressure::Normal => self.is_watchful.then_some(WHILE_WATCHFUL),
            MemoryPressure::Warning | MemoryPressure::Critical => Some(UNDER_PRESSURE),
        }
    }

    /// Takes in the level, and the bytes of swap in use, which are read under pressure only. `at`
    /// counts from any fixed moment. Returns true if swap grows so fast that the machine thrashes.
    pub(crate) fn look(
        &mut self,
        level: MemoryPressure,
        swap_used_bytes: impl FnOnce() -> Option<u64>,
        at: Duration,
    ) -> bool {
        self.level = level;
        if level == MemoryPressure::Normal {
            self.swap.clear();
            return false;
        }
        swap_used_bytes().is_some_and(|bytes| self.swap.is_thrashing(bytes, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn no_swap() -> Option<u64> {
        panic!("swap is read under pressure only")
    }

    /// D071, D075.
    #[test]
    fn the_level_is_read_while_a_model_is_in_memory_or_there_is_pressure() {
        let mut poll = PressurePoll::default();
        assert_eq!(poll.next_look(), None, "an idle machine is not woken");
        poll.set_watchful(true);
        assert!(poll.next_look().is_some_and(|wait| wait <= 5 * SECOND));
        poll.look(MemoryPressure::Critical, || Some(0), SECOND);
        poll.set_watchful(false);
        assert!(
            poll.next_look().is_some_and(|wait| wait <= 2 * SECOND),
            "a notice that memory is normal again may never come"
        );
        poll.look(MemoryPressure::Normal, no_swap, SECOND);
        assert_eq!(poll.next_look(), None);
    }

    #[test]
    fn swap_that_grows_under_pressure_is_thrashing_and_calm_forgets_it() {
        const GROWTH: u64 = 400 << 20;
        let mut poll = PressurePoll::default();
        let mut look = |n: u32, level| poll.look(level, || Some(u64::from(n) * GROWTH), n * SECOND);
        let seen = (0..20).map(|n| look(n, MemoryPressure::Warning));
        assert!(seen.last().unwrap());
        assert!(!look(20, MemoryPressure::Normal));
        assert!(!look(21, MemoryPressure::Warning), "one look is no growth");
    }
}
