//! Sizes in bytes as text, the same in every message of every program.
//!
//! Rule: files are counted in powers of ten, as the Finder and model hubs count them
//! ([`disk_text`]); memory in powers of two, as it is sold ([`memory_text`]).

/// A megabyte of memory.
const MB: u64 = 1 << 20;
/// A gigabyte of memory.
pub const GB: u64 = 1 << 30;

/// Returns bytes of memory: `512 MB`, `2.50 GB`. A Mac with 16 GB has 2^34 bytes.
pub fn memory_text(bytes: u64) -> String {
    match bytes < GB {
        true => format!("{:.0} MB", bytes as f64 / MB as f64),
        false => format!("{:.2} GB", bytes as f64 / GB as f64),
    }
}

/// Returns `part` of `whole` bytes of memory in the unit of the whole: `8.1 of 8.2 GB`.
pub fn of_memory(part: u64, whole: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_in_powers_of_two() {
        let check = |bytes, expect: &str| assert_eq!(memory_text(bytes), expect);
        check(0, "0 MB");
        check(512 << 20, "512 MB");
        check(GB, "1.00 GB");
        check(16 << 30, "16.00 GB");
        check(2_500_000_000, "2.33 GB");
        assert_eq!(of_memory(512 << 20, 768 << 20), "512 of 768 MB");
        assert_eq!(of_memory(512 << 20, 8 << 30), "0.5 of 8.0 GB");
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
}
