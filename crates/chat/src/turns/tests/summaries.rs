//! Summaries of dropped messages.

use super::super::stopping::END_TIMEOUT;
use super::*;
use crate::request::request_ids;
use crate::update::SummaryView;
use transom_engine::summary::with_summary;
use transom_store::Overflow;

/// A setup whose context holds three messages, and whose model writes `text` each time.
fn setup(text: &str, token_interval: Duration) -> TestSetup {
    TestSetup::new(WorkerScript {
        context_messages: 3,
        ..script_of(text, token_interval)
    })
}

fn summarizing() -> TurnOptions {
    TurnOptions {
        conversation: ConversationSettings {
            overflow: Overflow::Summarize,
            ..ConversationSettings::default()
        },
        ..options()
    }
}

async fn take(setup: &TestSetup, id: Option<ConversationId>, text: &str) -> StartedTurn {
    let started = setup.turns.ask(id, text, "", summarizing()).await.unwrap();
    finish(setup, started.answer).await;
    started
}

/// Asks three questions. The third response is written without the first four messages.
async fn full_conversation(setup: &TestSetup) -> (ConversationId, Vec<StartedTurn>) {
    let first = take(setup, None, "One?").await;
    let id = first.conversation;
    let second = take(setup, Some(id), "Two?").await;
    let third = take(setup, Some(id), "Three?").await;
    (id, vec![first, second, third])
}

/// Waits until no response and no summary is being written.
async fn settled(setup: &TestSetup, id: ConversationId) -> Vec<SummaryView> {
    for _ in 0..10_000 {
        // A summary begins shortly after the readers of the response know its end.
        let is_over = setup.turns.shared.active.lock().entries.is_empty();
        let views = setup.turns.summaries(id).await.unwrap();
        if is_over && !views.iter().any(|view| view.is_writing) {
            return views;
        }
        pass(Duration::from_millis(10)).await;
    }
    panic!("a summary is written for too long");
}

fn texts(views: &[SummaryView]) -> Vec<(MessageId, &str)> {
    let views = views.iter();
    views.map(|view| (view.last, view.text.as_str())).collect()
}

fn n_requests(setup: &TestSetup) -> usize {
    setup.requests.lock().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn dropped_messages_are_summarized_for_the_next_response() {
    let setup = setup("Yes.", Duration::ZERO);
    let (id, turns) = full_conversation(&setup).await;
    let views = settled(&setup, id).await;
    assert_eq!(texts(&views), [(turns[1].answer, "Yes.")]);
    assert_eq!(views[0].failure, None);
    let prompt = setup.last_prompt().remove(0);
    assert!(
        prompt.contains("User: One?\n\nAssistant: Yes.\n\nUser: Two?"),
        "{prompt}"
    );
    assert!(!prompt.contains("Three?"), "{prompt}");
    let summary = setup.requests.lock().unwrap().last().cloned().unwrap();
    assert_eq!(summary.params.conversation, Some(request_ids(id)[1]));

    take(&setup, Some(id), "Four?").await;
    let system = format!("system: {}", with_summary(None, "Yes."));
    assert_eq!(
        setup.last_prompt(),
        [&*system, "user: Three?", "assistant: Yes.", "user: Four?"]
    );
    // The next summary includes this one.
    take(&setup, Some(id), "Five?").await;
    let views = settled(&setup, id).await;
    assert_eq!(views.len(), 2);
    let prompt = setup.last_prompt().remove(0);
    assert!(prompt.contains("name=\"summary\">\nYes."), "{prompt}");
    assert!(
        !prompt.contains("One?") && prompt.contains("User: Four?"),
        "{prompt}"
    );
}

#[tokio::test(start_paused = true)]
async fn other_policies_ask_for_no_summary() {
    let setup = setup("Yes.", Duration::ZERO);
    let first = setup.ask("One?").await;
    let id = first.conversation;
    finish(&setup, first.answer).await;
    let second = setup.ask_in(id, "Two?").await;
    finish(&setup, second.answer).await;
    let third = setup.ask_in(id, "Three?").await;
    finish(&setup, third.answer).await;
    assert_eq!(settled(&setup, id).await, []);
    assert_eq!(n_requests(&setup), 3);
    // One that exists is not used either.
    let set = setup.turns.set_summary(second.answer, "Tea.").await;
    set.unwrap();
    let fourth = setup.ask_in(id, "Four?").await;
    finish(&setup, fourth.answer).await;
    assert_eq!(setup.last_prompt()[0], "user: Three?");
}

#[tokio::test(start_paused = true)]
async fn a_summary_can_be_edited_removed_and_written_again() {
    let setup = setup("Yes.", Duration::ZERO);
    let (id, turns) = full_conversation(&setup).await;
    settled(&setup, id).await;
    let last = turns[1].answer;
    setup.turns.set_summary(last, " Tea. ").await.unwrap();
    take(&setup, Some(id), "Four?").await;
    let system = format!("system: {}", with_summary(None, "Tea."));
    assert_eq!(setup.last_prompt()[0], system);
    // A removed one is not written again by itself.
    setup.turns.set_summary(last, "").await.unwrap();
    let again = setup.turns.regenerate(turns[2].answer, summarizing()).await;
    finish(&setup, again.unwrap().answer).await;
    assert_eq!(settled(&setup, id).await, []);
    setup.turns.summarize(last, summarizing()).await.unwrap();
    assert_eq!(texts(&settled(&setup, id).await), [(last, "Yes.")]);
}

#[tokio::test(start_paused = true)]
async fn a_summary_belongs_to_its_branch_and_its_texts() {
    let setup = setup("Yes.", Duration::ZERO);
    let (id, turns) = full_conversation(&setup).await;
    settled(&setup, id).await;
    let question = turns[1].question.unwrap();
    let edited = setup.turns.edit(question, "Else?", summarizing()).await;
    let edited = edited.unwrap();
    finish(&setup, edited.answer).await;
    assert_eq!(settled(&setup, id).await, []);
    setup.store.show_branch(turns[2].answer).unwrap();
    assert_eq!(settled(&setup, id).await.len(), 1);
    setup
        .turns
        .edit_answer(turns[0].answer, "No.")
        .await
        .unwrap();
    assert_eq!(settled(&setup, id).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_summary_gives_way_to_a_message_and_is_written_later() {
    let setup = setup("Yes. Yes. Yes.", Duration::from_secs(1));
    let (id, turns) = full_conversation(&setup).await;
    while n_requests(&setup) < 4 {
        pass(Duration::from_millis(10)).await;
    }
    pass(Duration::from_millis(1_500)).await;
    assert!(setup.turns.summaries(id).await.unwrap()[0].is_writing);
    let begin = Instant::now();
    let other = setup.ask("Quick?").await;
    finish(&setup, other.answer).await;
    let waited = begin.elapsed();
    assert!(waited < Duration::from_millis(4_000), "{waited:?}");
    assert_eq!(settled(&setup, id).await, [], "no failure is shown");
    take(&setup, Some(id), "Four?").await;
    let views = settled(&setup, id).await;
    assert_eq!(texts(&views), [(turns[1].answer, "Yes. Yes. Yes.")]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_summary_says_why_until_it_is_replaced() {
    let setup = setup(" ", Duration::ZERO);
    let started = setup.ask("One?").await;
    finish(&setup, started.answer).await;
    let summarized = setup.turns.summarize(started.answer, summarizing());
    summarized.await.unwrap();
    let views = settled(&setup, started.conversation).await;
    assert!(
        matches!(&views[0].failure, Some(Failure::Other { reason }) if reason.contains("no summary")),
        "{views:?}"
    );
    let set = setup.turns.set_summary(started.answer, "Tea.").await;
    set.unwrap();
    let views = settled(&setup, started.conversation).await;
    assert_eq!(texts(&views), [(started.answer, "Tea.")]);
    assert_eq!(views[0].failure, None);
}

#[tokio::test(start_paused = true)]
async fn a_summary_of_a_text_that_changes_is_not_stored() {
    let setup = setup("Yes. Yes.", Duration::from_secs(1));
    let started = setup.ask("One?").await;
    finish(&setup, started.answer).await;
    let summarized = setup.turns.summarize(started.answer, summarizing());
    summarized.await.unwrap();
    setup
        .turns
        .edit_answer(started.answer, "No.")
        .await
        .unwrap();
    pass(Duration::from_secs(10)).await;
    assert_eq!(settled(&setup, started.conversation).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_route_without_history_gets_no_summary_and_drops_no_more_messages() {
    let setup = setup("Yes.", Duration::ZERO);
    let (id, _) = full_conversation(&setup).await;
    settled(&setup, id).await;
    let n_before = n_requests(&setup);
    let translate = TurnOptions {
        routing: Routing::Chosen(Route::Translate),
        ..summarizing()
    };
    let started = setup.turns.ask(Some(id), "Guten Tag", "", translate);
    let page = finish(&setup, started.await.unwrap().answer).await;
    let instructions = &Route::Translate.settings().instructions;
    assert_eq!(
        setup.last_prompt(),
        [&*format!("system: {instructions}"), "user: Guten Tag"]
    );
    assert_eq!(page.stats.unwrap().dropped_messages, 4, "as before");
    assert_eq!(settled(&setup, id).await.len(), 1);
    assert_eq!(n_requests(&setup), n_before + 1);
}

/// Stops the third response of a conversation while it is written without the first messages.
async fn third_response_stopped(ends: bool) -> (TestSetup, ConversationId) {
    let setup = setup("Yes. Yes. Yes.", Duration::from_secs(1));
    let id = take(&setup, None, "One?").await.conversation;
    take(&setup, Some(id), "Two?").await;
    let third = setup.turns.ask(Some(id), "Three?", "", summarizing()).await;
    let third = third.unwrap();
    let mut updates = setup.turns.follow(third.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    if ends {
        let other = setup.ask("Other?").await;
        setup.turns.end(Some(id)).await;
        assert_eq!(setup.turns.running(), [other.answer]);
        finish(&setup, other.answer).await;
    } else {
        setup.turns.stop(third.answer);
    }
    (setup, id)
}

#[tokio::test(start_paused = true)]
async fn after_the_end_of_a_conversation_no_summary_of_its_messages_starts() {
    let (setup, id) = third_response_stopped(false).await;
    assert_eq!(
        settled(&setup, id).await.len(),
        1,
        "one starts after a stop"
    );
    let (setup, id) = third_response_stopped(true).await;
    assert_eq!(settled(&setup, id).await, []);
    assert_eq!(n_requests(&setup), 4);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_conversation_does_not_wait_for_a_full_disk() {
    let setup = setup("Yes.", Duration::ZERO);
    setup.storage.is_full.store(true, Ordering::SeqCst);
    let started = setup.ask("One?").await;
    finish(&setup, started.answer).await;
    let ended = timeout(2 * END_TIMEOUT, setup.turns.end(None)).await;
    assert!(ended.is_ok() && !setup.turns.shared.active.lock().entries.is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleted_messages_are_not_sent_for_a_summary() {
    let setup = setup("Yes.", Duration::ZERO);
    let started = setup.ask("One?").await;
    finish(&setup, started.answer).await;
    let summarized = setup.turns.summarize(started.answer, summarizing());
    summarized.await.unwrap();
    // Its task has not begun yet.
    setup.store.delete(started.conversation).unwrap();
    pass(Duration::from_secs(10)).await;
    assert!(setup.turns.shared.summaries.lock().is_empty());
    assert_eq!(n_requests(&setup), 1);
}
