//! Tests of processes that were killed but do not end.

use super::timeline::check;

#[test]
fn a_stuck_process_is_reported_and_smaller_models_still_load() {
    check(
        "
        5s used chat
        6s unload chat
        → delete states of chat, unload w1
        9s wait
        → kill w1
        19s w1 stuck 4711
        19s show
        → chat is Unloading { why: Requested }; error: the system cannot end process 4711, which had chat loaded, and its 3.73 GB of memory stay in use until it ends; choose a smaller model, or restart the computer
        20s request 2 other
        → start w2, measure w2 other 8192, awake, 2 loading
        20s w2 measured
        → measure w2 other 8192 small
        20s w2 measured
        → 2 ENDED stuck process 4711, release w2, asleep
        21s w2 gone
        22s request 3 embed
        → start w3, measure w3 embed 8192, awake, 3 loading
        22s w3 measured
        → load w3 embed 8192
        23s w3 loaded
        → generate w3 3
        24s w3 ended 3 well
        → 3 ENDED Stop, asleep
        25s unload all
        → delete states of all, unload w3
        26s w3 freed 100
        → release w3
        26s w3 gone
        60s w1 died
        60s show
        → unloaded chat (Requested), held Some(3180800000), freed None, by force true, took 54s; error: other: the system cannot end process 4711, which had chat loaded, and its 3.73 GB of memory stay in use until it ends; choose a smaller model, or restart the computer
        61s request 4 other
        → start w4, measure w4 other 8192, awake, 4 loading
        61s w4 measured
        → load w4 other 8192
        ",
    );
}

#[test]
fn a_request_that_needs_the_memory_of_a_stuck_process_fails() {
    check(
        "
        5s used chat
        6s request 2 other
        → start w2, measure w2 other 8192, awake, 2 loading
        6s request 3 embed
        → 3 queued at 1
        7s w2 measured
        → unload w1
        10s wait
        → kill w1
        20s w1 stuck 4711
        → measure w2 other 8192 small
        20s w2 measured
        → 2 ENDED stuck process 4711, release w2, start w3, measure w3 embed 8192, 3 loading
        20s w2 gone
        20s w3 measured
        → load w3 embed 8192
        ",
    );
}

/// The watchdog killed it.
#[test]
fn a_stuck_process_fails_its_response() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        130s w1 stuck 4711
        → 1 ENDED worker gone while generating, asleep
        131s w1 ended 1 well
        132s w1 died
        ",
    );
}

#[test]
fn a_stuck_process_does_not_delay_a_quit() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s quit
        → 1 ENDED quitting, stop w1 load Canceled, asleep
        4s wait
        → kill w1
        14s w1 stuck 4711
        14s show
        → chat is Unloading { why: Quit }; error: the system cannot end process 4711, which had chat loaded, and its 3.73 GB of memory stay in use until it ends; choose a smaller model, or restart the computer; done
        ",
    );
}

#[test]
fn a_model_too_large_for_the_machine_is_not_blamed_on_a_stuck_process() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 stuck 4711
        → start w2, measure w2 chat 8192
        2s w2 measured
        → measure w2 chat 8192 small
        2s w2 measured
        → 1 ENDED stuck process 4711, release w2, asleep
        3s w2 gone
        3s request 2 big
        → start w3, measure w3 big 8192, awake, 2 loading
        3s w3 measured
        → measure w3 big 8192 small
        3s w3 measured
        → 2 ENDED too large, 4000000000 in use, None would fit, release w3, asleep
        ",
    );
}

/// The model and one response take 4 GB, and a further response 0.8 GB.
#[test]
fn a_stuck_process_holds_the_memory_of_all_its_responses() {
    check(
        "
        0s tune parallel 3
        5s used chat
        6s request 2 chat by=a
        → generate w1 2, awake
        6s request 3 chat by=b
        → generate w1 3
        6s request 4 chat by=c
        → generate w1 4
        130s w1 stuck 4711
        → 2 ENDED worker gone while generating, 3 ENDED worker gone while generating, 4 ENDED worker gone while generating, asleep
        130s show
        → chat is Unloading { why: Fault }; error: the system cannot end process 4711, which had chat loaded, and its 5.25 GB of memory stay in use until it ends; choose a smaller model, or restart the computer
        131s request 5 embed
        → start w2, measure w2 embed 8192, awake, 5 loading
        131s w2 measured
        → measure w2 embed 8192 small
        131s w2 measured
        → 5 ENDED stuck process 4711, release w2, asleep
        ",
    );
}
