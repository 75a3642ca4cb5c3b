//! Tests of loads that memory pressure ends: the first is retried, the second fails the request.

use super::timeline::check;

/// A third load would end in the same way.
#[test]
fn a_request_fails_after_its_load_was_shed_twice() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s signals critical
        → stop w1 load Shed, asleep, 1 queued at 0, blocked
        2s w1 failed stopped
        → release w1
        3s w1 gone
        4s ease
        → start w2, measure w2 chat 8192, awake, 1 loading
        30s w2 measured
        → load w2 chat 8192
        31s request 2 chat
        → 2 queued at 1
        32s signals critical
        → 1 ENDED shed chat twice, stop w2 load Shed, asleep, 2 queued at 0, blocked
        33s w2 failed stopped
        → release w2
        33s w2 gone
        33s show
        → unloaded chat (Pressure { reason: Memory { pressure: Critical } }), held None, freed None, by force false, took 1s; error: chat was not loaded: memory became critically short twice while it was loading; close other apps, or choose a smaller model or a shorter context
        34s ease
        → start w3, measure w3 chat 8192, awake, 2 loading
        ",
    );
}

/// It was loaded for a request that could not start.
#[test]
fn a_load_without_a_response_counts_as_a_shed_load() {
    check(
        "
        0s tune block 200
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s signals hot
        → 1 queued at 0, blocked
        2s w1 loaded
        → asleep
        3s signals critical
        → unload w1, 1 queued at 0, blocked
        4s w1 freed 100
        → release w1
        4s w1 gone
        5s ease
        → 1 queued at 0, blocked, start w2, measure w2 chat 8192, awake, 1 loading
        80s w2 measured
        → load w2 chat 8192
        81s signals critical
        → 1 ENDED shed chat twice, stop w2 load Shed, asleep
        ",
    );
}

/// Reading files takes no memory, so it is no evidence.
#[test]
fn pressure_while_measuring_is_not_counted() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        1s signals critical
        → release w1, asleep, 1 queued at 0, blocked
        2s w1 gone
        3s ease
        → start w2, measure w2 chat 8192, awake, 1 loading
        20s signals critical
        → release w2, asleep, 1 queued at 0, blocked
        21s w2 gone
        22s ease
        → start w3, measure w3 chat 8192, awake, 1 loading
        ",
    );
}
