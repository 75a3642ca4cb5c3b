//! Asks: from the first event to the end, and every way to get there.

use transom_engine_host::WorkerEnd;

use super::*;
use crate::request::{AskError, Unload, Work};
use crate::status::PhaseStatus;
use crate::test_support::{Fault, ask, ask_for};

#[tokio::test(start_paused = true)]
async fn an_ask_is_loaded_for_and_answered_in_order() {
    let world = world();
    let mut answer = world.handle.ask(ask("chat"));
    let mut seen = Vec::new();
    while let Some(event) = answer.next().await {
        let name = match event {
            AnswerEvent::Queued { .. } => "queued",
            AnswerEvent::Loading { .. } => "loading",
            AnswerEvent::Token {
                event: TokenEvent::Started { .. },
            } => "started",
            AnswerEvent::Token {
                event: TokenEvent::Prefill { .. },
            } => "prefill",
            AnswerEvent::Token { .. } => "text",
            AnswerEvent::Ended { outcome } => {
                assert_eq!(reason(&outcome), FinishReason::Stop);
                "ended"
            }
        };
        if seen.last() != Some(&name) {
            seen.push(name);
        }
    }
    assert_eq!(seen, ["loading", "started", "prefill", "text", "ended"]);
    assert_eq!(world.workers.n_started(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_load_tells_what_the_model_is_and_its_status_is_there_with_the_end() {
    let world = world();
    let mut answer = world.handle.ask(ask_for("chat", Work::Load));
    let (_, outcome) = finish(&mut answer).await;
    let Outcome::Loaded { info } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(info.name, "chat");
    let status = world.handle.status().borrow().clone();
    assert_eq!(model(&status).phase, PhaseStatus::Ready);
    assert_eq!(model(&status).load_time, Some(Duration::from_millis(400)));
    assert_eq!(status.process_id, std::process::id());
}

#[tokio::test(start_paused = true)]
async fn dropping_an_answer_cancels_it_and_the_next_one_begins() {
    let world = world_without_end();
    let mut first = world.handle.ask(ask("chat"));
    first_text(&mut first).await;
    let mut second = world.handle.ask(ask("chat"));
    assert_eq!(
        second.next().await,
        Some(AnswerEvent::Queued {
            position: 1,
            held: None
        })
    );
    drop(first);
    first_text(&mut second).await;
    second.canceller().cancel();
    let (_, outcome) = finish(&mut second).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
}

#[tokio::test(start_paused = true)]
async fn a_canceller_works_from_another_thread() {
    let world = world_without_end();
    let mut answer = world.handle.ask(ask("chat"));
    first_text(&mut answer).await;
    let canceller = answer.canceller();
    std::thread::spawn(move || canceller.cancel())
        .join()
        .unwrap();
    let (_, outcome) = finish(&mut answer).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
}

/// D062: requests wait in one queue, and know their place.
#[tokio::test(start_paused = true)]
async fn two_handles_share_one_queue_and_positions_count_down() {
    let world = world_without_end();
    let other = world.handle.clone();
    let mut first = world.handle.ask(ask("chat"));
    first_text(&mut first).await;
    let mut second = other.ask(ask("chat"));
    let mut third = world.handle.ask(ask("chat"));
    let queued = |position| {
        let held = None;
        Some(AnswerEvent::Queued { position, held })
    };
    assert_eq!(second.next().await, queued(1));
    assert_eq!(third.next().await, queued(2));
    assert!(first.id() != second.id() && second.id() != third.id());
    first.canceller().cancel();
    assert_eq!(third.next().await, queued(1));
    second.canceller().cancel();
    first_text(&mut third).await;
    assert_eq!(world.workers.n_started(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_ask_too_many_is_refused_at_once() {
    let world = world_without_end();
    let asked: Vec<Answer> = (0..=Tuning::default().queue_limit)
        .map(|_| world.handle.ask(ask("chat")))
        .collect();
    let mut refused = world.handle.ask(ask("chat"));
    let (_, outcome) = finish(&mut refused).await;
    assert_eq!(
        outcome,
        Outcome::Failed {
            error: AskError::Busy {
                waiting: Tuning::default().queue_limit
            }
        }
    );
    drop(asked);
}

#[tokio::test(start_paused = true)]
async fn a_crash_costs_one_answer_and_the_next_ask_gets_a_new_worker() {
    let workers = ScriptedWorkers::new(|number| WorkerScript {
        fault: if number == 0 {
            Fault::DiesAfter(2)
        } else {
            Fault::None
        },
        ..WorkerScript::default()
    });
    let world = start(workers, tuning());
    let mut answer = world.handle.ask(ask("chat"));
    let mut waiting = world.handle.ask(ask("chat"));
    let (said, outcome) = finish(&mut answer).await;
    assert_eq!(said, "Paris is");
    let Outcome::Failed {
        error: AskError::WorkerGone { end, during },
    } = outcome
    else {
        panic!("{outcome:?}");
    };
    assert!(matches!(end, WorkerEnd::Died { .. }), "{end:?}");
    assert_eq!(during, "answering");
    let (said, outcome) = finish(&mut waiting).await;
    assert_eq!(said, "Paris is the capital.");
    assert_eq!(reason(&outcome), FinishReason::Stop);
    assert_eq!((world.workers.n_started(), world.workers.n_alive()), (2, 1));
    assert!(world.handle.status().borrow().last_error.is_some());
}

/// D077: a busy model finishes and is then unloaded.
#[tokio::test(start_paused = true)]
async fn critical_pressure_while_generating_finishes_then_unloads() {
    let world = world();
    let mut answer = world.handle.ask(ask("chat"));
    first_text(&mut answer).await;
    world.signals.set(critical());
    let (_, outcome) = finish(&mut answer).await;
    assert_eq!(reason(&outcome), FinishReason::Stop);
    let status = status_where(&world.handle, |status| status.models.is_empty()).await;
    let unload = status.last_unload.as_ref().unwrap();
    assert_eq!(unload.held_bytes, Some(2_000_000_006));
    assert_eq!(unload.freed_bytes, unload.held_bytes);
    assert!(!unload.by_force);
    assert_eq!(status.signals, critical());
    assert_eq!(world.workers.n_alive(), 0);
}

/// D073: however long an answer is, critical pressure gives it no more than its bound.
#[tokio::test(start_paused = true)]
async fn critical_pressure_ends_an_answer_that_takes_too_long() {
    let world = world_without_end();
    let mut answer = world.handle.ask(ask("chat"));
    first_text(&mut answer).await;
    let began = tokio::time::Instant::now();
    world.signals.set(critical());
    let (_, outcome) = finish(&mut answer).await;
    assert_eq!(reason(&outcome), FinishReason::Shed);
    let took = began.elapsed();
    let bound = Tuning::default().finish_within;
    assert!(
        took >= bound && took < bound + Duration::from_millis(100),
        "{took:?}"
    );
}

/// D095: only as long as somebody waits for work.
#[tokio::test(start_paused = true)]
async fn the_machine_is_kept_awake_only_while_it_works() {
    let world = world();
    assert_eq!(world.n_awake.load(Ordering::SeqCst), 0);
    let mut answer = world.handle.ask(ask("chat"));
    first_text(&mut answer).await;
    assert_eq!(world.n_awake.load(Ordering::SeqCst), 1);
    assert!(world.handle.status().borrow().keeps_awake);
    finish(&mut answer).await;
    pass(Duration::from_millis(1)).await;
    assert_eq!(world.n_awake.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn quitting_ends_the_answer_that_runs_and_those_that_wait() {
    let world = world_without_end();
    let mut running = world.handle.ask(ask("chat"));
    let mut waiting = world.handle.ask(ask("chat"));
    first_text(&mut running).await;
    world.supervisor.quit().await;
    assert_eq!(world.workers.n_alive(), 0);
    let (_, outcome) = finish(&mut running).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);
    let quitting = Outcome::Failed {
        error: AskError::Quitting,
    };
    assert_eq!(finish(&mut waiting).await.1, quitting);
    let mut late = world.handle.ask(ask("chat"));
    assert_eq!(finish(&mut late).await.1, quitting);
    assert_eq!(
        world.handle.unload(Unload::All).await,
        Err(AskError::Quitting)
    );
    let mut status = world.handle.status();
    while status.changed().await.is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_nobody_holds_quits_by_itself() {
    let world = world();
    let mut answer = world.handle.ask(ask("chat"));
    finish(&mut answer).await;
    let mut status = world.handle.status();
    drop((world.supervisor, world.handle, answer));
    while status.changed().await.is_ok() {}
    assert_eq!(world.workers.n_alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_ends_takes_the_answer_with_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let mut answer = {
        let _inside = runtime.enter();
        world_without_end().handle.ask(ask("chat"))
    };
    runtime.shutdown_background();
    let (_, outcome) = finish(&mut answer).await;
    let Outcome::Failed { error } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(matches!(error, AskError::InstanceGone { .. }), "{error:?}");
}
