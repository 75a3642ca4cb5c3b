//! Memory that is given back, and what people see meanwhile.

use super::*;
use crate::request::{AskError, Unload};
use crate::status::{PhaseStatus, UnloadReason};
use crate::test_support::{Fault, STUCK_PROCESS, ask, supervisor};
use tokio::time::Instant;

/// D071: after the time that the user set, and not before.
#[tokio::test(start_paused = true)]
async fn an_unused_model_goes_after_its_time() {
    let world = world();
    finish(&mut world.handle.ask(ask("chat"))).await;
    pass(3 * MINUTE - Duration::from_secs(1)).await;
    assert_eq!(world.workers.n_alive(), 1);
    pass(Duration::from_secs(2)).await;
    assert_eq!(world.workers.n_alive(), 0);
    let status = world.handle.status().borrow().clone();
    assert_eq!(status.last_unload.as_ref().unwrap().why, UnloadReason::Idle);
    assert!(status.models.is_empty());
    // D074, D078: the next ask loads it again.
    finish(&mut world.handle.ask(ask("chat"))).await;
    assert_eq!(world.workers.n_started(), 2);
}

/// D075: notices of memory pressure may come late, so the level is read while it matters.
#[tokio::test(start_paused = true)]
async fn memory_is_watched_closely_while_a_model_is_in_it() {
    let world = world();
    assert!(!world.signals.is_watchful());
    finish(&mut world.handle.ask(ask("chat"))).await;
    assert!(world.signals.is_watchful());
    world.handle.unload(Unload::All).await.unwrap();
    assert!(!world.signals.is_watchful());
}

/// D075: of all processes that of a model hears of memory pressure first.
#[tokio::test(start_paused = true)]
async fn a_notice_to_the_process_of_a_model_counts_as_one_to_this() {
    let script = WorkerScript {
        has_memory_notice: true,
        ..WorkerScript::default()
    };
    let world = start(ScriptedWorkers::all(script), tuning());
    world.signals.set_unnoticed(SystemSignals {
        memory: MemoryPressure::Warning,
        ..SystemSignals::default()
    });
    let memory = || world.handle.status().borrow().signals.memory;
    pass(MINUTE).await;
    assert_eq!(memory(), MemoryPressure::Normal);
    finish(&mut world.handle.ask(ask("chat"))).await;
    assert_eq!(memory(), MemoryPressure::Warning);
}

#[tokio::test(start_paused = true)]
async fn an_ask_in_time_puts_the_idle_unload_off() {
    let world = world();
    for _ in 0..5 {
        finish(&mut world.handle.ask(ask("chat"))).await;
        pass(2 * MINUTE).await;
    }
    assert_eq!((world.workers.n_started(), world.workers.n_alive()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn whoever_unloads_hears_what_came_back_when_the_process_is_gone() {
    let world = world();
    assert_eq!(world.handle.unload(Unload::All).await, Ok(Vec::new()));
    finish(&mut world.handle.ask(ask("chat"))).await;
    finish(&mut world.handle.ask(ask("other"))).await;
    let none = Unload::Model("nobody".to_owned());
    assert_eq!(world.handle.unload(none).await, Ok(Vec::new()));
    assert_eq!(world.workers.n_alive(), 2);
    let records = world.handle.unload(Unload::All).await.unwrap();
    assert_eq!(world.workers.n_alive(), 0);
    let mut names: Vec<&str> = records.iter().map(|record| &*record.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["chat", "other"]);
    for record in &records {
        assert_eq!(record.why, UnloadReason::Asked);
        // Its weights, and a conversation of six tokens.
        assert_eq!(record.freed_bytes, Some(2_000_000_006));
        assert_eq!(record.took, Duration::from_millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn two_equal_unloads_in_a_row_are_two_records() {
    let world = world();
    for _ in 0..2 {
        finish(&mut world.handle.ask(ask("chat"))).await;
        let (one, two) = tokio::join!(
            world.handle.unload(Unload::All),
            world.handle.unload(Unload::Model("chat".to_owned())),
        );
        assert_eq!(one.as_ref().unwrap().len(), 1);
        assert_eq!(one, two);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unload_ends_the_answer_that_runs_and_the_asks_that_wait() {
    let world = world_without_end();
    let mut running = world.handle.ask(ask("chat"));
    let mut waiting = world.handle.ask(ask("chat"));
    first_text(&mut running).await;
    let records = world.handle.unload(Unload::All).await.unwrap();
    assert_eq!(records.len(), 1);
    let (_, outcome) = finish(&mut running).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
    let error = AskError::Unloaded;
    assert_eq!(finish(&mut waiting).await.1, Outcome::Failed { error });
}

/// A process that keeps its memory, dies or says nothing is ended by force, in time.
#[tokio::test(start_paused = true)]
async fn memory_comes_back_whatever_the_worker_does() {
    for fault in [Fault::Leaks, Fault::HangsInUnload, Fault::DiesInUnload] {
        let script = WorkerScript {
            fault,
            ..WorkerScript::default()
        };
        let world = start(ScriptedWorkers::all(script), tuning());
        finish(&mut world.handle.ask(ask("chat"))).await;
        let records = world.handle.unload(Unload::All).await.unwrap();
        assert!(records[0].by_force, "{fault:?}: {records:?}");
        let bound = Tuning::default().unload_within + Duration::from_millis(10);
        assert!(records[0].took <= bound, "{fault:?}: {records:?}");
        assert_eq!(world.workers.n_alive(), 0);
        world.supervisor.quit().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_worker_does_not_stop_a_quit() {
    let script = WorkerScript {
        fault: Fault::HangsInUnload,
        ..WorkerScript::default()
    };
    let world = start(ScriptedWorkers::all(script), tuning());
    finish(&mut world.handle.ask(ask("chat"))).await;
    world.supervisor.quit().await;
    assert_eq!(world.workers.n_alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_status_changes_with_each_step_and_only_then() {
    let world = world();
    let mut status = world.handle.status();
    pass(MINUTE).await;
    let first = status.borrow_and_update().clone();
    let mut answer = world.handle.ask(ask("chat"));
    let reader = tokio::spawn(async move { finish(&mut answer).await });
    let mut phases = Vec::new();
    let mut revision = first.revision;
    while phases.last() != Some(&"ready") {
        status.changed().await.unwrap();
        let now = status.borrow_and_update().clone();
        assert!(now.revision > revision, "{now:?}");
        revision = now.revision;
        let phase = match model(&now).phase {
            // Over at once, so perhaps never seen.
            PhaseStatus::Measuring | PhaseStatus::WaitingForRoom => continue,
            PhaseStatus::Loading { .. } => "loading",
            PhaseStatus::Ready if model(&now).n_answered == 0 => continue,
            PhaseStatus::Ready => "ready",
            PhaseStatus::Generating { .. } => "generating",
            PhaseStatus::Unloading { .. } => "unloading",
        };
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
    }
    assert_eq!(phases, ["loading", "generating", "ready"]);
    reader.await.unwrap();
    // Time that runs down, and requests that change nothing, are no news.
    let unknown = world.handle.ask(ask("chat")).id();
    status_where(&world.handle, |status| {
        status.queue.is_empty() && matches!(model(status).phase, PhaseStatus::Ready)
    })
    .await;
    pass(Duration::from_secs(1)).await;
    let before = status.borrow_and_update().revision;
    world.handle.cancel(unknown);
    world.handle.tune(tuning());
    pass(MINUTE).await;
    assert_eq!(status.borrow().revision, before);
    let looked = world.handle.look().await;
    assert_eq!(looked.revision, before);
    let shown = model(&status.borrow()).unloads_in.unwrap();
    let left = model(&looked).unloads_in.unwrap();
    assert!(shown - left >= MINUTE, "{shown:?} {left:?}");
}

/// Progress of a load is shown some twenty times a second, however often it is reported.
#[tokio::test(start_paused = true)]
async fn progress_alone_is_published_at_most_every_fifty_milliseconds() {
    let script = WorkerScript {
        // Its five reports come every 2 ms.
        load_time: Duration::from_millis(10),
        ..WorkerScript::default()
    };
    let world = start(ScriptedWorkers::all(script), tuning());
    let mut status = world.handle.status();
    let mut answer = world.handle.ask(ask("chat"));
    let mut shown = Vec::new();
    while shown.last() != Some(&PhaseStatus::Ready) {
        status.changed().await.unwrap();
        shown.push(model(&status.borrow_and_update()).phase.clone());
    }
    let n_loading = shown.iter();
    let n_loading = n_loading.filter(|phase| matches!(phase, PhaseStatus::Loading { .. }));
    assert_eq!(n_loading.count(), 1, "{shown:?}");
    finish(&mut answer).await;
}

#[tokio::test(start_paused = true)]
async fn progress_that_was_held_back_is_shown_when_its_time_comes() {
    let script = WorkerScript {
        load_time: Duration::from_secs(5),
        ..WorkerScript::default()
    };
    let world = start(ScriptedWorkers::all(script), tuning());
    let _answer = world.handle.ask(ask("chat"));
    pass(Duration::from_millis(60)).await;
    let status = world.handle.status().borrow().clone();
    let PhaseStatus::Loading {
        progress: Some(progress),
    } = model(&status).phase
    else {
        panic!("{status:?}");
    };
    assert_eq!(
        progress.done_bytes, 0,
        "the first report, 1 s before the next"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_lets_the_answer_end_and_holds_the_next_until_it_is_over() {
    let world = world();
    let mut running = world.handle.ask(ask("chat"));
    first_text(&mut running).await;
    world.handle.pause(true);
    assert_eq!(reason(&finish(&mut running).await.1), FinishReason::Stop);
    pass(MINUTE).await;
    assert_eq!(world.workers.n_alive(), 0);
    let mut held = world.handle.ask(ask("chat"));
    let told = held.next().await;
    let held_by = Some(crate::governor::Because::Paused);
    assert!(
        matches!(told, Some(AnswerEvent::Queued { held, .. }) if held == held_by),
        "{told:?}"
    );
    pass(100 * MINUTE).await;
    let status = world.handle.status().borrow().clone();
    assert!(status.is_paused && status.allowance.held == held_by);
    assert_eq!(world.workers.n_started(), 1);
    world.handle.pause(false);
    assert_eq!(reason(&finish(&mut held).await.1), FinishReason::Stop);
}

#[tokio::test(start_paused = true)]
async fn new_settings_take_effect_at_once() {
    let world = world();
    finish(&mut world.handle.ask(ask("chat"))).await;
    world.handle.tune(Tuning {
        idle_unload: Some(MINUTE),
        ..tuning()
    });
    pass(MINUTE + Duration::from_secs(1)).await;
    assert_eq!(world.workers.n_alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_machine_said_before_the_start_counts() {
    let signals = ScriptedSignals::new(critical());
    let workers = ScriptedWorkers::all(WorkerScript::default());
    let supervisor = supervisor(workers, signals.clone(), tuning());
    let handle = supervisor.handle();
    status_where(&handle, |status| status.signals == critical()).await;
    signals.set(SystemSignals::default());
    status_where(&handle, |status| status.signals != critical()).await;
    supervisor.quit().await;
}

/// 10 GB that cannot be given back, on a machine that has 12 for models.
fn world_with_stuck_model() -> World {
    let workers = ScriptedWorkers::new(|number| WorkerScript {
        weight_bytes: [10_000_000_000, 1_000_000_000][number.min(1)],
        fault: [Fault::CannotBeKilled, Fault::None][number.min(1)],
        ..WorkerScript::default()
    });
    start(workers, tuning())
}

#[tokio::test(start_paused = true)]
async fn whoever_unloads_a_process_that_cannot_be_killed_is_told() {
    let world = world_with_stuck_model();
    finish(&mut world.handle.ask(ask("chat"))).await;
    let asked = Instant::now();
    for _ in 0..2 {
        let error = world.handle.unload(Unload::All).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&STUCK_PROCESS.to_string()), "{text}");
        let status = world.handle.look().await;
        assert_eq!(status.last_error, Some(text));
    }
    let bound = Tuning::default().unload_within + Duration::from_secs(11);
    assert!(asked.elapsed() < bound, "{:?}", asked.elapsed());
    // A smaller model has room beside it.
    let (text, _) = finish(&mut world.handle.ask(ask("small"))).await;
    assert_eq!(text, "Paris is the capital.");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_be_killed_does_not_stop_a_quit() {
    let world = world_with_stuck_model();
    finish(&mut world.handle.ask(ask("chat"))).await;
    finish(&mut world.handle.ask(ask("small"))).await;
    let asked = Instant::now();
    world.supervisor.quit().await;
    let bound = Tuning::default().unload_within + Duration::from_secs(11);
    assert!(asked.elapsed() < bound, "{:?}", asked.elapsed());
    assert_eq!(world.workers.n_alive(), 1);
}

/// Each load makes the memory critically short, and its end relieves it.
#[tokio::test(start_paused = true)]
async fn a_load_under_pressure_ends_with_the_second_time() {
    let world = world();
    let mut answer = world.handle.ask(ask("chat"));
    let answer = tokio::spawn(async move { finish(&mut answer).await });
    for n_loads in 1..=2 {
        status_where(&world.handle, |status| {
            let mut models = status.models.iter();
            models.any(|model| matches!(model.phase, PhaseStatus::Loading { .. }))
        })
        .await;
        assert_eq!(world.workers.n_started(), n_loads);
        world.signals.set(critical());
        status_where(&world.handle, |status| status.models.is_empty()).await;
        world.signals.set(SystemSignals::default());
    }
    let (_, outcome) = answer.await.unwrap();
    let Outcome::Failed { error } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.to_string().contains("twice"), "{error}");
    pass(10 * MINUTE).await;
    assert_eq!(world.workers.n_started(), 2);
}
