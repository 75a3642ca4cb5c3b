//! Unloading: for want of use, by hand, at the end, and verified each time.

use super::timeline::check;

/// D071.
#[test]
fn an_idle_model_is_unloaded_and_what_came_back_is_told() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        184s tick
        185s tick
        186s w1 freed 100
        186s w1 gone
        186s show
        ",
    );
}

#[test]
fn an_ask_at_the_moment_of_the_idle_unload_wins() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        185s ask 2 chat
        186s w1 ended 2 well
        ",
    );
}

/// D074.
#[test]
fn an_ask_just_after_the_idle_unload_loads_anew_when_the_old_process_is_gone() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        185s tick
        185s ask 2 chat
        185s w2 measured
        186s w1 freed 100
        186s w1 gone
        187s w2 loaded
        ",
    );
}

#[test]
fn an_idle_model_stays_while_its_ask_is_held() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        170s signals hot
        171s ask 2 chat
        185s tick
        201s tick
        ",
    );
}

#[test]
fn the_idle_wait_follows_its_setting_at_once() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        60s tune idle 30
        ",
    );
}

/// D084.
#[test]
fn a_wish_to_keep_the_chat_model_is_for_the_chat_model_only() {
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
        188s tick
        ",
    );
}

#[test]
fn a_model_that_does_not_give_its_memory_back_is_killed() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        7s w1 freed 80
        8s w1 died
        8s show
        ",
    );
}

#[test]
fn a_worker_that_does_not_free_in_time_is_killed() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        8s tick
        9s tick
        9s w1 freed 100
        10s w1 died
        10s show
        ",
    );
}

#[test]
fn a_worker_that_frees_but_does_not_leave_is_killed() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        7s w1 freed 100
        9s tick
        10s w1 died
        10s show
        ",
    );
}

#[test]
fn where_the_system_tells_no_footprint_the_end_of_the_process_is_the_proof() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload all
        7s w1 freed
        7s w1 gone
        7s show
        ",
    );
}

#[test]
fn unload_by_hand_while_measuring() {
    check(
        "
        0s ask 1 chat
        0s unload chat
        1s w1 measured
        1s w1 gone
        ",
    );
}

#[test]
fn unload_by_hand_while_waiting_for_room() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 other
        6s w2 measured
        7s unload other
        8s w2 gone
        8s w1 freed
        8s w1 gone
        ",
    );
}

#[test]
fn unload_by_hand_while_loading() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        1s unload all
        2s w1 failed stopped
        2s w1 gone
        2s show
        ",
    );
}

#[test]
fn unload_by_hand_while_loading_when_the_load_does_not_stop() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        1s unload all
        4s tick
        5s w1 died
        5s show
        ",
    );
}

#[test]
fn unload_by_hand_while_generating_settles_first() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        4s unload chat
        5s ask 3 chat
        6s w1 ended 1 cancelled
        6s w2 measured
        7s w1 freed 100
        7s w1 gone
        ",
    );
}

#[test]
fn unload_by_hand_of_another_model_leaves_the_answer_alone() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s unload embed
        3s ask 2 embed
        4s unload embed
        ",
    );
}

#[test]
fn unload_by_hand_while_unloading_changes_nothing() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        7s unload chat
        8s w1 freed 100
        8s w1 gone
        ",
    );
}

#[test]
fn quit_with_nothing_loaded_is_done_at_once() {
    check(
        "
        0s quit
        0s show
        1s ask 1 chat
        ",
    );
}

#[test]
fn quit_while_measuring() {
    check(
        "
        0s ask 1 chat
        0s quit
        1s w1 gone
        1s show
        ",
    );
}

#[test]
fn quit_while_loading() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        1s quit
        2s w1 failed stopped
        2s w1 gone
        2s show
        ",
    );
}

#[test]
fn quit_while_ready() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s quit
        6s ask 2 chat
        7s w1 freed 100
        7s w1 gone
        7s show
        ",
    );
}

#[test]
fn quit_while_generating_settles_first() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        3s ask 2 chat
        4s quit
        5s w1 ended 1 cancelled
        5s w1 freed 100
        5s w1 gone
        5s show
        ",
    );
}

#[test]
fn quit_while_generating_kills_what_does_not_settle() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        4s quit
        5s quit
        7s tick
        8s w1 died
        8s show
        ",
    );
}

#[test]
fn quit_while_unloading() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        7s quit
        8s w1 freed 100
        8s w1 gone
        8s show
        ",
    );
}
