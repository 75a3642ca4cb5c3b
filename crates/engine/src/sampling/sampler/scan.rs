//! Passes over the logits of a whole vocabulary, in f32.
//!
//! Written so that the compiler turns each into vector instructions: fixed numbers of lanes, no
//! branch inside. NaN is never a maximum, never above a threshold, and weighs nothing.

use crate::sampling::distribution::{Candidate, orderly};

/// Lanes that are computed side by side: one or more vectors of every processor.
const LANES: usize = 16;

/// Logits that are passed over together where none of them matters.
const SKIP: usize = 4 * LANES;

/// Logits whose weights are summed up in f32.
pub(super) const BLOCK: usize = 1024;

/// Most that [`block_weights`] are off, relative to all weights together, if the temperature is not
/// below [`LEAST_TEMPERATURE`].
///
/// An exponent x is rounded three times on the way, by 2^-24 of itself each, and the mean of |x|
/// over a softmax is at most the logarithm of the vocabulary, about 12: 2.2e-6. The polynomial and
/// sums of 64 numbers add less than 1e-6 each. Twice the sum is on the safe side.
pub(super) const RELATIVE_ERROR: f64 = 1e-5;

/// Below, exponents leave what f32 can hold.
pub(super) const LEAST_TEMPERATURE: f32 = 1e-3;

/// The highest logit; minus infinity where there is none.
pub(super) fn highest(logits: &[f32]) -> f32 {
    let (chunks, rest) = logits.as_chunks::<LANES>();
    let mut highest = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (highest, &logit) in highest.iter_mut().zip(chunk) {
            *highest = higher(logit, *highest);
        }
    }
    highest
        .into_iter()
        .chain(rest.iter().copied())
        .fold(f32::NEG_INFINITY, |highest, logit| higher(logit, highest))
}

/// The likeliest token, of equals the lowest id; `None` where every logit is minus infinity.
pub(super) fn likeliest(logits: &[f32]) -> Option<Candidate> {
    let mut top = f32::NEG_INFINITY;
    let mut block_of_top = 0;
    for (i, block) in logits.chunks(BLOCK).enumerate() {
        let highest = highest(block);
        if highest > top {
            top = highest;
            block_of_top = i;
        }
    }
    let start = block_of_top * BLOCK;
    let place = logits[start..].iter().position(|&logit| logit == top)?;
    (top > f32::NEG_INFINITY).then(|| candidate(start + place, top))
}

/// Appends the tokens whose logit is above minus infinity and at least `threshold`, by ascending id.
pub(super) fn gather(logits: &[f32], threshold: f32, found: &mut Vec<Candidate>) {
    let threshold = threshold.max(f32::MIN);
    for (i, chunk) in logits.chunks(SKIP).enumerate() {
        if highest(chunk) < threshold {
            continue;
        }
        for (j, &logit) in chunk.iter().enumerate() {
            if logit >= threshold {
                found.push(candidate(i * SKIP + j, logit));
            }
        }
    }
}

/// Fills `found` with the `n` likeliest tokens, of equals those of the lowest ids, and perhaps more,
/// in any order. Tokens at minus infinity are left out.
pub(super) fn gather_likeliest(logits: &[f32], n: usize, found: &mut Vec<Candidate>) {
    found.clear();
    // Thinned out only when twice as many are there, so that each costs little.
    let most = n.saturating_mul(2).max(256);
    let mut threshold = f32::NEG_INFINITY;
    for (i, chunk) in logits.chunks(SKIP).enumerate() {
        if highest(chunk) <= threshold {
            continue;
        }
        for (j, &logit) in chunk.iter().enumerate() {
            // Of equals those that came before have the lower ids.
            if logit > threshold {
                found.push(candidate(i * SKIP + j, logit));
            }
        }
        if found.len() >= most {
            let (_, last, _) = found.select_nth_unstable_by(n - 1, Candidate::before);
            threshold = last.logit as f32;
            found.truncate(n);
        }
    }
}

/// Fills `sums` with the weights of each [`BLOCK`] of tokens: `exp((logit - top) / temperature)`,
/// to within [`RELATIVE_ERROR`]. No logit may be above `top`, which is finite.
pub(super) fn block_weights(logits: &[f32], top: f32, temperature: f32, sums: &mut Vec<f64>) {
    let scale = temperature.recip();
    sums.clear();
    sums.extend(logits.chunks(BLOCK).map(|block| {
        let (chunks, rest) = block.as_chunks::<LANES>();
        let mut sum = [0.0; LANES];
        for chunk in chunks {
            for (sum, &logit) in sum.iter_mut().zip(chunk) {
                *sum += exp((logit - top) * scale);
            }
        }
        let rest = rest.iter().map(|&logit| exp((logit - top) * scale));
        sum.into_iter().chain(rest).map(f64::from).sum::<f64>()
    }));
}

/// e to the power of `x`, which is not above 0. Nothing for NaN and where f32 would leave its normal
/// numbers.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // ln 2 in two parts: the first has few bits, so its product with a small integer is exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Added to a small number it leaves that number's nearest integer in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LEAST: f32 = -87.0;

    let in_range = if x >= LEAST { x } else { LEAST };
    let rounded = in_range * std::f32::consts::LOG2_E + ROUND;
    let power = rounded - ROUND;
    let r = (in_range - power * LN_2_HIGH) - power * LN_2_LOW;
    // Taylor's series; |r| is at most 0.35, so what follows is below 2e-7 relative.
    let series = 1.0 / 120.0 + r * (1.0 / 720.0);
    let series = 1.0 / 6.0 + r * (1.0 / 24.0 + r * series);
    let series = 1.0 + r * (1.0 + r * (0.5 + r * series));
    // 2 to that power, put together from its bits.
    let two = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if x >= LEAST { series * two } else { 0.0 }
}

#[inline(always)]
fn higher(a: f32, b: f32) -> f32 {
    // Not `max`, which takes more instructions to treat NaN the same on both sides.
    if a > b { a } else { b }
}

fn candidate(id: usize, logit: f32) -> Candidate {
    Candidate {
        id: id as u32,
        logit: orderly(f64::from(logit)),
    }
}
