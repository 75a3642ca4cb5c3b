//! Every way in which an answer ends, and that what was said stays.

use transom_engine::EngineError;
use transom_signals::{MemoryPressure, ThermalState};
use transom_supervisor::ModelSelector;
use transom_supervisor::test_support::Fault;

use super::*;

/// The end of one answer, as a page and the store have it; both must agree.
async fn end_of(world: &World, begun: Begun) -> (EndingView, String) {
    let page = finish(world, begun.answer).await;
    let kept = world.turns.messages(&[begun.answer]).await.unwrap();
    let ending = page.ending.expect("read to the end");
    assert_eq!(kept[0].ending, ending);
    assert_eq!(kept[0].text, page.text);
    assert_eq!(kept[0].blocks, page.blocks);
    // The same once more, for a window that comes too late.
    let late = finish(world, begun.answer).await;
    assert_eq!(late.ending.as_ref(), Some(&ending));
    assert_eq!(late.blocks, page.blocks);
    assert!(world.turns.running().is_empty());
    (ending, page.text)
}

fn failed(failure: Failure) -> EndingView {
    EndingView::Failed { failure }
}

#[tokio::test(start_paused = true)]
async fn a_bounded_answer_ends_at_its_length() {
    let world = World::new(WorkerScript::default());
    let asking = Asking {
        settings: ModelSettings {
            max_tokens: Some(2),
            ..ModelSettings::default()
        },
        ..asking()
    };
    let begun = world.turns.ask(None, "Hello", "", asking).await.unwrap();
    let (ending, text) = end_of(&world, begun).await;
    assert_eq!((ending, text.as_str()), (EndingView::Length, "Paris is"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_stopped_while_it_waits() {
    let world = World::new(endless());
    let first = world.ask("First?").await;
    let mut updates = world.turns.follow(first.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let second = world.ask("Second?").await;
    let mut updates = world.turns.follow(second.answer);
    let mut page = Page::default();
    let waits = |page: &Page| page.stages.contains(&Stage::Waiting { position: 1 });
    page.read_until(&mut updates, waits).await;
    world.turns.stop(second.answer);
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Cancelled));
    assert_eq!(page.text, "");
    assert_eq!(world.turns.running(), [first.answer], "the other goes on");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_stopped_while_its_model_loads() {
    let world = World::new(WorkerScript {
        load_time: Duration::from_secs(60),
        ..endless()
    });
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    let mut page = Page::default();
    let loads = |page: &Page| matches!(page.stages.last(), Some(Stage::Loading { .. }));
    page.read_until(&mut updates, loads).await;
    let asked_at = Instant::now();
    world.turns.stop(begun.answer);
    let (ending, _) = end_of(&world, begun).await;
    assert_eq!(ending, EndingView::Cancelled);
    assert!(asked_at.elapsed() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_stopped_before_its_first_word_and_in_mid_word() {
    let world = World::new(WorkerScript {
        token_interval: Duration::from_secs(60),
        ..endless()
    });
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    let mut page = Page::default();
    let reads = |page: &Page| matches!(page.stages.last(), Some(Stage::Prefill { .. }));
    page.read_until(&mut updates, reads).await;
    world.turns.stop(begun.answer);
    let (ending, text) = end_of(&world, begun).await;
    assert_eq!((ending, text.as_str()), (EndingView::Cancelled, ""));

    let begun = world.ask_in(begun.conversation, "Again").await;
    let mut updates = world.turns.follow(begun.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    world.turns.stop(begun.answer);
    let (ending, text) = end_of(&world, begun).await;
    assert_eq!((ending, text.as_str()), (EndingView::Cancelled, "word "));
    assert_eq!(
        world.last_prompt(),
        ["user: Hello\n\nAgain"],
        "an answer without a word is none"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_shed_when_the_machine_can_no_longer_afford_it() {
    let world = World::new(endless());
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    world.signals.set(SystemSignals {
        memory: MemoryPressure::Critical,
        is_thrashing: true,
        ..SystemSignals::default()
    });
    let (ending, text) = end_of(&world, begun).await;
    assert_eq!(ending, EndingView::Shed);
    assert!(text.starts_with("word "), "what was said stays: {text:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_mid_answer_keeps_what_was_said_and_asking_again_works() {
    let workers = ScriptedWorkers::new(|n| WorkerScript {
        fault: if n == 0 {
            Fault::DiesAfter(3)
        } else {
            Fault::None
        },
        ..WorkerScript::default()
    });
    let world = World::with(workers, Tuning::default());
    let begun = world.ask("Hello").await;
    let (ending, text) = end_of(&world, begun).await;
    assert_eq!(ending, failed(Failure::EngineCrashed));
    assert_eq!(text, "Paris is the");
    let again = world
        .turns
        .regenerate(begun.answer, asking())
        .await
        .unwrap();
    let (ending, text) = end_of(&world, again).await;
    assert_eq!(ending, EndingView::Stop);
    assert_eq!(text, "Paris is the capital.");
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_loading_is_a_crash() {
    let world = World::new(WorkerScript {
        fault: Fault::DiesInLoad,
        ..WorkerScript::default()
    });
    let begun = world.ask("Hello").await;
    let (ending, _) = end_of(&world, begun).await;
    assert_eq!(ending, failed(Failure::EngineCrashed));
}

#[tokio::test(start_paused = true)]
async fn a_model_that_does_not_fit_is_refused_with_its_numbers_unless_one_insists() {
    let world = World::new(WorkerScript {
        weight_bytes: 40 << 30,
        ..WorkerScript::default()
    });
    let begun = world.ask("Hello").await;
    let (ending, _) = end_of(&world, begun).await;
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
    let insisting = Asking {
        insist: true,
        ..asking()
    };
    let again = world
        .turns
        .regenerate(begun.answer, insisting)
        .await
        .unwrap();
    let (ending, _) = end_of(&world, again).await;
    assert_eq!(ending, EndingView::Stop);
}

#[tokio::test(start_paused = true)]
async fn damaged_files_make_the_model_unusable() {
    let world = World::new(WorkerScript {
        load_error: Some(EngineError::BadFile {
            path: "model.gguf".into(),
            reason: "it ends in mid-tensor".to_owned(),
        }),
        ..WorkerScript::default()
    });
    let begun = world.ask("Hello").await;
    let (ending, _) = end_of(&world, begun).await;
    let reason = "model.gguf: it ends in mid-tensor".to_owned();
    assert_eq!(ending, failed(Failure::ModelUnusable { reason }));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_the_machine_holds_back_for_too_long_says_when_to_come_back() {
    let world = World::new(WorkerScript::default());
    let heat = SystemSignals {
        thermal: ThermalState::Critical,
        ..SystemSignals::default()
    };
    set(&world, heat).await;
    let begun = world.ask("Hello").await;
    let (ending, _) = end_of(&world, begun).await;
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
async fn one_too_many_is_told_that_all_are_busy() {
    let tuning = Tuning {
        queue_limit: 1,
        ..Tuning::default()
    };
    let world = World::with(ScriptedWorkers::all(endless()), tuning);
    let first = world.ask("First?").await;
    let mut updates = world.turns.follow(first.answer);
    Page::default().read_until(&mut updates, is_writing).await;
    let second = world.ask("Second?").await;
    let mut updates = world.turns.follow(second.answer);
    let waits = |page: &Page| page.stages.contains(&Stage::Waiting { position: 1 });
    Page::default().read_until(&mut updates, waits).await;
    let third = world.ask("Third?").await;
    let page = finish(&world, third.answer).await;
    assert_eq!(page.ending, Some(failed(Failure::Busy)));
}

#[tokio::test(start_paused = true)]
async fn an_eject_ends_what_runs_and_what_waits() {
    let world = World::new(endless());
    let first = world.ask("First?").await;
    let mut updates = world.turns.follow(first.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    let second = world.ask("Second?").await;
    let mut waiting = world.turns.follow(second.answer);
    let mut second_page = Page::default();
    let waits = |page: &Page| page.stages.contains(&Stage::Waiting { position: 1 });
    second_page.read_until(&mut waiting, waits).await;
    let unloaded = world.supervisor.handle().unload(ModelSelector::All).await;
    assert_eq!(unloaded.unwrap().len(), 1);
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Cancelled));
    second_page.read_on(&mut waiting).await;
    assert_eq!(second_page.ending, Some(failed(Failure::Unloaded)));
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_the_next_supervisor_where_the_first_one_went_away() {
    let world = World::new(WorkerScript::default());
    let (handles, turns, store) = (world.handles.clone(), world.turns.clone(), world.store);
    world.supervisor.quit().await;
    let begun = turns.ask(None, "Hello", "", asking()).await.unwrap();
    let mut updates = turns.follow(begun.answer);
    let next_one = supervisor(
        ScriptedWorkers::all(WorkerScript::default()),
        ScriptedSignals::default(),
        Tuning::default(),
    );
    handles.send_replace(next_one.handle());
    let page = Page::read(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Stop));
    assert_eq!(store.message(begun.answer).unwrap().text, page.text);
}

#[tokio::test(start_paused = true)]
async fn without_a_next_supervisor_the_turn_can_be_asked_again_later() {
    let world = World::new(WorkerScript::default());
    let turns = world.turns.clone();
    world.supervisor.quit().await;
    let begun = turns.ask(None, "Hello", "", asking()).await.unwrap();
    let page = Page::read(&mut turns.follow(begun.answer)).await;
    assert_eq!(page.ending, Some(EndingView::Interrupted));
    let kept = world.store.message(begun.answer).unwrap();
    assert_eq!(kept.ending, Ending::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_answer_as_interrupted_and_begins_none() {
    let world = World::new(endless());
    let first = world.ask("First?").await;
    let mut updates = world.turns.follow(first.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    let second = world.ask("Second?").await;
    world.turns.close().await;
    for begun in [first, second] {
        assert_eq!(world.message(begun.answer).ending, Ending::Interrupted);
    }
    assert!(world.message(first.answer).text.starts_with("word "));
    page.read_on(&mut updates).await;
    assert_eq!(page.ending, Some(EndingView::Interrupted));
    let late = world.turns.ask(None, "Third?", "", asking()).await;
    assert!(matches!(late, Err(Failure::Other { .. })), "{late:?}");
    world.turns.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_mistake_of_ours_breaks_off_has_an_end_all_the_same() {
    let world = World::new(endless());
    let begun = world.ask("Hello").await;
    let mut updates = world.turns.follow(begun.answer);
    let mut page = Page::default();
    page.read_until(&mut updates, is_writing).await;
    // Whoever is told of anything now panics.
    let heard = world.heard.clone();
    let poisoned = std::thread::spawn(move || {
        let _held = heard.lock().unwrap();
        panic!("on purpose");
    });
    assert!(poisoned.join().is_err());
    world.disk.is_full.store(true, Ordering::SeqCst);
    page.read_on(&mut updates).await;
    let failure = match page.ending {
        Some(EndingView::Failed { failure }) => failure,
        other => panic!("it ended as {other:?}"),
    };
    assert!(matches!(failure, Failure::Other { .. }), "{failure:?}");
    assert_eq!(world.turns.running(), []);
}
