//! Stress test of real child processes, of MLX and then of llama.cpp: responses, cancellations, unloads,
//! kills, memory pressure. At the end no descriptor, process or memory has leaked.
//!
//! `TRANSOM_SOAK_SECONDS=600 cargo test -p transom-cli --test soak` runs for longer.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of it is a test"
)]

#[path = "fixtures/supervised.rs"]
mod supervised;

use std::fs;
use std::time::{Duration, Instant};

use transom_engine::{FinishReason, SamplingParams, TokenEvent};
use transom_signals::{ScriptedSignals, own_footprint_bytes, parse_simulation};
use transom_supervisor::{
    Handle, ModelRequest, ModelSelector, Outcome, RequestError, ResponseEvent, Tuning,
};

/// The minimum number of cycles through all actions while leaks are measured.
const N_CYCLES: usize = 1;

/// The folder for MLX, the file for llama.cpp.
const FORMS: [&str; 2] = ["starter", "starter/starter.gguf"];

/// The limit of every step, on a busy machine.
const STEP_LIMIT: Duration = Duration::from_secs(120);

/// Awaits `work`, and fails if it takes too long.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(STEP_LIMIT, work).await;
    done.expect("it ends in time")
}

/// An action during a response.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Action {
    Nothing,
    Cancel,
    Unload,
    Kill,
    /// Sets critical memory pressure for a moment.
    Pressure,
}

const ACTIONS: [Action; 8] = [
    Action::Nothing,
    Action::Cancel,
    Action::Nothing,
    Action::Kill,
    Action::Nothing,
    Action::Unload,
    Action::Cancel,
    Action::Pressure,
];

fn ask(form: &str, round: usize) -> ModelRequest {
    let prompt = format!("Round {round}: once upon a time there were {}", round * 7);
    supervised::ask(form, prompt, 24, Some(512), SamplingParams::default())
}

/// Process ids of this process's children.
fn children() -> Vec<u32> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path().join("children");
        // The thread may have ended.
        let text = fs::read_to_string(path).unwrap_or_default();
        children.extend(text.split_whitespace().map(|id| id.parse::<u32>().unwrap()));
    }
    children
}

fn n_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn round(form: &str, handle: &Handle, signals: &ScriptedSignals, round: usize) {
    let action = ACTIONS[round % ACTIONS.len()];
    let mut answer = handle.submit(ask(form, round));
    let mut n_texts = 0;
    let mut outcome = None;
    while let Some(event) = in_time(answer.next()).await {
        match event {
            ResponseEvent::Token {
                event: TokenEvent::Text { .. },
            } => {
                n_texts += 1;
                if n_texts == 1 {
                    perform(action, handle, signals, &answer).await;
                }
            }
            ResponseEvent::Ended { outcome: end } => outcome = Some(end),
            _ => {}
        }
    }
    signals.set(Default::default());
    let outcome = outcome.expect("every request ends");
    let is_expected = match (&outcome, action) {
        (Outcome::Finished { reason, .. }, Action::Nothing) => *reason == FinishReason::Length,
        // The response may have ended before the action took effect.
        (Outcome::Finished { .. }, _) => true,
        (Outcome::Failed { error }, Action::Kill) => {
            matches!(error, RequestError::WorkerGone { .. })
        }
        (Outcome::Failed { .. } | Outcome::Loaded { .. }, _) => false,
    };
    assert!(
        is_expected,
        "{form}, round {round}, {action:?}: {outcome:?}"
    );
}

async fn perform(
    action: Action,
    handle: &Handle,
    signals: &ScriptedSignals,
    answer: &transom_supervisor::Response,
) {
    match action {
        Action::Nothing => {}
        Action::Cancel => answer.cancel_handle().cancel(),
        Action::Unload => {
            in_time(handle.unload(ModelSelector::All)).await.unwrap();
        }
        Action::Kill => {
            for child in children() {
                let killed = std::process::Command::new("kill")
                    .args(["-9", &child.to_string()])
                    .status();
                assert!(killed.unwrap().success());
            }
        }
        Action::Pressure => signals.set(parse_simulation("memory=critical thrashing").unwrap()),
    }
}

#[test]
fn stress_leaks_nothing_and_loses_no_response() {
    let seconds = std::env::var("TRANSOM_SOAK_SECONDS");
    let seconds: u64 = seconds.map_or(0, |text| text.parse().expect("a number"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for form in FORMS {
        runtime.block_on(soak(form, Duration::from_secs(seconds / 2)));
    }
}

async fn soak(form: &str, time: Duration) {
    let signals = ScriptedSignals::default();
    let tuning = Tuning {
        max_blocked_time: Duration::from_secs(600),
        ..Tuning::default()
    };
    let supervisor = supervised::supervisor(signals.clone(), tuning);
    let handle = supervisor.handle();
    // Every action runs once before the measurement, so that one-time allocations do not count.
    for index in 0..ACTIONS.len() {
        round(form, &handle, &signals, index).await;
    }
    in_time(handle.unload(ModelSelector::All)).await.unwrap();
    let before = (n_descriptors(), own_footprint_bytes().unwrap());
    let began = Instant::now();
    let mut n_rounds = 0;
    while n_rounds < N_CYCLES * ACTIONS.len()
        || began.elapsed() < time
        || !n_rounds.is_multiple_of(ACTIONS.len())
    {
        round(form, &handle, &signals, n_rounds).await;
        n_rounds += 1;
    }
    in_time(handle.unload(ModelSelector::All)).await.unwrap();
    let after = (n_descriptors(), own_footprint_bytes().unwrap());
    println!(
        "{form}: {n_rounds} rounds in {:.0?}; (descriptors, bytes) {before:?} -> {after:?}",
        began.elapsed()
    );
    assert_eq!(children(), [] as [u32; 0], "every child process was reaped");
    assert!(after.0 <= before.0, "descriptors: {before:?} -> {after:?}");
    assert!(
        after.1 <= before.1 + (8 << 20),
        "memory: {before:?} -> {after:?}"
    );
    let status = handle.status().borrow().clone();
    assert!(
        status.queue.is_empty() && status.models.is_empty(),
        "{status:?}"
    );
    drop(handle);
    in_time(supervisor.quit()).await;
}
