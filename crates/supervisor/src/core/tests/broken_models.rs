//! Models whose engine panicked or whose backend failed.

use super::timeline::check;

#[test]
fn a_broken_model_is_unloaded_and_the_next_ask_loads_it_anew() {
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
        → 1 ENDED engine error: decoding: the device is lost; the model is unloaded, ask again to load it anew, unload w1, asleep
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

/// Also in a pause and when it is idle, nothing of it is kept.
#[test]
fn a_model_that_breaks_while_it_is_trimmed_is_unloaded_and_its_conversation_forgotten() {
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
fn a_model_that_breaks_twice_in_a_row_fails_those_who_wait_for_it() {
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
        → 1 ENDED engine error: decoding: the device is lost; the model is unloaded, ask again to load it anew, unload w1, start w2, measure w2 chat 8192, 2 loading, 3 queued at 1
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
        → 2 ENDED engine error: decoding: the device is lost; the model is unloaded, ask again to load it anew, unload w2, asleep
        ",
    );
}

/// It answers, though without an answer.
#[test]
fn an_error_that_breaks_nothing_leaves_the_model() {
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

/// A template may quote the conversation, and the status is for everybody to see.
#[test]
fn what_a_template_says_is_for_the_one_who_asked() {
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
