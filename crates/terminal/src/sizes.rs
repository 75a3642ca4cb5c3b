//! Times, rates and counts as text; sizes are in `transom_files`.
//!
//! Rule: a token count is shortened only in a column.

use std::time::Duration;

/// Returns a context length for a column: `40k`, `1M`. Lengths are mostly powers of two, so `k` is
/// 1024 unless only 1000 divides the length.
pub fn tokens_short(n: u64) -> String {
    for (k, m) in [(1024, 1 << 20), (1000, 1_000_000)] {
        if n >= m && n.is_multiple_of(m) {
            return format!("{}M", n / m);
        }
        if n >= k && n.is_multiple_of(k) {
            return format!("{}k", n / k);
        }
    }
    // Rounded down, so that the context never seems longer than it is.
    match n {
        0..2048 => n.to_string(),
        _ => format!("{}k", n / 1024),
    }
}

/// Returns a count of parameters: `26.0M`, `7.6B`.
pub fn parameters_text(n_parameters: u64) -> String {
    match n_parameters < 1_000_000_000 {
        true => format!("{:.1}M", n_parameters as f64 / 1e6),
        false => format!("{:.1}B", n_parameters as f64 / 1e9),
    }
}

/// Returns a measured time: `12 ms`, `2.05 s`.
pub fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds @ ..1.0 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Returns a waiting time: `40 s`, `3 min`, `2 h`.
pub fn rough_time(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h", (seconds + 1800) / 3600),
    }
}

/// Returns tokens per second, with about three digits.
pub fn rate_text(rate: f64) -> String {
    match rate {
        ..100.0 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

/// Returns a count for a column: `310`, `12k`, `3.1M`.
pub fn count_short(n: u64) -> String {
    match n {
        0..10_000 => n.to_string(),
        10_000..1_000_000 => format!("{}k", n / 1000),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

/// Returns a number of gigabytes, as bandwidths are counted: `0.3`, `120`.
pub fn gigabytes(bytes: u64) -> String {
    match bytes as f64 / 1e9 {
        few @ ..9.95 => format!("{few:.1}"),
        many => format!("{many:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_time_is_rounded() {
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
    fn context_lengths_are_shortened_to_k_or_m() {
        let check = |n, expect: &str| assert_eq!(tokens_short(n), expect);
        check(512, "512");
        check(2048, "2k");
        check(8_000, "8k");
        check(40_960, "40k");
        check(131_072, "128k");
        check(262_144, "256k");
        check(1_048_576, "1M");
        check(1_000_000, "1M");
        check(2_047, "2047");
        check(3_328, "3k");
        check(21_777, "21k");
    }

    #[test]
    fn download_counts_are_shortened() {
        let check = |n, expect: &str| assert_eq!(count_short(n), expect);
        check(9_999, "9999");
        check(10_000, "10k");
        check(999_999, "999k");
        check(1_000_000, "1.0M");
    }
}
