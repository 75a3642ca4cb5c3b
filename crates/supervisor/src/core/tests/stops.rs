//! Tests of ignored stops: each has a deadline, and the queue continues.

use super::timeline::check;

#[test]
fn a_canceled_job_that_does_not_end_is_killed_after_ten_seconds() {
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
        4s cancel 1
        → stop w1 1 Canceled
        5s cancel 1
        14s wait
        → 1 ENDED worker gone while stopping, kill w1, start w2, measure w2 chat 8192, 2 loading
        14s w2 measured
        15s w1 died
        → load w2 chat 8192
        15s show
        → chat is Loading { progress: None }; unloaded chat (Fault), held Some(3180800000), freed None, by force true, took 1s; error: chat: the model's process did not respond for 10 s and was ended, while stopping; ask again to restart the model
        ",
    );
}

/// Cancellations are no evidence that a model cannot work.
#[test]
fn ignored_cancels_do_not_fail_queued_requests() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s request 2 chat
        → 2 queued at 1
        0s request 3 chat
        → 3 queued at 2
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        4s cancel 1
        → stop w1 1 Canceled
        14s wait
        → 1 ENDED worker gone while stopping, kill w1, start w2, measure w2 chat 8192, 2 loading, 3 queued at 1
        14s w1 died
        15s w2 measured
        → load w2 chat 8192
        16s w2 loaded
        → generate w2 2
        17s cancel 2
        → stop w2 2 Canceled
        27s wait
        → 2 ENDED worker gone while stopping, kill w2, start w3, measure w3 chat 8192, 3 loading
        ",
    );
}

#[test]
fn an_unload_by_the_user_kills_a_job_that_does_not_end() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        4s unload chat
        → delete states of chat, stop w1 1 Canceled
        14s wait
        → 1 ENDED worker gone while stopping, kill w1, asleep
        15s w1 died
        15s show
        → unloaded chat (Requested), held Some(3180800000), freed None, by force true, took 1s; error: chat: the model's process did not respond for 10 s and was ended, while stopping; ask again to restart the model
        ",
    );
}

/// The memory is needed, so the deadline of an unload applies.
#[test]
fn a_shed_job_that_does_not_end_is_killed_after_three_seconds() {
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
        4s signals critical thrashing
        6s wait
        → 1 ENDED worker gone while stopping, kill w1, asleep
        ",
    );
}

/// 20 s to finish, and 3 s to stop.
#[test]
fn a_long_job_under_critical_pressure_ends_in_bounded_time() {
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
        23s wait
        → stop w1 1 Shed
        26s wait
        → 1 ENDED worker gone while stopping, kill w1, asleep
        ",
    );
}

#[test]
fn critical_pressure_shortens_the_deadline_of_a_stopping_job() {
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
        4s signals critical thrashing
        → trim w1 KeepConversation
        7s wait
        → 1 ENDED worker gone while stopping, kill w1, asleep
        ",
    );
}

#[test]
fn a_quit_shortens_the_deadline_of_a_stopping_job() {
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
        4s quit
        7s wait
        → 1 ENDED quitting, kill w1, asleep
        8s w1 died
        8s show
        → unloaded chat (Quit), held Some(3180800000), freed None, by force true, took 1s; error: chat: the model's process did not respond for 4 s and was ended, while stopping; ask again to restart the model; done
        ",
    );
}

#[test]
fn a_load_that_ignores_its_stop_is_killed() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s cancel 1
        → 1 ENDED Canceled, stop w1 load Canceled, asleep
        4s wait
        → kill w1
        ",
    );
}

#[test]
fn a_model_that_does_not_make_room_in_time_is_killed_and_the_next_one_loads() {
    check(
        "
        5s used chat
        6s request 2 other
        → start w2, measure w2 other 8192, awake, 2 loading
        7s w2 measured
        → unload w1
        10s wait
        → kill w1
        11s w1 died
        → load w2 other 8192
        ",
    );
}
