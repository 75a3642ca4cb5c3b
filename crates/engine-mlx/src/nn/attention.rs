//! Grouped-query attention (Ainslie et al. 2023) over a KV cache, with the options of the supported
//! models: sliding windows, attention sinks, head norms, gates, layers without position embedding.

use mlx_rs::{Array, fast, ops};
use transom_engine::EngineError;

use super::{Linear, LinearGroup, Mixer, NormWeights, QueryScale, Sdpa, Step};
use crate::error::{Context, MlxResult};
use crate::kv_cache::LayerCache;
use crate::ops::slice_axis;
use crate::weights::Loader;

/// Sizes of an attention layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttentionShape {
    /// Features of the hidden state.
    pub(crate) hidden_size: i32,
    /// Query heads.
    pub(crate) n_heads: i32,
    /// Key and value heads; divides `n_heads`.
    pub(crate) n_kv_heads: i32,
    /// Features per head.
    pub(crate) head_dim: i32,
}

/// Normalizes each head's queries and keys before they are rotated (Qwen3, Gemma3).
#[derive(Debug)]
struct HeadNorm {
    /// `[n_heads + n_kv_heads, 1, head_dim]`: queries first.
    weight: Array,
    epsilon: f32,
}

/// An attention layer.
#[derive(Debug)]
pub(crate) struct Attention {
    qkv: LinearGroup,
    output: Linear,
    norm: Option<HeadNorm>,
    /// Whether the query projection also computes a gate for each head's output.
    is_gated: bool,
    sdpa: Sdpa,
    window: Option<i32>,
    /// Index of the rotary embedding in the model; `None` for a layer without position embedding.
    rope: Option<usize>,
    query_scale: Option<QueryScale>,
}

impl Attention {
    /// Loads the layer at `path` with the tensors `q_proj`, `k_proj`, `v_proj` (or `qkv_proj`,
    /// which contains all three) and `o_proj`. The layer has full attention and the model's first
    /// rope.
    pub(crate) fn load(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
    ) -> Result<Self, EngineError> {
        Self::load_any(loader, path, shape, false)
    }

    /// Loads a layer whose output passes a gate, which `q_proj` computes together with each head's
    /// query (Qwen3-Next); otherwise as [`Attention::load`].
    pub(crate) fn load_gated(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
    ) -> Result<Self, EngineError> {
        Self::load_any(loader, path, shape, true)
    }

    fn load_any(
        loader: &mut Loader<'_>,
        path: &str,
        shape: AttentionShape,
        is_gated: bool,
    ) -> Result<Self, EngineError> {
        let n_attended = shape.n_heads * shape.head_dim;
        let n_queries = if is_gated { 2 * n_attended } else { n_attended };
        let n_keys = shape.n_kv_heads * shape.head_dim;
        let fused = format!("{path}.qkv_proj");
        let qkv = if loader.contains(&format!("{fused}.weight")) {
            LinearGroup::Fused(loader.linear(&fused, shape.hidden_size, n_queries + 2 * n_keys)?)
        } else {
            let paths = ["q_proj", "k_proj", "v_proj"].map(|name| format!("{path}.{name}"));
            loader.linear_group(&paths, shape.hidden_size, &[n_queries, n_keys, n_keys])?
        };
        let output = loader.linear(&format!("{path}.o_proj"), n_attended, shape.hidden_size)?;
        Ok(Self {
            qkv,
            output,
            norm: None,
            is_gated,
            sdpa: Sdpa::new(shape, loader.compute().is_cpu()),
            window: None,
            rope: Some(0),
            query_scale: None,
        })
    }

    /// Normalizes each head's queries and keys with the norms `q_norm` and `k_norm` at `path`.
    pub(crate) fn with_head_norms(
        mut self,
        loader: &mut Loader<'_>,
        path: &str,
        stored: NormWeights,
        epsilon: f32,
    ) -> Result<Self, EngineError> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            head_dim,
            ..
        } = self.sdpa.shape;
        let queries = stored.load(loader, &format!("{path}.q_norm"), head_dim)?;
        let keys = stored.load(loader, &format!("{path}.k_norm"), head_dim)?;
        let rows = |weight: &Array, n: i32| ops::broadcast_to(weight, &[n, 1, head_dim]);
        let weight = rows(&queries, n_heads)
            .and_then(|queries| ops::concatenate(&[queries, rows(&keys, n_kv_heads)?], 0))
            .during(path)?;
        weight.eval().during(path)?;
        self.norm = Some(HeadNorm { weight, epsilon });
        Ok(self)
    }

    /// Gives every head an attention sink: one more logit per head, `[n_heads]`, that has no value
    /// (Xiao et al. 2023; gpt-oss).
    pub(crate) fn with_sinks(
        mut self,
        loader: &mut Loader<'_>,
        path: &str,
    ) -> Result<Self, EngineError> {
        let sinks = loader.vector(&format!("{path}.sinks"), self.sdpa.shape.n_heads)?;
        sinks.eval().during(path)?;
        self.sdpa.sinks = Some(sinks);
        Ok(self)
    }

    /// Scales queries by their position.
    #[must_use]
    pub(crate) fn with_query_scale(mut self, scale: Option<QueryScale>) -> Self {
        self.query_scale = scale;
        self
    }

    /// Lets each token attend only to the last `window` tokens, itself included.
    #[must_use]
    pub(crate) fn with_window(mut self, window: Option<i32>) -> Self {
        self.window = window;
        self
    }

    /// Rotates queries and keys by the model's rotary embedding with this index, or by none.
    #[must_use]
    pub(crate) fn with_rope(mut self, rope: Option<usize>) -> Self {
        self.rope = rope;
        self
    }

    /// Multiplies the products of queries and keys by `scale` in place of `1 / sqrt(head_dim)`.
    #[must_use]
    pub(crate) fn with_scale(mut self, scale: f32) -> Self {
        self.sdpa.scale = scale;
        self
    }

    /// Returns queries, keys and values side by side, `[1, tokens, heads, head_dim]`, and the gates
    /// `[1, tokens, features]`.
    fn project(&self, x: &Array) -> MlxResult<(Array, Option<Array>)> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            head_dim,
            ..
        } = self.sdpa.shape;
        let n_tokens = x.dim(1);
        let all = self.qkv.forward(x)?;
        if !self.is_gated {
            let all = all.reshape(&[1, n_tokens, n_heads + 2 * n_kv_heads, head_dim])?;
            return Ok((all, None));
        }
        let n_features = n_heads * head_dim;
        let pairs = slice_axis(&all, 2, 0, 2 * n_features)?;
        let pairs = pairs.reshape(&[1, n_tokens, n_heads, 2 * head_dim])?;
        let queries = slice_axis(&pairs, 3, 0, head_dim)?;
        let gates = slice_axis(&pairs, 3, head_dim, 2 * head_dim)?;
        let rest = slice_axis(&all, 2, 2 * n_features, all.dim(2))?;
        let rest = rest.reshape(&[1, n_tokens, 2 * n_kv_heads, head_dim])?;
        Ok((
            ops::concatenate(&[&queries, &rest], 2)?,
            Some(gates.reshape(&[1, n_tokens, n_features])?),
        ))
    }

    /// Returns queries, keys and values, `[1, heads, tokens, head_dim]` each, and the gates.
    fn queries_keys_values(
        &self,
        x: &Array,
        step: &Step<'_>,
    ) -> MlxResult<([Array; 3], Option<Array>)> {
        let AttentionShape {
            n_heads,
            n_kv_heads,
            ..
        } = self.sdpa.shape;
        let n_rotated = n_heads + n_kv_heads;
        // Queries and keys stay in one array until they are rotated, which halves the operations.
        let (all, gates) = self.project(x)?;
        let all = all.transpose_axes(&[0, 2, 1, 3])?;
        let mut rotated = slice_axis(&all, 1, 0, n_rotated)?;
        let values = slice_axis(&all, 1, n_rotated, n_rotated + n_kv_heads)?;
        if let Some(norm) = &self.norm {
            rotated = fast::rms_norm(&rotated, None, norm.epsilon)?.multiply(&norm.weight)?;
        }
        if let Some(rope) = self.rope {
            rotated = step.rotate(rope, &rotated)?;
        }
        let mut queries = slice_axis(&rotated, 1, 0, n_heads)?;
        if let Some(scale) = self.query_scale {
            queries = scale.apply(queries, step)?;
        }
        let keys = slice_axis(&rotated, 1, n_heads, n_rotated)?;
        Ok(([queries, keys, values], gates))
    }
}

impl Mixer for Attention {
    fn forward(&self, x: &Array, step: &Step<'_>, cache: &mut LayerCache) -> MlxResult<Array> {
        let ([queries, keys, values], gates) = self.queries_keys_values(x, step)?;
        let (keys, values) = cache.append(&keys, &values)?;
        let mask = step.mask(self.window);
        let attended = self.sdpa.forward(&queries, &keys, &values, mask)?;
        match gates {
            Some(gates) => self
                .output
                .forward(&attended.multiply(ops::sigmoid(gates)?)?),
            None => self.output.forward(&attended),
        }
    }

    fn new_cache(&self) -> LayerCache {
        LayerCache::for_attention(self.window)
    }
}
