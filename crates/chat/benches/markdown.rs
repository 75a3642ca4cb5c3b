//! Measures the cost of growing Markdown: `cargo bench -p transom-chat --bench markdown`.
//!
//! Streams 1,000 tokens of four letters into responses of 5, 50 and 200 KB, at 50 and 500 tokens
//! per second, as the app does: a render is due 16 ms after the previous one, and later if renders
//! are slow (see `RenderInterval`). Time is simulated; CPU time is measured.
//!
//! Prints the CPU time per render and per 1,000 tokens, the share of one core, and the time between
//! renders. Exits with an error if a response of 50 KB takes more than 5 % of a core.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark: its table is its output, and it ends at the first thing that goes wrong"
)]

use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use transom_chat::markdown::{Document, RenderInterval, render};

const N_TOKENS: u32 = 1000;
const TOKEN: usize = 4;
const N_RUNS: usize = 3;
const SIZES: [usize; 3] = [5_000, 50_000, 200_000];
const FRAME: Duration = Duration::from_millis(16);
const MAX_SHARE: f64 = 0.05;

fn main() -> ExitCode {
    let start = cpu_time();
    render("```rust\nfn main() {}\n```\n");
    println!(
        "first code block, syntaxes loaded: {:.1} ms, {:.1} MB resident after it\n",
        milliseconds(cpu_time() - start),
        resident_mb()
    );
    println!(
        "{:>14} {:>7} {:>9} {:>12} {:>15} {:>10} {:>12}",
        "kind", "KB", "tokens/s", "ms per render", "ms/1,000 tokens", "% of core", "ms between"
    );
    let mut is_fast_enough = true;
    for (name, text) in texts() {
        for size in SIZES {
            for rate in [50, 500] {
                let run = (0..N_RUNS)
                    .map(|_| stream(&text, size, rate))
                    .min_by_key(|run| run.cpu)
                    .unwrap();
                let share = run.cpu.as_secs_f64() / run.lasted.as_secs_f64();
                is_fast_enough &= size > 50_000 || share <= MAX_SHARE;
                println!(
                    "{name:>14} {:>7} {rate:>9} {:>12.2} {:>15.0} {:>10.1} {:>12.0}",
                    size / 1000,
                    milliseconds(run.cpu) / f64::from(run.n_renders),
                    milliseconds(run.cpu),
                    share * 100.0,
                    milliseconds(run.lasted) / f64::from(run.n_renders),
                );
            }
        }
    }
    println!("\n{:.1} MB resident at the end", resident_mb());
    if is_fast_enough {
        ExitCode::SUCCESS
    } else {
        println!("too slow: a response of 50 KB takes more than 5 % of a core");
        ExitCode::FAILURE
    }
}

struct Run {
    cpu: Duration,
    lasted: Duration,
    n_renders: u32,
}

/// Streams [`N_TOKENS`] into a response of `size` bytes.
fn stream(text: &str, size: usize, rate: u32) -> Run {
    let mut document = Document::default();
    document.update(&text[..size], false);
    document.update(&text[..size], false);
    let token_time = Duration::from_secs(1) / rate;
    let (mut now, mut due) = (Duration::ZERO, Duration::ZERO);
    let mut interval = RenderInterval::default();
    let mut run = Run {
        cpu: Duration::ZERO,
        lasted: token_time * N_TOKENS,
        n_renders: 0,
    };
    let mut end = size;
    for _ in 0..N_TOKENS {
        now += token_time;
        end += TOKEN;
        if now < due {
            continue;
        }
        let start = cpu_time();
        let before = document.version();
        document.update(&text[..end], false);
        std::hint::black_box(document.change_since(before));
        let cost = cpu_time() - start;
        interval.record(cost);
        due = now + FRAME.max(interval.get());
        run.cpu += cost;
        run.n_renders += 1;
    }
    run
}

/// Returns ASCII texts of at least 204 KB, each of one kind.
fn texts() -> Vec<(&'static str, String)> {
    let long = |begin: &str, part: &dyn Fn(usize) -> String| {
        let mut text = begin.to_string();
        let mut i = 0;
        while text.len() < 210_000 {
            text.push_str(&part(i));
            i += 1;
        }
        text
    };
    vec![
        (
            "prose",
            long("", &|i| {
                format!(
                    "Sentence {i} of a paragraph says **something** plain, with `a name` and [a link](https://example.org/{i}). It goes on for some words more, as people's answers do, and then it ends. Then another one follows.\n\n"
                )
            }),
        ),
        (
            "code",
            long("```rust\n", &|i| {
                format!(
                    "/// Adds {i}.\npub fn add_{i}(value: &mut Vec<u32>) -> Option<usize> {{\n    let name = \"item\"; // as it was\n    value.push({i});\n    Some(value.len())\n}}\n\n"
                )
            }),
        ),
        (
            "list",
            long("", &|i| {
                format!("- item {i} with **bold** words and `code`, long enough to be one\n")
            }),
        ),
        (
            "table",
            long("| name | value | remark |\n|---|---:|:-:|\n", &|i| {
                format!("| row {i} | {i} | some *words* |\n")
            }),
        ),
        (
            "math",
            long("", &|i| {
                format!(
                    "Then $x_{{{i}}} = \\frac{{a}}{{b}}$ holds, and so does\n\n$$\n\\sum_{{k=1}}^{{{i}}} k^2 = \\sqrt{{\\alpha + \\beta}}\n$$\n\nas was said. "
                )
            }),
        ),
        (
            "code in a list",
            long("", &|i| {
                format!(
                    "1. Step {i} with code:\n\n   ```python\n   def step(x):  # comment\n       return x + {i}\n   ```\n\n"
                )
            }),
        ),
    ]
}

/// Returns the CPU time of this thread, which does all the work. Other threads do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns 0.0 if the system does not report it.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.map_or(0.0, |number| number.parse::<f64>().unwrap() / 1024.0)
}
