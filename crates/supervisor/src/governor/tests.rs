//! Timelines of the governor: each line has signals, followed by what is allowed.

mod random;
mod table;

use std::fmt::Write;
use std::time::Duration;

use transom_signals::{Hardware, MemoryPressure, SystemSignals, ThermalState};

use super::{Governor, Restrictions, Tuning};

fn machine(gigabytes: u64) -> Hardware {
    Hardware {
        chip_name: "test".to_owned(),
        memory_bytes: gigabytes << 30,
        n_performance_cores: 4,
        n_cores: 8,
        working_set_bytes: None,
        working_set_is_estimated: false,
    }
}

/// Parses signals: `warning thrashing serious low-power battery`, or `quiet`.
fn signals(words: &str) -> SystemSignals {
    let mut signals = SystemSignals::default();
    for word in words.split_whitespace() {
        match word {
            "quiet" => {}
            "warning" => signals.memory = MemoryPressure::Warning,
            "critical" => signals.memory = MemoryPressure::Critical,
            "thrashing" => signals.is_thrashing = true,
            "fair" => signals.thermal = ThermalState::Fair,
            "serious" => signals.thermal = ThermalState::Serious,
            "overheated" => signals.thermal = ThermalState::Critical,
            "low-power" => signals.is_low_power = true,
            "battery" => signals.is_on_battery = true,
            _ => panic!("no signal `{word}`"),
        }
    }
    signals
}

fn tuning(words: &str) -> Tuning {
    let mut tuning = Tuning::default();
    for word in words.split_whitespace() {
        match word {
            "default" => {}
            "keep" => tuning.keep_loaded = true,
            seconds => {
                let seconds = seconds.parse().expect("a number of seconds");
                tuning.idle_unload = Some(Duration::from_secs(seconds));
            }
        }
    }
    tuning
}

/// Formats restrictions in one line: the limits and the idle time.
fn brief(restrictions: &Restrictions) -> String {
    let mut parts = Vec::new();
    let mut limit = |name: &str, n: Option<usize>| {
        parts.extend(n.map(|n| format!("{name} {n}")));
    };
    limit("context", restrictions.context_length);
    limit("answers", restrictions.max_tokens);
    limit("step", restrictions.prefill_chunk);
    let mut flag = |name: &str, is_set: bool| {
        parts.extend(is_set.then(|| name.to_owned()));
    };
    flag("no speculation", !restrictions.speculation);
    flag(
        "slow paint",
        restrictions.repaint_interval.as_millis() == 100,
    );
    flag("smaller model", restrictions.offer_smaller_model);
    flag("BLOCKED", restrictions.blocked_by.is_some());
    flag("STOP", restrictions.stop_answers);
    parts.push(match restrictions.idle_unload {
        Some(wait) => format!("idle {wait:?}"),
        None => "kept".to_owned(),
    });
    parts.join(", ")
}

/// Runs the lines without an arrow, and writes after each what changed, with the time if it changed
/// between lines. Calls `tick` at deadlines like the driver.
#[track_caller]
fn check(gigabytes: u64, script: &str) {
    let mut governor = Governor::new(&machine(gigabytes), &Tuning::default());
    let mut last = brief(governor.restrictions());
    let mut text = String::new();
    let lines = script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    for line in lines.clone().filter(|line| !line.contains('→')) {
        let (at, words) = line.split_once("s ").expect("`<seconds>s <what>`");
        let now = Duration::from_secs(at.parse().expect("seconds"));
        while let Some(due) = governor.next_deadline().filter(|due| *due <= now) {
            governor.tick(due);
            assert!(governor.next_deadline().is_none_or(|next| next > due));
            let new = brief(governor.restrictions());
            if new != last {
                writeln!(text, "{}s → {new}", due.as_secs()).unwrap();
                last = new;
            }
        }
        writeln!(text, "{line}").unwrap();
        match words.split_once(' ').unwrap_or((words, "")) {
            ("tune", settings) => governor.set_tuning(&tuning(settings)),
            ("end", _) => assert_eq!(governor.next_deadline(), None, "a quiet time has not ended"),
            _ => governor.observe(signals(words), now),
        }
        let new = brief(governor.restrictions());
        if new != last {
            writeln!(text, "→ {new}").unwrap();
            last = new;
        }
    }
    let expected: String = lines.map(|line| format!("{line}\n")).collect();
    assert_eq!(text, expected, "\n--- got ---\n{text}");
}

#[test]
fn a_warning_applies_at_once_and_ends_after_a_quiet_time() {
    check(
        24,
        "
        5s warning
        → context 4096, answers 1024, step 512, idle 60s
        8s quiet
        23s → idle 180s
        30s end
        ",
    );
}

#[test]
fn critical_pressure_falls_to_the_worst_level_of_the_quiet_time() {
    check(
        24,
        "
        0s critical
        → context 4096, answers 1024, step 512, no speculation, BLOCKED, idle 0ns
        10s quiet
        12s warning
        14s quiet
        25s → context 4096, answers 1024, step 512, idle 60s
        40s → idle 180s
        60s end
        ",
    );
}

#[test]
fn flapping_pressure_does_not_make_the_restrictions_flap() {
    check(
        24,
        "
        0s warning
        → context 4096, answers 1024, step 512, idle 60s
        1s quiet
        2s warning
        3s quiet
        10s warning
        11s quiet
        25s warning
        26s quiet
        41s → idle 180s
        60s end
        ",
    );
}

/// A running response is stopped for nothing less, and not for signals that are over.
#[test]
fn thrashing_counts_as_a_warning_and_stops_responses_only_with_critical_pressure() {
    check(
        24,
        "
        0s thrashing
        → context 4096, answers 1024, step 512, idle 60s
        10s quiet
        20s critical
        → context 4096, answers 1024, step 512, no speculation, BLOCKED, idle 0ns
        22s critical thrashing
        → context 4096, answers 1024, step 512, no speculation, BLOCKED, STOP, idle 0ns
        30s quiet
        45s → context 4096, answers 1024, step 512, idle 60s
        60s → idle 180s
        70s end
        ",
    );
}

#[test]
fn low_power_mode_applies_at_once_and_ends_soon() {
    check(
        24,
        "
        0s low-power
        → context 4096, answers 1024, no speculation, slow paint, smaller model, idle 90s
        60s quiet
        62s low-power
        64s quiet
        69s → idle 180s
        80s end
        ",
    );
}

#[test]
fn heat_rises_at_once_and_falls_one_level_per_minute() {
    check(
        24,
        "
        0s fair
        10s serious
        → answers 1024, step 256, no speculation, slow paint, smaller model, idle 180s
        20s overheated
        → answers 1024, step 256, no speculation, slow paint, smaller model, BLOCKED, idle 180s
        30s serious
        40s fair
        90s → answers 1024, step 256, no speculation, slow paint, smaller model, idle 180s
        100s quiet
        150s → idle 180s
        220s end
        ",
    );
}

#[test]
fn the_idle_time_depends_on_the_machine_and_its_signals() {
    check(
        64,
        "
        0s battery
        → idle 120s
        1s battery low-power
        → context 4096, answers 1024, no speculation, slow paint, smaller model, idle 90s
        2s battery low-power warning
        → context 4096, answers 1024, step 512, no speculation, slow paint, smaller model, idle 60s
        3s quiet
        8s → context 4096, answers 1024, step 512, idle 60s
        18s → idle 600s
        20s end
        ",
    );
    check(
        8,
        "
        0s battery
        → idle 90s
        1s warning
        → context 4096, answers 1024, step 512, idle 30s
        2s quiet
        17s → idle 120s
        20s end
        ",
    );
}

#[test]
fn only_memory_overrides_the_idle_setting_and_only_critical_pressure_keep_loaded() {
    check(
        24,
        "
        0s tune 1800
        → idle 1800s
        1s battery low-power
        → context 4096, answers 1024, no speculation, slow paint, smaller model, idle 1800s
        2s warning
        → context 4096, answers 1024, step 512, no speculation, slow paint, smaller model, idle 60s
        3s tune keep
        → context 4096, answers 1024, step 512, no speculation, slow paint, smaller model, kept
        7s → context 4096, answers 1024, step 512, kept
        20s critical
        → context 4096, answers 1024, step 512, no speculation, BLOCKED, idle 0ns
        30s tune 10
        31s quiet
        46s → idle 10s
        50s tune default
        → idle 180s
        60s end
        ",
    );
}

#[test]
fn a_late_tick_and_an_observation_end_a_quiet_time_too() {
    let mut governor = Governor::new(&machine(24), &Tuning::default());
    let at = Duration::from_secs;
    governor.observe(signals("warning"), at(0));
    governor.observe(signals("quiet"), at(1));
    governor.observe(signals("battery"), at(500));
    assert_eq!(brief(governor.restrictions()), "idle 120s");
    governor.observe(signals("quiet"), at(501));
    governor.tick(at(9000));
    assert_eq!(brief(governor.restrictions()), "idle 180s");
    assert_eq!(governor.signals(), SystemSignals::default());
}
