//! One model with several settings: what is left open takes it as it is, what differs replaces it.

use super::timeline::check;

#[test]
fn an_open_setting_takes_the_model_as_it_is_loaded() {
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
fn a_number_that_the_automatic_context_has_already_changes_nothing() {
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
        6s request 2 chat/8192
        → generate w1 2, awake
        ",
    );
}

/// The old one goes before the new one is loaded, its conversation is kept for the new one.
#[test]
fn another_context_length_replaces_the_model_once_it_is_known_to_fit() {
    check(
        "
        0s request 1 other
        → start w1, measure w1 other 8192, awake, 1 loading
        0s w1 measured
        → load w1 other 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
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
fn a_running_answer_is_finished_before_its_model_is_replaced() {
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

/// A wish that cannot be granted costs nobody the model that is there.
#[test]
fn settings_that_do_not_fit_are_refused_and_the_model_stays() {
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
fn a_chosen_cache_stands_and_an_automatic_one_yields() {
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

/// What was asked for with a choice that is no longer wanted gives way to the one that is.
#[test]
fn settings_changed_while_a_model_loads_wait_for_nobody() {
    check(
        "
        0s request 1 chat/20000
        → start w1, measure w1 chat 20000, awake, 1 loading
        0s w1 measured
        → load w1 chat 20000
        1s cancel 1
        → 1 ENDED Cancelled, stop w1 load Cancelled, asleep
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

/// It has all that is asked for, and a load takes longer than it is worth.
#[test]
fn a_smaller_context_takes_the_larger_one_that_is_loaded() {
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
