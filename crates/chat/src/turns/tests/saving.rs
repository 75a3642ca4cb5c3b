//! The copy on disk: how soon, in spite of whom, and what a refusing disk costs.

use super::*;
use transom_engine::Section as Written;

use super::super::disk::{DiskCopy, SAVE_INTERVAL, Saved};

#[tokio::test(start_paused = true)]
async fn what_is_said_is_on_disk_within_a_second_though_nobody_follows() {
    let world = World::new(endless());
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    drop(updates);
    for _ in 0..10 {
        pass(Duration::from_secs(1)).await;
        let kept = world.message(begun.answer);
        assert_eq!(kept.ending, Ending::Writing);
        let state = world.turns.inner.desk().entries[&begun.answer]
            .board
            .clone();
        let said = state.state().sources().1.len();
        // 22 bytes each 80 ms.
        let n_missing = said - kept.text.len();
        assert!(n_missing <= 275, "{n_missing} bytes are not on disk");
    }
    let appended = world.disk.appended.lock().unwrap();
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
async fn a_full_disk_does_not_end_the_answer_and_loses_nothing_in_the_end() {
    let text = "word ".repeat(500);
    let world = World::new(saying(&text, Duration::from_millis(20)));
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    world.disk.is_full.store(true, Ordering::SeqCst);
    pass(Duration::from_secs(6)).await;
    let n_refused = *world.disk.n_refused.lock().unwrap();
    assert!((2..=6).contains(&n_refused), "{n_refused} tries");
    world.disk.is_full.store(false, Ordering::SeqCst);
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert_eq!(page.text, text);
    assert_eq!(world.message(begun.answer).text, text);
    let heard = world.heard.lock().unwrap();
    let n = |is_it: fn(&Happening) -> bool| heard.iter().filter(|it| is_it(it)).count();
    assert_eq!(n(|it| matches!(it, Happening::Unsaved { .. })), 1);
    assert_eq!(n(|it| matches!(it, Happening::Saved { .. })), 1);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_the_disk_refuses_is_shown_and_saved_when_there_is_room() {
    let world = World::new(WorkerScript::default());
    let begun = world.ask("Hello").await;
    world.disk.is_full.store(true, Ordering::SeqCst);
    let page = finish(&world, begun.answer).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert!(world.turns.running().is_empty());
    let shown = world.turns.messages(&[begun.answer]).await.unwrap();
    assert_eq!(shown[0].ending, EndingView::Stop, "what is known is shown");
    assert_eq!(world.message(begun.answer).ending, Ending::Writing);

    // The conversation goes on with the answer as it was said.
    let second = world.ask_in(begun.conversation, "And?").await;
    finish(&world, second.answer).await;
    assert_eq!(world.last_prompt()[1], "assistant: Paris is the capital.");

    world.disk.is_full.store(false, Ordering::SeqCst);
    pass(Duration::from_secs(60)).await;
    for begun in [begun, second] {
        let kept = world.message(begun.answer);
        assert_eq!(kept.ending, Ending::Stop);
        assert_eq!(kept.text, "Paris is the capital.");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_disk_that_refuses() {
    let world = World::new(endless());
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    world.disk.is_full.store(true, Ordering::SeqCst);
    let closed = timeout(Duration::from_secs(5), world.turns.close()).await;
    closed.expect("a quit ends in time");
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_conversation_is_deleted_stops() {
    let world = World::new(endless());
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    world.store.delete(begun.conversation).unwrap();
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Cancelled));
    assert!(world.turns.running().is_empty());
    let heard = world.heard.lock().unwrap();
    let unsaved = heard
        .iter()
        .find(|it| matches!(it, Happening::Unsaved { .. }));
    assert_eq!(unsaved, None, "nobody is told of a fault");
}

/// A store with an answer that is being written.
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
async fn nothing_is_due_while_nothing_is_said() {
    let store = Store::in_memory().unwrap();
    let id = answer_in(&store);
    let mut copy = DiskCopy::new(Arc::new(store.clone()), id);
    assert_eq!(copy.due(), None);
    let now = Instant::now();
    copy.push(Written::Answer, "One", now);
    copy.push(Written::Answer, " two", now + SAVE_INTERVAL / 2);
    assert_eq!(copy.due(), Some(now + SAVE_INTERVAL), "by the oldest text");
    copy.begin(now + SAVE_INTERVAL / 2);
    assert_eq!(
        copy.due(),
        Some(now + SAVE_INTERVAL),
        "not before it is due"
    );
    copy.begin(now + SAVE_INTERVAL);
    assert_eq!(copy.due(), None, "nothing is due while it is written");
    let saved = copy.settled().await;
    assert!(matches!(
        saved,
        Saved::Whole {
            after_trouble: false
        }
    ));
    assert_eq!(copy.due(), None);
    assert_eq!(store.message(id).unwrap().text, "One two");
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_write_runs_goes_with_the_next() {
    let store = Store::in_memory().unwrap();
    let id = answer_in(&store);
    let mut copy = DiskCopy::new(Arc::new(store.clone()), id);
    let now = Instant::now();
    copy.push(Written::Reasoning, "Hm. ", now);
    copy.begin(now + SAVE_INTERVAL);
    copy.push(Written::Answer, "Yes", now + SAVE_INTERVAL);
    assert!(matches!(copy.settled().await, Saved::Whole { .. }));
    assert!(copy.due().is_some());
    assert!(matches!(
        copy.finish(Ending::Stop, None).await,
        Saved::Whole { .. }
    ));
    let kept = store.message(id).unwrap();
    assert_eq!(
        (kept.reasoning.as_str(), kept.text.as_str()),
        ("Hm. ", "Yes")
    );
    assert_eq!(kept.ending, Ending::Stop);
}
