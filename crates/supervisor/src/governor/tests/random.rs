//! Any history of signals: nothing flaps, nothing sticks, nothing is late, and worse never allows
//! more.

use std::time::Duration;

use proptest::prelude::*;
use transom_signals::{MemoryPressure, SystemSignals, ThermalState};

use super::{machine, tuning};
use crate::governor::{Allowance, Governor};

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

/// Signals and the milliseconds since those before.
fn any_history(most_milliseconds: u64) -> impl Strategy<Value = Vec<(u64, SystemSignals)>> {
    prop::collection::vec((0..most_milliseconds, any_signals()), 1..200)
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

/// Whether `a` allows no more than `b` in any respect.
fn is_as_tight(a: &Allowance, b: &Allowance) -> bool {
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
        prop_assert!(is_as_tight(hard.allowance(), mild.allowance()));
    }

    /// Tightening is never late, whatever went before.
    #[test]
    fn what_is_allowed_is_never_more_than_the_latest_signals_allow(
        fresh in any_governor(), history in any_history(30_000),
    ) {
        let mut governor = fresh.clone();
        let mut now = Duration::ZERO;
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            governor.observe(signals, now);
            let mut strict = fresh.clone();
            strict.observe(signals, Duration::ZERO);
            prop_assert!(is_as_tight(governor.allowance(), strict.allowance()));
            prop_assert!(governor.next_deadline().is_none_or(|due| due > now));
        }
    }

    #[test]
    fn nothing_sticks_once_it_is_quiet(fresh in any_governor(), history in any_history(30_000)) {
        let mut governor = fresh.clone();
        let mut now = Duration::ZERO;
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            governor.observe(signals, now);
        }
        governor.observe(SystemSignals::default(), now);
        let mut n_easings = 0;
        while let Some(due) = governor.next_deadline() {
            governor.tick(due);
            n_easings += 1;
            prop_assert!(n_easings <= 16, "it eases for ever");
            // Twice the longest spell: one that began before the quiet, and one from its worst.
            prop_assert!(due <= now + Duration::from_secs(120));
        }
        prop_assert_eq!(governor.allowance(), fresh.allowance());
    }

    /// A minute has at most 13 easings of each power signal, 5 of memory and of what ends answers,
    /// 3 of thrashing and 2 of heat; each can be undone by at most as many steps up as it came
    /// down, and the first climb comes on top.
    #[test]
    fn signals_that_flap_as_fast_as_they_can_change_little(
        fresh in any_governor(), history in any_history(600),
    ) {
        let mut governor = fresh;
        let mut now = Duration::ZERO;
        let mut changes: Vec<Duration> = Vec::new();
        let mut last = governor.allowance().clone();
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            governor.observe(signals, now);
            if *governor.allowance() != last {
                last = governor.allowance().clone();
                changes.push(now);
            }
        }
        let minute = Duration::from_secs(60);
        for (first, &start) in changes.iter().enumerate() {
            let within = changes[first..].iter().filter(|&&at| at < start + minute);
            prop_assert!(within.count() <= 2 * (13 + 13) + 3 * 5 + 2 * 5 + 2 * 3 + 4 * 2 + 9);
        }
    }

    /// The same for one signal, where the bound is close: a rise, and one easing a spell.
    #[test]
    fn memory_that_flaps_as_fast_as_it_can_changes_the_allowance_twice_a_spell_at_most(
        fresh in any_governor(), history in any_history(4_000),
    ) {
        let mut governor = fresh;
        let mut now = Duration::ZERO;
        let mut easings: Vec<Duration> = Vec::new();
        let mut last = governor.allowance().memory;
        for (wait, signals) in history {
            now += Duration::from_millis(wait);
            let memory = signals.memory;
            governor.observe(SystemSignals { memory, ..SystemSignals::default() }, now);
            if governor.allowance().memory < last {
                easings.push(now);
            }
            last = governor.allowance().memory;
        }
        for pair in easings.windows(2) {
            prop_assert!(pair[1] >= pair[0] + Duration::from_secs(15));
        }
    }
}
