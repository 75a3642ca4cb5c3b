//! Messages that are dropped because the context is full, and stay dropped.

use super::*;
use transom_engine::Truncation;
use transom_signals::MemoryPressure;
use transom_store::Overflow;

/// A setup whose context holds three messages. Of more, the worker drops all but the newest.
fn setup() -> TestSetup {
    TestSetup::new(WorkerScript {
        tokens: vec!["Yes.".to_owned()],
        context_messages: 3,
        ..WorkerScript::default()
    })
}

/// Asks and waits for the end. Returns the turn and how many messages its response was written
/// without.
async fn take(setup: &TestSetup, id: ConversationId, text: &str) -> (StartedTurn, Option<u32>) {
    let started = setup.ask_in(id, text).await;
    (started, dropped(setup, started).await)
}

async fn dropped(setup: &TestSetup, turn: StartedTurn) -> Option<u32> {
    let page = finish(setup, turn.answer).await;
    page.stats.map(|stats| stats.dropped_messages)
}

/// Asks four questions. The third response is written without the first four messages.
async fn full_conversation(setup: &TestSetup) -> (ConversationId, Vec<StartedTurn>) {
    let first = setup.ask("One?").await;
    let id = first.conversation;
    assert_eq!(dropped(setup, first).await, Some(0));
    let (second, n) = take(setup, id, "Two?").await;
    assert_eq!(n, Some(0));
    let (third, n) = take(setup, id, "Three?").await;
    assert_eq!(n, Some(4));
    let (fourth, n) = take(setup, id, "Four?").await;
    assert_eq!(n, Some(4), "there is room again");
    assert_eq!(
        setup.last_prompt(),
        ["user: Three?", "assistant: Yes.", "user: Four?"]
    );
    (id, vec![first, second, third, fourth])
}

#[tokio::test(start_paused = true)]
async fn dropped_messages_stay_dropped_also_after_a_restart() {
    let setup = setup();
    let (id, _) = full_conversation(&setup).await;
    let restarted = TestSetup {
        turns: Turns::new(
            setup.handles.subscribe(),
            setup.store.clone(),
            || Timestamp(2),
            |_| (),
        ),
        ..setup
    };
    let (_, n) = take(&restarted, id, "Five?").await;
    assert_eq!(restarted.last_prompt()[0], "user: Three?");
    assert_eq!(n, Some(8), "those that were dropped before count too");
}

#[tokio::test(start_paused = true)]
async fn every_branch_drops_what_was_dropped_above_it() {
    let setup = setup();
    let (_, turns) = full_conversation(&setup).await;
    let edit = |turn: &StartedTurn| {
        let question = turn.question.unwrap();
        setup.turns.edit(question, "Else?", options())
    };
    // Before the cut, which then does not count.
    let edited = edit(&turns[1]).await.unwrap();
    assert_eq!(dropped(&setup, edited).await, Some(0));
    assert_eq!(
        setup.last_prompt(),
        ["user: One?", "assistant: Yes.", "user: Else?"]
    );
    // After it.
    let edited = edit(&turns[3]).await.unwrap();
    assert_eq!(dropped(&setup, edited).await, Some(4));
    assert_eq!(
        setup.last_prompt(),
        ["user: Three?", "assistant: Yes.", "user: Else?"]
    );
    // The response at the cut is regenerated with the messages that were there before.
    let again = setup.turns.regenerate(turns[2].answer, options()).await;
    assert_eq!(dropped(&setup, again.unwrap()).await, Some(4));
    assert_eq!(setup.last_prompt().len(), 5);
    // A continued response keeps what it was written with.
    let more = setup.turns.continue_answer(turns[3].answer, options());
    finish(&setup, more.await.unwrap().answer).await;
    assert_eq!(
        setup.last_prompt(),
        [
            "user: Three?",
            "assistant: Yes.",
            "user: Four?",
            "assistant: Yes."
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn another_context_length_or_model_may_restore_messages() {
    let setup = setup();
    let (id, _) = full_conversation(&setup).await;
    let longer = TurnOptions {
        settings: ModelSettings {
            context_length: Some(16_384),
            ..ModelSettings::default()
        },
        ..options()
    };
    let other = TurnOptions {
        model: spec("other"),
        ..options()
    };
    for (text, options) in [("Five?", longer), ("Six?", other)] {
        let started = setup.turns.ask(Some(id), text, "", options).await.unwrap();
        finish(&setup, started.answer).await;
        let requests = setup.requests.lock().unwrap();
        let Prompt::Chat(chat) = &requests.last().unwrap().prompt else {
            panic!("a conversation is asked as one");
        };
        assert_eq!(chat.messages[0].content, "One?", "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_that_were_dropped_while_memory_was_short_return() {
    let setup = setup();
    let first = setup.ask("One?").await;
    let id = first.conversation;
    finish(&setup, first.answer).await;
    take(&setup, id, "Two?").await;
    let signals = SystemSignals {
        memory: MemoryPressure::Warning,
        ..SystemSignals::default()
    };
    set(&setup, signals).await;
    let (_, n) = take(&setup, id, "Three?").await;
    assert_eq!(n, Some(4));
    take(&setup, id, "Four?").await;
    assert_eq!(setup.last_prompt()[0], "user: Three?");
    set(&setup, SystemSignals::default()).await;
    let mut status = setup.supervisor.handle().status();
    let ended = status.wait_for(|status| status.restrictions.context_length.is_none());
    drop(ended.await.expect("the supervisor lives"));
    take(&setup, id, "Five?").await;
    assert_eq!(setup.last_prompt()[0], "user: One?");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_must_not_be_shortened_fails_with_its_numbers() {
    let setup = setup();
    let stop = || TurnOptions {
        conversation: ConversationSettings {
            overflow: Overflow::Stop,
            ..ConversationSettings::default()
        },
        ..options()
    };
    let (id, turns) = full_conversation(&setup).await;
    let fifth = setup
        .turns
        .ask(Some(id), "Five?", "", stop())
        .await
        .unwrap();
    let page = finish(&setup, fifth.answer).await;
    let failure = Failure::ConversationTooLong {
        prompt_tokens: 9,
        context_length: 3,
    };
    assert_eq!(page.ending, Some(EndingView::Failed { failure }));
    let last = setup.requests.lock().unwrap().last().cloned().unwrap();
    assert_eq!(last.truncation, Truncation::Disabled);
    // A short branch gets its response.
    let edited = setup
        .turns
        .edit(turns[1].question.unwrap(), "Else?", stop());
    assert_eq!(dropped(&setup, edited.await.unwrap()).await, Some(0));
    // The user lets it be shortened.
    let again = setup.turns.regenerate(fifth.answer, options()).await;
    assert_eq!(dropped(&setup, again.unwrap()).await, Some(8));
}
