//! Draws tokens on the CPU from the reference distribution, much faster than the reference.
//!
//! Only few of 150,000 tokens can come next. Passes in f32 over all logits find candidates that
//! certainly include every token that the filters keep; the reference's own code does the rest.
//!
//! Rule: the token equals the one that the reference gives for the same random number, to the bit.
//! Approximate values have an error bound, and where it leaves a doubt, the exact sum decides.

mod adjusted;
mod simd;
mod split_logits;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::EngineError;
use crate::sampling::SamplingParams;
use crate::sampling::distribution::{Candidate, highest, weight};
use adjusted::AdjustedTokens;
use split_logits::SplitLogits;

/// Draws the tokens of one response. The generator is ChaCha8, whose numbers are the same on every
/// platform and in every version, so a seed keeps its meaning.
///
/// Each position of the response has one random number: [`Sampler::draw`] changes nothing, and only
/// [`Sampler::accept`] advances. So rejected draft tokens change nothing, and a seed gives the same
/// response for any number of positions per step.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    seed: u64,
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
    changed: Vec<Candidate>,
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
                .map_err(|error| EngineError::Backend {
                    during: "drawing a seed".to_owned(),
                    message: error.to_string(),
                })?
                .next_u64(),
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let random = uniform(&mut rng);
        let adjusted = AdjustedTokens::new(&params, prompt);
        Ok(Self {
            params,
            seed,
            rng,
            random,
            adjusted,
            buffers: Buffers::default(),
        })
    }

    /// Returns the seed in use, with which the response can be reproduced.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Draws the next token's id from `logits`, one for each token of the vocabulary; see
    /// [`SamplingParams::distribution`]. Returns the same token until one is accepted. `None` for
    /// empty `logits`.
    pub fn draw(&mut self, logits: &[f32]) -> Option<u32> {
        if logits.is_empty() {
            return None;
        }
        let buffers = &mut self.buffers;
        let others = self.adjusted.split(
            &self.params,
            logits,
            &mut buffers.logits,
            &mut buffers.changed,
        );
        let split = SplitLogits {
            others,
            changed: &buffers.changed,
        };
        if self.params.is_greedy() {
            return Some(split.most_likely().map_or(0, |candidate| candidate.id));
        }
        if let Some(id) = split.draw(&self.params, self.random, &mut buffers.weights) {
            return Some(id);
        }
        split.keep(
            &self.params,
            &mut buffers.kept,
            &mut buffers.order,
            &mut buffers.weights,
        );
        let temperature = self.params.final_temperature();
        let drawn = draw(
            &buffers.kept,
            temperature,
            self.random,
            &mut buffers.weights,
        );
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
