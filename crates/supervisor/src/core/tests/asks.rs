//! Asks: the queue, its order, its bounds, and how people change their minds.

use super::timeline::check;

/// D072, D074, D095: loaded on demand, kept awake only while it works.
#[test]
fn an_ask_loads_its_model_and_the_next_finds_it_ready() {
    check(
        "
        0s ask 1 chat
        1s w1 measured
        2s w1 progress 50
        3s w1 loaded
        9s w1 ended 1 well
        20s ask 2 chat
        21s w1 ended 2 well
        21s show
        ",
    );
}

/// D062.
#[test]
fn one_answer_runs_at_a_time_and_the_others_know_their_places() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        3s ask 3 embed
        4s w1 ended 1 well
        5s w1 ended 2 well
        5s w2 measured
        6s w2 loaded
        7s w2 ended 3 well
        ",
    );
}

#[test]
fn the_queue_is_bounded_and_the_next_is_refused_as_busy() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        3s ask 3 chat
        3s ask 4 chat
        3s ask 5 chat load
        ",
    );
}

#[test]
fn an_ask_is_served_at_once_even_when_none_may_wait() {
    check(
        "
        0s tune queue 0
        0s ask 1 chat
        0s ask 2 chat
        ",
    );
}

#[test]
fn an_ask_that_only_loads_ends_when_the_model_is_there() {
    check(
        "
        0s ask 1 chat load
        1s w1 measured
        2s w1 loaded
        3s ask 2 chat
        4s ask 3 chat load
        5s w1 ended 2 well
        6s ask 4 chat load
        ",
    );
}

#[test]
fn an_ask_cancelled_while_queued_ends_and_the_others_move_up() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        3s ask 3 chat
        4s cancel 2
        4s cancel 2
        5s cancel 99
        ",
    );
}

#[test]
fn an_ask_cancelled_while_its_model_loads_ends_the_load() {
    check(
        "
        0s ask 1 chat
        1s w1 measured
        2s cancel 1
        3s w1 failed stopped
        4s w1 gone
        4s show
        ",
    );
}

#[test]
fn a_load_that_was_given_up_but_succeeds_is_unloaded() {
    check(
        "
        0s ask 1 chat
        1s w1 measured
        2s cancel 1
        2s w1 progress 99
        3s w1 loaded
        4s w1 freed 100
        5s w1 gone
        ",
    );
}

#[test]
fn an_ask_cancelled_while_its_model_is_measured_lets_the_worker_go() {
    check(
        "
        0s ask 1 chat
        1s cancel 1
        1s w1 measured
        2s w1 gone
        2s show
        ",
    );
}

#[test]
fn a_load_goes_on_while_somebody_else_waits_for_the_model() {
    check(
        "
        0s ask 1 chat
        0s ask 2 embed
        0s ask 3 chat
        1s w1 measured
        2s cancel 1
        3s w1 loaded
        3s w2 measured
        4s w2 loaded
        5s w2 ended 2 well
        ",
    );
}

#[test]
fn a_running_answer_is_cancelled_once_and_ends_when_it_has_settled() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s cancel 1
        3s cancel 1
        3s ask 2 chat
        4s w1 ended 1 cancelled
        ",
    );
}

/// D082, D083: the model before is gone, verified, before the next one loads.
#[test]
fn a_crowd_of_asks_for_two_models_is_served_in_order() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 other
        6s ask 3 chat
        6s w2 measured
        7s w1 freed 100
        7s w1 gone
        9s w2 loaded
        10s w2 ended 2 well
        10s w3 measured
        11s w2 freed 100
        11s w2 gone
        ",
    );
}

#[test]
fn the_model_is_switched_after_the_running_answer() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 other
        4s w1 ended 1 well
        4s w2 measured
        5s w1 freed
        5s w1 gone
        6s w2 loaded
        ",
    );
}

/// D082.
#[test]
fn a_model_that_fits_beside_the_other_leaves_it_alone() {
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
        8s show
        ",
    );
}

/// D082.
#[test]
fn the_model_that_was_not_used_for_longest_makes_room() {
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
        9s ask 3 chat
        10s w1 ended 3 well
        11s ask 4 other
        11s w3 measured
        12s w2 freed
        12s w2 gone
        13s w1 freed
        13s w1 gone
        ",
    );
}

#[test]
fn an_ask_without_a_model_file_is_refused() {
    check(
        "
        0s ask 1 none
        ",
    );
}

#[test]
fn an_answer_that_fails_costs_nobody_else_theirs() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        4s w1 ended 1 broken
        5s w1 ended 2 well
        5s show
        ",
    );
}
