//! Panics: a response ends, and their text is nowhere, because it may contain a prompt.

use transom_engine::test_support::RecordedLog;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_response_whose_task_panics_still_ends() {
    let log = RecordedLog::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let setup = TestSetup::new(endless());
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    // From now on, sending an event panics.
    let events = setup.events.clone();
    let poisoned = std::thread::spawn(move || {
        let _held = events.lock().unwrap();
        panic!("on purpose");
    });
    assert!(poisoned.join().is_err());
    setup.storage.is_full.store(true, Ordering::SeqCst);
    page.read_on(&mut updates).await;
    let failure = match page.ending {
        Some(EndingView::Failed { failure }) => failure,
        other => panic!("it ended as {other:?}"),
    };
    assert!(matches!(failure, Failure::Other { .. }), "{failure:?}");
    assert_eq!(setup.turns.running(), []);
    let log = log.text();
    assert!(log.contains("the task of a response panicked"), "{log}");
    assert!(!log.contains("PoisonError"), "the text of the panic: {log}");
}

#[tokio::test]
async fn a_panic_in_the_store_fails_without_its_text() {
    let setup = TestSetup::new(endless());
    let failed = setup.turns.stored::<()>(|_| panic!("a prompt")).await;
    let Err(Failure::Other { reason }) = failed else {
        panic!("{failed:?}");
    };
    assert!(!reason.contains("a prompt"), "{reason}");
}
