//! Draws tokens on the CPU from the reference distribution, at a fraction of its cost.
//!
//! A vocabulary has 150,000 tokens, and next to none of them can come next. Passes in f32 over all
//! logits find a few candidates that are certain to hold every token that the filters keep; the
//! rest is the reference's own code over these few.
//!
//! Rule: the token is the one that the reference gives for the same random number, to the bit. What
//! is computed roughly comes with a bound on its error, and where that leaves a doubt, the exact sum
//! decides.

mod field;
mod scan;
mod touched;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::error::EngineError;
use crate::sampling::SamplingParams;
use crate::sampling::distribution::{Candidate, highest, weight};
use field::Field;
use touched::Touched;

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
    touched: Touched,
    room: Room,
}

/// Memory to work in, kept from token to token.
#[derive(Debug, Clone, Default)]
struct Room {
    logits: Vec<f32>,
    changed: Vec<Candidate>,
    kept: Vec<Candidate>,
    order: Vec<Candidate>,
    weights: Vec<f64>,
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
        let touched = Touched::new(&params, prompt);
        Ok(Self {
            params,
            seed,
            rng,
            random,
            touched,
            room: Room::default(),
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
        if logits.is_empty() {
            return None;
        }
        let room = &mut self.room;
        let others =
            self.touched
                .take_out(&self.params, logits, &mut room.logits, &mut room.changed);
        let field = Field {
            others,
            changed: &room.changed,
        };
        if self.params.is_greedy() {
            return Some(field.likeliest().map_or(0, |candidate| candidate.id));
        }
        if let Some(id) = field.draw(&self.params, self.random, &mut room.weights) {
            return Some(id);
        }
        field.keep(
            &self.params,
            &mut room.kept,
            &mut room.order,
            &mut room.weights,
        );
        let temperature = self.params.last_temperature();
        let drawn = draw(&room.kept, temperature, self.random, &mut room.weights);
        Some(drawn.unwrap_or(0))
    }

    /// Takes `token` into the answer: penalties count it from now on.
    pub fn accept(&mut self, token: u32) {
        self.touched.accept(&self.params, token);
        self.random = uniform(&mut self.rng);
    }
}

/// 53 random bits: every f64 in [0, 1) that is a multiple of 2^-53, equally likely.
fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Draws from `kept` with the random number `random`; `None` if there are none.
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
