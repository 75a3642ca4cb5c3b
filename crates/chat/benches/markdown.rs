//! What growing Markdown costs: `cargo bench -p transom-chat --bench markdown`.
//!
//! CPU milliseconds for 1,000 tokens of four letters, streamed with a tail after every token
//! (about 50 tokens a second at a display's rate) and after every eighth (500 tokens a second):
//! the first thousand, and the thousand after 50 KB and 500 KB of the same. The last must cost at
//! most half as much again as the first; the program ends with an error if not.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark: its table is its output, and it ends at the first thing that goes wrong"
)]

use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use transom_chat::markdown::{Stream, render};

const N_TOKENS: usize = 1000;
const TOKEN: usize = 4;
const N_RUNS: usize = 5;
const MAX_RATIO: f64 = 1.5;

fn main() -> ExitCode {
    let start = cpu_time();
    render("```rust\nfn main() {}\n```\n");
    println!(
        "first code block, syntaxes loaded: {:.1} ms, {:.1} MB resident after it\n",
        milliseconds(cpu_time() - start),
        resident_mb()
    );
    println!(
        "{:>14} {:>8} {:>10} {:>10} {:>10} {:>7} {:>12}",
        "ms/1000 tokens", "tail", "first", "at 50 KB", "at 500 KB", "ratio", "worst tail B"
    );
    let mut is_flat = true;
    for (name, text) in texts() {
        for (every, tail) in [(1, "50/s"), (8, "500/s")] {
            let (costs, worst) = costs(&text, every);
            let ratio = costs[2].as_secs_f64() / costs[0].as_secs_f64();
            is_flat &= ratio <= MAX_RATIO;
            println!(
                "{name:>14} {tail:>8} {:>10.1} {:>10.1} {:>10.1} {ratio:>7.2} {worst:>12}",
                milliseconds(costs[0]),
                milliseconds(costs[1]),
                milliseconds(costs[2]),
            );
        }
    }
    println!("\n{:.1} MB resident at the end", resident_mb());
    if is_flat {
        ExitCode::SUCCESS
    } else {
        println!("not flat: a ratio is over {MAX_RATIO}");
        ExitCode::FAILURE
    }
}

/// The least of some runs, at the three places, and the longest tail there.
fn costs(text: &str, every: usize) -> ([Duration; 3], usize) {
    let mut least = [Duration::MAX; 3];
    let mut worst = 0;
    for _ in 0..N_RUNS {
        let mut stream = Stream::new();
        let mut at = 0;
        for (cost, from) in least.iter_mut().zip([0, 50_000, 500_000]) {
            stream.push(&text[at..from]);
            stream.tail();
            at = from;
            let start = cpu_time();
            for i in 0..N_TOKENS {
                stream.push(&text[at..at + TOKEN]);
                at += TOKEN;
                if i % every == 0 {
                    worst = worst.max(stream.tail().html.len());
                }
            }
            *cost = (*cost).min(cpu_time() - start);
        }
    }
    (least, worst)
}

/// ASCII of at least 504 KB each, the same kind from end to end.
fn texts() -> Vec<(&'static str, String)> {
    let long = |begin: &str, part: &dyn Fn(usize) -> String| {
        let mut text = begin.to_string();
        let mut i = 0;
        while text.len() < 520_000 {
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
            "maths",
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

/// CPU time of this thread, which does all the work: others on the machine do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// 0.0 where the system does not say.
fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.map_or(0.0, |number| number.parse::<f64>().unwrap() / 1024.0)
}
