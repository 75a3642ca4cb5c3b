//! The ladder: memory pressure at each level in each phase, heat, Low Power Mode.

use super::timeline::check;

#[test]
fn a_warning_while_loading_lets_the_load_go_on() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        1s signals warning
        2s w1 loaded
        ",
    );
}

/// D047, D048, D076.
#[test]
fn a_warning_trims_idle_models_once() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 embed
        6s w2 measured
        7s w2 loaded
        8s w2 ended 2 well
        70s signals warning
        71s signals warning
        71s w1 trimmed
        71s w2 trimmed
        ",
    );
}

/// D047, D076.
#[test]
fn a_warning_while_answering_keeps_the_conversation() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s signals warning
        3s w1 trimmed
        4s w1 ended 1 well
        ",
    );
}

/// D073.
#[test]
fn critical_pressure_while_measuring_gives_the_load_up_and_holds_the_ask() {
    check(
        "
        0s ask 1 chat
        1s signals critical
        2s w1 gone
        3s ease
        ",
    );
}

#[test]
fn critical_pressure_while_waiting_for_room_gives_the_load_up() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 other
        6s w2 measured
        6s signals critical
        7s w2 gone
        7s w1 freed 100
        7s w1 gone
        7s show
        ",
    );
}

#[test]
fn critical_pressure_while_loading_cancels_the_load_and_holds_the_ask() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        1s signals critical
        1s w1 progress 10
        2s w1 failed stopped
        3s w1 gone
        4s ease
        60s show
        ",
    );
}

/// D073, D077: also against the wish to keep the model.
#[test]
fn critical_pressure_unloads_idle_models_secondary_ones_first() {
    check(
        "
        0s tune keep yes
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 embed
        6s w2 measured
        7s w2 loaded
        8s w2 ended 2 well
        9s signals critical
        10s w2 freed 100
        10s w1 freed 100
        10s w1 gone
        10s w2 gone
        10s show
        ",
    );
}

/// D077: secondary models go at once.
#[test]
fn critical_pressure_while_generating_finishes_the_answer_then_unloads() {
    check(
        "
        0s ask 9 embed
        0s w1 measured
        0s w1 loaded
        0s w1 ended 9 well
        1s ask 1 chat
        1s w2 measured
        2s w2 loaded
        3s signals critical
        4s w2 trimmed
        5s w2 ended 1 well
        6s w1 freed 100
        6s w2 freed 100
        6s w1 gone
        6s w2 gone
        ",
    );
}

/// D077: an answer that takes too long is ended; what was written stays.
#[test]
fn critical_pressure_while_generating_stops_settles_then_unloads() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s signals critical
        22s tick
        23s tick
        24s w1 ended 1 shed
        25s w1 freed 100
        25s w1 gone
        ",
    );
}

#[test]
fn thrashing_ends_the_answer_at_once() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s signals critical thrashing
        4s w1 ended 1 shed
        ",
    );
}

#[test]
fn critical_pressure_during_an_unload_changes_nothing() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        7s signals critical
        8s w1 freed 100
        8s w1 gone
        ",
    );
}

/// D078.
#[test]
fn pressure_that_eases_before_the_answer_ends_keeps_the_model() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s signals critical
        4s ease
        40s w1 ended 1 well
        40s show
        ",
    );
}

#[test]
fn signals_that_flap_trim_once_until_the_machine_was_quiet() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s signals warning
        7s signals normal
        8s signals warning
        9s signals normal
        10s signals warning
        ",
    );
}

#[test]
fn signals_that_flap_do_not_unload_and_load_again() {
    check(
        "
        0s signals critical
        0s ask 1 chat
        1s signals normal
        2s signals critical
        3s signals normal
        ",
    );
}

/// D064, D092.
#[test]
fn an_ask_held_for_too_long_is_refused() {
    check(
        "
        0s signals critical
        1s ask 1 chat
        30s tick
        31s tick
        ",
    );
}

/// D064, D092.
#[test]
fn an_ask_that_does_not_want_to_wait_is_refused_at_once() {
    check(
        "
        0s signals hot
        1s ask 1 chat or-refuse
        2s ask 2 chat
        ",
    );
}

#[test]
fn asks_in_the_queue_that_do_not_want_to_wait_are_refused_when_it_gets_hot() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat or-refuse
        3s ask 3 chat
        4s signals hot
        ",
    );
}

/// D087, D088.
#[test]
fn critical_heat_holds_what_waits_and_leaves_the_answer_and_the_models() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        4s signals hot
        5s w1 ended 1 well
        6s ask 3 chat load
        7s ease
        ",
    );
}

#[test]
fn critical_heat_while_loading_lets_the_load_go_on() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        1s signals hot
        2s w1 loaded
        31s tick
        ",
    );
}

#[test]
fn a_model_that_waits_for_room_is_given_up_when_its_asks_were_held_too_long() {
    check(
        "
        0s ask 1 chat
        1s signals hot
        2s w1 measured
        31s tick
        32s w1 gone
        ",
    );
}

/// D086.
#[test]
fn low_power_mode_toggled_in_mid_answer_changes_only_the_next() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat short
        3s ask 3 chat
        4s signals low-power
        5s signals normal
        6s signals low-power
        7s w1 ended 1 well
        8s w1 ended 2 well
        9s w1 ended 3 well
        ",
    );
}

/// D074, D078.
#[test]
fn a_held_back_ask_loads_its_model_anew_when_the_pressure_is_over() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s signals critical
        7s w1 freed 100
        7s w1 gone
        8s ask 2 chat
        9s ease
        ",
    );
}
