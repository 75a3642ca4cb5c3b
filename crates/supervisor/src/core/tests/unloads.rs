//! Tests of unloads, by idle time and by the user; each is verified.

use super::timeline::check;

#[test]
fn an_idle_model_is_unloaded_and_the_freed_memory_is_recorded() {
    check(
        "
        5s used chat
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
fn a_request_at_the_moment_of_the_idle_unload_prevents_it() {
    check(
        "
        5s used chat
        185s request 2 chat
        → generate w1 2, awake
        186s w1 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_request_after_the_idle_unload_loads_when_the_old_process_is_gone() {
    check(
        "
        5s used chat
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
fn an_idle_model_stays_loaded_while_its_request_is_blocked() {
    check(
        "
        5s used chat
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
fn a_new_idle_time_applies_at_once() {
    check(
        "
        5s used chat
        60s tune idle 30
        → unload w1
        ",
    );
}

#[test]
fn keep_loaded_applies_to_the_chat_model_only() {
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
        188s wait
        → unload w2
        ",
    );
}

#[test]
fn a_process_that_keeps_the_memory_of_its_model_is_killed() {
    check(
        "
        5s used chat
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
fn memory_kept_by_libraries_does_not_kill_the_process_of_a_tiny_model() {
    check(
        "
        5s used tiny
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
fn a_worker_that_does_not_drop_its_model_in_time_is_killed() {
    check(
        "
        5s used chat
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
fn a_released_worker_that_does_not_exit_is_killed() {
    check(
        "
        5s used chat
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
fn without_footprints_an_unload_is_verified_by_the_end_of_the_process() {
    check(
        "
        5s used chat
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
fn an_unload_by_the_user_while_measuring_releases_the_worker() {
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
fn an_unload_by_the_user_while_waiting_for_room_releases_the_worker() {
    check(
        "
        5s used chat
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
fn an_unload_by_the_user_while_loading_stops_the_load() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s unload all
        → delete states of all, 1 ENDED unloaded, stop w1 load Canceled, asleep
        2s w1 failed stopped
        → release w1
        2s w1 gone
        2s show
        → unloaded chat (Requested), held None, freed None, by force false, took 1s
        ",
    );
}

#[test]
fn an_unload_by_the_user_kills_a_load_that_does_not_stop() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s unload all
        → delete states of all, 1 ENDED unloaded, stop w1 load Canceled, asleep
        4s wait
        → kill w1
        5s w1 died
        5s show
        → unloaded chat (Requested), held None, freed None, by force true, took 4s
        ",
    );
}

#[test]
fn an_unload_by_the_user_while_generating_waits_for_the_job_to_settle() {
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
        → delete states of chat, 2 ENDED unloaded, stop w1 1 Canceled
        5s request 3 chat
        → 3 queued at 1
        6s w1 ended 1 canceled
        → 1 ENDED Canceled, unload w1, start w2, measure w2 chat 8192, 3 loading
        6s w2 measured
        7s w1 freed 100
        → release w1
        7s w1 gone
        → load w2 chat 8192
        ",
    );
}

#[test]
fn an_unload_of_another_model_does_not_affect_the_response() {
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
fn an_unload_by_the_user_while_unloading_changes_nothing() {
    check(
        "
        5s used chat
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
