//! Tests of real processes that misbehave: each fails one response, and the next request gets a new
//! process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use transom_engine::FinishReason;
use transom_engine_host::{ProcessWorkers, Worker, WorkerEnd, Workers};
use transom_signals::{MemoryPressure, ScriptedSignals, SystemSignals};
use transom_supervisor::instance;
use transom_supervisor::status::{PhaseStatus, UnloadReason};
use transom_supervisor::test_support::{
    finish, first_text, generate_request, hardware, reason, status_where, supervisor,
};
use transom_supervisor::{
    ClientId, ModelSelector, Outcome, RequestError, Supervisor, Tuning, Work,
};

/// The first processes run an engine of this mode, all others one that responds "hello world".
struct Processes {
    first_mode: &'static str,
    n_first: usize,
    n_started: Arc<AtomicUsize>,
}

impl Processes {
    fn first(first_mode: &'static str) -> Self {
        Self {
            first_mode,
            n_first: 1,
            n_started: Arc::default(),
        }
    }
}

impl Workers for Processes {
    fn start(&self) -> Worker {
        let mode = match self.n_started.fetch_add(1, Ordering::SeqCst) < self.n_first {
            true => self.first_mode,
            false => "answer",
        };
        let program = env!("CARGO_BIN_EXE_supervisor-test-child").into();
        ProcessWorkers::new(program, vec![mode.into()]).start()
    }
}

/// Settings with a short time for stops.
fn hurried() -> Tuning {
    Tuning {
        stop_timeout: Duration::from_millis(200),
        ..Tuning::default()
    }
}

fn error(outcome: Outcome) -> RequestError {
    match outcome {
        Outcome::Failed { error } => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_engine_that_panics_is_replaced_for_the_next_request() {
    for mode in ["panic", "backend-error"] {
        let workers = Processes::first(mode);
        let supervisor = supervisor(workers, ScriptedSignals::default(), hurried());
        let handle = supervisor.handle();
        let (reply, outcome) = finish(&mut handle.submit(generate_request("chat"))).await;
        assert!(reply.starts_with("hello"), "{reply}");
        let text = error(outcome).to_string();
        assert!(text.contains("ask again"), "{text}");
        let status = status_where(&handle, |status| status.last_unload.is_some()).await;
        let unload = status.last_unload.as_ref().unwrap();
        assert_eq!(unload.why, UnloadReason::Fault);
        assert!(!unload.by_force, "{unload:?}");
        let (reply, _) = finish(&mut handle.submit(generate_request("chat"))).await;
        assert_eq!(reply, "hello world");
        supervisor.quit().await;
    }
}

#[tokio::test]
async fn an_engine_that_ignores_a_stop_is_killed_and_the_queue_continues() {
    let workers = Processes::first("hang-in-decode");
    let supervisor = supervisor(workers, ScriptedSignals::default(), hurried());
    let handle = supervisor.handle();
    let mut hanging = handle.submit(generate_request("chat"));
    let mut waiting = handle.submit(generate_request("chat"));
    first_text(&mut hanging).await;
    hanging.cancel_handle().cancel();
    let gone = error(finish(&mut hanging).await.1);
    let RequestError::WorkerGone { end, during } = gone else {
        panic!("{gone:?}");
    };
    assert!(matches!(end, WorkerEnd::Unresponsive { .. }), "{end:?}");
    assert_eq!(during, "stopping");
    assert_eq!(finish(&mut waiting).await.0, "hello world");
    supervisor.quit().await;
}

#[tokio::test]
async fn an_unload_kills_an_engine_that_ignores_its_stop() {
    let workers = Processes::first("hang-in-decode");
    let supervisor = supervisor(workers, ScriptedSignals::default(), hurried());
    let handle = supervisor.handle();
    let mut hanging = handle.submit(generate_request("chat"));
    first_text(&mut hanging).await;
    let records = handle.unload(ModelSelector::All).await.unwrap();
    assert!(records[0].by_force, "{records:?}");
    assert_eq!(records[0].why, UnloadReason::Requested);
    supervisor.quit().await;
}

/// A third load would end as the first two did.
#[tokio::test]
async fn a_request_fails_after_pressure_ended_the_loads_of_two_processes() {
    let workers = Processes {
        n_first: 2,
        ..Processes::first("slow-load")
    };
    let n_started = workers.n_started.clone();
    let signals = ScriptedSignals::default();
    let supervisor = supervisor(workers, signals.clone(), hurried());
    let handle = supervisor.handle();
    let mut response = handle.submit(generate_request("chat"));
    let response = tokio::spawn(async move { finish(&mut response).await });
    for n_loads in 1..=2 {
        status_where(&handle, |status| {
            let mut models = status.models.iter();
            models.any(|model| matches!(model.phase, PhaseStatus::Loading { progress: Some(_) }))
        })
        .await;
        assert_eq!(n_started.load(Ordering::SeqCst), n_loads);
        signals.set(SystemSignals {
            memory: MemoryPressure::Critical,
            ..SystemSignals::default()
        });
        status_where(&handle, |status| status.models.is_empty()).await;
        signals.set(SystemSignals::default());
        // No process is running now, so the quiet time before the next load can be skipped.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::time::resume();
    }
    let failed = error(response.await.unwrap().1);
    assert!(failed.to_string().contains("twice"), "{failed}");
    let (reply, _) = finish(&mut handle.submit(generate_request("chat"))).await;
    assert_eq!(reply, "hello world");
    assert_eq!(n_started.load(Ordering::SeqCst), 3);
    supervisor.quit().await;
}

/// In one real process: the short response ends while the long one goes on, the text of each reaches its
/// own reader, and an unload ends all.
#[tokio::test]
async fn responses_run_beside_each_other_in_one_process() {
    let signals = Arc::new(ScriptedSignals::default());
    let workers = Processes::first("endless");
    let n_started = workers.n_started.clone();
    let tuning = Tuning::default();
    let supervisor = Supervisor::start(Arc::new(workers), signals, &hardware(), tuning);
    let handle = supervisor.handle();
    let mut long = handle.submit(generate_request("chat"));
    first_text(&mut long).await;
    let mut short = generate_request("chat");
    short.client = ClientId::new("other");
    if let Work::Generate(request) = &mut short.work {
        request.params.max_tokens = Some(3);
    }
    let mut short = handle.submit(short);
    let both = status_where(&handle, |status| status.running.len() == 2).await;
    assert_eq!(both.models.len(), 1);
    assert_eq!(both.queue, []);
    let ids = both.running.iter().map(|request| request.request_id);
    assert_eq!(ids.collect::<Vec<_>>(), [long.id(), short.id()]);
    let (text, outcome) = finish(&mut short).await;
    assert_eq!((&*text, reason(&outcome)), ("xxx", FinishReason::Length));
    first_text(&mut long).await;
    long.cancel_handle().cancel();
    let (_, outcome) = finish(&mut long).await;
    assert_eq!(reason(&outcome), FinishReason::Canceled);

    let mut responses = [0, 1].map(|_| handle.submit(generate_request("chat")));
    for response in &mut responses {
        first_text(response).await;
    }
    let records = handle.unload(ModelSelector::All);
    for response in &mut responses {
        let (_, outcome) = finish(response).await;
        assert_eq!(reason(&outcome), FinishReason::Canceled);
    }
    assert_eq!(records.await.unwrap().len(), 1);
    assert_eq!(n_started.load(Ordering::SeqCst), 1);
    supervisor.quit().await;
}

/// As on a disk that hangs.
#[tokio::test]
async fn a_quit_does_not_wait_for_a_kv_cache_that_is_being_saved() {
    let data = tempfile::tempdir().unwrap();
    let workers = Processes::first("hang-in-save");
    let start = || supervisor(workers, ScriptedSignals::default(), hurried());
    let connection = instance::open(data.path(), start).await.unwrap();
    let handle = connection.handle();
    finish(&mut handle.submit(generate_request("chat"))).await;
    // A pause saves the KV cache.
    handle.set_paused(true);
    status_where(&handle, |status| {
        let mut phases = status.models.iter().map(|model| &model.phase);
        phases.any(|phase| matches!(phase, PhaseStatus::Unloading { .. }))
    })
    .await;
    let closed = tokio::time::timeout(Duration::from_secs(20), connection.close()).await;
    closed.expect("a quit ends in time");
    let status = handle.status();
    let unload = status.borrow().last_unload.clone().unwrap();
    assert_eq!(unload.why, UnloadReason::Paused);
    assert!(unload.by_force, "{unload:?}");
}

/// The footprint is measured after each response.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_reported_footprint_is_current() {
    let workers = Processes::first("grows:64");
    let supervisor = supervisor(workers, ScriptedSignals::default(), hurried());
    let handle = supervisor.handle();
    finish(&mut handle.submit(generate_request("chat"))).await;
    let status = handle.current_status().await;
    let shown = status.models[0].footprint_bytes.unwrap();
    assert!(shown >= 64 << 20, "{shown} bytes");
    let records = handle.unload(ModelSelector::All).await.unwrap();
    let held = records[0].held_bytes.unwrap();
    assert!(held >= 64 << 20, "{held} bytes");
    supervisor.quit().await;
}
