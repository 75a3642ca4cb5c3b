//! The meaning of the sampling parameters, and the sampler on the CPU.
//!
//! Every engine's sampler must draw from the distribution that `test_support::distribution` computes.

mod sampler;
mod validate;

use serde::{Deserialize, Serialize};

pub use sampler::Sampler;

/// How the next token is chosen.
///
/// The order is fixed and the same in every engine: the tokens that a constraint allows, logit bias,
/// penalties, then the filters top-k, top-p and min-p on the model's own probabilities, then
/// temperature, then the draw. (llama.cpp's default order; mlx-lm likewise applies temperature last.)
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplingParams {
    /// Divides the logits that survive the filters. 0 always takes the most likely token after bias
    /// and penalties, the lowest id among equals.
    pub temperature: f32,
    /// Keeps the `top_k` most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the smallest set of most likely tokens whose probabilities, renormalized after top-k,
    /// reach `top_p`; at least one token. 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens at least `min_p` times as likely as the most likely one; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of tokens in the prompt or the response
    /// (Keskar et al. 2019, CTRL; as in transformers); 1 changes nothing. From 0.01 to 1,000,000.
    pub repetition_penalty: f32,
    /// Subtracted from the logit of every generated token (OpenAI); the prompt does not count. 0
    /// changes nothing.
    pub presence_penalty: f32,
    /// Subtracted once for each time that a token was generated (OpenAI); the prompt does not
    /// count. 0 changes nothing.
    pub frequency_penalty: f32,
    /// Added to the logits of these token ids before anything else. Repeated ids add up.
    pub logit_bias: Vec<(u32, f32)>,
    /// The same seed, prompt and parameters reproduce a response on the same machine with the same
    /// engine and build. Other engines generate other random numbers, and other builds or devices
    /// round differently. `None` uses a random seed.
    pub seed: Option<u64>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            temperature: 0.7,
            top_k: 0,
            top_p: 0.95,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: None,
        }
    }
}

#[cfg(test)]
mod tests;
