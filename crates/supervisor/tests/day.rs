//! Eight hours of simulated use on a paused clock: people ask, change their minds and models, the
//! machine complains, workers die. Alone in its program, since it counts what the process holds.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use transom_engine::EngineError;
use transom_signals::{MemoryPressure, ScriptedSignals, SystemSignals, ThermalState};
use transom_supervisor::status::PhaseStatus;
use transom_supervisor::test_support::{
    Fault, ScriptedWorkers, WorkerScript, ask, ask_for, supervisor,
};
use transom_supervisor::{
    Answer, AnswerEvent, Ask, AskError, Handle, Outcome, Tuning, Unload, WhenHeld, Work,
};

const DAY: Duration = Duration::from_secs(8 * 3600);

/// Growth of the process over the day, beyond what its first hour took, that is no leak.
const FLAT_BYTES: u64 = 4 << 20;

const MODELS: [&str; 4] = ["chat", "coder", "small", "large"];

/// Chance, for a day that can be lived again.
struct Dice(ChaCha8Rng);

impl Dice {
    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    /// Whether something happens that does so once in `n` times.
    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// What became of the asks.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    n_asked: usize,
    n_finished: usize,
    n_loaded: usize,
    n_dropped: usize,
    n_failed: usize,
    n_crashed: usize,
}

/// What the process holds.
#[derive(Debug)]
struct Holdings {
    n_tasks: usize,
    n_descriptors: usize,
    footprint_bytes: u64,
}

fn holdings() -> Holdings {
    let descriptors = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"));
    Holdings {
        n_tasks: tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks(),
        n_descriptors: descriptors.expect("the system lists them").count(),
        footprint_bytes: transom_signals::own_footprint_bytes().unwrap_or(0),
    }
}

fn script(number: usize) -> WorkerScript {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(number as u64));
    let fault = match dice.below(12) {
        0 => Fault::DiesInLoad,
        1 => Fault::DiesAfter(dice.below(50) as usize),
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
        weight_bytes: 1_000_000_000 + dice.below(5) * 1_000_000_000,
        load_time: Duration::from_millis(dice.below(9_000)),
        load_error: dice.once_in(25).then_some(broken),
        tokens: vec!["word ".to_owned(); 1 + dice.below(400) as usize],
        token_interval: Duration::from_millis(5 + dice.below(60)),
        unload_time: Duration::from_millis(dice.below(500)),
        has_memory_notice: dice.once_in(3),
        fault,
    }
}

fn signals(dice: &mut Dice) -> SystemSignals {
    use MemoryPressure as M;
    use ThermalState as T;
    SystemSignals {
        memory: dice.one_of(&[M::Normal, M::Normal, M::Warning, M::Critical]),
        is_thrashing: dice.once_in(10),
        thermal: dice.one_of(&[T::Nominal, T::Nominal, T::Fair, T::Serious, T::Critical]),
        is_low_power: dice.once_in(4),
        is_on_battery: dice.once_in(3),
    }
}

fn any_ask(dice: &mut Dice) -> Ask {
    let name = dice.one_of(&MODELS);
    let ask = match dice.below(8) {
        0 => ask_for(name, Work::Load),
        _ => ask(name),
    };
    let when_held = dice.one_of(&[WhenHeld::Wait, WhenHeld::Wait, WhenHeld::Refuse]);
    Ask { when_held, ..ask }
}

/// Reads an answer to its end, or drops it after `patience`; checks that the end comes once, last.
async fn read(mut answer: Answer, patience: Option<Duration>) -> Tally {
    let mut tally = Tally::default();
    let reading = async {
        while let Some(event) = answer.next().await {
            if let AnswerEvent::Ended { outcome } = event {
                assert_eq!(answer.next().await, None, "the end is the last event");
                return outcome;
            }
        }
        panic!("an answer was lost");
    };
    // No ask may take longer than this, whatever happens.
    let patience_at_most = Duration::from_secs(3600);
    match (
        timeout(patience.unwrap_or(patience_at_most), reading).await,
        patience,
    ) {
        (Ok(Outcome::Finished { .. }), _) => tally.n_finished += 1,
        (Ok(Outcome::Loaded { .. }), _) => tally.n_loaded += 1,
        (Ok(Outcome::Failed { error }), _) => {
            tally.n_failed += 1;
            tally.n_crashed += usize::from(matches!(error, AskError::WorkerGone { .. }));
        }
        (Err(_), Some(_)) => tally.n_dropped += 1,
        (Err(_), None) => panic!("an answer never ended"),
    }
    tally
}

/// Lives for `time`; returns when every ask of it is over and the models are gone.
async fn live(
    time: Duration,
    dice: &mut Dice,
    handle: &Handle,
    machine: &ScriptedSignals,
    tally: &mut Tally,
) {
    let evening = Instant::now() + time;
    let mut readers = JoinSet::new();
    while Instant::now() < evening {
        match dice.below(10) {
            0..=5 => {
                for _ in 0..1 + dice.below(4) {
                    let answer = handle.ask(any_ask(dice));
                    tally.n_asked += 1;
                    let patience = dice.once_in(4).then(|| dice.below(8_000));
                    readers.spawn(read(answer, patience.map(Duration::from_millis)));
                }
            }
            6 | 7 => machine.set(signals(dice)),
            8 => {
                let name = dice.one_of(&MODELS).to_owned();
                let which = dice.once_in(2).then_some(Unload::All);
                let which = which.unwrap_or(Unload::Model(name));
                unload(handle, which).await;
            }
            _ => handle.tune(Tuning {
                idle_unload: dice.once_in(2).then_some(Duration::from_secs(100)),
                keep_loaded: dice.once_in(4),
                ..Tuning::default()
            }),
        }
        let pause = Duration::from_millis(dice.below(90_000));
        let _ = timeout(pause, std::future::pending::<()>()).await;
    }
    machine.set(SystemSignals::default());
    while let Some(read) = readers.join_next().await {
        add(tally, read.expect("no reader panics"));
    }
    unload(handle, Unload::All).await;
}

async fn unload(handle: &Handle, which: Unload) {
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
async fn after_eight_hours_no_answer_is_lost_and_nothing_has_grown() {
    let workers = ScriptedWorkers::new(script);
    let machine = ScriptedSignals::default();
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(8));
    let mut tally = Tally::default();
    let n_tasks_before = holdings().n_tasks;
    let supervisor = supervisor(workers.clone(), machine.clone(), Tuning::default());
    let handle = supervisor.handle();
    let began = Instant::now();

    live(DAY / 8, &mut dice, &handle, &machine, &mut tally).await;
    let after_an_hour = holdings();
    live(DAY / 8 * 7, &mut dice, &handle, &machine, &mut tally).await;
    let at_the_end = holdings();

    assert!(began.elapsed() >= DAY);
    let n_ended = tally.n_finished + tally.n_loaded + tally.n_dropped + tally.n_failed;
    assert_eq!(n_ended, tally.n_asked, "{tally:?}");
    assert!(tally.n_finished > 100 && tally.n_loaded > 10, "{tally:?}");
    assert!(tally.n_crashed > 10 && tally.n_dropped > 10, "{tally:?}");
    assert!(workers.n_started() > 100, "{}", workers.n_started());
    assert_eq!(workers.n_alive(), 0);
    assert_eq!(at_the_end.n_tasks, after_an_hour.n_tasks);
    assert_eq!(at_the_end.n_descriptors, after_an_hour.n_descriptors);
    assert!(
        at_the_end.footprint_bytes <= after_an_hour.footprint_bytes + FLAT_BYTES,
        "{after_an_hour:?} {at_the_end:?}"
    );
    let status = handle.status().borrow().clone();
    assert!(status.queue.is_empty() && status.models.is_empty());
    assert_eq!(status.in_use_bytes, 0);
    assert!(!status.keeps_awake);

    // It still works, and ends as it began.
    let mut last = handle.ask(ask_for("chat", Work::Load));
    while last.next().await.is_some() {}
    let status = handle.status().borrow().clone();
    let is_ready = |phase: &PhaseStatus| matches!(phase, PhaseStatus::Ready);
    assert!(status.models.iter().all(|model| is_ready(&model.phase)));
    supervisor.quit().await;
    drop((handle, last));
    let _ = timeout(Duration::from_secs(1), std::future::pending::<()>()).await;
    assert_eq!(workers.n_alive(), 0);
    assert_eq!(holdings().n_tasks, n_tasks_before);
}
