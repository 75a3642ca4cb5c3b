//! Measures the cost of the process boundary: the same scripted engine in this process and in a
//! child process.
//!
//! `cargo bench -p transom-engine-host --features test-support` prints a table. The paced engine
//! works 200 µs for each token, as a fast model would, so nothing is joined. The unpaced one does
//! no work, which shows the upper limit. CPU time is the time of all threads of both processes,
//! counted by the scheduler (Linux only).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints its table and fails at the first error"
)]

#[path = "../tests/fixtures/engine.rs"]
mod engine;
#[path = "../tests/fixtures/test_worker.rs"]
mod test_worker;

use std::time::{Duration, Instant};

use transom_engine::{Engine, GenerationParams, JobControl, ModelSource, Prompt, TokenEvent};
use transom_engine_host::wire::Report;

use engine::ModeEngine;
use test_worker::{TestWorker, workers};

/// Odd, so there is a median.
const N_RUNS: usize = 7;

const N_PACED: usize = 10_000;
const N_FLAT: usize = 1_000_000;

/// The measurements of one response.
struct Run {
    wall: Duration,
    cpu: Option<Duration>,
    n_events: usize,
}

fn main() {
    // All arguments, such as the `--bench` of cargo, are ignored.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!(
        "{:>28} {:>10} {:>10} {:>10} {:>10}",
        "", "tokens/s", "us/token", "CPU us", "messages"
    );
    let mut rows = Vec::new();
    for (name, mode, n_tokens) in [
        ("paced", format!("busy:{N_PACED}"), N_PACED),
        ("unpaced", format!("flat:{N_FLAT}"), N_FLAT),
    ] {
        // In turns, so both run under the same conditions.
        let mut inside = Vec::new();
        let mut child = Vec::new();
        for _ in 0..N_RUNS {
            inside.push(in_process(&mode));
            child.push(runtime.block_on(through_a_process(&mode)));
        }
        for (place, runs) in [("in process", inside), ("through a process", child)] {
            let run = median(runs);
            print_row(&format!("{name}, {place}"), &run, n_tokens);
            rows.push((run, n_tokens));
        }
    }
    if let [(inside, n_tokens), (child, _), ..] = &*rows {
        let wall = child.wall.as_secs_f64() - inside.wall.as_secs_f64();
        println!(
            "paced, extra wall time: {:.1} us/token",
            wall * 1e6 / *n_tokens as f64
        );
        if let (Some(inside), Some(child)) = (inside.cpu, child.cpu) {
            let cpu = child.as_secs_f64() - inside.as_secs_f64();
            println!(
                "paced, extra CPU time:  {:.1} us/token",
                cpu * 1e6 / *n_tokens as f64
            );
        }
    }
}

fn print_row(name: &str, run: &Run, n_tokens: usize) {
    let per_token = |time: Duration| time.as_secs_f64() * 1e6 / n_tokens as f64;
    let cpu = run
        .cpu
        .map_or("-".to_owned(), |cpu| format!("{:.1}", per_token(cpu)));
    println!(
        "{name:>28} {:>10.0} {:>10.2} {cpu:>10} {:>10}",
        n_tokens as f64 / run.wall.as_secs_f64(),
        per_token(run.wall),
        run.n_events,
    );
}

fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by_key(|run| run.wall);
    runs.swap_remove(N_RUNS / 2)
}

fn in_process(mode: &str) -> Run {
    let source = ModelSource {
        path: "model".into(),
    };
    let control = JobControl::new();
    let engine = ModeEngine::new(mode);
    let mut model = engine
        .load(&source, &engine::limits(), &control, &mut |_| {})
        .unwrap();
    let prompt = model.prepare(&Prompt::Text("hello".to_owned())).unwrap();
    let cpu_before = cpu_time(std::process::id());
    let start = Instant::now();
    let mut n_events = 0;
    let mut sink = |event: TokenEvent| {
        std::hint::black_box(event);
        n_events += 1;
    };
    model
        .generate(&prompt, &GenerationParams::default(), &control, &mut sink)
        .unwrap();
    Run {
        wall: start.elapsed(),
        cpu: cpu_time(std::process::id())
            .zip(cpu_before)
            .map(|(after, before)| after - before),
        n_events,
    }
}

async fn through_a_process(mode: &str) -> Run {
    let mut worker = TestWorker::start(&workers(mode));
    let child = worker.measure().await;
    worker.load().await;
    let cpu = || Some(cpu_time(std::process::id())? + cpu_time(child)?);
    let cpu_before = cpu();
    let start = Instant::now();
    worker.send(engine::generate(1, "hello"));
    let mut n_events = 0;
    loop {
        match worker.next().await.expect("the worker is running") {
            Report::JobEnded { result, .. } => {
                result.unwrap();
                break;
            }
            _ => n_events += 1,
        }
    }
    let run = Run {
        wall: start.elapsed(),
        cpu: cpu().zip(cpu_before).map(|(after, before)| after - before),
        n_events,
    };
    worker.shut_down().await;
    run
}

/// Returns the CPU time of the current threads of a process.
fn cpu_time(process: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let times = threads.flatten().filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanoseconds = stat.split_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    });
    Some(times.sum())
}
