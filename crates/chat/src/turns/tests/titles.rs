//! Titles that a model writes.

use super::*;
use crate::request::request_ids;
use transom_supervisor::Class;

/// A setup with a model that writes titles, and writes `text` each time.
fn setup(text: &str, token_interval: Duration) -> TestSetup {
    TestSetup::new(script(text, token_interval))
}

fn script(text: &str, token_interval: Duration) -> WorkerScript {
    WorkerScript {
        n_parameters: 4_000_000_000,
        ..script_of(text, token_interval)
    }
}

/// Waits until no response and no title is being written, and returns the title.
async fn settled(setup: &TestSetup, id: ConversationId) -> String {
    for _ in 0..10_000 {
        // A title begins shortly after the readers of the response know its end.
        let is_over = setup.turns.shared.active.lock().entries.is_empty();
        if is_over && setup.turns.shared.titles.lock().is_empty() {
            return setup.store.conversation(id).unwrap().title;
        }
        pass(Duration::from_millis(10)).await;
    }
    panic!("a title is written for too long");
}

fn n_requests(setup: &TestSetup) -> usize {
    setup.requests.lock().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn the_first_response_is_followed_by_a_title() {
    let setup = setup("Capital of France", Duration::ZERO);
    let started = setup.ask("What is the capital of France? And why?").await;
    let id = started.conversation;
    assert_eq!(
        setup.store.conversation(id).unwrap().title,
        "What is the capital of France?"
    );
    finish(&setup, started.answer).await;
    assert_eq!(settled(&setup, id).await, "Capital of France");
    assert!(setup.store.has_written_title(id).unwrap());
    let prompt = setup.last_prompt().remove(0);
    assert!(prompt.contains("And why?"), "{prompt}");
    let request = setup.requests.lock().unwrap().last().cloned().unwrap();
    assert!(request.params.constraint.is_some());
    assert_eq!(request.params.conversation, Some(request_ids(id)[1]));
    let changed = TurnEvent::ConversationChanged { id };
    assert_eq!(setup.events.lock().unwrap().last(), Some(&changed));
    // It is written once, and what a person writes is kept.
    let more = setup.ask_in(id, "More?").await;
    finish(&setup, more.answer).await;
    settled(&setup, id).await;
    assert_eq!(n_requests(&setup), 3);
    setup.store.rename(id, "Paris").unwrap();
    assert!(!setup.store.has_written_title(id).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_title_of_a_person_is_not_replaced() {
    let setup = setup("Paris. Paris.", Duration::from_secs(1));
    let started = setup.ask("One?").await;
    let id = started.conversation;
    setup.store.rename(id, "Mine").unwrap();
    finish(&setup, started.answer).await;
    assert_eq!(settled(&setup, id).await, "Mine");
    assert_eq!(n_requests(&setup), 1);
    // Also while the title is written.
    let other = setup.ask("Two?").await;
    finish(&setup, other.answer).await;
    pass(Duration::from_millis(500)).await;
    setup.store.rename(other.conversation, "Mine too").unwrap();
    assert_eq!(settled(&setup, other.conversation).await, "Mine too");
}

#[tokio::test(start_paused = true)]
async fn a_title_gives_way_to_a_message_and_is_written_later() {
    let setup = setup("Yes. Yes. Yes.", Duration::from_secs(1));
    let first = setup.ask("One?").await;
    let id = first.conversation;
    finish(&setup, first.answer).await;
    pass(Duration::from_millis(1_500)).await;
    assert!(!setup.turns.shared.titles.lock().is_empty());
    let status = setup.supervisor.handle().status().borrow().clone();
    assert_eq!(status.running[0].class, Class::Background);
    let begin = Instant::now();
    let second = setup.ask_in(id, "Two?").await;
    finish(&setup, second.answer).await;
    let waited = begin.elapsed();
    assert!(waited < Duration::from_millis(4_000), "{waited:?}");
    assert_eq!(settled(&setup, id).await, "Yes. Yes. Yes.");
}

#[tokio::test(start_paused = true)]
async fn no_title_is_written_where_it_would_be_bad_or_costly() {
    // By a model that is too small.
    let small = TestSetup::new(script_of("Paris", Duration::ZERO));
    let started = small.ask("One?").await;
    finish(&small, started.answer).await;
    assert_eq!(settled(&small, started.conversation).await, "One?");
    assert_eq!(n_requests(&small), 1);
    // Of a response that was stopped, and of a private conversation.
    let setup = setup("Paris is a city.", Duration::from_secs(1));
    let stopped = setup.ask("One?").await;
    pass(Duration::from_millis(2_500)).await;
    setup.turns.stop(stopped.answer);
    finish(&setup, stopped.answer).await;
    assert_eq!(settled(&setup, stopped.conversation).await, "One?");
    let private = TurnOptions {
        is_private: true,
        ..options()
    };
    let started = setup.turns.ask(None, "Two?", "", private).await.unwrap();
    finish(&setup, started.answer).await;
    assert_eq!(settled(&setup, started.conversation).await, "Two?");
    // In Low Power Mode.
    let low_power = SystemSignals {
        is_low_power: true,
        ..SystemSignals::default()
    };
    set(&setup, low_power).await;
    let started = setup.ask("Three?").await;
    finish(&setup, started.answer).await;
    assert_eq!(settled(&setup, started.conversation).await, "Three?");
    assert_eq!(n_requests(&setup), 3);
}

#[tokio::test(start_paused = true)]
async fn the_smallest_loaded_model_is_taken_as_it_is() {
    let workers = ScriptedWorkers::new(|number| WorkerScript {
        n_parameters: [8_000_000_000, 1_000_000_000, 1_000_000][number.min(2)],
        ..script_of("Paris", Duration::ZERO)
    });
    let setup = TestSetup::with(workers, Tuning::default());
    let shared = &setup.turns.shared;
    let status = || setup.supervisor.handle().status().borrow().clone();
    assert!(shared.small_model(&status()).is_none());
    for (name, expected) in [("large", "large"), ("small", "small"), ("tiny", "small")] {
        let mut options = options();
        options.model = spec(name);
        options.model.context_length = Some(4096);
        let started = setup.turns.ask(None, "One?", "", options).await.unwrap();
        finish(&setup, started.answer).await;
        settled(&setup, started.conversation).await;
        let (found, _) = shared.small_model(&status()).unwrap();
        assert_eq!(found.id, spec(expected).id);
        assert_eq!(found.context_length, None, "it is not loaded again");
    }
}
