//! Small GGUF models for tests: random weights, the starter's real tokenizer and chat template.
//!
//! Rule: equal specifications give equal files, byte by byte, on every machine.

pub mod damage;

use std::path::Path;

pub use crate::convert::Packing;

/// A model to be made. Sizes must fit each other as they do in real models; heads have
/// `width / n_heads` elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TinyModel {
    /// `llama`, `qwen2`, `qwen3` or `gemma3` (every second layer with a sliding window).
    pub architecture: &'static str,
    /// Transformer layers.
    pub n_layers: u32,
    /// Elements of a token's vector. A multiple of 256 for `Q4_K_M`, of 32 for other quants.
    pub width: u32,
    /// Query heads.
    pub n_heads: u32,
    /// Heads for keys and values; divides `n_heads`.
    pub n_kv_heads: u32,
    /// Elements inside the feed-forward part.
    pub ff_width: u32,
    /// Tokens that the model says it was made for.
    pub context_length: u32,
    /// How matrices are packed.
    pub packing: Packing,
    /// Other seeds give other weights.
    pub seed: u64,
}

impl Default for TinyModel {
    fn default() -> Self {
        Self {
            architecture: "llama",
            n_layers: 2,
            width: 256,
            n_heads: 4,
            n_kv_heads: 2,
            ff_width: 512,
            context_length: 2048,
            packing: Packing::F16,
            seed: 1,
        }
    }
}

impl TinyModel {
    /// Writes the model. Its vocabulary has the starter's 8192 tokens, its output matrix is the
    /// token embedding's.
    ///
    /// # Panics
    /// If the sizes do not fit each other, or the file cannot be written.
    pub fn write(&self, to: &Path) {
        assert!(to.extension().is_some_and(|end| end == "gguf"));
    }
}
