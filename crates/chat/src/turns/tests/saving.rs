//! The writer on disk: how soon it is written, and what a full disk costs.

use super::super::answer_writer::{AnswerWriter, SAVE_INTERVAL, SaveResult};
use super::*;

#[tokio::test(start_paused = true)]
async fn text_is_saved_within_a_second_without_followers() {
    let setup = TestSetup::new(endless());
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    drop(updates);
    for _ in 0..10 {
        pass(Duration::from_secs(1)).await;
        let stored = setup.message(started.answer);
        assert_eq!(stored.ending, Ending::Writing);
        let state = setup.turns.shared.active.lock().entries[&started.answer]
            .live
            .clone();
        let n_written = state.state().sources().1.len();
        // 22 bytes every 80 ms.
        let n_missing = n_written - stored.text.len();
        assert!(n_missing <= 275, "{n_missing} bytes are not on disk");
    }
    let appended = setup.storage.appended.lock().unwrap();
    let gaps = appended.windows(2).map(|two| two[1].0 - two[0].0);
    let longest = gaps.max().expect("several writes");
    assert!(longest <= Duration::from_secs(1), "{longest:?}");
    assert!(
        appended.len() <= 16,
        "{} writes in ten seconds",
        appended.len()
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_neither_ends_the_response_nor_loses_text() {
    let text = "word ".repeat(500);
    let setup = TestSetup::new(script_of(&text, Duration::from_millis(20)));
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    setup.storage.is_full.store(true, Ordering::SeqCst);
    pass(Duration::from_secs(6)).await;
    let n_refused = *setup.storage.n_refused.lock().unwrap();
    assert!((2..=6).contains(&n_refused), "{n_refused} tries");
    setup.storage.is_full.store(false, Ordering::SeqCst);
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert_eq!(page.text, text);
    assert_eq!(setup.message(started.answer).text, text);
    let events = setup.events.lock().unwrap();
    let n = |is_it: fn(&TurnEvent) -> bool| events.iter().filter(|it| is_it(it)).count();
    let is_full = |it: &TurnEvent| {
        let full = Some(StoreErrorKind::Full);
        matches!(it, TurnEvent::SaveFailed { kind, .. } if *kind == full)
    };
    assert_eq!(n(is_full), 1);
    assert_eq!(n(|it| matches!(it, TurnEvent::SaveRecovered { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_cannot_be_saved_is_shown_and_saved_later() {
    let setup = TestSetup::new(WorkerScript::default());
    let started = setup.ask("Hello").await;
    setup.storage.is_full.store(true, Ordering::SeqCst);
    let page = finish(&setup, started.answer).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert!(setup.turns.running().is_empty());
    let shown = setup.turns.messages(&[started.answer]).await.unwrap();
    assert_eq!(shown[0].ending, EndingView::Stop, "what is known is shown");
    assert_eq!(setup.message(started.answer).ending, Ending::Writing);

    // The conversation continues with the whole response.
    let second = setup.ask_in(started.conversation, "And?").await;
    finish(&setup, second.answer).await;
    assert_eq!(setup.last_prompt()[1], "assistant: Paris is the capital.");

    setup.storage.is_full.store(false, Ordering::SeqCst);
    pass(Duration::from_secs(60)).await;
    for started in [started, second] {
        let stored = setup.message(started.answer);
        assert_eq!(stored.ending, Ending::Stop);
        assert_eq!(stored.text, "Paris is the capital.");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_full_disk() {
    let setup = TestSetup::new(endless());
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    setup.storage.is_full.store(true, Ordering::SeqCst);
    let closed = timeout(Duration::from_secs(5), setup.turns.close()).await;
    closed.expect("a quit ends in time");
}

#[tokio::test(start_paused = true)]
async fn deleting_the_conversation_stops_its_response() {
    let setup = TestSetup::new(endless());
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    setup.store.delete(started.conversation).unwrap();
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Canceled));
    assert!(setup.turns.running().is_empty());
    let events = setup.events.lock().unwrap();
    let unsaved = events
        .iter()
        .find(|it| matches!(it, TurnEvent::SaveFailed { .. }));
    assert_eq!(unsaved, None, "no failure is reported");
}

/// Adds an unfinished response to a store.
fn answer_in(store: &Store) -> MessageId {
    let conversation = store.create_conversation(Timestamp(1)).unwrap();
    let message = NewMessage {
        conversation,
        parent: None,
        role: MessageRole::Assistant,
        text: String::new(),
        attachment: String::new(),
        ending: Ending::Writing,
        model: None,
        created_at: Timestamp(1),
    };
    store.add_message(message).unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_write_is_due_without_text() {
    let store = Store::in_memory().unwrap();
    let id = answer_in(&store);
    let mut writer = AnswerWriter::new(Arc::new(store.clone()), id);
    assert_eq!(writer.due(), None);
    let now = Instant::now();
    writer.push(Section::Answer, "One", now);
    writer.push(Section::Answer, " two", now + SAVE_INTERVAL / 2);
    assert_eq!(
        writer.due(),
        Some(now + SAVE_INTERVAL),
        "by the oldest text"
    );
    writer.start_write(now + SAVE_INTERVAL / 2);
    assert_eq!(
        writer.due(),
        Some(now + SAVE_INTERVAL),
        "not before it is due"
    );
    writer.start_write(now + SAVE_INTERVAL);
    assert_eq!(writer.due(), None, "nothing is due while it is written");
    let saved = writer.write_finished().await;
    assert!(matches!(
        saved,
        SaveResult::Saved {
            after_failure: false
        }
    ));
    assert_eq!(writer.due(), None);
    assert_eq!(store.message(id).unwrap().text, "One two");
}

#[tokio::test(start_paused = true)]
async fn text_that_arrives_during_a_write_is_part_of_the_next_one() {
    let store = Store::in_memory().unwrap();
    let id = answer_in(&store);
    let mut writer = AnswerWriter::new(Arc::new(store.clone()), id);
    let now = Instant::now();
    writer.push(Section::Reasoning, "Hm. ", now);
    writer.start_write(now + SAVE_INTERVAL);
    writer.push(Section::Answer, "Yes", now + SAVE_INTERVAL);
    assert!(matches!(
        writer.write_finished().await,
        SaveResult::Saved { .. }
    ));
    assert!(writer.due().is_some());
    assert!(matches!(
        writer.finish(Ending::Stop, None).await,
        SaveResult::Saved { .. }
    ));
    let stored = store.message(id).unwrap();
    assert_eq!(
        (stored.reasoning.as_str(), stored.text.as_str()),
        ("Hm. ", "Yes")
    );
    assert_eq!(stored.ending, Ending::Stop);
}
