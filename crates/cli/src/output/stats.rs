//! The numbers of an answer, in words.

use std::time::Duration;

use transom_engine::{ModelInfo, Stats};

/// One line: tokens, waiting time, speeds, memory. What was not measured, or did not happen, is left
/// out.
pub(crate) fn stats_line(stats: &Stats) -> String {
    let cached = match stats.cached_tokens {
        0 => String::new(),
        n => format!(" ({n} from the cache)"),
    };
    let mut parts = vec![
        format!("{} prompt tokens{cached}", stats.prompt_tokens),
        format!("{} generated", stats.generated_tokens),
        format!("first after {}", seconds(stats.time_to_first_token)),
    ];
    if let Some(rate) = stats.prefill_tokens_per_second() {
        parts.push(format!("prefill {} tok/s", rate_text(rate)));
    }
    if let Some(rate) = stats.decode_tokens_per_second() {
        parts.push(format!("decode {} tok/s", rate_text(rate)));
    }
    if stats.drafted_tokens > 0 {
        parts.push(guesses_text(stats.accepted_tokens, stats.drafted_tokens));
    }
    if stats.shifted_tokens > 0 {
        parts.push(format!("{} tokens forgotten", stats.shifted_tokens));
    }
    if stats.peak_memory_bytes > 0 {
        parts.push(format!("peak {}", bytes_text(stats.peak_memory_bytes)));
    }
    parts.join(", ")
}

/// What came of speculation.
pub(crate) fn guesses_text(n_accepted: usize, n_drafted: usize) -> String {
    format!("{n_accepted} of {n_drafted} guesses right")
}

/// A time in a unit that a person takes in at a glance.
pub(crate) fn seconds(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// A time to wait, in a unit that a person takes in at a glance: `40 s`, `3 min`, `2 h`.
pub(crate) fn rough_time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h", (seconds + 1800) / 3600),
    }
}

/// Tokens a second, with about three figures.
pub(crate) fn rate_text(rate: f64) -> String {
    if rate < 100.0 {
        format!("{rate:.1}")
    } else {
        format!("{rate:.0}")
    }
}

/// Bytes of memory, which is sold and shown in powers of two: a Mac of 16 GB has 2^34 bytes.
pub(crate) fn bytes_text(bytes: u64) -> String {
    if bytes < GB {
        format!("{:.0} MB", bytes as f64 / MB as f64)
    } else {
        format!("{:.2} GB", bytes as f64 / GB as f64)
    }
}

/// A megabyte of memory.
pub(crate) const MB: u64 = 1 << 20;
/// A gigabyte of memory.
pub(crate) const GB: u64 = 1 << 30;

/// How a model is computed, and by which engine.
pub(crate) fn runs_text(info: &ModelInfo) -> String {
    let as_what = match info.computed_as.starts_with("as ") {
        true => "",
        false => "as ",
    };
    format!("runs {as_what}{} ({})", info.computed_as, info.engine)
}

/// A count of parameters as people say it: `26.0M`, `7.6B`.
pub(crate) fn parameters_text(n_parameters: u64) -> String {
    if n_parameters < 1_000_000_000 {
        format!("{:.1}M", n_parameters as f64 / 1e6)
    } else {
        format!("{:.1}B", n_parameters as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_every_number_that_was_measured() {
        let stats = Stats {
            prompt_tokens: 120,
            cached_tokens: 20,
            generated_tokens: 41,
            drafted_tokens: 24,
            accepted_tokens: 18,
            shifted_tokens: 512,
            time_to_first_token: Duration::from_millis(250),
            prefill_time: Duration::from_millis(200),
            decode_time: Duration::from_millis(800),
            peak_memory_bytes: 123_000_000,
        };
        assert_eq!(
            stats_line(&stats),
            "120 prompt tokens (20 from the cache), 41 generated, first after 250 ms, \
             prefill 500 tok/s, decode 50.0 tok/s, 18 of 24 guesses right, 512 tokens forgotten, \
             peak 117 MB"
        );
    }

    #[test]
    fn a_wait_is_told_roughly() {
        let check = |seconds, expect: &str| {
            assert_eq!(rough_time(Duration::from_secs(seconds)), expect);
        };
        check(0, "0 s");
        check(99, "99 s");
        check(180, "3 min");
        check(5999, "100 min");
        check(7200, "2 h");
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let stats = Stats {
            prompt_tokens: 3,
            ..Stats::default()
        };
        assert_eq!(
            stats_line(&stats),
            "3 prompt tokens, 0 generated, first after 0 ms"
        );
    }
}
