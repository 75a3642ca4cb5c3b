//! The whole supervisor on a paused clock, with scripted workers and signals.

mod answers;
mod saved_states;
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
use crate::test_support::{
    ScriptedWorkers, WorkerScript, finish, first_text, hardware, reason, status_where,
};

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

fn model(status: &Status) -> &ModelStatus {
    status.models.first().expect("a model is there")
}
