//! Tests of a quit in every phase.

use super::timeline::check;

#[test]
fn quit_with_nothing_loaded_is_done_at_once() {
    check(
        "
        0s quit
        0s show
        → done
        1s request 1 chat
        → 1 ENDED quitting
        ",
    );
}

#[test]
fn quit_while_measuring_releases_the_worker() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s quit
        → 1 ENDED quitting, release w1, asleep
        1s w1 gone
        1s show
        → done
        ",
    );
}

#[test]
fn quit_while_loading_stops_the_load() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        1s quit
        → 1 ENDED quitting, stop w1 load Canceled, asleep
        2s w1 failed stopped
        → release w1
        2s w1 gone
        2s show
        → unloaded chat (Quit), held None, freed None, by force false, took 1s; done
        ",
    );
}

#[test]
fn quit_while_ready_unloads_the_model() {
    check(
        "
        5s used chat
        6s quit
        → unload w1
        6s request 2 chat
        → 2 ENDED quitting
        7s w1 freed 100
        → release w1
        7s w1 gone
        7s show
        → unloaded chat (Quit), held Some(3180800000), freed Some(3180800000), by force false, took 1s; done
        ",
    );
}

#[test]
fn quit_while_generating_waits_for_the_job_to_settle() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s request 2 chat
        → 2 queued at 1
        4s quit
        → 2 ENDED quitting, stop w1 1 Canceled
        5s w1 ended 1 canceled
        → 1 ENDED Canceled, unload w1, asleep
        5s w1 freed 100
        → release w1
        5s w1 gone
        5s show
        → unloaded chat (Quit), held Some(3180800000), freed Some(3180800000), by force false, took 0ns; done
        ",
    );
}

#[test]
fn quit_while_generating_kills_a_job_that_does_not_settle() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        4s quit
        → stop w1 1 Canceled
        5s quit
        7s wait
        → 1 ENDED quitting, kill w1, asleep
        8s w1 died
        8s show
        → unloaded chat (Quit), held Some(3180800000), freed None, by force true, took 1s; error: chat: the model's process did not respond for 3 s and was ended, while stopping; ask again to restart the model; done
        ",
    );
}

#[test]
fn quit_while_unloading_waits_for_the_process() {
    check(
        "
        5s used chat
        6s unload chat
        → delete states of chat, unload w1
        7s quit
        8s w1 freed 100
        → release w1
        8s w1 gone
        8s show
        → unloaded chat (Requested), held Some(3180800000), freed Some(3180800000), by force false, took 2s; done
        ",
    );
}
