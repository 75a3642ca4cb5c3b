//! The stack that decoder-only architectures share: embedding, blocks, norm, head.
//!
//! How a layer mixes tokens is behind a trait, since that is where architectures differ most. Rule:
//! a mixer knows the step and its own cache, nothing of other blocks.

use mlx_rs::{Array, Dtype, ops};

use super::{Embedding, Linear, Mlp, RmsNorm, Rope, Step, TokenGate, TokenTables};
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::ops::slice_axis;

/// A layer that lets tokens see others: attention, or a recurrent layer.
pub(crate) trait Mixer {
    /// `[1, tokens, hidden_size]` to the same shape; what later tokens need of these goes to
    /// `cache`, which is of the kind that [`Mixer::new_cache`] makes.
    fn forward(&self, x: &Array, step: &Step<'_>, cache: &mut LayerCache) -> MlxResult<Array>;

    /// An empty cache.
    fn new_cache(&self) -> LayerCache;

    /// Tokens that a token sees, itself included; `None` for all, or where that is not the
    /// question.
    fn window(&self) -> Option<i32>;
}

/// Mixer and feed-forward layer, each on a normalised input and added to the residual.
pub(crate) struct Block {
    pub(crate) mixer_norm: RmsNorm,
    pub(crate) mixer: Box<dyn Mixer>,
    /// Gemma normalises what a layer gives too.
    pub(crate) mixer_output_norm: Option<RmsNorm>,
    /// `None` where the layer normalises its inputs itself.
    pub(crate) mlp_norm: Option<RmsNorm>,
    pub(crate) mlp: Mlp,
    pub(crate) mlp_output_norm: Option<RmsNorm>,
    /// What the block takes from its own table of tokens (Gemma 4).
    pub(crate) token_gate: Option<TokenGate>,
    /// What the block's output is multiplied by (Gemma 4).
    pub(crate) output_scale: Option<Array>,
}

/// A whole model.
pub(crate) struct Transformer {
    pub(crate) embedding: Embedding,
    /// What embeddings are multiplied by (Gemma).
    pub(crate) embedding_scale: Option<f32>,
    /// A table of tokens for each block (Gemma 4).
    pub(crate) token_tables: Option<TokenTables>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) norm: RmsNorm,
    /// `None` where the head is tied to the embedding.
    pub(crate) head: Option<Linear>,
    /// Logits are bent into plus and minus this (Gemma 2 and 4).
    pub(crate) logit_cap: Option<f32>,
    /// Rotary embeddings, which layers name by their number.
    pub(crate) ropes: Vec<Rope>,
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

impl Block {
    /// A block as Llama has it.
    pub(crate) fn new(
        mixer_norm: RmsNorm,
        mixer: impl Mixer + 'static,
        mlp_norm: RmsNorm,
        mlp: impl Into<Mlp>,
    ) -> Self {
        Self::boxed(mixer_norm, Box::new(mixer), mlp_norm, mlp)
    }

    /// A block whose feed-forward half normalises its inputs itself.
    pub(crate) fn without_mlp_norm(
        mixer_norm: RmsNorm,
        mixer: impl Mixer + 'static,
        mlp: impl Into<Mlp>,
    ) -> Self {
        Self {
            mixer_norm,
            mixer: Box::new(mixer),
            mixer_output_norm: None,
            mlp_norm: None,
            mlp: mlp.into(),
            mlp_output_norm: None,
            token_gate: None,
            output_scale: None,
        }
    }

    /// As [`Block::new`], for models whose layers mix in different ways.
    pub(crate) fn boxed(
        mixer_norm: RmsNorm,
        mixer: Box<dyn Mixer>,
        mlp_norm: RmsNorm,
        mlp: impl Into<Mlp>,
    ) -> Self {
        Self {
            mixer_norm,
            mixer,
            mixer_output_norm: None,
            mlp_norm: Some(mlp_norm),
            mlp: mlp.into(),
            mlp_output_norm: None,
            token_gate: None,
            output_scale: None,
        }
    }

    /// `token` is what this block's table has for each token, `[1, tokens, width]`.
    fn forward(
        &self,
        x: &Array,
        token: Option<&Array>,
        step: &Step<'_>,
        cache: &mut LayerCache,
    ) -> MlxResult<Array> {
        let mixed = self
            .mixer
            .forward(&self.mixer_norm.forward(x)?, step, cache)?;
        let x = added(x, &mixed, self.mixer_output_norm.as_ref())?;
        let fed = match &self.mlp_norm {
            Some(norm) => self.mlp.forward(&norm.forward(&x)?)?,
            None => self.mlp.forward(&x)?,
        };
        let mut x = added(&x, &fed, self.mlp_output_norm.as_ref())?;
        if let (Some(gate), Some(token)) = (&self.token_gate, token) {
            x = x.add(gate.forward(&x, token)?)?;
        }
        match &self.output_scale {
            Some(scale) => x.multiply(scale),
            None => Ok(x),
        }
    }
}

fn added(x: &Array, more: &Array, norm: Option<&RmsNorm>) -> MlxResult<Array> {
    match norm {
        Some(norm) => clipped_sum(x, &norm.forward(more)?),
        None => x.add(more),
    }
}

/// Gemma's residuals outgrow f16, so there a sum stops at its largest number.
fn clipped_sum(x: &Array, y: &Array) -> MlxResult<Array> {
    const MAX: f32 = 65504.0;
    if x.dtype() != Dtype::Float16 {
        return x.add(y);
    }
    let sum = x
        .as_dtype(Dtype::Float32)?
        .add(y.as_dtype(Dtype::Float32)?)?;
    ops::minimum(
        ops::maximum(sum, Array::from_f32(-MAX))?,
        Array::from_f32(MAX),
    )?
    .as_dtype(Dtype::Float16)
}

impl Transformer {
    /// An empty cache for each block.
    pub(crate) fn new_cache(&self) -> Vec<LayerCache> {
        self.blocks
            .iter()
            .map(|block| block.mixer.new_cache())
            .collect()
    }

    /// Processes `tokens` `[tokens]` after those in `cache`. Nothing is computed until the result
    /// or the cache is evaluated.
    pub(crate) fn forward(
        &self,
        tokens: &Array,
        cache: &mut [LayerCache],
        wanted: Wanted,
    ) -> MlxResult<Array> {
        let n_tokens = tokens.dim(0);
        let offset = cache.first().map_or(0, LayerCache::n_tokens);
        let mut windows: Vec<_> = self
            .blocks
            .iter()
            .map(|block| block.mixer.window())
            .collect();
        windows.sort_unstable();
        windows.dedup();
        let step = Step::new(&self.ropes, &windows, offset, n_tokens, self.on_cpu);
        let mut x = self.embedding.forward(tokens)?;
        if let Some(scale) = self.embedding_scale {
            x = x.multiply(Array::from_f32(scale).as_dtype(x.dtype())?)?;
        }
        let of_blocks = match &self.token_tables {
            Some(tables) => tables.forward(tokens, &x)?,
            None => Vec::new(),
        };
        for (number, (block, cache)) in self.blocks.iter().zip(cache).enumerate() {
            x = block.forward(&x, of_blocks.get(number), &step, cache)?;
        }
        if wanted == Wanted::LastLogits && n_tokens > 1 {
            x = slice_axis(&x, 1, n_tokens - 1, n_tokens)?;
        }
        let x = self.norm.forward(&x)?;
        let mut logits = match &self.head {
            Some(head) => head.forward(&x)?,
            None => self.embedding.logits(&x)?,
        };
        if let Some(cap) = self.logit_cap {
            let cap = Array::from_f32(cap).as_dtype(logits.dtype())?;
            logits = ops::tanh(logits.divide(&cap)?)?.multiply(&cap)?;
        }
        logits.squeeze_axes(&[0])
    }
}
