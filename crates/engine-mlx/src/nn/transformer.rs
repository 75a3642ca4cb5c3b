//! The parts that all decoder-only models share: embedding, layers, last norm, output head.
//!
//! Architectures differ in their layers, which are behind the trait [`Layers`]. `models/llama.rs`
//! has those of most architectures.

use mlx_rs::error::Exception;
use mlx_rs::{Array, ops};

use super::{LayerQueue, RmsNorm, Rope, Step};
use crate::error::MlxResult;
use crate::kv_cache::LayerCache;
use crate::linear::{Linear, Matrix};
use crate::ops::slice_axis;

/// The layers of a model, from the embeddings to the last norm.
pub(crate) trait Layers {
    /// Returns the output of the last layer, `[1, tokens, hidden_size]`, for `tokens` `[tokens]`
    /// with the embeddings `x` `[1, tokens, hidden_size]`. `sequences` has the caches of each sequence
    /// of the step, in which each layer stores what later tokens need from these. The outputs of all layers
    /// pass a [`LayerQueue`].
    fn forward(
        &self,
        tokens: &Array,
        x: Array,
        step: &Step<'_>,
        sequences: &mut [&mut [LayerCache]],
    ) -> MlxResult<Array>;

    /// Returns an empty cache for each layer of a sequence.
    fn new_caches(&self) -> Vec<LayerCache>;
}

/// A layer with a cache, or the part of a layer that needs one: attention or recurrence.
///
/// Rule: it knows the step and its own caches, and nothing of other layers.
pub(crate) trait CachedLayer {
    /// Maps `[1, tokens, hidden_size]` to the same shape. Stores in `caches`, one for each sequence of
    /// the step from [`CachedLayer::new_cache`], what later tokens need.
    fn forward(
        &self,
        x: &Array,
        step: &Step<'_>,
        caches: &mut [&mut LayerCache],
    ) -> MlxResult<Array>;

    fn new_cache(&self) -> LayerCache;
}

/// Layers that depend only on the output of the layer before them.
impl<L: CachedLayer> Layers for Vec<L> {
    fn forward(
        &self,
        _: &Array,
        mut x: Array,
        step: &Step<'_>,
        sequences: &mut [&mut [LayerCache]],
    ) -> MlxResult<Array> {
        let mut queue = LayerQueue::new(self.len(), &x, step, sequences)?;
        for (index, layer) in self.iter().enumerate() {
            x = layer.forward(&x, step, &mut of_layer(sequences, index))?;
            queue.push(&x)?;
        }
        Ok(x)
    }

    fn new_caches(&self) -> Vec<LayerCache> {
        self.iter().map(CachedLayer::new_cache).collect()
    }
}

/// Returns the cache that the layer `index` has for each sequence.
pub(crate) fn of_layer<'a>(
    sequences: &'a mut [&mut [LayerCache]],
    index: usize,
) -> Vec<&'a mut LayerCache> {
    let caches = sequences.iter_mut();
    caches.map(|caches| &mut caches[index]).collect()
}

pub(crate) struct Transformer {
    /// The table `[vocab_size, hidden_size]`.
    pub(crate) embedding: Matrix,
    /// Factor of the embeddings (Gemma).
    pub(crate) embedding_scale: Option<f32>,
    pub(crate) layers: Box<dyn Layers>,
    pub(crate) norm: RmsNorm,
    /// The output head; `None` if it shares the embedding table.
    pub(crate) lm_head: Option<Linear>,
    /// Bound of the logits, `cap * tanh(logits / cap)` (Gemma 2 and 4).
    pub(crate) logit_softcap: Option<f32>,
    /// Rotary embeddings, which layers select by index.
    pub(crate) ropes: Vec<Rope>,
    pub(crate) on_cpu: bool,
    /// Whether parked and saved conversations have the keys and values of complete blocks in 8 bits.
    pub(crate) quantizes_parked: bool,
}

/// The tokens of a step whose hidden states or logits are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Positions {
    /// The last one of each sequence.
    Last,
    All,
}

impl Transformer {
    pub(crate) fn new_caches(&self) -> Vec<LayerCache> {
        self.layers.new_caches()
    }

    /// Returns the logits that follow `tokens` `[tokens]`, `[sequences, vocab_size]` for the last
    /// position or `[tokens, vocab_size]` for all, and appends the tokens to the caches of `sequences`:
    /// all to those of one, or one to those of each. The last layers are not computed until the result or
    /// the caches are evaluated, and in a short step none is.
    pub(crate) fn logits(
        &self,
        tokens: &Array,
        sequences: &mut [&mut [LayerCache]],
        positions: Positions,
    ) -> MlxResult<Array> {
        let hidden = self.hidden_states(tokens, sequences, positions)?;
        self.unembed(&hidden)
    }

    /// Returns the scaled embeddings of `tokens` `[tokens]`, `[1, tokens, hidden_size]`.
    fn embed(&self, tokens: &Array) -> MlxResult<Array> {
        let x = self.embedding.embed(tokens)?;
        match self.embedding_scale {
            Some(scale) => x.multiply(Array::from_f32(scale).as_dtype(x.dtype())?),
            None => Ok(x),
        }
    }

    /// Returns the normalized hidden states after the last layer, `[1, positions, hidden_size]`,
    /// and appends `tokens` `[tokens]` to the caches of `sequences`, as [`Transformer::logits`] does.
    pub(crate) fn hidden_states(
        &self,
        tokens: &Array,
        sequences: &mut [&mut [LayerCache]],
        positions: Positions,
    ) -> MlxResult<Array> {
        let n_tokens = match sequences.len() {
            1 => tokens.dim(0),
            n if n == tokens.size() => 1,
            _ => return Err(Exception::custom("a step has one token of each sequence")),
        };
        let offset = |caches: &[LayerCache]| caches.first().map_or(0, LayerCache::n_tokens);
        let offsets = sequences.iter().map(|caches| offset(caches)).collect();
        let caches = sequences
            .first()
            .into_iter()
            .flat_map(|caches| caches.iter());
        let mut windows: Vec<_> = caches.map(LayerCache::window).collect();
        windows.sort_unstable();
        windows.dedup();
        let step = Step::new(&self.ropes, &windows, offsets, n_tokens, self.on_cpu)?;
        let x = self.embed(tokens)?;
        let mut x = self.layers.forward(tokens, x, &step, sequences)?;
        if positions == Positions::Last && n_tokens > 1 {
            x = slice_axis(&x, 1, n_tokens - 1, n_tokens)?;
        }
        self.norm.forward(&x)
    }

    /// Returns the logits `[positions, vocab_size]` of hidden states `[1, positions, hidden_size]`.
    fn unembed(&self, hidden: &Array) -> MlxResult<Array> {
        let mut logits = match &self.lm_head {
            Some(lm_head) => lm_head.forward(hidden)?,
            None => self.embedding.product(hidden)?,
        };
        if let Some(softcap) = self.logit_softcap {
            let softcap = Array::from_f32(softcap).as_dtype(logits.dtype())?;
            logits = ops::tanh(logits.divide(&softcap)?)?.multiply(&softcap)?;
        }
        logits.squeeze_axes(&[0])
    }
}
