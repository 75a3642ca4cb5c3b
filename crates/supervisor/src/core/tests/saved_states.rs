//! Tests of saved states: which KV caches are saved by an unload, and how long that may take.
//!
//! A slow disk writes the KV cache of `other` in 2 s; an unload may take 3 s in addition.

use super::timeline::check;

/// Checks what follows a response of `other`, which ends at 5 s, to a request with these options.
#[track_caller]
fn check_after(options: &str, lines: &str) {
    check(&format!(
        "
        0s request 1 other {options}
        → start w1, measure w1 other 8192, awake, 1 loading
        0s w1 measured
        → load w1 other 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        {lines}"
    ));
}

#[track_caller]
fn check_after_response(lines: &str) {
    check_after("", lines);
}

#[test]
fn an_idle_unload_saves_the_state_and_extends_the_deadline() {
    check_after_response(
        "
        185s wait
        → unload w1 saving
        189s w1 freed 100
        → release w1
        189s w1 gone
        ",
    );
}

#[test]
fn a_private_conversation_is_not_saved() {
    check_after(
        "private",
        "
        185s wait
        → unload w1
        ",
    );
}

#[test]
fn a_process_that_saves_slower_than_a_slow_disk_is_killed() {
    check_after_response(
        "
        185s wait
        → unload w1 saving
        190s wait
        → kill w1
        190s w1 died
        190s show
        → unloaded other (Idle), held Some(3580800000), freed None, by force true, took 5s
        ",
    );
}

#[test]
fn an_eviction_saves_the_state() {
    check_after_response(
        "
        6s request 2 chat
        → start w2, measure w2 chat 8192, awake, 2 loading
        6s w2 measured
        → unload w1 saving
        9s w1 freed 100
        → release w1
        9s w1 gone
        → load w2 chat 8192
        ",
    );
}

#[test]
fn an_unload_by_the_user_deletes_the_saved_state() {
    check_after_response(
        "
        6s unload other
        → delete states of other, unload w1
        9s wait
        → kill w1
        ",
    );
}

/// Also if the model itself is not loaded any more.
#[test]
fn an_unload_by_the_user_deletes_an_earlier_saved_state() {
    check(
        "
        0s unload other
        → delete states of other
        ",
    );
}

#[test]
fn an_unload_by_the_user_takes_back_the_time_for_saving() {
    check_after_response(
        "
        185s wait
        → unload w1 saving
        186s unload other
        → delete states of other
        189s wait
        → kill w1
        ",
    );
}

#[test]
fn critical_pressure_saves_no_state() {
    check_after_response(
        "
        6s signals critical
        → unload w1
        ",
    );
}

#[test]
fn critical_pressure_takes_back_the_time_for_saving() {
    check_after_response(
        "
        185s wait
        → unload w1 saving
        186s signals critical
        187s signals critical
        189s wait
        → kill w1
        ",
    );
}

#[test]
fn quitting_saves_the_states_in_the_time_of_an_unload() {
    check_after_response(
        "
        6s quit
        → unload w1 saving
        7s w1 freed 100
        → release w1
        7s w1 gone
        7s show
        → unloaded other (Quit), held Some(3580800000), freed Some(3580800000), by force false, took 1s; done
        ",
    );
}

/// As [`check_after`], after a second request with the options `second`. Each takes 3 s.
#[track_caller]
fn check_switch(second: &str, lines: &str) {
    let request = format!(
        "6s request 2 other {second}
        → generate w1 2, awake
        {lines}"
    );
    check_after("in=1", &request);
}

#[test]
fn a_switch_to_another_conversation_saves_the_states_once() {
    check_switch(
        "in=2",
        "9s w1 ended 2 well
        → 2 ENDED Stop, save w1, asleep
        10s request 3 other in=2
        → generate w1 3, awake
        13s w1 ended 3 well
        → 3 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_turn_of_the_same_conversation_saves_nothing() {
    check_switch(
        "in=1",
        "9s w1 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_switch_saves_nothing_while_a_request_waits() {
    check_switch(
        "in=2",
        "7s request 3 other in=2
        → 3 queued at 1
        9s w1 ended 2 well
        → 2 ENDED Stop, generate w1 3
        12s w1 ended 3 well
        → 3 ENDED Stop, save w1, asleep
        ",
    );
}

#[test]
fn a_switch_to_a_private_conversation_saves_nothing() {
    check_switch(
        "in=2 private",
        "9s w1 ended 2 well
        → 2 ENDED Stop, asleep
        10s request 3 other in=1
        → generate w1 3, awake
        13s w1 ended 3 well
        → 3 ENDED Stop, asleep
        ",
    );
}

#[test]
fn a_switch_under_memory_pressure_saves_nothing() {
    check_switch(
        "in=2",
        "7s signals warning
        → trim w1 KeepConversation
        9s w1 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

/// A model that was loaded while memory was short has no room for other conversations.
#[test]
fn a_conversation_that_does_not_stay_in_memory_is_saved_before_the_switch() {
    check(
        "
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
        30s request 2 other in=2 private
        → save w1, generate w1 2, awake
        32s w1 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

#[test]
fn forgetting_one_conversation_deletes_its_states_only() {
    check(
        "
        0s forget 7
        → delete states of conversation 7
        ",
    );
}

#[test]
fn the_status_shows_saved_tokens() {
    check(
        "
        0s request 1 other
        → start w1, measure w1 other 8192, awake, 1 loading
        0s w1 measured
        → load w1 other 8192
        2s w1 loaded 700
        → generate w1 1
        2s show
        → other is Generating { request_id: RequestId(1), is_stopping: false }; 700 tokens restored
        ",
    );
}

#[test]
fn forgetting_conversations_clears_the_caches_of_loaded_models() {
    check(
        "
        0s request 1 other
        → start w1, measure w1 other 8192, awake, 1 loading
        0s forget
        → delete states of all
        0s w1 measured
        → load w1 other 8192
        1s forget
        → delete states of all, forget w1
        2s w1 loaded
        → generate w1 1
        2s w1 trimmed
        3s forget
        → delete states of all, forget w1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s forget
        → delete states of all, forget w1
        6s w1 trimmed
        7s unload other
        → delete states of other, unload w1
        8s forget
        → delete states of all
        ",
    );
}
