//! Workers that die, and workers that talk nonsense.

use super::timeline::check;

#[test]
fn a_crash_while_measuring_starts_a_new_worker() {
    check(
        "
        0s ask 1 chat
        1s w1 died
        2s w2 measured
        3s w2 loaded
        3s show
        ",
    );
}

#[test]
fn a_crash_while_waiting_for_room_starts_a_new_worker() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 other
        6s w2 measured
        7s w2 died
        7s w3 measured
        8s w1 freed
        8s w1 gone
        ",
    );
}

#[test]
fn a_crash_while_loading_starts_a_new_worker_and_a_second_fails_the_ask() {
    check(
        "
        0s ask 1 chat
        0s ask 2 chat
        0s ask 3 embed
        1s w1 measured
        2s w1 died
        3s w2 measured
        4s w2 died
        4s show
        ",
    );
}

#[test]
fn a_crash_while_ready_costs_nothing_but_the_load() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s w1 died
        6s show
        7s ask 2 chat
        ",
    );
}

#[test]
fn a_crash_while_generating_fails_one_answer_and_the_next_gets_a_new_worker() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        4s w1 died
        5s w2 measured
        6s w2 loaded
        7s w2 ended 2 well
        ",
    );
}

#[test]
fn two_crashes_while_generating_fail_those_who_wait_for_the_model() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        3s ask 3 chat
        4s w1 died
        5s w2 measured
        6s w2 loaded
        7s w2 died
        ",
    );
}

#[test]
fn a_crash_after_an_answer_does_not_count_towards_two_in_a_row() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 chat
        6s ask 3 chat
        7s w1 died
        8s w2 measured
        9s w2 died
        10s w3 measured
        ",
    );
}

#[test]
fn a_crash_of_a_job_that_was_stopping_is_still_one_end() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s cancel 1
        4s w1 died
        ",
    );
}

#[test]
fn a_crash_while_unloading_ends_the_unload_by_force() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        7s w1 died
        7s show
        ",
    );
}

#[test]
fn a_crash_while_a_load_is_given_up_is_the_end_of_it() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        1s cancel 1
        2s w1 died
        2s show
        ",
    );
}

#[test]
fn a_worker_that_speaks_out_of_turn_is_killed_and_not_believed() {
    check(
        "
        0s ask 1 chat
        1s w1 loaded
        1s w1 measured
        2s w1 died
        2s w2 measured
        2s show
        ",
    );
}

#[test]
fn a_worker_that_ends_another_ask_than_its_own_is_killed() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s w1 ended 7 well
        4s w1 ended 1 well
        5s w1 died
        5s show
        ",
    );
}

#[test]
fn an_idle_worker_that_speaks_out_of_turn_is_killed() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s w1 freed
        7s w1 died
        ",
    );
}

#[test]
fn an_unloading_worker_that_speaks_out_of_turn_is_killed() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        7s w1 ended 1 well
        8s w1 died
        8s show
        ",
    );
}

#[test]
fn a_worker_that_is_gone_is_not_listened_to() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s w1 died
        7s w1 freed
        7s w1 loaded
        8s w5 gone
        ",
    );
}
