//! The stack that decoder-only architectures share: embedding, blocks, norm, head.

use mlx_rs::Array;

use super::{Attention, Embedding, GatedMlp, Linear, RmsNorm, Rope};
use crate::error::MlxResult;
use crate::kv_cache::FullKvCache;
use crate::ops::slice_axis;

/// Attention and feed-forward layer, each on a normalised input and added to the residual.
pub(crate) struct Block {
    pub(crate) attention_norm: RmsNorm,
    pub(crate) attention: Attention,
    pub(crate) mlp_norm: RmsNorm,
    pub(crate) mlp: GatedMlp,
}

/// A model whose blocks are all alike.
pub(crate) struct Transformer {
    pub(crate) embedding: Embedding,
    pub(crate) blocks: Vec<Block>,
    pub(crate) norm: RmsNorm,
    /// `None` where the head is tied to the embedding.
    pub(crate) head: Option<Linear>,
    pub(crate) rope: Rope,
    pub(crate) on_cpu: bool,
}

/// What a step is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Logits of the last token, `[1, vocab_size]`.
    LastLogits,
    /// Logits of every token, `[tokens, vocab_size]`; for parity tests.
    AllLogits,
}

impl Transformer {
    /// An empty KV cache for each block.
    pub(crate) fn new_cache(&self) -> Vec<FullKvCache> {
        self.blocks.iter().map(|_| FullKvCache::default()).collect()
    }

    /// Processes `tokens` `[tokens]` after those in `cache`. Nothing is computed until the result
    /// or the cache is evaluated.
    pub(crate) fn forward(
        &self,
        tokens: &Array,
        cache: &mut [FullKvCache],
        wanted: Wanted,
    ) -> MlxResult<Array> {
        let n_tokens = tokens.dim(0);
        let offset = cache.first().map_or(0, FullKvCache::n_tokens);
        let rotation = self.rope.at(offset, n_tokens);
        let mask = (self.on_cpu && n_tokens > 1).then(|| causal_mask(offset, n_tokens));
        let mut x = self.embedding.forward(tokens)?;
        for (block, cache) in self.blocks.iter().zip(cache) {
            let attended = block.attention.forward(
                &block.attention_norm.forward(&x)?,
                &self.rope,
                &rotation,
                mask.as_ref(),
                cache,
            )?;
            x = x.add(attended)?;
            x = x.add(block.mlp.forward(&block.mlp_norm.forward(&x)?)?)?;
        }
        if wanted == Wanted::LastLogits && n_tokens > 1 {
            x = slice_axis(&x, 1, n_tokens - 1, n_tokens)?;
        }
        let x = self.norm.forward(&x)?;
        let logits = match &self.head {
            Some(head) => head.forward(&x)?,
            None => self.embedding.logits(&x)?,
        };
        logits.squeeze_axes(&[0])
    }
}

/// 0 where a token may look, minus infinity where it may not: `[tokens, offset + tokens]`.
fn causal_mask(offset: i32, n_tokens: i32) -> Array {
    let n_keys = offset + n_tokens;
    let mask: Vec<f32> = (0..n_tokens)
        .flat_map(|token| {
            (0..n_keys).map(move |key| {
                if key <= offset + token {
                    0.0
                } else {
                    f32::NEG_INFINITY
                }
            })
        })
        .collect();
    Array::from_slice(&mask, &[n_tokens, n_keys])
}
