//! Conversations: whose is kept when its model goes, and how long that may take.
//!
//! `other` has a conversation that a slow disk takes in 2 s; an unload may take 3 s beside it.

use super::timeline::check;

#[test]
fn the_conversation_of_an_unused_model_is_kept_and_has_time_for_it() {
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
        185s wait
        → unload w1 saving
        189s w1 freed 100
        → release w1
        189s w1 gone
        ",
    );
}

#[test]
fn a_process_that_takes_longer_than_a_slow_disk_is_killed() {
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
fn the_conversation_of_a_model_that_makes_room_is_kept() {
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
fn whoever_unloads_a_model_has_its_conversation_forgotten() {
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
        6s unload other
        → delete states of other, unload w1
        9s wait
        → kill w1
        ",
    );
}

/// Also where the model itself is gone already.
#[test]
fn a_conversation_that_was_kept_before_goes_when_its_model_is_unloaded_by_hand() {
    check(
        "
        0s unload other
        → delete states of other
        ",
    );
}

#[test]
fn whoever_unloads_a_model_does_not_wait_for_its_conversation_to_be_kept() {
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
fn critical_pressure_keeps_no_conversation() {
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
        6s signals critical
        → unload w1
        ",
    );
}

#[test]
fn critical_pressure_takes_back_the_time_for_keeping_a_conversation() {
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
fn quitting_forgets_every_conversation() {
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
        6s quit
        → delete states of all, unload w1
        7s w1 freed 100
        → release w1
        7s w1 gone
        7s show
        → unloaded other (Quit), held Some(3580800000), freed Some(3580800000), by force false, took 1s; done
        ",
    );
}

#[test]
fn a_conversation_that_was_taken_up_is_part_of_the_status() {
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
fn who_forgets_conversations_has_loaded_models_drop_their_caches() {
    check(
        "
        0s request 1 other
        → start w1, measure w1 other 8192, awake, 1 loading
        0s forget
        → delete states of all
        0s w1 measured
        → load w1 other 8192
        1s forget
        → delete states of all
        2s w1 loaded
        → trim w1 Everything, generate w1 1
        3s forget
        → delete states of all, trim w1 Everything
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s forget
        → delete states of all, trim w1 Everything
        6s w1 trimmed
        7s unload other
        → delete states of other, unload w1
        8s forget
        → delete states of all
        ",
    );
}
