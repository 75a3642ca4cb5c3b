//! Tests of workers that crash or send unexpected events.

use super::timeline::check;

#[test]
fn a_crash_while_measuring_starts_a_new_worker() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 died
        → start w2, measure w2 chat 8192
        2s w2 measured
        → load w2 chat 8192
        3s w2 loaded
        → generate w2 1
        3s show
        → chat is Generating { request_id: RequestId(1), is_stopping: false }; error: chat: the model's process ended: killed by signal 9 (SIGKILL), while reading the model's files; ask again to restart the model
        ",
    );
}

#[test]
fn a_crash_while_waiting_for_room_starts_a_new_worker() {
    check(
        "
        5s used chat
        6s request 2 other
        → start w2, measure w2 other 8192, awake, 2 loading
        6s w2 measured
        → unload w1
        7s w2 died
        → start w3, measure w3 other 8192
        7s w3 measured
        8s w1 freed
        → release w1
        8s w1 gone
        → load w3 other 8192
        ",
    );
}

#[test]
fn a_crash_while_loading_starts_a_new_worker_and_a_second_fails_the_request() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s request 2 chat
        → 2 queued at 1
        0s request 3 embed
        → 3 queued at 2
        1s w1 measured
        → load w1 chat 8192
        2s w1 died
        → start w2, measure w2 chat 8192
        3s w2 measured
        → load w2 chat 8192
        4s w2 died
        → 1 ENDED worker gone while loading, 2 ENDED worker gone while loading, start w3, measure w3 embed 8192, 3 loading
        4s show
        → embed is Measuring; error: chat: the model's process ended: killed by signal 9 (SIGKILL), while loading; ask again to restart the model
        ",
    );
}

#[test]
fn a_crash_while_ready_only_requires_a_reload() {
    check(
        "
        5s used chat
        6s w1 died
        6s show
        → error: chat: the model's process ended: killed by signal 9 (SIGKILL), while idle; ask again to restart the model
        7s request 2 chat
        → start w2, measure w2 chat 8192, awake, 2 loading
        ",
    );
}

#[test]
fn a_crash_while_generating_fails_one_response_and_the_next_gets_a_new_worker() {
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
        4s w1 died
        → 1 ENDED worker gone while generating, start w2, measure w2 chat 8192, 2 loading
        5s w2 measured
        → load w2 chat 8192
        6s w2 loaded
        → generate w2 2
        7s w2 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

#[test]
fn two_crashes_while_generating_fail_the_queued_requests() {
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
        3s request 3 chat
        → 3 queued at 2
        4s w1 died
        → 1 ENDED worker gone while generating, start w2, measure w2 chat 8192, 2 loading, 3 queued at 1
        5s w2 measured
        → load w2 chat 8192
        6s w2 loaded
        → generate w2 2
        7s w2 died
        → 2 ENDED worker gone while generating, 3 ENDED worker gone while generating, asleep
        ",
    );
}

#[test]
fn a_crash_after_a_response_is_not_the_first_of_two_in_a_row() {
    check(
        "
        5s used chat
        6s request 2 chat
        → generate w1 2, awake
        6s request 3 chat
        → 3 queued at 1
        7s w1 died
        → 2 ENDED worker gone while generating, start w2, measure w2 chat 8192, 3 loading
        8s w2 measured
        → load w2 chat 8192
        9s w2 died
        → start w3, measure w3 chat 8192
        10s w3 measured
        → load w3 chat 8192
        ",
    );
}

#[test]
fn a_crash_of_a_stopping_job_ends_the_request_once() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s cancel 1
        → stop w1 1 Canceled
        4s w1 died
        → 1 ENDED worker gone while stopping, asleep
        ",
    );
}

#[test]
fn a_crash_while_unloading_is_recorded_as_by_force() {
    check(
        "
        5s used chat
        6s unload chat
        → delete states of chat, unload w1
        7s w1 died
        7s show
        → unloaded chat (Requested), held Some(3180800000), freed None, by force true, took 1s
        ",
    );
}

#[test]
fn a_crash_while_a_load_is_stopping_ends_it() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s cancel 1
        → 1 ENDED Canceled, stop w1 load Canceled, asleep
        2s w1 died
        2s show
        → unloaded chat (LoadEnded), held None, freed None, by force true, took 1s
        ",
    );
}

#[test]
fn a_loading_worker_that_sends_an_unexpected_event_is_killed() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 loaded
        → kill w1, start w2, measure w2 chat 8192
        1s w1 measured
        2s w1 died
        2s w2 measured
        → load w2 chat 8192
        2s show
        → chat is Loading { progress: None }; error: chat: the model's process sent an unexpected message and was ended: `loaded`, while reading the model's files; ask again to restart the model
        ",
    );
}

#[test]
fn a_worker_that_ends_the_request_of_another_is_killed() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s w1 ended 7 well
        → 1 ENDED worker gone while generating, kill w1, asleep
        4s w1 ended 1 well
        5s w1 died
        5s show
        → unloaded chat (Fault), held Some(3180800000), freed None, by force true, took 2s; error: chat: the model's process sent an unexpected message and was ended: `job ended`, while generating; ask again to restart the model
        ",
    );
}

#[test]
fn an_idle_worker_that_sends_an_unexpected_event_is_killed() {
    check(
        "
        5s used chat
        6s w1 freed
        → kill w1
        7s w1 died
        ",
    );
}

#[test]
fn an_unloading_worker_that_sends_an_unexpected_event_is_killed() {
    check(
        "
        5s used chat
        6s unload chat
        → delete states of chat, unload w1
        7s w1 ended 1 well
        → kill w1
        8s w1 died
        8s show
        → unloaded chat (Requested), held Some(3180800000), freed None, by force true, took 2s; error: chat: the model's process sent an unexpected message and was ended: `job ended`, while unloading; ask again to restart the model
        ",
    );
}

#[test]
fn events_of_a_worker_that_is_gone_are_ignored() {
    check(
        "
        5s used chat
        6s w1 died
        7s w1 freed
        7s w1 loaded
        8s w5 gone
        ",
    );
}

/// A success between two crashes makes them unrelated.
#[test]
fn two_crashes_with_a_response_between_them_are_not_in_a_row() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s w1 died
        → start w2, measure w2 chat 8192
        1s w2 measured
        → load w2 chat 8192
        2s w2 loaded
        → generate w2 1
        3s w2 ended 1 well
        → 1 ENDED Stop, asleep
        4s unload all
        → delete states of all, unload w2
        5s w2 freed 100
        → release w2
        5s w2 gone
        6s request 2 chat
        → start w3, measure w3 chat 8192, awake, 2 loading
        6s w3 measured
        → load w3 chat 8192
        7s w3 died
        → start w4, measure w4 chat 8192
        ",
    );
}

#[test]
fn a_crash_long_ago_is_forgotten() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 died
        → start w2, measure w2 chat 8192
        2s cancel 1
        → 1 ENDED Canceled, release w2, asleep
        3s w2 gone
        601s request 2 chat
        → start w3, measure w3 chat 8192, awake, 2 loading
        602s w3 died
        → start w4, measure w4 chat 8192
        603s w4 died
        → 2 ENDED worker gone while reading the model's files, asleep
        ",
    );
}
