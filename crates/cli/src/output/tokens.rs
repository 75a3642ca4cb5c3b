//! Counts of tokens as people say them.
//!
//! Rule: a count is written out where it is chosen or reached, and shortened only in a column.

/// A context length in a column: `40k`, `1M`. Lengths are mostly powers of two, and `k` is the one
/// that comes out even.
pub(crate) fn tokens_short(n: u64) -> String {
    for (k, m) in [(1024, 1 << 20), (1000, 1_000_000)] {
        if n >= m && n.is_multiple_of(m) {
            return format!("{}M", n / m);
        }
        if n >= k && n.is_multiple_of(k) {
            return format!("{}k", n / k);
        }
    }
    // Never more than there are.
    match n {
        0..2048 => n.to_string(),
        _ => format!("{}k", n / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_lengths_are_short_and_even_where_they_can_be() {
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
}
