//! Estimates and statistics as text.

use transom_engine::{ModelInfo, Stats};
use transom_library::{EstimatedFit, Speed};
use transom_terminal::{memory_text, rate_text, seconds, tokens_short};

/// Returns an estimated rate without decimals, unless it is tiny.
fn estimated_rate_text(rate: f64) -> String {
    match rate {
        ..0.05 => "under 0.1".to_owned(),
        ..9.95 => rate_text(rate),
        _ => format!("{rate:.0}"),
    }
}

/// Returns a speed for a column: `20 to 34`.
pub fn speed_range(speed: Speed) -> String {
    let low = estimated_rate_text(speed.low);
    let high = estimated_rate_text(speed.high);
    match low == high {
        true => low,
        false => format!("{low} to {high}"),
    }
}

/// Returns a speed and how it is known: `20 to 34 tokens a second, estimated`.
pub fn speed_text(speed: Speed) -> String {
    let basis = match speed.is_measured {
        true => "measured here",
        false => "estimated",
    };
    format!("{} tokens a second, {basis}", speed_range(speed))
}

/// Returns whether a model fits, for a column; empty if that is not known.
pub fn fit_short(fit: Option<EstimatedFit>) -> String {
    let text = match fit {
        None => "",
        Some(EstimatedFit::Fits) => "fits",
        Some(EstimatedFit::FitsWithContext { context_length }) => {
            return format!("fits with {}", tokens_short(context_length));
        }
        Some(EstimatedFit::FitsIfOthersClose { .. }) => "if others close",
        Some(EstimatedFit::DoesNotFit { .. }) => "too large",
    };
    text.to_owned()
}

/// Returns the format in which an engine computes a model, and the engine.
pub fn runs_text(info: &ModelInfo) -> String {
    let computed_as = info.computed_as.trim_start_matches("as ");
    format!("runs as {computed_as} ({})", info.engine)
}

/// Returns how many drafted tokens were accepted.
pub fn guesses_text(n_accepted: usize, n_drafted: usize) -> String {
    format!("{n_accepted} of {n_drafted} draft tokens accepted")
}

/// Returns the statistics of a response in one line: tokens, waiting time, speeds, memory. What was
/// not measured, or did not happen, is left out.
pub fn stats_line(stats: &Stats) -> String {
    let cached = match stats.cached_tokens {
        0 => String::new(),
        n => format!(" ({n} from the cache)"),
    };
    let mut parts = vec![
        format!("{} prompt tokens{cached}", stats.prompt_tokens),
        format!("{} generated", stats.generated_tokens),
        format!("first after {}", seconds(stats.time_to_first_token)),
    ];
    let rate = |label: &str, rate: f64| format!("{label} {} tok/s", rate_text(rate));
    let prefill = stats.prefill_tokens_per_second();
    let decode = stats.decode_tokens_per_second();
    let (n_accepted, n_drafted) = (stats.accepted_tokens, stats.drafted_tokens);
    let (n_dropped, peak_bytes) = (stats.shifted_tokens, stats.peak_memory_bytes);
    let optional = [
        prefill.map(|tokens| rate("prefill", tokens)),
        decode.map(|tokens| rate("decode", tokens)),
        (n_drafted > 0).then(|| guesses_text(n_accepted, n_drafted)),
        (n_dropped > 0).then(|| format!("{n_dropped} tokens dropped")),
        (peak_bytes > 0).then(|| format!("peak {}", memory_text(peak_bytes))),
    ];
    parts.extend(optional.into_iter().flatten());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_stats_line_has_every_number_that_was_measured() {
        let stats = Stats {
            prompt_tokens: 120,
            cached_tokens: 20,
            generated_tokens: 41,
            drafted_tokens: 24,
            accepted_tokens: 18,
            shifted_tokens: 512,
            matched_stop: None,
            time_to_first_token: Duration::from_millis(250),
            prefill_time: Duration::from_millis(200),
            decode_time: Duration::from_millis(800),
            peak_memory_bytes: 123_000_000,
            ..Stats::default()
        };
        assert_eq!(
            stats_line(&stats),
            "120 prompt tokens (20 from the cache), 41 generated, first after 250 ms, \
             prefill 500 tok/s, decode 50.0 tok/s, 18 of 24 draft tokens accepted, 512 tokens dropped, \
             peak 117 MB"
        );
    }

    #[test]
    fn the_stats_line_leaves_out_what_was_not_measured() {
        let stats = Stats {
            prompt_tokens: 3,
            ..Stats::default()
        };
        assert_eq!(
            stats_line(&stats),
            "3 prompt tokens, 0 generated, first after 0 ms"
        );
    }

    #[test]
    fn a_fit_is_short_in_a_column() {
        let check = |fit, expect: &str| assert_eq!(fit_short(Some(fit)), expect);
        check(EstimatedFit::Fits, "fits");
        let context_length = 16_384;
        check(
            EstimatedFit::FitsWithContext { context_length },
            "fits with 16k",
        );
        let needs_bytes_free = 1;
        check(
            EstimatedFit::FitsIfOthersClose { needs_bytes_free },
            "if others close",
        );
        check(EstimatedFit::DoesNotFit { missing_bytes: 1 }, "too large");
    }

    #[test]
    fn a_speed_is_rounded_and_says_how_it_is_known() {
        let speed = |low, high, is_measured| Speed {
            low,
            high,
            is_measured,
        };
        let check = |low, high, expect: &str| {
            assert_eq!(speed_range(speed(low, high, false)), expect);
        };
        check(20.4, 34.2, "20 to 34");
        check(2.04, 3.46, "2.0 to 3.5");
        check(33.9, 34.2, "34");
        check(0.01, 0.02, "under 0.1");
        let text = speed_text(speed(20.0, 30.0, true));
        assert_eq!(text, "20 to 30 tokens a second, measured here");
    }
}
