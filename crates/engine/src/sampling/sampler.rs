//! Draws tokens on the CPU from the reference distribution, much faster than the reference.
//!
//! Only few of 150,000 tokens can come next. The sampler gathers the tokens close to the highest logit,
//! until they include every token that the filters keep. The reference's own code does the rest.
//!
//! Rule: the token equals the one that the reference gives for the same random number, to the bit.
//! Approximate sums have an error bound, and where it leaves a doubt, the reference's sum decides.

mod adjusted;
mod simd;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::EngineError;
use crate::sampling::SamplingParams;
use crate::sampling::distribution::{Candidate, highest, keep_min_p, keep_top_p, weight};
use adjusted::AdjustedTokens;

/// How far below the highest logit tokens are gathered, in turn, until the filters have enough. Top-p is
/// content with the first depths, where a token weighs a millionth of the most likely one. Top-k wants
/// its number of tokens even from a model that is certain of one, and goes deeper. At last, all tokens
/// are gathered.
const DEPTHS: [f64; 6] = [2.0, 8.0, 14.0, 20.0, 28.0, 40.0];

/// Draws the tokens of one response. The generator is ChaCha8, whose numbers are the same on every
/// platform and in every version, so a seed keeps its meaning.
///
/// Each position of the response has one random number: [`Sampler::draw`] changes nothing, and only
/// [`Sampler::accept`] advances. So rejected draft tokens change nothing, and a seed gives the same
/// response for any number of positions per step.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    rng: ChaCha8Rng,
    /// The random number of the next token, in [0, 1).
    random: f64,
    adjusted: AdjustedTokens,
    buffers: Buffers,
}

/// Scratch buffers, reused for all tokens.
#[derive(Debug, Clone, Default)]
struct Buffers {
    logits: Vec<f32>,
    kept: Vec<Candidate>,
    order: Vec<Candidate>,
    weights: Vec<f64>,
}

impl Sampler {
    /// Creates a sampler for a response to `prompt`. Without a seed in `params`, uses a random one.
    ///
    /// # Errors
    /// [`EngineError::Backend`] if the system provides no random numbers.
    pub fn new(params: SamplingParams, prompt: &[u32]) -> Result<Self, EngineError> {
        let seed = match params.seed {
            Some(seed) => seed,
            None => ChaCha8Rng::try_from_os_rng()
                .map_err(|error| EngineError::backend("drawing a seed", error))?
                .next_u64(),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let random = uniform(&mut rng);
        let adjusted = AdjustedTokens::new(&params, prompt);
        Ok(Self {
            params,
            rng,
            random,
            adjusted,
            buffers: Buffers::default(),
        })
    }

    /// Draws the next token's id from `logits`, one for each token of the vocabulary; see
    /// [`SamplingParams::distribution`]. Returns the same token until one is accepted. `None` for
    /// empty `logits`.
    pub fn draw(&mut self, logits: &[f32]) -> Option<u32> {
        if logits.is_empty() {
            return None;
        }
        let Buffers {
            logits: buffer,
            kept,
            order,
            weights,
        } = &mut self.buffers;
        let params = &self.params;
        let logits = self.adjusted.apply(params, logits, buffer);
        let top = simd::highest(logits);
        if params.is_greedy() {
            simd::gather(logits, top, kept);
            return Some(kept.first().map_or(0, |candidate| candidate.id));
        }
        if let Some(id) = draw_from_all(params, logits, top, self.random, weights) {
            return Some(id);
        }
        keep(params, logits, top, kept, order, weights);
        let drawn = draw(kept, params.final_temperature(), self.random, weights);
        Some(drawn.unwrap_or(0))
    }

    /// Adds `token` to the response, so that penalties count it, and advances to the next random
    /// number.
    pub fn accept(&mut self, token: u32) {
        self.adjusted.accept(&self.params, token);
        self.random = uniform(&mut self.rng);
    }
}

/// Returns 53 random bits: every multiple of 2^-53 in [0, 1), equally likely.
fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Fills `kept` with the tokens that pass the filters, by ascending id. `order` and `sums` are scratch
/// buffers.
fn keep(
    params: &SamplingParams,
    logits: &[f32],
    top: f32,
    kept: &mut Vec<Candidate>,
    order: &mut Vec<Candidate>,
    sums: &mut Vec<f64>,
) {
    let has_top_k = params.top_k > 0;
    let has_top_p = params.top_p < 1.0;
    let min_p = f64::from(params.min_p);
    // Without other filters, min-p alone decides. Slightly more, because rounding may remove a token.
    let min_depth = match has_top_k || has_top_p {
        true => 0.0,
        false => 0.001 - min_p.ln(),
    };
    // Top-p applies to all tokens unless top-k comes first.
    let total = (has_top_p && !has_top_k && top.is_finite()).then(|| {
        simd::block_weights(logits, top, 1.0, sums);
        sums.iter().sum::<f64>()
    });
    for depth in DEPTHS.into_iter().filter(|_| top.is_finite()) {
        let threshold = f64::from(top) - depth.max(min_depth);
        simd::gather(logits, (threshold as f32).next_down(), kept);
        if let Some(total) = total {
            let bound = f64::from(params.top_p) * total;
            let error = bound * simd::MAX_RELATIVE_ERROR;
            if keep_top_p(kept, order, (bound - error, bound + error)) {
                return keep_min_p(kept, min_p);
            }
        } else if kept.len() >= params.top_k {
            return params.filter(kept, order);
        }
    }
    simd::gather(logits, f32::MIN, kept);
    params.filter(kept, order);
}

/// Draws from all tokens with the random number `random`. Returns `None` if there are filters, or if
/// the approximate sums of weights leave a doubt. `sums` is a scratch buffer.
fn draw_from_all(
    params: &SamplingParams,
    logits: &[f32],
    top: f32,
    random: f64,
    sums: &mut Vec<f64>,
) -> Option<u32> {
    let keeps_all = params.top_k == 0 && params.top_p >= 1.0 && params.min_p <= 0.0;
    if !keeps_all || params.temperature < simd::MIN_TEMPERATURE || !top.is_finite() {
        return None;
    }
    simd::block_weights(logits, top, params.temperature, sums);
    let total: f64 = sums.iter().sum();
    let target = random * total;
    // The target and the sum before a block may both be off.
    let error = 2.0 * simd::MAX_RELATIVE_ERROR * total;
    let mut reached = 0.0;
    let mut block = 0;
    while reached + sums.get(block)? <= target {
        reached += sums[block];
        block += 1;
    }
    let start = block * simd::BLOCK;
    for (id, &logit) in logits.iter().enumerate().skip(start).take(simd::BLOCK) {
        let before = reached;
        reached += match logit.is_nan() {
            true => 0.0,
            false => weight(logit, top, f64::from(params.temperature)),
        };
        if reached > target + error {
            let is_certain = before < target - error || (before == 0.0 && start == 0);
            return is_certain.then_some(id as u32);
        } else if reached > target - error {
            return None;
        }
    }
    None
}

/// Draws from `kept` with the random number `random`; `None` if it is empty.
fn draw(kept: &[Candidate], temperature: f64, random: f64, weights: &mut Vec<f64>) -> Option<u32> {
    let top = highest(kept);
    weights.clear();
    weights.extend(kept.iter().map(|c| weight(c.logit, top, temperature)));
    let sum: f64 = weights.iter().sum();
    let mut left = random;
    let mut drawn = None;
    for (candidate, weight) in kept.iter().zip(weights) {
        let probability = *weight / sum;
        if probability <= 0.0 {
            continue;
        }
        drawn = Some(candidate.id);
        left -= probability;
        if left < 0.0 {
            break;
        }
    }
    drawn
}

#[cfg(test)]
mod tests;
