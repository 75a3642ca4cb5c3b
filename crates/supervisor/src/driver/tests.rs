//! The whole supervisor on a paused clock, with scripted workers and signals.

mod answers;
mod unloads;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use transom_engine::{FinishReason, TokenEvent};
use transom_signals::{MemoryPressure, ScriptedSignals, SystemSignals};

use super::StayAwake;
use crate::answer::{Answer, AnswerEvent, Outcome};
use crate::governor::Tuning;
use crate::handle::{Handle, Supervisor};
use crate::status::{ModelStatus, Status};
use crate::test_support::{ScriptedWorkers, WorkerScript, hardware};

const MINUTE: Duration = Duration::from_secs(60);

/// A supervisor and its surroundings.
struct World {
    supervisor: Supervisor,
    handle: Handle,
    workers: ScriptedWorkers,
    signals: ScriptedSignals,
    /// Wishes to stay awake that are held now.
    n_awake: Arc<AtomicUsize>,
}

struct Awake(Arc<AtomicUsize>);

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn tuning() -> Tuning {
    Tuning {
        idle_unload: Some(3 * MINUTE),
        ..Tuning::default()
    }
}

fn start(workers: ScriptedWorkers, tuning: Tuning) -> World {
    let signals = ScriptedSignals::default();
    let n_awake = Arc::<AtomicUsize>::default();
    let of_supervisor = n_awake.clone();
    let stay_awake: StayAwake = Box::new(move || {
        of_supervisor.fetch_add(1, Ordering::SeqCst);
        Box::new(Awake(of_supervisor.clone()))
    });
    let supervisor = Supervisor::start_with(
        Arc::new(workers.clone()),
        Arc::new(signals.clone()),
        &hardware(),
        tuning,
        stay_awake,
    );
    World {
        handle: supervisor.handle(),
        supervisor,
        workers,
        signals,
        n_awake,
    }
}

fn world() -> World {
    start(ScriptedWorkers::all(WorkerScript::default()), tuning())
}

/// A world whose answers go on until they are ended.
fn world_without_end() -> World {
    let script = WorkerScript {
        tokens: vec!["word ".to_owned(); 100_000],
        ..WorkerScript::default()
    };
    start(ScriptedWorkers::all(script), tuning())
}

fn critical() -> SystemSignals {
    SystemSignals {
        memory: MemoryPressure::Critical,
        ..SystemSignals::default()
    }
}

/// Lets time pass, and everything happen that is due in it.
async fn pass(time: Duration) {
    // It has no other end.
    let _ = timeout(time, std::future::pending::<()>()).await;
}

/// The answer's text and end.
async fn finish(answer: &mut Answer) -> (String, Outcome) {
    let mut said = String::new();
    while let Some(event) = answer.next().await {
        match event {
            AnswerEvent::Token {
                event: TokenEvent::Text { text, .. },
            } => said.push_str(&text),
            AnswerEvent::Ended { outcome } => return (said, outcome),
            AnswerEvent::Token { .. }
            | AnswerEvent::Queued { .. }
            | AnswerEvent::Loading { .. } => {}
        }
    }
    panic!("the answer of {:?} stopped without an end", answer.id());
}

/// Reads until the first text.
async fn first_text(answer: &mut Answer) {
    while let Some(event) = answer.next().await {
        if let AnswerEvent::Token {
            event: TokenEvent::Text { .. },
        } = event
        {
            return;
        }
    }
    panic!("no text came");
}

#[track_caller]
fn reason(outcome: &Outcome) -> FinishReason {
    match outcome {
        Outcome::Finished { reason, .. } => *reason,
        Outcome::Loaded { .. } | Outcome::Failed { .. } => panic!("{outcome:?}"),
    }
}

async fn status_where(handle: &Handle, is_it: impl Fn(&Status) -> bool) -> Arc<Status> {
    let mut status = handle.status();
    let status = status.wait_for(|status| is_it(status)).await;
    status.expect("the supervisor lives").clone()
}

fn model(status: &Status) -> &ModelStatus {
    status.models.first().expect("a model is there")
}
