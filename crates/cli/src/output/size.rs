//! Bytes on disk and on the wire, in the words of a person who looks at a folder or a download.
//!
//! Rule: files are counted in powers of ten, as the Finder and model hubs count them; memory in
//! powers of two, as it is sold (`stats::bytes_text`).

/// Bytes of a file or a disk: `2.50 GB`, `41.2 GB`, `512 MB`.
pub(crate) fn disk_text(bytes: u64) -> String {
    let (count, unit) = counted(bytes, bytes);
    format!("{count} {unit}")
}

/// `part` of `whole` in the unit of the whole: `1.30 of 2.50 GB`.
pub(crate) fn of_disk(part: u64, whole: u64) -> String {
    let (part, _) = counted(part, whole);
    let (whole, unit) = counted(whole, whole);
    format!("{part:>width$} of {whole} {unit}", width = whole.len())
}

/// `bytes` in the unit and with the decimals that suit `scale`.
fn counted(bytes: u64, scale: u64) -> (String, &'static str) {
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
    fn sizes_have_three_figures_and_the_unit_of_a_folder() {
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
    fn a_part_has_the_unit_of_its_whole_and_keeps_its_place() {
        assert_eq!(of_disk(1_300_000_000, 2_500_000_000), "1.30 of 2.50 GB");
        assert_eq!(of_disk(1_000_000, 2_500_000_000), "0.00 of 2.50 GB");
        assert_eq!(of_disk(2_000_000_000, 41_200_000_000), " 2.0 of 41.2 GB");
        assert_eq!(of_disk(0, 0), "0 of 0 bytes");
    }
}
