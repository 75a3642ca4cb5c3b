//! Draws tokens on the CPU from the reference distribution.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::EngineError;
use crate::sampling::SamplingParams;

/// Draws one token after another. The generator is ChaCha8, whose numbers are the same on every
/// platform and in every version, so a seed keeps its meaning.
///
/// Each place of the answer has one random number: [`Sampler::draw`] changes nothing, and only
/// [`Sampler::accept`] moves on. So tokens that were guessed and rejected leave no trace, and a seed
/// gives the same answer however many places a step computes.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    seed: u64,
    rng: ChaCha8Rng,
    /// The random number of the next token, in [0, 1).
    random: f64,
    prompt: Vec<u32>,
    generated: Vec<u32>,
}

impl Sampler {
    /// A sampler for one answer after `prompt`. Without a seed in `params` one is drawn from the
    /// system.
    ///
    /// # Errors
    /// [`EngineError::Backend`] when the system has no random numbers to give.
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
        Ok(Self {
            params,
            seed,
            rng,
            random,
            prompt: prompt.to_vec(),
            generated: Vec::new(),
        })
    }

    /// The seed in use: with it the answer can be had again.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Draws the next token's id from `logits`, one for each token of the vocabulary; see
    /// [`SamplingParams::distribution`]. Drawing again gives the same token until one is accepted.
    /// `None` for empty `logits`.
    pub fn draw(&mut self, logits: &[f32]) -> Option<u32> {
        let probabilities = self
            .params
            .distribution(logits, &self.prompt, &self.generated);
        let mut left = self.random;
        let mut drawn = None;
        for (id, &p) in probabilities.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            drawn = u32::try_from(id).ok();
            left -= p;
            if left < 0.0 {
                break;
            }
        }
        drawn
    }

    /// Takes `token` into the answer: penalties count it from now on.
    pub fn accept(&mut self, token: u32) {
        self.generated.push(token);
        self.random = uniform(&mut self.rng);
    }
}

/// 53 random bits: every f64 in [0, 1) that is a multiple of 2^-53, equally likely.
fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests;
