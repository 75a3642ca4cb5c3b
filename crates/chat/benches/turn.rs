//! Measures the cost of a streamed token in Rust: from the supervisor through the turn to a window,
//! including the writer on disk.
//!
//! `cargo bench -p transom-chat --bench turn` prints CPU time per 1,000 tokens at 50 and 500 tokens
//! per second, in a new response and in one of 50 KB, and the ratio of the two. Only rendering
//! grows with the response (see the benchmark `markdown`). It runs in real time, for about a
//! minute. CPU time is that of all threads; the scripted model costs next to nothing.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark: its table is its output, and it ends at the first thing that goes wrong"
)]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;
use transom_chat::{Routes, Routing, TurnOptions, Turns, Update};
use transom_signals::ScriptedSignals;
use transom_store::{ConversationSettings, ModelSettings, Store, Timestamp};
use transom_supervisor::Tuning;
use transom_supervisor::test_support::{ScriptedWorkers, WorkerScript, spec, supervisor};

/// Text as models write it: prose, a list, some code.
const SAMPLE: &str = "\
Memory pressure is what the system reports when **most pages** are in use. A program that gives \
back what it can rebuild, such as caches, helps everybody; see `madvise` for how.\n\n\
1. Measure first, because guesses mislead.\n\
2. Give back the largest thing that nobody needs now.\n\
3. Measure again, and stop when it is enough.\n\n\
```rust\n\
fn trim(cache: &mut Cache, target: usize) -> usize {\n    \
    let before = cache.len();\n    \
    while cache.len() > target {\n        \
        cache.pop_oldest();\n    \
    }\n    \
    before - cache.len()\n\
}\n\
```\n\n\
After that the pressure falls, *usually* within a second or two, and the rest goes on as before.\n\n";

/// Bytes in a long response.
const LONG: usize = 50_000;

/// The results of one run.
struct Run {
    cpu: Duration,
    n_tokens: usize,
    n_updates: usize,
    n_bytes: usize,
}

fn main() {
    // Cargo passes `--bench`; it and other arguments are ignored.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!(
        "{:>10} {:>12} {:>16} {:>10} {:>12} {:>8}",
        "tokens/s", "already", "CPU ms / 1,000", "updates", "bytes each", "ratio"
    );
    for (per_second, n_tokens) in [(50, 1_000), (500, 4_000)] {
        let mut fresh = None;
        for n_already in [0, LONG] {
            let run = runtime.block_on(stream(per_second, n_tokens, n_already));
            let cost = run.cpu.as_secs_f64() * 1e6 / run.n_tokens as f64;
            let first = *fresh.get_or_insert(cost);
            println!(
                "{per_second:>10} {n_already:>12} {cost:>16.1} {:>10} {:>12} {:>8.2}",
                run.n_updates,
                run.n_bytes / run.n_updates.max(1),
                cost / first,
            );
        }
    }
}

/// Streams `n_tokens` into a response of `n_already` bytes, with one window.
async fn stream(per_second: u32, n_tokens: usize, n_already: usize) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Timestamp(0)).unwrap().store;
    let head = SAMPLE.repeat(n_already / SAMPLE.len()) + "Now.\n\n";
    let script = WorkerScript {
        tokens: [head].into_iter().chain(tokens(n_tokens)).collect(),
        token_interval: Duration::from_secs(1) / per_second,
        load_time: Duration::ZERO,
        ..WorkerScript::default()
    };
    let supervisor = supervisor(
        ScriptedWorkers::all(script),
        ScriptedSignals::default(),
        Tuning::default(),
    );
    let (_handles, current) = watch::channel(supervisor.handle());
    let turns = Turns::new(current, store, || Timestamp(0), |_| ());
    let options = TurnOptions {
        model: spec("script"),
        settings: ModelSettings::default(),
        conversation: ConversationSettings::default(),
        over_budget: false,
        is_private: false,
        routing: Routing::Off,
        routes: Routes::default(),
        contained_tokens: 0,
    };
    let started = turns.ask(None, "Go on", "", options).await.unwrap();
    let mut updates = turns.follow(started.answer);
    let (mut n_updates, mut n_bytes) = (0, 0);
    let mut before = None;
    while let Some(update) = updates.next().await {
        if matches!(update, Update::Text { .. }) {
            // The head has arrived and is rendered.
            before.get_or_insert_with(cpu_time);
            n_updates += 1;
            // The size as sent to a page.
            n_bytes += serde_json::to_string(&update).unwrap().len();
        }
    }
    let cpu = cpu_time() - before.expect("text came");
    supervisor.quit().await;
    Run {
        cpu,
        n_tokens,
        n_updates,
        n_bytes,
    }
}

/// Returns words of the sample in a loop, one per token.
fn tokens(n: usize) -> impl Iterator<Item = String> {
    let words = SAMPLE.split_inclusive(' ').map(str::to_owned);
    words.collect::<Vec<_>>().into_iter().cycle().take(n)
}

/// Returns the CPU time of all threads.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap()
}
