//! Kills child processes in every phase, 200 times: each exit is reported once, nothing leaks, and
//! the next worker works.
//!
//! This is one test in its own program, because it counts the descriptors and children of the whole
//! process.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails at the first error")]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/test_worker.rs"]
mod test_worker;

use rustix::process::{Pid, Signal, kill_process};
use transom_engine::TokenEvent;
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::Report;
use transom_signals::own_footprint_bytes;

use test_worker::{TestWorker, workers};

const PHASES: [&str; 5] = [
    "answer",
    "hang-in-load",
    "hang-in-prefill",
    "hang-in-decode",
    "hang-in-unload",
];

const N_ROUNDS: usize = 40;

/// Brings a worker into the phase of `mode` and kills its process there.
async fn killed_in(mode: &str) -> WorkerEnd {
    let mut worker = TestWorker::start(&workers(mode));
    let id = worker.measure().await;
    match mode {
        "hang-in-load" => {
            worker.send(engine::load());
            worker
                .until(|report| matches!(report, Report::LoadProgress { .. }))
                .await;
        }
        "hang-in-prefill" | "hang-in-decode" => {
            worker.load().await;
            worker.send(engine::generate(1, "a prompt of more than sixteen tokens"));
            worker
                .until(|report| match report {
                    Report::Event { event, .. } => match mode {
                        "hang-in-prefill" => matches!(event, TokenEvent::Prefill { .. }),
                        _ => engine::is_text(event),
                    },
                    _ => false,
                })
                .await;
        }
        "hang-in-unload" => {
            worker.load().await;
            worker.send(engine::UNLOAD);
        }
        _ => {}
    }
    let pid = Pid::from_raw(id.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let end = worker.end().await;
    // It was reaped, so it is not even a zombie.
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    end
}

async fn check_that_a_worker_works() {
    let mut worker = TestWorker::start(&workers("answer"));
    worker.load().await;
    worker.send(engine::generate(1, "hello"));
    worker.job_end().await.unwrap();
    assert_eq!(worker.text(), "hello world");
    assert_eq!(worker.shut_down().await, WorkerEnd::Requested);
}

fn n_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the number of child processes, zombies included.
fn n_children() -> usize {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        let (_, after_name) = stat.rsplit_once(')')?;
        Some(after_name.split_whitespace().nth(1)? == own)
    });
    stats.filter(|is_ours| *is_ours).count()
}

#[tokio::test]
async fn two_hundred_kills_in_all_phases_leak_nothing() {
    let expected = WorkerEnd::Died {
        how: "killed by signal 9 (SIGKILL)".to_owned(),
        stderr_tail: String::new(),
    };
    for phase in PHASES {
        assert_eq!(killed_in(phase).await, expected, "{phase}");
    }
    check_that_a_worker_works().await;
    let descriptors_before = n_descriptors();
    let footprint_before = own_footprint_bytes().unwrap();
    for round in 0..N_ROUNDS {
        for phase in PHASES {
            assert_eq!(killed_in(phase).await, expected, "{phase}, round {round}");
        }
        check_that_a_worker_works().await;
    }
    assert_eq!(n_descriptors(), descriptors_before);
    assert_eq!(n_children(), 0);
    let grown = own_footprint_bytes()
        .unwrap()
        .saturating_sub(footprint_before);
    assert!(grown < 4 << 20, "grew by {grown} bytes over 240 workers");
}
