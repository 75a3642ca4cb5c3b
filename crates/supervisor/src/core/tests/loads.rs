//! Loading: variants, the budget, and failures of the files.

use super::timeline::check;

#[test]
fn an_unsupported_variant_gives_way_to_the_next() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        1s w1 measured unsupported
        → measure w1 two 8192
        2s w1 measured
        → load w1 two 8192
        3s w1 loaded
        → generate w1 1
        ",
    );
}

#[test]
fn a_variant_found_unsupported_only_while_loading_gives_way_too() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        1s w1 measured
        → load w1 two.gguf 8192
        2s w1 failed unsupported
        → measure w1 two 8192
        3s w1 measured
        → load w1 two 8192
        4s w1 loaded
        → generate w1 1
        ",
    );
}

#[test]
fn when_no_variant_is_supported_all_who_wait_for_the_model_are_told() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        0s request 2 two
        → 2 queued at 1
        0s request 3 embed
        → 3 queued at 2
        1s w1 measured unsupported
        → measure w1 two 8192
        2s w1 measured unsupported
        → 1 ENDED none of 2 variants runs, 2 ENDED none of 2 forms runs, release w1, start w2, measure w2 embed 8192, 3 loading
        3s w1 gone
        3s show
        → embed is Measuring; error: two: no form of two runs here: two.gguf: a new architecture; two: a new architecture
        ",
    );
}

#[test]
fn a_variant_that_is_not_there_gives_way_and_status_says_so() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        1s w1 measured missing
        → measure w1 two 8192
        2s w1 measured
        → load w1 two 8192
        3s w1 loaded
        → generate w1 1
        3s show
        → two is Generating { request_id: RequestId(1), is_stopping: false }; not two.gguf: model not found
        ",
    );
}

#[test]
fn a_variant_that_lacks_a_part_is_no_reason_to_try_the_next() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        1s w1 measured incomplete
        → 1 ENDED not found, release w1, asleep
        ",
    );
}

#[test]
fn the_only_variant_keeps_the_words_of_its_refusal() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 measured missing
        → 1 ENDED not found, release w1, asleep
        2s w1 gone
        2s request 2 chat
        → start w2, measure w2 chat 8192, awake, 2 loading
        3s w2 measured unsupported
        → 2 ENDED unsupported, release w2, asleep
        ",
    );
}

#[test]
fn neither_its_name_nor_the_order_of_its_variants_makes_another_model() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        0s request 2 owt
        → 2 queued at 1
        1s w1 measured
        → load w1 two.gguf 8192
        2s w1 loaded
        → generate w1 1
        3s w1 ended 1 well
        → 1 ENDED Stop, generate w1 2
        4s w1 ended 2 well
        → 2 ENDED Stop, asleep
        5s unload two
        → delete states of two, unload w1
        5s w1 freed 100
        → release w1
        5s w1 gone
        6s request 3 owt
        → start w2, measure w2 two.gguf 8192, awake, 3 loading
        ",
    );
}

#[test]
fn running_out_of_memory_is_never_a_reason_to_try_the_next_variant() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        1s w1 measured
        → load w1 two.gguf 8192
        2s w1 failed memory
        → 1 ENDED out of memory, release w1, asleep
        3s w1 gone
        3s request 2 two
        → start w2, measure w2 two.gguf 8192, awake, 2 loading
        ",
    );
}

#[test]
fn a_broken_file_ends_the_load_before_it_begins() {
    check(
        "
        0s request 1 two
        → start w1, measure w1 two.gguf 8192, awake, 1 loading
        1s w1 measured broken
        → 1 ENDED bad file, release w1, asleep
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
        0s request 1 big
        → start w1, measure w1 big 8192, awake, 1 loading
        1s w1 measured
        → measure w1 big 8192 small
        1s w1 measured
        → 1 ENDED too large, 0 in use, None would fit, release w1, asleep
        2s w1 gone
        2s show
        → error: big: big needs 18.6 GB of memory (17.9 GB weights, 0.8 GB context of 8192 tokens, 0.0 GB working space), but models may use 5.6 GB here; choose a smaller model, or one quantised to fewer bits
        ",
    );
}

#[test]
fn a_context_length_that_was_chosen_is_granted_or_refused() {
    check(
        "
        0s request 1 deep
        → start w1, measure w1 deep 50000, awake, 1 loading
        1s w1 measured
        → measure w1 deep 50000 small
        1s w1 measured
        → 1 ENDED too large, 0 in use, Some(28160) would fit, release w1, asleep
        ",
    );
}

/// D011.
#[test]
fn the_default_context_is_lowered_to_fit_the_budget() {
    check(
        "
        0s request 1 wide
        → start w1, measure w1 wide 8192, awake, 1 loading
        1s w1 measured
        → measure w1 wide 8192 small
        1s w1 measured
        → measure w1 wide 7168 small
        2s w1 measured
        → load w1 wide 7168 small
        3s w1 loaded
        → generate w1 1
        3s show
        → wide is Generating { request_id: RequestId(1), is_stopping: false }
        ",
    );
}

/// The context stays whole where a smaller KV cache is enough.
#[test]
fn a_small_kv_cache_is_tried_before_the_context_is_lowered() {
    check(
        "
        0s request 1 lean
        → start w1, measure w1 lean 8192, awake, 1 loading
        1s w1 measured
        → measure w1 lean 8192 small
        2s w1 measured
        → load w1 lean 8192 small
        3s w1 loaded
        → generate w1 1
        ",
    );
}

#[test]
fn a_model_that_fits_once_another_is_gone_keeps_its_fast_kv_cache() {
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
        6s w1 freed 100
        → release w1
        6s w1 gone
        → load w2 chat 8192
        ",
    );
}

#[test]
fn under_memory_pressure_models_load_with_a_small_kv_cache() {
    check(
        "
        0s signals warning
        0s request 1 chat
        → start w1, measure w1 chat 4096 small, awake, 1 loading
        1s w1 measured
        → load w1 chat 4096 small
        ",
    );
}

/// What was tried for one form says nothing of the next.
#[test]
fn the_next_form_is_measured_with_a_fast_kv_cache_again() {
    check(
        "
        0s request 1 plump
        → start w1, measure w1 plump.gguf 8192, awake, 1 loading
        1s w1 measured
        → measure w1 plump.gguf 8192 small
        2s w1 measured
        → load w1 plump.gguf 8192 small
        3s w1 failed unsupported
        → measure w1 plump 8192
        ",
    );
}

/// D011: after a warning; whatever can make room does.
#[test]
fn a_person_who_insists_gets_the_model_over_budget() {
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
        6s request 2 big insisting
        → start w2, measure w2 big 8192, awake, 2 loading
        6s w2 measured
        → measure w2 big 8192 small
        6s w2 measured
        → unload w1
        7s w1 freed 100
        → release w1
        7s w1 gone
        → load w2 big 8192 small
        9s w2 loaded
        → generate w2 2
        10s w2 ended 2 well
        → 2 ENDED Stop, asleep
        11s tune budget 5
        ",
    );
}

#[test]
fn of_those_who_wait_for_too_large_a_model_one_who_insists_is_enough() {
    check(
        "
        0s request 1 big
        → start w1, measure w1 big 8192, awake, 1 loading
        0s request 2 big insisting
        → 2 queued at 1
        1s w1 measured
        → measure w1 big 8192 small
        1s w1 measured
        → load w1 big 8192 small
        ",
    );
}

#[test]
fn a_budget_lowered_by_hand_is_obeyed_by_idle_models_at_once() {
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
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        6s w2 measured
        → load w2 embed 8192
        7s w2 loaded
        → generate w2 2
        8s tune budget 3
        → unload w1
        8s w2 ended 2 well
        → 2 ENDED Stop, asleep
        ",
    );
}

#[test]
fn nothing_loads_while_a_model_leaves() {
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
        6s unload chat
        → delete states of chat, unload w1
        6s request 2 embed
        → start w2, measure w2 embed 8192, awake, 2 loading
        7s w2 measured
        8s w1 freed 100
        → release w1
        8s w1 gone
        → load w2 embed 8192
        ",
    );
}

/// Computed are 4 GB of 6, but earlier uses took 3 GB more.
#[test]
fn what_earlier_uses_took_decides_whether_it_fits() {
    check(
        "
        0s request 1 chat/took+3
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s w1 measured
        → measure w1 chat 8192 small
        2s w1 measured
        → 1 ENDED too large, 0 in use, None would fit, release w1, asleep
        ",
    );
}

/// Computed are 6.1 GB of 6, but earlier uses took 1 GB less, so the context is not shortened.
#[test]
fn a_model_that_took_less_is_let_in_as_it_is() {
    check(
        "
        0s request 1 wide/took-1
        → start w1, measure w1 wide 8192, awake, 1 loading
        1s w1 measured
        → load w1 wide 8192
        2s w1 loaded
        → generate w1 1
        ",
    );
}
