//! Eight hours of simulated use on a paused clock: requests are submitted and canceled, models and
//! settings change, signals vary, workers crash. This test has its own program, because it counts
//! the resources of the process.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use transom_engine::EngineError;
use transom_signals::{MemoryPressure, ScriptedSignals, SystemSignals, ThermalState};
use transom_supervisor::status::PhaseStatus;
use transom_supervisor::test_support::{
    Fault, ScriptedWorkers, WorkerScript, generate_request, request_for, supervisor,
};
use transom_supervisor::{
    Handle, ModelRequest, ModelSelector, Outcome, RequestError, Response, ResponseEvent, Tuning,
    WhenBlocked, Work,
};

const DURATION: Duration = Duration::from_secs(8 * 3600);

/// Growth of the process after the first hour that is not a leak.
const MAX_GROWTH_BYTES: u64 = 4 << 20;

const MODELS: [&str; 4] = ["chat", "coder", "small", "large"];

/// Reproducible random numbers.
struct Random(ChaCha8Rng);

impl Random {
    /// Returns a number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    /// Returns true once in `n` times on average.
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Number of requests by result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    n_requests: usize,
    n_finished: usize,
    n_loaded: usize,
    n_dropped: usize,
    n_failed: usize,
    n_crashed: usize,
}

/// Resources of the process.
#[derive(Debug)]
struct ProcessResources {
    n_tasks: usize,
    n_descriptors: usize,
    footprint_bytes: u64,
}

fn resources() -> ProcessResources {
    let descriptors = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"));
    ProcessResources {
        n_tasks: tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        n_descriptors: descriptors.expect("the system lists them").count(),
        footprint_bytes: transom_signals::own_footprint_bytes().unwrap_or(0),
    }
}

fn script(number: usize) -> WorkerScript {
    let mut random = Random(ChaCha8Rng::seed_from_u64(number as u64));
    let fault = match random.below(12) {
        0 => Fault::DiesInLoad,
        1 => Fault::DiesAfter(random.below(50) as usize),
        2 => Fault::DiesInUnload,
        3 => Fault::HangsInUnload,
        4 => Fault::Leaks,
        _ => Fault::None,
    };
    let broken = EngineError::Backend {
        during: "load".to_owned(),
        message: "the files are damaged".to_owned(),
    };
    WorkerScript {
        weight_bytes: 1_000_000_000 + random.below(5) * 1_000_000_000,
        load_time: Duration::from_millis(random.below(9_000)),
        load_error: random.one_in(25).then_some(broken),
        tokens: vec!["word ".to_owned(); 1 + random.below(400) as usize],
        token_interval: Duration::from_millis(5 + random.below(60)),
        context_messages: usize::MAX,
        unload_time: Duration::from_millis(random.below(500)),
        has_memory_notice: random.one_in(3),
        fault,
        ..WorkerScript::default()
    }
}

fn signals(random: &mut Random) -> SystemSignals {
    use MemoryPressure as M;
    use ThermalState as T;
    SystemSignals {
        memory: random.choose(&[M::Normal, M::Normal, M::Warning, M::Critical]),
        is_thrashing: random.one_in(10),
        thermal: random.choose(&[T::Nominal, T::Nominal, T::Fair, T::Serious, T::Critical]),
        is_low_power: random.one_in(4),
        is_on_battery: random.one_in(3),
    }
}

fn any_request(random: &mut Random) -> ModelRequest {
    let name = random.choose(&MODELS);
    let request = match random.below(8) {
        0 => request_for(name, Work::Load),
        _ => generate_request(name),
    };
    let when_blocked = random.choose(&[WhenBlocked::Wait, WhenBlocked::Wait, WhenBlocked::Refuse]);
    ModelRequest {
        when_blocked,
        ..request
    }
}

/// Reads a response to its end, or drops it after `patience`; checks that the end occurs once, as
/// the last event.
async fn read(mut response: Response, patience: Option<Duration>) -> Tally {
    let mut tally = Tally::default();
    let reading = async {
        while let Some(event) = response.next().await {
            if let ResponseEvent::Ended { outcome } = event {
                assert_eq!(response.next().await, None, "the end is the last event");
                return outcome;
            }
        }
        panic!("a response was lost");
    };
    // No request may take longer than this.
    let patience_at_most = Duration::from_secs(3600);
    match (
        timeout(patience.unwrap_or(patience_at_most), reading).await,
        patience,
    ) {
        (Ok(Outcome::Finished { .. }), _) => tally.n_finished += 1,
        (Ok(Outcome::Loaded { .. }), _) => tally.n_loaded += 1,
        (Ok(Outcome::Failed { error }), _) => {
            tally.n_failed += 1;
            tally.n_crashed += usize::from(matches!(error, RequestError::WorkerGone { .. }));
        }
        (Err(_), Some(_)) => tally.n_dropped += 1,
        (Err(_), None) => panic!("a response never ended"),
    }
    tally
}

/// Simulates use for `time`; returns when all requests have ended and all models are unloaded.
async fn run(
    time: Duration,
    random: &mut Random,
    handle: &Handle,
    signals_source: &ScriptedSignals,
    tally: &mut Tally,
) {
    let end = Instant::now() + time;
    let mut readers = JoinSet::new();
    while Instant::now() < end {
        match random.below(10) {
            0..=5 => {
                for _ in 0..1 + random.below(4) {
                    let response = handle.submit(any_request(random));
                    tally.n_requests += 1;
                    let patience = random.one_in(4).then(|| random.below(8_000));
                    readers.spawn(read(response, patience.map(Duration::from_millis)));
                }
            }
            6 | 7 => signals_source.set(signals(random)),
            8 => {
                let name = random.choose(&MODELS).to_owned();
                let which = random.one_in(2).then_some(ModelSelector::All);
                let which = which.unwrap_or(ModelSelector::Model(name));
                unload(handle, which).await;
            }
            _ => handle.set_tuning(Tuning {
                idle_unload: random.one_in(2).then_some(Duration::from_secs(100)),
                keep_loaded: random.one_in(4),
                ..Tuning::default()
            }),
        }
        let pause = Duration::from_millis(random.below(90_000));
        let _ = timeout(pause, std::future::pending::<()>()).await;
    }
    signals_source.set(SystemSignals::default());
    while let Some(read) = readers.join_next().await {
        add(tally, read.expect("no reader panics"));
    }
    unload(handle, ModelSelector::All).await;
}

async fn unload(handle: &Handle, which: ModelSelector) {
    let unloaded = handle.unload(which).await;
    unloaded.expect("the supervisor lives");
}

fn add(tally: &mut Tally, more: Tally) {
    tally.n_finished += more.n_finished;
    tally.n_loaded += more.n_loaded;
    tally.n_dropped += more.n_dropped;
    tally.n_failed += more.n_failed;
    tally.n_crashed += more.n_crashed;
}

#[tokio::test(start_paused = true)]
async fn eight_hours_of_use_lose_no_response_and_leak_nothing() {
    let workers = ScriptedWorkers::new(script);
    let signals_source = ScriptedSignals::default();
    let mut random = Random(ChaCha8Rng::seed_from_u64(8));
    let mut tally = Tally::default();
    let n_tasks_before = resources().n_tasks;
    let supervisor = supervisor(workers.clone(), signals_source.clone(), Tuning::default());
    let handle = supervisor.handle();
    let began = Instant::now();

    run(
        DURATION / 8,
        &mut random,
        &handle,
        &signals_source,
        &mut tally,
    )
    .await;
    let after_an_hour = resources();
    run(
        DURATION / 8 * 7,
        &mut random,
        &handle,
        &signals_source,
        &mut tally,
    )
    .await;
    let at_the_end = resources();

    assert!(began.elapsed() >= DURATION);
    let n_ended = tally.n_finished + tally.n_loaded + tally.n_dropped + tally.n_failed;
    assert_eq!(n_ended, tally.n_requests, "{tally:?}");
    assert!(tally.n_finished > 100 && tally.n_loaded > 10, "{tally:?}");
    assert!(tally.n_crashed > 10 && tally.n_dropped > 10, "{tally:?}");
    assert!(workers.n_started() > 100, "{}", workers.n_started());
    assert_eq!(workers.n_alive(), 0);
    assert_eq!(at_the_end.n_tasks, after_an_hour.n_tasks);
    assert_eq!(at_the_end.n_descriptors, after_an_hour.n_descriptors);
    assert!(
        at_the_end.footprint_bytes <= after_an_hour.footprint_bytes + MAX_GROWTH_BYTES,
        "{after_an_hour:?} {at_the_end:?}"
    );
    let status = handle.status().borrow().clone();
    assert!(status.queue.is_empty() && status.models.is_empty());
    assert_eq!(status.in_use_bytes, 0);
    assert!(!status.keeps_awake);

    // The supervisor still works, and leaves no task behind.
    let mut last = handle.submit(request_for("chat", Work::Load));
    while last.next().await.is_some() {}
    let status = handle.status().borrow().clone();
    let is_ready = |phase: &PhaseStatus| matches!(phase, PhaseStatus::Ready);
    assert!(status.models.iter().all(|model| is_ready(&model.phase)));
    supervisor.quit().await;
    drop((handle, last));
    let _ = timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
    assert_eq!(workers.n_alive(), 0);
    assert_eq!(resources().n_tasks, n_tasks_before);
}
