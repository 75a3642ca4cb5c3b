//! Draws tokens on the CPU from the reference distribution.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::EngineError;
use crate::sampling::SamplingParams;

/// Draws one token after another. The generator is ChaCha8, whose numbers are the same on every
/// platform and in every version, so a seed keeps its meaning.
#[derive(Debug, Clone)]
pub struct Sampler {
    params: SamplingParams,
    seed: u64,
    rng: ChaCha8Rng,
}

impl Sampler {
    /// A sampler for one answer. Without a seed in `params` one is drawn from the system.
    ///
    /// # Errors
    /// [`EngineError::Backend`] when the system has no random numbers to give.
    pub fn new(params: SamplingParams) -> Result<Self, EngineError> {
        let seed = match params.seed {
            Some(seed) => seed,
            None => ChaCha8Rng::try_from_os_rng()
                .map_err(|error| EngineError::Backend {
                    during: "drawing a seed".to_owned(),
                    message: error.to_string(),
                })?
                .next_u64(),
        };
        Ok(Self {
            params,
            seed,
            rng: ChaCha8Rng::seed_from_u64(seed),
        })
    }

    /// The seed in use: with it the answer can be had again.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Draws the next token's id from `logits` after `prompt` and `generated`; see
    /// [`SamplingParams::distribution`]. `None` for empty `logits`.
    pub fn draw(&mut self, logits: &[f32], prompt: &[u32], generated: &[u32]) -> Option<u32> {
        let probabilities = self.params.distribution(logits, prompt, generated);
        // 53 random bits: every f64 in [0, 1) that is a multiple of 2^-53, equally likely.
        let mut left = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
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
}

#[cfg(test)]
mod tests;
