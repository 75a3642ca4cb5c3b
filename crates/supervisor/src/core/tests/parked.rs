//! Tests of the room for other conversations: it is given up before anything else.

use super::timeline::check;

/// `talker` needs 4.5 GB, and 0.86 GB for other conversations.
#[test]
fn other_conversations_are_given_up_before_the_kv_cache_type_and_the_context() {
    check(
        "
        0s request 1 talker/took+2
        → start w1, measure w1 talker 8192 parking, awake, 1 loading
        1s w1 measured
        → measure w1 talker 8192
        2s w1 measured
        → measure w1 talker 8192 small
        3s w1 measured
        → measure w1 talker 3072 small
        4s w1 measured
        → load w1 talker 3072 small
        ",
    );
}

#[test]
fn other_conversations_displace_no_loaded_model() {
    check(
        "
        5s used embed
        6s request 2 talker
        → start w2, measure w2 talker 8192 parking, awake, 2 loading
        6s w2 measured
        → measure w2 talker 8192
        6s w2 measured
        → load w2 talker 8192
        ",
    );
}

#[test]
fn a_model_that_needs_an_eviction_anyway_keeps_other_conversations() {
    check(
        "
        5s used other
        6s request 2 talker
        → start w2, measure w2 talker 8192 parking, awake, 2 loading
        6s w2 measured
        → unload w1 saving
        6s w1 freed 100
        → release w1
        6s w1 gone
        → load w2 talker 8192 parking
        ",
    );
}

#[test]
fn under_memory_pressure_models_load_with_a_small_kv_cache_and_for_one_conversation() {
    check(
        "
        0s signals warning
        0s request 1 talker
        → start w1, measure w1 talker 4096 small, awake, 1 loading
        1s w1 measured
        → load w1 talker 4096 small
        ",
    );
}

/// `tiny` makes enough room for one conversation. Only `embed`, which was used later, would make enough
/// for several.
#[test]
fn other_conversations_do_not_change_which_model_is_unloaded() {
    check(
        "
        0s request 1 tiny/6000
        → start w1, measure w1 tiny 6000, awake, 1 loading
        0s w1 measured
        → load w1 tiny 6000
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        6s w2 measured
        → load w2 embed 8192
        8s w2 loaded
        → generate w2 2
        9s w2 ended 2 well
        → 2 ENDED Stop, asleep
        10s request 3 talker
        → start w3, measure w3 talker 8192 parking, awake, 3 loading
        10s w3 measured
        → unload w1, measure w3 talker 8192
        10s w1 freed 100
        → release w1
        10s w1 gone
        10s w3 measured
        → load w3 talker 8192
        ",
    );
}
