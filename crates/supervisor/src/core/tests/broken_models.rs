//! Tests of models whose engine panicked or whose backend failed.

use super::timeline::check;

#[test]
fn a_broken_model_is_unloaded_and_the_next_request_reloads_it() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s w1 broken
        3s w1 ended 1 backend
        → 1 ENDED engine error: decoding: the device is lost; the model is unloaded; ask again to reload it, unload w1, asleep
        4s w1 freed 100
        → release w1
        4s w1 gone
        4s show
        → unloaded chat (Fault), held Some(3180800000), freed Some(3180800000), by force false, took 1s; error: chat: decoding: the device is lost
        5s request 2 chat
        → start w2, measure w2 chat 8192, awake, 2 loading
        ",
    );
}

/// Its state is not saved, also during a pause and when it is idle.
#[test]
fn a_model_that_breaks_during_a_trim_is_unloaded_without_saving() {
    check(
        "
        0s request 1 other
        → start w1, measure w1 other 8192, awake, 1 loading
        0s w1 measured
        → load w1 other 8192
        2s w1 loaded
        → generate w1 1
        3s w1 ended 1 well
        → 1 ENDED Stop, asleep
        4s signals warning
        → trim w1 KeepConversation
        4s w1 broken
        → unload w1
        4s w1 trimmed
        5s w1 freed 100
        → release w1
        ",
    );
}

#[test]
fn a_model_that_breaks_twice_in_a_row_fails_its_queued_requests() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s request 2 chat
        → 2 queued at 1
        0s request 3 chat
        → 3 queued at 2
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s w1 broken
        3s w1 ended 1 backend
        → 1 ENDED engine error: decoding: the device is lost; the model is unloaded; ask again to reload it, unload w1, start w2, measure w2 chat 8192, 2 loading, 3 queued at 1
        4s w1 freed 100
        → release w1
        4s w1 gone
        4s w2 measured
        → load w2 chat 8192
        5s w2 loaded
        → generate w2 2
        6s w2 broken
        → 3 ENDED engine error: decoding: the device is lost
        6s w2 ended 2 backend
        → 2 ENDED engine error: decoding: the device is lost; the model is unloaded; ask again to reload it, unload w2, asleep
        ",
    );
}

/// The worker replied, although with an error.
#[test]
fn an_error_that_does_not_break_the_model_keeps_it_loaded() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s w1 ended 1 broken
        → 1 ENDED bad file, asleep
        4s request 2 chat
        → generate w1 2, awake
        ",
    );
}

/// A template may quote the conversation, and everybody can read the status.
#[test]
fn the_message_of_a_template_goes_to_the_requester_only() {
    check(
        "
        0s request 1 chat
        → start w1, measure w1 chat 8192, awake, 1 loading
        0s w1 measured
        → load w1 chat 8192
        2s w1 loaded
        → generate w1 1
        3s w1 ended 1 template
        → 1 ENDED engine error: chat template: no: tell me a secret, asleep
        3s show
        → chat is Ready; error: chat: the chat template refused the conversation
        ",
    );
}
