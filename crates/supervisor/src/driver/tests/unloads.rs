//! Tests of unloads, and of the status.

use super::*;
use crate::request::{ModelSelector, RequestError};
use crate::status::{PhaseStatus, UnloadReason};
use crate::test_support::{Fault, STUCK_PROCESS, generate_request, supervisor};
use tokio::time::Instant;

/// After the time that the user set, and not before.
#[tokio::test(start_paused = true)]
async fn an_idle_model_is_unloaded_after_its_idle_time() {
    let test = test_supervisor();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    advance_time(3 * MINUTE - Duration::from_secs(1)).await;
    assert_eq!(test.workers.n_alive(), 1);
    advance_time(Duration::from_secs(2)).await;
    assert_eq!(test.workers.n_alive(), 0);
    let status = test.handle.status().borrow().clone();
    assert_eq!(status.last_unload.as_ref().unwrap().why, UnloadReason::Idle);
    assert!(status.models.is_empty());
    // The next request loads it again.
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    assert_eq!(test.workers.n_started(), 2);
}

/// Memory pressure notices may be late, so the level is polled while it matters.
#[tokio::test(start_paused = true)]
async fn memory_is_watched_closely_while_a_model_is_loaded() {
    let test = test_supervisor();
    assert!(!test.signals.is_polling());
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    assert!(test.signals.is_polling());
    test.handle.unload(ModelSelector::All).await.unwrap();
    assert!(!test.signals.is_polling());
}

/// The process of a model is the first to get memory pressure notices.
#[tokio::test(start_paused = true)]
async fn a_memory_notice_to_a_worker_makes_the_supervisor_read_the_level() {
    let script = WorkerScript {
        has_memory_notice: true,
        ..WorkerScript::default()
    };
    let test = start(ScriptedWorkers::all(script), tuning());
    test.signals.set_silently(SystemSignals {
        memory: MemoryPressure::Warning,
        ..SystemSignals::default()
    });
    let memory = || test.handle.status().borrow().signals.memory;
    advance_time(MINUTE).await;
    assert_eq!(memory(), MemoryPressure::Normal);
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    assert_eq!(memory(), MemoryPressure::Warning);
}

#[tokio::test(start_paused = true)]
async fn a_request_restarts_the_idle_time() {
    let test = test_supervisor();
    for _ in 0..5 {
        finish(&mut test.handle.submit(generate_request("chat"))).await;
        advance_time(2 * MINUTE).await;
    }
    assert_eq!((test.workers.n_started(), test.workers.n_alive()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_unload_returns_records_when_the_processes_are_gone() {
    let test = test_supervisor();
    assert_eq!(test.handle.unload(ModelSelector::All).await, Ok(Vec::new()));
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    finish(&mut test.handle.submit(generate_request("other"))).await;
    let none = ModelSelector::Model("nobody".to_owned());
    assert_eq!(test.handle.unload(none).await, Ok(Vec::new()));
    assert_eq!(test.workers.n_alive(), 2);
    let records = test.handle.unload(ModelSelector::All).await.unwrap();
    assert_eq!(test.workers.n_alive(), 0);
    let mut names: Vec<&str> = records.iter().map(|record| &*record.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["chat", "other"]);
    for record in &records {
        assert_eq!(record.why, UnloadReason::Requested);
        // Its weights, and a KV cache of six tokens.
        assert_eq!(record.freed_bytes, Some(2_000_000_006));
        assert_eq!(record.took, Duration::from_millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn equal_unloads_in_a_row_each_return_a_record() {
    let test = test_supervisor();
    for _ in 0..2 {
        finish(&mut test.handle.submit(generate_request("chat"))).await;
        let (one, two) = tokio::join!(
            test.handle.unload(ModelSelector::All),
            test.handle.unload(ModelSelector::Model("chat".to_owned())),
        );
        assert_eq!(one.as_ref().unwrap().len(), 1);
        assert_eq!(one, two);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unload_ends_running_and_queued_requests() {
    let test = endless_supervisor();
    let mut running = test.handle.submit(generate_request("chat"));
    let mut waiting = test.handle.submit(generate_request("chat"));
    first_text(&mut running).await;
    let records = test.handle.unload(ModelSelector::All).await.unwrap();
    assert_eq!(records.len(), 1);
    let (_, outcome) = finish(&mut running).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
    let error = RequestError::Unloaded;
    assert_eq!(finish(&mut waiting).await.1, Outcome::Failed { error });
}

/// A process that keeps its memory, crashes or hangs is killed in time.
#[tokio::test(start_paused = true)]
async fn memory_is_freed_whatever_the_worker_does() {
    for fault in [Fault::Leaks, Fault::HangsInUnload, Fault::DiesInUnload] {
        let script = WorkerScript {
            fault,
            ..WorkerScript::default()
        };
        let test = start(ScriptedWorkers::all(script), tuning());
        finish(&mut test.handle.submit(generate_request("chat"))).await;
        let records = test.handle.unload(ModelSelector::All).await.unwrap();
        assert!(records[0].by_force, "{fault:?}: {records:?}");
        let bound = Tuning::default().unload_timeout + Duration::from_millis(10);
        assert!(records[0].took <= bound, "{fault:?}: {records:?}");
        assert_eq!(test.workers.n_alive(), 0);
        test.supervisor.quit().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hanging_worker_does_not_prevent_a_quit() {
    let script = WorkerScript {
        fault: Fault::HangsInUnload,
        ..WorkerScript::default()
    };
    let test = start(ScriptedWorkers::all(script), tuning());
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    test.supervisor.quit().await;
    assert_eq!(test.workers.n_alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_published_only_when_it_changes() {
    let test = test_supervisor();
    let mut status = test.handle.status();
    advance_time(MINUTE).await;
    let first = status.borrow_and_update().clone();
    let mut response = test.handle.submit(generate_request("chat"));
    let reader = tokio::spawn(async move { finish(&mut response).await });
    let mut phases = Vec::new();
    let mut revision = first.revision;
    while phases.last() != Some(&"ready") {
        status.changed().await.unwrap();
        let now = status.borrow_and_update().clone();
        assert!(now.revision > revision, "{now:?}");
        revision = now.revision;
        let phase = match model(&now).phase {
            // Too short to be seen every time.
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
    // Countdowns, and requests that change nothing, are not published.
    let unknown = test.handle.submit(generate_request("chat")).id();
    status_where(&test.handle, |status| {
        status.queue.is_empty() && matches!(model(status).phase, PhaseStatus::Ready)
    })
    .await;
    advance_time(Duration::from_secs(1)).await;
    let before = status.borrow_and_update().revision;
    test.handle.cancel(unknown);
    test.handle.set_tuning(tuning());
    advance_time(MINUTE).await;
    assert_eq!(status.borrow().revision, before);
    let looked = test.handle.current_status().await;
    assert_eq!(looked.revision, before);
    let shown = model(&status.borrow()).unloads_in.unwrap();
    let left = model(&looked).unloads_in.unwrap();
    assert!(shown - left >= MINUTE, "{shown:?} {left:?}");
}

/// Progress of a load is published about twenty times a second, however often it is reported.
#[tokio::test(start_paused = true)]
async fn progress_alone_is_published_at_most_every_fifty_milliseconds() {
    let script = WorkerScript {
        // Five reports, one every 2 ms.
        load_time: Duration::from_millis(10),
        ..WorkerScript::default()
    };
    let test = start(ScriptedWorkers::all(script), tuning());
    let mut status = test.handle.status();
    let mut response = test.handle.submit(generate_request("chat"));
    let mut shown = Vec::new();
    while shown.last() != Some(&PhaseStatus::Ready) {
        status.changed().await.unwrap();
        shown.push(model(&status.borrow_and_update()).phase.clone());
    }
    let n_loading = shown.iter();
    let n_loading = n_loading.filter(|phase| matches!(phase, PhaseStatus::Loading { .. }));
    assert_eq!(n_loading.count(), 1, "{shown:?}");
    finish(&mut response).await;
}

#[tokio::test(start_paused = true)]
async fn delayed_progress_is_published_when_it_is_due() {
    let script = WorkerScript {
        load_time: Duration::from_secs(5),
        ..WorkerScript::default()
    };
    let test = start(ScriptedWorkers::all(script), tuning());
    let _answer = test.handle.submit(generate_request("chat"));
    advance_time(Duration::from_millis(60)).await;
    let status = test.handle.status().borrow().clone();
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
async fn a_pause_finishes_the_response_and_blocks_the_next_one() {
    let test = test_supervisor();
    let mut running = test.handle.submit(generate_request("chat"));
    first_text(&mut running).await;
    test.handle.set_paused(true);
    assert_eq!(reason(&finish(&mut running).await.1), FinishReason::Stop);
    advance_time(MINUTE).await;
    assert_eq!(test.workers.n_alive(), 0);
    let mut queued = test.handle.submit(generate_request("chat"));
    let event = queued.next().await;
    let paused = Some(crate::governor::LimitReason::Paused);
    assert!(
        matches!(event, Some(ResponseEvent::Queued { blocked_by, .. }) if blocked_by == paused),
        "{event:?}"
    );
    advance_time(100 * MINUTE).await;
    let status = test.handle.status().borrow().clone();
    assert!(status.is_paused && status.restrictions.blocked_by == paused);
    assert_eq!(test.workers.n_started(), 1);
    test.handle.set_paused(false);
    assert_eq!(reason(&finish(&mut queued).await.1), FinishReason::Stop);
}

#[tokio::test(start_paused = true)]
async fn new_settings_take_effect_at_once() {
    let test = test_supervisor();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    test.handle.set_tuning(Tuning {
        idle_unload: Some(MINUTE),
        ..tuning()
    });
    advance_time(MINUTE + Duration::from_secs(1)).await;
    assert_eq!(test.workers.n_alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn signals_from_before_the_start_are_used() {
    let signals = ScriptedSignals::new(critical());
    let workers = ScriptedWorkers::all(WorkerScript::default());
    let supervisor = supervisor(workers, signals.clone(), tuning());
    let handle = supervisor.handle();
    status_where(&handle, |status| status.signals == critical()).await;
    signals.set(SystemSignals::default());
    status_where(&handle, |status| status.signals != critical()).await;
    supervisor.quit().await;
}

/// Starts a supervisor whose first model has 10 GB that cannot be freed, with a budget of 12 GB.
fn supervisor_with_stuck_model() -> TestSupervisor {
    let workers = ScriptedWorkers::new(|number| WorkerScript {
        weight_bytes: [10_000_000_000, 1_000_000_000][number.min(1)],
        fault: [Fault::CannotBeKilled, Fault::None][number.min(1)],
        ..WorkerScript::default()
    });
    start(workers, tuning())
}

#[tokio::test(start_paused = true)]
async fn unloading_a_process_that_cannot_be_killed_fails() {
    let test = supervisor_with_stuck_model();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    let asked = Instant::now();
    for _ in 0..2 {
        let error = test.handle.unload(ModelSelector::All).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&STUCK_PROCESS.to_string()), "{text}");
        let status = test.handle.current_status().await;
        assert_eq!(status.last_error, Some(text));
    }
    let bound = Tuning::default().unload_timeout + Duration::from_secs(11);
    assert!(asked.elapsed() < bound, "{:?}", asked.elapsed());
    // A smaller model still fits.
    let (text, _) = finish(&mut test.handle.submit(generate_request("small"))).await;
    assert_eq!(text, "Paris is the capital.");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_be_killed_does_not_prevent_a_quit() {
    let test = supervisor_with_stuck_model();
    finish(&mut test.handle.submit(generate_request("chat"))).await;
    finish(&mut test.handle.submit(generate_request("small"))).await;
    let asked = Instant::now();
    test.supervisor.quit().await;
    let bound = Tuning::default().unload_timeout + Duration::from_secs(11);
    assert!(asked.elapsed() < bound, "{:?}", asked.elapsed());
    assert_eq!(test.workers.n_alive(), 1);
}

/// Each load makes memory critically short, and its end relieves it.
#[tokio::test(start_paused = true)]
async fn a_request_fails_after_pressure_ended_its_load_twice() {
    let test = test_supervisor();
    let mut response = test.handle.submit(generate_request("chat"));
    let response = tokio::spawn(async move { finish(&mut response).await });
    for n_loads in 1..=2 {
        status_where(&test.handle, |status| {
            let mut models = status.models.iter();
            models.any(|model| matches!(model.phase, PhaseStatus::Loading { .. }))
        })
        .await;
        assert_eq!(test.workers.n_started(), n_loads);
        test.signals.set(critical());
        status_where(&test.handle, |status| status.models.is_empty()).await;
        test.signals.set(SystemSignals::default());
    }
    let (_, outcome) = response.await.unwrap();
    let Outcome::Failed { error } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.to_string().contains("twice"), "{error}");
    advance_time(10 * MINUTE).await;
    assert_eq!(test.workers.n_started(), 2);
}
