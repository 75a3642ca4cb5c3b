//! Every way in which a response ends; its text always stays.

use transom_engine::EngineError;
use transom_signals::{MemoryPressure, ThermalState};
use transom_supervisor::ModelSelector;
use transom_supervisor::test_support::Fault;

use super::*;
use crate::failure::ModelProblem;

/// Returns the end of a response as a page and the store have it. Both must agree.
async fn end_of(setup: &TestSetup, started: StartedTurn) -> (EndingView, String) {
    let page = finish(setup, started.answer).await;
    let stored = setup.turns.messages(&[started.answer]).await.unwrap();
    let ending = page.ending.expect("read to the end");
    assert_eq!(stored[0].ending, ending);
    assert_eq!(stored[0].text, page.text);
    assert_eq!(stored[0].blocks, page.blocks);
    // Once more for a window that opens too late.
    let late = finish(setup, started.answer).await;
    assert_eq!(late.ending.as_ref(), Some(&ending));
    assert_eq!(late.blocks, page.blocks);
    assert!(setup.turns.running().is_empty());
    (ending, page.text)
}

fn failed(failure: Failure) -> EndingView {
    EndingView::Failed { failure }
}

#[tokio::test(start_paused = true)]
async fn a_response_ends_at_its_length_limit() {
    let setup = TestSetup::new(WorkerScript::default());
    let options = TurnOptions {
        settings: ModelSettings {
            max_tokens: Some(2),
            ..ModelSettings::default()
        },
        ..options()
    };
    let started = setup.turns.ask(None, "Hello", "", options).await.unwrap();
    let (ending, text) = end_of(&setup, started).await;
    assert_eq!((ending, text.as_str()), (EndingView::Length, "Paris is"));
}

#[tokio::test(start_paused = true)]
async fn a_queued_response_can_be_stopped() {
    let setup = TestSetup::new(endless());
    let first = setup.ask("First?").await;
    let mut updates = setup.turns.follow(first.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let second = setup.ask("Second?").await;
    let mut updates = setup.turns.follow(second.answer);
    let mut page = Page::default();
    let waits = |page: &Page| page.stages.contains(&Stage::Waiting { position: 1 });
    page.read_until(&mut updates, waits).await;
    setup.turns.stop(second.answer);
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Canceled));
    assert_eq!(page.text, "");
    assert_eq!(
        setup.turns.running(),
        [first.answer],
        "the other one continues"
    );
}

#[tokio::test(start_paused = true)]
async fn a_response_can_be_stopped_while_its_model_loads() {
    let setup = TestSetup::new(WorkerScript {
        load_time: Duration::from_secs(60),
        ..endless()
    });
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    let mut page = Page::default();
    let loads = |page: &Page| matches!(page.stages.last(), Some(Stage::Loading { .. }));
    page.read_until(&mut updates, loads).await;
    let asked_at = Instant::now();
    setup.turns.stop(started.answer);
    let (ending, _) = end_of(&setup, started).await;
    assert_eq!(ending, EndingView::Canceled);
    assert!(asked_at.elapsed() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn a_response_can_be_stopped_before_and_after_its_first_text() {
    let setup = TestSetup::new(WorkerScript {
        token_interval: Duration::from_secs(60),
        ..endless()
    });
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    let mut page = Page::default();
    let reads = |page: &Page| matches!(page.stages.last(), Some(Stage::Prefill { .. }));
    page.read_until(&mut updates, reads).await;
    setup.turns.stop(started.answer);
    let (ending, text) = end_of(&setup, started).await;
    assert_eq!((ending, text.as_str()), (EndingView::Canceled, ""));

    let started = setup.ask_in(started.conversation, "Again").await;
    let mut updates = setup.turns.follow(started.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    setup.turns.stop(started.answer);
    let (ending, text) = end_of(&setup, started).await;
    assert_eq!((ending, text.as_str()), (EndingView::Canceled, "word "));
    assert_eq!(
        setup.last_prompt(),
        ["user: Hello\n\nAgain"],
        "an answer without a word is none"
    );
}

#[tokio::test(start_paused = true)]
async fn a_response_is_stopped_when_resources_are_critically_low() {
    let setup = TestSetup::new(endless());
    let started = setup.ask("Hello").await;
    let mut updates = setup.turns.follow(started.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    setup.signals.set(SystemSignals {
        memory: MemoryPressure::Critical,
        is_thrashing: true,
        ..SystemSignals::default()
    });
    let (ending, text) = end_of(&setup, started).await;
    assert_eq!(ending, EndingView::OutOfResources);
    assert!(text.starts_with("word "), "the text is kept: {text:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_keeps_the_text_and_regenerating_works() {
    let workers = ScriptedWorkers::new(|n| WorkerScript {
        fault: if n == 0 {
            Fault::DiesAfter(3)
        } else {
            Fault::None
        },
        ..WorkerScript::default()
    });
    let setup = TestSetup::with(workers, Tuning::default());
    let started = setup.ask("Hello").await;
    let (ending, text) = end_of(&setup, started).await;
    assert_eq!(ending, failed(Failure::EngineCrashed));
    assert_eq!(text, "Paris is the");
    let again = setup
        .turns
        .regenerate(started.answer, options())
        .await
        .unwrap();
    let (ending, text) = end_of(&setup, again).await;
    assert_eq!(ending, EndingView::Stop);
    assert_eq!(text, "Paris is the capital.");
}

#[tokio::test(start_paused = true)]
async fn a_crash_during_the_load_is_reported() {
    let setup = TestSetup::new(WorkerScript {
        fault: Fault::DiesInLoad,
        ..WorkerScript::default()
    });
    let started = setup.ask("Hello").await;
    let (ending, _) = end_of(&setup, started).await;
    assert_eq!(ending, failed(Failure::EngineCrashed));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_fit_is_refused_unless_over_budget_is_set() {
    let setup = TestSetup::new(WorkerScript {
        weight_bytes: 40 << 30,
        ..WorkerScript::default()
    });
    let started = setup.ask("Hello").await;
    let (ending, _) = end_of(&setup, started).await;
    let EndingView::Failed {
        failure:
            Failure::TooLarge {
                need_bytes,
                budget_bytes,
                ..
            },
    } = ending
    else {
        panic!("{ending:?}");
    };
    assert_eq!(need_bytes, 40 << 30);
    assert!(budget_bytes > 0 && budget_bytes < need_bytes);
    let insisting = TurnOptions {
        over_budget: true,
        ..options()
    };
    let again = setup
        .turns
        .regenerate(started.answer, insisting)
        .await
        .unwrap();
    let (ending, _) = end_of(&setup, again).await;
    assert_eq!(ending, EndingView::Stop);
}

#[tokio::test(start_paused = true)]
async fn damaged_files_make_the_model_unusable() {
    let setup = TestSetup::new(WorkerScript {
        load_error: Some(EngineError::BadFile {
            path: "model.gguf".into(),
            reason: "it ends in mid-tensor".to_owned(),
        }),
        ..WorkerScript::default()
    });
    let started = setup.ask("Hello").await;
    let (ending, _) = end_of(&setup, started).await;
    let reason = "model.gguf: it ends in mid-tensor".to_owned();
    let problem = Some(ModelProblem::Damaged {
        file: "model.gguf".to_owned(),
    });
    assert_eq!(ending, failed(Failure::ModelUnusable { problem, reason }));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_held_too_long_fails_with_a_retry_time() {
    let setup = TestSetup::new(WorkerScript::default());
    let heat = SystemSignals {
        thermal: ThermalState::Critical,
        ..SystemSignals::default()
    };
    set(&setup, heat).await;
    let started = setup.ask("Hello").await;
    let (ending, _) = end_of(&setup, started).await;
    let EndingView::Failed {
        failure: Failure::Held {
            retry_after_seconds,
        },
    } = ending
    else {
        panic!("{ending:?}");
    };
    assert!(retry_after_seconds > 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_a_full_queue_fails_as_busy() {
    let tuning = Tuning {
        queue_limit: 1,
        ..Tuning::default()
    };
    let setup = TestSetup::with(ScriptedWorkers::all(endless()), tuning);
    let first = setup.ask("First?").await;
    let mut updates = setup.turns.follow(first.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let second = setup.ask("Second?").await;
    let mut updates = setup.turns.follow(second.answer);
    let waits = |page: &Page| page.stages.contains(&Stage::Waiting { position: 1 });
    Page::default().read_until(&mut updates, waits).await;
    let third = setup.ask("Third?").await;
    let page = finish(&setup, third.answer).await;
    assert_eq!(page.ending, Some(failed(Failure::Busy)));
}

#[tokio::test(start_paused = true)]
async fn unloading_ends_running_and_queued_responses() {
    let setup = TestSetup::new(endless());
    let first = setup.ask("First?").await;
    let mut updates = setup.turns.follow(first.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    let second = setup.ask("Second?").await;
    let mut waiting = setup.turns.follow(second.answer);
    let mut second_page = Page::default();
    let waits = |page: &Page| page.stages.contains(&Stage::Waiting { position: 1 });
    second_page.read_until(&mut waiting, waits).await;
    let unloaded = setup.supervisor.handle().unload(ModelSelector::All).await;
    assert_eq!(unloaded.unwrap().len(), 1);
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Canceled));
    second_page.read_on(&mut waiting).await;
    assert_eq!(second_page.ending, Some(failed(Failure::Unloaded)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_a_new_supervisor() {
    let setup = TestSetup::new(WorkerScript::default());
    let (handles, turns, store) = (setup.handles.clone(), setup.turns.clone(), setup.store);
    setup.supervisor.quit().await;
    let started = turns.ask(None, "Hello", "", options()).await.unwrap();
    let mut updates = turns.follow(started.answer);
    let next_one = supervisor(
        ScriptedWorkers::all(WorkerScript::default()),
        ScriptedSignals::default(),
        Tuning::default(),
    );
    handles.send_replace(next_one.handle());
    let page = Page::read(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert_eq!(store.message(started.answer).unwrap().text, page.text);
}

#[tokio::test(start_paused = true)]
async fn without_a_new_supervisor_the_response_is_interrupted() {
    let setup = TestSetup::new(WorkerScript::default());
    let turns = setup.turns.clone();
    setup.supervisor.quit().await;
    let started = turns.ask(None, "Hello", "", options()).await.unwrap();
    let page = Page::read(&mut turns.follow(started.answer)).await;
    assert_eq!(page.ending, Some(EndingView::Interrupted));
    let stored = setup.store.message(started.answer).unwrap();
    assert_eq!(stored.ending, Ending::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn closing_interrupts_every_response_and_starts_none() {
    let setup = TestSetup::new(endless());
    let first = setup.ask("First?").await;
    let mut updates = setup.turns.follow(first.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    let second = setup.ask("Second?").await;
    setup.turns.close().await;
    for started in [first, second] {
        assert_eq!(setup.message(started.answer).ending, Ending::Interrupted);
    }
    assert!(setup.message(first.answer).text.starts_with("word "));
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Interrupted));
    let late = setup.turns.ask(None, "Third?", "", options()).await;
    assert!(matches!(late, Err(Failure::Other { .. })), "{late:?}");
    setup.turns.close().await;
}

#[tokio::test(start_paused = true)]
async fn attached_text_that_its_route_does_not_allow_is_not_sent_and_not_cut() {
    let setup = TestSetup::new(WorkerScript::default());
    let translates = TurnOptions {
        routing: Routing::Automatic,
        ..options()
    };
    let long = "Guten Tag. ".repeat(20_000);
    let asked = setup
        .turns
        .ask(None, "/translate", &long, translates.clone());
    let asked = asked.await.unwrap();
    let page = finish(&setup, asked.answer).await;
    let Some(EndingView::Failed { failure }) = page.ending else {
        panic!("{:?}", page.ending);
    };
    let Failure::AttachedTooLong {
        route,
        attached_tokens,
        max_tokens,
    } = failure
    else {
        panic!("{failure:?}");
    };
    assert_eq!((route, attached_tokens), (Route::Translate, 60_000));
    assert!(max_tokens > 0 && max_tokens < attached_tokens);
    assert!(
        setup.requests.lock().unwrap().is_empty(),
        "nothing was sent"
    );

    // A text that the message contains counts each time.
    let contained = TurnOptions {
        contained_tokens: 60_000,
        ..translates.clone()
    };
    let inline = setup.turns.ask(None, "/translate Guten Tag", "", contained);
    let mut answer = inline.await.unwrap().answer;
    for _ in 0..2 {
        let ending = finish(&setup, answer).await.ending;
        let failure = Failure::AttachedTooLong {
            route,
            attached_tokens,
            max_tokens,
        };
        assert_eq!(ending, Some(EndingView::Failed { failure }));
        let again = setup.turns.regenerate(answer, translates.clone());
        answer = again.await.unwrap().answer;
    }

    // As plain chat, all of it is sent.
    let plain = TurnOptions {
        routing: Routing::Chosen(Route::Chat),
        ..translates.clone()
    };
    // It stays so if the same failure is tried again.
    for options in [plain, translates] {
        let again = setup.turns.regenerate(asked.answer, options).await.unwrap();
        let page = finish(&setup, again.answer).await;
        assert_eq!(page.ending, Some(EndingView::Stop));
        assert!(setup.last_prompt()[0].contains(long.trim()));
    }
}
