//! Tests of a pause: the running response finishes, models are unloaded, and requests wait for the
//! user to resume.

use super::timeline::check;

#[test]
fn a_pause_finishes_the_response_unloads_and_blocks_new_requests() {
    check(
        "
        0s request 1 other
        → start w1, measure w1 other 8192, awake, 1 loading
        0s w1 measured
        → load w1 other 8192
        2s w1 loaded
        → generate w1 1
        3s pause
        4s request 2 other
        → 2 queued at 1, blocked
        5s w1 ended 1 well
        → 1 ENDED Stop, unload w1 saving, asleep, 2 queued at 0, blocked
        6s w1 freed 100
        → release w1
        7s w1 gone
        7s show
        → unloaded other (Paused), held Some(3580800000), freed Some(3580800000), by force false, took 2s
        9000s tick
        9001s resume
        → start w2, measure w2 other 8192, awake, 2 loading
        ",
    );
}

#[test]
fn a_pause_unloads_an_idle_model_and_ends_a_load() {
    check(
        "
        0s request 1 embed
        → start w1, measure w1 embed 8192, awake, 1 loading
        0s w1 measured
        → load w1 embed 8192
        2s w1 loaded
        → generate w1 1
        3s w1 ended 1 well
        → 1 ENDED Stop, asleep
        4s request 2 chat
        → start w2, measure w2 chat 8192, awake, 2 loading
        4s w2 measured
        → load w2 chat 8192
        5s pause
        → unload w1, stop w2 load Canceled, asleep, 2 queued at 0, blocked
        6s w2 failed stopped
        → release w2
        6s w2 gone
        6s w1 freed 100
        → release w1
        6s w1 gone
        7s resume
        → start w3, measure w3 chat 8192, awake, 2 loading
        ",
    );
}

/// A pause that ends before the response has no effect.
#[test]
fn a_pause_that_ends_before_the_response_changes_nothing() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s pause
        4s resume
        5s w1 ended 1 well
        → 1 ENDED Stop, asleep
        6s request 2 chat
        → generate w1 2, awake
        ",
    );
}

#[test]
fn during_a_pause_requests_can_be_refused_and_canceled() {
    check(
        "
        0s pause
        0s request 1 chat or-refuse
        → 1 ENDED blocked
        1s request 2 chat
        → 2 queued at 0, blocked
        2s cancel 2
        → 2 ENDED Canceled
        ",
    );
}

/// The time that signals block requests starts after the pause.
#[test]
fn blocked_time_counts_only_after_the_pause() {
    check(
        "
        0s pause
        0s signals hot
        0s request 1 chat
        → 1 queued at 0, blocked
        100s tick
        200s resume
        → 1 queued at 0, blocked
        230s wait
        → 1 ENDED blocked
        ",
    );
}

#[test]
fn a_quit_during_a_pause_fails_all_queued_requests() {
    check(
        "
        0s pause
        0s request 1 chat
        → 1 queued at 0, blocked
        1s quit
        → 1 ENDED quitting
        1s show
        → done
        ",
    );
}
