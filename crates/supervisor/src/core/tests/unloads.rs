//! Unloading: for want of use and by hand, verified each time.

use super::timeline::check;

/// D071.
#[test]
fn an_idle_model_is_unloaded_and_what_came_back_is_told() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        184s tick
        185s wait
        → unload w1
        186s w1 freed 100
        → release w1
        186s w1 gone
        186s show
        → unloaded chat (Idle), held Some(3180800000), freed Some(3180800000), by force false, took 1s
        ",
    );
}

#[test]
fn an_ask_at_the_moment_of_the_idle_unload_wins() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        185s request 2 chat
        → generate w1 2, awake
        186s w1 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

/// D074.
#[test]
fn an_ask_just_after_the_idle_unload_loads_anew_when_the_old_process_is_gone() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        185s wait
        → unload w1
        185s request 2 chat
        → start w2, measure w2 chat 8192, awake, 2 loading
        185s w2 measured
        186s w1 freed 100
        → release w1
        186s w1 gone
        → load w2 chat 8192
        187s w2 loaded
        → generate w2 2
        ",
    );
}

#[test]
fn an_idle_model_stays_while_its_ask_is_held() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        170s signals hot
        171s request 2 chat
        → 2 queued at 0, blocked
        185s tick
        201s wait
        → 2 ENDED blocked, unload w1
        ",
    );
}

#[test]
fn the_idle_wait_follows_its_setting_at_once() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        60s tune idle 30
        → unload w1
        ",
    );
}

/// D084.
#[test]
fn a_wish_to_keep_the_chat_model_is_for_the_chat_model_only() {
    check(
        "
        0s tune keep yes
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        6s w2 measured
        → load w2 embed 8192
        7s w2 loaded
        → generate w2 2
        8s w2 ended 2 well
        → 2 ENDED Stop, asleep
        188s wait
        → unload w2
        ",
    );
}

#[test]
fn a_model_that_does_not_give_its_memory_back_is_killed() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s unload chat
        → delete states of chat, unload w1
        7s w1 freed 80
        → kill w1
        8s w1 died
        8s show
        → unloaded chat (Requested), held Some(3180800000), freed Some(2544640000), by force true, took 2s
        ",
    );
}

#[test]
fn what_libraries_keep_of_a_tiny_model_is_no_reason_to_kill() {
    check(
        "
        0s request 1 tiny
        → start w1, measure w1 tiny 8192, awake, 1 loading
        0s w1 measured
        → load w1 tiny 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s unload all
        → delete states of all, unload w1
        7s w1 freed 10
        → release w1
        7s w1 gone
        7s show
        → unloaded tiny (Requested), held Some(20000000), freed Some(2000000), by force false, took 1s
        ",
    );
}

#[test]
fn a_worker_that_does_not_free_in_time_is_killed() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s unload chat
        → delete states of chat, unload w1
        8s tick
        9s wait
        → kill w1
        9s w1 freed 100
        10s w1 died
        10s show
        → unloaded chat (Requested), held Some(3180800000), freed None, by force true, took 4s
        ",
    );
}

#[test]
fn a_worker_that_frees_but_does_not_leave_is_killed() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s unload chat
        → delete states of chat, unload w1
        7s w1 freed 100
        → release w1
        9s wait
        → kill w1
        10s w1 died
        10s show
        → unloaded chat (Requested), held Some(3180800000), freed Some(3180800000), by force true, took 4s
        ",
    );
}

#[test]
fn where_the_system_tells_no_footprint_the_end_of_the_process_is_the_proof() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s unload all
        → delete states of all, unload w1
        7s w1 freed
        → release w1
        7s w1 gone
        7s show
        → unloaded chat (Requested), held Some(3180800000), freed None, by force false, took 1s
        ",
    );
}

#[test]
fn unload_by_hand_while_measuring() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s unload chat
        → delete states of chat, 1 ENDED unloaded, release w1, asleep
        1s w1 measured
        1s w1 gone
        ",
    );
}

#[test]
fn unload_by_hand_while_waiting_for_room() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s request 2 other
        → start w2, measure w2 other 8192, awake, 2 loading
        6s w2 measured
        → unload w1
        7s unload other
        → delete states of other, 2 ENDED unloaded, release w2, asleep
        8s w2 gone
        8s w1 freed
        → release w1
        8s w1 gone
        ",
    );
}

#[test]
fn unload_by_hand_while_loading() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s unload all
        → delete states of all, 1 ENDED unloaded, stop w1 load Cancelled, asleep
        2s w1 failed stopped
        → release w1
        2s w1 gone
        2s show
        → unloaded chat (Requested), held None, freed None, by force false, took 1s
        ",
    );
}

#[test]
fn unload_by_hand_while_loading_when_the_load_does_not_stop() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s unload all
        → delete states of all, 1 ENDED unloaded, stop w1 load Cancelled, asleep
        4s wait
        → kill w1
        5s w1 died
        5s show
        → unloaded chat (Requested), held None, freed None, by force true, took 4s
        ",
    );
}

#[test]
fn unload_by_hand_while_generating_settles_first() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat
        → 2 queued at 1
        4s unload chat
        → delete states of chat, 2 ENDED unloaded, stop w1 1 Cancelled
        5s request 3 chat
        → 3 queued at 1
        6s w1 ended 1 canceled
        → 1 ENDED Cancelled, unload w1, start w2, measure w2 chat 8192, 3 loading
        6s w2 measured
        7s w1 freed 100
        → release w1
        7s w1 gone
        → load w2 chat 8192
        ",
    );
}

#[test]
fn unload_by_hand_of_another_model_leaves_the_answer_alone() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s unload embed
        → delete states of embed
        3s request 2 embed
        → 2 queued at 1
        4s unload embed
        → delete states of embed, 2 ENDED unloaded
        ",
    );
}

#[test]
fn unload_by_hand_while_unloading_changes_nothing() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s unload chat
        → delete states of chat, unload w1
        7s unload chat
        → delete states of chat
        8s w1 freed 100
        → release w1
        8s w1 gone
        ",
    );
}
