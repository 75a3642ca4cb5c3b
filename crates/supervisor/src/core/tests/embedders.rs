//! Tests of embedding models that work beside a chat model.

use super::timeline::check;

/// A program that searches asks both in turn. Under memory pressure one works at a time.
#[test]
fn an_embedding_model_works_beside_a_chat_model() {
    check(
        "
        0s tune parallel 2
        5s used embed
        6s request 2 chat by=a
        → start w2, measure w2 chat 8192, awake, 2 loading
        6s w2 measured
        → load w2 chat 8192
        7s w2 loaded
        → generate w2 2
        8s request 3 embed by=b
        → generate w1 3
        8s request 4 embed by=b
        → generate w1 4
        9s w1 ended 3 well
        → 3 ENDED Stop
        9s w1 ended 4 well
        → 4 ENDED Stop
        10s request 5 embed by=b
        → generate w1 5
        11s w2 ended 2 well
        → 2 ENDED Stop
        11s request 6 chat by=a
        → generate w2 6
        12s w1 ended 5 well
        → 5 ENDED Stop
        12s signals warning
        → trim w1 KeepConversation, trim w2 KeepConversation
        12s request 7 embed by=b
        → 7 queued at 1
        13s w2 ended 6 well
        → 6 ENDED Stop, generate w1 7 at most 1024
        ",
    );
}

/// Neither a second embedding model, nor an embedding of a program while a person waits, nor a model
/// that would have to be loaded.
#[test]
fn an_embedding_waits_for_a_person_and_for_a_load() {
    check(
        "
        0s tune parallel 2
        5s used embed
        6s request 2 chat by=app
        → start w2, measure w2 chat 8192, awake, 2 loading
        6s w2 measured
        → load w2 chat 8192
        7s w2 loaded
        → generate w2 2
        8s request 3 embed by=api background
        → 3 queued at 1
        8s request 4 embed2 by=app
        → 4 queued at 1, 3 queued at 2
        9s w2 ended 2 well
        → 2 ENDED Stop, start w3, measure w3 embed2 8192, 4 loading, 3 queued at 1
        ",
    );
}
