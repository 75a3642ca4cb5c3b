//! Children killed in every phase of their lives, 200 times: each death is told once, nothing stays
//! behind, and the next worker works.
//!
//! One test in a program of its own, because it counts what the whole process holds.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    reason = "a test ends at the first thing that goes wrong"
)]

#[path = "fixtures/engine.rs"]
mod engine;
#[path = "fixtures/talk.rs"]
mod talk;

use rustix::process::{Pid, Signal, kill_process};
use transom_engine::TokenEvent;
use transom_engine_host::WorkerEnd;
use transom_engine_host::wire::Report;
use transom_signals::own_footprint_bytes;

use talk::{Talk, workers};

const PHASES: [&str; 5] = [
    "answer",
    "hang-in-load",
    "hang-in-prefill",
    "hang-in-decode",
    "hang-in-unload",
];

const N_ROUNDS: usize = 40;

/// Drives a worker into the phase that its mode names, and kills its process there.
async fn killed_in(mode: &str) -> WorkerEnd {
    let mut talk = Talk::start(&workers(mode));
    let id = talk.measure().await;
    match mode {
        "hang-in-load" => {
            talk.send(engine::load());
            talk.until(|report| matches!(report, Report::LoadProgress { .. }))
                .await;
        }
        "hang-in-prefill" | "hang-in-decode" => {
            talk.load().await;
            talk.send(engine::generate(1, "a prompt of more than sixteen tokens"));
            talk.until(|report| match report {
                Report::Event { event, .. } => match mode {
                    "hang-in-prefill" => matches!(event, TokenEvent::Prefill { .. }),
                    _ => engine::is_text(event),
                },
                _ => false,
            })
            .await;
        }
        "hang-in-unload" => {
            talk.load().await;
            talk.send(engine::UNLOAD);
        }
        _ => {}
    }
    let pid = Pid::from_raw(id.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let end = talk.end().await;
    // Reaped: its id names nothing any more, not even a zombie.
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
    end
}

async fn answers() {
    let mut talk = Talk::start(&workers("answer"));
    talk.load().await;
    talk.send(engine::generate(1, "hello"));
    talk.job_end().await.unwrap();
    assert_eq!(talk.text(), "hello world");
    assert_eq!(talk.leave().await, WorkerEnd::AsTold);
}

fn n_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Every process, dead or alive, whose parent is this one.
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
async fn two_hundred_kills_in_every_phase_leave_nothing_behind() {
    let expected = WorkerEnd::Died {
        how: "killed by signal 9 (SIGKILL)".to_owned(),
        last_words: String::new(),
    };
    for phase in PHASES {
        assert_eq!(killed_in(phase).await, expected, "{phase}");
    }
    answers().await;
    let descriptors_before = n_descriptors();
    let footprint_before = own_footprint_bytes().unwrap();
    for round in 0..N_ROUNDS {
        for phase in PHASES {
            assert_eq!(killed_in(phase).await, expected, "{phase}, round {round}");
        }
        answers().await;
    }
    assert_eq!(n_descriptors(), descriptors_before);
    assert_eq!(n_children(), 0);
    let grown = own_footprint_bytes()
        .unwrap()
        .saturating_sub(footprint_before);
    assert!(grown < 4 << 20, "grew by {grown} bytes over 240 workers");
}
