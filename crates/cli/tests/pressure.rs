//! Memory pressure on a real machine: a process in a limited control group makes the kernel report
//! pressure while a real child process generates. The response is kept, the model is unloaded, and the
//! next request loads it again.
//!
//! `cargo test -p transom-cli --test pressure -- --nocapture` prints the times for
//! `docs/benchmarks.md`.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of it is a test"
)]

#[path = "fixtures/supervised.rs"]
mod supervised;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use transom_engine::{SamplingParams, TokenEvent};
use transom_signals::test_support::{LimitedCgroup, MemoryPressureProcess};
use transom_signals::{LinuxSignals, MemoryPressure, Paths};
use transom_supervisor::status::UnloadReason;
use transom_supervisor::{
    LimitReason, ModelRequest, Outcome, Response, ResponseEvent, Status, Tuning,
};

const LIMIT_BYTES: u64 = 16 << 20;
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// The work of the process that causes pressure; does nothing in a normal test run.
#[test]
fn memory_pressure_process() {
    MemoryPressureProcess::run_if_started();
}

fn ask(max_tokens: usize) -> ModelRequest {
    let greedy = SamplingParams {
        temperature: 0.0,
        ..SamplingParams::default()
    };
    // With MLX, the slower engine, the response is still running when the pressure begins.
    supervised::ask(
        "starter",
        "Once upon a time".to_owned(),
        max_tokens,
        None,
        greedy,
    )
}

/// Returns the text and the outcome of a response.
async fn follow(mut answer: Response) -> (String, Option<Outcome>) {
    let mut text = String::new();
    while let Ok(Some(event)) = tokio::time::timeout(STEP_LIMIT, answer.next()).await {
        match event {
            ResponseEvent::Token {
                event: TokenEvent::Text { text: more, .. },
            } => text.push_str(&more),
            ResponseEvent::Ended { outcome } => return (text, Some(outcome)),
            _ => {}
        }
    }
    (text, None)
}

async fn wait_for(
    status: &mut watch::Receiver<Arc<Status>>,
    what: &str,
    is_met: impl FnMut(&Arc<Status>) -> bool,
) -> Arc<Status> {
    let met = tokio::time::timeout(STEP_LIMIT, status.wait_for(is_met)).await;
    let met = met.unwrap_or_else(|_| panic!("{what} did not happen"));
    met.unwrap().clone()
}

fn text_has_come(status: &Arc<Status>) -> bool {
    let generating = |model: &transom_supervisor::status::ModelStatus| {
        matches!(
            model.phase,
            transom_supervisor::status::PhaseStatus::Generating { .. }
        )
    };
    status.models.iter().any(generating)
}

/// Another process causes critical pressure.
#[test]
fn under_real_pressure_the_response_is_kept_and_the_model_unloaded() {
    let Some(group) = LimitedCgroup::new_or_skip("ladder", LIMIT_BYTES) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run_under_pressure(&group));
}

async fn run_under_pressure(group: &LimitedCgroup) {
    let signals = LinuxSignals::with_paths(Paths {
        extra_pressure_files: vec![group.pressure_file()],
        ..Paths::default()
    });
    let tuning = Tuning {
        // Long enough for pressure to begin before the response ends, and short for a test.
        finish_timeout: Duration::from_secs(5),
        ..Tuning::default()
    };
    let supervisor = supervised::supervisor(signals, tuning);
    let handle = supervisor.handle();
    let mut status = handle.status();

    let answer = tokio::spawn(follow(handle.submit(ask(100_000))));
    wait_for(&mut status, "an answer", text_has_come).await;
    // On a disk, because pages of a file in memory cannot be evicted.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let hog =
        MemoryPressureProcess::start(group, &folder.path().join("file"), 4 * LIMIT_BYTES).unwrap();

    let is_critical = |status: &Arc<Status>| status.restrictions.memory == MemoryPressure::Critical;
    let critical = wait_for(&mut status, "critical pressure", is_critical).await;
    let noticed = Instant::now();
    assert!(!critical.restrictions.limits.is_empty(), "{critical:?}");

    let (text, outcome) = answer.await.unwrap();
    let answered = noticed.elapsed();
    assert!(!text.is_empty(), "the running response is kept");
    let ended = matches!(outcome, Some(Outcome::Finished { .. }));
    assert!(ended, "{outcome:?}");
    let gone = wait_for(&mut status, "the unload", |status| status.models.is_empty()).await;
    let unloaded = noticed.elapsed();
    let record = gone.last_unload.clone().unwrap();
    assert!(
        matches!(
            record.why,
            UnloadReason::Pressure {
                reason: LimitReason::Memory { .. } | LimitReason::Thrashing
            }
        ),
        "{record:?}"
    );
    assert!(!record.by_force, "{record:?}");
    let held = record.held_bytes.unwrap();
    let freed = record.freed_bytes.unwrap();
    assert!(freed >= held / 10 * 9, "{record:?}");
    println!(
        "critical notice to end of answer {answered:.2?} (bound 5 s), to memory returned \
         {unloaded:.2?}; of that the unload {:.2?}; {:.1} of {:.1} MB by freeing, the rest with \
         the process",
        record.took,
        freed as f64 / 1e6,
        held as f64 / 1e6,
    );

    drop(hog);
    let ended = Instant::now();
    let is_normal = |status: &Arc<Status>| status.restrictions.blocked_by.is_none();
    wait_for(&mut status, "the end of the pressure", is_normal).await;
    println!(
        "work allowed again {:.1?} after the pressure's end",
        ended.elapsed()
    );
    let (text, outcome) = follow(handle.submit(ask(8))).await;
    assert!(
        matches!(outcome, Some(Outcome::Finished { .. })),
        "{outcome:?}"
    );
    assert!(!text.is_empty());
    drop((status, handle));
    supervisor.quit().await;
}
