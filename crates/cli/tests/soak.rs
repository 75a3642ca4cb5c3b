//! Hard use of real engine processes, of MLX and then of llama.cpp: answers, cancels, unloads, kills,
//! memory pressure. At the end nothing has leaked: no descriptor, no process, no memory.
//!
//! `TRANSOM_SOAK_SECONDS=600 cargo test -p transom-cli --test soak` soaks for longer.
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

/// How often everything is done while leaks are looked for, at least.
const N_CYCLES: usize = 1;

/// The folder for MLX, the file for llama.cpp.
const FORMS: [&str; 2] = ["starter", "starter/starter.gguf"];

/// Longer than anything here may take, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What `work` gives; a soak that would wait for ever says so instead.
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("it ends in time")
}

/// What is done to an answer while it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    Nothing,
    Cancel,
    Unload,
    Kill,
    /// Critical pressure for a moment.
    Squeeze,
}

const DEEDS: [Deed; 8] = [
    Deed::Nothing,
    Deed::Cancel,
    Deed::Nothing,
    Deed::Kill,
    Deed::Nothing,
    Deed::Unload,
    Deed::Cancel,
    Deed::Squeeze,
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
        // A thread may end meanwhile.
        let text = fs::read_to_string(path).unwrap_or_default();
        children.extend(text.split_whitespace().map(|id| id.parse::<u32>().unwrap()));
    }
    children
}

fn n_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn round(form: &str, handle: &Handle, signals: &ScriptedSignals, round: usize) {
    let deed = DEEDS[round % DEEDS.len()];
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
                    act(deed, handle, signals, &answer).await;
                }
            }
            ResponseEvent::Ended { outcome: end } => outcome = Some(end),
            _ => {}
        }
    }
    signals.set(Default::default());
    let outcome = outcome.expect("every ask ends");
    let is_expected = match (&outcome, deed) {
        (Outcome::Finished { reason, .. }, Deed::Nothing) => *reason == FinishReason::Length,
        // The answer may have ended by itself before the deed took effect.
        (Outcome::Finished { .. }, _) => true,
        (Outcome::Failed { error }, Deed::Kill) => matches!(error, RequestError::WorkerGone { .. }),
        (Outcome::Failed { .. } | Outcome::Loaded { .. }, _) => false,
    };
    assert!(is_expected, "{form}, round {round}, {deed:?}: {outcome:?}");
}

async fn act(
    deed: Deed,
    handle: &Handle,
    signals: &ScriptedSignals,
    answer: &transom_supervisor::Response,
) {
    match deed {
        Deed::Nothing => {}
        Deed::Cancel => answer.cancel_handle().cancel(),
        Deed::Unload => {
            in_time(handle.unload(ModelSelector::All)).await.unwrap();
        }
        Deed::Kill => {
            for child in children() {
                let killed = std::process::Command::new("kill")
                    .args(["-9", &child.to_string()])
                    .status();
                assert!(killed.unwrap().success());
            }
        }
        Deed::Squeeze => signals.set(parse_simulation("memory=critical thrashing").unwrap()),
    }
}

#[test]
fn hard_use_leaks_nothing_and_loses_no_answer() {
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
    // Once through every deed, so that whatever is made once has been made.
    for index in 0..DEEDS.len() {
        round(form, &handle, &signals, index).await;
    }
    in_time(handle.unload(ModelSelector::All)).await.unwrap();
    let before = (n_descriptors(), own_footprint_bytes().unwrap());
    let began = Instant::now();
    let mut n_rounds = 0;
    while n_rounds < N_CYCLES * DEEDS.len()
        || began.elapsed() < time
        || !n_rounds.is_multiple_of(DEEDS.len())
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
    assert_eq!(
        children(),
        [] as [u32; 0],
        "every process is gone and reaped"
    );
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
