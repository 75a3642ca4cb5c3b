//! Tests of one model with several settings: open settings use the model as it is, different ones
//! reload it.

use super::timeline::check;

#[test]
fn a_request_without_settings_uses_the_model_as_it_is_loaded() {
    check(
        "
        0s request 1 chat/20000
        → start w1, measure w1 chat 20000, awake, 1 loading
        0s w1 measured
        → load w1 chat 20000
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s request 2 chat
        → generate w1 2, awake
        7s w1 ended 2 well
        → 2 ENDED Stop, asleep
        8s request 3 chat load
        → 3 ENDED loaded
        ",
    );
}

#[test]
fn a_chosen_context_equal_to_the_automatic_one_does_not_reload() {
    check(
        "
        5s used chat
        6s request 2 chat/8192
        → generate w1 2, awake
        ",
    );
}

/// The old model is unloaded before the new one is loaded. Its state is saved for the new one.
#[test]
fn a_larger_context_length_reloads_the_model_if_it_fits() {
    check(
        "
        5s used other
        6s request 2 other/9000
        → start w2, measure w2 other 9000, awake, 2 loading
        7s w2 measured
        → unload w1 saving
        8s w1 freed 100
        → release w1
        9s w1 gone
        → load w2 other 9000
        10s w2 loaded 500
        → generate w2 2
        10s show
        → other is Generating { request_id: RequestId(2), is_stopping: false }; 500 tokens restored; unloaded other (Replaced), held Some(3580800000), freed Some(3580800000), by force false, took 2s
        ",
    );
}

#[test]
fn a_running_response_finishes_before_its_model_is_reloaded() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat/small
        → 2 queued at 1
        4s request 3 chat/full load
        → 3 queued at 2
        5s w1 ended 1 well
        → 1 ENDED Stop, start w2, measure w2 chat 8192 small, 2 loading, 3 queued at 1
        6s w2 measured
        → unload w1
        6s w1 freed 100
        → release w1
        6s w1 gone
        → load w2 chat 8192 small
        7s w2 loaded
        → generate w2 2
        8s w2 ended 2 well
        → 2 ENDED Stop, start w3, measure w3 chat 8192 full, 3 loading
        9s w3 measured
        → unload w2
        9s w2 freed 100
        → release w2
        9s w2 gone
        → load w3 chat 8192 full
        10s w3 loaded
        → 3 ENDED loaded, asleep
        ",
    );
}

/// A request that cannot be served does not unload the loaded model.
#[test]
fn settings_that_do_not_fit_fail_the_request_and_the_model_stays() {
    check(
        "
        5s used chat
        6s request 2 chat/50000
        → start w2, measure w2 chat 50000, awake, 2 loading
        7s w2 measured
        → measure w2 chat 50000 small
        7s w2 measured
        → 2 ENDED too large, 0 in use, Some(28160) would fit, release w2, asleep
        8s w2 gone
        9s request 3 chat
        → generate w1 3, awake
        ",
    );
}

/// Under memory pressure the automatic cache is small already.
#[test]
fn a_chosen_kv_cache_is_kept_and_an_automatic_one_adapts() {
    check(
        "
        0s signals warning
        0s request 1 chat
        → start w1, measure w1 chat 4096 small, awake, 1 loading
        0s w1 measured
        → load w1 chat 4096 small
        2s w1 loaded
        → generate w1 1 at most 1024
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s request 2 chat/small
        → generate w1 2 at most 1024, awake
        7s w1 ended 2 well
        → 2 ENDED Stop, asleep
        8s request 3 chat/full
        → start w2, measure w2 chat 4096 full, awake, 3 loading
        ",
    );
}

/// A load that no request needs any more is stopped for the one that is needed.
#[test]
fn a_load_without_requests_does_not_delay_new_settings() {
    check(
        "
        0s request 1 chat/20000
        → start w1, measure w1 chat 20000, awake, 1 loading
        0s w1 measured
        → load w1 chat 20000
        1s cancel 1
        → 1 ENDED Canceled, stop w1 load Canceled, asleep
        1s request 2 chat/9000
        → start w2, measure w2 chat 9000, awake, 2 loading
        1s w2 measured
        2s w1 failed stopped
        → release w1
        2s w1 gone
        → load w2 chat 9000
        ",
    );
}

/// The loaded model has everything that is requested, and a reload would take longer than it saves.
#[test]
fn a_request_for_a_smaller_context_uses_the_larger_one() {
    check(
        "
        0s request 1 chat/20000
        → start w1, measure w1 chat 20000, awake, 1 loading
        0s request 2 chat/9000
        → 2 queued at 1
        0s w1 measured
        → load w1 chat 20000
        2s w1 loaded
        → generate w1 1
        3s w1 ended 1 well
        → 1 ENDED Stop, generate w1 2
        4s w1 ended 2 well
        → 2 ENDED Stop, asleep
        5s request 3 chat/20001 load
        → start w2, measure w2 chat 20001, awake, 3 loading
        ",
    );
}
