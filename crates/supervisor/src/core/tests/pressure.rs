//! Tests of memory pressure at each level in each phase, of heat and of Low Power Mode.

use super::timeline::check;

#[test]
fn a_warning_while_loading_does_not_stop_the_load() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s signals warning
        2s w1 loaded
        → generate w1 1 at most 1024
        ",
    );
}

#[test]
fn a_warning_trims_idle_models_once() {
    check(
        "
        0s tune keep yes
        5s used chat
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        6s w2 measured
        → load w2 embed 8192
        7s w2 loaded
        → generate w2 2
        8s w2 ended 2 well
        → 2 ENDED Stop, asleep
        67s signals warning
        → trim w1 Everything, trim w2 KeepConversation
        71s signals warning
        71s w1 trimmed
        71s w2 trimmed
        ",
    );
}

#[test]
fn a_warning_while_generating_keeps_the_kv_cache() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s signals warning
        → trim w1 KeepConversation
        3s w1 trimmed
        4s w1 ended 1 well
        → 1 ENDED Stop, asleep
        ",
    );
}

#[test]
fn critical_pressure_while_measuring_ends_the_load_and_blocks_the_request() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s signals critical
        → release w1, asleep, 1 queued at 0, blocked
        2s w1 gone
        3s ease
        → start w2, measure w2 chat 8192, awake, 1 loading
        ",
    );
}

#[test]
fn critical_pressure_while_waiting_for_room_ends_the_load() {
    check(
        "
        5s used chat
        6s request 2 other
        → start w2, measure w2 other 8192, awake, 2 loading
        6s w2 measured
        → unload w1
        6s signals critical
        → release w2, asleep, 2 queued at 0, blocked
        7s w2 gone
        7s w1 freed 100
        → release w1
        7s w1 gone
        7s show
        → unloaded chat (MakeRoom), held Some(3180800000), freed Some(3180800000), by force false, took 1s
        ",
    );
}

#[test]
fn critical_pressure_while_loading_stops_the_load_and_blocks_the_request() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s signals critical
        → stop w1 load Shed, asleep, 1 queued at 0, blocked
        1s w1 progress 10
        2s w1 failed stopped
        → release w1
        3s w1 gone
        4s ease
        → start w2, measure w2 chat 8192, awake, 1 loading
        60s show
        → chat is Measuring; unloaded chat (Pressure { reason: Memory { pressure: Critical } }), held None, freed None, by force false, took 2s
        ",
    );
}

/// Also with `keep_loaded`.
#[test]
fn critical_pressure_unloads_idle_models_secondary_ones_first() {
    check(
        "
        0s tune keep yes
        5s used chat
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        6s w2 measured
        → load w2 embed 8192
        7s w2 loaded
        → generate w2 2
        8s w2 ended 2 well
        → 2 ENDED Stop, asleep
        9s signals critical
        → unload w2, unload w1
        10s w2 freed 100
        → release w2
        10s w1 freed 100
        → release w1
        10s w1 gone
        10s w2 gone
        10s show
        → unloaded embed (Pressure { reason: Memory { pressure: Critical } }), held Some(180800000), freed Some(180800000), by force false, took 1s
        ",
    );
}

/// Secondary models are unloaded at once.
#[test]
fn critical_pressure_while_generating_unloads_after_the_response() {
    check(
        "
        0s request 9 embed
        → start w1, measure w1 embed 8192, awake, 9 loading
        0s w1 measured
        → load w1 embed 8192
        0s w1 loaded
        → generate w1 9
        0s w1 ended 9 well
        → 9 ENDED Stop, asleep
        1s request 1 chat
        → start w2, measure w2 chat 8192, awake, 1 loading
        1s w2 measured
        → load w2 chat 8192
        2s w2 loaded
        → generate w2 1
        3s signals critical
        → trim w2 KeepConversation, unload w1
        4s w2 trimmed
        5s w2 ended 1 well
        → 1 ENDED Stop, unload w2, asleep
        6s w1 freed 100
        → release w1, kill w1
        6s w2 freed 100
        → release w2
        6s w1 gone
        6s w2 gone
        ",
    );
}

/// A response that takes too long is stopped; its text is kept.
#[test]
fn critical_pressure_stops_a_long_response_and_unloads() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s signals critical
        → trim w1 KeepConversation
        22s tick
        23s wait
        → stop w1 1 Shed
        24s w1 ended 1 shed
        → 1 ENDED Shed, unload w1, asleep
        25s w1 freed 100
        → release w1
        25s w1 gone
        ",
    );
}

#[test]
fn thrashing_under_critical_pressure_stops_the_response_at_once() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s signals critical thrashing
        → trim w1 KeepConversation, stop w1 1 Shed
        4s w1 ended 1 shed
        → 1 ENDED Shed, unload w1, asleep
        ",
    );
}

#[test]
fn critical_pressure_during_an_unload_changes_nothing() {
    check(
        "
        5s used chat
        6s unload chat
        → delete states of chat, unload w1
        7s signals critical
        8s w1 freed 100
        → release w1
        8s w1 gone
        ",
    );
}

#[test]
fn pressure_that_ends_before_the_response_keeps_the_model_loaded() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s signals critical
        → trim w1 KeepConversation
        4s ease
        40s w1 ended 1 well
        → 1 ENDED Stop, asleep
        40s show
        → chat is Ready
        ",
    );
}

#[test]
fn flapping_signals_trim_once_per_quiet_time() {
    check(
        "
        5s used chat
        6s signals warning
        → trim w1 KeepConversation
        7s signals normal
        8s signals warning
        9s signals normal
        10s signals warning
        ",
    );
}

#[test]
fn flapping_signals_do_not_start_a_load() {
    check(
        "
        0s signals critical
        0s request 1 chat
        → 1 queued at 0, blocked
        1s signals normal
        2s signals critical
        3s signals normal
        ",
    );
}

#[test]
fn a_request_blocked_for_too_long_fails() {
    check(
        "
        0s signals critical
        1s request 1 chat
        → 1 queued at 0, blocked
        30s tick
        31s wait
        → 1 ENDED blocked
        ",
    );
}

#[test]
fn a_request_that_refuses_to_wait_fails_at_once() {
    check(
        "
        0s signals hot
        1s request 1 chat or-refuse
        → 1 ENDED blocked
        2s request 2 chat
        → 2 queued at 0, blocked
        ",
    );
}

#[test]
fn queued_requests_that_refuse_to_wait_fail_when_requests_are_blocked() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat or-refuse
        → 2 queued at 1
        3s request 3 chat
        → 3 queued at 2
        4s signals hot
        → 2 ENDED blocked, 3 queued at 1, blocked
        ",
    );
}

#[test]
fn critical_heat_blocks_queued_requests_only() {
    check(
        "
        0s tune block 120
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat
        → 2 queued at 1
        4s signals hot
        → 2 queued at 1, blocked
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep, 2 queued at 0, blocked
        6s request 3 chat load
        → 3 ENDED loaded
        7s ease
        → generate w1 2, awake
        ",
    );
}

#[test]
fn critical_heat_while_loading_does_not_stop_the_load() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s signals hot
        → 1 queued at 0, blocked
        2s w1 loaded
        → asleep
        31s wait
        → 1 ENDED blocked
        ",
    );
}

#[test]
fn a_load_that_waits_for_room_ends_when_its_requests_were_blocked_too_long() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s signals hot
        → 1 queued at 0, blocked
        2s w1 measured
        31s wait
        → 1 ENDED blocked, release w1, asleep
        32s w1 gone
        ",
    );
}

#[test]
fn low_power_mode_affects_only_the_next_response() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat short
        → 2 queued at 1
        3s request 3 chat
        → 3 queued at 2
        4s signals low-power
        5s signals normal
        6s signals low-power
        7s w1 ended 1 well
        → 1 ENDED Stop, generate w1 2 at most 100 without speculation, 3 queued at 1
        8s w1 ended 2 well
        → 2 ENDED Stop, generate w1 3 at most 1024 without speculation
        9s w1 ended 3 well
        → 3 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_blocked_request_reloads_its_model_when_pressure_ends() {
    check(
        "
        5s used chat
        6s signals critical
        → unload w1
        7s w1 freed 100
        → release w1
        7s w1 gone
        8s request 2 chat
        → 2 queued at 0, blocked
        9s ease
        → start w2, measure w2 chat 8192, awake, 2 loading
        ",
    );
}

/// It costs energy and memory that a next turn may never need.
#[test]
fn the_next_turn_is_read_ahead_only_where_nothing_is_short() {
    check(
        "
        5s used chat
        6s request 2 chat ahead
        → generate w1 2 and read ahead, awake
        7s w1 ended 2 well
        → 2 ENDED Stop, asleep
        8s signals low-power
        9s request 3 chat ahead
        → generate w1 3 at most 1024 without speculation, awake
        ",
    );
    check(
        "
        5s used chat
        6s signals warning
        → trim w1 KeepConversation
        6s request 2 chat ahead
        → generate w1 2 at most 1024, awake
        ",
    );
}
