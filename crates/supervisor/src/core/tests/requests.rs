//! Tests of requests: the queue, its order, its limit, and cancellation.

use super::timeline::check;

/// Loaded on demand; kept awake only during work.
#[test]
fn a_request_loads_its_model_and_the_next_one_uses_it() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 measured
        → load w1 chat 8192
        2s w1 progress 50
        → 1 loading 50%
        3s w1 loaded
        → generate w1 1
        9s w1 ended 1 well
        → 1 ENDED Stop, asleep
        20s request 2 chat
        → generate w1 2, awake
        21s w1 ended 2 well
        → 2 ENDED Stop, asleep
        21s show
        → chat is Ready
        ",
    );
}

#[test]
fn one_job_runs_at_a_time_and_queued_requests_know_their_position() {
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
        3s request 3 embed
        → 3 queued at 2
        4s w1 ended 1 well
        → 1 ENDED Stop, generate w1 2, 3 queued at 1
        5s w1 ended 2 well
        → 2 ENDED Stop, start w2, measure w2 embed 8192, 3 loading
        5s w2 measured
        → load w2 embed 8192
        6s w2 loaded
        → generate w2 3
        7s w2 ended 3 well
        → 3 ENDED Stop, asleep
        ",
    );
}

#[test]
fn counting_tokens_waits_for_its_turn_like_a_response() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat count
        → 2 queued at 1
        4s w1 ended 1 well
        → 1 ENDED Stop, count w1 2
        4s w1 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_request_beyond_the_queue_limit_fails_as_busy() {
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
        3s request 4 chat
        → 4 ENDED busy, 2 waiting
        3s request 5 chat load
        → 5 ENDED loaded
        ",
    );
}

#[test]
fn a_request_is_served_at_once_even_if_the_queue_limit_is_zero() {
    check(
        "
        0s tune queue 0
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s request 2 chat
        → 2 ENDED busy, 0 waiting
        ",
    );
}

#[test]
fn a_load_request_ends_when_the_model_is_loaded() {
    check(
        "
        0s request 1 chat load
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → 1 ENDED loaded, asleep
        3s request 2 chat
        → generate w1 2, awake
        4s request 3 chat load
        → 3 ENDED loaded
        5s w1 ended 2 well
        → 2 ENDED Stop, asleep
        6s request 4 chat load
        → 4 ENDED loaded
        ",
    );
}

#[test]
fn a_request_canceled_while_queued_ends_and_the_others_move_up() {
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
        4s cancel 2
        → 2 ENDED Canceled, 3 queued at 1
        4s cancel 2
        5s cancel 99
        ",
    );
}

#[test]
fn canceling_the_only_request_stops_the_load() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 measured
        → load w1 chat 8192
        2s cancel 1
        → 1 ENDED Canceled, stop w1 load Canceled, asleep
        3s w1 failed stopped
        → release w1
        4s w1 gone
        4s show
        → unloaded chat (LoadEnded), held None, freed None, by force false, took 2s
        ",
    );
}

#[test]
fn a_stopped_load_that_succeeds_is_unloaded() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 measured
        → load w1 chat 8192
        2s cancel 1
        → 1 ENDED Canceled, stop w1 load Canceled, asleep
        2s w1 progress 99
        3s w1 loaded
        → unload w1
        4s w1 freed 100
        → release w1
        5s w1 gone
        ",
    );
}

#[test]
fn canceling_the_only_request_while_measuring_releases_the_worker() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s cancel 1
        → 1 ENDED Canceled, release w1, asleep
        1s w1 measured
        2s w1 gone
        2s show
        →
        ",
    );
}

#[test]
fn a_load_continues_while_another_request_needs_the_model() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s request 2 embed
        → 2 queued at 1
        0s request 3 chat
        → 3 queued at 2
        1s w1 measured
        → load w1 chat 8192
        2s cancel 1
        → 1 ENDED Canceled, 2 queued at 0, 3 queued at 1
        3s w1 loaded
        → start w2, measure w2 embed 8192, 2 loading
        3s w2 measured
        → load w2 embed 8192
        4s w2 loaded
        → generate w2 2
        5s w2 ended 2 well
        → 2 ENDED Stop, generate w1 3
        ",
    );
}

#[test]
fn a_running_response_is_stopped_once_and_ends_when_its_job_has_settled() {
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
        3s cancel 1
        3s request 2 chat
        → 2 queued at 1
        4s w1 ended 1 canceled
        → 1 ENDED Canceled, generate w1 2
        ",
    );
}

/// A model loads only after the previous one is gone.
#[test]
fn many_requests_for_two_models_are_served_in_order() {
    check(
        "
        5s used chat
        6s request 2 other
        → start w2, measure w2 other 8192, awake, 2 loading
        6s request 3 chat
        → 3 queued at 1
        6s w2 measured
        → unload w1
        7s w1 freed 100
        → release w1
        7s w1 gone
        → load w2 other 8192
        9s w2 loaded
        → generate w2 2
        10s w2 ended 2 well
        → 2 ENDED Stop, start w3, measure w3 chat 8192, 3 loading
        10s w3 measured
        → unload w2 saving
        11s w2 freed 100
        → release w2
        11s w2 gone
        → load w3 chat 8192
        ",
    );
}

#[test]
fn the_model_is_switched_after_the_running_response() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 other
        → 2 queued at 1
        4s w1 ended 1 well
        → 1 ENDED Stop, start w2, measure w2 other 8192, 2 loading
        4s w2 measured
        → unload w1
        5s w1 freed
        → release w1
        5s w1 gone
        → load w2 other 8192
        6s w2 loaded
        → generate w2 2
        ",
    );
}

#[test]
fn a_model_that_fits_next_to_another_does_not_evict_it() {
    check(
        "
        5s used chat
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        6s w2 measured
        → load w2 embed 8192
        7s w2 loaded
        → generate w2 2
        8s w2 ended 2 well
        → 2 ENDED Stop, asleep
        8s show
        → chat is Ready; embed is Ready
        ",
    );
}

#[test]
fn no_second_model_is_evicted_if_one_is_enough() {
    check(
        "
        5s used chat
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        6s w2 measured
        → load w2 embed 8192
        7s w2 loaded
        → generate w2 2
        8s w2 ended 2 well
        → 2 ENDED Stop, asleep
        9s request 3 chat
        → generate w1 3, awake
        10s w1 ended 3 well
        → 3 ENDED Stop, asleep
        11s request 4 other
        → start w3, measure w3 other 8192, awake, 4 loading
        11s w3 measured
        → unload w1
        13s w1 freed
        → release w1
        13s w1 gone
        → load w3 other 8192
        ",
    );
}

#[test]
fn a_request_without_variants_fails() {
    check(
        "
        0s request 1 none
        → 1 ENDED engine error: variants is an empty list, but must be at least one file or folder
        ",
    );
}

#[test]
fn a_failed_response_does_not_affect_other_requests() {
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
        4s w1 ended 1 broken
        → 1 ENDED bad file, generate w1 2
        5s w1 ended 2 well
        → 2 ENDED Stop, asleep
        5s show
        → chat is Ready; error: chat: model: cut off
        ",
    );
}

#[test]
fn the_least_recently_used_model_is_evicted() {
    check(
        "
        0s request 1 embed
        → start w1, measure w1 embed 8192, awake, 1 loading
        0s w1 measured
        → load w1 embed 8192
        1s w1 loaded
        → generate w1 1
        1s w1 ended 1 well
        → 1 ENDED Stop, asleep
        2s request 2 embed2
        → start w2, measure w2 embed2 8192, awake, 2 loading
        2s w2 measured
        → load w2 embed2 8192
        3s w2 loaded
        → generate w2 2
        3s w2 ended 2 well
        → 2 ENDED Stop, asleep
        4s request 3 chat
        → start w3, measure w3 chat 8192, awake, 3 loading
        4s w3 measured
        → load w3 chat 8192
        5s w3 loaded
        → generate w3 3
        5s w3 ended 3 well
        → 3 ENDED Stop, asleep
        6s request 4 embed
        → generate w1 4, awake
        6s w1 ended 4 well
        → 4 ENDED Stop, asleep
        7s request 5 embed3
        → start w4, measure w4 embed3 8192, awake, 5 loading
        7s w4 measured
        → unload w2
        8s w2 freed 100
        → release w2
        8s w2 gone
        → load w4 embed3 8192
        ",
    );
}
