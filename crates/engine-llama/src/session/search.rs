//! Finds a sequence of tokens in another one, in linear time.

use std::ops::Range;

/// Returns the last position in `text` of the longest prefix of `pattern` that occurs there. Empty
/// if no prefix occurs.
///
/// Knuth, Morris and Pratt: each token is compared a bounded number of times on average, however
/// much the text repeats itself.
pub(super) fn last_longest_prefix(pattern: &[u32], text: &[u32]) -> Range<usize> {
    // `fallback[n - 1]`: the length of the longest proper prefix of the pattern's first `n` tokens
    // that is also their suffix.
    let mut fallback = Vec::with_capacity(pattern.len());
    for (i, token) in pattern.iter().enumerate() {
        let n = match i {
            0 => 0,
            _ => extended(pattern, &fallback, fallback[i - 1], *token),
        };
        fallback.push(n);
    }
    let mut best = 0..0;
    let mut n = 0;
    for (i, token) in text.iter().enumerate() {
        n = extended(pattern, &fallback, n, *token);
        if n > 0 && n >= best.len() {
            best = i + 1 - n..i + 1;
        }
    }
    best
}

/// Returns the length of the prefix that ends with `token`, if a prefix of length `n` ended before
/// it.
fn extended(pattern: &[u32], fallback: &[usize], mut n: usize, token: u32) -> usize {
    loop {
        if pattern.get(n) == Some(&token) {
            return n + 1;
        }
        if n == 0 {
            return 0;
        }
        n = fallback[n - 1];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by comparing at every position.
    fn by_comparing(pattern: &[u32], text: &[u32]) -> Range<usize> {
        let shared = |from: usize| {
            let pairs = text[from..].iter().zip(pattern);
            pairs.take_while(|(a, b)| a == b).count()
        };
        let runs = (0..text.len()).map(|from| (shared(from), from));
        let (n, from) = runs.max().unwrap_or_default();
        if n == 0 { 0..0 } else { from..from + n }
    }

    #[test]
    fn results_equal_those_of_comparing_everywhere() {
        let mut state = 7_u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for round in 0..2000 {
            let n_words = 1 + round % 3;
            let mut words = |n: u32| (0..n).map(|_| next(n_words)).collect::<Vec<_>>();
            let (pattern, text) = (words(round % 9), words(round % 31));
            let found = last_longest_prefix(&pattern, &text);
            assert_eq!(
                found,
                by_comparing(&pattern, &text),
                "{pattern:?} in {text:?}"
            );
        }
    }

    #[test]
    fn a_text_of_one_repeated_token_takes_linear_time() {
        // Comparing at every position takes 10^10 steps.
        let mut pattern = vec![7; 100_000];
        pattern.push(8);
        let text = vec![7; 200_000];
        assert_eq!(last_longest_prefix(&pattern, &text), 100_000..200_000);
    }
}
