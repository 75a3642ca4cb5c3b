//! Tests of the room for a draft model: it is given up before anything else. `drafted` needs 4 GB,
//! and 1.5 GB for its draft model.

use super::timeline::check;

#[test]
fn a_draft_model_is_loaded_where_both_fit() {
    check(
        "
        0s request 1 drafted
        → start w1, measure w1 drafted 8192 with draft, awake, 1 loading
        1s w1 measured
        → load w1 drafted 8192 with draft
        ",
    );
}

#[test]
fn a_draft_model_is_given_up_before_the_context_is_shortened() {
    check(
        "
        0s request 1 drafted/took+1
        → start w1, measure w1 drafted 8192 with draft, awake, 1 loading
        1s w1 measured
        → measure w1 drafted 8192
        2s w1 measured
        → load w1 drafted 8192
        ",
    );
}

#[test]
fn a_draft_model_displaces_no_loaded_model() {
    check(
        "
        0s request 1 embed
        → start w1, measure w1 embed 8192, awake, 1 loading
        0s w1 measured
        → load w1 embed 8192
        2s w1 loaded
        → generate w1 1
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s request 2 drafted
        → start w2, measure w2 drafted 8192 with draft, awake, 2 loading
        6s w2 measured
        → measure w2 drafted 8192
        6s w2 measured
        → load w2 drafted 8192
        ",
    );
}

#[test]
fn under_memory_pressure_models_load_without_a_draft_model() {
    check(
        "
        0s signals warning
        0s request 1 drafted
        → start w1, measure w1 drafted 4096 small, awake, 1 loading
        1s w1 measured
        → load w1 drafted 4096 small
        ",
    );
}
