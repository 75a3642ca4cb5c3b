//! Passes over the logits of a whole vocabulary, in f32.
//!
//! The compiler turns each one into vector instructions: fixed numbers of lanes, no branches
//! inside. NaN is never a maximum, never above a threshold, and has no weight.

use super::Candidate;

/// Lanes that are computed together: one or more vectors of every processor.
const LANES: usize = 16;

/// Logits that are skipped together if none is above the threshold.
const CHUNK: usize = 4 * LANES;

/// Logits whose weights are summed in f32.
pub(super) const BLOCK: usize = 1024;

/// Returns the highest logit; minus infinity if there is none.
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

/// Fills `found` with the tokens whose logit is above minus infinity and at least `threshold`, by
/// ascending id.
pub(super) fn gather(logits: &[f32], threshold: f32, found: &mut Vec<Candidate>) {
    found.clear();
    let threshold = threshold.max(f32::MIN);
    for (i, chunk) in logits.chunks(CHUNK).enumerate() {
        // Without a branch per element, which takes longer than looking at all of them.
        let any = chunk.iter().fold(false, |any, &l| any | (l >= threshold));
        if !any {
            continue;
        }
        for (j, &logit) in chunk.iter().enumerate() {
            if logit >= threshold {
                let id = (i * CHUNK + j) as u32;
                found.push(Candidate { id, logit });
            }
        }
    }
}

/// Fills `sums` with the weights of each [`BLOCK`] of tokens. A weight is `exp((logit - top) /
/// temperature)`. No logit may be above `top`.
///
/// The error is at most a hundred-thousandth of all weights together. An exponent x is rounded three
/// times, by 2^-24 of itself each, and the mean of |x| over a softmax is at most the logarithm of the
/// vocabulary, about 12: 2.2e-6. The polynomial and sums of 64 numbers add less than 4e-6. Weights
/// below 2^-125 count as 0.
pub(super) fn block_weights(logits: &[f32], top: f32, temperature: f32, sums: &mut Vec<f64>) {
    sums.clear();
    sums.resize(logits.len().div_ceil(BLOCK), 0.0);
    let scale = std::f32::consts::LOG2_E / temperature.max(f32::MIN_POSITIVE);
    for (sum, block) in sums.iter_mut().zip(logits.chunks(BLOCK)) {
        if top == f32::INFINITY {
            // Differences of infinite logits would be NaN.
            *sum = block.iter().filter(|logit| **logit == top).count() as f64;
            continue;
        }
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

/// Returns 2 to the power of `x`, which is at most 0. Returns 0 for NaN and where f32 would leave its
/// normal range.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    // Adding this to a small number puts its nearest integer into the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // Relative error at most 7.5e-8 for exponents between -1/2 and 1/2: the best polynomial of this
    // degree, found with Remez' exchange.
    const SERIES: [f32; 6] = [
        1.000_000_1,
        0.693_146_97,
        0.240_221_2,
        0.055_507_13,
        0.009_675_541,
        0.001_327_647_2,
    ];
    let rounded = x + ROUND;
    let rest = x - (rounded - ROUND);
    let series = SERIES
        .iter()
        .rev()
        .fold(0.0, |series, factor| series * rest + factor);
    // 2 to the rounded power, assembled from its bits.
    let whole = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    if x >= -125.0 { series * whole } else { 0.0 }
}

#[inline(always)]
fn higher(a: f32, b: f32) -> f32 {
    // Not `max`, which takes more instructions to treat NaN the same on both sides.
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests;
