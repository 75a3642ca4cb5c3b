//! Tests of the reported memory, and of a lowered budget.

use super::timeline::check;

#[test]
fn lowering_the_budget_during_a_response_unloads_its_model_afterwards() {
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

/// The status and the record show the current footprint, not the one after the load. Memory-mapped
/// weights are only in the engine's count.
#[test]
fn the_footprint_of_a_model_follows_its_process() {
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
