//! Sizes, times and rates as text.
//!
//! Rule: files are counted in powers of ten, as the Finder and model hubs count them
//! ([`disk_text`]); memory in powers of two, as it is sold ([`bytes_text`]). A token count is
//! shortened only in a column.

use std::time::Duration;

/// A megabyte of memory.
const MB: u64 = 1 << 20;
/// A gigabyte of memory.
pub const GB: u64 = 1 << 30;

/// Returns bytes of memory: `512 MB`, `2.50 GB`. A Mac with 16 GB has 2^34 bytes.
pub fn bytes_text(bytes: u64) -> String {
    match bytes < GB {
        true => format!("{:.0} MB", bytes as f64 / MB as f64),
        false => format!("{:.2} GB", bytes as f64 / GB as f64),
    }
}

/// Returns `part` of `whole` bytes of memory in the unit of the whole: `8.1 of 8.2 GB`.
pub fn of_bytes(part: u64, whole: u64) -> String {
    let count = |bytes: u64, unit: u64| bytes as f64 / unit as f64;
    match whole < GB {
        true => format!("{:.0} of {:.0} MB", count(part, MB), count(whole, MB)),
        false => format!("{:.1} of {:.1} GB", count(part, GB), count(whole, GB)),
    }
}

/// Returns bytes of a file or a disk: `2.50 GB`, `41.2 GB`, `512 MB`.
pub fn disk_text(bytes: u64) -> String {
    let (count, unit) = scaled(bytes, bytes);
    format!("{count} {unit}")
}

/// Returns the size of a file that may be unknown.
pub fn size_text(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".to_owned(), disk_text)
}

/// Returns `part` of `whole` bytes of a file in the unit of the whole: `1.30 of 2.50 GB`.
pub fn of_disk(part: u64, whole: u64) -> String {
    let (part, _) = scaled(part, whole);
    let (whole, unit) = scaled(whole, whole);
    format!("{part:>width$} of {whole} {unit}", width = whole.len())
}

/// Returns `bytes` in the unit and with the decimals that suit `scale`.
fn scaled(bytes: u64, scale: u64) -> (String, &'static str) {
    let bytes = bytes as f64;
    match scale {
        0..1_000 => (format!("{bytes:.0}"), "bytes"),
        1_000..999_500 => (format!("{:.0}", bytes / 1e3), "kB"),
        999_500..9_950_000 => (format!("{:.1}", bytes / 1e6), "MB"),
        9_950_000..999_500_000 => (format!("{:.0}", bytes / 1e6), "MB"),
        999_500_000..9_995_000_000 => (format!("{:.2}", bytes / 1e9), "GB"),
        9_995_000_000..99_950_000_000 => (format!("{:.1}", bytes / 1e9), "GB"),
        _ => (format!("{:.0}", bytes / 1e9), "GB"),
    }
}

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
    fn file_sizes_have_three_digits_and_decimal_units() {
        let check = |bytes, expect: &str| assert_eq!(disk_text(bytes), expect);
        check(0, "0 bytes");
        check(999, "999 bytes");
        check(1_000, "1 kB");
        check(999_499, "999 kB");
        check(999_500, "1.0 MB");
        check(14_639_520, "15 MB");
        check(999_499_999, "999 MB");
        check(999_500_000, "1.00 GB");
        check(2_497_280_480, "2.50 GB");
        check(41_234_567_890, "41.2 GB");
        check(512_110_190_592, "512 GB");
    }

    #[test]
    fn a_part_has_the_unit_and_the_width_of_its_whole() {
        assert_eq!(of_disk(1_300_000_000, 2_500_000_000), "1.30 of 2.50 GB");
        assert_eq!(of_disk(1_000_000, 2_500_000_000), "0.00 of 2.50 GB");
        assert_eq!(of_disk(2_000_000_000, 41_200_000_000), " 2.0 of 41.2 GB");
        assert_eq!(of_disk(0, 0), "0 of 0 bytes");
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
