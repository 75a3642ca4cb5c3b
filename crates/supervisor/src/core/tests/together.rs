//! Tests of requests that run beside each other. A further response of `chat` takes 0.8 GB, so two fit
//! beside the first one.

use super::timeline::check;

#[test]
fn responses_of_one_model_run_beside_each_other_and_end_in_any_order() {
    check(
        "
        0s tune parallel 3
        0s request 1 chat by=a
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat by=b
        → generate w1 2
        3s show
        → 1 of a (Prefill { done: 0, total: 0 }), 2 of b (Prefill { done: 0, total: 0 }); 4819200000 bytes in use; chat is Generating { request_id: RequestId(1), is_stopping: false }
        4s request 3 chat by=c
        → generate w1 3
        5s request 4 chat by=d
        → 4 queued at 3
        6s w1 ended 2 well
        → 2 ENDED Stop, generate w1 4
        7s w1 ended 4 well
        → 4 ENDED Stop
        8s w1 ended 1 well
        → 1 ENDED Stop
        9s w1 ended 3 well
        → 3 ENDED Stop, asleep
        9s show
        → chat is Ready
        ",
    );
}

/// Both would fit, but not together with the other model.
#[test]
fn nothing_is_unloaded_for_a_further_response() {
    check(
        "
        0s tune parallel 3
        5s used embed
        6s request 2 chat by=a
        → start w2, measure w2 chat 8192, awake, 2 loading
        6s w2 measured
        → load w2 chat 8192
        7s w2 loaded
        → generate w2 2
        8s request 3 chat by=b
        → generate w2 3
        8s request 4 chat by=c
        → 4 queued at 2
        9s w2 ended 2 well
        → 2 ENDED Stop, generate w2 4
        9s w2 ended 3 well
        → 3 ENDED Stop
        9s w2 ended 4 well
        → 4 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_response_with_a_seed_runs_alone() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b seeded
        → 3 queued at 1
        7s w1 ended 2 well
        → 2 ENDED Stop, generate w1 3
        8s request 4 chat by=c
        → 4 queued at 1
        9s w1 ended 3 well
        → 3 ENDED Stop, generate w1 4
        9s w1 ended 4 well
        → 4 ENDED Stop, asleep
        ",
    );
}

/// It waits no longer than a request for another model does.
#[test]
fn a_response_with_a_seed_is_overtaken_a_few_times_only() {
    check(
        "
        0s tune parallel 2
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b seeded
        → 3 queued at 1
        7s request 4 chat by=c
        → generate w1 4, 3 queued at 2
        8s w1 ended 4 well
        → 4 ENDED Stop, 3 queued at 1
        8s request 5 chat by=c
        → generate w1 5, 3 queued at 2
        8s w1 ended 5 well
        → 5 ENDED Stop, 3 queued at 1
        8s request 6 chat by=c
        → generate w1 6, 3 queued at 2
        8s w1 ended 6 well
        → 6 ENDED Stop, 3 queued at 1
        8s request 7 chat by=c
        → generate w1 7, 3 queued at 2
        8s w1 ended 7 well
        → 7 ENDED Stop, 3 queued at 1
        8s request 8 chat by=c
        → 8 queued at 2
        9s w1 ended 2 well
        → 2 ENDED Stop, generate w1 3, 8 queued at 1
        10s w1 ended 3 well
        → 3 ENDED Stop, generate w1 8
        10s w1 ended 8 well
        → 8 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_request_of_a_program_does_not_slow_down_the_response_to_a_person() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=api background
        → generate w1 2, awake
        6s request 3 chat by=app
        → generate w1 3
        7s request 4 chat by=other background
        → 4 queued at 2
        8s w1 ended 3 well
        → 3 ENDED Stop, generate w1 4
        9s w1 ended 2 well
        → 2 ENDED Stop
        9s w1 ended 4 well
        → 4 ENDED Stop, asleep
        ",
    );
}

#[test]
fn no_response_starts_beside_another_in_low_power_mode_and_running_ones_continue() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s signals low-power
        7s request 4 chat by=c
        → 4 queued at 2
        8s w1 ended 2 well
        → 2 ENDED Stop, 4 queued at 1
        9s w1 ended 3 well
        → 3 ENDED Stop, generate w1 4 at most 1024 without speculation
        10s w1 ended 4 well
        → 4 ENDED Stop, asleep
        ",
    );
}

#[test]
fn all_responses_end_under_critical_pressure_and_then_the_model_is_unloaded() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s signals critical
        → trim w1 KeepConversation
        8s request 4 chat by=c
        → 4 queued at 2, blocked
        27s wait
        → stop w1 2 Shed, stop w1 3 Shed
        28s w1 ended 3 shed
        → 3 ENDED Shed, 4 queued at 1, blocked
        28s w1 ended 2 shed
        → 2 ENDED Shed, unload w1, asleep, 4 queued at 0, blocked
        ",
    );
}

#[test]
fn a_request_that_is_canceled_ends_alone() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s cancel 2
        → stop w1 2 Canceled
        7s show
        → 2 of a (Stopping), 3 of b (Prefill { done: 0, total: 0 }); 4819200000 bytes in use; chat is Generating { request_id: RequestId(2), is_stopping: false }
        8s w1 ended 2 canceled
        → 2 ENDED Canceled
        9s w1 ended 3 well
        → 3 ENDED Stop, asleep
        ",
    );
}

/// It ends after a step of the other one, which may take long. If it does not, its process is killed,
/// and the other gets the reason.
#[test]
fn a_response_that_does_not_end_ends_the_others_with_its_process() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s cancel 2
        → stop w1 2 Canceled
        67s wait
        → 2 ENDED worker gone while stopping, 3 ENDED worker gone while stopping, kill w1, asleep
        ",
    );
}

#[test]
fn a_canceled_response_has_no_more_time_when_nothing_goes_on_beside_it() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s cancel 2
        → stop w1 2 Canceled
        8s unload chat
        → delete states of chat, stop w1 3 Canceled
        18s wait
        → 2 ENDED worker gone while stopping, 3 ENDED worker gone while stopping, kill w1, asleep
        ",
    );
}

#[test]
fn a_crash_ends_all_responses_of_the_model_once() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s w1 died
        → 2 ENDED worker gone while generating, 3 ENDED worker gone while generating, asleep
        ",
    );
}

#[test]
fn a_model_that_breaks_is_unloaded_after_all_its_responses() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s w1 broken
        7s request 4 chat by=c
        → 4 queued at 2
        7s w1 ended 3 backend
        → 3 ENDED engine error: decoding: the device is lost; the model is unloaded; ask again to reload it, 4 queued at 1
        7s w1 ended 2 backend
        → 2 ENDED engine error: decoding: the device is lost; the model is unloaded; ask again to reload it, unload w1, start w2, measure w2 chat 8192, 4 loading
        ",
    );
}

#[test]
fn an_unload_waits_for_all_responses_and_none_starts_meanwhile() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        7s unload chat
        → delete states of chat, stop w1 2 Canceled, stop w1 3 Canceled
        7s request 4 chat by=c
        → 4 queued at 2
        8s w1 ended 2 canceled
        → 2 ENDED Canceled, 4 queued at 1
        9s w1 ended 3 canceled
        → 3 ENDED Canceled, unload w1, start w2, measure w2 chat 8192, 4 loading
        ",
    );
}

#[test]
fn tokens_are_counted_beside_a_response_even_in_low_power_mode() {
    check(
        "
        0s tune parallel 2
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s signals low-power
        6s request 3 chat count by=b
        → count w1 3
        6s w1 ended 3 well
        → 3 ENDED Stop
        7s w1 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

/// A model that is not loaded is not kept waiting by those that use the loaded one.
#[test]
fn a_request_for_another_model_is_overtaken_a_few_times_only() {
    check(
        "
        0s tune parallel 2
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 other by=b
        → 3 queued at 1
        36s request 4 chat by=c
        → 4 queued at 2
        37s w1 ended 2 well
        → 2 ENDED Stop, start w2, measure w2 other 8192, 3 loading, 4 queued at 1
        ",
    );
}

/// The conversations of responses beside each other are in memory until they are saved.
#[test]
fn what_the_model_keeps_is_saved_after_the_last_response() {
    check(
        "
        0s tune parallel 2
        5s used other
        6s request 2 other in=1 by=a
        → generate w1 2, awake
        6s request 3 other in=2 by=b
        → generate w1 3
        7s w1 ended 2 well
        → 2 ENDED Stop
        8s w1 ended 3 well
        → 3 ENDED Stop, save w1, asleep
        ",
    );
}

/// The worker forgets, or trims, only between jobs. A job that was sent meanwhile could not be stopped.
#[test]
fn nothing_starts_beside_a_response_before_a_chat_is_forgotten() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        7s forget 9
        → delete states of conversation 9, forget w1
        8s request 3 chat by=b
        → 3 queued at 1
        8s request 4 chat count by=c
        → 4 queued at 2
        9s w1 ended 2 well
        → 2 ENDED Stop, generate w1 3, count w1 4
        9s w1 trimmed
        9s w1 ended 4 well
        → 4 ENDED Stop
        10s w1 ended 3 well
        → 3 ENDED Stop, asleep
        ",
    );
}

#[test]
fn nothing_starts_beside_a_response_before_the_caches_are_trimmed() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        7s signals warning
        → trim w1 KeepConversation
        7s signals normal
        60s request 3 chat by=b
        → 3 queued at 1
        60s request 4 chat count by=c
        → 4 queued at 2
        61s w1 ended 2 well
        → 2 ENDED Stop, generate w1 3, count w1 4
        ",
    );
}

#[test]
fn programs_leave_one_place_to_a_person() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=api background
        → generate w1 2, awake
        6s request 3 chat by=api background
        → generate w1 3
        6s request 4 chat by=other background
        → 4 queued at 2
        6s request 5 chat count by=third background
        → count w1 5, 4 queued at 3
        6s w1 ended 5 well
        → 5 ENDED Stop, 4 queued at 2
        7s request 6 chat by=app
        → generate w1 6, 4 queued at 3
        ",
    );
}

/// Beside `embed` there is memory for one further response.
#[test]
fn programs_leave_the_memory_of_one_response_to_a_person() {
    check(
        "
        0s tune parallel 3
        5s used embed
        6s request 2 chat by=api background
        → start w2, measure w2 chat 8192, awake, 2 loading
        6s w2 measured
        → load w2 chat 8192
        7s w2 loaded
        → generate w2 2
        8s request 3 chat by=other background
        → 3 queued at 1
        8s request 4 chat by=app
        → generate w2 4, 3 queued at 2
        ",
    );
}

/// It replaces the KV cache of the last conversation, which counting tokens does not use.
#[test]
fn a_conversation_is_saved_before_a_switch_beside_counted_tokens() {
    check(
        "
        0s tune parallel 2
        0s signals warning
        0s request 1 other in=1
        → start w1, measure w1 other 4096 small, awake, 1 loading
        0s w1 measured
        → load w1 other 4096 small
        2s w1 loaded
        → generate w1 1 at most 1024
        3s signals normal
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        30s request 2 other count by=b
        → count w1 2, awake
        30s request 3 other in=2
        → save w1, generate w1 3
        31s w1 ended 2 well
        → 2 ENDED Stop
        32s w1 ended 3 well
        → 3 ENDED Stop, asleep
        ",
    );
}
