//! Memory that models take: what is shown of it, and a budget that was lowered.

use super::timeline::check;

#[test]
fn a_budget_lowered_during_an_answer_takes_its_model_when_it_is_over() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s tune budget 3
        4s w1 ended 1 well
        → 1 ENDED Stop, unload w1, asleep
        ",
    );
}

/// What is shown and told is what it is now, not what it was when it was loaded. Weights that are
/// mapped are in the engine's count only.
#[test]
fn the_memory_of_a_model_follows_its_process() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        2s memory
        → Some(3180800000)
        3s w1 costs 5010000000
        3s w1 ended 1 well
        → 1 ENDED Stop, asleep
        3s memory
        → Some(5000000000)
        4s w1 costs 1010000000
        4s memory
        → Some(1000000000)
        5s unload all
        → delete states of all, unload w1
        6s w1 freed 100
        → release w1
        6s w1 gone
        6s show
        → unloaded chat (Requested), held Some(3180800000), freed Some(3180800000), by force false, took 1s
        ",
    );
}
