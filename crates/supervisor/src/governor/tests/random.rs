//! Random histories of signals: limits never flap, never stay, are never late, and worse signals
//! never allow more.

use std::time::Duration;

use proptest::prelude::*;
use transom_signals::{MemoryPressure, SystemSignals, ThermalState};

use super::{machine, tuning};
use crate::governor::{Governor, Restrictions};

fn any_signals() -> impl Strategy<Value = SystemSignals> {
    let memory = prop_oneof![
        Just(MemoryPressure::Normal),
        Just(MemoryPressure::Warning),
        Just(MemoryPressure::Critical),
    ];
    let thermal = prop_oneof![
        Just(ThermalState::Nominal),
        Just(ThermalState::Fair),
        Just(ThermalState::Serious),
        Just(ThermalState::Critical),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (memory, thermal, flags).prop_map(|(memory, thermal, (thrashing, low, battery))| {
        SystemSignals {
            memory,
            is_thrashing: thrashing,
            thermal,
            is_low_power: low,
            is_on_battery: battery,
        }
    })
}

/// Signals, each with the milliseconds since the previous one.
fn any_history(max_milliseconds: u64) -> impl Strategy<Value = Vec<(u64, SystemSignals)>> {
    prop::collection::vec((0..max_milliseconds, any_signals()), 1..200)
}

fn any_governor() -> impl Strategy<Value = Governor> {
    let sizes = prop_oneof![Just(8), Just(24), Just(64)];
    let settings = prop_oneof![Just("default"), Just("keep"), Just("10"), Just("3600")];
    (sizes, settings).prop_map(|(size, settings)| Governor::new(&machine(size), &tuning(settings)))
}

fn worst(a: SystemSignals, b: SystemSignals) -> SystemSignals {
    SystemSignals {
        memory: a.memory.max(b.memory),
        is_thrashing: a.is_thrashing || b.is_thrashing,
        thermal: a.thermal.max(b.thermal),
        is_low_power: a.is_low_power || b.is_low_power,
        is_on_battery: a.is_on_battery || b.is_on_battery,
    }
}

/// Returns true if `a` allows no more than `b` in any respect.
fn is_as_tight(a: &Restrictions, b: &Restrictions) -> bool {
    let least = |n: Option<usize>| n.unwrap_or(usize::MAX);
    let wait = |idle: Option<Duration>| idle.unwrap_or(Duration::MAX);
    a.memory >= b.memory
        && a.stop_answers >= b.stop_answers
        && least(a.context_length) <= least(b.context_length)
        && least(a.prefill_chunk) <= least(b.prefill_chunk)
        && least(a.max_tokens) <= least(b.max_tokens)
        && a.speculation <= b.speculation
        && a.repaint_interval >= b.repaint_interval
        && wait(a.idle_unload) <= wait(b.idle_unload)
        && a.blocked_by.is_some() >= b.blocked_by.is_some()
        && a.offer_smaller_model >= b.offer_smaller_model
}

proptest! {
    #[test]
    fn worse_signals_never_allow_more(
        fresh in any_governor(), a in any_signals(), b in any_signals(),
    ) {
        let (mut mild, mut hard) = (fresh.clone(), fresh);
        mild.observe(a, Duration::ZERO);
        hard.observe(worst(a, b), Duration::ZERO);
        prop_assert!(is_as_tight(hard.restrictions(), mild.restrictions()));
    }

    /// Limits start at once, whatever happened before.
    #[test]
    fn never_more_is_allowed_than_by_the_latest_signals(
        fresh in any_governor(), history in any_history(30_000),
    ) {
        let mut governor = fresh.clone();
        let mut now = Duration::ZERO;
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            governor.observe(signals, now);
            let mut strict = fresh.clone();
            strict.observe(signals, Duration::ZERO);
            prop_assert!(is_as_tight(governor.restrictions(), strict.restrictions()));
            prop_assert!(governor.next_deadline().is_none_or(|due| due > now));
        }
    }

    #[test]
    fn all_limits_end_after_a_quiet_time(fresh in any_governor(), history in any_history(30_000)) {
        let mut governor = fresh.clone();
        let mut now = Duration::ZERO;
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            governor.observe(signals, now);
        }
        governor.observe(SystemSignals::default(), now);
        let mut n_falls = 0;
        while let Some(due) = governor.next_deadline() {
            governor.tick(due);
            n_falls += 1;
            prop_assert!(n_falls <= 16, "it never settles");
            // Twice the longest quiet time: one that started before the last signal, and one from
            // its worst level.
            prop_assert!(due <= now + Duration::from_secs(120));
        }
        prop_assert_eq!(governor.restrictions(), fresh.restrictions());
    }

    /// In a minute, at most 13 quiet times end for each power signal, 5 for memory and for stopping
    /// responses, 3 for thrashing and 2 for heat. Each fall can be followed by at most as many
    /// rises, and the first rise comes in addition.
    #[test]
    fn fast_flapping_signals_change_the_restrictions_rarely(
        fresh in any_governor(), history in any_history(600),
    ) {
        let mut governor = fresh;
        let mut now = Duration::ZERO;
        let mut changes: Vec<Duration> = Vec::new();
        let mut last = governor.restrictions().clone();
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            governor.observe(signals, now);
            if *governor.restrictions() != last {
                last = governor.restrictions().clone();
                changes.push(now);
            }
        }
        let minute = Duration::from_secs(60);
        for (first, &start) in changes.iter().enumerate() {
            let within = changes[first..].iter().filter(|&&at| at < start + minute);
            prop_assert!(within.count() <= 2 * (13 + 13) + 3 * 5 + 2 * 5 + 2 * 3 + 4 * 2 + 9);
        }
    }

    /// The same for one signal, with a tight bound: one fall per quiet time.
    #[test]
    fn fast_flapping_memory_pressure_falls_at_most_once_per_quiet_time(
        fresh in any_governor(), history in any_history(4_000),
    ) {
        let mut governor = fresh;
        let mut now = Duration::ZERO;
        let mut falls: Vec<Duration> = Vec::new();
        let mut last = governor.restrictions().memory;
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            let memory = signals.memory;
            governor.observe(SystemSignals { memory, ..SystemSignals::default() }, now);
            if governor.restrictions().memory < last {
                falls.push(now);
            }
            last = governor.restrictions().memory;
        }
        for pair in falls.windows(2) {
            prop_assert!(pair[1] >= pair[0] + Duration::from_secs(15));
        }
    }
}
