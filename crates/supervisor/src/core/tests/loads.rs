//! Tests of loading: variants, the budget, and failures of the files.

use super::timeline::check;

#[test]
fn the_next_variant_is_tried_after_an_unsupported_one() {
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
fn the_next_variant_is_tried_after_one_that_fails_as_unsupported_while_loading() {
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
fn all_requests_for_a_model_fail_if_no_variant_is_supported() {
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
        → 1 ENDED none of 2 variants runs, 2 ENDED none of 2 variants runs, release w1, start w2, measure w2 embed 8192, 3 loading
        3s w1 gone
        3s show
        → embed is Measuring; error: two: no variant of two runs on this machine: two.gguf: a new architecture; two: a new architecture
        ",
    );
}

#[test]
fn the_next_variant_is_tried_after_a_missing_one_and_the_status_shows_it() {
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
fn no_other_variant_is_tried_after_an_incomplete_one() {
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
fn the_error_of_the_only_variant_is_reported_unchanged() {
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
fn neither_the_name_nor_the_order_of_the_variants_identifies_a_model() {
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
fn no_other_variant_is_tried_after_running_out_of_memory() {
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
fn a_damaged_file_fails_the_request_before_the_load() {
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

#[test]
fn the_error_for_a_model_that_is_too_large_contains_the_sizes() {
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
        → error: big: big needs 18.63 GB of memory (17.86 GB weights, 781 MB context of 8192 tokens, 0 MB working space), but models may use 5.59 GB here; choose a smaller model, or one quantized to fewer bits
        ",
    );
}

#[test]
fn a_chosen_context_length_is_never_lowered() {
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

/// The context is not shortened if a smaller KV cache is enough.
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
fn a_model_that_fits_after_an_eviction_keeps_its_full_kv_cache() {
    check(
        "
        5s used other
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
fn the_next_variant_is_measured_with_the_full_kv_cache_again() {
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

/// After a warning; every other model is unloaded first.
#[test]
fn over_budget_loads_a_model_that_is_too_large() {
    check(
        "
        5s used chat
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
fn one_request_with_over_budget_is_enough() {
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
fn lowering_the_budget_unloads_idle_models_at_once() {
    check(
        "
        5s used chat
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
fn no_model_loads_while_another_unloads() {
    check(
        "
        5s used chat
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

/// The estimate is 4 GB of 6, but earlier loads took 3 GB more.
#[test]
fn a_positive_correction_counts_against_the_budget() {
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

/// The estimate is 6.1 GB of 6, but earlier loads took 1 GB less, so the context is not shortened.
#[test]
fn a_negative_correction_lets_a_model_fit() {
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
