//! Samples the next token inside the graph, so that a step can be queued before the CPU knows the
//! token of the previous step.
//!
//! [`SamplingParams`] defines the parameters and their order. The tests compare the samples with the
//! reference distribution of the engine crate.

use mlx_rs::ops::indexing::{argmax_axis, scatter_add_single, take_along_axis};
use mlx_rs::{Array, Dtype, ops, random};
use transom_engine::{SamplingParams, TokenMask};

use crate::error::MlxResult;
use crate::ops::{bitwise_and, slice_axis};

#[derive(Debug)]
pub(crate) struct Sampler {
    params: SamplingParams,
    seed: u64,
    n_sampled: u64,
    /// `[1, vocab_size]`, added to the logits.
    bias: Option<Array>,
    /// `[1, vocab_size]`: how often each token is in the prompt and the response.
    seen: Option<Array>,
    /// `[1, vocab_size]`: how often each token was generated.
    generated: Option<Array>,
    /// Masks on the device, the newest first. Most tokens of a string have the same one, and making it
    /// there takes longer than using it.
    masks: Vec<DeviceMask>,
}

/// How many masks stay on the device: those of strings, numbers, and what is between them. A string of
/// limited length has one for each number of characters that are left. Together they take 5 MB for a
/// vocabulary of 150,000 tokens.
const MAX_MASKS: usize = 32;

/// A set of allowed tokens on the device.
#[derive(Debug)]
struct DeviceMask {
    words: Vec<u32>,
    /// `[1, vocab_size]`, true where a token is allowed.
    is_allowed: Array,
    /// Minus infinity in the type of the logits.
    excluded: Array,
}

impl Sampler {
    /// Returns a sampler for the response to `prompt`. The parameters must be valid.
    pub(crate) fn new(params: &SamplingParams, prompt: &[u32], vocab_size: usize) -> Self {
        let counts = |tokens: &[u32]| {
            let mut counts = vec![0.0_f32; vocab_size];
            for &token in tokens {
                counts[token as usize] += 1.0;
            }
            row(&counts)
        };
        let bias = (!params.logit_bias.is_empty()).then(|| {
            let mut bias = vec![0.0_f32; vocab_size];
            for &(token, value) in &params.logit_bias {
                let sum = bias[token as usize] + value;
                bias[token as usize] = sum.clamp(f32::MIN, f32::MAX);
            }
            row(&bias)
        });
        let penalizes_generated = params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
        Self {
            seed: params.seed.unwrap_or_else(random_seed),
            n_sampled: 0,
            bias,
            seen: (params.repetition_penalty != 1.0).then(|| counts(prompt)),
            generated: penalizes_generated.then(|| counts(&[])),
            masks: Vec::new(),
            params: params.clone(),
        }
    }

    /// Samples a token from logits `[1, vocab_size]`; returns a lazy `[1]` of `u32`.
    #[cfg(test)]
    pub(crate) fn sample(&mut self, logits: &Array) -> MlxResult<Array> {
        self.sample_from(logits, None)
    }

    /// Samples a token in `allowed`, or any token if it is `None`, from logits `[1, vocab_size]`;
    /// returns a lazy `[1]` of `u32`.
    pub(crate) fn sample_from(
        &mut self,
        logits: &Array,
        allowed: Option<&TokenMask>,
    ) -> MlxResult<Array> {
        let masked = allowed.map(|allowed| self.exclude_others(logits, allowed));
        let masked = masked.transpose()?;
        let logits = masked.as_ref().unwrap_or(logits);
        let logits = self.penalize(logits)?;
        let token = if self.params.is_greedy() {
            argmax_axis(&logits, -1, false)?
        } else {
            self.draw(&logits)?
        };
        self.record(&token)?;
        self.n_sampled += 1;
        Ok(token)
    }

    /// Makes all tokens but those in `allowed` impossible.
    fn exclude_others(&mut self, logits: &Array, allowed: &TokenMask) -> MlxResult<Array> {
        let words = allowed.words();
        let known = self.masks.iter().position(|mask| mask.words == words);
        let mask = match known {
            Some(index) => self.masks.remove(index),
            None => DeviceMask::new(words, logits)?,
        };
        let masked = ops::select(&mask.is_allowed, logits, &mask.excluded)?;
        self.masks.truncate(MAX_MASKS - 1);
        self.masks.insert(0, mask);
        Ok(masked)
    }

    fn penalize(&self, logits: &Array) -> MlxResult<Array> {
        let mut logits = if self.params.is_greedy() && self.bias.is_none() {
            logits.clone()
        } else {
            logits.as_dtype(Dtype::Float32)?
        };
        if let Some(bias) = &self.bias {
            logits = logits.add(bias)?;
        }
        if let Some(seen) = &self.seen {
            let zero = Array::from_f32(0.0);
            let penalty = Array::from_f32(self.params.repetition_penalty);
            let penalized = ops::select(
                logits.gt(&zero)?,
                logits.divide(&penalty)?,
                logits.multiply(&penalty)?,
            )?;
            logits = ops::select(seen.gt(&zero)?, penalized, &logits)?;
        }
        if let Some(generated) = &self.generated {
            let presence = generated
                .gt(Array::from_f32(0.0))?
                .as_dtype(Dtype::Float32)?
                .multiply(Array::from_f32(self.params.presence_penalty))?;
            let frequency = generated.multiply(Array::from_f32(self.params.frequency_penalty))?;
            logits = logits.subtract(presence)?.subtract(frequency)?;
        }
        Ok(logits)
    }

    fn draw(&self, logits: &Array) -> MlxResult<Array> {
        let vocab_size = logits.dim(-1);
        let SamplingParams {
            temperature,
            top_k,
            top_p,
            min_p,
            ..
        } = self.params;
        // Relative to the highest logit, so that no temperature makes them overflow. Logits that a
        // bias or a penalty made infinite become the largest number.
        let bounds = (Array::from_f32(f32::MIN), Array::from_f32(f32::MAX));
        let mut logits = ops::clip(logits, (&bounds.0, &bounds.1))?;
        logits = logits.subtract(ops::max_axis(&logits, -1, true)?)?;
        // The token ids of the remaining logits; `None` if they are the whole vocabulary.
        let mut ids: Option<Array> = None;
        let top_k = i32::try_from(top_k).unwrap_or(i32::MAX);
        if 0 < top_k && top_k < vocab_size {
            let order = ops::argpartition_axis(logits.negative()?, top_k - 1, -1)?;
            let kept = slice_axis(&order, 1, 0, top_k)?;
            logits = take_along_axis(&logits, &kept, -1)?;
            ids = Some(kept);
        }
        if top_p < 1.0 {
            let order = ops::argsort_axis(logits.negative()?, -1)?;
            logits = take_along_axis(&logits, &order, -1)?;
            ids = Some(match ids {
                Some(ids) => take_along_axis(&ids, &order, -1)?,
                None => order,
            });
            // The probability of all likelier tokens, so that the token that reaches `top_p` stays.
            let probabilities = ops::softmax_axis(&logits, -1, true)?;
            let before = ops::cumsum(&probabilities, -1, false, true)?.subtract(&probabilities)?;
            // With a `top_p` of 0, the likeliest token stays.
            let top_p = Array::from_f32(top_p.max(f32::MIN_POSITIVE));
            logits = keep_where(before.lt(top_p)?, &logits)?;
        }
        if min_p > 0.0 {
            let floor = ops::max_axis(&logits, -1, true)?.add(Array::from_f32(min_p.ln()))?;
            logits = keep_where(logits.ge(floor)?, &logits)?;
        }
        // GPUs treat smaller numbers as 0.
        let temperature = temperature.max(f32::MIN_POSITIVE);
        let logits = logits.divide(Array::from_f32(temperature))?;
        let key = random::key(step_seed(self.seed, self.n_sampled))?;
        let sampled = random::categorical(&logits, -1, None, &key)?;
        match ids {
            Some(ids) => take_along_axis(&ids, sampled.reshape(&[1, 1])?, -1)?
                .reshape(&[1])?
                .as_dtype(Dtype::Uint32),
            None => Ok(sampled),
        }
    }

    /// Counts tokens of the response that were not sampled.
    pub(crate) fn record_known(&mut self, tokens: &[u32]) -> MlxResult<()> {
        if self.seen.is_none() && self.generated.is_none() {
            return Ok(());
        }
        let mut tokens = tokens.iter();
        tokens.try_for_each(|token| self.record(&Array::from_slice(&[*token], &[1])))
    }

    fn record(&mut self, token: &Array) -> MlxResult<()> {
        for counts in [&mut self.seen, &mut self.generated].into_iter().flatten() {
            let one = Array::from_slice(&[1.0_f32], &[1, 1, 1]);
            *counts = scatter_add_single(&*counts, token, &one, 1)?;
        }
        Ok(())
    }
}

impl DeviceMask {
    /// Returns the set for logits like these. Its bits travel to the device as words and become one
    /// value per token there.
    fn new(words: &[u32], logits: &Array) -> MlxResult<Self> {
        let vocab_size = logits.dim(-1);
        let mut all_words = words.to_vec();
        all_words.resize((vocab_size as usize).div_ceil(32), 0);
        let powers: Vec<u32> = (0..32).map(|bit| 1 << bit).collect();
        let n_words = all_words.len() as i32;
        let all_words = Array::from_slice(&all_words, &[n_words, 1]);
        let powers = Array::from_slice(&powers, &[1, 32]);
        let bits = bitwise_and(&all_words, &powers)?.reshape(&[1, n_words * 32])?;
        let bits = slice_axis(&bits, 1, 0, vocab_size)?;
        Ok(Self {
            words: words.to_vec(),
            is_allowed: bits.as_dtype(Dtype::Bool)?,
            excluded: Array::from_f32(f32::NEG_INFINITY).as_dtype(logits.dtype())?,
        })
    }
}

fn row(values: &[f32]) -> Array {
    Array::from_slice(values, &[1, values.len() as i32])
}

fn keep_where(condition: Array, logits: &Array) -> MlxResult<Array> {
    ops::select(condition, logits, Array::from_f32(f32::NEG_INFINITY))
}

/// Returns the seed of a step (SplitMix64, Steele et al. 2014), which depends only on the seed of
/// the response and the number of the step.
fn step_seed(seed: u64, step: u64) -> u64 {
    let mut z = seed.wrapping_add(step.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a seed from the random numbers of the standard library.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests;
