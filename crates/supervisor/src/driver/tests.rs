//! Tests of the whole supervisor on a paused clock, with scripted workers and signals.

mod responses;
mod saved_states;
mod unloads;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use transom_engine::{FinishReason, TokenEvent};
use transom_signals::{MemoryPressure, ScriptedSignals, SystemSignals};

use super::{KeepAwakeFn, Supervisor};
use crate::governor::Tuning;
use crate::handle::Handle;
use crate::response::{Outcome, Response, ResponseEvent};
use crate::saving::SavingLimits;
use crate::status::{ModelStatus, Status};
use crate::test_support::{
    ScriptedWorkers, WorkerScript, finish, first_text, hardware, reason, status_where,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A supervisor with its scripted environment.
struct TestSupervisor {
    supervisor: Supervisor,
    handle: Handle,
    workers: ScriptedWorkers,
    signals: ScriptedSignals,
    /// Number of guards that keep the machine awake.
    n_keep_awake: Arc<AtomicUsize>,
}

struct AwakeGuard(Arc<AtomicUsize>);

impl Drop for AwakeGuard {
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

fn start(workers: ScriptedWorkers, tuning: Tuning) -> TestSupervisor {
    // Scripted workers run one job at a time.
    let tuning = Tuning {
        parallel_requests: 1,
        ..tuning
    };
    let signals = ScriptedSignals::default();
    let n_keep_awake = Arc::<AtomicUsize>::default();
    let counter = n_keep_awake.clone();
    let keep_awake: KeepAwakeFn = Box::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        Box::new(AwakeGuard(counter.clone()))
    });
    let supervisor = Supervisor::start_with(
        Arc::new(workers.clone()),
        Arc::new(signals.clone()),
        &hardware(),
        tuning,
        keep_awake,
    )
    .with_saving(SavingLimits::on_a_large_disk());
    TestSupervisor {
        handle: supervisor.handle(),
        supervisor,
        workers,
        signals,
        n_keep_awake,
    }
}

fn test_supervisor() -> TestSupervisor {
    start(ScriptedWorkers::all(WorkerScript::default()), tuning())
}

/// Starts a supervisor whose responses continue until they are stopped.
fn endless_supervisor() -> TestSupervisor {
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
async fn advance_time(time: Duration) {
    // It always times out.
    let _ = timeout(time, std::future::pending::<()>()).await;
}

fn model(status: &Status) -> &ModelStatus {
    status.models.first().expect("a model is there")
}
