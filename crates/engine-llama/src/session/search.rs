//! Finding a text again, in linear time.

use std::ops::Range;

/// Where `text` repeats the longest beginning of `pattern` that it has; the last such place. Empty if
/// it has none of it.
///
/// Knuth, Morris and Pratt: each token of either is looked at a bounded number of times on average,
/// however much the text repeats itself.
pub(super) fn last_longest_prefix(pattern: &[u32], text: &[u32]) -> Range<usize> {
    // `fallback[n - 1]`: of the first `n` tokens of the pattern, how many at the end are also its
    // beginning, not counting all of them.
    let mut fallback = Vec::with_capacity(pattern.len());
    for (at, token) in pattern.iter().enumerate() {
        let n = match at {
            0 => 0,
            _ => extended(pattern, &fallback, fallback[at - 1], *token),
        };
        fallback.push(n);
    }
    let mut best = 0..0;
    let mut n = 0;
    for (at, token) in text.iter().enumerate() {
        n = extended(pattern, &fallback, n, *token);
        if n > 0 && n >= best.len() {
            best = at + 1 - n..at + 1;
        }
    }
    best
}

/// How many tokens of the pattern's beginning end with `token`, where `n` of them ended before it.
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

    /// The same by comparing at every place.
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
    fn what_is_found_is_what_comparing_everywhere_finds() {
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
        // By comparing at every place this takes ten thousand million steps.
        let mut pattern = vec![7; 100_000];
        pattern.push(8);
        let text = vec![7; 200_000];
        assert_eq!(last_longest_prefix(&pattern, &text), 100_000..200_000);
    }
}
