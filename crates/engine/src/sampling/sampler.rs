//! Draws tokens on the CPU.
//!
//! Only few of 150,000 tokens can come next. The sampler gathers the tokens close to the highest logit,
//! until they include every token that the filters keep.
//!
//! Rule: sums over the whole vocabulary are exact to within a hundred-thousandth. All other weights
//! are computed in f64.

mod simd;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::constraint::TokenMask;
use crate::error::EngineError;
use crate::sampling::SamplingParams;

/// How far below the highest logit tokens are gathered, in turn, until the filters have enough. Top-p
/// is content with the first depths. Top-k wants its number of tokens even from a model that is
/// certain of one, and goes deeper. At last, all tokens are gathered.
const DEPTHS: [f32; 8] = [2.0, 5.0, 8.0, 12.0, 18.0, 28.0, 40.0, f32::INFINITY];

/// How close to a share of a sum over the whole vocabulary counts as that share. Equal weights must
/// not depend on the error of the sum, which is mostly below a ten-millionth.
const SUM_ERROR: f64 = 1e-6;

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
    /// By token id. Without bias and penalties there are none, and logits are used as they are.
    adjustments: BTreeMap<u32, Adjustment>,
    buffers: Buffers,
}

/// How the logit of a token changes.
#[derive(Debug, Clone, Default)]
struct Adjustment {
    bias: f64,
    /// How often the token was generated; `None` if no penalty counts it.
    count: Option<u32>,
}

/// Scratch buffers, reused for all tokens.
#[derive(Debug, Clone, Default)]
struct Buffers {
    logits: Vec<f32>,
    kept: Vec<Candidate>,
    sums: Vec<f64>,
}

/// A token that may come next. Its logit, including bias and penalties, is never NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    id: u32,
    logit: f32,
}

impl Candidate {
    /// Orders by likelihood, most likely first, then by id.
    fn before(&self, other: &Self) -> Ordering {
        let by_logit = other.logit.partial_cmp(&self.logit);
        let by_logit = by_logit.unwrap_or(Ordering::Equal);
        by_logit.then(self.id.cmp(&other.id))
    }
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
        let mut adjustments = BTreeMap::<u32, Adjustment>::new();
        for &(id, bias) in &params.logit_bias {
            adjustments.entry(id).or_default().bias += f64::from(bias);
        }
        if params.repetition_penalty != 1.0 {
            for &id in prompt {
                adjustments.entry(id).or_default().count = Some(0);
            }
        }
        Ok(Self {
            params,
            rng,
            random,
            adjustments,
            buffers: Buffers::default(),
        })
    }

    /// Draws the next token's id from `logits`, one for each token of the vocabulary, as
    /// [`SamplingParams`] describes. Logits that are NaN count as minus infinity. If no logit is
    /// higher than that, draws the lowest id. Returns the same token until one is accepted. `None`
    /// for empty `logits`.
    pub fn draw(&mut self, logits: &[f32]) -> Option<u32> {
        self.draw_from(logits, None)
    }

    /// Like [`Sampler::draw`], but only tokens in `allowed` exist, if it is not `None`: bias,
    /// penalties and filters apply to the others. If none of them is possible, draws the lowest id of
    /// `allowed`.
    pub fn draw_from(&mut self, logits: &[f32], allowed: Option<&TokenMask>) -> Option<u32> {
        let Buffers {
            logits: buffer,
            kept,
            sums,
        } = &mut self.buffers;
        let params = &self.params;
        let logits = adjusted(params, &self.adjustments, logits, allowed, buffer);
        let top = simd::highest(logits);
        if top == f32::NEG_INFINITY {
            let lowest = allowed.map_or(Some(0), TokenMask::first);
            return lowest.filter(|token| (*token as usize) < logits.len());
        }
        if params.is_greedy() {
            simd::gather(logits, top, kept);
            return kept.first().map(|candidate| candidate.id);
        }
        let temperature = params.temperature;
        if params.top_k == 0 && params.top_p >= 1.0 && params.min_p <= 0.0 {
            return draw_from_all(logits, top, temperature, self.random, sums);
        }
        filter(params, logits, top, kept, sums);
        let weights = kept.iter().map(|c| weight(c.logit, top, temperature));
        let target = self.random * weights.clone().sum::<f64>();
        choose(kept.iter().map(|c| c.id).zip(weights), target)
    }

    /// Adds `token` to the response, so that penalties count it, and advances to the next random
    /// number.
    pub fn accept(&mut self, token: u32) {
        let params = &self.params;
        let penalties = [
            params.repetition_penalty - 1.0,
            params.presence_penalty,
            params.frequency_penalty,
        ];
        if penalties != [0.0; 3] {
            let count = &mut self.adjustments.entry(token).or_default().count;
            *count = Some(count.unwrap_or(0).saturating_add(1));
        }
        self.random = uniform(&mut self.rng);
    }
}

/// Returns 53 random bits: every multiple of 2^-53 in [0, 1), equally likely.
fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Returns `logits` of allowed tokens with bias and penalties. They are copied to `buffer` if anything
/// changes.
fn adjusted<'a>(
    params: &SamplingParams,
    adjustments: &BTreeMap<u32, Adjustment>,
    logits: &'a [f32],
    allowed: Option<&TokenMask>,
    buffer: &'a mut Vec<f32>,
) -> &'a [f32] {
    if adjustments.is_empty() && allowed.is_none() {
        return logits;
    }
    buffer.clear();
    buffer.extend_from_slice(logits);
    if let Some(allowed) = allowed {
        exclude_others(buffer, allowed);
    }
    for (&id, adjustment) in adjustments {
        let Some(slot) = buffer.get_mut(id as usize) else {
            break;
        };
        let logit = f64::from(*slot) + adjustment.bias;
        let penalized = |count| params.penalized(logit, count);
        *slot = adjustment.count.map_or(logit, penalized) as f32;
    }
    buffer
}

/// Makes all tokens but those in `allowed` impossible.
fn exclude_others(logits: &mut [f32], allowed: &TokenMask) {
    let words = allowed.words().iter().copied();
    let words = words.chain(std::iter::repeat(0));
    for (chunk, word) in logits.chunks_mut(32).zip(words) {
        match word {
            u32::MAX => {}
            0 => chunk.fill(f32::NEG_INFINITY),
            word => {
                for (bit, logit) in chunk.iter_mut().enumerate() {
                    if word >> bit & 1 == 0 {
                        *logit = f32::NEG_INFINITY;
                    }
                }
            }
        }
    }
}

impl SamplingParams {
    /// Applies the penalties to the logit of a token that occurs `count` times in the response, or
    /// only in the prompt if `count` is 0.
    pub(crate) fn penalized(&self, logit: f64, count: u32) -> f64 {
        let repetition = f64::from(self.repetition_penalty);
        let logit = if logit > 0.0 {
            logit / repetition
        } else {
            logit * repetition
        };
        if count == 0 {
            return logit;
        }
        let frequency = f64::from(self.frequency_penalty) * f64::from(count);
        logit - f64::from(self.presence_penalty) - frequency
    }
}

/// Fills `kept` with the tokens that pass the filters, by ascending id. `sums` is a scratch buffer.
fn filter(
    params: &SamplingParams,
    logits: &[f32],
    top: f32,
    kept: &mut Vec<Candidate>,
    sums: &mut Vec<f64>,
) {
    let &SamplingParams {
        top_k,
        top_p,
        min_p,
        ..
    } = params;
    // Top-p applies to all tokens unless top-k comes first.
    let total = (top_p < 1.0 && top_k == 0).then(|| {
        simd::block_weights(logits, top, 1.0, sums);
        sums.iter().sum::<f64>()
    });
    for depth in DEPTHS {
        simd::gather(logits, top - depth, kept);
        let has_all = depth == f32::INFINITY;
        if kept.len() < top_k && !has_all {
            continue;
        }
        if (1..kept.len()).contains(&top_k) {
            kept.select_nth_unstable_by(top_k, Candidate::before);
            kept.truncate(top_k);
        }
        let is_cut = top_p < 1.0 && keep_top_p(kept, top, top_p, total);
        // Then no filter keeps any of the less likely tokens, which were not gathered.
        if is_cut || has_all || top_k > 0 || min_p > (-0.99 * depth).exp() {
            break;
        }
    }
    kept.retain(|candidate| weight(candidate.logit, top, 1.0) >= f64::from(min_p));
    kept.sort_unstable_by_key(|candidate| candidate.id);
}

/// Keeps the most likely candidates that together reach the share `top_p` of `total`, the weight of
/// all tokens to within [`SUM_ERROR`], or of the candidates if it is `None`. Returns false if all of
/// them do not reach it.
fn keep_top_p(kept: &mut Vec<Candidate>, top: f32, top_p: f32, total: Option<f64>) -> bool {
    let weight = |candidate: &Candidate| weight(candidate.logit, top, 1.0);
    let share = f64::from(top_p);
    let mut left = match total {
        Some(total) => (share - SUM_ERROR) * total,
        None => share * kept.iter().map(weight).sum::<f64>(),
    };
    kept.sort_unstable_by(Candidate::before);
    let last = kept.iter().position(|candidate| {
        left -= weight(candidate);
        left <= 0.0
    });
    if let Some(last) = last {
        kept.truncate(last + 1);
    }
    last.is_some()
}

/// Draws from all tokens with the random number `random`. `sums` is a scratch buffer.
fn draw_from_all(
    logits: &[f32],
    top: f32,
    temperature: f32,
    random: f64,
    sums: &mut Vec<f64>,
) -> Option<u32> {
    simd::block_weights(logits, top, temperature, sums);
    let mut target = random * sums.iter().sum::<f64>();
    let found = sums.iter().position(|sum| {
        let is_here = target < *sum;
        target -= if is_here { 0.0 } else { *sum };
        is_here
    });
    // Rounding may leave the target behind the last block.
    let block = found.or_else(|| sums.iter().rposition(|sum| *sum > 0.0))?;
    let tokens = (0..)
        .zip(logits)
        .skip(block * simd::BLOCK)
        .take(simd::BLOCK);
    let weights = tokens.map(|(id, logit)| (id, weight(*logit, top, temperature)));
    // A target between the exact sum of the block and a greater one in f32 would choose the block's
    // last token, however unlikely that is.
    let exact = weights.clone().map(|(_, w)| w).filter(|w| *w > 0.0);
    choose(weights, target / sums[block] * exact.sum::<f64>())
}

/// Returns the first token with which the sum of weights exceeds `target`, or the last token with a
/// weight if rounding made the sum too small.
fn choose(weights: impl Iterator<Item = (u32, f64)>, mut target: f64) -> Option<u32> {
    let mut chosen = None;
    for (id, weight) in weights.filter(|(_, weight)| *weight > 0.0) {
        chosen = Some(id);
        target -= weight;
        if target < 0.0 {
            break;
        }
    }
    chosen
}

/// Returns the probability relative to a token whose logit is `top`.
fn weight(logit: f32, top: f32, temperature: f32) -> f64 {
    // The difference of two infinite logits would be NaN.
    if logit == top {
        return 1.0;
    }
    ((f64::from(logit) - f64::from(top)) / f64::from(temperature)).exp()
}

#[cfg(test)]
mod tests;
