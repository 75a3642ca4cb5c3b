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
/// sums of 64 numbers add less than 4e-6. Weights below 2^-125
/// count as that, which no sum notices.
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
        if !any(chunk, |logit| logit >= threshold) {
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
        if !any(chunk, |logit| logit > threshold) {
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

/// Fills `sums`, one for each [`BLOCK`] of tokens, with their weights: `exp((logit - top) / temperature)`,
/// to within [`RELATIVE_ERROR`]. No logit may be above `top`, which is finite.
pub(super) fn block_weights(logits: &[f32], top: f32, temperature: f32, sums: &mut [f64]) {
    let scale = std::f32::consts::LOG2_E / temperature;
    for (sum, block) in sums.iter_mut().zip(logits.chunks(BLOCK)) {
        let (chunks, rest) = block.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for chunk in chunks {
            for (lane, &logit) in lanes.iter_mut().zip(chunk) {
                *lane += exp2((logit - top) * scale);
            }
        }
        let rest = rest.iter().map(|&logit| exp2((logit - top) * scale));
        *sum = lanes.into_iter().chain(rest).map(f64::from).sum();
    }
}

/// 2 to the power of `x`, which is not above 0. Next to nothing for NaN and where f32 would leave its
/// normal numbers.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    // Added to a small number it leaves that number's nearest integer in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // Off by at most 7.5e-8 relative for powers between -1/2 and 1/2: the best polynomial of this
    // degree, found with Remez' exchange.
    const SERIES: [f32; 6] = [
        1.000_000_1,
        0.693_146_97,
        0.240_221_2,
        0.055_507_13,
        0.009_675_541,
        0.001_327_647_2,
    ];
    let x = if x >= -125.0 { x } else { -125.0 };
    let rounded = x + ROUND;
    let rest = x - (rounded - ROUND);
    let series = SERIES
        .iter()
        .rev()
        .fold(0.0, |series, factor| series * rest + factor);
    // 2 to the rounded power, put together from its bits.
    let whole = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    series * whole
}

/// Without a branch for each, which takes longer than to look at all of them.
#[inline(always)]
fn any(chunk: &[f32], is_wanted: impl Fn(f32) -> bool) -> bool {
    chunk
        .iter()
        .fold(false, |any, &logit| any | is_wanted(logit))
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

#[cfg(test)]
mod tests;
