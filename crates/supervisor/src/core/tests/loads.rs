//! Loading: variants, the budget, and failures of the files.

use super::timeline::check;

#[test]
fn an_unsupported_variant_gives_way_to_the_next() {
    check(
        "
        0s ask 1 two
        1s w1 measured unsupported
        2s w1 measured
        3s w1 loaded
        ",
    );
}

#[test]
fn a_variant_found_unsupported_only_while_loading_gives_way_too() {
    check(
        "
        0s ask 1 two
        1s w1 measured
        2s w1 failed unsupported
        3s w1 measured
        4s w1 loaded
        ",
    );
}

#[test]
fn when_no_variant_is_supported_all_who_wait_for_the_model_are_told() {
    check(
        "
        0s ask 1 two
        0s ask 2 two
        0s ask 3 embed
        1s w1 measured unsupported
        2s w1 measured unsupported
        3s w1 gone
        3s show
        ",
    );
}

#[test]
fn running_out_of_memory_is_never_a_reason_to_try_the_next_variant() {
    check(
        "
        0s ask 1 two
        1s w1 measured
        2s w1 failed memory
        3s w1 gone
        3s ask 2 two
        ",
    );
}

#[test]
fn a_broken_file_ends_the_load_before_it_begins() {
    check(
        "
        0s ask 1 two
        1s w1 measured broken
        9s w1 gone
        9s tick
        ",
    );
}

/// D027, D028.
#[test]
fn a_model_that_is_too_large_is_refused_with_numbers() {
    check(
        "
        0s ask 1 big
        1s w1 measured
        2s w1 gone
        2s show
        ",
    );
}

#[test]
fn a_context_length_that_was_chosen_is_granted_or_refused() {
    check(
        "
        0s ask 1 deep
        1s w1 measured
        ",
    );
}

/// D011.
#[test]
fn the_default_context_is_lowered_to_fit_the_budget() {
    check(
        "
        0s ask 1 wide
        1s w1 measured
        2s w1 measured
        3s w1 loaded
        3s show
        ",
    );
}

/// D011: after a warning; whatever can make room does.
#[test]
fn a_person_who_insists_gets_the_model_over_budget() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 big insisting
        6s w2 measured
        7s w1 freed 100
        7s w1 gone
        9s w2 loaded
        10s w2 ended 2 well
        11s tune budget 5
        ",
    );
}

#[test]
fn of_those_who_wait_for_too_large_a_model_one_who_insists_is_enough() {
    check(
        "
        0s ask 1 big
        0s ask 2 big insisting
        1s w1 measured
        ",
    );
}

#[test]
fn a_budget_lowered_by_hand_is_obeyed_by_idle_models_at_once() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s ask 2 embed
        6s w2 measured
        7s w2 loaded
        8s tune budget 3
        8s w2 ended 2 well
        ",
    );
}

#[test]
fn nothing_loads_while_a_model_leaves() {
    check(
        "
        0s ask 1 chat
        0s w1 measured
        2s w1 loaded
        5s w1 ended 1 well
        6s unload chat
        6s ask 2 embed
        7s w2 measured
        8s w1 freed 100
        8s w1 gone
        ",
    );
}
