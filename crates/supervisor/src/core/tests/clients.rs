//! Tests of several clients: who goes first, who is refused, when the model is switched, and what a
//! request says about the context and the idle time of its model.

use super::timeline::check;

#[test]
fn interactive_requests_go_before_background_ones() {
    check(
        "
        0s request 1 chat by=api:a background
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat by=api:a background
        → 2 queued at 1
        3s request 3 chat
        → 3 queued at 1, 2 queued at 2
        4s w1 ended 1 well
        → 1 ENDED Stop, generate w1 3, 2 queued at 1
        5s w1 ended 3 well
        → 3 ENDED Stop, generate w1 2
        ",
    );
}

#[test]
fn clients_take_turns_and_each_is_served_in_order() {
    check(
        "
        0s tune queue 16
        0s request 1 chat by=a
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat by=a
        → 2 queued at 1
        3s request 3 chat by=a
        → 3 queued at 2
        3s request 4 chat by=b
        → 4 queued at 2, 3 queued at 3
        3s request 5 chat by=b
        → 5 queued at 4
        4s w1 ended 1 well
        → 1 ENDED Stop, generate w1 2, 4 queued at 1, 3 queued at 2, 5 queued at 3
        5s w1 ended 2 well
        → 2 ENDED Stop, generate w1 4, 3 queued at 1, 5 queued at 2
        6s w1 ended 4 well
        → 4 ENDED Stop, generate w1 3, 5 queued at 1
        ",
    );
}

#[test]
fn a_client_with_too_many_requests_is_refused_and_others_are_not() {
    check(
        "
        0s tune client-queue 1
        0s request 1 chat by=a
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s request 2 chat by=a
        → 2 queued at 1
        0s request 3 chat by=a
        → 3 ENDED busy, 1 of a waiting
        0s request 4 chat by=b
        → 4 queued at 1, 2 queued at 2
        ",
    );
}

#[test]
fn background_requests_that_fill_the_queue_do_not_keep_a_person_out() {
    check(
        "
        0s request 1 chat by=api:a background
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s request 2 chat by=api:a background
        → 2 queued at 1
        0s request 3 chat by=api:b background
        → 3 queued at 1, 2 queued at 2
        0s request 4 chat by=api:c background
        → 4 ENDED busy, 2 waiting
        0s request 5 chat
        → 5 loading, 1 queued at 1, 3 queued at 2, 2 queued at 3
        ",
    );
}

/// `chat` and `other` do not fit together.
#[test]
fn a_loaded_model_serves_four_requests_before_an_earlier_one_that_needs_another_model() {
    check(
        "
        0s tune queue 16
        0s request 1 chat by=a
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 other by=b
        → 2 queued at 1
        3s request 3 chat by=a
        → 3 queued at 2
        3s request 4 chat by=a
        → 4 queued at 3
        3s request 5 chat by=a
        → 5 queued at 4
        3s request 6 chat by=a
        → 6 queued at 5
        3s request 7 chat by=a
        → 7 queued at 6
        4s w1 ended 1 well
        → 1 ENDED Stop, generate w1 3, 4 queued at 2, 5 queued at 3, 6 queued at 4, 7 queued at 5
        5s w1 ended 3 well
        → 3 ENDED Stop, generate w1 4, 5 queued at 2, 6 queued at 3, 7 queued at 4
        6s w1 ended 4 well
        → 4 ENDED Stop, generate w1 5, 6 queued at 2, 7 queued at 3
        7s w1 ended 5 well
        → 5 ENDED Stop, generate w1 6, 7 queued at 2
        8s w1 ended 6 well
        → 6 ENDED Stop, start w2, measure w2 other 8192, 2 loading, 7 queued at 1
        8s w2 measured
        → unload w1
        ",
    );
}

#[test]
fn a_request_that_has_waited_for_long_is_not_overtaken() {
    check(
        "
        0s request 1 chat by=a
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 other by=b
        → 2 queued at 1
        4s request 3 chat by=a
        → 3 queued at 2
        33s w1 ended 1 well
        → 1 ENDED Stop, start w2, measure w2 other 8192, 2 loading, 3 queued at 1
        ",
    );
}

#[test]
fn a_loaded_model_waits_a_moment_for_the_next_request_of_its_client() {
    check(
        "
        0s request 1 chat by=a
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 other by=b
        → 2 queued at 1
        4s w1 ended 1 well
        → 1 ENDED Stop, 2 queued at 0
        4.5s request 3 chat by=a
        → generate w1 3, 2 queued at 1
        5s w1 ended 3 well
        → 3 ENDED Stop, 2 queued at 0
        6s wait
        → start w2, measure w2 other 8192, 2 loading
        ",
    );
}

/// Programs load the model before they send a prompt.
#[test]
fn a_background_request_does_not_switch_a_model_that_a_person_has_just_loaded() {
    check(
        "
        0s request 1 chat load
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s request 2 other by=api:a background
        → 2 queued at 1
        2s w1 loaded
        → 1 ENDED loaded, 2 queued at 0
        2s request 3 chat
        → generate w1 3, 2 queued at 1
        ",
    );
}

#[test]
fn a_request_that_does_not_start_in_time_fails() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat within=5
        → 2 queued at 1
        8s wait
        → 2 ENDED busy, 1 waiting
        ",
    );
}

#[test]
fn a_load_that_takes_longer_than_its_request_waits_is_ended() {
    check(
        "
        0s request 1 chat within=5
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 measured
        → load w1 chat 8192
        5s wait
        → 1 ENDED busy, 1 waiting, stop w1 load Canceled, asleep
        ",
    );
}

#[test]
fn a_request_can_unload_its_model_after_the_response() {
    check(
        "
        0s request 1 chat keep=0
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, unload w1, asleep
        ",
    );
}

/// The user's idle time is 180 s.
#[test]
fn a_request_can_keep_its_model_loaded_until_the_next_one() {
    check(
        "
        0s request 1 chat keep=600
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        604s tick
        604s request 2 chat
        → generate w1 2, awake
        605s w1 ended 2 well
        → 2 ENDED Stop, asleep
        785s wait
        → unload w1
        ",
    );
}

#[test]
fn memory_pressure_shortens_the_time_that_a_request_asked_for() {
    check(
        "
        0s request 1 chat keep=600
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        10s signals warning
        → trim w1 KeepConversation
        35s wait
        → unload w1
        ",
    );
}

#[test]
fn a_model_that_is_kept_forever_is_unloaded_under_critical_pressure() {
    check(
        "
        0s request 1 chat keep=forever
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        90000s tick
        90000s signals critical
        → unload w1
        ",
    );
}

#[test]
fn a_minimum_context_reloads_only_a_model_with_less() {
    check(
        "
        0s request 1 chat/6000+
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s w1 ended 1 well
        → 1 ENDED Stop, asleep
        4s request 2 chat/8192+
        → generate w1 2, awake
        5s w1 ended 2 well
        → 2 ENDED Stop, asleep
        6s request 3 chat/20000+
        → start w2, measure w2 chat 20000, awake, 3 loading
        6s w2 measured
        → unload w1
        7s w1 freed 100
        → release w1
        7s w1 gone
        → load w2 chat 20000
        8s w2 loaded
        → generate w2 3
        9s w2 ended 3 well
        → 3 ENDED Stop, asleep
        10s request 4 chat/6000+
        → generate w2 4, awake
        ",
    );
}

/// `wide` fits with 7168 tokens.
#[test]
fn the_context_is_lowered_to_the_minimum_at_most() {
    check(
        "
        0s request 1 wide/6000+
        → start w1, measure w1 wide 8192, awake, 1 loading
        1s w1 measured
        → measure w1 wide 8192 small
        1s w1 measured
        → measure w1 wide 7168 small
        2s w1 measured
        → load w1 wide 7168 small
        ",
    );
    check(
        "
        0s request 1 wide/8000+
        → start w1, measure w1 wide 8192, awake, 1 loading
        1s w1 measured
        → measure w1 wide 8192 small
        1s w1 measured
        → 1 ENDED too large, 0 in use, Some(7168) would fit, release w1, asleep
        ",
    );
}
